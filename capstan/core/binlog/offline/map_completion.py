"""Puts into a TABLE_MAP what its server left out, so that the one strict parser can read it.

House rules: `table_map` never guesses, so what a file lacks is written in here, in the wire's own
form and only where nothing stands: names by place ("@1", as the server's own tool prints them),
the signs that the caller knows, the binary collation, empty label lists, geometry of any kind. What
of this became what is kept, so that nobody takes a stand-in for the server's word.

A server says nothing of all this before 8.0.1, and no names and labels with binlog_row_metadata at
its default, MINIMAL.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from capstan.core.binlog.bounded_reader import BoundedReader
from capstan.core.binlog.columns import (
    HAS_COLLATION,
    HAS_LABELS,
    HAS_SIGN,
    INTEGERS,
    FieldType,
    read_facts,
    readable,
)
from capstan.core.binlog.optional_metadata import MetadataField, OptionalMetadata, read_optional

_WHAT: Final = "a table map"
_BINARY: Final = 63


@attrs.frozen(kw_only=True)
class MapOutline:
    """What a TABLE_MAP body holds, before anything is completed.

    Attributes:
        count: How many columns.
        kinds: Their types, up to the first that is not known.
        given: The optional metadata that is there.
    """

    count: int
    kinds: tuple[FieldType, ...]
    given: OptionalMetadata

    @classmethod
    def of(cls, body: bytes) -> "MapOutline":
        """Read the outline of a body.

        Raises:
            Halted: `event_corrupt` for a body that does not add up.
        """
        reader = BoundedReader(body, _WHAT)
        for _ in range(2):
            reader.counted()
            reader.uint(1)
        count = reader.packed()
        numbers = reader.take(count)
        metadata = BoundedReader(reader.counted(), _WHAT)
        reader.take((count + 7) // 8)
        kinds = []
        for number in numbers:
            if not readable(number):
                break
            kinds.append(read_facts(number, metadata).type)
        return cls(count=count, kinds=tuple(kinds), given=read_optional(reader))

    @property
    def integers(self) -> int:
        """How many integer columns there are."""
        return sum(kind in INTEGERS for kind in self.kinds)

    @property
    def integer_signs(self) -> tuple[bool, ...] | None:
        """Which of the integer columns are unsigned; None when the map does not say."""
        if self.given.unsigned is None:
            return None
        signed = [kind for kind in self.kinds if kind in HAS_SIGN]
        # Too few or too many bits are the parser's to refuse.
        pairs = zip(signed, self.given.unsigned, strict=False)
        return tuple(unsigned for kind, unsigned in pairs if kind in INTEGERS)

    def completion(self, integer_unsigned: Sequence[bool]) -> bytes:
        """The optional fields that are missing; to be put behind the body.

        Args:
            integer_unsigned: One flag for each integer column, used when the map has no signs.
        """
        given, kinds = self.given, self.kinds
        fields = {MetadataField.COLUMN_NAME: given.names is None and self._names()}
        for wanted, field, there, each in (
            (HAS_COLLATION, MetadataField.COLUMN_COLLATION, given.collations, _BINARY),
            (HAS_LABELS, MetadataField.LABEL_COLLATION, given.label_collations, _BINARY),
            ({FieldType.ENUM}, MetadataField.ENUM_LABELS, given.enum_labels, 0),
            ({FieldType.SET}, MetadataField.SET_LABELS, given.set_labels, 0),
            ({FieldType.GEOMETRY}, MetadataField.GEOMETRY_TYPE, given.geometries, 0),
        ):
            fields[field] = there is None and bytes([each]) * sum(kind in wanted for kind in kinds)
        if given.unsigned is None:
            fields[MetadataField.SIGNEDNESS] = self._signs(integer_unsigned)
        return b"".join(
            bytes([field]) + _packed(len(value)) + value for field, value in fields.items() if value
        )

    def _names(self) -> bytes:
        names = (b"@%d" % place for place in range(1, self.count + 1))
        return b"".join(_packed(len(name)) + name for name in names)

    def _signs(self, integer_unsigned: Sequence[bool]) -> bytes:
        flags = iter(integer_unsigned)
        bits = [kind in INTEGERS and bool(next(flags)) for kind in self.kinds if kind in HAS_SIGN]
        padded = bits + [False] * (-len(bits) % 8)
        number = sum(bit << place for place, bit in enumerate(reversed(padded)))
        return number.to_bytes(len(padded) // 8, "big")


def _packed(number: int) -> bytes:
    return bytes([number]) if number < 251 else b"\xfc" + number.to_bytes(2, "little")
