"""The contenders of the decoding benchmark: a binlog file from its first event to its last.

Owns: how each reads a file and what it makes of it. Each run is a process of its own, and its time
is CPU time: nobody waits for anything here, and wall time would measure the machine's other work.

    python bench/decoders.py NAME    with a `FileTask` as JSON on standard input
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any

import attrs

PIECE = 128 << 10
"""Bytes that capstan is fed at a time, as its connection reads them."""
_FIRST_EVENT = 4
_size_of = Struct("<9xI").unpack_from


@attrs.frozen(kw_only=True)
class FileTask:
    """What is to be decoded.

    Attributes:
        path: The binlog file.
        mysqlbinlog: How MySQL's own program is started.
    """

    path: str
    mysqlbinlog: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Decoded:
    """What one run took.

    Attributes:
        seconds: CPU time; of Python contenders without the start of the interpreter and imports.
        peak_mib: The most memory that was held, in MiB.
        rows: Row changes that came; None where they cannot be counted.
    """

    seconds: float
    peak_mib: float
    rows: int | None


def capstan(task: FileTask) -> Decoded:
    """The fold of the pipeline: whole transactions, each row a tuple, every checksum verified."""
    from capstan.core.assembly import Fold  # noqa: PLC0415 - each process imports one contender
    from capstan.core.binlog.framing import Packets  # noqa: PLC0415
    from capstan.core.changes import Transaction  # noqa: PLC0415
    from capstan.core.epoch import Epoch  # noqa: PLC0415
    from capstan.core.gtid import GtidSet  # noqa: PLC0415
    from capstan.core.limits import Budget  # noqa: PLC0415
    from capstan.core.tables import CaptureList  # noqa: PLC0415

    data = Path(task.path).read_bytes()
    began = time.process_time()
    fold = Fold(CaptureList.parse(["bench.*"]), Budget())
    # Checksums begin with the first format description, as the file says there.
    fold.open(Epoch(start=GtidSet(), server_uuid="", checksums=False))
    rows = 0
    for bounds in _pieces(data):
        for item in fold.feed(Packets(data, bounds, gap=0)):
            if isinstance(item, Transaction):
                for chunk in item.changes.chunks:
                    rows += len(chunk)
        if fold.halt is not None:
            raise AssertionError(fold.halt)
    return _decoded(time.process_time() - began, resource.RUSAGE_SELF, rows)


def _pieces(data: bytes) -> Iterator[list[int]]:
    """Where events begin, in pieces as they come from a socket, each with where its last ends."""
    position, size_of = _FIRST_EVENT, _size_of
    while position < len(data):
        bounds = [position]
        stop = min(position + PIECE, len(data))
        while position < stop:
            (size,) = size_of(data, position)
            position += size
            bounds.append(position)
        yield bounds


def mysql_replication(task: FileTask) -> Decoded:
    """Its packets and row events as its stream reader drives them, without the reader's socket.

    Rows events only, every row made and dropped; checksums not verified, as is its default.
    """
    from pymysql.protocol import MysqlPacket  # noqa: PLC0415
    from pymysqlreplication import event as events  # noqa: PLC0415
    from pymysqlreplication import row_event as row_events  # noqa: PLC0415
    from pymysqlreplication.packet import BinLogPacketWrapper  # noqa: PLC0415

    class Control:
        """What its events ask a connection for."""

        charset = "utf8"

        def _get_dbms(self) -> str:
            return "mysql"

    files = (events.FormatDescriptionEvent, events.RotateEvent, row_events.TableMapEvent)
    changes = (row_events.WriteRowsEvent, row_events.UpdateRowsEvent, row_events.DeleteRowsEvent)
    wanted = frozenset(files + changes)
    data = Path(task.path).read_bytes()
    began = time.process_time()
    tables: dict[int, Any] = {}
    control, version, lengths, rows = Control(), (0, 0, 0), None, 0
    position = _FIRST_EVENT
    while position < len(data):
        stop = position + _size_of(data, position)[0]
        packet = BinLogPacketWrapper(
            from_packet=MysqlPacket(b"\0" + data[position:stop], "utf8"),
            table_map=tables,
            ctl_connection=control,
            mysql_version=version,
            use_checksum=True,
            allowed_events=wanted,
            only_tables=None,
            ignored_tables=None,
            only_schemas=None,
            ignored_schemas=None,
            freeze_schema=False,
            ignore_decode_errors=False,
            verify_checksum=False,
            optional_meta_data=True,
            enable_logging=False,
            post_header_lengths=lengths,
        )
        position, found = stop, packet.event
        if isinstance(found, row_events.TableMapEvent):
            tables[found.table_id] = found.get_table()
        elif isinstance(found, row_events.RowsEvent):
            for _row in found.rows:
                rows += 1
        elif isinstance(found, events.FormatDescriptionEvent):
            version, lengths = found.mysql_version, found.post_header_len
    return _decoded(time.process_time() - began, resource.RUSAGE_SELF, rows)


def mysqlbinlog(task: FileTask, *options: str) -> Decoded:
    """MySQL's own program, to nowhere; checksums not verified, as is its default."""
    subprocess.run(
        [*task.mysqlbinlog, "-vv", *options, task.path], stdout=subprocess.DEVNULL, check=True
    )
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return _decoded(usage.ru_utime + usage.ru_stime, resource.RUSAGE_CHILDREN, None)


DECODERS: dict[str, Callable[[FileTask], Decoded]] = {
    "capstan": capstan,
    "mysql-replication": mysql_replication,
    "mysqlbinlog -vv": mysqlbinlog,
    "the same, rows only": lambda task: mysqlbinlog(task, "--base64-output=DECODE-ROWS"),
}


def _decoded(seconds: float, whose: int, rows: int | None) -> Decoded:
    peak = resource.getrusage(whose).ru_maxrss / 1024
    return Decoded(seconds=seconds, peak_mib=peak, rows=rows)


if __name__ == "__main__":
    task = FileTask(**json.load(sys.stdin))
    print(json.dumps(attrs.asdict(DECODERS[sys.argv[1]](task))))
