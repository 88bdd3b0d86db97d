"""Texts that the broker keeps are bounded, and what is refused has changed nothing."""

import pytest
from support.wire_client import KeyShared, Shared, refused
from support.world import World

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.setting.text_limits import (
    CHUNK_UUID,
    CLIENT_VERSION,
    HASH_RANGES,
    METADATA,
    PROPERTIES,
    SCHEMA,
    TEXT_LIMITS,
    UUID_BEYOND_NAME,
    TextLimit,
    check_properties,
)
from magnetar.errors import BrokerError
from magnetar.model import KeySharedMode, ServerError
from magnetar.protocol import pulsar_pb2 as pb

NOT_ALLOWED = ServerError.NotAllowedError


def pairs(size: int) -> list[pb.KeyValue]:
    """One property of so many bytes, its key included."""
    return [pb.KeyValue(key="k", value="x" * (size - 1))]


def many(count: int) -> list[pb.KeyValue]:
    return [pb.KeyValue(key=str(number), value="") for number in range(count)]


# ---- The table ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limit", [row for row in TEXT_LIMITS if row.setting], ids=lambda row: row.noun
)
def test_rows_of_settings_say_what_their_setting_says(limit: TextLimit) -> None:
    default = BrokerSettings().value_of(limit.setting)
    assert isinstance(default, int)
    beyond = UUID_BEYOND_NAME if limit is CHUNK_UUID else 0
    assert limit.bytes_max == default + beyond


def test_every_row_has_a_noun_of_its_own_and_a_reason() -> None:
    assert len({row.noun for row in TEXT_LIMITS}) == len(TEXT_LIMITS)
    assert all(row.reason for row in TEXT_LIMITS)


def test_bytes_are_counted_and_not_characters() -> None:
    check_properties("it", {"k": "x" * (PROPERTIES.bytes_max - 1)}, PROPERTIES)
    with pytest.raises(BrokerError, match="it has 16386 bytes, and 16384 are allowed"):
        check_properties("it", {"kk": "é" * (PROPERTIES.bytes_max // 2)}, PROPERTIES)


# ---- On the wire -------------------------------------------------------------------------


def test_metadata_of_a_producer() -> None:
    world = World()
    client = world.connect()
    with refused(NOT_ALLOWED, "the metadata of the producer has 16385 bytes, and 16384 are"):
        client.producer("t", metadata=pairs(METADATA.bytes_max + 1))
    with refused(NOT_ALLOWED, "the metadata of the producer has 257 keys, and 256 are allowed"):
        client.producer("t", metadata=many(257))
    # Not even the topic was made for it.
    assert world.broker.topics == {}
    client.producer("t", metadata=pairs(METADATA.bytes_max))
    client.producer("t", metadata=many(256))


def test_metadata_of_a_consumer_and_properties_of_its_subscription() -> None:
    world = World()
    client = world.connect()
    with refused(NOT_ALLOWED, "the metadata of the consumer has 16385 bytes, and 16384 are"):
        client.subscribe("t", metadata=pairs(METADATA.bytes_max + 1))
    with refused(NOT_ALLOWED, "the properties of the subscription has 16385 bytes"):
        client.subscribe("t", subscription_properties=pairs(PROPERTIES.bytes_max + 1))
    assert world.broker.topics == {}
    client.subscribe(
        "t",
        metadata=pairs(METADATA.bytes_max),
        subscription_properties=pairs(PROPERTIES.bytes_max),
    )


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_names_of_producers_and_consumers(kind: str) -> None:
    world = World()
    client = world.connect()
    with refused(NOT_ALLOWED, f"the name of the {kind} has 1025 bytes, and 1024 are allowed"):
        if kind == "producer":
            client.producer("t", producer_name="n" * 1025)
        else:
            client.subscribe("t", consumer_name="n" * 1025)
    assert world.broker.topics == {}


def test_schemas_of_producers_consumers_and_by_themselves() -> None:
    world = World()
    client = world.connect()
    large = pb.Schema(name="s", type=1, schema_data=bytes(SCHEMA.bytes_max + 1))
    talkative = pb.Schema(name="s", type=1, schema_data=b"", properties=pairs(20_000))
    for schema, reason in (
        (large, "the definition of the schema has 262145 bytes, and 262144 are allowed"),
        (talkative, "the properties of the schema has 20000 bytes, and 16384 are allowed"),
    ):
        with refused(NOT_ALLOWED, reason):
            client.producer("t", schema=schema)
        with refused(NOT_ALLOWED, reason):
            client.subscribe("t", schema=schema)
    assert world.broker.topics == {}
    client.producer("t")
    answer = client.request_or_refusal(pb.CommandGetOrCreateSchema(topic="t", schema=large))
    assert answer.error_code == NOT_ALLOWED
    assert "262145 bytes" in answer.error_message


def test_the_version_of_a_client() -> None:
    world = World()
    stranger = world.connect(greet=False)
    version = "v" * (CLIENT_VERSION.bytes_max + 1)
    stranger.say(pb.CommandConnect(client_version=version, protocol_version=21))
    error = stranger.one(pb.CommandError)
    assert error.message == "the client version has 1025 bytes, and 1024 are allowed"
    assert stranger.hung_up


def test_uuids_of_chunks() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    with refused(NOT_ALLOWED, "the uuid of the chunk has 1089 bytes, and 1088 are allowed"):
        producer.send_chunk("u" * 1089, 0, 2, "a")
    consumer = client.subscribe("t", "s", Shared, initialPosition=1)
    producer.send_chunks("u" * 1088, "a", "b")
    assert len(consumer.receive()) == 2


def test_a_producer_s_name_inside_a_message() -> None:
    """Deduplication remembers it when a topic is loaded."""
    producer = World().connect().producer("t")
    with refused(NOT_ALLOWED, "the producer's name in the message has 1025 bytes, and 1024 are"):
        producer.send("a", producer_name="n" * 1025)
    producer.send("b", producer_name="n" * 1024)


def test_without_a_limit_of_names_messages_may_say_what_they_like() -> None:
    producer = World(max_name_length=0).connect().producer("t")
    producer.send("a", producer_name="n" * 5000)
    producer.send_chunks("u" * 5000, "a", "b")


def test_a_sticky_consumer_names_a_limited_number_of_ranges(world: World) -> None:
    client = world.connect()

    def meta(count: int) -> pb.KeySharedMeta:
        ranges = [pb.IntRange(start=2 * number, end=2 * number) for number in range(count)]
        return pb.KeySharedMeta(keySharedMode=KeySharedMode.Sticky, hashRanges=ranges)

    with refused(
        NOT_ALLOWED, "the Key_Shared meta of the consumer has 1001 ranges, and 1000 are allowed"
    ):
        client.subscribe("t", "s", KeyShared, keySharedMeta=meta(HASH_RANGES.count_max + 1))
    client.subscribe("t", "s", KeyShared, keySharedMeta=meta(HASH_RANGES.count_max))
