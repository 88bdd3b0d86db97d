"""Who may do what over the wire: a table of roles and operations; and who is let in at all."""

from collections.abc import Callable
from typing import Any

import pytest
from support.tokens import OTHER_SECRET, by_secret, token
from support.wire_client import (
    Earliest,
    Refused,
    Shared,
    WireClient,
    refused,
    unless_refused,
)
from support.world import START_MS, World

from magnetar.broker.auth.permissions import Permissions
from magnetar.model import ServerError
from magnetar.protocol import pulsar_pb2 as pb

N = "public/default"
P = f"persistent://{N}/"
T = f"{P}t"
NOW_S = START_MS // 1000
FORBIDDEN = ServerError.AuthorizationError
UNKNOWN = ServerError.AuthenticationError
ANSWERS_REFRESH = pb.FeatureFlags(supports_auth_refresh=True)


def make_world(**settings: Any) -> World:
    """A broker with a superuser, a tenant's admin, and roles that have been granted something."""
    world = World(
        authentication=by_secret(certificates=True), super_user_roles=("root",), **settings
    )
    directory = world.broker.directory
    directory.put_tenant("public", {"adminRoles": ["boss"], "allowedClusters": []})
    directory.put_tenant("other", {"adminRoles": ["other-boss"], "allowedClusters": []})
    permissions = Permissions()
    for role in ("produce", "consume", "skip", "functions"):
        permissions = permissions.with_namespace(f"{role}r", (role,))
        permissions = permissions.with_topic(T, f"topic-{role}r", (role,))
    permissions = permissions.with_namespace("both", ("produce", "consume"))
    permissions = permissions.with_subscription("reserved", ("both",))
    directory.put_permissions(N, permissions)
    root = connect(world, "root")
    root.producer(T)
    root.subscribe(T, "reserved", Shared)
    root.subscribe(f"{P}elsewhere", "sub", Shared)
    root.drop()
    return world


def connect(world: World, role: str, **fields: Any) -> WireClient:
    return world.connect(
        auth_method_name="token",
        auth_data=token(role, **fields.pop("claims", {})).encode(),
        **fields,
    )


def grant(world: World, change: Callable[[Permissions], Permissions]) -> None:
    directory = world.broker.directory
    directory.put_permissions(N, change(directory.permissions_of(N)))
    world.broker.permissions_changed(N)
    world.settle()


# ---- The table --------------------------------------------------------------------------

ROLES = [
    "root",
    "boss",
    "both",
    "producer",
    "consumer",
    "skipr",
    "functionsr",
    "topic-producer",
    "topic-consumer",
    "topic-skipr",
    "stranger",
    "other-boss",
]


def lookup(topic: str) -> Callable[[WireClient], object]:
    return lambda client: client.request(pb.CommandLookupTopic(topic=topic))


def partitions(topic: str) -> Callable[[WireClient], object]:
    return lambda client: client.request(pb.CommandPartitionedTopicMetadata(topic=topic))


def get_schema(client: WireClient) -> object:
    """There is none, which only those are told who may know."""
    try:
        return client.request(pb.CommandGetSchema(topic=T))
    except Refused as error:
        if error.code != ServerError.TopicNotFound:
            raise
        return None


def create_schema(client: WireClient) -> object:
    schema = pb.Schema(name="t", type=1, schema_data=b"")
    return client.request(pb.CommandGetOrCreateSchema(topic=T, schema=schema))


def list_topics(client: WireClient) -> object:
    return client.request(pb.CommandGetTopicsOfNamespace(namespace=N))


def watch_topics(client: WireClient) -> object:
    return client.request(pb.CommandWatchTopicList(namespace=N, topics_pattern=".*", watcher_id=1))


