"""The two connections of a view: settings, identity, and how they are let go.

House rules: every setting that decides what a SELECT gives is set here and none is inherited. Both
connections, and every later one in their place, must reach the server that the first one reached.
While a lock or a view is held the server's patience with a silent session is short; between
captures it is long, so that an idle connection lives on.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from capstan import config
from capstan.core.halts import HaltReason, halted
from capstan.core.server_errors import Stage, is_transient
from capstan.sources.base import LinkLost
from capstan.sources.query import account, version_numbers
from capstan.sources.row_packets import Page
from capstan.sources.sockets import Interrupt
from capstan.sources.sql_session import LOST, SqlSession, StatementFailed
from capstan.sources.sql_text import grantable

STEP: Final = 2.0
"""Seconds that each step between LOCK and UNLOCK may take (D2)."""
_TOUCH_WAIT: Final = 1
"""Seconds that the touch waits: what it waits for waits for the locker in turn (D2)."""
_ROWS: Final = 60.0
"""Seconds without a byte of the answer after which a SELECT is given up."""
_HOLDING: Final = 5
"""Seconds that the server bears a silent session while it holds something (D2)."""
_IDLE: Final = 28_800
_STALLED_WRITE: Final = 10
"""Seconds that the server waits for a reader that does not take its rows."""

_SETTINGS: Final[tuple[str, ...]] = (
    "transaction_isolation = 'REPEATABLE-READ'",
    "time_zone = '+00:00'",
    "sql_mode = ''",
    "completion_type = 'NO_CHAIN'",
    "max_execution_time = 0",
    "sql_select_limit = 18446744073709551615",
    "sql_big_selects = 1",
    "information_schema_stats_expiry = 0",
    "range_optimizer_max_mem_size = 8388608",
    f"net_write_timeout = {_STALLED_WRITE}",
    f"wait_timeout = {_IDLE}",
)
_RESULTS_AS_THEY_ARE: Final = ("character_set_results = NULL", "use_secondary_engine = 'OFF'")
_HIDDEN_KEYS_SINCE: Final = (8, 0, 30)
_SHOW_HIDDEN_KEYS: Final = ("show_gipk_in_create_table_and_information_schema = ON",)


class Role(StrEnum):
    """Which of the two connections."""

    LOCKER = "locker"
    READER = "reader"


class ViewSessions:
    """Both connections.

    Args:
        source: The server.
        lock_wait: Whole seconds that the locker waits for a table.

    Attributes:
        lock_wait: The same.
    """

    def __init__(self, source: config.Source, lock_wait: int) -> None:
        self.lock_wait = lock_wait
        self._lock_waits = {Role.LOCKER: lock_wait, Role.READER: _TOUCH_WAIT}
        self._source = source
        self._interrupts = {role: Interrupt() for role in Role}
        self._sessions: dict[Role, SqlSession] = {}
        self._server_uuid: str | None = None
        self._account = ""

    @property
    def interrupted(self) -> bool:
        """Whether `interrupt()` was called."""
        return self._interrupts[Role.LOCKER].is_set()

    def open(self) -> str:
        """Connect both; the server's uuid in lower case.

        Raises:
            LinkLost: What a later dial may cure.
            Halted: `snapshot_source_mismatch`, `auth_failed`, `tls_failed`, ….
        """
        for role in Role:
            self._connect(role)
        return self._server_uuid or ""

    def prepare(self) -> None:
        """Have both connections alive, idle and with short patience, before anything is locked.

        Raises:
            LinkLost: When one cannot be had.
            Halted: As `open()`.
        """
        for role in Role:
            session = self._sessions.get(role)
            if session is None or not session.alive or not self._tightened(role):
                self._connect(role)
                if not self._tightened(role):
                    raise LinkLost(Stage.QUERY)

    def ask(
        self, role: Role, statement: str, deadline: float | None = None
    ) -> Sequence[tuple[Any, ...]]:
        """Run a statement on one of them.

        Raises:
            StatementFailed: With the code.
        """
        session = self._sessions.get(role)
        if session is None:
            raise StatementFailed(LOST)
        return session.ask(statement, deadline)

    def locker_ask(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """Run a statement on the locker."""
        return self.ask(Role.LOCKER, statement)

    def page(self, statement: str, room: int, *, always_one: bool) -> Page:
        """Read rows on the reader.

        Raises:
            StatementFailed: With the code.
        """
        return self._sessions[Role.READER].page(
            statement, room, always_one=always_one, deadline=_ROWS
        )

    def relax(self, role: Role) -> None:
        """Long patience again.

        Raises:
            StatementFailed: With the code.
        """
        self.ask(role, f"SET SESSION wait_timeout = {_IDLE}", STEP)

    def rest(self) -> None:
        """Long patience for whichever lives: nothing is held."""
        for role, session in self._sessions.items():
            try:
                self.relax(role)
            except StatementFailed:
                session.drop()

    def unlock(self) -> None:
        """Let the table go, if need be with the connection."""
        try:
            self.ask(Role.LOCKER, "UNLOCK TABLES", STEP)
        except StatementFailed:
            self._sessions[Role.LOCKER].drop()

    def end_view(self) -> None:
        """End the reader's transaction, if need be with the connection."""
        try:
            self.ask(Role.READER, "COMMIT", STEP)
            self.relax(Role.READER)
        except StatementFailed:
            self._sessions[Role.READER].drop()

    def grant(self, schema: str) -> str:
        """The statement that gives the account its rights on a schema."""
        return f"GRANT SELECT, LOCK TABLES ON {grantable(schema)}.* TO {self._account}"

    def close(self) -> None:
        """Close the sockets; safe to call twice."""
        for session in self._sessions.values():
            if self.interrupted:
                session.drop()
            else:
                session.close()
        for interrupt in self._interrupts.values():
            interrupt.close()

    def interrupt(self) -> None:
        """From any thread: break both connections for good."""
        for interrupt in self._interrupts.values():
            interrupt.set()

    def _tightened(self, role: Role) -> bool:
        try:
            wait = self._lock_waits[role]
            self.ask(role, f"SET SESSION lock_wait_timeout = {wait}, wait_timeout = {_HOLDING}")
        except StatementFailed:
            self._sessions[role].drop()
            return False
        return True

    def _connect(self, role: Role) -> None:
        if (old := self._sessions.pop(role, None)) is not None:
            old.drop()
        self._interrupts[role].release()
        session = self._sessions[role] = SqlSession(self._source, self._interrupts[role])
        try:
            ((server_uuid, text, user),) = session.ask(
                "SELECT @@GLOBAL.server_uuid, VERSION(), CURRENT_USER()"
            )
            session.ask("SET SESSION " + ", ".join(self._settings(role, text)))
        except StatementFailed as failed:
            code = failed.code
            if is_transient(code):
                raise LinkLost(Stage.QUERY, code) from None
            raise halted(HaltReason.PRECONDITION_QUERY_FAILED, f"code {code}") from None
        self._account = account(user)
        self._compare(str(server_uuid).lower())

    def _settings(self, role: Role, version: str) -> tuple[str, ...]:
        settings = (*_SETTINGS, f"lock_wait_timeout = {self._lock_waits[role]}")
        if role is Role.READER:
            settings += _RESULTS_AS_THEY_ARE
        if version_numbers(version) >= _HIDDEN_KEYS_SINCE:
            settings += _SHOW_HIDDEN_KEYS
        return settings

    def _compare(self, server_uuid: str) -> None:
        if self._server_uuid is None:
            self._server_uuid = server_uuid
        elif server_uuid != self._server_uuid:
            raise halted(
                HaltReason.SNAPSHOT_SOURCE_MISMATCH,
                f"a connection reached server {server_uuid}, the others {self._server_uuid}",
            )
