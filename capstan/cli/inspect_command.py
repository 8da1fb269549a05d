"""`capstan inspect`: what is in binlog files, without a server.

House rules: files are read and something is printed, nothing else. Whatever cannot be read as it
should be ends the command with status 1 and one line on standard error that says where and why; a
transaction that is not finished is never printed. The command has no limits of its own but those it
is given.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import attrs
import click

from capstan.binlog import (
    BinlogFileError,
    DecodeError,
    DecodeErrorKind,
    FileTransaction,
    IncompleteTransaction,
    SchemaError,
    Schemas,
    TransactionLimits,
)
from capstan.cli.console import refuse
from capstan.cli.inspect_lines import (
    event_line,
    group_line,
    summary_line,
    summary_table,
    transaction_line,
)
from capstan.cli.inspect_progress import Following, Watch, progress
from capstan.cli.inspect_span import Span, read_bound
from capstan.cli.stop_signals import StopSignals
from capstan.core.binlog.file_tally import FileTally
from capstan.core.gtid import Gtid
from capstan.sources.binlog_events import EventReader
from capstan.sources.binlog_groups import GroupReader
from capstan.sources.binlog_transactions import TransactionReader

EXIT_UNREADABLE: Final = 1


@attrs.frozen(kw_only=True)
class Request:
    """What was asked for; the fields are the command's options."""

    paths: tuple[Path, ...]
    transactions: bool
    gtids: bool
    find: Gtid | None
    rows: bool
    each: bool
    as_json: bool
    schema: Schemas | None
    span: Span
    limits: TransactionLimits
    follow: bool

    @property
    def limited(self) -> bool:
        """Whether a transaction has bounds."""
        return self.limits != TransactionLimits.unbounded()


