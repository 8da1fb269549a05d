"""The tables that the demonstration's workload writes to, and rows for them.

Owns: their names, definitions and rows, and which of them lie outside the capture list. Refuses to
know: what is done to them, and when.
"""

from typing import Any

import attrs

from capstan.demo.workload_values import Values

Row = tuple[Any, ...]

_CUSTOMERS = """CREATE TABLE {shop}.customers (
    id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    name VARCHAR(80) NOT NULL,
    town VARCHAR(40) CHARACTER SET latin1 NULL,
    kind ENUM('new', 'regular', 'gone') NOT NULL,
    wants SET('mail', 'post', 'phone') NOT NULL,
    credit DECIMAL(20, 4) NOT NULL,
    born DATE NULL,
    seen TIMESTAMP(3) NULL,
    note TEXT NULL,
    KEY by_kind (kind)
) DEFAULT CHARACTER SET utf8mb4"""

_ORDERS = """CREATE TABLE {shop}.orders (
    id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    customer BIGINT UNSIGNED NULL,
    placed DATETIME(6) NOT NULL,
    state ENUM('open', 'paid', 'sent') NOT NULL,
    total DECIMAL(12, 2) NOT NULL,
    switches BIT(12) NOT NULL,
    token VARBINARY(32) NULL,
    label BLOB NULL,
    weight DOUBLE NULL,
    details JSON NULL,
    KEY by_customer (customer)
) DEFAULT CHARACTER SET utf8mb4"""

_ORDER_LINES = """CREATE TABLE {shop}.order_lines (
    order_id BIGINT UNSIGNED NOT NULL,
    line SMALLINT NOT NULL,
    sku CHAR(8) NOT NULL,
    quantity MEDIUMINT NOT NULL,
    price DECIMAL(10, 2) NOT NULL,
    packed TIME(2) NULL,
    size FLOAT NULL,
    PRIMARY KEY (order_id, line)
) DEFAULT CHARACTER SET utf8mb4"""

# Without a key: a transaction that is applied twice leaves its line twice.
_JOURNAL = """CREATE TABLE {shop}.journal (
    writer TINYINT UNSIGNED NOT NULL,
    number INT NOT NULL,
    action VARCHAR(20) CHARACTER SET ascii NOT NULL
)"""

_BOARD = """CREATE TABLE {shop}.board (
    place INT NOT NULL PRIMARY KEY,
    score BIGINT NOT NULL,
    headline VARCHAR(60) NULL
) DEFAULT CHARACTER SET utf8mb4"""

_STOCK = """CREATE TABLE {shop}.stock (
    sku CHAR(8) NOT NULL PRIMARY KEY,
    quantity INT NOT NULL,
    season YEAR NULL
) ENGINE = MyISAM DEFAULT CHARACTER SET utf8mb4"""

_BAG = """CREATE TABLE {shop}.bag_{writer} (
    colour VARCHAR(10) NULL,
    size TINYINT NULL
) DEFAULT CHARACTER SET utf8mb4"""

_AUDIT = """CREATE TABLE {outside}.audit (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    what VARCHAR(40) NOT NULL,
    detail JSON NULL
) DEFAULT CHARACTER SET utf8mb4"""

SKUS = tuple(f"sku-{number:04d}" for number in range(50))
PLACES = range(40)


@attrs.frozen(kw_only=True)
class Schemas:
    """The two databases of one workload.

    Attributes:
        shop: Captured whole.
        outside: Not captured: its tables must never reach the mirror.
    """

    shop: str = "shop"
    outside: str = "backoffice"

    @property
    def capture(self) -> str:
        """The one entry of the capture list."""
        return f"{self.shop}.*"

    def creation(self, writers: int) -> list[str]:
        """The statements that create both databases and every table that stays."""
        single = (_CUSTOMERS, _ORDERS, _ORDER_LINES, _JOURNAL, _BOARD, _STOCK, _AUDIT)
        return [
            f"CREATE DATABASE {self.shop} CHARACTER SET utf8mb4",
            f"CREATE DATABASE {self.outside} CHARACTER SET utf8mb4",
            *(text.format(shop=self.shop, outside=self.outside) for text in single),
            *(_BAG.format(shop=self.shop, writer=writer) for writer in range(writers)),
        ]

    def removal(self) -> list[str]:
        """The statements that take both databases away."""
        return [f"DROP DATABASE IF EXISTS {name}" for name in (self.shop, self.outside)]


def customer_row(values: Values, customer: int) -> Row:
    """A customer of this number."""
    return (
        customer,
        values.text(),
        values.or_null(values.town()),
        values.one_of(("new", "regular", "gone")),
        values.members(("mail", "post", "phone")),
        values.money(20, 4),
        values.or_null(values.day()),
        values.or_null(values.timestamp()),
        values.or_null(values.text(20)),
    )


def order_row(values: Values, order: int, customer: int | None) -> Row:
    """An open order of this number."""
    return (
        order,
        customer,
        values.moment(),
        "open",
        values.money(12, 2),
        values.switches(),
        values.or_null(values.data(32)),
        values.or_null(values.data(200)),
        values.or_null(values.double()),
        values.or_null(values.document()),
    )


def line_row(values: Values, order: int, line: int) -> Row:
    """One line of an order."""
    return (
        order,
        line,
        values.one_of(SKUS),
        values.number(-(2**23), 2**23 - 1),
        values.money(10, 2),
        values.or_null(values.span()),
        values.or_null(values.double()),
    )
