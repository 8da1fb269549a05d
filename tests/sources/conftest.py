"""A server with certificates of our own, and links to it that are closed afterwards."""

import contextlib
import ipaddress
import itertools
import struct
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest
from cryptography import x509
from helpers.certificates import Authority
from helpers.mysql import PrivateServers, execute
from helpers.waiting import wait_until

from capstan import config
from capstan.core.gtid import GtidSet
from capstan.core.halts import HaltReason
from capstan.core.server_errors import classify_dump_error
from capstan.core.tables import CaptureList
from capstan.demo.mysql_install import MysqlPrograms
from capstan.demo.mysql_server import MysqlServer
from capstan.sources.live import PIECE, LiveLink, LiveSource

SERVER_IDS = itertools.count(4000)
PREVIOUS_GTIDS = 35


@attrs.frozen(kw_only=True)
class TlsServer:
    """A private server whose certificate `authority` signed for 127.0.0.1 only."""

    server: MysqlServer
    authority: Authority
    stranger: Authority
    client: tuple[str, str]

    def execute(self, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
        with contextlib.closing(self.server.connect()) as connection:
            return execute(connection, sql, *arguments)

    def insert(self, table: str, value: str) -> GtidSet:
        """Commit one row; what the server has executed then."""
        self.execute(f"INSERT INTO {table} (v) VALUES (%s)", value)
        ((text,),) = self.execute("SELECT @@global.gtid_executed")
        return GtidSet.parse(text)

    def new_user(self, password: str, requirement: str = "") -> str:
        """An account with every right of a stream, and a cold authentication cache."""
        name = f"user{next(SERVER_IDS)}"
        self.execute(f"CREATE USER {name} IDENTIFIED BY %s {requirement}", password)
        self.execute(f"GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {name}")
        return name


@pytest.fixture(scope="package")
def tls_server(
    mysql_programs: MysqlPrograms, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TlsServer]:
    """One server for all tests of handshakes and streams in this folder."""
    folder = tmp_path_factory.mktemp("certificates")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    authority = Authority(folder, "authority")
    certificate, key = authority.sign("server", [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    with contextlib.closing(PrivateServers(mysql_programs)) as servers:
        server = servers(
            options={"ssl_ca": authority.path, "ssl_cert": certificate, "ssl_key": key}
        )
        yield TlsServer(
            server=server,
            authority=authority,
            stranger=Authority(folder, "stranger"),
            client=authority.sign("client", []),
        )


LinkMaker = Callable[..., LiveLink]


@pytest.fixture
def link_to() -> Iterator[LinkMaker]:
    """Makes links to a server, `link_to(server, tables=[…], **source_options)`."""
    links: list[LiveLink] = []

    def make(server: Any, *, tables: list[str] | None = None, **options: Any) -> LiveLink:
        source = config.Source(
            **{
                "host": server.host,
                "port": server.port,
                "user": server.user,
                "password": server.password,
                "server_id": next(SERVER_IDS),
                **options,
            }
        )
        link = LiveSource(source, CaptureList.parse(tables), write_timeout=300).link()
        links.append(link)
        return link

    yield make
    for link in links:
        link.close()


class Tap:
    """Reads a link's stream and cuts it into packets."""

    def __init__(self, link: LiveLink) -> None:
        self.link = link
        self.raw = b""

    def until(self, condition: Callable[[], object], what: str) -> None:
        wait_until(lambda: condition() or self._more(), what=what)

    def begun(self) -> "Tap":
        """Wait for what every stream begins with."""
        self.until(lambda: PREVIOUS_GTIDS in self.types(), "the stream begins")
        return self

    def _more(self) -> bool:
        piece = self.link.read(0.1)
        if piece is not None:
            assert 0 < len(piece) <= PIECE, "the stream ended"
            self.raw += piece
        return False

    def packets(self) -> list[bytes]:
        found, position = [], 0
        while position + 4 <= len(self.raw):
            length = int.from_bytes(self.raw[position : position + 3], "little")
            if position + 4 + length > len(self.raw):
                break
            found.append(self.raw[position + 4 : position + 4 + length])
            position += 4 + length
        return found

    def types(self) -> list[int]:
        return [packet[5] for packet in self.packets() if packet[0] == 0]

    def refusal(self) -> tuple[int, HaltReason]:
        """The error packet that the stream ends with, classified."""
        self.until(lambda: [p for p in self.packets() if p[0] == 0xFF], "an error packet")
        packet = self.packets()[-1]
        (code,) = struct.unpack_from("<H", packet, 1)
        return code, classify_dump_error(code, packet[9:])


@pytest.fixture
def tapped(link_to: Any) -> Callable[..., Tap]:
    """Opens a link and asks for a dump, from now on unless a set is given."""

    def tap(server: Any, gtid_set: GtidSet | None = None, **options: Any) -> Tap:
        link = link_to(server, **options)
        facts = link.open()
        link.dump(facts.gtid_executed if gtid_set is None else gtid_set)
        return Tap(link)

    return tap


@pytest.fixture
def table(tls_server: Any) -> Iterator[str]:
    """An empty table."""
    tls_server.execute("CREATE DATABASE live")
    tls_server.execute("CREATE TABLE live.t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGTEXT)")
    yield "live.t"
    tls_server.execute("DROP DATABASE live")
