"""Passwords and OAuth 2.0, with the official client and with ours."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import pulsar
import pytest
from support.openid import OpenidIssuer, issuing
from support.served import Served
from support.tokens import Issuer
from support.waiting import wait_until

import magnetar
from magnetar.broker.auth.permissions import Permissions
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import ErrorGettingAuthenticationData, SettingsError

N = "public/default"
TOPIC = f"persistent://{N}/t"
WAIT_S = 30

both = pytest.mark.parametrize("library", [pulsar, magnetar], ids=["official", "ours"])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ways")


@pytest.fixture(scope="module")
def issuer(directory: Path) -> Iterator[OpenidIssuer]:
    """Over TLS; its certificate is `ca.pem`'s."""
    with issuing(Issuer(directory, "ca").issue("issuer")) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def served(directory: Path, issuer: OpenidIssuer) -> Iterator[Served]:
    (directory / "users").write_text(
        f"worker:{bcrypt.hashpw(b'right', bcrypt.gensalt(8)).decode()}\n"
        "old:$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/\n"
        "root:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"
    )
    served = Served(
        BrokerSettings(
            authentication=True,
            basic_auth_file=str(directory / "users"),
            openid_issuers=(issuer.url,),
            openid_audiences=("urn:magnetar",),
            openid_trust_certs_file=str(directory / "ca.pem"),
            openid_unknown_key_seconds=1,
            super_user_roles=("root",),
        )
    )
    served.start()
    permissions = Permissions()
    for role in ("worker", "old"):
        permissions = permissions.with_namespace(role, ("produce", "consume"))
    served.call(lambda: served.broker.directory.put_permissions(N, permissions))
    yield served
    served.stop()


def exchange(library: Any, url: str, authentication: Any, topic: str, **options: Any) -> None:
    """A message there and back."""
    client = library.Client(
        url,
        authentication=authentication,
        operation_timeout_seconds=10,
        logger=library.ConsoleLogger(library.LoggerLevel.Error),
        **options,
    )
    try:
        consumer = client.subscribe(topic, "s")
        client.create_producer(topic).send(b"hello")
        assert consumer.receive(WAIT_S * 1000).data() == b"hello"
    finally:
        client.close()


# ---- Passwords ----------------------------------------------------------------------------


@both
@pytest.mark.parametrize(("user", "password"), [("worker", "right"), ("old", "myPassword")])
def test_a_password_opens_the_door(library: Any, user: str, password: str, served: Served) -> None:
    topic = f"{TOPIC}-{user}-{library.__name__}"
    exchange(library, served.url, library.AuthenticationBasic(user, password), topic)


@both
@pytest.mark.parametrize(("user", "password"), [("worker", "wrong"), ("nobody", "right")])
def test_a_wrong_password_does_not(library: Any, user: str, password: str, served: Served) -> None:
    before = served.broker.refused_log_ins.count
    with pytest.raises(library.PulsarException):
        exchange(library, served.url, library.AuthenticationBasic(user, password), TOPIC)
    assert served.broker.refused_log_ins.count > before


def test_our_client_is_told_why(served: Served) -> None:
    with pytest.raises(magnetar.AuthenticationError, match="unknown user or invalid password"):
        exchange(magnetar, served.url, magnetar.AuthenticationBasic("worker", "x"), TOPIC)


def test_rest_takes_the_same_passwords(served: Served) -> None:
    url = f"{served.http_url}/admin/v2/tenants"
    assert httpx.get(url, auth=("root", "secret")).status_code == 200
    assert httpx.get(url, auth=("worker", "right")).status_code == 403
    refused = httpx.get(url, auth=("root", "guess"))
    assert (refused.status_code, "guess" in refused.text) == (401, False)
    for header in ("Basic", "Basic !", "Basic cm9vdA==", "Basic " + "A" * 9000):
        assert httpx.get(url, headers={"Authorization": header}).status_code in (401, 431)
    with magnetar.Admin(
        served.http_url, authentication=magnetar.AuthenticationBasic("root", "secret")
    ) as admin:
        assert "public" in admin.tenants.list()


