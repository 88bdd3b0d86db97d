"""Spark's view of admin REST: who asks, where a redirect leads, and what errors become."""

import socket
from collections.abc import Iterator

import pytest
from support.served import Served
from support.tokens import SECRET_SETTING, Issuer
from support.web import Asked, Said, answering

from magnetar.arrow.plan.connection import Connection
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import (
    AuthenticationError,
    AuthorizationError,
    ConnectError,
    SettingsError,
    Timeout,
    TopicNotFound,
)
from magnetar.spark.plan.options import ReadOptions
from magnetar.spark.rest import Rest

TOPIC = "persistent://public/default/t"


def connection(admin_url: str, **more: str) -> Connection:
    given = {"serviceUrl": "pulsar://127.0.0.1:1", "adminUrl": admin_url, "topic": "t"}
    return ReadOptions({**given, **more}, streaming=True).connection


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    return Issuer(tmp_path_factory.mktemp("issuer"))


@pytest.fixture(scope="module")
def secured(issuer: Issuer) -> Iterator[Served]:
    """A broker over TLS; `root`, by token or certificate, may do everything."""
    certificate, key = issuer.issue("broker")
    served = Served(
        BrokerSettings(
            authentication=True,
            token_secret_key=SECRET_SETTING,
            super_user_roles=("root",),
            tls_certificate_file=certificate,
            tls_key_file=key,
            tls_trust_certs_file=str(issuer.certificate),
        )
    )
    served.start()
    try:
        yield served
    finally:
        served.stop()


def tls(issuer: Issuer, role: str) -> dict[str, str]:
    certificate, key = issuer.issue(role)
    return {
        "tlsTrustCertsFilePath": str(issuer.certificate),
        "tlsCertificateFilePath": certificate,
        "tlsPrivateKeyFilePath": key,
    }


def test_a_client_certificate_says_who_asks(secured: Served, issuer: Issuer) -> None:
    rest = Rest(connection(secured.http_url_tls, **tls(issuer, "root")))
    assert rest.get("/admin/v2/namespaces/public") == ["public/default"]
    nobody = Rest(connection(secured.http_url_tls, **tls(issuer, "stranger")))
    with pytest.raises(AuthorizationError, match="HTTP 403"):
        nobody.get("/admin/v2/namespaces/public")
    trust = str(issuer.certificate)
    with pytest.raises((AuthenticationError, AuthorizationError), match="HTTP 401"):
        Rest(connection(secured.http_url_tls, tlsTrustCertsFilePath=trust)).get("/admin/v2/tenants")


def test_a_certificate_that_nobody_trusts(secured: Served, issuer: Issuer) -> None:
    with pytest.raises(ConnectError, match="certificate verify failed"):
        Rest(connection(secured.http_url_tls)).get("/admin/v2/tenants")
    believing = connection(secured.http_url_tls, tlsAllowInsecureConnection="true")
    with pytest.raises(AuthorizationError, match="HTTP 401"):
        Rest(believing).get("/admin/v2/tenants")


def test_a_post_is_redirected_with_its_body() -> None:
    """As Apache Pulsar's brokers send a request to the owner of a topic."""
    asked: list[Asked] = []

    def owner(request: Asked) -> Said:
        asked.append(request)
        return Said(204, {}, b"")

    with answering(owner) as there:

        def other(request: Asked) -> Said:
            return Said(307, {"Location": there + request.path}, b"")

        with answering(other) as here:
            Rest(connection(here, authToken="secret")).deduplicate(TOPIC)
    assert [(one.method, one.body) for one in asked] == [("POST", b"true")]
    assert asked[0].path == "/admin/v2/persistent/public/default/t/deduplicationEnabled"
    assert asked[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, AuthorizationError),
        (403, AuthorizationError),
        (404, TopicNotFound),
        (409, ConnectError),
        (500, ConnectError),
    ],
)
def test_a_refusal_names_the_request_and_the_reason(status: int, kind: type[Exception]) -> None:
    said = Said(status, {}, b'{"reason": "because"}')
    with answering(lambda _: said) as url, pytest.raises(kind) as caught:
        Rest(connection(url)).get("/admin/v2/tenants")
    assert str(caught.value) == f"GET {url}/admin/v2/tenants: HTTP {status} because"


def test_an_address_that_is_none() -> None:
    with pytest.raises(SettingsError, match=r"adminUrl: .*http://HOST:PORT"):
        Rest(connection("nowhere")).get("/admin/v2/tenants")


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        rest = Rest(connection(url, operationTimeoutSeconds="1"))
        with pytest.raises(Timeout, match="did not answer in 1 s"):
            rest.get("/admin/v2/tenants")
    with pytest.raises(ConnectError, match="adminUrl"):
        rest.get("/admin/v2/tenants")
