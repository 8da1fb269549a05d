"""Text decoders: the server's own characters, checked against it; no guess for the others."""

import itertools
from pathlib import Path

import pytest
from helpers.mysql import Database

from capstan.core.binlog import collations, single_byte_charsets, wide_charset_differences
from capstan.core.binlog.charsets import decoder_for
from capstan.core.binlog.collations import CHARSET_OF_COLLATION, LONGEST_CHARACTER

ONE_BYTE = [bytes([code]) for code in range(256)]
TWO_BYTES = [bytes(pair) for pair in itertools.product(range(128, 256), range(256))]
THREE_BYTES = [b"\x8f" + bytes(pair) for pair in itertools.product(range(128, 256), range(256))]
DIGITS = range(0x30, 0x3A)
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
    **dict.fromkeys(
        ("big5", "cp932", "euckr", "gb18030", "gb2312", "gbk", "sjis"), ONE_BYTE + TWO_BYTES
    ),
    **dict.fromkeys(("eucjpms", "ujis"), ONE_BYTE + TWO_BYTES + THREE_BYTES),
}
"""Byte sequences to compare with the server; one byte each for the character sets not named."""


OWN_REPLACEMENT = {"gb18030", "ucs2", "utf16", "utf16le", "utf32", "utf8mb3", "utf8mb4"}
"""Character sets with U+FFFD as a character of their own."""


def servers_text(database: Database, charset: str, probes: list[bytes]) -> dict[bytes, str | None]:
    """The server's characters for each sequence; None where it refuses or replaces."""
    found: dict[bytes, str | None] = {}
    for start in range(0, len(probes), 8192):
        rows = ",".join(f"ROW(0x{raw.hex()})" for raw in probes[start : start + 8192])
        answers = database.execute(
            f"SELECT HEX(raw), HEX(CONVERT(CONVERT(raw USING {charset}) USING utf32))"
            f" FROM (VALUES {rows}) AS probes (raw)"
        )
        for probe, text in answers:
            found[bytes.fromhex(probe)] = _text(charset, bytes.fromhex(probe), text or "")
    return found


def _text(charset: str, probe: bytes, raw: str) -> str | None:
    """A question mark that is not in the probe, and most U+FFFD, are replacements."""
    text = bytes.fromhex(raw).decode("utf-32-be", "replace")
    replaced = ("?" in text and b"?" not in probe) or (
        "\ufffd" in text and charset not in OWN_REPLACEMENT
    )
    return None if replaced or not text else text


def ours(charset: str, probe: bytes) -> str | None:
    decoder = decoder_for(charset)
    assert decoder is not None
    try:
        return decoder(probe)
    except UnicodeDecodeError:
        return None


@pytest.mark.parametrize("charset", sorted(set(LONGEST_CHARACTER) - {"binary"}))
def test_every_decoder_gives_the_servers_characters(database, charset):
    """D27: equal wherever the server decodes; a failure wherever it would print a replacement."""
    probes = PROBES.get(charset, ONE_BYTE)
    expected = servers_text(database, charset, probes)
    assert len(expected) == len(probes)
    assert set(expected.values()) != {None}
    wrong = [probe for probe in probes if ours(charset, probe) != expected[probe]]
    assert wrong == []


FIRSTS = [
    pytest.param([0x81, 0x84, 0x85, 0x90, 0xA1, 0xE3, 0xE4, 0xFD, 0xFE], id="at the edges"),
    pytest.param(list(range(0x81, 0xFF)), marks=pytest.mark.long, id="all"),
]
"""First bytes: those where a range of characters begins or ends, and every one."""


