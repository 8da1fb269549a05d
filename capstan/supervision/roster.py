"""The roster: how a child finds those that started before it.

House rules: a child depends on what is in front of it in start order and on nothing else, so that
order is the only statement of dependency; a lookup that breaks it fails at the first start.
"""

import attrs

from capstan.runtime import Address
from capstan.supervision.report import Board


@attrs.frozen
class Roster:
    """The children in front of one child, then those in front of its supervisor, and so on up.

    Attributes:
        board: What the child's supervisor shows.
        in_front: Ids in front of the child, by its supervisor's spec.
        above: The supervisor's own roster; None for the root's children.
    """

    board: Board
    in_front: frozenset[str]
    above: "Roster | None" = None

    def __getitem__(self, child: str) -> Address:
        """Give the address of a child that runs in front of this one.

        Raises:
            KeyError: When no such child is in front, or it does not run.
        """
        if child in self.in_front:
            address = dict(self.board.addresses()).get((child,))
            if address is None:
                raise KeyError(f"child {child!r} does not run")
            return address
        if self.above is None:
            raise KeyError(f"no child {child!r} starts before this one")
        return self.above[child]
