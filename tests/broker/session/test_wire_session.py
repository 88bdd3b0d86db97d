"""Connecting, staying connected, and the requests that concern no producer or consumer."""

import pytest
from support.wire_client import Earliest, Shared, WireClient, refused, unless_refused
from support.world import FULL, World, never

from magnetar.broker.policy.policy import Policies
from magnetar.broker.session.session import PROBE_MS
from magnetar.errors import BrokerError
from magnetar.model import SchemaType, ServerError, TopicName
from magnetar.protocol import CommandSendReceipt, topics_hash
from magnetar.protocol import pulsar_pb2 as pb

P = "persistent://public/default/"


# ---- Connect ---------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "given"), [(0, 0), (12, 12), (21, 21), (99, 21)])
def test_connected_says_the_lower_protocol_version(world: World, asked: int, given: int) -> None:
    client = world.connect(version=asked)
    assert client.connected.protocol_version == given
    assert client.connected.max_message_size == 5 * 1024 * 1024
    assert client.connected.server_version == "Magnetar"


def test_connected_says_what_the_broker_can_do(world: World) -> None:
    flags = world.connect().connected.feature_flags
    assert flags.supports_topic_watchers
    assert flags.supports_topic_watcher_reconcile
    assert flags.supports_get_partitioned_metadata_without_auto_creation
    assert not flags.supports_auth_refresh
    flags = World(topic_watchers=False).connect().connected.feature_flags
    assert not flags.supports_topic_watchers


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandPing(),
        pb.CommandLookupTopic(topic="t", request_id=1),
        pb.CommandProducer(topic="t", producer_id=1, request_id=1),
    ],
)
def test_anything_before_connect_closes(world: World, command: object) -> None:
    client = world.connect(greet=False)
    client.say(command)
    assert client.hung_up
    assert not client.received
    (warning,) = world.host.warnings
    assert "before CONNECT" in warning
    assert "client-1" in warning


def test_a_second_connect_closes(world: World) -> None:
    client = world.connect()
    client.say(pb.CommandConnect(client_version="again", protocol_version=21))
    assert client.hung_up
    assert not client.received


@pytest.mark.parametrize("command", [pb.CommandSuccess(request_id=1), CommandSendReceipt(1, 1)])
def test_what_only_a_broker_says_closes(world: World, command: object) -> None:
    client = world.connect()
    client.say(command)
    assert client.hung_up
    (warning,) = world.host.warnings
    assert "a broker's to say" in warning


def test_commands_of_the_future_are_ignored(world: World) -> None:
    client = world.connect()
    # BaseCommand of type 70 with its sub-message, field 70.
    body = bytes([0x08, 70, 0xB2, 0x04, 0])
    size = len(body)
    client.say_bytes((size + 4).to_bytes(4, "big") + size.to_bytes(4, "big") + body)
    assert not client.hung_up
    client.say(pb.CommandPing())
    client.one(pb.CommandPong)


# ---- Keep-alive ------------------------------------------------------------------


def test_a_ping_is_answered(world: World) -> None:
    client = world.connect()
    client.say(pb.CommandPing())
    client.one(pb.CommandPong)


def test_a_peer_that_answers_pings_stays(world: World) -> None:
    client = world.connect()
    for _ in range(5):
        client.session.check_alive()
        world.settle()
    assert not client.hung_up


def test_any_command_counts_as_life(world: World) -> None:
    client = world.connect()
    client.answers_pings = False
    for _ in range(5):
        client.session.check_alive()
        world.settle()
        client.say(pb.CommandLookupTopic(topic="t", request_id=1))
    assert not client.hung_up


def test_an_unanswered_ping_closes_at_the_next_tick(world: World) -> None:
    client = world.connect()
    client.answers_pings = False
    ends = []
    for _ in range(3):
        client.session.check_alive()
        ends.append(client.hung_up)
    assert ends == [False, True, True]
    assert len(world.host.warnings) == 1


def test_an_unfinished_handshake_has_a_whole_interval_from_its_own_beginning(world: World) -> None:
    client = world.connect(greet=False)
    interval_ms = world.settings.keep_alive_ms
    ends = []
    # Ticks come at times of their own, which may be right after the beginning.
    for wait_ms in (0, interval_ms - 1, 1):
        world.advance(wait_ms)
        client.session.check_alive()
        ends.append(client.hung_up)
    assert ends == [False, False, True]
    assert "no CONNECT" in world.host.warnings[0]


