"""Print the largest transactions of some binlog files, and what they did to which table.

Usage: python examples/largest_transactions.py BINLOG...

The files must follow one another. Nothing but counts and names is printed.
"""

import heapq
import sys
from collections.abc import Iterator

from capstan.binlog import CommittedTransaction, FileTransaction, read_transactions

SHOWN = 10


def described(transaction: FileTransaction, outcome: CommittedTransaction) -> str:
    """One transaction in one line."""
    prefix = transaction.prefix
    name = "no GTID" if prefix is None or prefix.gtid is None else str(prefix.gtid)
    did = ", ".join(
        f"{table.schema}.{table.table} +{table.inserts} ~{table.updates} -{table.deletes}"
        for table in outcome.tables
    )
    return f"{outcome.wire_bytes:>12,} bytes  {name}  at {transaction.start_offset}: {did}"


def lines(paths: list[str]) -> Iterator[tuple[int, int, str]]:
    """Each committed transaction: its size, its number among them, its line."""
    for number, transaction in enumerate(read_transactions(paths)):
        outcome = transaction.outcome
        if isinstance(outcome, CommittedTransaction):
            yield outcome.wire_bytes, -number, described(transaction, outcome)


def main() -> None:
    """Read the files that the command line names."""
    for _, _, line in heapq.nlargest(SHOWN, lines(sys.argv[1:])):
        print(line)


if __name__ == "__main__":
    main()
