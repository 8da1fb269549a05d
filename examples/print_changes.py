"""Print every committed change of a database, one line each, until Ctrl-C."""

import os

import capstan


def show(transaction: capstan.Transaction) -> None:
    """Called with one committed transaction after the other; returning means accepted."""
    for change in transaction.changes:
        print(transaction.gtid, change.op, change.schema, change.table, change.key, flush=True)


config = capstan.Config(
    source=capstan.Source(port=3306, user="repl", password=os.environ["PASSWORD"], server_id=4242),
    tables=["shop.*"],
    sink=capstan.FunctionSink(show),
    store=capstan.SqliteStore("print_changes.state"),
)
with capstan.Pipeline(config) as pipeline:
    pipeline.wait()