def test_a_closed_session_hears_nothing(world: World) -> None:
    client = world.connect()
    client.drop()
    client.say(pb.CommandPing())
    client.session.lost()
    client.session.shut()
    client.session.fail("once more")
    assert not client.received
    assert not world.host.warnings


def test_a_probe_of_a_closed_session_fails_at_once(world: World) -> None:
    client = world.connect()
    client.drop()
    answers: list[bool] = []
    client.session.probe().then(answers.append, never)
    assert answers == [False]


def test_one_ping_serves_all_that_probe(world: World) -> None:
    client = world.connect()
    client.answers_pings = False
    answers: list[bool] = []
    client.session.probe().then(answers.append, never)
    client.session.probe().then(answers.append, never)
    world.settle()
    client.one(pb.CommandPing)
    assert answers == []
    world.advance(PROBE_MS)
    assert answers == [False, False]
    assert client.hung_up


# ---- Lookup ----------------------------------------------------------------------


def test_lookup_names_this_broker(world: World) -> None:
    answer = world.connect().request(pb.CommandLookupTopic(topic="t"))
    assert answer.response == 1
    assert answer.brokerServiceUrl == "pulsar://broker:6650"
    assert answer.authoritative
    assert not answer.proxy_through_service_url


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"topic": "a/b"}, ServerError.InvalidTopicName, "invalid topic name"),
        ({"topic": "nobody/ns/t"}, ServerError.TopicNotFound, "create 'nobody' first"),
        ({"topic": "public/ns/t"}, ServerError.TopicNotFound, "create 'public/ns' first"),
        (
            {"topic": "t", "advertised_listener_name": "internal"},
            ServerError.ServiceNotReady,
            "the broker do not have internal listener",
        ),
    ],
)
def test_lookup_refuses(world: World, fields: dict[str, str], code: ServerError, text: str) -> None:
    with refused(code, text):
        world.connect().request(pb.CommandLookupTopic(**fields))  # type: ignore[arg-type]


def test_lookup_creates_nothing(world: World) -> None:
    world.connect().request(pb.CommandLookupTopic(topic="t"))
    assert world.broker.names("public/default") == []


# ---- Partitioned metadata --------------------------------------------------------


def partitions(client: WireClient, topic: str, *, create: bool = True) -> int:
    command = pb.CommandPartitionedTopicMetadata(topic=topic, metadata_auto_creation_enabled=create)
    answer = client.request(command)
    assert isinstance(answer, pb.CommandPartitionedTopicMetadataResponse)
    return answer.partitions


def test_an_unknown_topic_has_no_partitions(world: World) -> None:
    assert partitions(world.connect(), "t") == 0


def test_an_unknown_topic_is_not_found_where_it_may_not_be_created(world: World) -> None:
    with refused(ServerError.TopicNotFound):
        partitions(world.connect(), "t", create=False)
    with refused(ServerError.TopicNotFound):
        partitions(world.connect(), "nobody/ns/t")
    with refused(ServerError.TopicNotFound):
        partitions(World(auto_create_topics=False).connect(), "t")


def test_a_topic_that_exists_is_found_without_creation(world: World) -> None:
    client = world.connect()
    client.producer("t")
    assert partitions(client, "t", create=False) == 0
    assert partitions(client, "t-partition-3", create=False) == 0


def test_topics_are_created_partitioned_where_the_broker_says_so() -> None:
    world = World(auto_create_partitions=3)
    client = world.connect()
    assert partitions(client, "t") == 3
    assert partitions(client, "t", create=False) == 3
    assert world.broker.names("public/default") == [P + f"t-partition-{i}" for i in range(3)]
    with refused(ServerError.NotAllowedError, "partitioned"):
        client.producer("t")
    with refused(ServerError.TopicNotFound, "3 partitions"):
        client.producer("t-partition-3")
    client.producer("t-partition-2")


def test_partitioned_topics_survive_a_crash() -> None:
    world = World(auto_create_partitions=2)
    partitions(world.connect(), "t")
    world.crash()
    assert partitions(world.connect(), "t", create=False) == 2


def test_a_topic_has_no_more_partitions_than_allowed() -> None:
    client = World(auto_create_partitions=4, max_partitions_per_topic=3).connect()
    with refused(ServerError.NotAllowedError, "3 partitions"):
        partitions(client, "t")


def test_non_persistent_topics_may_be_partitioned() -> None:
    world = World(auto_create_partitions=2)
    client = world.connect()
    assert partitions(client, "non-persistent://public/default/t") == 2
    assert world.broker.names("public/default") == []
    client.producer("non-persistent://public/default/t-partition-1")


