"""Text decoders: the server's own characters, checked against it; no guess for the others."""

import itertools
from pathlib import Path

import pytest
from helpers.mysql import Database

from capstan.core.binlog import collations, single_byte_charsets
from capstan.core.binlog.charsets import decoder_for
from capstan.core.binlog.collations import CHARSET_OF_COLLATION, LONGEST_CHARACTER

UNPROVEN = {"big5", "eucjpms", "gb18030", "sjis", "ujis"}
ONE_BYTE = [bytes([code]) for code in range(256)]
TWO_BYTES = [bytes(pair) for pair in itertools.product(range(128, 256), range(256))]
UNITS = [code.to_bytes(2, "big") for code in range(1 << 16)]
PAIRS = [a + b for a in UNITS[0xD7F8:0xE008:64] for b in UNITS[0xD7F8:0xE008:64]]
UTF8_STEPS = (0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF)
UTF8 = [
    bytes([first, *rest])
    for first in range(0xC0, 0x100)
    for size in (1, 2, 3)
    for rest in itertools.product(UTF8_STEPS if size < 3 else UTF8_STEPS[2:9], repeat=size)
]
WIDE = [
    code.to_bytes(4, "big")
    for code in (*range(0, 0x11_0100, 997), 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0x10FFFF, 0x110000)
]
PROBES = {
    "utf8mb4": ONE_BYTE + UTF8,
    "utf8mb3": ONE_BYTE + UTF8,
    "ucs2": UNITS,
    "utf16": UNITS + PAIRS,
    "utf16le": [unit[::-1] for unit in UNITS] + [p[1::-1] + p[:1:-1] for p in PAIRS],
    "utf32": WIDE,
    "cp932": ONE_BYTE + TWO_BYTES,
    "euckr": ONE_BYTE + TWO_BYTES,
    "gb2312": ONE_BYTE + TWO_BYTES,
    "gbk": ONE_BYTE + TWO_BYTES,
}
"""Byte sequences to compare with the server; one byte each for the character sets not named."""


def servers_text(database: Database, charset: str, probes: list[bytes]) -> dict[bytes, str | None]:
    """The server's characters for each sequence; None where it refuses or replaces."""
    database.execute("CREATE TEMPORARY TABLE probes (id INT PRIMARY KEY, raw VARBINARY(8))")
    for start in range(0, len(probes), 8192):
        rows = ",".join(
            f"({start + place},0x{raw.hex()})"
            for place, raw in enumerate(probes[start : start + 8192])
        )
        database.execute(f"INSERT INTO probes VALUES {rows}")
    found = database.execute(
        f"SELECT id, HEX(CONVERT(CONVERT(raw USING {charset}) USING utf32)),"
        f" CONVERT(raw USING {charset}) IS NULL FROM probes"
    )
    database.execute("DROP TEMPORARY TABLE probes")
    return {probes[place]: _text(probes[place], raw, bad) for place, raw, bad in found}


def _text(probe: bytes, raw: str | None, refused: int) -> str | None:
    """A question mark that is not in the probe, and U+FFFD, are replacements."""
    text = bytes.fromhex(raw or "").decode("utf-32-be", "replace")
    replaced = ("?" in text and b"?" not in probe) or "\ufffd" in text
    return None if refused or replaced or not text else text


def ours(charset: str, probe: bytes) -> str | None:
    decoder = decoder_for(charset)
    assert decoder is not None
    try:
        return decoder(probe)
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize("charset", sorted(set(LONGEST_CHARACTER) - UNPROVEN - {"binary"}))
def test_every_decoder_gives_the_servers_characters(database, charset):
    """D27: equal wherever the server decodes; a failure wherever it would print a replacement."""
    probes = PROBES.get(charset, ONE_BYTE)
    expected = servers_text(database, charset, probes)
    assert len(expected) == len(probes)
    storable = [probe for probe in probes if expected[probe] is not None]
    assert storable
    wrong = [probe for probe in storable if ours(charset, probe) != expected[probe]]
    if charset == "ucs2":
        # The server stores lone surrogates there and prints them as nothing.
        wrong = [probe for probe in wrong if not 0xD8 <= probe[0] <= 0xDF]
    assert wrong == []


@pytest.mark.parametrize("charset", sorted(single_byte_charsets.TABLES))
def test_bytes_that_the_server_replaces_fail(database, charset):
    """D27: what the server itself cannot print without replacement halts."""
    expected = servers_text(database, charset, ONE_BYTE)
    assert [p for p in ONE_BYTE if (ours(charset, p) is None) != (expected[p] is None)] == []


@pytest.mark.parametrize("charset", sorted(UNPROVEN))
def test_a_character_set_without_a_proof_has_no_decoder(charset):
    """D27: Python's codec of the same name would be wrong in silence."""
    assert decoder_for(charset) is None


def test_collations_are_those_of_the_server(database):
    """D27: ids and character sets as information_schema lists them; an older server has fewer."""
    rows = database.execute("SELECT id, character_set_name FROM information_schema.collations")
    assert dict(rows).items() <= CHARSET_OF_COLLATION.items()
    sizes = database.execute(
        "SELECT character_set_name, maxlen FROM information_schema.character_sets"
    )
    assert dict(sizes).items() <= LONGEST_CHARACTER.items()


@pytest.mark.parametrize("module", [collations, single_byte_charsets])
def test_generated_tables_name_their_generator(module):
    """D27: the tables come from a server by a script of this project."""
    (script,) = [word for word in module.__doc__.split() if word.startswith("scripts/")]
    root = Path(__file__).parents[3]
    assert (root / script.rstrip(",")).is_file()
