"""What a misbehaviour of the scripted server is: a fault, and the moment when it strikes.

House rules: words only; the faults themselves stand in `misbehaviours`, what calls them in
`scripted_mysql`.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from capstan.testing.made_events import Event
from capstan.testing.server_wire import Value, Wire


class Server(Protocol):
    """What a misbehaviour may touch of the server."""

    server_uuid: str
    settings: dict[str, Value]


class Moment(enum.Enum):
    """When a misbehaviour strikes."""

    GREETING = "before the server's first word"
    LOGIN = "behind the client's login"
    QUESTION = "before the answer to a SELECT"
    DUMP = "before the first event of a dump"
    TRANSACTION = "instead of a transaction"


Act = Callable[[Server, Wire, Sequence[Event]], None]


@attrs.frozen
class Misbehaviour:
    """One fault.

    Attributes:
        name: What it is, in words.
        moment: When it strikes.
        act: Commits it; the events are those of the transaction it stands for, if any.
    """

    name: str
    moment: Moment
    act: Act = attrs.field(repr=False)

    def __str__(self) -> str:
        return self.name
