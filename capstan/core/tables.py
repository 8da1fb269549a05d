"""Tables as values: names, columns, shapes, and the capture list.

House rules: a shape is what one table map says, nothing more: it is made once per distinct table
map and shared by all rows. Patterns are `schema.table` with `*` and `?`; the server's own schemas
are outside `ALL` (D16).
"""

import re
from collections.abc import Iterable
from typing import Final

import attrs

SYSTEM_SCHEMAS: Final = frozenset({"mysql", "sys", "information_schema", "performance_schema"})


@attrs.frozen
class TableName:
    """A schema and a table."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@attrs.frozen(kw_only=True)
class Column:
    """One column as the table map describes it.

    Attributes:
        name: Its name.
        type: The SQL type in lower case without parameters: `int`, `varchar`, `datetime`, …
        length: Characters (text), bytes (binary) or bits (bit); None where it has no meaning.
        precision: Total digits of a decimal, else None.
        scale: Digits after the point of a decimal, else None.
        fsp: Fractional second digits 0-6 of temporal types, else None.
        unsigned: True for unsigned numbers.
        charset: The character set of text, enum and set columns (`binary` for bytes), else None.
        nullable: Whether NULL is allowed.
        visible: False for an invisible column.
        key_position: 0-based place in the key (D5), None outside it.
    """

    name: str
    type: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    fsp: int | None = None
    unsigned: bool = False
    charset: str | None = None
    nullable: bool = True
    visible: bool = True
    key_position: int | None = None


@attrs.frozen(eq=False)
class TableShape:
    """A table as one table map shows it; shared by every row decoded through it.

    Attributes:
        schema: The database name.
        table: The table name.
        columns: In row order.
        key: Positions in the row of the key's columns, in key order; empty without a key.
    """

    schema: str
    table: str
    columns: tuple[Column, ...]
    key: tuple[int, ...] = ()
    names: tuple[str, ...] = attrs.field(init=False, repr=False)
    index: dict[str, int] = attrs.field(init=False, repr=False)
    key_columns: tuple[str, ...] = attrs.field(init=False, repr=False)

    @names.default
    def _names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @index.default
    def _index(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    @key_columns.default
    def _key_columns(self) -> tuple[str, ...]:
        return tuple(self.names[position] for position in self.key)

    def key_of(self, row: tuple[object, ...]) -> tuple[object, ...] | None:
        """The key values of a row, in key order; None for a table without a key."""
        return tuple([row[position] for position in self.key]) if self.key else None


def _translate(pattern: str) -> str:
    return "".join(".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)


@attrs.frozen
class CapturePattern:
    """One entry of the capture list: `schema.table`, each part with `*` and `?`."""

    text: str
    _regex: re.Pattern[str] = attrs.field(repr=False, eq=False)

    @classmethod
    def parse(cls, text: str) -> "CapturePattern":
        """Read one pattern; the first dot separates.

        Raises:
            ValueError: When a part is missing.
        """
        schema, dot, table = text.partition(".")
        if not (schema and dot and table):
            raise ValueError("a capture pattern has the form schema.table")
        return cls(text, re.compile(f"{_translate(schema)}\0{_translate(table)}", re.DOTALL))

    @property
    def literal(self) -> bool:
        """True without wildcards: it must name an existing table (D16)."""
        return not set("*?") & set(self.text)

    def matches(self, schema: str, table: str) -> bool:
        """Whether the pattern covers this table."""
        return self._regex.fullmatch(f"{schema}\0{table}") is not None


@attrs.frozen
class CaptureList:
    """Which tables are captured.

    Attributes:
        patterns: The entries; empty together with `everything` False captures nothing.
        everything: True for `capstan.ALL`: every table outside the server's own schemas.
    """

    patterns: tuple[CapturePattern, ...] = ()
    everything: bool = False

    @classmethod
    def parse(cls, entries: Iterable[str] | None) -> "CaptureList":
        """Build from pattern texts, or from None for everything.

        Raises:
            ValueError: For a malformed or empty list.
        """
        if entries is None:
            return cls(everything=True)
        patterns = tuple(CapturePattern.parse(entry) for entry in entries)
        if not patterns:
            raise ValueError("the capture list is empty")
        return cls(patterns)

    @property
    def texts(self) -> tuple[str, ...]:
        """The canonical form that the store keeps: sorted entries, or `*` alone for ALL."""
        return ("*",) if self.everything else tuple(sorted({p.text for p in self.patterns}))

    def covers(self, schema: str, table: str) -> bool:
        """Whether this table is captured."""
        if self.everything:
            return schema.lower() not in SYSTEM_SCHEMAS
        return any(pattern.matches(schema, table) for pattern in self.patterns)

    def touches_schema(self, schema: str) -> bool:
        """Whether some captured table could lie in this schema."""
        if self.everything:
            return schema.lower() not in SYSTEM_SCHEMAS
        return any(
            re.fullmatch(_translate(p.text.partition(".")[0]), schema, re.DOTALL) is not None
            for p in self.patterns
        )


def widened(accepted: Iterable[str], configured: Iterable[str]) -> tuple[str, ...]:
    """The configured entries that reach beyond an accepted capture list (D16).

    Both are canonical texts (`CaptureList.texts`). An entry that an accepted pattern covers whole
    is no widening.
    """
    old = tuple(accepted)
    if "*" in old:
        return ()
    return tuple(new for new in configured if not any(_includes(wide, new) for wide in old))


def _includes(wide: str, narrow: str) -> bool:
    """Whether every table that `narrow` names is named by `wide` too; a safe no when unsure."""
    if wide == narrow:
        return True
    pattern = "".join(".*" if c == "*" else "[^*]" if c == "?" else re.escape(c) for c in wide)
    schema, _, table = pattern.partition(re.escape("."))
    narrow_schema, dot, narrow_table = narrow.partition(".")
    if not dot:
        return False
    return bool(
        re.fullmatch(schema, narrow_schema, re.DOTALL)
        and re.fullmatch(table, narrow_table, re.DOTALL)
    )
