"""TLS, client certificates and tokens that end, with the official client and with ours."""

import contextlib
import logging
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pulsar
import pytest
from support.served import Served
from support.tokens import SECRET_SETTING, Issuer, token
from support.waiting import wait_until

import magnetar
from magnetar.broker.auth.permissions import Permissions
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.tls import TlsFiles
from magnetar.errors import SettingsError

N = "public/default"
TOPIC = f"persistent://{N}/t"
WAIT_S = 30

both = pytest.mark.parametrize("library", [pulsar, magnetar], ids=["official", "ours"])


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def served(issuer: Issuer) -> Iterator[Served]:
    with serving(issuer) as served:
        yield served


@contextlib.contextmanager
def serving(issuer: Issuer, **settings: Any) -> Iterator[Served]:
    certificate, key = issuer.issue("broker")
    served = Served(
        BrokerSettings(
            authentication=True,
            token_secret_key=SECRET_SETTING,
            super_user_roles=("root",),
            tls_certificate_file=certificate,
            tls_key_file=key,
            tls_trust_certs_file=str(issuer.certificate),
            **settings,
        )
    )
    served.start()
    permissions = Permissions().with_namespace("worker", ("produce", "consume"))
    served.call(lambda: served.broker.directory.put_permissions(N, permissions))
    try:
        yield served
    finally:
        served.stop()


@contextlib.contextmanager
def connected(library: Any, served: Served, issuer: Issuer, **options: Any) -> Iterator[Any]:
    """A client over TLS, which trusts the issuer and nobody else."""
    client = library.Client(
        options.pop("url", served.url_tls),
        **{
            "tls_trust_certs_file_path": str(issuer.certificate),
            "tls_validate_hostname": True,
            "operation_timeout_seconds": 10,
            "logger": library.ConsoleLogger(library.LoggerLevel.Error),
        }
        | options,
    )
    try:
        yield client
    finally:
        client.close()


def exchange(library: Any, client: Any, topic: str) -> None:
    """Messages there and back, a large one too."""
    consumer = client.subscribe(topic, "s", library.ConsumerType.Shared)
    producer = client.create_producer(topic)
    for payload in (b"small", b"x" * 3_000_000):
        producer.send(payload)
        message = consumer.receive(WAIT_S * 1000)
        assert message.data() == payload
        consumer.acknowledge(message)
    producer.close()
    consumer.close()


# ---- TLS --------------------------------------------------------------------------------


@both
def test_a_token_over_tls(library: Any, served: Served, issuer: Issuer) -> None:
    authentication = library.AuthenticationToken(token("worker"))
    with connected(library, served, issuer, authentication=authentication) as client:
        exchange(library, client, f"{TOPIC}-token-{library.__name__}")


@both
def test_a_certificate_says_who_it_is(library: Any, served: Served, issuer: Issuer) -> None:
    authentication = library.AuthenticationTLS(*issuer.issue("worker"))
    with connected(library, served, issuer, authentication=authentication) as client:
        exchange(library, client, f"{TOPIC}-certificate-{library.__name__}")


@both
def test_a_certificate_of_a_role_without_permission(
    library: Any, served: Served, issuer: Issuer
) -> None:
    authentication = library.AuthenticationTLS(*issuer.issue("stranger"))
    with connected(library, served, issuer, authentication=authentication) as client:
        with pytest.raises(library.AuthorizationError):
            client.create_producer(TOPIC)
        with pytest.raises(library.AuthorizationError):
            client.subscribe(TOPIC, "s")


@both
def test_a_broker_that_nobody_vouches_for_is_not_trusted(
    library: Any, served: Served, tmp_path: Path
) -> None:
    stranger = Issuer(tmp_path, "stranger")
    authentication = library.AuthenticationToken(token("worker"))
    with (
        connected(
            library, served, stranger, authentication=authentication, operation_timeout_seconds=1
        ) as client,
        pytest.raises(library.PulsarException),
    ):
        client.create_producer(TOPIC)


@both
def test_a_certificate_of_a_stranger_is_refused(
    library: Any, served: Served, issuer: Issuer, tmp_path: Path
) -> None:
    authentication = library.AuthenticationTLS(*Issuer(tmp_path, "stranger").issue("worker"))
    with (
        connected(
            library, served, issuer, authentication=authentication, operation_timeout_seconds=1
        ) as client,
        pytest.raises(library.PulsarException),
    ):
        client.create_producer(TOPIC)