ADMINS = "root boss"
WIDE = f"{ADMINS} both"
OPERATIONS: dict[str, tuple[Callable[[WireClient], object], str]] = {
    "lookup": (
        lookup(T),
        f"{WIDE} producer consumer skipr topic-producer topic-consumer topic-skipr",
    ),
    "lookup elsewhere": (lookup(f"{P}elsewhere"), f"{WIDE} producer consumer skipr"),
    "partitions": (
        partitions(T),
        f"{WIDE} producer consumer skipr topic-producer topic-consumer topic-skipr",
    ),
    "produce": (lambda client: client.producer(T), f"{WIDE} producer topic-producer"),
    "produce to a partition": (
        lambda client: client.producer(f"{T}-partition-0"),
        f"{WIDE} producer topic-producer",
    ),
    "produce elsewhere": (lambda client: client.producer(f"{P}elsewhere"), f"{WIDE} producer"),
    "produce with a subscription": (
        lambda client: client.producer(T, initial_subscription_name="new"),
        WIDE,
    ),
    "consume": (
        lambda client: client.subscribe(T, "sub", Shared),
        f"{WIDE} consumer topic-consumer",
    ),
    "consume elsewhere": (
        lambda client: client.subscribe(f"{P}elsewhere", "sub", Shared),
        f"{WIDE} consumer",
    ),
    "use a reserved subscription": (
        lambda client: client.subscribe(T, "reserved", Shared),
        WIDE,
    ),
    "read": (
        lambda client: client.subscribe(T, "reader", Shared, durable=False),
        f"{WIDE} consumer topic-consumer",
    ),
    "get a schema": (
        get_schema,
        f"{WIDE} producer consumer skipr topic-producer topic-consumer topic-skipr",
    ),
    "create a schema": (create_schema, f"{WIDE} producer topic-producer"),
    "list topics": (list_topics, f"{WIDE} producer consumer skipr"),
    "watch topics": (watch_topics, f"{WIDE} producer consumer skipr"),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_table_of_roles_and_operations(operation: str) -> None:
    perform, allowed = OPERATIONS[operation]
    found: list[str] = []
    for role in ROLES:
        client = connect(make_world(), role)
        try:
            perform(client)
        except Refused as error:
            assert error.code == FORBIDDEN, (role, error)
            assert repr(role) in error.reason
        else:
            found.append(role)
        assert not client.hung_up
    assert found == [role for role in ROLES if role in allowed.split()]


def test_a_refusal_does_not_tell_what_there_is() -> None:
    world = make_world()
    client = connect(world, "stranger")
    for topic in (T, f"{P}no-such-topic", "persistent://public/no-such/t", "persistent://no/no/t"):
        with refused(FORBIDDEN):
            client.request(pb.CommandLookupTopic(topic=topic))
        with refused(FORBIDDEN):
            client.producer(topic)
        with refused(FORBIDDEN):
            client.subscribe(topic)
    assert f"{P}no-such-topic" not in world.broker.names(N)


def test_what_is_refused_creates_nothing() -> None:
    world = make_world()
    before = world.broker.names(N, persistent=True, others=True)
    for role in ("stranger", "consumer"):
        with refused(FORBIDDEN):
            connect(world, role).producer(f"{P}new")
    with refused(FORBIDDEN):
        connect(world, "producer").producer(f"{P}new", initial_subscription_name="s")
    assert world.broker.names(N, persistent=True, others=True) == before


def test_who_only_looks_creates_nothing() -> None:
    world = make_world(auto_create_partitions=2)
    for role, created in (("skipr", False), ("consumer", True)):
        client = connect(world, role)
        command = pb.CommandPartitionedTopicMetadata(topic=f"{P}new-{role}")
        if created:
            assert client.request(command).partitions == 2
        else:
            with refused(ServerError.TopicNotFound):
                client.request(command)


def test_without_authorization_whoever_is_known_may_do_everything() -> None:
    world = World(authentication=by_secret(), authorization=False)
    client = connect(world, "anybody")
    client.producer(T).send("a")
    consumer = client.subscribe(T, "s", Shared, initialPosition=Earliest)
    consumer.flow(10)
    assert consumer.payloads() == ["a"]


def test_without_authentication_nobody_is_asked() -> None:
    world = World(super_user_roles=("root",))
    proofs: list[dict[str, Any]] = [{}, {"auth_method_name": "token", "auth_data": b"nonsense"}]
    for fields in proofs:
        client = world.connect(**fields)
        client.producer(T, producer_name=f"p{len(fields)}")
        client.say(pb.CommandAuthResponse(response=pb.AuthData(auth_data=b"nonsense")))
        assert not client.hung_up


# ---- Who is let in ----------------------------------------------------------------------


def turned_away(world: World, certificate_role: str = "", **fields: Any) -> str:
    """Why a client is not let in."""
    client = world.connect(greet=False, certificate_role=certificate_role)
    client.say(pb.CommandConnect(client_version="test", protocol_version=21, **fields))
    error = client.one(pb.CommandError)
    assert error.request_id == (1 << 64) - 1
    assert client.hung_up
    # What comes behind is not listened to.
    client.say(pb.CommandLookupTopic(topic=T, request_id=1))
    assert client.received == []
    return f"{ServerError(error.error).name}: {error.message}"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"auth_method_name": "none"},
        {"auth_method_name": "token"},
        {"auth_method_name": "token", "auth_data": b"nonsense"},
        {"auth_method_name": "token", "auth_data": token("root", exp=NOW_S).encode()},
        {"auth_method_name": "token", "auth_data": token("root", nbf=NOW_S + 9).encode()},
        {"auth_method_name": "token", "auth_data": token("root", secret=OTHER_SECRET).encode()},
        {"auth_method_name": "basic", "auth_data": b"root:root"},
        {"auth_method_name": "TOKEN", "auth_data": token("root").encode()},
        {"auth_data": token("root").encode()},
        {"auth_method_name": "tls"},
    ],
    ids=lambda fields: "-".join(str(value)[:12] for value in fields.values()) or "nothing",
)
def test_who_proves_nothing_is_turned_away(fields: dict[str, Any]) -> None:
    world = make_world()
    assert turned_away(world, **fields).startswith("AuthenticationError")
    (warning,) = world.host.warnings
    assert "client-" in warning