# ---- Topics of a namespace -------------------------------------------------------


def topics(client: WireClient, **fields: object) -> pb.CommandGetTopicsOfNamespaceResponse:
    command = pb.CommandGetTopicsOfNamespace(namespace="public/default", **fields)  # type: ignore[arg-type]
    answer = client.request(command)
    assert isinstance(answer, pb.CommandGetTopicsOfNamespaceResponse)
    return answer


@pytest.fixture
def listed(world: World) -> WireClient:
    client = world.connect()
    for topic in ("b", "a", "c-1", "non-persistent://public/default/n"):
        client.producer(topic)
    return client


def test_topics_of_each_mode(listed: WireClient) -> None:
    other = "non-persistent://public/default/n"
    assert list(topics(listed).topics) == [P + "a", P + "b", P + "c-1"]
    assert list(topics(listed, mode=1).topics) == [other]
    assert list(topics(listed, mode=2).topics) == [other, P + "a", P + "b", P + "c-1"]
    assert not topics(listed).filtered


def test_topics_are_filtered_by_a_pattern(listed: WireClient) -> None:
    answer = topics(listed, topics_pattern=P + "c-.*")
    assert list(answer.topics) == [P + "c-1"]
    assert answer.filtered
    assert answer.topics_hash == topics_hash([P + "c-1"])


PARTITIONS = [P + "t-a-partition-0", P + "t-a-partition-1", P + "t-b"]


@pytest.mark.parametrize("domain", ["", "persistent://", "^persistent://"])
def test_a_pattern_is_one_of_partitioned_topics_not_of_their_partitions(
    world: World, domain: str
) -> None:
    """As Apache's since its pull request 21885: partitions are listed if their topic matches."""
    client = world.connect()
    world.broker.create_partitioned(TopicName.parse("t-a"), 2)
    world.settle()
    client.producer("t-b")
    pattern = f"{domain}public/default/t-[ab]"
    for ending in ("", "$"):
        answer = topics(client, topics_pattern=pattern + ending)
        assert (answer.filtered, list(answer.topics)) == (True, PARTITIONS)
        assert list(watch(client, pattern + ending).topic) == PARTITIONS
    assert not topics(client, topics_pattern=P + "t-a-partition-.*").topics


def test_a_watcher_hears_of_partitions_by_the_name_of_their_topic(world: World) -> None:
    client = world.connect()
    assert not watch(client, "public/default/t-[ab]").topic
    world.broker.create_partitioned(TopicName.parse("t-a"), 2)
    world.broker.create_partitioned(TopicName.parse("t-c"), 2)
    world.settle()
    client.producer("t-b")
    told = [name for one in client.take(pb.CommandWatchTopicUpdate) for name in one.new_topics]
    assert sorted(told) == PARTITIONS


def test_an_equal_hash_saves_the_list(listed: WireClient) -> None:
    first = topics(listed)
    assert first.changed
    again = topics(listed, topics_hash=first.topics_hash)
    assert not again.changed
    assert not again.topics
    listed.producer("d")
    assert topics(listed, topics_hash=first.topics_hash).changed


def test_a_pattern_that_cannot_be_matched_here_is_left_to_the_client(listed: WireClient) -> None:
    for pattern in ("(?=lookahead)", "x" * 51):
        answer = topics(listed, topics_pattern=pattern)
        assert not answer.filtered
        assert len(answer.topics) == 3


@pytest.mark.parametrize("namespace", ["public/none", "none/none", "none"])
def test_a_namespace_that_does_not_exist_has_no_topics(world: World, namespace: str) -> None:
    """An error would have the Go client ask again for 30 s; Apache Pulsar answers the same."""
    client = world.connect()
    answer = client.request(pb.CommandGetTopicsOfNamespace(namespace=namespace))
    assert isinstance(answer, pb.CommandGetTopicsOfNamespaceResponse)
    assert (list(answer.topics), answer.topics_hash) == ([], "00000000")
    watch = pb.CommandWatchTopicList(namespace=namespace, topics_pattern=".*", watcher_id=1)
    watched = client.request(watch)
    assert isinstance(watched, pb.CommandWatchTopicListSuccess)
    assert list(watched.topic) == []


