"""Messages in chunks, and their ids, between the official Python client and ours."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest
from client.conftest import WAIT_MS, Engine

from magnetar import (
    ChunkMessageId,
    CompressionType,
    ConsumerType,
    InitialPosition,
    MessageId,
)
from magnetar.client.door.blocking import Client

MIB = 1 << 20
SIZES = (10, 5 * MIB + 1, 11 * MIB)


def contents() -> list[bytes]:
    return [random.Random(size).randbytes(size) for size in SIZES]


@pytest.fixture
def official(engine: Engine) -> Iterator[Any]:
    client = pulsar.Client(engine.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    with contextlib.suppress(pulsar.AlreadyClosed):
        client.close()


def official_consumer(client: Any, topic: str, **options: Any) -> Any:
    return client.subscribe(
        topic, "sub", initial_position=pulsar.InitialPosition.Earliest, **options
    )


def assert_same(ours: MessageId, theirs: bytes) -> None:
    """The bytes of the other side say the same."""
    found = MessageId.deserialize(theirs)
    assert found == ours
    assert isinstance(found, ChunkMessageId) == isinstance(ours, ChunkMessageId)
    if isinstance(ours, ChunkMessageId) and isinstance(found, ChunkMessageId):
        assert found.first_chunk_message_id() == ours.first_chunk_message_id()
        assert str(found) == str(ours)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_it_reads_what_we_write(
    official: Any, client: Client, topic: str, compressed: bool
) -> None:
    consumer = official_consumer(official, topic)
    options: dict[str, Any] = {}
    if compressed:
        options["compression_type"] = CompressionType.ZSTD
    producer = client.create_producer(topic, chunking_enabled=True, **options)
    ids = [producer.send(one, properties={"a": "b"}) for one in contents()]
    assert [isinstance(id, ChunkMessageId) for id in ids] == [False, True, True]
    for one, id in zip(contents(), ids, strict=True):
        message = consumer.receive(WAIT_MS)
        assert message.data() == one
        assert message.properties() == {"a": "b"}
        assert_same(id, message.message_id().serialize())
        consumer.acknowledge(message)


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_we_read_what_it_writes(
    official: Any, client: Client, topic: str, compressed: bool
) -> None:
    consumer = client.subscribe(topic, "sub", initial_position=InitialPosition.Earliest)
    kind = pulsar.CompressionType.LZ4 if compressed else pulsar.CompressionType.NONE
    producer = official.create_producer(topic, chunking_enabled=True, compression_type=kind)
    ids = [producer.send(one) for one in contents()]
    for one, id in zip(contents(), ids, strict=True):
        message = consumer.receive(WAIT_MS)
        assert message.data() == one
        assert_same(message.message_id(), id.serialize())
        consumer.acknowledge(message)


def test_seeks_to_ids_of_the_other_side(official: Any, client: Client, topic: str) -> None:
    large = contents()[1]
    ours = client.create_producer(topic, chunking_enabled=True)
    theirs = official.create_producer(topic, chunking_enabled=True)
    our_id = ours.send(large)
    their_id = theirs.send(large[::-1])
    end = ours.send(b"end")
    consumer = official_consumer(official, topic, start_message_id_inclusive=True)
    for _ in range(3):
        consumer.receive(WAIT_MS)
    consumer.seek(pulsar.MessageId.deserialize(our_id.serialize()))
    assert consumer.receive(WAIT_MS).data() == large
    assert consumer.receive(WAIT_MS).data() == large[::-1]
    for inclusive in (True, False):
        reader = client.create_reader(
            topic,
            MessageId.deserialize(their_id.serialize()),
            start_message_id_inclusive=inclusive,
        )
        if inclusive:
            assert reader.read_next(WAIT_MS).data() == large[::-1]
        assert reader.read_next(WAIT_MS).message_id() == end


def test_both_share_a_subscription(
    engine: Engine, official: Any, client: Client, topic: str
) -> None:
    """Each message goes whole to one of them, and what one leaves the other gets."""
    ours = client.subscribe(
        topic,
        "sub",
        consumer_type=ConsumerType.Shared,
        initial_position=InitialPosition.Earliest,
        receiver_queue_size=3,
    )
    theirs = official_consumer(
        official, topic, consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=3
    )
    producers = [
        client.create_producer(topic, chunking_enabled=True),
        official.create_producer(topic, chunking_enabled=True),
    ]
    sent = [random.Random(number).randbytes(5 * MIB + 1000 + number) for number in range(6)]
    for number, one in enumerate(sent):
        producers[number % 2].send(one)
    got = []
    message = theirs.receive(WAIT_MS)
    got.append(message.data())
    theirs.acknowledge(message)
    theirs.close()
    while len(set(got)) < len(sent):
        own = ours.receive(WAIT_MS)
        got.append(own.data())
        ours.acknowledge(own)
    assert sorted(set(got)) == sorted(sent)
