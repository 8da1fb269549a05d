"""The short cut against what a real server writes: both ways through the fold, side by side."""

from helpers import event_builder as e
from helpers.mysql import Database
from helpers.row_stream import dumped, position
from helpers.short_cuts import both_ways

from capstan.core.binlog.framing import PacketCutter, Packets

_TABLES = """
CREATE TABLE orders (id INT PRIMARY KEY, code CHAR(3), note VARCHAR(300), paid DECIMAL(9,2),
                     placed DATETIME(3) NULL, extra JSON NULL);
CREATE TABLE `lines` (a INT, b INT, text TEXT, PRIMARY KEY (a, b));
CREATE TABLE hidden (id INT PRIMARY KEY, text TEXT)
"""


def _write(database: Database) -> None:
    run = database.execute
    for statement in _TABLES.split(";"):
        run(statement)
    for number in range(60):
        note = None if number % 5 == 0 else "n" * (number * 7 % 90)
        run(
            "INSERT INTO orders VALUES (%s, 'EUR', %s, %s, NOW(3), JSON_OBJECT('n', %s))",
            *(number, note, number * 1.5 - 30, number),
        )
        run("INSERT INTO `lines` VALUES (%s, 1, 'one'), (%s, 2, %s)", number, number, note or "two")
        run("INSERT INTO hidden VALUES (%s, 'x')", number)
        run("UPDATE orders SET paid = paid + 1 WHERE id <= %s", number % 4)
        if number % 10 == 0:
            # Two statements, a statement of two tables, a row event over the bound, a DDL.
            run("SET @@SESSION.foreign_key_checks = 0")
            run("DELETE orders, `lines` FROM orders JOIN `lines` ON a = id WHERE id = %s", number)
            run("INSERT INTO `lines` VALUES (%s, 3, REPEAT('long', 2000))", number)
            run(f"CREATE TABLE other{number} (id INT PRIMARY KEY)")
        if number % 3 == 0:
            run("DELETE FROM `lines` WHERE a = %s AND b = 2", number)


def _pieces(events: list[bytes], size: int) -> list[Packets]:
    stream, cutter, found = e.packets(events), PacketCutter(), []
    for start in range(0, len(stream), size):
        found += cutter.feed(stream[start : start + size]).packets
    return found


def test_a_servers_own_stream_comes_out_the_same_both_ways(database: Database) -> None:
    """R1, R10, R266: inserts, updates and deletes of several tables, in pieces of two sizes."""
    start = position(database)
    _write(database)
    events = list(dumped(database, start, 4_000_000_101))

    capture = (f"{database.name}.orders", f"{database.name}.lines")
    for size in (3000, 128 << 10):
        outcome = both_ways(_pieces(events, size), capture=capture)
        assert outcome.halt is None
        assert outcome.taken > 150
        assert len(outcome.items) >= 260