def test_a_watcher_of_a_namespace_that_is_created_later_is_told_of_its_topics(
    world: World,
) -> None:
    client = world.connect()
    client.request(
        pb.CommandWatchTopicList(namespace="public/later", topics_pattern=".*", watcher_id=1)
    )
    world.broker.directory.put_namespace("public/later", Policies())
    name = "persistent://public/later/t"
    world.connect().producer(name)
    assert list(client.one(pb.CommandWatchTopicUpdate).new_topics) == [name]


# ---- Watchers --------------------------------------------------------------------


def watch(
    client: WireClient, pattern: str, watcher_id: int = 7, **fields: object
) -> pb.CommandWatchTopicListSuccess:
    answer = client.request(
        pb.CommandWatchTopicList(
            watcher_id=watcher_id,
            namespace="public/default",
            topics_pattern=pattern,
            **fields,  # type: ignore[arg-type]
        )
    )
    assert isinstance(answer, pb.CommandWatchTopicListSuccess)
    return answer


def test_a_watcher_hears_of_topics_that_come_and_go(world: World) -> None:
    client, other = world.connect(), world.connect()
    other.producer("a-1")
    found = watch(client, "public/default/a-.*")
    assert list(found.topic) == [P + "a-1"]
    other.producer("b-1")
    other.producer("a-2")
    update = client.one(pb.CommandWatchTopicUpdate)
    assert list(update.new_topics) == [P + "a-2"]
    assert not update.deleted_topics
    assert update.topics_hash == topics_hash([P + "a-1", P + "a-2"])
    world.delete("a-1", force=True)
    update = client.one(pb.CommandWatchTopicUpdate)
    assert list(update.deleted_topics) == [P + "a-1"]
    assert update.watcher_id == 7


def test_a_watcher_hears_of_persistent_topics_alone(world: World) -> None:
    client = world.connect()
    found = watch(client, "public/default/.*")
    client.producer("non-persistent://public/default/n")
    client.producer("p")
    (update,) = client.take(pb.CommandWatchTopicUpdate)
    assert list(update.new_topics) == ["persistent://public/default/p"]
    again = watch(client, "public/default/.*", watcher_id=8)
    assert again.topics_hash == update.topics_hash != found.topics_hash


def test_a_watcher_with_an_equal_hash_gets_no_list(world: World) -> None:
    client = world.connect()
    client.producer("a")
    first = watch(client, ".*")
    again = watch(client, ".*", topics_hash=first.topics_hash)
    assert not again.topic
    assert again.topics_hash == first.topics_hash
    client.producer("b")  # heard of once, though it was asked for twice
    client.one(pb.CommandWatchTopicUpdate)


def test_a_watcher_is_told_no_more_when_closed_or_gone(world: World) -> None:
    client, gone = world.connect(), world.connect()
    watch(client, ".*")
    watch(gone, ".*")
    gone.drop()
    client.request(pb.CommandWatchTopicListClose(watcher_id=7))
    client.request(pb.CommandWatchTopicListClose(watcher_id=7))
    client.producer("a")
    assert not client.take(pb.CommandWatchTopicUpdate)
    assert world.broker.watchers.count == 0


def test_watchers_of_one_connection_are_limited(world: World) -> None:
    """Each holds the names of a namespace, and every new topic is told to each."""
    client = world.connect()
    limit = world.settings.max_topic_watchers_per_connection
    for watcher_id in range(limit):
        watch(client, ".*", watcher_id)
    with refused(ServerError.TooManyRequests):
        watch(client, ".*", limit)
    assert world.broker.watchers.count == limit
    # One that is there may be told anew, and one that is closed makes room.
    watch(client, ".*", 0)
    client.request(pb.CommandWatchTopicListClose(watcher_id=7))
    watch(client, ".*", limit)


@pytest.mark.parametrize("pattern", ["(", "x" * 51])
def test_a_bad_pattern_is_not_watched(world: World, pattern: str) -> None:
    with refused(ServerError.NotAllowedError, "pattern"):
        watch(world.connect(), pattern)


def test_a_topic_that_could_not_be_stored_is_gone_for_watchers_too(world: World) -> None:
    client = world.connect()
    watch(client, ".*")
    world.hold_disk()
    client.ask(pb.CommandProducer(topic="a", producer_id=1))
    world.fail_disk(FULL)
    new, gone = client.take(pb.CommandWatchTopicUpdate)
    assert list(new.new_topics) == list(gone.deleted_topics) == [P + "a"]
    world.fail_disk(None)
    assert list(topics(client).topics) == []


# ---- Schemas ---------------------------------------------------------------------

AVRO_1 = b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}'
AVRO_2 = (
    b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"},'
    b' {"name": "b", "type": "string", "default": ""}]}'
)
OTHER = b'{"type": "record", "name": "R", "fields": [{"name": "z", "type": "int"}]}'


