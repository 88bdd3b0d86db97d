"""Acks stick: through unload, restart and kill -9, message by message within a batch.

The client has no ack receipts. What tells that its acks are kept is the answer to the
close of the consumer, which the broker gives when all acks before it are on disk.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pulsar
import pytest
from peer.conftest import (
    MARKER,
    TYPES,
    batched_or_not,
    datas,
    look,
    new_batcher,
    new_producer,
    payloads,
    publish,
    receive,
    receive_until_marker,
    unload,
)
from support.broker_process import BrokerProcess
from support.waiting import wait_until

EARLIEST = pulsar.InitialPosition.Earliest
Interrupt = Callable[..., None]


def by_unload(broker: BrokerProcess, *topics: str) -> None:
    for topic in topics:
        unload(broker, topic)


def by_restart(broker: BrokerProcess, *topics: str) -> None:
    broker.restart()


def by_kill(broker: BrokerProcess, *topics: str) -> None:
    broker.kill()
    broker.restart()


every_interruption = pytest.mark.parametrize(
    "interrupt", [by_unload, by_restart, by_kill], ids=["unload", "restart", "kill"]
)


@every_interruption
def test_acks_of_single_messages_of_a_batch_outlive(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str, interrupt: Interrupt
) -> None:
    client = connect()
    # Untouched, acked here and there, at an edge, all but one, whole, every other one.
    acked = {10, 13, 19, 20, 29, *range(30, 40), *range(41, 50), *range(50, 60, 2)}
    consumers = subscribe_all(client, topic)
    publish(new_batcher(client, topic, 10), payloads(70))
    for consumer in consumers.values():
        got = receive(consumer, 70)
        for number in acked:
            consumer.acknowledge(got[number])
        consumer.close()

    interrupt(broker, topic)
    client = connect()
    publish(new_producer(client, topic), [MARKER])
    expected = [p for i, p in enumerate(payloads(70)) if i not in acked]
    left = {t: datas(receive_until_marker(c)) for t, c in subscribe_all(client, topic).items()}
    assert left == dict.fromkeys(left, expected)


def subscribe_all(client: Any, topic: str) -> dict[str, Any]:
    """A subscription of each type, by the name of the type."""
    return {
        type.name: client.subscribe(topic, type.name, type, batch_index_ack_enabled=True)
        for type in TYPES
    }


@every_interruption
def test_a_cumulative_ack_within_a_batch_outlives(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str, interrupt: Interrupt
) -> None:
    client = connect()
    topics = {f"{topic}-single": False, f"{topic}-batched": True}
    for name, batching in topics.items():
        consumer = client.subscribe(name, "s", batch_index_ack_enabled=True)
        publish(new_producer(client, name, batching=batching), payloads(50))
        got = receive(consumer, 50)
        # One after the cumulative ack too: a single ack ahead of the rest.
        consumer.acknowledge(got[27])
        consumer.acknowledge_cumulative(got[23])
        consumer.close()

    interrupt(broker, *topics)
    client = connect()
    for name in topics:
        publish(new_producer(client, name), [MARKER])
        left = receive_until_marker(client.subscribe(name, "s", batch_index_ack_enabled=True))
        assert datas(left) == [*payloads(3, 24), *payloads(22, 28)]


@every_interruption
def test_clients_that_are_connected_come_back_by_themselves(
    broker: BrokerProcess, client: Any, topic: str, interrupt: Interrupt
) -> None:
    consumers = subscribe_all(client, topic)
    producer = new_producer(client, topic)
    publish(producer, payloads(20))
    for consumer in consumers.values():
        assert datas(receive(consumer, 20)) == payloads(20)
    interrupt(broker, topic)
    # Nothing was acked, so everything is there again, and what is new comes after it.
    publish(producer, payloads(20, 20))
    for consumer in consumers.values():
        got = receive(consumer, 40)
        assert datas(got) == payloads(40)
        for message in got:
            consumer.acknowledge(message)
        consumer.close()
    publish(producer, [MARKER])
    for consumer in subscribe_all(client, topic).values():
        assert receive_until_marker(consumer) == []


def test_a_half_acked_batch_is_whole_again_for_another_subscription(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str
) -> None:
    client = connect()
    consumers = {
        name: client.subscribe(topic, name, batch_index_ack_enabled=True) for name in ("a", "b")
    }
    publish(new_batcher(client, topic, 10), payloads(10))
    for start, consumer in enumerate(consumers.values()):
        for message in receive(consumer, 10)[start::2]:
            consumer.acknowledge(message)
        consumer.close()
    by_kill(broker, topic)
    client = connect()
    producer = new_producer(client, topic)
    publish(producer, [MARKER])
    for start, name in enumerate(consumers):
        consumer = client.subscribe(topic, name, batch_index_ack_enabled=True)
        assert datas(receive_until_marker(consumer)) == payloads(10)[1 - start :: 2]
    fresh = client.subscribe(topic, "c", initial_position=EARLIEST)
    assert datas(receive_until_marker(fresh)) == payloads(10)


def test_without_batch_index_acks_a_batch_comes_back_until_all_of_it_is_acked(
    client: Any, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", batch_index_ack_enabled=False)
    producer = new_batcher(client, topic, 10)
    publish(producer, payloads(20))
    for message in receive(consumer, 20)[:19]:
        consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s")
    assert datas(receive(again, 10)) == payloads(10, 10)


@batched_or_not
def test_a_large_backlog_is_there_after_a_restart(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str, batching: bool
) -> None:
    count = 10_000
    client = connect()
    for name in ("all", "some"):
        client.subscribe(topic, name, batch_index_ack_enabled=True).close()
    producer = new_batcher(client, topic, 100) if batching else new_producer(client, topic)
    publish(producer, payloads(count))
    consumer = client.subscribe(topic, "some", batch_index_ack_enabled=True)
    for message in receive(consumer, count // 2):
        if int(message.data()[-1:]) % 2:
            consumer.acknowledge(message)
    consumer.close()

    broker.restart()
    client = connect()
    publish(new_producer(client, topic), [MARKER])
    left = receive_until_marker(client.subscribe(topic, "all"))
    assert datas(left) == payloads(count)
    consumer = client.subscribe(topic, "some", batch_index_ack_enabled=True)
    expected = payloads(count)
    assert datas(receive_until_marker(consumer)) == [
        *expected[: count // 2 : 2],
        *expected[count // 2 :],
    ]


def test_every_receipt_outlives_kill(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str
) -> None:
    """Killed while messages are on their way: what has a receipt is there, in order, once."""
    client = connect()
    client.subscribe(topic, "s").close()
    producer = new_producer(client, topic, max_pending_messages=5000)
    receipts: list[bytes] = []
    sent = payloads(2000)
    for payload in sent:

        def done(result: Any, id: Any, payload: bytes = payload) -> None:
            if result == pulsar.Result.Ok:
                receipts.append(payload)

        producer.send_async(payload, done)
    wait_until(lambda: len(receipts) >= 100, lambda: f"{len(receipts)} receipts")
    broker.kill()
    safe = list(receipts)
    # Before the broker is back, or the client would send again what has no receipt.
    client.close()
    broker.restart()
    client = connect()
    publish(new_producer(client, topic), [MARKER])
    got = datas(receive_until_marker(client.subscribe(topic, "s")))
    assert got[: len(safe)] == safe
    assert got == sent[: len(got)]


def test_rounds_of_acks_and_kills(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str
) -> None:
    """Whatever is acked, in whatever order: after each crash exactly the rest is there."""
    random = Random(54)
    left: dict[str, list[bytes]] = {type.name: [] for type in TYPES}
    first = 0
    for _ in range(3):
        client = connect()
        consumers = subscribe_all(client, topic)
        count = random.randrange(50, 150)
        publish(new_batcher(client, topic, random.randrange(2, 80)), payloads(count, first))
        publish(new_producer(client, topic), payloads(20, first + count))
        for name, consumer in consumers.items():
            left[name] += payloads(count + 20, first)
            got = receive(consumer, len(left[name]))
            assert datas(got) == left[name], name
            acked = random.sample(got, random.randrange(len(got)))
            for message in acked:
                consumer.acknowledge(message)
            gone = set(datas(acked))
            left[name] = [payload for payload in left[name] if payload not in gone]
            consumer.close()
        first += count + 20
        client.close()
        by_kill(broker, topic)


def test_unloads_while_messages_are_on_their_way(
    broker: BrokerProcess, client: Any, topic: str
) -> None:
    options = {"consumer_type": pulsar.ConsumerType.Shared, "batch_index_ack_enabled": True}
    consumer = client.subscribe(topic, "s", **options)
    producer = new_producer(client, topic, batching=True)
    count = 2000
    results: list[Any] = []
    seen: set[bytes] = set()
    for number, payload in enumerate(payloads(count)):
        producer.send_async(payload, lambda result, id: results.append(result))
        if number % 500 == 250:
            unload(broker, topic)
        message = look(consumer) if number % 3 == 0 else None
        if message is not None:
            seen.add(message.data())
            consumer.acknowledge(message)
    producer.flush()
    while len(seen) < count:
        (message,) = receive(consumer, 1)
        seen.add(message.data())
        consumer.acknowledge(message)
    assert seen == set(payloads(count))
    wait_until(lambda: len(results) == count, lambda: f"{len(results)} of {count} answered")
    assert set(results) == {pulsar.Result.Ok}
    # What was acked just before an unload may be here a second time, and is acked by now.
    publish(new_producer(client, topic), [MARKER])
    for message in receive_until_marker(consumer):
        consumer.acknowledge(message)
    consumer.close()
    publish(new_producer(client, topic), [MARKER])
    assert receive_until_marker(client.subscribe(topic, "s", **options)) == []


# ---- Negative acks ---------------------------------------------------------------------


@pytest.mark.parametrize("type", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared])
@batched_or_not
def test_what_is_nacked_comes_back_and_what_is_acked_does_not(
    client: Any, topic: str, type: Any, batching: bool
) -> None:
    consumer = client.subscribe(
        topic, "s", type, negative_ack_redelivery_delay_ms=1000, batch_index_ack_enabled=True
    )
    # The client keeps acks for 100 ms; what is nacked must not come back before they went out.
    producer = new_producer(client, topic, batching=batching)
    publish(producer, payloads(100))
    for number, message in enumerate(receive(consumer, 100)):
        if number % 2:
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    again: dict[bytes, Any] = {}
    while len(again) < 50:
        # Some twice, if a tick of the client comes between the nacks of one batch.
        (message,) = receive(consumer, 1)
        again[message.data()] = message
        assert message.redelivery_count() > 0
    assert sorted(again) == payloads(100)[1::2]
    for message in again.values():
        consumer.acknowledge(message)
    consumer.close()
    publish(producer, [MARKER])
    assert receive_until_marker(client.subscribe(topic, "s", type)) == []


def test_only_the_nacked_message_of_a_batch_comes_back(client: Any, topic: str) -> None:
    consumer = client.subscribe(
        topic,
        "s",
        pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        batch_index_ack_enabled=True,
    )
    producer = new_batcher(client, topic, 3)
    publish(producer, payloads(3))
    zero, one, two = receive(consumer, 3)
    consumer.acknowledge(zero)
    consumer.acknowledge(two)
    consumer.negative_acknowledge(one)
    (again,) = receive(consumer, 1)
    assert again.data() == one.data()
    consumer.acknowledge(again)
    publish(producer, [b"a", b"b", MARKER])
    assert datas(receive_until_marker(consumer)) == [b"a", b"b"]


def test_redelivery_counts_go_up_whatever_happens_to_siblings(client: Any, topic: str) -> None:
    consumer = client.subscribe(
        topic,
        "s",
        pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        batch_index_ack_enabled=True,
    )
    publish(new_batcher(client, topic, 5), payloads(5))
    batch = receive(consumer, 5)
    for count in range(4):
        poison, *others = batch
        assert poison.data() == payloads(1)[0]
        assert poison.redelivery_count() == count
        consumer.negative_acknowledge(poison)
        if others:
            consumer.acknowledge(others[-1])
        batch = receive(consumer, max(len(batch) - 1, 1))


@batched_or_not
def test_an_exclusive_consumer_gets_all_again_in_order(
    client: Any, topic: str, batching: bool
) -> None:
    # Later than the client sends its acks, which it gathers for 100 ms.
    consumer = client.subscribe(
        topic, "s", negative_ack_redelivery_delay_ms=1000, batch_index_ack_enabled=True
    )
    publish(new_producer(client, topic, batching=batching), payloads(20))
    got = receive(consumer, 20)
    consumer.acknowledge_cumulative(got[3])
    consumer.acknowledge(got[5])
    consumer.negative_acknowledge(got[17])
    again = receive(consumer, 15)
    assert datas(again) == [*payloads(1, 4), *payloads(14, 6)]


@batched_or_not
def test_dead_letters(client: Any, topic: str, batching: bool) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(2, initial_subscription_name="undertaker")
    consumer = client.subscribe(
        topic,
        "s",
        pulsar.ConsumerType.Shared,
        negative_ack_redelivery_delay_ms=100,
        batch_index_ack_enabled=True,
        dead_letter_policy=policy,
    )
    producer = new_producer(client, topic, batching=batching)
    publish(producer, payloads(10), partition_key=lambda i: f"key-{i}")
    poison = set(payloads(10)[3:6])
    counts: dict[bytes, int] = {}
    for _ in range(10 + 2 * len(poison)):
        (message,) = receive(consumer, 1)
        counts[message.data()] = counts.get(message.data(), 0) + 1
        if message.data() in poison:
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    assert counts == {p: 3 if p in poison else 1 for p in payloads(10)}
    dead: list[Any] = []
    undertaker = client.subscribe(f"{topic}-s-DLQ", "undertaker")
    while not poison <= set(datas(dead)):
        dead += receive(undertaker, 1)
    assert {m.properties()["REAL_TOPIC"] for m in dead} == {topic}
    if not batching:
        # Of a batch the client buries all, even what was acked and is not delivered again.
        assert set(datas(dead)) == poison
    # They are done with here.
    publish(producer, [MARKER])
    assert receive_until_marker(consumer) == []
