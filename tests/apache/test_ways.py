"""Ways in, and compacted topics, with Apache Pulsar's Java client; and its proxy in front of us."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from apache.guarded import guarded_broker
from apache.harness import AGAINST_APACHE, BRIEF_MEMORY, Broker, java, jvm, require_artifacts
from cluster.member import Member
from support.broker_process import BrokerProcess
from support.openid import OpenidIssuer, issuing
from support.ports import free_ports
from support.tokens import SECRET, Issuer, token

WAYS = Path(__file__).parent / "java" / "Ways.java"
TOPIC = "persistent://public/default/ways"
PROXY = "org.apache.pulsar.proxy.server.ProxyServiceStarter"
TOKENS = "org.apache.pulsar.client.impl.auth.AuthenticationToken"

ours = pytest.mark.skipif(AGAINST_APACHE, reason="about the settings of our broker")


def say(*arguments: str) -> str:
    """What the program says in the end."""
    return java(WAYS, *arguments, client="server").strip().splitlines()[-1]


def test_readers_consumers_and_table_views_of_a_compacted_topic(broker: Broker) -> None:
    assert say("compacted", broker.url, broker.http_url) == "ok"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ways")


@pytest.fixture(scope="module")
def issuer(directory: Path) -> Iterator[OpenidIssuer]:
    with issuing(Issuer(directory, "ca").issue("issuer")) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def guarded(directory: Path, issuer: OpenidIssuer) -> Iterator[BrokerProcess]:
    require_artifacts()
    with guarded_broker(directory, issuer) as broker:
        yield broker


@ours
@pytest.mark.parametrize("by_http", [False, True], ids=["binary", "http"])
def test_a_password_lets_the_java_client_in(guarded: BrokerProcess, by_http: bool) -> None:
    url = guarded.http_url if by_http else guarded.url
    assert say("basic", url, "worker", "right", f"{TOPIC}-basic-{by_http}") == "ok"
    assert say("basic", url, "worker", "wrong", TOPIC).startswith("refused ")


@ours
def test_client_credentials_let_the_java_client_in(
    guarded: BrokerProcess, issuer: OpenidIssuer, directory: Path
) -> None:
    file = directory / "credentials.json"
    known = {"type": "client_credentials", "client_id": "worker", "issuer_url": issuer.url}
    for secret, expected in (("s3cret", "ok"), ("guess", "refused ")):
        file.write_text(json.dumps({**known, "client_secret": secret}))
        said = say(
            "oauth2",
            guarded.url,
            issuer.url,
            str(file),
            "urn:magnetar",
            str(directory / "ca.pem"),
            f"{TOPIC}-oauth2",
        )
        assert said.startswith(expected)


# ---- Apache Pulsar's proxy ------------------------------------------------------------------


@pytest.fixture(scope="module")
def proxy(guarded: BrokerProcess, directory: Path) -> Iterator[tuple[str, str]]:
    """It proves itself as `proxy`, and tells us who is behind it. Its two addresses."""
    port, http_port = free_ports(2)
    key = directory / "secret.key"
    key.write_bytes(SECRET)
    settings = {
        "brokerServiceURL": guarded.url,
        "brokerWebServiceURL": guarded.http_url,
        "clusterName": "standalone",
        "servicePort": port,
        "webServicePort": http_port,
        "bindAddress": "127.0.0.1",
        "advertisedAddress": "127.0.0.1",
        "brokerProxyAllowedHostNames": "*",
        "brokerProxyAllowedIPAddresses": "*",
        "brokerProxyAllowedTargetPorts": "*",
        "authenticationEnabled": "true",
        "authenticationProviders": (
            "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"
        ),
        "tokenSecretKey": f"file://{key}",
        "brokerClientAuthenticationPlugin": TOKENS,
        "brokerClientAuthenticationParameters": f"token:{token('proxy')}",
        "superUserRoles": "root",
    }
    conf = directory / "proxy.conf"
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = [*jvm("proxy", BRIEF_MEMORY, "warn"), PROXY, "-c", str(conf)]
    member = Member(
        "proxy", directory / "proxy", command, lambda: listens(port) and listens(http_port)
    )
    member.start()
    try:
        member.wait()
        yield f"pulsar://127.0.0.1:{port}", f"http://127.0.0.1:{http_port}"
    finally:
        member.stop()


def listens(port: int) -> bool:
    with closing(socket.socket()) as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@ours
def test_apache_s_proxy_tells_us_who_is_behind_it(
    guarded: BrokerProcess, proxy: tuple[str, str]
) -> None:
    url, http_url = proxy
    for address in (url, http_url):
        assert say("token", address, token("worker"), f"{TOPIC}-proxied") == "ok"
        # The proxy may do everything; who is behind it may not.
        said = say("token", address, token("stranger"), f"{TOPIC}-proxied")
        assert said.startswith("refused ")
        assert "not authorized" in said or "401" in said or "403" in said


@ours
def test_admin_rest_through_apache_s_proxy_is_for_who_is_behind_it(
    guarded: BrokerProcess, proxy: tuple[str, str]
) -> None:
    path = f"{proxy[1]}/admin/v2/tenants"
    for role, status in (("root", 200), ("worker", 403)):
        answer = httpx.get(path, headers={"Authorization": f"Bearer {token(role)}"}, timeout=30)
        assert answer.status_code == status
