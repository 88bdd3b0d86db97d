"""Commands that go where no broker is: they end at once, and say what to do."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli.broker_cli import BrokerCli, Ran, run_command
from support.served import Served
from support.tokens import Issuer

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.cli import reach
from magnetar.cli.target import Target
from magnetar.errors import ConnectError


def produced(url: str, *options: str) -> Ran:
    return run_command(["--url", url, *options, "produce", "t", "-m", "a"])


def told(ran: Ran) -> str:
    """The one line that it ended with."""
    assert (ran.code, ran.out) == (3, ""), ran
    assert ran.err.count("\n") == 1, ran.err
    return ran.err


@contextmanager
def server(talk: Callable[[socket.socket], object]) -> Iterator[str]:
    """Something that listens, and does with each connection what it likes; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            try:
                while True:
                    peer, _ = listening.accept()
                    with peer:
                        talk(peer)
            except OSError:
                pass  # it is over

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, str, str]]:
    """A broker with TLS, its CA, and a CA that is not its own."""
    directory = tmp_path_factory.mktemp("tls")
    issuer, other = Issuer(directory), Issuer(directory, "other")
    certificate, key = issuer.issue("localhost")
    served = Served(BrokerSettings(tls_certificate_file=certificate, tls_key_file=key))
    served.start()
    yield served, str(issuer.certificate), str(other.certificate)
    served.stop()


def test_nobody_listens() -> None:
    for scheme in ("pulsar", "pulsar+ssl", "http", "https"):
        text = told(produced(f"{scheme}://127.0.0.1:1"))
        assert f"cannot reach the broker at {scheme}://127.0.0.1:1: Connection refused" in text
        assert "is it up (magnetar serve), and is --url right?" in text


def test_no_such_host() -> None:
    assert "cannot reach the broker at pulsar://no-such-host.invalid:6650: " in told(
        produced("pulsar://no-such-host.invalid:6650")
    )


def test_a_web_server_is_no_broker(cli: BrokerCli) -> None:
    text = told(produced(cli.admin_url.replace("http://", "pulsar://")))
    assert "a web server answers; it is that of --admin-url, perhaps" in text
    for command in (["consume", "t", "-s", "s"], ["topics", "list"]):
        at = ["--url", cli.admin_url.replace("http", "pulsar"), "--admin-url", cli.url]
        assert run_command([*at, *command]).code in (2, 3)


def test_a_broker_without_tls(cli: BrokerCli) -> None:
    text = told(produced(cli.url.replace("pulsar://", "pulsar+ssl://")))
    assert "no TLS there" in text
    assert f"is it {cli.url}?" in text


def test_a_broker_with_tls_alone(secure: tuple[Served, str, str]) -> None:
    served, ca, _ = secure
    text = told(produced(served.url_tls.replace("pulsar+ssl://", "pulsar://")))
    assert "it speaks TLS there; begin --url with pulsar+ssl://" in text or "want TLS" in text
    assert produced(served.url_tls, "--tls-trust-certs", ca).code == 0


def test_a_certificate_that_nobody_vouches_for(secure: tuple[Served, str, str]) -> None:
    served, _, other = secure
    for options in ((), ("--tls-trust-certs", other)):
        text = told(produced(served.url_tls, *options))
        assert "certificate verify failed: " in text
        assert "give the CA by --tls-trust-certs" in text
    admin = run_command(["--admin-url", served.http_url_tls, "topics", "list"])
    assert "certificate verify failed: " in told(admin)


def test_one_that_closes_and_one_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    with server(lambda peer: None) as address:
        assert "it closed the connection" in told(produced(f"pulsar://{address}"))
    monkeypatch.setattr(reach, "ANSWER_S", 0.05)
    with server(lambda peer: peer.recv(1 << 16) and peer.recv(1)) as address:
        assert "no answer in 0 s; is --url right" in told(produced(f"pulsar://{address}"))


def test_of_several_hosts_one_is_enough(cli: BrokerCli) -> None:
    reach.require_broker(Target({"url": f"pulsar://127.0.0.1:1,{cli.url.partition('://')[2]}"}))
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1:1: "):
        reach.require_broker(Target({"url": "pulsar://127.0.0.1:1,127.0.0.1:2"}))


@pytest.mark.parametrize(
    ("scheme", "why"),
    [
        ("http", "it closed the connection without an answer; is it up, and is --admin-url right"),
        ("https", "no TLS there"),
    ],
)
def test_admin_rest_at_the_port_for_clients(cli: BrokerCli, scheme: str, why: str) -> None:
    text = told(run_command(["--admin-url", cli.url.replace("pulsar", scheme), "tenants", "list"]))
    assert f"cannot reach admin REST at {scheme}://" in text
    assert why in text


def test_admin_rest_over_tls_asked_in_the_clear(
    secure: tuple[Served, str, str], tmp_path: Path
) -> None:
    served, _, _ = secure
    url = served.http_url_tls.replace("https://", "http://")
    text = told(run_command(["--admin-url", url, "tenants", "list"]))
    assert "; is it " in text
