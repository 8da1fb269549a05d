"""The report at the end of the demonstration: figures, and the verdict.

Owns: the words and the arithmetic of the report. Refuses to know: how the figures came about.
"""

from collections.abc import Sequence

import attrs

from capstan.demo.compare import Comparison
from capstan.demo.delivery_log import Deliveries
from capstan.demo.workload_session import Tally


@attrs.frozen(kw_only=True)
class Report:
    """Everything that is known at the end.

    Attributes:
        seed: Of the workload.
        tally: What the writers did.
        restarts: How often the pipeline was killed and started again.
        deliveries: What the sink was given.
        comparison: The mirror against the source.
        backfilled: Rows that came in chunks.
        chunks: Chunks that they came in.
    """

    seed: int
    tally: Tally
    restarts: int
    deliveries: Deliveries
    comparison: Comparison
    backfilled: int
    chunks: int

    @property
    def good(self) -> bool:
        """Whether everything arrived, once and in the right form."""
        deliveries = self.deliveries
        return self.comparison.identical and not (deliveries.duplicates or deliveries.torn)

    def lines(self) -> list[str]:
        """The report, a line each."""
        tally, deliveries, comparison = self.tally, self.deliveries, self.comparison
        lines = [
            (
                f"transactions: {tally.committed} committed, {tally.rolled_back} rolled back;"
                f" {deliveries.transactions} in the mirror, the others touch no captured table"
            ),
            (
                f"rows: {deliveries.rows} changes mirrored; {comparison.rows} rows"
                f" in {comparison.tables} tables compared"
            ),
            f"backfill: {self.backfilled} rows of before, in {self.chunks} chunks meanwhile",
            (
                f"restarts: {self.restarts} after SIGKILL; {deliveries.interrupted} of them during"
                f" a delivery, of which {deliveries.recovered} had been committed"
            ),
            (
                f"commit-to-sink latency: {_latency(deliveries.undisturbed)} while streaming;"
                f" {_latency(deliveries.latencies)} with the restarts"
            ),
            f"delivered twice: {deliveries.duplicates}",
        ]
        if deliveries.torn:
            lines.append(f"deliveries of which the mirror had a part: {deliveries.torn}")
        lines += [f"  {difference}" for difference in comparison.differences]
        lines.append(f"mirror identical: {'yes' if comparison.identical else 'no'}")
        lines.append(f"seed: {self.seed}")
        return lines


def percentile(values: Sequence[int], share: float) -> int:
    """The smallest of the values that at least this share of them does not exceed.

    Args:
        values: At least one.
        share: More than 0, 1 at most.
    """
    ranked = sorted(values)
    return ranked[max(0, -int(-share * len(ranked) // 1) - 1)]


def _latency(micros: Sequence[int]) -> str:
    if not micros:
        return "none measured"
    p50, p99 = (percentile(micros, share) / 1000 for share in (0.5, 0.99))
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms"
