"""What a comparison of source and sink comes to: counts by table and range, never a value.

House rules: values only. A range is a run of keys of one table, compared at one exact position; its
number says where in the table it lies, and nothing else does.
"""

import attrs

from capstan.core.halts import HaltReason
from capstan.core.tables import TableName


@attrs.frozen
class Differences:
    """How one range of a sink's table differs from the source's.

    Attributes:
        missing: Rows of the source that the sink lacks.
        extra: Rows of the sink that the source lacks.
        differing: Rows whose key is on both sides, with other values.
    """

    missing: int = 0
    extra: int = 0
    differing: int = 0

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.differing)

    def __add__(self, other: "Differences") -> "Differences":
        return Differences(
            self.missing + other.missing,
            self.extra + other.extra,
            self.differing + other.differing,
        )


@attrs.frozen(kw_only=True)
class Finding:
    """One range that is not identical.

    Attributes:
        number: Of the range, from 0, in key order.
        differences: Their counts.
    """

    number: int
    differences: Differences


@attrs.frozen(kw_only=True)
class TableVerdict:
    """One table.

    Attributes:
        name: Schema and table.
        rows: Rows of the source that were compared.
        ranges: Into how many ranges they fell.
        findings: The ranges that are not identical.
        refused: Why the table could not be compared to its end; None when it was.
    """

    name: TableName
    rows: int = 0
    ranges: int = 0
    findings: tuple[Finding, ...] = ()
    refused: HaltReason | None = None

    @property
    def differences(self) -> Differences:
        """Of all its ranges together."""
        return sum((finding.differences for finding in self.findings), Differences())

    def compared(self, rows: int, differences: Differences) -> "TableVerdict":
        """With one more range."""
        finding = (Finding(number=self.ranges, differences=differences),) if differences else ()
        return attrs.evolve(
            self,
            rows=self.rows + rows,
            ranges=self.ranges + 1,
            findings=self.findings + finding,
        )


@attrs.frozen(kw_only=True)
class Verification:
    """The outcome.

    Attributes:
        tables: One by one, by name.
    """

    tables: tuple[TableVerdict, ...]

    @property
    def identical(self) -> bool:
        """Whether every table was compared to its end and no difference was found."""
        return not any(table.findings or table.refused for table in self.tables)