def avro(data: bytes) -> pb.Schema:
    schema = pb.Schema(name="R", schema_data=data, type=SchemaType.Avro)
    schema.properties.add(key="k", value="v")
    return schema


BYTES = pb.Schema(name="Bytes", schema_data=b"", type=SchemaType.NONE)


def put_schema(client: WireClient, data: bytes) -> bytes:
    answer = client.request(pb.CommandGetOrCreateSchema(topic="t", schema=avro(data)))
    assert isinstance(answer, pb.CommandGetOrCreateSchemaResponse)
    return answer.schema_version


def test_schemas_are_stored_and_served_by_version(world: World) -> None:
    client = world.connect()
    client.producer("t")
    first = put_schema(client, AVRO_1)
    assert first == bytes(8)
    assert put_schema(client, AVRO_1) == first
    second = put_schema(client, AVRO_2)
    assert second > first
    world.crash()
    client = world.connect()
    found = client.request(pb.CommandGetSchema(topic="t"))
    assert (found.schema.schema_data, found.schema_version) == (AVRO_2, second)
    found = client.request(pb.CommandGetSchema(topic="t", schema_version=first))
    assert found.schema.schema_data == AVRO_1
    assert (found.schema.name, found.schema.type) == ("public/default/t", SchemaType.Avro)
    assert [(item.key, item.value) for item in found.schema.properties] == [("k", "v")]


def test_a_schema_that_is_not_there_is_not_found(world: World) -> None:
    client = world.connect()
    with refused(ServerError.TopicNotFound, "has no such schema"):
        client.request(pb.CommandGetSchema(topic="t"))
    with refused(ServerError.InvalidTopicName):
        client.request(pb.CommandGetSchema(topic="a/b"))


def test_a_schema_for_a_topic_that_is_not_there_is_not_kept(world: World) -> None:
    client = world.connect()
    for topic in ("t", "persistent://public/none/t", "persistent://none/none/t"):
        with refused(ServerError.TopicNotFound):
            client.request(pb.CommandGetOrCreateSchema(topic=topic, schema=avro(AVRO_1)))
    client.producer("t")
    with refused(ServerError.TopicNotFound, "has no such schema"):
        client.request(pb.CommandGetSchema(topic="t"))


def test_a_consumer_can_ask_for_the_schema_of_what_was_sent_as_bytes(world: World) -> None:
    """TestBytesSchema of the Go client: its producers declare bytes, and their messages name it."""
    client = world.connect()
    version = client.producer("t", schema=BYTES).success.schema_version
    found = client.request(pb.CommandGetSchema(topic="t", schema_version=version))
    assert (version, found.schema.type) == (bytes(8), SchemaType.NONE)
    client.subscribe("t", schema=BYTES)
    nothing = pb.CommandGetOrCreateSchema(topic="t", schema=BYTES)
    assert client.request(nothing).schema_version == b""


def test_the_versions_of_a_deleted_schema_are_not_served(world: World) -> None:
    client = world.connect()
    client.producer("t")
    first = put_schema(client, AVRO_1)
    world.broker.schemas.delete("public/default/t")
    for _ in range(2):
        for version in (first, b"\0\0\0\0\0\0\0\1"):
            with refused(ServerError.TopicNotFound, "has no such schema"):
                client.request(pb.CommandGetSchema(topic="t", schema_version=version))
        assert put_schema(client, AVRO_1) == b"\0\0\0\0\0\0\0\2"


def test_an_incompatible_schema_is_refused_everywhere(world: World) -> None:
    client = world.connect()
    client.producer("t")
    put_schema(client, AVRO_1)
    with refused(ServerError.IncompatibleSchema):
        put_schema(client, OTHER)
    with refused(ServerError.IncompatibleSchema):
        client.producer("t", schema=avro(OTHER))
    with refused(ServerError.IncompatibleSchema):
        client.subscribe("t", schema=avro(OTHER))


def test_a_producer_is_told_the_version_of_its_schema(world: World) -> None:
    client = world.connect()
    assert client.producer("t", schema=avro(AVRO_1)).success.schema_version == bytes(8)
    bare = client.producer("t").success
    assert bare.HasField("schema_version")
    assert bare.schema_version == b""
    client.subscribe("t", schema=avro(AVRO_1))