@both
def test_a_user_who_is_taken_out_of_the_file_is_out(
    library: Any, served: Served, directory: Path
) -> None:
    file = directory / "users"
    users = file.read_text()
    file.write_text(f"{users}guest:{{SHA}}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
    known = served.broker.authentication
    assert known is not None
    log_ins = known.log_ins
    assert log_ins is not None
    wait_until(lambda: served.call(lambda: log_ins.passwords.hash_of("guest")) != "")
    client = library.Client(
        served.url,
        authentication=library.AuthenticationBasic("guest", "secret"),
        operation_timeout_seconds=1,
        logger=library.ConsoleLogger(library.LoggerLevel.Error),
    )
    with pytest.raises(library.AuthorizationError):
        client.create_producer(TOPIC)
    sessions = served.call(lambda: served.broker.sessions)
    file.write_text(users)
    wait_until(lambda: served.call(lambda: served.broker.sessions) < sessions)
    with pytest.raises(library.PulsarException):
        client.create_producer(TOPIC)
    client.close()


# ---- OAuth 2.0 ----------------------------------------------------------------------------


def params(issuer: OpenidIssuer, **fields: object) -> str:
    return json.dumps(
        {
            "type": "client_credentials",
            "issuer_url": issuer.url,
            "client_id": "worker",
            "client_secret": "s3cret",
            "audience": "urn:magnetar",
            **fields,
        }
    )


@both
def test_client_credentials_become_a_role(
    library: Any, served: Served, issuer: OpenidIssuer, directory: Path
) -> None:
    authentication = library.AuthenticationOauth2(params(issuer, scope="all"))
    exchange(
        library,
        served.url,
        authentication,
        f"{TOPIC}-oauth-{library.__name__}",
        tls_trust_certs_file_path=str(directory / "ca.pem"),
    )
    assert issuer.forms[-1]["grant_type"] == "client_credentials"
    assert issuer.forms[-1]["scope"] == "all"


@both
def test_credentials_in_a_file(
    library: Any, served: Served, issuer: OpenidIssuer, directory: Path
) -> None:
    file = directory / "key.json"
    file.write_text(json.dumps({"client_id": "worker", "client_secret": "s3cret"}))
    text = json.dumps(
        {"issuer_url": issuer.url, "private_key": f"file://{file}", "audience": "urn:magnetar"}
    )
    exchange(
        library,
        served.url,
        library.AuthenticationOauth2(text),
        f"{TOPIC}-file-{library.__name__}",
        tls_trust_certs_file_path=str(directory / "ca.pem"),
    )


@both
@pytest.mark.parametrize(
    "wrong", [{"client_secret": "guess"}, {"audience": "urn:else"}], ids=["secret", "audience"]
)
def test_other_credentials_do_not(
    library: Any, wrong: dict[str, str], served: Served, issuer: OpenidIssuer, directory: Path
) -> None:
    with pytest.raises(library.PulsarException):
        exchange(
            library,
            served.url,
            library.AuthenticationOauth2(params(issuer, **wrong)),
            TOPIC,
            tls_trust_certs_file_path=str(directory / "ca.pem"),
        )


@both
def test_a_token_that_ends_is_fetched_anew_and_nobody_notices(
    library: Any, served: Served, issuer: OpenidIssuer, directory: Path
) -> None:
    issuer.lives_s = 3
    try:
        client = library.Client(
            served.url,
            authentication=library.AuthenticationOauth2(params(issuer)),
            operation_timeout_seconds=10,
            tls_trust_certs_file_path=str(directory / "ca.pem"),
            logger=library.ConsoleLogger(library.LoggerLevel.Error),
        )
        topic = f"{TOPIC}-ends-{library.__name__}"
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic)
        sessions = served.call(lambda: served.broker.sessions)
        asked = len(issuer.forms)
        wait_until(lambda: len(issuer.forms) > asked)
        producer.send(b"after")
        assert consumer.receive(WAIT_S * 1000).data() == b"after"
        assert served.call(lambda: served.broker.sessions) == sessions
        client.close()
    finally:
        issuer.lives_s = 3600


