"""Partitioned topics, which this broker creates by itself, as the official client uses them."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pulsar
from peer.conftest import (
    datas,
    every_type,
    new_batcher,
    new_producer,
    payloads,
    publish,
    receive,
)
from support.broker_process import BrokerProcess

PARTITIONS = 4
BROKER_OPTIONS = ("--set", f"auto_create_partitions={PARTITIONS}")


@every_type
def test_all_partitions_are_used_and_all_arrives(client: Any, topic: str, type: Any) -> None:
    consumer = client.subscribe(topic, "s", type)
    producer = new_producer(client, topic)
    publish(producer, payloads(40))
    got = receive(consumer, 40)
    assert sorted(datas(got)) == payloads(40)
    assert {message.message_id().partition() for message in got} == set(range(PARTITIONS))
    for message in got:
        consumer.acknowledge(message)
    assert client.get_topic_partitions(topic) == [
        f"{topic}-partition-{i}" for i in range(PARTITIONS)
    ]


def test_a_key_has_one_partition_and_keeps_its_order(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = new_batcher(client, topic, 10, batching_type=pulsar.BatchingType.KeyBased)
    publish(producer, payloads(100), partition_key=lambda i: f"key-{i % 9}")
    places: dict[str, set[int]] = defaultdict(set)
    order: dict[str, list[bytes]] = defaultdict(list)
    for message in receive(consumer, 100):
        places[message.partition_key()].add(message.message_id().partition())
        order[message.partition_key()].append(message.data())
    assert all(len(partitions) == 1 for partitions in places.values())
    assert order == {f"key-{i}": payloads(100)[i::9] for i in range(9)}


def test_one_partition_by_its_own_name(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    publish(new_producer(client, f"{topic}-partition-2"), payloads(5))
    got = receive(consumer, 5)
    assert datas(got) == payloads(5)
    assert {message.topic_name() for message in got} == {f"{topic}-partition-2"}


def test_a_partitioned_topic_outlives_a_crash(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str
) -> None:
    client = connect()
    options = {"consumer_type": pulsar.ConsumerType.Shared, "batch_index_ack_enabled": True}
    consumer = client.subscribe(topic, "s", **options)
    publish(new_batcher(client, topic, 5), payloads(60))
    acked = receive(consumer, 60)[::2]
    for message in acked:
        consumer.acknowledge(message)
    consumer.close()
    broker.kill()
    broker.restart()
    client = connect()
    assert len(client.get_topic_partitions(topic)) == PARTITIONS
    left = receive(client.subscribe(topic, "s", **options), 30)
    assert sorted(datas(left)) == sorted(set(payloads(60)) - set(datas(acked)))


def test_a_reader_reads_all_partitions(client: Any, topic: str) -> None:
    publish(new_batcher(client, topic, 5), payloads(60))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    got = [reader.read_next(30_000).data() for _ in range(60)]
    assert sorted(got) == payloads(60)
    assert not reader.has_message_available()
