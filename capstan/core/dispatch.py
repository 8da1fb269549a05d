"""The table of shapes, made ready for the loop: a type code leads straight to a cell.

House rules: nothing is decided here; `shapes.TABLE` is only turned into lists and dictionaries that
cost one look for each event.
"""

from collections.abc import Callable
from typing import Final

from capstan.core.shapes import SHAPES, STATEMENT_SHAPES, TABLE, Cell, Shape, State

Action = Callable[[bytes, int, int], State | None]
"""Takes data, start and end of an event's body; a state it returns overrides the cell's."""

_INSIDE: Final = frozenset({State.STARTED, State.BLOCK, State.XA_BLOCK})
_MOST_BODIES: Final = 64
_MOST_BODY_BYTES: Final = 512
_BOUNDARIES: Final = {b"BEGIN": Shape.BEGIN, b"COMMIT": Shape.COMMIT}


class Row:
    """One row of the table.

    Attributes:
        state: Whose row it is.
        inside: Whether it lies inside a group, where events follow each other without a gap.
        by_type: Next row and action by type code; None where more must be looked at.
        by_text: The same for the statements that bound every transaction.
        by_body: The same again for the bytes that such statements came in lately.
        by_shape: The same for every statement's shape, and for what may be ignored.
    """

    __slots__ = ("by_body", "by_shape", "by_text", "by_type", "inside", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.inside = state in _INSIDE
        self.by_type: list[tuple[Row, Action] | None] = [None] * 256
        self.by_text: dict[bytes, tuple[Row, Action]] = {}
        self.by_body: dict[bytes, tuple[Row, Action]] = {}
        self.by_shape: dict[Shape, tuple[Row, Action]] = {}

    def remember(self, body: bytes, cell: "tuple[Row, Action]") -> None:
        """Know a statement again by its bytes; a bounded number of them."""
        if len(self.by_body) >= _MOST_BODIES:
            self.by_body.clear()
        if len(body) <= _MOST_BODY_BYTES:
            self.by_body[body] = cell

    def is_begin(self, body: bytes) -> bool:
        """Whether a statement's bytes are known to say BEGIN."""
        return self.by_body.get(body) is self.by_text[b"BEGIN"]


def dispatch_rows(bound: Callable[[Cell, int], Action]) -> dict[State, Row]:
    """Every state's row.

    Args:
        bound: Gives the action of a cell for an event type (0 for a statement).
    """
    rows = {state: Row(state) for state in State}
    for state, cells in TABLE.items():
        row = rows[state]
        for shape in {*STATEMENT_SHAPES.values(), Shape.IGNORABLE} & cells.keys():
            row.by_shape[shape] = (rows[cells[shape].state], bound(cells[shape], 0))
        for text, shape in _BOUNDARIES.items():
            if shape in cells:
                row.by_text[text] = row.by_shape[shape]
        for code, shape in SHAPES.items():
            if shape in cells:
                row.by_type[code] = (rows[cells[shape].state], bound(cells[shape], code))
    return rows