@pytest.mark.parametrize("firsts", FIRSTS)
def test_every_sequence_of_four_bytes_has_the_servers_character(database, firsts):
    """D27: all 1,587,600 of gb18030 in the long form, the third included that is none."""
    database.execute("CREATE TABLE codes (code INT PRIMARY KEY, raw BINARY(1))")
    rows = ",".join(f"({code},0x{code:02x})" for code in (*range(0x30, 0x3A), *range(0x81, 0xFF)))
    database.execute(f"INSERT INTO codes VALUES {rows}")
    database.execute("SET SESSION group_concat_max_len = 10000000")
    tails = [bytes(t) for t in itertools.product(DIGITS, range(0x81, 0xFF), DIGITS)]
    wrong = 0
    for first in firsts:
        ((answer,),) = database.execute(
            "SELECT GROUP_CONCAT(COALESCE(HEX(CONVERT(CONVERT(CAST("
            f"CONCAT(0x{first:02x}, b.raw, c.raw, d.raw) AS BINARY) USING gb18030) USING utf32)),"
            " '') ORDER BY b.code, c.code, d.code) FROM codes b, codes c, codes d"
            " WHERE b.code < 128 AND c.code > 128 AND d.code < 128"
        )
        for tail, raw in zip(tails, answer.split(","), strict=True):
            probe = bytes([first]) + tail
            # A question mark is none of these characters.
            expected = None if raw in ("", "0000003F") else chr(int(raw, 16))
            wrong += ours("gb18030", probe) != expected
    assert wrong == 0


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        ("big5", b"a\xa4\xa4\xf9\xd6\xf9\xdc\\", "a\u4e2d\u7881\u5afa\\"),
        ("sjis", b"\x81\x5f\\\xb1\x93\xfa", "\\\\\uff71\u65e5"),
        ("ujis", b"\xa1\xc0\x8e\xb1\xf5\xa1\x8f\xfe\xfe~", "\\\uff71\ue000\ue757~"),
        ("eucjpms", b"\xa1\xc1~\xad\xa1\x8f\xf4\xa1\x8f\xa2\xb7", "\uff5e~\u2460\u2162\uff5e"),
        ("gb18030", b"\xa8\xbc\x81\x35\xf4\x370\x90\x30\x81\x30", "\u1e3f\ue7c70\U00010000"),
        ("gb18030", b"\xa8\xbc\x84\x31\xa4\x37\x84\x31\xa4\x38", "\u1e3f\ufffd\ufffe"),
        ("cp932", b"\x81\x5f\xb1\x93\xfa", "\uff3c\uff71\u65e5"),
    ],
)
def test_differing_characters_among_others_are_the_servers(charset, raw, text):
    """D27: in one text with those that Python's codec has too; sequences do not run together."""
    assert ours(charset, raw) == text


@pytest.mark.parametrize(
    ("charset", "raw"),
    [
        *(("big5", raw) for raw in (b"a\xa1\x5a", b"\xa4\xa4\xa2\xce", b"\xf9\xd6\xa4", b"\x80")),
        *(("sjis", raw) for raw in (b"\x81\x5f\x81", b"\x80", b"\xa0", b"\xfd", b"\x81\x20")),
        *(("ujis", raw) for raw in (b"\xf5\xa1\x8f\xa1", b"\x8e\xe0", b"\xf5\xa1\x80", b"\xa1A")),
        *(("eucjpms", raw) for raw in (b"\xad\xa1\x8f", b"\xad\xfe", b"\xff", b"\x8f\xf4A")),
        *(("gb18030", raw) for raw in (b"\x80", b"\xff", b"\x81\x30", b"\x90\x30\x81")),
        *(("gb18030", raw) for raw in (b"\xa8\xbc\xe3\x32\x9a\x36", b"\xfe\x39\xfe\x39")),
        *(("cp932", raw) for raw in (b"\x80", b"a\xa0", b"\xfd", b"\xfe", b"\xff")),
        *(("euckr", raw) for raw in (b"\xb0", b"\xff\xff")),
    ],
)
def test_sequences_of_no_character_fail(charset, raw):
    """D27: what the server replaces, and text that stops in the middle of a character."""
    assert ours(charset, raw) is None


def test_collations_are_those_of_the_server(database):
    """D27: ids and character sets as information_schema lists them; an older server has fewer."""
    rows = database.execute("SELECT id, character_set_name FROM information_schema.collations")
    assert dict(rows).items() <= CHARSET_OF_COLLATION.items()
    sizes = database.execute(
        "SELECT character_set_name, maxlen FROM information_schema.character_sets"
    )
    assert dict(sizes).items() <= LONGEST_CHARACTER.items()


@pytest.mark.parametrize("module", [collations, single_byte_charsets, wide_charset_differences])
def test_generated_tables_name_their_generator(module):
    """D27: the tables come from a server by a script of this project."""
    (script,) = [word for word in module.__doc__.split() if word.startswith("scripts/")]
    root = Path(__file__).parents[3]
    assert (root / script.rstrip(",")).is_file()
