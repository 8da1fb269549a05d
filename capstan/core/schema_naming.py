"""Turns the names in a statement into schema changes: whose they are and whether they matter.

House rules: names are compared as the server keeps them. Coverage is the capture list's; what names
nothing and may have changed rows concerns every table.
"""

import attrs

from capstan.core.binlog.statements import NamedObject, Statement
from capstan.core.changes import Committed, SchemaChange
from capstan.core.gtid import GtidSet
from capstan.core.tables import CaptureList


@attrs.frozen
class Namer:
    """Names schema changes for one stream.

    Attributes:
        capture: The capture list.
        folds_names: Whether the server keeps names in lower case, whatever a statement says.
    """

    capture: CaptureList
    folds_names: bool

    def changes(
        self, statement: Statement, committed: Committed, *, position: GtidSet, carried_out: bool
    ) -> tuple[SchemaChange, ...]:
        """One schema change for each object that the statement names."""
        return tuple(
            self._change(named, committed, position, carried_out) for named in statement.objects
        )

    def _change(
        self, named: NamedObject, committed: Committed, position: GtidSet, carried_out: bool
    ) -> SchemaChange:
        schema, table = self._kept(named.schema), self._kept(named.table)
        new_schema, new_table = self._kept(named.new_schema), self._kept(named.new_table)
        any_table = named.kind == "other" and named.rows_may_change
        return SchemaChange(
            gtid=committed.gtid,
            commit_micros=committed.commit_micros,
            position=position,
            schema=schema,
            table=table,
            kind=named.kind,
            new_schema=new_schema,
            new_table=new_table,
            rows_may_change=named.rows_may_change,
            may_be_noop=named.kind.startswith("create_") and not carried_out,
            captured=any_table or self._covers(schema, table),
            new_captured=self._covers(new_schema, new_table),
        )

    def _kept(self, name: str | None) -> str | None:
        return name.lower() if name is not None and self.folds_names else name

    def _covers(self, schema: str | None, table: str | None) -> bool:
        if schema is None:
            return False
        if table is None:
            return self.capture.touches_schema(schema)
        return self.capture.covers(schema, table)