def test_a_certificate_s_name_is_the_role() -> None:
    world = make_world()
    world.connect(certificate_role="producer", auth_method_name="tls").producer(T)
    with refused(FORBIDDEN):
        world.connect(certificate_role="stranger", auth_method_name="tls").producer(T)
    # A token says who one is, whatever certificate the connection has.
    client = world.connect(
        certificate_role="root", auth_method_name="token", auth_data=token("consumer").encode()
    )
    with refused(FORBIDDEN):
        client.producer(T)


def test_certificates_count_only_where_they_are_trusted() -> None:
    world = World(authentication=by_secret())
    assert "give a token" in turned_away(world, "root", auth_method_name="tls")


def test_who_says_nothing_may_have_a_role() -> None:
    world = World(authentication=by_secret(anonymous_role="guest"), super_user_roles=("root",))
    grant(world, lambda before: before.with_namespace("guest", ("consume",)))
    world.connect().subscribe(T)
    world.connect(auth_method_name="basic", auth_data=b"a:b").subscribe(f"{P}u")
    with refused(FORBIDDEN):
        world.connect().producer(T)
    # A bad token is not as good as none.
    assert "not accepted" in turned_away(world, auth_method_name="token", auth_data=b"x")


@pytest.mark.parametrize(
    "claim", [{"original_principal": "boss"}, {"original_auth_data": token("boss")}]
)
def test_a_proxy_is_not_believed(claim: dict[str, str]) -> None:
    world = make_world()
    known: dict[str, Any] = {"auth_method_name": "token", "auth_data": token("root").encode()}
    assert turned_away(world, **known, **claim).startswith("AuthorizationError")
    client = connect(world, "root")
    for command in (pb.CommandLookupTopic, pb.CommandPartitionedTopicMetadata):
        with refused(FORBIDDEN, "none of proxy_roles"):
            client.request(command(topic=T, original_principal="boss"))


# ---- Tokens that end --------------------------------------------------------------------


def challenge(client: WireClient) -> pb.CommandAuthChallenge:
    return client.one(pb.CommandAuthChallenge)


def respond(client: WireClient, text: str, method: str = "token") -> None:
    data = pb.AuthData(auth_method_name=method, auth_data=text.encode())
    client.say(pb.CommandAuthResponse(response=data))


