"""TLS of a whole pipeline against a real server that shows one certificate after another."""

import contextlib
import ipaddress
import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from cryptography import x509
from helpers.certificates import Authority
from helpers.mysql import PrivateServers, execute
from helpers.pipelines import Recording, config_for, executed, start_from_now
from helpers.waiting import wait_until

from capstan import HaltReason, MemoryStore, Pipeline, PipelineHalted
from capstan.demo.mysql_install import MysqlPrograms
from capstan.demo.mysql_server import MysqlServer
from capstan.telemetry.events import ConnectionEstablished, ConnectionLost
from capstan.testing import TcpProxy

HERE = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
ELSEWHERE = x509.DNSName("db.example")
LONG, SHORT = 86_400.0, 2.0
"""Seconds."""
MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
REFUSED = {
    "right": {},
    "of a stranger": {"verify_ca": "self-signed in the chain", "verify_identity": "self-signed"},
    "expired": {"verify_ca": "expired, code 10", "verify_identity": "expired, code 10"},
    "for another host": {"verify_identity": "for another"},
}
"""Certificate → the modes that must refuse it, and in what words."""


@attrs.frozen(kw_only=True)
class Shop:
    """A server whose certificate can be exchanged while it runs.

    Attributes:
        server: It.
        authority: Whom its clients trust.
        stranger: Whom they do not.
    """

    server: MysqlServer
    authority: Authority
    stranger: Authority

    def show(self, name: str) -> None:
        """Show this certificate to whoever connects from now on.

        A server takes no certificate that has expired; so it gets one that soon does.
        """
        signer = self.stranger if name == "of a stranger" else self.authority
        names: list[x509.GeneralName] = [ELSEWHERE if name == "for another host" else HERE]
        lifetime = SHORT if name == "expired" else LONG
        expires = time.time() + lifetime
        paths = signer.path, *signer.sign(f"server {expires}", names, seconds=lifetime)
        settings = zip(("ssl_ca", "ssl_cert", "ssl_key"), paths, strict=True)
        self.run(f"SET GLOBAL {', '.join(f'{name} = {path!r}' for name, path in settings)}")
        self.run("ALTER INSTANCE RELOAD TLS")
        if lifetime is SHORT:
            wait_until(lambda: time.time() > expires, what="the certificate has expired")

    def run(self, statement: str) -> None:
        """Run a statement as root."""
        with contextlib.closing(self.server.connect()) as connection:
            execute(connection, statement)


@pytest.fixture(scope="module")
def shop(mysql_programs: MysqlPrograms, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """One server for all certificates."""
    folder = tmp_path_factory.mktemp("certificates")
    # The server may run under another account.
    for path in (folder, *folder.parents[:3]):
        path.chmod(path.stat().st_mode | 0o055)
    authority, stranger = Authority(folder, "authority"), Authority(folder, "stranger")
    with contextlib.closing(PrivateServers(mysql_programs)) as servers:
        made = Shop(server=servers(), authority=authority, stranger=stranger)
        made.run("CREATE DATABASE shop")
        made.run("CREATE TABLE shop.items (id INT PRIMARY KEY AUTO_INCREMENT)")
        yield made


def stream(shop: Shop, mode: str, told: list[Any]) -> Recording:
    """Stream one row in this mode."""
    sink, verifies = Recording(), mode.startswith("verify")
    config = config_for(
        shop.server,
        sink,
        ["shop.*"],
        start_from_now(MemoryStore(), shop.server),
        observers=(told.append,),
        tls=mode,
        tls_ca=shop.authority.path if verifies else None,
        reconnect_attempts=3,
    )
    with Pipeline(config) as pipeline:
        shop.run("INSERT INTO shop.items () VALUES ()")
        assert pipeline.wait_for(executed(shop.server), timeout=60)
    return sink


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("certificate", REFUSED)
def test_a_certificate_is_accepted_or_refused_as_the_mode_says(
    shop: Shop, certificate: str, mode: str
) -> None:
    """R265, R266: what verifies refuses once and for all; what encrypts encrypts."""
    told: list[Any] = []
    shop.show(certificate)
    words = REFUSED[certificate].get(mode)
    if words is None:
        sink = stream(shop, mode, told)
        assert len(sink.gtids) == 1
        links = [event.tls for event in told if isinstance(event, ConnectionEstablished)]
        assert links == [mode != "disabled"]
        return
    with pytest.raises(PipelineHalted) as caught:
        stream(shop, mode, told)
    assert caught.value.halt.reason is HaltReason.TLS_FAILED
    assert words in caught.value.halt.detail
    assert not [event for event in told if isinstance(event, ConnectionEstablished)]
    assert not [event for event in told if isinstance(event, ConnectionLost)]


def test_a_certificate_that_expires_under_the_stream_ends_the_next_dial(shop: Shop) -> None:
    """R266: what was verified once is verified again at every dial."""
    shop.show("right")
    sink, store = Recording(), start_from_now(MemoryStore(), shop.server)
    with TcpProxy(shop.server.host, shop.server.port) as proxy:
        reach: dict[str, Any] = {
            "port": proxy.port,
            "tls": "verify_identity",
            "tls_ca": shop.authority.path,
        }
        pipeline = Pipeline(config_for(shop.server, sink, ["shop.*"], store, **reach))
        pipeline.start()
        shop.run("INSERT INTO shop.items () VALUES ()")
        assert pipeline.wait_for(executed(shop.server), timeout=60)
        shop.show("expired")
        proxy.cut()
        with pytest.raises(PipelineHalted) as caught:
            pipeline.wait(60)
        pipeline.stop()
    assert caught.value.halt.reason is HaltReason.TLS_FAILED
    assert len(sink.gtids) == 1