def context_of(issuer: Issuer, *certificate: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(issuer.certificate))
    if certificate:
        context.load_cert_chain(*certificate)
    return context


def test_rest_over_tls(served: Served, issuer: Issuer) -> None:
    url = f"{served.http_url_tls}/admin/v2/tenants"
    with httpx.Client(verify=context_of(issuer)) as client:
        assert client.get(url).status_code == 401
        bearer = {"Authorization": f"Bearer {token('root')}"}
        assert client.get(url, headers=bearer).json() == ["public"]
    with httpx.Client(verify=context_of(issuer, *issuer.issue("root"))) as client:
        assert client.get(url).json() == ["public"]
        # What is said with the request counts, not what the connection would allow.
        bearer = {"Authorization": f"Bearer {token('worker')}"}
        assert client.get(url, headers=bearer).status_code == 403
        looked_up = client.get(f"{served.http_url_tls}/lookup/v2/topic/persistent/{N}/t").json()
        assert looked_up["brokerUrlTls"] == served.url_tls
        assert looked_up["httpUrlTls"] == served.http_url_tls
    with httpx.Client(verify=context_of(issuer, *issuer.issue("worker"))) as client:
        assert client.get(url).status_code == 403


def test_a_certificate_may_be_required(issuer: Issuer, tmp_path: Path) -> None:
    with serving(issuer, tls_require_client_certificate=True) as served:
        url = f"{served.http_url_tls}/admin/v2/clusters"
        with httpx.Client(verify=context_of(issuer, *issuer.issue("anybody"))) as client:
            assert client.get(url).status_code == 200
        bearer = {"Authorization": f"Bearer {token('root')}"}
        with httpx.Client(verify=context_of(issuer)) as client, pytest.raises(httpx.HTTPError):
            client.get(url, headers=bearer)


