"""A broker that drops what it has already, as the official client uses it."""

from collections.abc import Callable
from typing import Any

import pulsar
from peer.conftest import (
    MARKER,
    batched_or_not,
    datas,
    new_producer,
    payloads,
    publish,
    receive_until_marker,
)
from support.broker_process import BrokerProcess
from support.waiting import wait_until

BROKER_OPTIONS = ("--set", "deduplication=true")


@batched_or_not
def test_what_is_sent_twice_is_there_once(client: Any, topic: str, batching: bool) -> None:
    consumer = client.subscribe(topic, "s")
    producer = new_producer(client, topic, batching=batching, producer_name="careful")
    for _ in range(2):
        publish(producer, payloads(20), sequence_id=lambda i: 1 + i)
    publish(producer, payloads(20, 10), sequence_id=lambda i: 11 + i)
    publish(new_producer(client, topic), [MARKER])
    assert datas(receive_until_marker(consumer)) == payloads(30)


@batched_or_not
def test_the_last_sequence_id_outlives_a_crash(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str, batching: bool
) -> None:
    client = connect()
    client.subscribe(topic, "s").close()
    producer = new_producer(client, topic, batching=batching, producer_name="careful")
    assert producer.last_sequence_id() == -1
    publish(producer, payloads(20), sequence_id=lambda i: 1 + i)
    broker.kill()
    client.close()
    broker.restart()
    client = connect()
    producer = new_producer(client, topic, batching=batching, producer_name="careful")
    # Of a batch this client tells the first id only.
    assert producer.last_sequence_id() == (11 if batching else 20)
    publish(producer, payloads(30), sequence_id=lambda i: 1 + i)
    publish(new_producer(client, topic), [MARKER])
    assert datas(receive_until_marker(client.subscribe(topic, "s"))) == payloads(30)


@batched_or_not
def test_each_message_is_there_once_though_the_broker_was_killed(
    broker: BrokerProcess, client: Any, topic: str, batching: bool
) -> None:
    """The client sends again what has no receipt; the broker knows what it has."""
    client.subscribe(topic, "s").close()
    producer = new_producer(client, topic, batching=batching, max_pending_messages=5000)
    count = 3000
    results: list[Any] = []
    for payload in payloads(count):
        producer.send_async(payload, lambda result, id: results.append(result))
    wait_until(lambda: len(results) >= 50, lambda: f"{len(results)} receipts")
    broker.kill()
    broker.restart()
    producer.flush()
    wait_until(lambda: len(results) == count, lambda: f"{len(results)} of {count} answered")
    assert set(results) == {pulsar.Result.Ok}
    publish(new_producer(client, topic), [MARKER])
    assert datas(receive_until_marker(client.subscribe(topic, "s"))) == payloads(count)


def test_a_large_message_is_there_once(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="careful", chunking_enabled=True)
    large = bytes(11 << 20)
    for _ in range(2):
        producer.send(large, sequence_id=7)
    publish(new_producer(client, topic), [MARKER])
    assert [len(data) for data in datas(receive_until_marker(consumer))] == [len(large)]
