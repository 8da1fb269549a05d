"""The assembler: packets in, finished transactions out; keeper of the credit.

House rules: all judgement is the fold's (`core.assembly`). Credit counts pieces and is one account
for the life of this actor, not of an epoch: what lies unsettled downstream stays counted, however
often the connection dials again.
"""

from capstan.actors.messages import (
    Assembled,
    ConnectionReady,
    CreditGranted,
    PacketsRead,
    PositionWanted,
    Settled,
    StreamLost,
    StreamOn,
    StreamOpened,
)
from capstan.core.assembly import Fold
from capstan.core.changes import Item
from capstan.core.halts import Halted
from capstan.runtime import Actor, Address


class Assembler(Actor):
    """Folds one stream after another.

    Args:
        fold: A fresh fold.
        coordinator: Who gets what is finished.
        credit: Pieces that may be unsettled at once.
    """

    def __init__(self, fold: Fold, coordinator: Address, credit: int) -> None:
        super().__init__()
        self._fold = fold
        fold.given_up = self.stop_signal.is_set
        self._coordinator = coordinator
        self._credit = credit
        self._unsettled = 0
        self._connection: Address | None = None
        self._number: tuple[int, int] | None = None
        self._server_uuid = ""

    def stopped(self) -> None:
        """Let go of what is half-built."""
        self._fold.close()

    def receive(self, message: object) -> None:
        """One step of the conversation."""
        match message:
            case PacketsRead():
                self._fold_piece(message)
            case Settled(pieces=pieces):
                self._unsettled -= pieces
                self._grant(pieces)
            case StreamOpened(number=number, epoch=epoch):
                self._number, self._server_uuid = number, epoch.server_uuid
                self._fold.open(epoch)
                self._coordinator.send(StreamOn(epoch.server_uuid))
            case StreamLost(number=number):
                if number == self._number:
                    self._fold.close()
            case PositionWanted():
                # Behind everything that was assembled: it is answered when that is settled.
                self._coordinator.send(message)
            case ConnectionReady(reply_to=connection):
                self._connection = connection
                self._grant(self._credit - self._unsettled)

    def _fold_piece(self, message: PacketsRead) -> None:
        if message.number != self._number:
            self._grant(1)
            return
        items: list[Item] = []
        for packets in message.packets:
            items += self._fold.feed(packets)
            if self._fold.halt is not None or self.stop_signal.is_set():
                break
        if items:
            self._unsettled += 1
            self._coordinator.send(Assembled(self.address, self._server_uuid, tuple(items)))
        if self._fold.halt is not None:
            raise Halted(self._fold.halt)
        if not items:
            self._grant(1)

    def _grant(self, pieces: int) -> None:
        if pieces > 0 and self._connection is not None:
            self._connection.send(CreditGranted(pieces))
