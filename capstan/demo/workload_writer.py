"""One writer of the workload: what it may do, how often, and which rows are its own.

Owns: the actions and their weights. Refuses to know: threads, time, the other writers. What a
writer does next depends on its random numbers alone, so a seed repeats it.
"""

import contextlib
from collections.abc import Callable
from random import Random

from capstan.demo.workload_session import LockLostError, Session
from capstan.demo.workload_tables import PLACES, SKUS, customer_row, line_row, order_row
from capstan.demo.workload_values import Values

_BULK_ROWS = 300

_INTO_SCRATCH = "INSERT INTO {shop}.{scratch} (id, word) VALUES (1, %s), (2, 'two'), (3, NULL)"
_LIFE_OF_A_TABLE: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE {scratch} (id INT NOT NULL PRIMARY KEY, word VARCHAR(80)) CHARSET utf8mb4",
        _INTO_SCRATCH,
    ),
    ("ALTER TABLE {scratch} ADD INDEX by_word (word)",),
    ("TRUNCATE TABLE {scratch}", "ALTER TABLE {scratch} ADD COLUMN size INT NULL FIRST"),
    (_INTO_SCRATCH,),
    ("RENAME TABLE {scratch} TO {shop}.{scratch}_aside",),
    ("CREATE TABLE {shop}.{scratch} LIKE {scratch}_aside",),
    ("INSERT INTO {scratch} SELECT * FROM {scratch}_aside WHERE id < 3",),
    ("DROP TABLE {scratch}_aside, {shop}.{scratch}",),
    ("CREATE TABLE {scratch} SELECT sku AS id, season FROM stock LIMIT 5",),
    ("DROP TABLE IF EXISTS {scratch}",),
)


