"""Connecting, encrypting and authenticating, against a real server."""

import socket
from pathlib import Path
from typing import Any

import pytest

from capstan.core.halts import Halted, HaltReason
from capstan.sources.base import LinkLost
from capstan.sources.live import LiveLink

PASSWORD = "sentinel-Pä日😀-\\'\""


def refusal(link: LiveLink) -> tuple[HaltReason, str]:
    with pytest.raises(Halted) as caught:
        link.open()
    return caught.value.halt.reason, caught.value.halt.detail


@pytest.mark.parametrize(
    ("options", "tls"),
    [
        ({"tls": "disabled"}, False),
        ({"tls": "preferred"}, True),
        ({"tls": "required"}, True),
        ({}, True),
    ],
)
def test_a_cold_authentication_works_with_and_without_tls_and_so_does_a_warm_one(
    tls_server: Any, link_to: Any, options: dict[str, str], tls: bool
) -> None:
    """Full caching_sha2 through RSA and through TLS, then the fast path."""
    user = tls_server.new_user(PASSWORD)
    for _ in range(2):
        link = link_to(tls_server.server, user=user, password=PASSWORD, **options)
        facts = link.open()
        assert facts.account == f"'{user}'@'%'"
        assert link.tls is tls
        link.close()


def test_a_unix_socket_authenticates_in_clear_and_without_tls(
    tls_server: Any, link_to: Any
) -> None:
    """Nobody can listen there, and MySQL's own client does not encrypt either."""
    password = "x" * 250
    user = tls_server.new_user(password)
    socket_path = str(tls_server.server.socket)
    link = link_to(tls_server.server, user=user, password=password, unix_socket=socket_path)
    link.open()
    assert not link.tls


def test_a_unix_socket_is_encrypted_when_that_is_required(tls_server: Any, link_to: Any) -> None:
    """Only `preferred` leaves it out."""
    socket_path = str(tls_server.server.socket)
    link = link_to(tls_server.server, unix_socket=socket_path, tls="required")
    link.open()
    assert link.tls


def test_a_password_too_long_for_the_servers_key_is_a_named_refusal(
    tls_server: Any, link_to: Any
) -> None:
    """R265: not a driver's exception with the password in it."""
    password = "x" * 250
    user = tls_server.new_user(password)
    link = link_to(tls_server.server, user=user, password=password, tls="disabled")
    reason, detail = refusal(link)
    assert reason is HaltReason.AUTH_FAILED
    assert "cannot be encrypted" in detail


def test_an_empty_password_works(tls_server: Any, link_to: Any) -> None:
    """With TLS and without."""
    user = tls_server.new_user("")
    for mode in ("disabled", "required"):
        link_to(tls_server.server, user=user, password="", tls=mode).open()


@pytest.mark.parametrize("mode", ["disabled", "required"])
def test_a_wrong_password_is_auth_failed(tls_server: Any, link_to: Any, mode: str) -> None:
    """At once, with the server's code and without its text."""
    link = link_to(tls_server.server, password="wrong", tls=mode)
    assert refusal(link) == (HaltReason.AUTH_FAILED, "code 1045")


def test_accounts_that_ask_for_tls_or_a_certificate_get_them_or_refuse(
    tls_server: Any, link_to: Any
) -> None:
    """REQUIRE SSL and REQUIRE X509, with what they ask for and without it."""
    server, (certificate, key) = tls_server.server, tls_server.client
    encrypted = tls_server.new_user(PASSWORD, "REQUIRE SSL")
    certified = tls_server.new_user(PASSWORD, "REQUIRE X509")
    link_to(server, user=encrypted, password=PASSWORD, tls="required").open()
    link = link_to(server, user=encrypted, password=PASSWORD, tls="disabled")
    assert refusal(link) == (HaltReason.AUTH_FAILED, "code 1045")
    link = link_to(server, user=certified, password=PASSWORD, tls="required")
    assert refusal(link) == (HaltReason.AUTH_FAILED, "code 1045")
    for mode in ("preferred", "verify_ca"):
        link = link_to(
            server,
            user=certified,
            password=PASSWORD,
            tls=mode,
            tls_ca=tls_server.authority.path,
            tls_cert=certificate,
            tls_key=key,
        )
        link.open()
        assert link.tls


@pytest.mark.parametrize("mode", ["verify_ca", "verify_identity"])
def test_verifying_modes_accept_the_right_authority_only(
    tls_server: Any, link_to: Any, mode: str
) -> None:
    """A certificate of another authority, or of none the system knows, is tls_failed."""
    server = tls_server.server
    link_to(server, tls=mode, tls_ca=tls_server.authority.path).open()
    for authority in (tls_server.stranger.path, None):
        reason, detail = refusal(link_to(server, tls=mode, tls_ca=authority))
        assert reason is HaltReason.TLS_FAILED
        assert "certificate is" in detail


def test_only_verify_identity_compares_the_host_name(tls_server: Any, link_to: Any) -> None:
    """The certificate is for 127.0.0.1, not for localhost."""
    server, authority = tls_server.server, tls_server.authority.path
    link_to(server, host="localhost", tls="verify_ca", tls_ca=authority).open()
    link = link_to(server, host="localhost", tls="verify_identity", tls_ca=authority)
    reason, detail = refusal(link)
    assert reason is HaltReason.TLS_FAILED
    assert "for another host name" in detail


@pytest.mark.parametrize("mode", ["preferred", "required"])
def test_modes_that_do_not_verify_accept_any_certificate(
    tls_server: Any, link_to: Any, mode: str
) -> None:
    """MySQL's own meaning of the two."""
    link = link_to(tls_server.server, tls=mode, tls_ca=tls_server.stranger.path)
    link.open()
    assert link.tls


def test_a_server_without_tls_is_refused_unless_tls_is_only_preferred(
    new_server: Any, link_to: Any
) -> None:
    """The mode `required` never falls back to clear text."""
    server = new_server(options={"tls_version": ""})
    link = link_to(server, tls="preferred")
    link.open()
    assert not link.tls
    for mode in ("required", "verify_ca", "verify_identity"):
        assert refusal(link_to(server, tls=mode)) == (HaltReason.TLS_FAILED, "code 2026")


@pytest.mark.parametrize("option", ["tls_ca", "tls_cert"])
def test_a_file_that_cannot_be_used_is_named_by_its_option(
    tls_server: Any, link_to: Any, tmp_path: Path, option: str
) -> None:
    """Missing, or not a certificate; the path is not repeated."""
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("rubbish")
    for path in (str(rubbish), str(tmp_path / "missing.pem")):
        link = link_to(tls_server.server, tls="verify_ca", **{option: path})
        reason, detail = refusal(link)
        assert reason is HaltReason.TLS_FAILED
        assert detail == f"{option}: the file cannot be used"


def test_nothing_listening_is_a_lost_link(link_to: Any, tls_server: Any) -> None:
    """A later dial may find it; TCP, Unix socket and name alike, each with its code."""
    server = tls_server.server
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for options, code in (
        ({"port": port}, 2003),
        ({"unix_socket": f"{server.socket}.none"}, 2003),
        ({"host": "no-such-host.invalid"}, 2005),
    ):
        with pytest.raises(LinkLost) as caught:
            link_to(server, tls="disabled", **options).open()
        assert (caught.value.stage, caught.value.code) == ("connect", code)
