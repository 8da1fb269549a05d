"""What the backfill's desk wants done: values, each with who has to do it.

House rules: nothing is decided here. Keys and rows are in no repr.
"""

import attrs

from capstan.core.changes import Change, Row, SnapshotMeta
from capstan.core.snapshot.primary_key import Key
from capstan.core.snapshot.progress import SnapshotState
from capstan.core.tables import TableName, TableShape


@attrs.frozen
class WantTables:
    """To the reader: which base tables do these patterns name now? (D11)."""

    patterns: tuple[str, ...]


@attrs.frozen(kw_only=True)
class WantChunk:
    """To the reader: the next portion; it replaces whatever was wanted before.

    Attributes:
        ticket: To be echoed in all that is said about it.
        table: Whose rows.
        key_columns: The key as of the first chunk, in key order; empty before it.
        after: Behind this key; None: from the beginning (R75).
    """

    ticket: int
    table: TableName
    key_columns: tuple[str, ...]
    after: Key | None = attrs.field(repr=False)


@attrs.frozen
class GrantPin:
    """To the reader: from now on the table's changes wait; lock, read G, open the view."""

    ticket: int
    table: TableName


@attrs.frozen
class SaveState:
    """To the checkpoint: persist this and say so."""

    state: SnapshotState


@attrs.frozen
class EmitChunk:
    """To the sink: one chunk. Its acceptance is told to the desk, its refusal ends the pipeline."""

    changes: list[Change] = attrs.field(repr=False)
    meta: SnapshotMeta


@attrs.frozen
class WantSurvey:
    """To the reader: which captured tables are there, and which of them can be read exactly?"""


@attrs.frozen(kw_only=True)
class CompareRange:
    """To the sink: a range of a table as the source has it; how do yours differ?

    Attributes:
        shape: The table as it was read.
        rows: All rows of the range, in key order.
        after: The range begins behind this key; None: at the table's beginning.
        final: The range goes on to the table's end; else it ends with the last row.
    """

    shape: TableShape
    rows: list[Row] = attrs.field(repr=False)
    after: Key | None = attrs.field(repr=False)
    final: bool


Order = WantTables | WantChunk | GrantPin | SaveState | EmitChunk
