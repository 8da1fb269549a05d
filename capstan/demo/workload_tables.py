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

# The rows that are there before anything is streamed; the backfill's business.
_CATALOGUE = """CREATE TABLE {shop}.catalogue (
    id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    name VARCHAR(60) NOT NULL,
    price DECIMAL(10, 2) NOT NULL,
    added DATETIME(3) NOT NULL,
    sold INT NOT NULL
) DEFAULT CHARACTER SET utf8mb4"""

_INTO_CATALOGUE = """INSERT INTO {shop}.catalogue
WITH RECURSIVE numbers (n) AS (
    SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {end}
)
SELECT n * 8, CONCAT('article ', n), n % 100000 / 100,
    '2020-01-01' + INTERVAL n * 61003 MICROSECOND, 0 FROM numbers"""

_AUDIT = """CREATE TABLE {outside}.audit (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    what VARCHAR(40) NOT NULL,
    detail JSON NULL
) DEFAULT CHARACTER SET utf8mb4"""

_ROWS_AT_ONCE = 50_000

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
        single = (
            *(_CUSTOMERS, _ORDERS, _ORDER_LINES, _JOURNAL),
            *(_BOARD, _STOCK, _CATALOGUE, _AUDIT),
        )
        return [
            f"CREATE DATABASE {self.shop} CHARACTER SET utf8mb4",
            f"CREATE DATABASE {self.outside} CHARACTER SET utf8mb4",
            *(text.format(shop=self.shop, outside=self.outside) for text in single),
            *(_BAG.format(shop=self.shop, writer=writer) for writer in range(writers)),
        ]

    def catalogue(self, articles: int) -> list[str]:
        """The statements that fill the catalogue with articles 0 to `articles` - 1.

        Article n has the id 8 n, so that there is room between any two.
        """
        firsts = range(0, articles, _ROWS_AT_ONCE)
        return [
            f"SET SESSION cte_max_recursion_depth = {_ROWS_AT_ONCE}",
            *(
                _INTO_CATALOGUE.format(
                    shop=self.shop, first=first, end=min(first + _ROWS_AT_ONCE, articles)
                )
                for first in firsts
            ),
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