def test_a_key_that_was_rotated_in_is_found(
    served: Served, issuer: OpenidIssuer, directory: Path
) -> None:
    ca = str(directory / "ca.pem")
    exchange(
        magnetar,
        served.url,
        magnetar.AuthenticationOauth2(params(issuer)),
        f"{TOPIC}-rotated",
        tls_trust_certs_file_path=ca,
    )
    issuer.rotate("new")

    def let_in() -> bool:
        # The broker looks for unknown keys once a second here.
        authentication = magnetar.AuthenticationOauth2(params(issuer))
        try:
            exchange(
                magnetar,
                served.url,
                authentication,
                f"{TOPIC}-rotated",
                tls_trust_certs_file_path=ca,
            )
        except magnetar.AuthenticationError:
            return False
        return True

    wait_until(let_in)


# ---- Our client's side ----------------------------------------------------------------------


def fetching(issuer: OpenidIssuer, directory: Path, **fields: object) -> Callable[[], bytes]:
    trust = {"tls_trust_certs_file_path": str(directory / "ca.pem")}
    return magnetar.AuthenticationOauth2(params(issuer, **trust, **fields)).data


def test_a_token_is_kept_until_it_ends(issuer: OpenidIssuer, directory: Path) -> None:
    data = fetching(issuer, directory)
    asked = len(issuer.forms)
    assert data() == data()
    assert len(issuer.forms) == asked + 1


def test_a_refusal_names_the_issuer_s_reason_and_no_secret(
    issuer: OpenidIssuer, directory: Path
) -> None:
    with pytest.raises(ErrorGettingAuthenticationData, match=r"401 \(invalid_client\)") as caught:
        fetching(issuer, directory, client_secret="guessed")()
    assert "guessed" not in str(caught.value)


def test_an_issuer_that_nobody_vouches_for_gets_no_secret(issuer: OpenidIssuer) -> None:
    asked = len(issuer.asked)
    with pytest.raises(ErrorGettingAuthenticationData, match="certificate"):
        magnetar.AuthenticationOauth2(params(issuer)).data()
    assert len(issuer.asked) == asked


def test_an_issuer_that_is_down(directory: Path) -> None:
    text = json.dumps({"issuer_url": "http://127.0.0.1:1", "client_id": "a", "client_secret": "b"})
    with pytest.raises(ErrorGettingAuthenticationData, match="cannot be reached"):
        magnetar.AuthenticationOauth2(text).data()


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({}, "issuer_url"),
        ({"issuer_url": "issuer"}, "issuer_url"),
        ({"issuer_url": "https://i"}, "client_id"),
        ({"issuer_url": "https://i", "client_id": "a"}, "client_secret"),
        ({"issuer_url": "https://i", "client_id": 7, "client_secret": "b"}, "client_id"),
        ({"issuer_url": "https://i", "private_key": "/none"}, "private_key"),
        ({"issuer_url": "https://i", "private_key": "data:application/json,{}"}, "private_key"),
        ({"issuer_url": "https://i", "private_key": "data:;base64,bm8="}, "private_key"),
        ({"issuer_url": "https://i", "private_key": "data:;base64,e30="}, "client_id"),
    ],
)
def test_what_is_missing_is_told_at_once(fields: dict[str, object], key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        magnetar.AuthenticationOauth2(json.dumps(fields))
    assert caught.value.key == key


def test_another_type_of_oauth_is_not_supported() -> None:
    with pytest.raises(magnetar.PulsarException, match="client_credentials"):
        magnetar.Authentication("oauth2", '{"type": "device_code", "issuer_url": "https://i"}')
