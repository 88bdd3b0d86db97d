"""Proxies: whose word counts for whom, and what they may do together."""

from typing import Any

import pytest
from support.served import Served
from support.tokens import SECRET, SECRET_SETTING, token
from support.wire_client import Shared, WireClient, refused
from support.world import START_MS, World

from magnetar.broker.auth.permissions import Permissions
from magnetar.broker.auth.proxied import Proxies
from magnetar.broker.auth.roles import Authentication
from magnetar.broker.auth.token import TokenRules, secret_key
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.errors import SettingsError
from magnetar.model import ServerError
from magnetar.protocol import pulsar_pb2 as pb

N = "public/default"
T = f"persistent://{N}/t"
FORBIDDEN = ServerError.AuthorizationError
NOW_S = START_MS // 1000


def make_world(*, authenticate: bool = False) -> World:
    """`proxy` and `gate` are proxies; `gate` may do nothing by itself."""
    door = Authentication(
        secret_key("key", SECRET),
        TokenRules(),
        proxies=Proxies(("proxy", "gate"), authenticate=authenticate),
    )
    world = World(authentication=door, super_user_roles=("proxy", "root"))
    permissions = (
        Permissions().with_namespace("worker", ("produce",)).with_namespace("watcher", ("consume",))
    )
    world.broker.directory.put_permissions(N, permissions)
    return world


def connect(world: World, role: str, original: str = "", **fields: Any) -> WireClient:
    return world.connect(
        auth_method_name="token",
        auth_data=token(role).encode(),
        original_principal=original,
        **fields,
    )


def turned_away(world: World, role: str, original: str = "", **fields: Any) -> str:
    client = world.connect(greet=False)
    client.say(
        pb.CommandConnect(
            client_version="c",
            protocol_version=21,
            auth_method_name="token",
            auth_data=token(role).encode(),
            original_principal=original,
            **fields,
        )
    )
    error = client.one(pb.CommandError)
    assert client.hung_up
    assert error.error in (FORBIDDEN, ServerError.AuthenticationError)
    return error.message


# ---- Who may speak for whom -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "original", "reason"),
    [
        ("worker", "root", "none of proxy_roles"),
        ("root", "worker", "none of proxy_roles"),
        ("proxy", "", "must name an original principal"),
        ("proxy", "gate", "cannot be a proxy's role"),
        ("proxy", "proxy", "cannot be a proxy's role"),
    ],
)
def test_whose_word_does_not_count(role: str, original: str, reason: str) -> None:
    assert reason in turned_away(make_world(), role, original)


def test_who_names_itself_is_itself() -> None:
    client = connect(make_world(), "worker", "worker")
    assert client.producer(T).name
    principal = client.session.principal
    assert principal is not None
    assert principal.original is None


# ---- What they may do -----------------------------------------------------------------------


def test_a_proxy_may_do_what_both_may() -> None:
    world = make_world()
    client = connect(world, "proxy", "worker")
    assert client.producer(T).name
    with refused(FORBIDDEN, "role 'proxy' for role 'worker' is not authorized"):
        client.subscribe(T, "s", Shared)
    watcher = connect(world, "proxy", "watcher")
    watcher.subscribe(T, "s", Shared)
    with refused(FORBIDDEN, "not authorized"):
        watcher.producer(T)


def test_a_proxy_that_may_not_lets_nobody_do_it() -> None:
    with refused(FORBIDDEN, "role 'gate' for role 'worker'"):
        connect(make_world(), "gate", "worker").producer(T)
    with refused(FORBIDDEN, "role 'gate' for role 'root'"):
        connect(make_world(), "gate", "root").producer(T)


def test_a_superuser_behind_a_proxy_is_one_if_the_proxy_is() -> None:
    world = make_world()
    for role, expected in (("proxy", True), ("gate", False)):
        principal = connect(world, role, "root").session.principal
        assert world.broker.access.is_superuser(principal) is expected
        assert world.broker.access.is_admin(principal, "public") is expected
    stranger = connect(world, "proxy", "worker").session.principal
    assert not world.broker.access.is_superuser(stranger)
    assert not world.broker.access.is_admin(stranger, "public")


def test_a_right_that_is_taken_away_from_who_is_behind_closes_what_it_allowed() -> None:
    world = make_world()
    client = connect(world, "proxy", "worker")
    client.producer(T)
    world.broker.directory.put_permissions(N, Permissions())
    world.broker.permissions_changed(N)
    world.settle()
    assert len(client.closed_producers()) == 1


