"""CREATE, ALTER, DROP, RENAME, TRUNCATE → the tables, databases and views they name.

House rules: the server has accepted the statement, so only as much of it is read as tells what it
names. Syntax that is not known makes the statement `UNKNOWN`, which counts as naming every table;
a name is never guessed. Temporary tables have no place in a stream of row images: they are nothing.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Final

from capstan.core.binlog.statement_alter import NamePair, is_primary, judge, take_name_pair
from capstan.core.binlog.statement_lexer import Token, Tokens
from capstan.core.binlog.statement_names import Names
from capstan.core.binlog.statement_types import (
    DML,
    HARMLESS,
    UNKNOWN,
    NamedObject,
    Statement,
    StatementError,
    StatementKind,
)
from capstan.core.changes import SchemaChangeKind

_ADJECTIVES: Final = frozenset(
    b"AGGREGATE DUALITY EXTERNAL FULLTEXT JSON MATERIALIZED RELATIONAL SPATIAL UNDO UNIQUE".split()
)
_HARMLESS_OBJECTS: Final = frozenset(
    b"EVENT FUNCTION INSTANCE LIBRARY LOGFILE PROCEDURE REFERENCE RESOURCE ROLE TABLESPACE TRIGGER"
    b" USER".split()
)
_DATABASE_OPTIONS: Final = frozenset({b"DEFAULT", b"CHARACTER", b"COLLATE", b"READ"})

NameReading = Callable[[Token], str]


class _Unfamiliar(Exception):  # noqa: N818 - a turn in the reading, not an error
    """The statement goes on in a way that is not known here."""


class DdlReader:
    """Reads one statement, whose first word was looked at and is still to be taken."""

    def __init__(
        self, tokens: Tokens, names: Names, default_schema: str, *, server_may_write: bool
    ) -> None:
        """Prepare to read.

        Args:
            tokens: The statement.
            names: How its names are decoded.
            default_schema: The session's database, "" for none.
            server_may_write: Whether a CREATE TABLE has the very form that the server writes.
        """
        self._tokens = tokens
        self._names = names
        self._default_schema = default_schema
        self._server_may_write = server_may_write

    def read(self) -> Statement:
        """Classify the statement.

        Raises:
            StatementError: When a name cannot be read with certainty.
        """
        readers = {
            b"CREATE": self._create,
            b"ALTER": self._alter,
            b"DROP": self._drop,
            b"RENAME": self._rename,
            b"TRUNCATE": self._truncate,
        }
        try:
            return readers[self._tokens.take().word]()
        except _Unfamiliar:
            return UNKNOWN

    # -- the five verbs ------------------------------------------------------------------------

    def _create(self) -> Statement:
        temporary = self._take_adjectives()
        tokens = self._tokens
        if tokens.accept(b"TABLE"):
            return self._create_table(temporary=temporary)
        if tokens.accept(b"VIEW"):
            tokens.accept(b"IF", b"NOT", b"EXISTS")
            return _ddl(self._object("create_view", self._names.servers, rows=False))
        if self._accept_database():
            tokens.accept(b"IF", b"NOT", b"EXISTS")
            return self._database("create_database", rows=False)
        if tokens.accept(b"INDEX"):
            return self._index()
        return self._nameless()

    def _alter(self) -> Statement:
        self._take_adjectives()
        tokens = self._tokens
        if tokens.accept(b"TABLE"):
            return self._alter_table()
        if tokens.accept(b"VIEW"):
            return _ddl(self._object("alter_view", self._names.servers, rows=False))
        if self._accept_database():
            if tokens.peek().word in _DATABASE_OPTIONS:
                schema = self._schema(None, self._names.clients)
                return _ddl(
                    NamedObject(kind="alter_database", schema=schema, rows_may_change=False)
                )
            return self._database("alter_database", rows=False)
        return self._nameless()

    def _drop(self) -> Statement:
        temporary = self._take_adjectives()
        tokens = self._tokens
        if tokens.accept(b"TABLE") or tokens.accept(b"TABLES"):
            tokens.accept(b"IF", b"EXISTS")
            dropped = self._list(lambda: self._object("drop_table", self._names.clients, rows=True))
            return HARMLESS if temporary else dropped
        if tokens.accept(b"VIEW"):
            tokens.accept(b"IF", b"EXISTS")
            return self._list(lambda: self._object("drop_view", self._names.clients, rows=False))
        if self._accept_database():
            tokens.accept(b"IF", b"EXISTS")
            return self._database("drop_database", rows=True)
        if tokens.accept(b"INDEX"):
            return self._index()
        return self._nameless()

    def _rename(self) -> Statement:
        if self._tokens.accept(b"TABLE") or self._tokens.accept(b"TABLES"):
            return self._list(self._renamed)
        return self._nameless()

    def _truncate(self) -> Statement:
        self._tokens.accept(b"TABLE")
        return self._list(lambda: self._object("truncate_table", self._names.clients, rows=True))

    # -- their objects -------------------------------------------------------------------------

    def _create_table(self, *, temporary: bool) -> Statement:
        self._tokens.accept(b"IF", b"NOT", b"EXISTS")
        pair = self._pair()
        words = [token.word for token in self._tokens.rest()]
        if temporary:
            return HARMLESS
        if _selects(words):
            return DML
        # Options and partitions may come behind it: the server writes those last (seen).
        rows_follow = (b"START", b"TRANSACTION") in pairwise(words)
        reading = self._names.clients
        if self._server_may_write:
            reading = self._names.servers if rows_follow else self._names.either
        created = self._named("create_table", pair, reading, rows=False)
        return _ddl(created, StatementKind.CREATE_SELECT if rows_follow else StatementKind.DDL)

    def _alter_table(self) -> Statement:
        pair = self._pair()
        alteration = judge(self._tokens.rest())
        if alteration.kind == "exchange_partition" and alteration.target is None:
            raise _Unfamiliar
        return _ddl(
            self._named(
                alteration.kind,
                pair,
                self._names.clients,
                rows=alteration.rows_may_change,
                target=alteration.target,
            )
        )

    def _index(self) -> Statement:
        """CREATE INDEX i [USING t] ON t …, DROP INDEX i ON t."""
        index = self._tokens.take()
        if self._tokens.accept(b"USING") or self._tokens.accept(b"TYPE"):
            self._tokens.take()
        if not self._tokens.accept(b"ON"):
            raise _Unfamiliar
        return _ddl(self._object("alter_table", self._names.clients, rows=is_primary(index)))

    def _renamed(self) -> NamedObject:
        pair = self._pair()
        if not self._tokens.accept(b"TO"):
            raise _Unfamiliar
        return self._named(
            "rename_table", pair, self._names.clients, rows=False, target=self._pair()
        )

    def _database(self, kind: SchemaChangeKind, *, rows: bool) -> Statement:
        unqualified, name = self._pair()
        if unqualified is not None:
            raise _Unfamiliar
        schema = self._names.clients(name)
        return _ddl(NamedObject(kind=kind, schema=schema, rows_may_change=rows))

    def _nameless(self) -> Statement:
        return HARMLESS if self._tokens.peek().word in _HARMLESS_OBJECTS else UNKNOWN

    # -- pieces --------------------------------------------------------------------------------

    def _take_adjectives(self) -> bool:
        """Pass over all that may stand before the kind of object; whether TEMPORARY was there."""
        tokens = self._tokens
        temporary = False
        while True:
            if tokens.accept(b"TEMPORARY"):
                temporary = True
            elif tokens.accept(b"DEFINER"):
                tokens.accept(b"=")
                self._take_account()
            elif tokens.accept(b"ALGORITHM"):
                tokens.accept(b"=")
                tokens.take()
            elif tokens.accept(b"SQL", b"SECURITY") or tokens.peek().word in _ADJECTIVES:
                tokens.take()
            elif not tokens.accept(b"OR", b"REPLACE"):
                return temporary

    def _take_account(self) -> None:
        tokens = self._tokens
        if tokens.take().word == b"CURRENT_USER":
            tokens.accept(b"(", b")")
        elif tokens.accept(b"@"):
            tokens.take()
            while tokens.accept(b"."):
                tokens.take()

    def _accept_database(self) -> bool:
        return self._tokens.accept(b"DATABASE") or self._tokens.accept(b"SCHEMA")

    def _pair(self) -> NamePair:
        pair = take_name_pair(self._tokens)
        if pair is None:
            raise _Unfamiliar
        return pair

    def _list(self, one: Callable[[], NamedObject]) -> Statement:
        """Objects between commas, up to the end of the statement."""
        objects = [one()]
        while self._tokens.accept(b","):
            objects.append(one())
        if not self._tokens.accept(b"RESTRICT"):
            self._tokens.accept(b"CASCADE")
        if self._tokens.rest():
            raise _Unfamiliar
        return Statement(StatementKind.DDL, tuple(objects))

    def _object(self, kind: SchemaChangeKind, reading: NameReading, *, rows: bool) -> NamedObject:
        return self._named(kind, self._pair(), reading, rows=rows)

    def _named(
        self,
        kind: SchemaChangeKind,
        pair: NamePair,
        reading: NameReading,
        *,
        rows: bool,
        target: NamePair | None = None,
    ) -> NamedObject:
        return NamedObject(
            kind=kind,
            schema=self._schema(pair[0], reading),
            table=reading(pair[1]),
            new_schema=self._schema(target[0], reading) if target else None,
            new_table=reading(target[1]) if target else None,
            rows_may_change=rows,
        )

    def _schema(self, token: Token | None, reading: NameReading) -> str:
        if token is not None:
            return reading(token)
        if not self._default_schema:
            raise StatementError("a name without a database")
        return self._default_schema


def _ddl(named: NamedObject, kind: StatementKind = StatementKind.DDL) -> Statement:
    return Statement(kind, (named,))


def _selects(words: list[bytes]) -> bool:
    """Whether a CREATE TABLE is filled by a query: these words are reserved, but after a dot."""
    return any(
        (word in (b"SELECT", b"TABLE") and before != b".") or (before, word) == (b"VALUES", b"ROW")
        for before, word in pairwise((b"", *words))
    )