def test_old_versions_of_tls_are_not_spoken(served: Served) -> None:
    assert served.server.tls is not None
    assert served.server.tls.context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_files_that_change_are_read_again(
    issuer: Issuer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    other = Issuer(tmp_path, "other")
    with serving(issuer, tls_refresh_seconds=1) as served:
        url = f"{served.http_url_tls}/status.html"

        def trusts(one: Issuer) -> bool:
            with httpx.Client(verify=context_of(one)) as client:
                try:
                    return client.get(url).status_code == 200
                except httpx.ConnectError:
                    return False

        certificate, key = (Path(path) for path in issuer.issue("broker"))
        assert trusts(issuer)
        before = certificate.read_bytes(), key.read_bytes()
        certificate.write_text("nonsense")
        wait_until(lambda: "are not taken" in served.call(lambda: caplog.text))
        assert trusts(issuer)
        new_certificate, new_key = other.issue("broker")
        key.write_bytes(Path(new_key).read_bytes())
        certificate.write_bytes(Path(new_certificate).read_bytes())
        wait_until(lambda: trusts(other))
        assert not trusts(issuer)
        authentication = pulsar.AuthenticationToken(token("worker"))
        with connected(pulsar, served, other, authentication=authentication) as client:
            exchange(pulsar, client, f"{TOPIC}-renewed")
        assert "PRIVATE KEY" not in caplog.text
        certificate.write_bytes(before[0])
        key.write_bytes(before[1])


# ---- Certificates that are revoked ------------------------------------------------------


def is_let_in(served: Served, issuer: Issuer, certificate: tuple[str, str]) -> bool:
    """Whether REST over TLS answers who shows a certificate."""
    with httpx.Client(verify=context_of(issuer, *certificate)) as client:
        try:
            return client.get(f"{served.http_url_tls}/admin/v2/clusters").status_code == 200
        except httpx.HTTPError:
            return False


@both
def test_a_revoked_certificate_is_refused_on_both_ports(
    library: Any, issuer: Issuer, tmp_path: Path
) -> None:
    good, bad = issuer.issue("worker", file="good"), issuer.issue("worker", file="bad")
    lists = issuer.revoke(bad[0], file=f"{library.__name__}.crl")
    with serving(issuer, tls_crl_file=lists) as served:
        assert is_let_in(served, issuer, good)
        assert not is_let_in(served, issuer, bad)
        with connected(
            library, served, issuer, authentication=library.AuthenticationTLS(*good)
        ) as client:
            exchange(library, client, f"{TOPIC}-crl-{library.__name__}")
        with (
            connected(
                library,
                served,
                issuer,
                authentication=library.AuthenticationTLS(*bad),
                operation_timeout_seconds=1,
            ) as client,
            pytest.raises(library.PulsarException),
        ):
            client.create_producer(TOPIC)
        # Who shows no certificate needs none.
        with connected(
            library, served, issuer, authentication=library.AuthenticationToken(token("worker"))
        ) as client:
            exchange(library, client, f"{TOPIC}-crl-token-{library.__name__}")


def test_a_certificate_that_is_revoked_later_loses_its_connections(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    bad = issuer.issue("worker", file="later")
    lists = Path(issuer.revoke(file="later.crl"))
    with serving(issuer, tls_crl_file=str(lists), tls_refresh_seconds=1) as served:
        url = f"{served.http_url_tls}/admin/v2/clusters"
        topic = f"{TOPIC}-revoked-later"
        authentication = magnetar.AuthenticationTLS(*bad)
        with (
            httpx.Client(verify=context_of(issuer, *bad)) as http,
            connected(
                magnetar, served, issuer, authentication=authentication, operation_timeout_seconds=3
            ) as client,
        ):
            assert http.get(url).status_code == 200
            client.create_producer(topic, send_timeout_millis=2000).send(b"in time")
            lists.write_text("nonsense")
            wait_until(lambda: "are not taken" in served.call(lambda: caplog.text))
            assert is_let_in(served, issuer, bad)
            issuer.revoke(bad[0], file="later.crl")
            wait_until(lambda: served.call(lambda: not served.broker.topics[topic].producers))
            assert not is_let_in(served, issuer, bad)
            # Not on the connection that it has, either.
            with pytest.raises(httpx.HTTPError):
                http.get(url)
    assert "its certificate was revoked" in caplog.text


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN X509 CRL-----\nnonsense"])
def test_a_list_that_is_none_keeps_a_broker_from_starting(
    issuer: Issuer, tmp_path: Path, text: str
) -> None:
    lists = tmp_path / "bad.crl"
    lists.write_text(text)
    with pytest.raises(SettingsError, match="tls_crl_file: cannot use"):
        settings_with(issuer, tls_crl_file=str(lists))
    with pytest.raises(SettingsError, match="tls_crl_file: cannot use"):
        settings_with(issuer, tls_crl_file=str(tmp_path / "missing.crl"))


def settings_with(issuer: Issuer, **settings: Any) -> None:
    """Reads the files of a broker, which may raise SettingsError."""
    certificate, key = issuer.issue("broker")
    TlsFiles(
        BrokerSettings(
            tls_certificate_file=certificate,
            tls_key_file=key,
            tls_trust_certs_file=str(issuer.certificate),
            **settings,
        )
    )


# ---- Tokens that end --------------------------------------------------------------------


@both
def test_a_live_connection_brings_a_new_token(library: Any, served: Served, issuer: Issuer) -> None:
    given: list[str] = []

    def supply() -> str:
        given.append(token("worker", exp=int(time.time()) + 2))
        return given[-1]

    topic = f"{TOPIC}-refresh-{library.__name__}"
    authentication = library.AuthenticationToken(supply)
    with connected(library, served, issuer, authentication=authentication) as client:
        producer = client.create_producer(topic)
        connections = served.call(lambda: served.broker.sessions)
        asked = len(given)
        wait_until(lambda: len(given) > asked)
        asked = len(given)
        producer.send(b"after the first token ended")
        wait_until(lambda: len(given) > asked)
        producer.send(b"after the second")
        # All of it on the connections of the beginning.
        assert served.call(lambda: served.broker.sessions) == connections
        assert served.call(lambda: served.broker.topics[topic].incoming.messages) == 2


@both
def test_a_token_that_is_not_renewed_ends_the_connection(
    library: Any, served: Served, issuer: Issuer
) -> None:
    text = token("worker", exp=int(time.time()) + 2)
    topic = f"{TOPIC}-end-{library.__name__}"
    authentication = library.AuthenticationToken(text)
    with connected(
        library, served, issuer, authentication=authentication, operation_timeout_seconds=3
    ) as client:
        client.create_producer(topic, send_timeout_millis=2000).send(b"in time")
        wait_until(lambda: served.call(lambda: not served.broker.topics[topic].producers))
