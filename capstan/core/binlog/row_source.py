"""Writes the Python that decodes the rows of one table map.

House rules: identifiers are made of column numbers; a column's name stands in comments only, as
`ascii()` prints it, so that no name can become code. Two functions come from the same recipes.
`careful` reads one row step by step, checks each step and knows the column where it failed. `rows`
reads all rows of an event: a straight line of code for each null bitmap it was written for, one
`struct` call per run of fixed-width columns, and `careful` for every other row. It checks nothing
that Python does not check by itself: what goes wrong is judged by `careful` afterwards, and reading
too far shows in where the last row ends.

Both find in their namespace: `Short` and `FAILURES` (exceptions), `verdict(column, error)` (makes
the halt), `seen(data, p)` (called for each row whose null bitmap has no code of its own), `missed`
(reads a row like `careful`, one that has other lengths than its code expects), the `struct` readers
`S0`, `S1`, … and the constants, `C3` for column 3.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct

from capstan.core.binlog.field_codecs import NUMBER, FieldCodec
from capstan.core.binlog.row_habits import Lengths

_LETTERS = ("", *"bcdefghijkl")
"""Behind a column's number, for each number that its fixed part unpacks to."""
_MISSED = ("row, p = missed(data, p, end)", "append(row)", "continue")


class RowSource:
    """The source text for one table and the objects it refers to.

    Args:
        names: The column names, for comments.
        nullable: Which columns allow NULL.
        codecs: How each column is read.

    Attributes:
        namespace: The `struct` readers and the constants that the text written so far needs.
    """

    def __init__(
        self, names: Sequence[str], nullable: Sequence[bool], codecs: Sequence[FieldCodec]
    ) -> None:
        self._names = [ascii(name) for name in names]
        self._nullable = nullable
        self._codecs = codecs
        self._mask_size = (len(codecs) + 7) // 8
        self._usual = False
        self._lengths: Lengths = {}
        self._readers: dict[str, str] = {}
        self.namespace: dict[str, object] = {
            f"C{place}{name}": value
            for place, codec in enumerate(codecs)
            for name, value in {"": codec.constant, **codec.helpers}.items()
            if value is not None
        }

    def rows(self, variants: Mapping[bytes, Lengths], *, learning: bool, usual: bool) -> str:
        """The function `rows(data, p, end)`, which returns the rows and where they end.

        Args:
            variants: The null bitmaps that get code of their own, and the lengths of values that
                this code may expect.
            learning: Whether rows of others are told to `seen`.
            usual: Whether values may be expected to be such as the quicker expressions give.
        """
        size = self._mask_size
        self._usual = usual
        lines = ["def rows(data, p, end):", "    found = []", "    append = found.append"]
        lines.append("    while p < end:")
        if variants:
            lines.append(f"        mask = data[p{'' if size == 1 else f':p + {size}'}]")
        for place, (mask, lengths) in enumerate(variants.items()):
            literal = mask[0] if size == 1 else mask
            lines.append(f"        {'elif' if place else 'if'} mask == {literal!r}:")
            lines += _indented(3, self._straight(mask, lengths))
        rest = ["row, q = careful(data, p, end)", "append(row)"]
        rest += ["seen(data, p)"] if learning else []
        rest.append("p = q")
        if variants:
            lines.append("        else:")
        lines += _indented(3 if variants else 2, rest)
        return "\n".join([*lines, "    return found, p", ""])

    def careful(self) -> str:
        """The function `careful(data, p, end)`, which returns one row and where it ends."""
        self._usual = False
        body = [f"q = p + {self._mask_size}", "if q > end:", "    raise Short", "mask = data[p:q]"]
        for place in range(len(self._codecs)):
            body += self._checked(place)
        values = [f"v{place}" for place in range(len(self._codecs))]
        body.append(f"return {_tuple(values)}, q")
        lines = ["def careful(data, p, end):", "    column = None", "    try:"]
        lines += _indented(2, body)
        lines += ["    except FAILURES as error:", "        halt = verdict(column, error)"]
        lines += ["    raise halt", ""]  # outside the handler: the error holds bytes of the row
        return "\n".join(lines)

    def _checked(self, place: int) -> Iterator[str]:
        """The careful reading of one column."""
        yield f"column = {place}  # {self._names[place]}"
        yield f"if mask[{place >> 3}] & {1 << (place & 7)}:"
        if self._nullable[place]:
            yield f"    v{place} = None"
            yield "else:"
            yield from _indented(1, self._checked_value(place))
        else:
            yield "    raise Short"
            yield from self._checked_value(place)

    def _checked_value(self, place: int) -> Iterator[str]:
        codec = self._codecs[place]
        yield from _step(str(codec.width))
        yield f"{self._parts(place)}, = {self._reader(codec.order + codec.layout)}(data, p)"
        if codec.prefixed:
            yield from _step(self._number(place))
            yield f"v{place} = {self._value(place, 'data[p:q]')}"
        else:
            yield f"v{place} = {self._value(place)}"

    def _straight(self, mask: bytes, lengths: Lengths) -> Iterator[str]:
        """The reading of one row whose nulls are known; `lengths` are looked at, not trusted."""
        values = ["None"] * len(self._codecs)
        here, offset = "p", self._mask_size
        self._lengths = lengths
        run: list[int] = []
        for place, codec in enumerate(self._codecs):
            if mask[place >> 3] & 1 << (place & 7):
                continue
            run.append(place)
            values[place] = f"v{place}" if codec.prefixed else self._value(place)
            if place in lengths:
                values[place] = self._value(place, f"s{place}")
            elif codec.prefixed:
                yield from self._run(run, here, offset)
                yield f"o = {_plus(here, offset + self._width(run))}"
                yield f"q = o + {self._number(place)}"
                yield f"v{place} = {self._value(place, 'data[o:q]')}"
                here, offset, run = "q", 0, []
        if run:
            yield from self._run(run, here, offset)
        yield f"append({_tuple(values)})"
        yield f"p = {_plus(here, offset + self._width(run))}"

    def _run(self, run: list[int], here: str, offset: int) -> Iterator[str]:
        """One `struct` call a byte order for the fixed parts of columns that lie side by side."""
        yield from (f"# {place}: {self._names[place]}" for place in run)
        for order in sorted({self._codecs[place].order for place in run}):
            yield self._read(run, order, here, offset)
            expected = [place for place in run if place in self._lengths]
            if order == "<" and expected:
                others = [f"{self._number(place)} != {self._lengths[place]}" for place in expected]
                yield f"if {' or '.join(others)}:"
                yield from _indented(1, _MISSED)

    def _read(self, run: list[int], order: str, here: str, offset: int) -> str:
        """The `struct` call for the columns of one byte order; it skips those of the other."""
        layout, gap = "", 0
        parts: list[str] = []
        for place in run:
            codec = self._codecs[place]
            if codec.order != order:
                gap += self._width([place])
                continue
            if parts:
                layout += f"{gap}x" if gap else ""
            else:
                offset += gap
            layout += codec.layout
            parts += self._variables(place)
            if place in self._lengths:
                layout += f"{self._lengths[place]}s"
                parts.append(f"s{place}")
            gap = 0
        if layout == "B":
            return f"{parts[0]} = data[{_plus(here, offset)}]"
        return f"{', '.join(parts)}, = {self._reader(order + layout)}(data, {_plus(here, offset)})"

    def _width(self, run: list[int]) -> int:
        """Bytes of the columns' fixed parts, and of the values whose lengths are expected."""
        return sum(self._codecs[place].width + self._lengths.get(place, 0) for place in run)

    def _reader(self, layout: str) -> str:
        """The name of the `struct` reader for a layout."""
        if layout not in self._readers:
            name = self._readers[layout] = f"S{len(self._readers)}"
            self.namespace[name] = Struct(layout).unpack_from
        return self._readers[layout]

    def _parts(self, place: int) -> str:
        """The variables that the fixed part unpacks to."""
        return ", ".join(self._variables(place))

    def _variables(self, place: int) -> list[str]:
        return [f"r{place}{_LETTERS[part]}" for part in range(self._codecs[place].parts)]

    def _number(self, place: int) -> str:
        """The expression for a length in front of a value."""
        return NUMBER[self._codecs[place].parts].format(*self._variables(place))

    def _value(self, place: int, raw: str | None = None) -> str:
        """The expression for the value; `raw` stands for the bytes behind a length."""
        found = [raw] if raw else self._variables(place)
        codec = self._codecs[place]
        expression = (self._usual and codec.usual) or codec.expression
        return expression.format(*found, c=f"C{place}")


def _plus(place: str, offset: int) -> str:
    return f"{place} + {offset}" if offset else place


def _step(width: str) -> Iterable[str]:
    """Move to the next `width` bytes, which must be there."""
    return "p = q", f"q = p + {width}", "if q > end:", "    raise Short"


def _tuple(values: Sequence[str]) -> str:
    return f"({', '.join(values)},)"


def _indented(depth: int, lines: Iterable[str]) -> Iterator[str]:
    return (f"{'    ' * depth}{line}" for line in lines)
