"""Partial updates of JSON columns: the text of a document and the diffs make the text after them.

House rules: a diff that no server writes, or that does not fit the document it is for, raises; it
is never passed over. The document is taken apart from its text, which the server's own spelling
makes exact: numbers stay the characters they were, strings are escaped in one way only. Members
stand in the server's order, shorter keys first, then by bytes.

Wire: diffs one behind the other: an operation, a path and, unless something is removed, a binary
document; path and document with a packed length in front. A path is `$`, then members (`.name`,
`."quoted"`) and cells (`[3]`, `[last]`, `[last-2]`), at least one.
"""

import re
from json import JSONDecoder
from typing import Any, Final, NamedTuple

from capstan.core.binlog.bounded_reader import BoundedReader
from capstan.core.binlog.json_value import MAX_DEPTH, json_text, quote

_REPLACE: Final = 0
_INSERT: Final = 1
_REMOVE: Final = 2

_LEG: Final = re.compile(
    r'\.(?:(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<name>[^\s."*\\\[\]]+))'
    r"|\[(?:(?P<index>[0-9]{1,10})|(?P<last>last)(?:-(?P<back>[0-9]{1,10}))?)\]",
    re.DOTALL,
)

_LITERALS: Final = {None: "null", True: "true", False: "false"}

Tree = Any
"""dict, list, str, bool, None or `_Number`."""


class _Number(str):
    """A number, as it is printed."""

    __slots__ = ()


class _Cell(NamedTuple):
    """One cell of an array, counted from its start or from its end."""

    number: int
    from_end: bool

    def place(self, size: int) -> int:
        """The place in an array of `size` cells; its start for one before it."""
        return max(size - 1 - self.number, 0) if self.from_end else self.number


_Leg = str | _Cell


def apply_diffs(before: str, diffs: BoundedReader) -> str:
    """The text of a document after an update.

    Args:
        before: Its text before, as `json_text` gives it.
        diffs: The diffs, up to the reader's end; none leave the document as it was.

    Raises:
        Halted: `event_corrupt` for diffs that are cut off.
        ValueError, IndexError, struct.error: For a malformed diff, or one that does not apply.
    """
    if not diffs.left:
        return before
    root = _tree(before)
    while diffs.left:
        operation = diffs.uint(1)
        if operation > _REMOVE:
            raise ValueError("an unknown operation")
        legs = _legs(diffs.counted())
        value = None if operation == _REMOVE else _tree(json_text(diffs.counted()))
        _apply(root, operation, legs, value)
    return _text(root, 0)


def _members(pairs: list[tuple[str, Tree]]) -> dict[str, Tree]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key that comes twice")
    return members


_tree = JSONDecoder(object_pairs_hook=_members, parse_int=_Number, parse_float=_Number).decode


def _text(node: Tree, depth: int) -> str:
    if isinstance(node, _Number):
        return str(node)
    if isinstance(node, str):
        return quote(node)
    if not isinstance(node, dict | list):
        return _LITERALS[node]
    if depth >= MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(node, list):
        return f"[{', '.join(_text(item, depth + 1) for item in node)}]"
    members = (f"{quote(key)}: {_text(node[key], depth + 1)}" for key in sorted(node, key=_order))
    return f"{{{', '.join(members)}}}"


def _order(key: str) -> tuple[int, bytes]:
    raw = key.encode()
    return len(raw), raw


def _legs(path: bytes) -> list[_Leg]:
    text = path.decode()
    if not text.startswith("$"):
        raise ValueError("a path that does not begin at the root")
    legs: list[_Leg] = []
    position = 1
    while position < len(text):
        leg = _LEG.match(text, position)
        if leg is None or len(legs) == MAX_DEPTH:
            raise ValueError("no path that a server writes")
        legs.append(_leg(leg))
        position = leg.end()
    if not legs:
        raise ValueError("a diff of the whole document")
    return legs


def _leg(found: re.Match[str]) -> _Leg:
    if found["quoted"] is not None:
        name: str = _tree(found["quoted"])
        return name
    if found["name"] is not None:
        return found["name"]
    if found["last"] is not None:
        return _Cell(int(found["back"] or 0), from_end=True)
    return _Cell(int(found["index"]), from_end=False)


def _apply(root: Tree, operation: int, legs: list[_Leg], value: Tree) -> None:
    container, last = root, legs[-1]
    for leg in legs[:-1]:
        container = container[_existing(container, leg)]
    if operation == _REPLACE:
        container[_existing(container, last)] = value
    elif operation == _REMOVE:
        del container[_existing(container, last)]
    elif isinstance(container, list) and isinstance(last, _Cell):
        container.insert(last.place(len(container)), value)
    elif isinstance(container, dict) and isinstance(last, str) and last not in container:
        container[last] = value
    else:
        raise ValueError("an insert that does not apply")


def _existing(container: Tree, leg: _Leg) -> _Leg | int:
    """The key or the index of what is there."""
    if isinstance(container, list) and isinstance(leg, _Cell) and leg.number < len(container):
        return leg.place(len(container))
    if isinstance(container, dict) and isinstance(leg, str) and leg in container:
        return leg
    raise ValueError("a path that leads nowhere")