def expiring(world: World, seconds: int, **fields: Any) -> WireClient:
    claims = {"exp": world.host.now // 1000 + seconds}
    return connect(world, "both", claims=claims, feature_flags=ANSWERS_REFRESH, **fields)


def test_a_client_is_asked_anew_when_its_token_ends() -> None:
    world = make_world()
    client = expiring(world, 10)
    producer = client.producer(T)
    world.advance(9_999)
    assert client.take(pb.CommandAuthChallenge) == []
    world.advance(1)
    asked = challenge(client)
    assert asked.challenge.auth_method_name == "token"
    assert asked.challenge.auth_data == b"PulsarAuthRefresh"
    producer.send("meanwhile")
    respond(client, token("both", exp=world.host.now // 1000 + 10))
    world.advance(9_999)
    assert client.take(pb.CommandAuthChallenge) == []
    world.advance(1)
    challenge(client)
    respond(client, token("both"))
    world.advance(100_000)
    assert client.take(pb.CommandAuthChallenge) == []
    assert not client.hung_up
    producer.send("after")


def test_who_does_not_answer_in_time_is_hung_up_on() -> None:
    world = make_world(authentication_refresh_ms=5000)
    client = expiring(world, 10)
    world.advance(10_000)
    challenge(client)
    ends = []
    for ms in (4_999, 1):
        world.advance(ms)
        ends.append(client.hung_up)
    assert ends == [False, True]
    assert "no new one came in time" in world.host.warnings[-1]


def test_who_cannot_be_asked_is_hung_up_on() -> None:
    world = make_world()
    client = connect(world, "both", claims={"exp": NOW_S + 10})
    client.producer(T)
    world.advance(10_000)
    assert client.hung_up
    assert client.take(pb.CommandAuthChallenge) == []
    assert world.topic(T).producers == {}


@pytest.mark.parametrize(
    ("answer", "method", "reason"),
    [
        (token("both", exp=NOW_S + 5), "token", "it has expired"),
        (token("both", secret=OTHER_SECRET), "token", "not signed by the key"),
        (token("root"), "token", "was role 'both'"),
        ("", "token", "no JSON Web Token"),
        ("", "none", "authentication is required"),
    ],
)
def test_a_bad_answer_ends_the_connection(answer: str, method: str, reason: str) -> None:
    world = make_world()
    client = expiring(world, 10)
    world.advance(10_000)
    challenge(client)
    respond(client, answer, method)
    assert client.hung_up
    assert reason in world.host.warnings[-1]


def test_a_token_may_be_renewed_before_anybody_asks() -> None:
    world = make_world()
    client = expiring(world, 10)
    respond(client, token("both", exp=NOW_S + 20))
    world.advance(19_999)
    assert client.take(pb.CommandAuthChallenge) == []
    world.advance(1)
    challenge(client)


def test_a_token_of_hours_waits_without_a_timer_of_hours() -> None:
    world = make_world()
    client = expiring(world, 3 * 3600)
    assert max(due for due, _, _ in world.host.timers) <= world.host.now + 3_600_000
    world.advance(3 * 3_600_000 - 1)
    assert client.take(pb.CommandAuthChallenge) == []
    world.advance(1)
    challenge(client)


def test_a_connection_that_went_is_not_asked() -> None:
    world = make_world()
    client = expiring(world, 10)
    client.drop()
    world.advance(20_000)
    assert client.received == []
    assert world.host.warnings == []


# ---- Permissions that end ---------------------------------------------------------------


def test_a_permission_that_is_taken_away_closes_what_it_allowed() -> None:
    world = make_world()
    client = connect(world, "both")
    producer = client.producer(T)
    other = client.producer(f"{P}elsewhere")
    consumer = client.subscribe(T, "sub", Shared)
    stays = connect(world, "producer").producer(T)
    grant(world, lambda before: before.with_namespace("both", ("consume",)))
    closed = {command.producer_id for command in client.take(pb.CommandCloseProducer)}
    assert closed == {producer.id, other.id}
    assert client.take(pb.CommandCloseConsumer) == []
    with refused(FORBIDDEN):
        client.producer(T, producer_id=producer.id)
    stays.send("a")
    consumer.flow(10)
    assert consumer.payloads() == ["a"]
    grant(world, lambda before: before.with_namespace("both", ()))
    assert client.one(pb.CommandCloseConsumer).consumer_id == consumer.id
    assert world.subscription(T, "sub").consumers == []
    with refused(FORBIDDEN):
        client.subscribe(T, "sub", Shared, consumer_id=consumer.id)
    assert not client.hung_up


def test_nothing_is_asked_per_message() -> None:
    """Who was let in stays, until somebody is told that permissions are other ones."""
    world = make_world()
    client = connect(world, "both")
    producer = client.producer(T)
    consumer = client.subscribe(T, "sub", Shared)
    world.broker.directory.put_permissions(N, Permissions())
    first = producer.send("a")
    consumer.flow(10)
    assert consumer.payloads() == ["a"]
    consumer.ack(first)
    assert world.subscription(T, "sub").cursor.unacked_entries() == 0
    world.broker.permissions_changed(N)
    world.settle()
    client.one(pb.CommandCloseProducer)
    client.one(pb.CommandCloseConsumer)


def test_what_is_behind_a_closed_producer_is_not_published() -> None:
    world = make_world()
    client = connect(world, "both")
    producer = client.producer(T)
    grant(world, lambda before: before.with_namespace("both", ("consume",)))
    producer.publish("too late")
    assert not client.hung_up
    assert world.topic(T).ledgers.last().entry_id == -1


def test_the_next_in_line_gets_the_topic_of_a_closed_producer() -> None:
    world = make_world()
    both = connect(world, "both")
    both.producer(T, producer_access_mode=1)
    waiting = connect(world, "producer")
    command = pb.CommandProducer(topic=T, producer_id=9, producer_access_mode=2)
    assert not waiting.request(command).producer_ready
    grant(world, lambda before: before.with_namespace("both", ()))
    assert waiting.one(pb.CommandProducerSuccess).producer_ready


def test_messages_of_a_closed_consumer_go_to_others() -> None:
    world = make_world()
    sender = connect(world, "producer").producer(T)
    first = connect(world, "both").subscribe(T, "s", Shared)
    second = connect(world, "consumer").subscribe(T, "s", Shared)
    first.flow(10)
    sender.send("a")
    assert first.payloads() == ["a"]
    second.flow(10)
    grant(world, lambda before: before.with_namespace("both", ()))
    assert second.payloads() == ["a"]


def test_a_subscription_that_is_reserved_now_closes_others() -> None:
    world = make_world()
    client = connect(world, "consumer")
    client.subscribe(T, "s", Shared)
    grant(world, lambda before: before.with_subscription("s", ("both",)))
    client.one(pb.CommandCloseConsumer)
    with refused(FORBIDDEN, "'s'"):
        client.subscribe(T, "s", Shared)
    grant(world, lambda before: before.with_subscription("s", ()))
    client.subscribe(T, "s", Shared)


def test_a_permission_that_ends_while_a_consumer_joins_counts() -> None:
    world = make_world()
    client = connect(world, "consumer")
    world.hold_disk()
    asked = client.ask(
        pb.CommandSubscribe(topic=T, subscription="new", subType=Shared, consumer_id=5)
    )
    assert client.answer(asked) is None
    grant(world, lambda before: before.with_namespace("consumer", ()))
    world.release_disk()
    with refused(FORBIDDEN):
        unless_refused(client.answer(asked))
    assert world.subscription(T, "new").consumers == []


def test_an_admin_who_is_none_any_more_is_closed() -> None:
    world = make_world()
    client = connect(world, "boss")
    client.producer(T)
    world.broker.directory.put_tenant("public", {"adminRoles": [], "allowedClusters": []})
    world.broker.admins_changed("public")
    world.settle()
    client.one(pb.CommandCloseProducer)
    with refused(FORBIDDEN):
        client.producer(T)


def test_topics_are_not_told_to_those_who_may_not_know_any_more() -> None:
    world = make_world()
    client = connect(world, "consumer")
    watch_topics(client)
    connect(world, "root").producer(f"{P}first")
    assert list(client.one(pb.CommandWatchTopicUpdate).new_topics) == [f"{P}first"]
    grant(world, lambda before: before.with_namespace("consumer", ()))
    connect(world, "root").producer(f"{P}second")
    assert client.take(pb.CommandWatchTopicUpdate) == []


# ---- Secrets ----------------------------------------------------------------------------


def test_no_token_is_told_to_the_log_or_to_peers() -> None:
    world = make_world()
    texts = [
        token("secret-role", secret=OTHER_SECRET),
        token("secret-role", exp=NOW_S - 1),
        "secret-nonsense",
        "secret.secret.secret",
    ]
    told = []
    for text in texts:
        told.append(turned_away(world, auth_method_name="token", auth_data=text.encode()))
        world.advance(1000)  # the log tells of one in a second
    for text in texts:
        client = expiring(world, 10)
        world.advance(10_000)
        respond(client, text)
        assert client.hung_up
    told += world.host.warnings
    assert len(told) == 3 * len(texts)
    for line in told:
        assert "secret" not in line
        assert not [part for text in texts for part in text.split(".") if part in line]


def test_what_a_consumer_acked_before_it_was_turned_out_goes_to_nobody_else() -> None:
    world = make_world()
    client, other = connect(world, "both"), connect(world, "root")
    consumer = client.subscribe(T, "sub", Shared)
    consumer.flow(10)
    other.producer(T).send("a")
    second = other.subscribe(T, "sub", Shared)
    second.flow(10)
    world.hold_disk()
    consumer.ack(consumer.one())
    grant(world, lambda before: before.with_namespace("both", ("produce",)))
    client.one(pb.CommandCloseConsumer)
    assert second.payloads() == []
    world.release_disk()
    assert second.payloads() == []
    assert world.subscription(T, "sub").cursor.unacked_entries() == 0