def test_who_loses_a_right_hears_first_of_what_is_stored() -> None:
    world = make_world()
    client = connect(world, "worker")
    producer = client.producer(T)
    world.hold_disk()
    first = producer.publish("a")
    world.broker.directory.put_permissions(N, Permissions())
    world.broker.permissions_changed(N)
    producer.publish("b")
    world.release_disk()
    world.settle()
    assert client.send_answers() == [(first, None)]
    assert client.closed_producers() == [producer.id]


def test_a_lookup_may_name_somebody_else_behind_the_proxy() -> None:
    client = connect(make_world(), "proxy", "worker")
    for command in (pb.CommandLookupTopic, pb.CommandPartitionedTopicMetadata):
        client.request(command(topic=T, original_principal="worker"))
        client.request(command(topic=T, original_principal="watcher"))
        with refused(FORBIDDEN, "role 'proxy' for role 'stranger'"):
            client.request(command(topic=T, original_principal="stranger"))
        with refused(FORBIDDEN, "cannot be a proxy's role"):
            client.request(command(topic=T, original_principal="gate"))


def test_a_new_token_of_the_proxy_keeps_who_is_behind() -> None:
    client = connect(make_world(), "proxy", "worker")
    data = pb.AuthData(auth_method_name="token", auth_data=token("proxy", jti="2").encode())
    client.say(pb.CommandAuthResponse(response=data))
    assert not client.hung_up
    with refused(FORBIDDEN, "for role 'worker'"):
        client.subscribe(T, "s", Shared)


# ---- With the clients' own proofs -------------------------------------------------------------


def behind(role: str, ends_s: int = NOW_S + 3600) -> dict[str, str]:
    return {"original_auth_method": "token", "original_auth_data": token(role, exp=ends_s)}


def test_who_is_behind_proves_it_whatever_its_name() -> None:
    world = make_world(authenticate=True)
    client = connect(world, "proxy", "root", **behind("worker"))
    assert client.producer(T).name
    with refused(FORBIDDEN, "role 'proxy' for role 'worker'"):
        client.subscribe(T, "s", Shared)
    with refused(FORBIDDEN, "must be that of its connection"):
        client.request(pb.CommandLookupTopic(topic=T, original_principal="root"))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "authentication is required"),
        ({"original_auth_method": "token", "original_auth_data": "x"}, "no JSON Web Token"),
        (behind("worker", NOW_S - 1), "expired"),
        (behind("gate"), "cannot be a proxy's role"),
    ],
)
def test_a_name_without_its_proof_is_refused(fields: dict[str, str], reason: str) -> None:
    world = make_world(authenticate=True)
    assert reason in turned_away(world, "proxy", "worker", **fields)


def test_a_connection_ends_with_the_proof_of_who_is_behind() -> None:
    world = make_world(authenticate=True)
    client = connect(world, "proxy", "worker", **behind("worker", NOW_S + 10))
    world.advance(9_000)
    assert not client.hung_up
    world.advance(2_000)
    assert client.hung_up


def test_settings_where_anybody_would_be_a_proxy() -> None:
    with pytest.raises(SettingsError, match="anonymous role") as caught:
        BrokerSettings(
            authentication=True,
            token_secret_key=SECRET_SETTING,
            anonymous_role="a",
            proxy_roles=("a",),
        )
    assert caught.value.key == "proxy_roles"


# ---- Over HTTP ------------------------------------------------------------------------------


def test_rest_knows_who_is_behind_a_proxy() -> None:
    served = Served(
        BrokerSettings(
            authentication=True,
            token_secret_key=SECRET_SETTING,
            super_user_roles=("root", "proxy"),
            proxy_roles=("proxy",),
        )
    )
    served.start()
    try:
        for role, original, status in (
            ("proxy", "root", 200),
            ("proxy", "worker", 403),
            ("proxy", "", 403),
            ("proxy", "proxy", 403),
            ("root", "root", 200),
            ("root", "worker", 403),
            ("worker", "root", 403),
        ):
            headers = {"Authorization": f"Bearer {token(role)}"}
            if original:
                headers["X-Original-Principal"] = original
            answer = served.http.get("/tenants", headers=headers)
            assert (role, original, answer.status_code) == (role, original, status)
    finally:
        served.stop()
