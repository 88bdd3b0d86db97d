"""Compacted topics, as the official Python client and ours see them: readers, consumers, views."""

import asyncio
from typing import Any

import pulsar
import pytest
from peer.conftest import WAIT_MS, rest, rest_path, unload
from support.broker_process import BrokerProcess
from support.waiting import wait_until

import magnetar
from magnetar import aio

EARLIEST = pulsar.InitialPosition.Earliest
KEYS = 7
COUNT = 60


def compact(broker: BrokerProcess, topic: str) -> None:
    path = f"{rest_path(topic)}/compaction"
    assert rest(broker, "PUT", path).status_code == 204
    wait_until(lambda: rest(broker, "GET", path).json()["status"] == "SUCCESS")


def publish(client: Any, topic: str, batching: bool, first: int = 0, **options: Any) -> None:
    """Messages of seven keys, of which one is taken away at the end."""
    producer = client.create_producer(
        topic, batching_enabled=batching, batching_max_publish_delay_ms=60_000, **options
    )
    for i in range(first, first + COUNT):
        producer.send_async(f"v{i}".encode(), lambda *_: None, partition_key=f"k{i % KEYS}")
    producer.send_async(b"", lambda *_: None, partition_key="k0")
    producer.flush()
    producer.close()


def expected(first: int = 0) -> dict[str, bytes]:
    last = {f"k{i % KEYS}": f"v{i}".encode() for i in range(first, first + COUNT)}
    del last["k0"]
    return last


def read_all(reader: Any) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    while reader.has_message_available():
        message = reader.read_next(WAIT_MS)
        assert message.partition_key() not in found, "a key that was not compacted"
        found[message.partition_key()] = message.data()
    return found


COMPRESSIONS = pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZSTD", "ZLib", "SNAPPY"])


@COMPRESSIONS
@pytest.mark.parametrize("batching", [True, False], ids=["batched", "single"])
def test_readers_of_both_clients_see_the_last_of_each_key(
    broker: BrokerProcess, client: Any, topic: str, batching: bool, compression: str
) -> None:
    kind = getattr(pulsar.CompressionType, compression)
    publish(client, topic, batching, compression_type=kind)
    compact(broker, topic)
    unload(broker, topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
    assert read_all(reader) == expected()
    with magnetar.Client(broker.url) as ours:
        reader = ours.create_reader(topic, magnetar.MessageId.earliest, is_read_compacted=True)
        assert read_all(reader) == expected()


@pytest.mark.parametrize("batching", [True, False], ids=["batched", "single"])
def test_consumers_of_both_clients_read_the_view_and_go_on(
    broker: BrokerProcess, client: Any, topic: str, batching: bool
) -> None:
    publish(client, topic, batching)
    compact(broker, topic)
    with magnetar.Client(broker.url) as ours:
        position = magnetar.InitialPosition.Earliest
        for one, at in ((client, EARLIEST), (ours, position)):
            consumer = one.subscribe(
                topic, f"s-{id(one)}", initial_position=at, is_read_compacted=True
            )
            found = {}
            for _ in expected():
                message = consumer.receive(WAIT_MS)
                found[message.partition_key()] = message.data()
                consumer.acknowledge_cumulative(message)
            assert found == expected()
            publish(client, topic, batching, first=1000)
            later = [consumer.receive(WAIT_MS).data() for _ in range(COUNT + 1)]
            assert later == [f"v{i}".encode() for i in range(1000, 1000 + COUNT)] + [b""]
            consumer.unsubscribe()
            compact(broker, topic)
            publish(client, topic, batching)
            compact(broker, topic)


def test_shared_consumers_are_refused(client: Any, topic: str, broker: BrokerProcess) -> None:
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(
            topic, "s", consumer_type=pulsar.ConsumerType.Shared, is_read_compacted=True
        )
    with (
        magnetar.Client(broker.url) as ours,
        pytest.raises(magnetar.PulsarException, match="failover or exclusive"),
    ):
        ours.subscribe(
            topic, "s", consumer_type=magnetar.ConsumerType.Shared, is_read_compacted=True
        )


@pytest.mark.parametrize("batching", [True, False], ids=["batched", "single"])
def test_table_views_of_every_client_have_what_the_view_has(
    broker: BrokerProcess, client: Any, topic: str, batching: bool
) -> None:
    publish(client, topic, batching)
    compact(broker, topic)
    view = client.create_table_view(topic)
    wait_until(lambda: len(view) == len(expected()))
    assert {key: view.get(key) for key in expected()} == expected()
    with magnetar.Client(broker.url) as ours:
        table = ours.create_table_view(topic)
        assert {key: table.get(key) for key in expected()} == expected()
        assert len(table) == len(expected())
    assert asyncio.run(viewed(broker.url, topic)) == expected()


async def viewed(url: str, topic: str) -> dict[str, bytes | None]:
    """What a table view of the other door has."""
    async with aio.Client(url) as client:
        view = await client.create_table_view(topic)
        return {key: view.get(key) for key in expected()}


def test_a_message_in_chunks_is_read_whole_from_the_view(
    broker: BrokerProcess, client: Any, topic: str
) -> None:
    large = {key: key.encode() * 3_000_000 for key in "ab"}
    producer = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    for value in (b"x" * 6_000_000, b""):
        for key in large:
            producer.send(value or large[key], partition_key=key)
    producer.send(b"small", partition_key="b")
    compact(broker, topic)
    for _ in range(2):
        reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
        assert read_all(reader) == {"a": large["a"], "b": b"small"}
        with magnetar.Client(broker.url) as ours:
            reader = ours.create_reader(topic, magnetar.MessageId.earliest, is_read_compacted=True)
            assert read_all(reader) == {"a": large["a"], "b": b"small"}
        producer.send(b"small", partition_key="b")
        compact(broker, topic)