def test_a_producer_without_a_schema_is_refused_where_one_is_enforced() -> None:
    client = World(schema_validation_enforced=True).connect()
    client.producer("t", schema=avro(AVRO_1))
    with refused(ServerError.IncompatibleSchema):
        client.producer("t")


# ---- Transactions ----------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandTcClientConnectRequest(tc_id=0),
        pb.CommandNewTxn(),
        pb.CommandAddPartitionToTxn(),
        pb.CommandAddSubscriptionToTxn(),
        pb.CommandEndTxn(),
        pb.CommandEndTxnOnPartition(),
        pb.CommandEndTxnOnSubscription(),
    ],
)
def test_transactions_are_refused_with_a_clear_text(world: World, command: object) -> None:
    client = world.connect()
    request_id = client.ask(command)
    answer = client.answer(request_id)
    assert "Response" in type(answer).__name__
    with refused(ServerError.NotAllowedError, "no transactions"):
        unless_refused(answer)


# ---- Limits of a namespace -------------------------------------------------------


def test_a_namespace_has_no_more_topics_than_allowed() -> None:
    client = World(max_topics_per_namespace=2).connect()
    client.producer("a")
    client.producer("b")
    client.producer("a")
    with refused(ServerError.NotAllowedError, "2 topics"):
        client.producer("c")


def test_a_name_of_a_megabyte_is_refused(world: World) -> None:
    """It would be in memory, in every list, in the log and in each line of the metrics."""
    client = world.connect()
    long = "s" * (1 << 20)
    with refused(ServerError.NotAllowedError, "1048576 bytes"):
        client.subscribe("t", long)
    for topic in ("t", "non-persistent://public/default/n"):
        with refused(ServerError.NotAllowedError, "the name of the subscription"):
            client.subscribe(topic, "s" * 1025)
        with refused(ServerError.NotAllowedError, "the name of the consumer"):
            client.subscribe(topic, "s", consumer_name=long)
        with refused(ServerError.NotAllowedError, "the name of the producer"):
            client.producer(topic, producer_name=long)
        with refused(ServerError.NotAllowedError, "the name of the topic"):
            client.producer(topic + "t" * 1024)
    assert world.topic("t").subscriptions == {}
    client.subscribe("t", "s" * 1024)


def test_kinds_of_topics_can_be_switched_off() -> None:
    with refused(ServerError.NotAllowedError, "persistent topics"):
        World(persistent=False).connect().producer("t")
    with refused(ServerError.NotAllowedError, "non-persistent topics"):
        World(non_persistent=False).connect().producer("non-persistent://public/default/t")


def test_topics_that_may_not_be_created_are_not(world: World) -> None:
    with refused(ServerError.TopicNotFound):
        world.connect().subscribe("t", force_topic_creation=False)
    client = World(auto_create_topics=False).connect()
    for ask in (lambda: client.producer("t"), lambda: client.subscribe("t")):
        with refused(ServerError.TopicNotFound, "not found"):
            ask()


def test_a_topic_is_there_after_a_restart_and_after_a_crash(world: World) -> None:
    client = world.connect()
    client.subscribe("t", type=Shared, initialPosition=Earliest)
    client.producer("t").send("a")
    for again in (world.restart, world.crash):
        again()
        client = world.connect()
        assert list(topics(client).topics) == [P + "t"]
        assert client.subscribe("t", type=Shared).receive() == ["a"]


def test_a_partitioned_topic_that_would_be_too_many_is_not_begun() -> None:
    world = World(max_topics_per_namespace=3)
    world.connect().producer("a")
    name = TopicName.parse("p")
    with pytest.raises(BrokerError, match="3 are the most"):
        world.broker.create_partitioned(name, 3)
    assert world.broker.directory.partitioned == {}
    assert world.broker.names("public/default") == [P + "a"]
    world.broker.create_partitioned(name, 2)
    with pytest.raises(BrokerError, match="3 are the most"):
        world.broker.create_partitioned(name, 3)
    assert world.broker.directory.partitioned == {P + "p": 2}


def test_a_watcher_hears_of_topics_that_come_together_in_one_update(world: World) -> None:
    """The hash of all names is made once, not for each of them."""
    client = world.connect()
    watch(client, ".*")
    count = world.broker.pieces.topics
    world.broker.create_partitioned(TopicName.parse("p"), count)
    world.settle()
    update = client.one(pb.CommandWatchTopicUpdate)
    names = sorted([f"{P}p-partition-{i}" for i in range(count)])
    assert sorted(update.new_topics) == names
    assert not update.deleted_topics
    assert update.topics_hash == topics_hash(names)