def _gtid(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Gtid | None:
    try:
        return None if text is None else Gtid.parse(text)
    except ValueError:
        raise click.BadParameter("not one GTID, such as uuid:7 or uuid:tag:7") from None


_COUNT = click.IntRange(min=1, max=2**64 - 1)


@click.command()
@click.argument(
    "binlog",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("--transactions", is_flag=True, help="Count transactions and changes by table.")
@click.option("--gtids", is_flag=True, help="Print the GTIDs whose transactions are in the files.")
@click.option("--find", metavar="GTID", callback=_gtid, help="Print where one GTID's events lie.")
@click.option("--rows", is_flag=True, help="Print the rows of each event, values and all.")
@click.option("--each", is_flag=True, help="With --transactions: a JSON line for each one, first.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    help="How --transactions and --gtids answer.  [default: table]",
)
@click.option(
    "--schema",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON file with names and signs of columns, for files that lack them.",
)
@click.option(
    "--since", metavar="WHERE", callback=read_bound, help="Offset in the first file, or time (UTC)."
)
@click.option(
    "--until", metavar="WHERE", callback=read_bound, help="Offset in the last file, or time (UTC)."
)
@click.option("--max-events", metavar="N", type=_COUNT, help="Refuse a transaction of more events.")
@click.option(
    "--max-rows", metavar="N", type=_COUNT, help="Refuse a transaction of more row changes."
)
@click.option("--max-bytes", metavar="N", type=_COUNT, help="Refuse a transaction of more bytes.")
@click.option("--follow", is_flag=True, help="Wait for more, until Ctrl-C; go on in later files.")
@click.pass_context
def inspect(context: click.Context, /, **_options: object) -> None:
    """Tell what is in binlog files.

    Prints one JSON line for each event: where it lies, what it is, whose it is, which table and how
    many rows; no values unless --rows is given. Several files are read in order and must follow one
    another. With --transactions, --gtids or --find it prints that instead.

    Ends with 1, and one line on standard error, when something could not be read or the last
    transaction is not complete.
    """
    request = _request(context.params)
    with progress(request.paths) as watch:
        if request.gtids or request.find is not None:
            _groups(request, watch)
        elif request.transactions:
            _transactions(request, watch)
        else:
            _events(request, watch)


def _request(options: dict[str, Any]) -> Request:
    _refuse_mixtures(options)
    paths, schema = options["binlog"], options["schema"]
    bounds = {
        "events": options["max_events"],
        "row_changes": options["max_rows"],
        "encoded_bytes": options["max_bytes"],
    }
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    return Request(
        paths=paths,
        transactions=options["transactions"],
        gtids=options["gtids"],
        find=options["find"],
        rows=options["rows"],
        each=options["each"],
        as_json=options["form"] == "json",
        schema=None if schema is None else _schemas(schema),
        span=Span.of(paths, options["since"], options["until"]),
        limits=attrs.evolve(TransactionLimits.unbounded(), **given),
        follow=options["follow"],
    )


_ONLY_WITH: Final = {
    "transactions": (
        *("each", "form", "schema", "since", "until", "follow"),
        *("max_events", "max_rows", "max_bytes"),
    ),
    "gtids": ("form",),
    "find": (),
    "": ("rows", "schema", "since", "until", "follow"),
}
"""What may be asked for together with each mode; the last line is the listing of events."""


def _refuse_mixtures(options: dict[str, Any]) -> None:
    modes = [name for name in ("transactions", "gtids", "find") if options[name]]
    if len(modes) > 1:
        refuse(f"give one of {', '.join(f'--{mode}' for mode in modes)}")
    mode = modes[0] if modes else ""
    for name in sorted({name for names in _ONLY_WITH.values() for name in names}):
        if options[name] and name not in _ONLY_WITH[mode]:
            option = "format" if name == "form" else name.replace("_", "-")
            refuse(f"--{option} does not go with {f'--{mode}' if mode else 'a list of events'}")


def _schemas(path: Path) -> Schemas:
    try:
        return Schemas.read(json.loads(path.read_bytes()))
    except SchemaError as error:
        refuse(f"{path}: {error}")
    except (OSError, ValueError):
        refuse(f"{path}: no JSON that can be read")


# --- the three ways to look -----------------------------------------------------------------------


def _groups(request: Request, watch: Watch) -> None:
    reader = GroupReader(request.paths, watch)
    why = None
    try:
        for group in reader:
            if group.gtid == request.find:
                _print(group_line(group, reader.path))
                return
    except (BinlogFileError, DecodeError) as error:
        why = _why(error, reader.path)
    if request.find is None:
        _print_gtids(request, reader)
    elif why is None:
        why = f"{request.find} is not in {'these files' if request.paths[1:] else 'this file'}"
    if why is None and reader.unfinished is not None:
        why = f"{reader.path}: the last transaction, {reader.unfinished}, is incomplete"
    if why is not None:
        _fail(why)


def _print_gtids(request: Request, reader: GroupReader) -> None:
    gtids, previous = str(reader.gtids), reader.previous_gtids
    if not request.as_json:
        _print(gtids)
        return
    before = None if previous is None else str(previous)
    _print(json.dumps({"previous": before, "gtids": gtids}))


def _events(request: Request, watch: Watch) -> None:
    with _tail(request) as tail:
        reader = EventReader(
            request.paths, rows=request.rows, signs=request.schema, tail=tail, watch=watch
        )
        undecoded, first = 0, ""
        with _failures_told(lambda: reader.path):
            for event in reader:
                path, offset = reader.path, event.offset
                if request.span.over(path, offset):
                    break
                if not request.span.covers(path, offset, event.header.timestamp):
                    continue
                _print(event_line(event, path if len(request.paths) > 1 or tail else None))
                if event.trouble is not None:
                    undecoded += 1
                    first = first or _why(event.trouble, path)
    if undecoded:
        _fail(first if undecoded == 1 else f"{first} (the first of {undecoded} such events)")


def _transactions(request: Request, watch: Watch) -> None:
    with _tail(request) as tail:
        reader = TransactionReader(
            request.paths,
            limits=request.limits,
            signs=request.schema,
            count_only=True,
            tail=tail,
            watch=watch,
        )
        _count(request, reader)


def _count(request: Request, reader: TransactionReader) -> None:
    plain = request.span.whole and not (request.limited or request.each or request.schema)
    tally, events, size = FileTally(), 0, 0
    why = None
    try:
        for transaction in reader.count() if plain else reader:
            path = reader.path
            if request.span.over(path, transaction.start_offset):
                break
            if not request.span.covers(path, transaction.start_offset, transaction.timestamp):
                continue
            tally.add(transaction)
            events += transaction.event_count
            size += transaction.end_offset - transaction.start_offset
            if isinstance(transaction.outcome, IncompleteTransaction):
                why = None if reader.stopped else _incomplete(path, transaction)
            elif request.each:
                _print(transaction_line(transaction, path if request.paths[1:] else None))
    except (BinlogFileError, DecodeError) as error:
        why = f"{_why(error, reader.path)}; counted is what lies before"
    if request.span.whole:
        tally, events, size = reader.tally, reader.events, reader.size
    summary = summary_line if request.as_json or request.each else summary_table
    _print(summary(tally, events, size))
    if why is not None:
        _fail(why)


def _incomplete(path: Path, transaction: FileTransaction) -> str:
    prefix = transaction.prefix
    gtid = "" if prefix is None or prefix.gtid is None else f" ({prefix.gtid})"
    return (
        f"{path}: the last transaction, at offset {transaction.start_offset}{gtid}, is incomplete"
    )


# --- ways out -------------------------------------------------------------------------------------


@contextmanager
def _tail(request: Request) -> Iterator[Following | None]:
    """What waits for more; the first signal ends the waiting."""
    if not request.follow:
        yield None
        return
    following = Following()
    with ExitStack() as stack:
        stack.enter_context(StopSignals(following.stop))
        yield following


@contextmanager
def _failures_told(path: Callable[[], Path]) -> Iterator[None]:
    try:
        yield
    except (BinlogFileError, DecodeError) as error:
        _fail(_why(error, path()))


def _why(error: BinlogFileError | DecodeError, path: Path) -> str:
    if isinstance(error, BinlogFileError):
        return str(error)
    hint = " (--schema can tell)" if error.kind is DecodeErrorKind.SIGNEDNESS_MISSING else ""
    return f"{path}: {error}{hint}"


def _fail(why: str) -> NoReturn:
    """End the command with one line."""
    sys.stdout.flush()
    click.echo(f"capstan: {why}", err=True)
    sys.exit(EXIT_UNREADABLE)


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
