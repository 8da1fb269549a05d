"""An epoch: one stream from its dial to its end, and what the fold must know of it beforehand.

House rules: a value, told by the connection to the assembler; nothing is decided here.
"""

import attrs

from capstan.core.gtid import GtidSet
from capstan.core.watermark import Anchor


@attrs.frozen(kw_only=True)
class Epoch:
    """What a new stream begins with.

    Attributes:
        start: The processed set that the dump was asked to continue.
        server_uuid: The server at the other end.
        anchor: The transaction that must come by again, unless it was left in (D13).
        folds_names: Whether the server keeps names in lower case, whatever a statement says.
        checksums: Whether events before the first format description carry a CRC32, as the
            session announced (D23).
    """

    start: GtidSet
    server_uuid: str
    anchor: Anchor | None = None
    folds_names: bool = False
    checksums: bool = True