class Writer:
    """Acts, one action at a time, on rows that no other writer touches, and on one shared table.

    Args:
        session: Where the statements go.
        number: This writer's own, from 0.
        seed: Of the whole workload.
        articles: Rows that the catalogue had at first.
    """

    def __init__(self, session: Session, number: int, seed: int, articles: int = 0) -> None:
        self._session = session
        self._number = number
        self._articles = articles
        self._random = Random(f"{seed}/{number}")  # noqa: S311 - repeatable, not secret
        self._values = Values(self._random)
        self._made = 0
        self._customers: list[int] = []
        self._orders: list[int] = []
        self._steps = 0
        self._actions: dict[Callable[[], None], int] = {
            self._new_customers: 8,
            self._place_order: 24,
            self._change_orders: 14,
            self._change_two_tables: 6,
            self._renumber: 6,
            self._cancel: 8,
            self._replace_customer: 6,
            self._give_up: 6,
            self._return_to_savepoint: 6,
            self._play: 10,
            self._restock: 6,
            self._leave_stock_behind: 2,
            self._audit: 5,
            self._fill_bag: 6,
            self._bulk: 1,
            self._define: 6,
            self._swap: 1 if number == 0 else 0,
            self._trade: 24 if articles else 0,
        }

    def act(self) -> None:
        """Do one thing to the source; it may turn out to be nothing.

        Raises:
            pymysql.err.MySQLError: The server refused a statement, or is gone.
        """
        weights = tuple(self._actions.values())
        (action,) = self._random.choices(tuple(self._actions), weights=weights)
        with contextlib.suppress(LockLostError):
            action()

    def _next_id(self) -> int:
        """A number that no other writer uses, one in five beyond what a signed one holds."""
        self._made += 1
        return self._made * 64 + self._number + (2**63 if self._made % 5 == 0 else 0)

    def _insert_order(self, order: int) -> None:
        customer = self._values.one_of(self._customers) if self._customers else None
        lines = range(self._values.number(1, 5))
        self._session.insert("orders", order_row(self._values, order, customer))
        self._session.insert(
            "order_lines", *(line_row(self._values, order, line) for line in lines)
        )

    # -- the catalogue -------------------------------------------------------------------------

    def _trade(self) -> None:
        """Sell, renumber, drop and add articles, on both sides of wherever a backfill stands."""
        first, second, third = (8 * self._values.number(0, self._articles - 1) for _ in range(3))
        moved = first + 1 + self._number % 7
        with self._session.transaction("trade"):
            self._session.run("UPDATE catalogue SET sold = sold + 1 WHERE id = %s", second)
            self._session.run("UPDATE IGNORE catalogue SET id = %s WHERE id = %s", moved, first)
            self._session.run("DELETE FROM catalogue WHERE id = %s", third)
            self._session.run(
                "INSERT IGNORE INTO catalogue VALUES (%s, 'new', 1, '2030-01-01', 0)", third + 7
            )

    # -- customers and orders ------------------------------------------------------------------

    def _new_customers(self) -> None:
        customers = [self._next_id() for _ in range(self._values.number(1, 4))]
        with self._session.transaction("new customers"):
            self._session.insert(
                "customers", *(customer_row(self._values, customer) for customer in customers)
            )
        self._customers += customers

    def _replace_customer(self) -> None:
        """Delete a row and insert it again, in one transaction."""
        for customer in self._values.some_of(self._customers, 1):
            row = customer_row(self._values, customer)
            with self._session.transaction("replace customer"):
                self._session.run("DELETE FROM customers WHERE id = %s", customer)
                self._session.insert("customers", row)

    def _place_order(self) -> None:
        """Three captured tables and one that is not."""
        order = self._next_id()
        with self._session.transaction("place order"):
            self._insert_order(order)
            for customer in self._values.some_of(self._customers, 1):
                credit = self._values.money(20, 4)
                self._session.run(
                    "UPDATE customers SET credit = %s WHERE id = %s", credit, customer
                )
            self._session.run("INSERT INTO {outside}.audit (what) VALUES ('an order')")
        self._orders.append(order)

    def _change_orders(self) -> None:
        orders = self._values.some_of(self._orders, 8)
        if orders:
            with self._session.transaction("change orders"):
                self._session.run(
                    "UPDATE orders SET state = %s, details = %s, switches = %s WHERE id IN %s",
                    self._values.one_of(("paid", "sent")),
                    self._values.document(),
                    self._values.switches(),
                    tuple(orders),
                )

    def _change_two_tables(self) -> None:
        orders = self._values.some_of(self._orders, 3)
        if orders:
            with self._session.transaction("two tables"):
                self._session.run(
                    "UPDATE orders AS o JOIN order_lines AS l ON l.order_id = o.id"
                    " SET o.total = %s, l.price = %s WHERE o.id IN %s",
                    self._values.money(12, 2),
                    self._values.money(10, 2),
                    tuple(orders),
                )

    def _renumber(self) -> None:
        """Change keys: an order's own, and those of its lines, each to that of the next."""
        for old in self._values.some_of(self._orders, 1):
            new = self._next_id()
            with self._session.transaction("renumber"):
                self._session.run("UPDATE orders SET id = %s WHERE id = %s", new, old)
                self._session.run(
                    "UPDATE order_lines SET order_id = %s WHERE order_id = %s", new, old
                )
                self._session.run(
                    "UPDATE order_lines SET line = line + 1 WHERE order_id = %s ORDER BY line DESC",
                    new,
                )
            self._orders[self._orders.index(old)] = new

    def _cancel(self) -> None:
        orders = self._values.some_of(self._orders, 3)
        if orders:
            with self._session.transaction("cancel"):
                self._session.run(
                    "DELETE o, l FROM orders AS o LEFT JOIN order_lines AS l"
                    " ON l.order_id = o.id WHERE o.id IN %s",
                    tuple(orders),
                )
        for order in orders:
            self._orders.remove(order)

    def _give_up(self) -> None:
        """Work that is rolled back leaves nothing anywhere."""
        with self._session.doomed():
            self._insert_order(self._next_id())

    def _return_to_savepoint(self) -> None:
        """Only what stands before the savepoint survives."""
        kept = self._next_id()
        with self._session.transaction("savepoint"):
            self._insert_order(kept)
            self._session.run("SAVEPOINT before_the_second")
            self._insert_order(self._next_id())
            self._session.run("ROLLBACK TO SAVEPOINT before_the_second")
            if self._values.sometimes(0.5):
                self._session.run("RELEASE SAVEPOINT before_the_second")
        self._orders.append(kept)

    def _bulk(self) -> None:
        """Statements that spread over several row events."""
        orders = [self._next_id() for _ in range(_BULK_ROWS)]
        with self._session.transaction("bulk insert"):
            self._session.insert(
                "orders", *(order_row(self._values, order, None) for order in orders)
            )
        with self._session.transaction("bulk delete"):
            self._session.run("DELETE FROM orders WHERE id IN %s", tuple(orders[10:]))
        self._orders += orders[:10]

    # -- other kinds of tables -----------------------------------------------------------------

    def _play(self) -> None:
        """The shared table: all writers change the same few rows."""
        place, score = self._values.one_of(PLACES), self._values.number(-(2**63), 2**63 - 1)
        headline = self._values.or_null(self._values.text())
        with self._session.transaction("play"):
            match self._values.number(1, 3):
                case 1:
                    self._session.run("DELETE FROM board WHERE place = %s", place)
                case 2:
                    self._session.insert("board", (place, score, headline), verb="REPLACE")
                case _:
                    self._session.run(
                        "INSERT INTO board VALUES (%s, %s, NULL)"
                        " ON DUPLICATE KEY UPDATE score = VALUES(score)",
                        place,
                        score,
                    )

    def _restock(self) -> None:
        """MyISAM: committed by itself."""
        self._session.run(
            "UPDATE stock SET quantity = %s, season = %s WHERE sku = %s",
            self._values.number(0, 2**31 - 1),
            self._values.number(1901, 2155),
            self._values.one_of(SKUS),
        )
        self._session.tally.unjournalled += 1

    def _leave_stock_behind(self) -> None:
        """A MyISAM row survives the rollback of the transaction it was written in."""
        with self._session.doomed():
            self._restock()
            self._insert_order(self._next_id())

    def _audit(self) -> None:
        """Nothing of this transaction is captured."""
        self._session.run(
            "INSERT INTO {outside}.audit (what, detail) VALUES ('a look', %s)",
            self._values.document(),
        )
        self._session.tally.unjournalled += 1

    def _fill_bag(self) -> None:
        """Equal rows without a key: one of them is changed, one or two are taken away."""
        bag = f"bag_{self._number}"
        colour = self._values.one_of(("red", "green", None))
        sizes = [self._values.number(-2, 2) for _ in range(self._values.number(2, 6))]
        with self._session.transaction("fill bag"):
            self._session.insert(bag, *((colour, size) for size in [*sizes, sizes[0]]))
            self._session.run(f"UPDATE {bag} SET size = NULL WHERE colour <=> %s LIMIT 1", colour)  # noqa: S608 - our own name
            self._session.run(f"DELETE FROM {bag} WHERE size = %s LIMIT 2", sizes[0])  # noqa: S608 - our own name

    # -- definitions ---------------------------------------------------------------------------

    def _define(self) -> None:
        """The next step in the life of a table of this writer's own."""
        step = _LIFE_OF_A_TABLE[self._steps % len(_LIFE_OF_A_TABLE)]
        self._steps += 1
        for statement in step:
            text = statement.replace("{scratch}", f"scratch_{self._number}")
            self._session.run(text, *([self._values.text()] if "%s" in text else []))
            if text.startswith("INSERT"):
                self._session.tally.unjournalled += 1
            else:
                self._session.tally.definitions += 1

    def _swap(self) -> None:
        """What online schema tools end with: a filled copy takes the place of the table."""
        self._session.run("CREATE TABLE board_new LIKE board")
        self._session.run("INSERT INTO board_new SELECT * FROM board")
        self._session.run("RENAME TABLE board TO board_old, {shop}.board_new TO {shop}.board")
        self._session.run("DROP TABLE board_old")
        self._session.tally.definitions += 3
        self._session.tally.unjournalled += 1
