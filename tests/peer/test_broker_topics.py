"""Patterns, large and delayed messages, schemas and the ends of topics, as the official
client uses them."""

import asyncio
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import _pulsar
import pulsar
import pulsar.asyncio
import pytest
from peer.conftest import (
    MARKER,
    datas,
    every_type,
    look,
    new_batcher,
    new_producer,
    payloads,
    publish,
    receive,
    receive_until_marker,
    rest,
    rest_path,
)
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String, StringSchema
from support.broker_process import BrokerProcess
from support.waiting import wait_until

EARLIEST = pulsar.InitialPosition.Earliest
Shared = pulsar.ConsumerType.Shared


# ---- Patterns and lists ----------------------------------------------------------------


def test_a_pattern_finds_topics_that_are_there_and_those_that_come(client: Any, topic: str) -> None:
    old = [f"{topic}-old-{i}" for i in range(3)]
    for name in [*old, f"{topic}-other"]:
        client.create_producer(name).close()
    pattern = f"{topic}-(old|new)-.*"
    once = client.subscribe(re.compile(pattern), "once", Shared)
    # The wrapper takes a period and does not pass it on; below it, it works.
    options = _pulsar.ConsumerConfiguration()
    options.consumer_type(Shared)
    options.subscription_initial_position(EARLIEST)
    options.pattern_auto_discovery_period(1)
    consumer = client._client.subscribe_pattern(pattern, "s", options)
    new = [f"{topic}-new-{i}" for i in range(2)]
    for name in [*old, f"{topic}-other", *new]:
        client.create_producer(name).send(name.encode())
    got = receive(consumer, 5)
    assert sorted(datas(got)) == sorted(name.encode() for name in [*old, *new])
    assert all(message.topic_name().encode() == message.data() for message in got)
    assert sorted(datas(receive(once, 3))) == sorted(name.encode() for name in old)
    consumer.close()


def test_a_list_of_topics(client: Any, topic: str) -> None:
    names = [f"{topic}-{i}" for i in range(3)]
    consumer = client.subscribe(names, "s", Shared)
    for name in names:
        publish(new_producer(client, name), [name.encode()] * 5)
    got = receive(consumer, 15)
    assert sorted(datas(got)) == sorted([name.encode() for name in names] * 5)
    for message in got:
        consumer.acknowledge(message)


# ---- Large messages --------------------------------------------------------------------

LARGE = bytes(range(251)) * (12 * 1024 * 1024 // 251 + 1)


@every_type
def test_a_message_of_12_mib(client: Any, topic: str, type: Any) -> None:
    consumer = client.subscribe(topic, "s", type)
    producer = client.create_producer(topic, chunking_enabled=True)
    id = producer.send(LARGE, properties={"a": "b"}, partition_key="k")
    producer.send(b"small")
    large, small = receive(consumer, 2)
    assert large.data() == LARGE
    assert str(large.message_id()) == str(id)
    assert (large.properties(), large.partition_key()) == ({"a": "b"}, "k")
    assert small.data() == b"small"
    consumer.acknowledge(large)
    consumer.acknowledge(small)
    consumer.close()
    producer.send(MARKER)
    assert receive_until_marker(client.subscribe(topic, "s", type)) == []


def test_large_messages_of_several_producers_reach_shared_consumers_whole(
    client: Any, topic: str
) -> None:
    consumers = [client.subscribe(topic, "s", Shared) for _ in range(2)]
    producers = [client.create_producer(topic, chunking_enabled=True) for _ in range(2)]
    answers: list[Any] = []
    sent = {bytes([i]) + LARGE for i in range(4)}
    for i, payload in enumerate(sorted(sent)):
        producers[i % 2].send_async(payload, lambda result, id: answers.append(result))
    got: list[bytes] = []

    def turn() -> bool:
        for consumer in consumers:
            message = look(consumer)
            if message is not None:
                got.append(message.data())
        return len(got) == len(sent)

    wait_until(turn, lambda: f"{len(got)} of {len(sent)} large messages came")
    assert set(got) == sent
    assert answers == [pulsar.Result.Ok] * 4
    # Nothing is acked: all of it comes again to whoever is left, and whole.
    consumers.pop().close()
    consumers.pop().close()
    consumer = client.subscribe(topic, "s", Shared)
    assert set(datas(receive(consumer, 4))) == sent


@every_type
def test_a_backlog_of_large_messages_flows(client: Any, topic: str, type: Any) -> None:
    """More than a socket takes at once, for two subscriptions on one connection."""
    consumers = [client.subscribe(topic, name, type) for name in ("a", "b")]
    for consumer in consumers:
        consumer.close()
    sent = [payload + bytes(700 * 1024) for payload in payloads(20)]
    publish(client.create_producer(topic), sent)
    consumers = [client.subscribe(topic, name, type) for name in ("a", "b")]
    for consumer in consumers:
        assert datas(receive(consumer, 20)) == sent


def test_a_large_message_is_found_by_its_id(client: Any, topic: str) -> None:
    producer = client.create_producer(topic, chunking_enabled=True)
    producer.send(b"before")
    id = producer.send(LARGE)
    producer.send(b"after")
    reader = client.create_reader(topic, id, start_message_id_inclusive=True)
    assert reader.read_next(30_000).data() == LARGE
    assert reader.read_next(30_000).data() == b"after"
    reader = client.create_reader(topic, id)
    assert reader.read_next(30_000).data() == b"after"


# ---- Delayed messages ------------------------------------------------------------------


@pytest.mark.parametrize("type", [Shared, pulsar.ConsumerType.KeyShared], ids=lambda t: t.name)
def test_delayed_messages_are_never_early_and_hold_nobody_up(
    client: Any, topic: str, type: Any
) -> None:
    consumer = client.subscribe(topic, "s", type)
    ordered = client.subscribe(topic, "ordered")
    producer = client.create_producer(topic)
    start = now_ms()
    due = {b"third": start + 1500, b"second": start + 900, b"first": start + 600}
    for payload, at in due.items():
        producer.send(payload, deliver_at=at)
    producer.send(b"after", deliver_after=timedelta(milliseconds=700))
    due[b"after"] = start + 700
    publish(producer, payloads(5))
    came: dict[bytes, int] = {}
    for _ in range(5 + len(due)):
        (message,) = receive(consumer, 1)
        came[message.data()] = now_ms()
        consumer.acknowledge(message)
    assert [p for p in came if p not in due] == payloads(5)
    early = {payload: at - came[payload] for payload, at in due.items() if came[payload] < at}
    assert not early, f"early by ms: {early}"
    # Where order counts there is no delay.
    assert datas(receive(ordered, 9)) == [b"third", b"second", b"first", b"after", *payloads(5)]


def test_delays_outlive_a_crash(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str
) -> None:
    client = connect()
    client.subscribe(topic, "s", Shared).close()
    producer = client.create_producer(topic)
    # The broker is back before: it takes about as long to start as it took the first time.
    due = now_ms() + 1000 + int(3000 * broker.ready_s)
    for payload in payloads(5):
        producer.send(payload, deliver_at=due)
    producer.close()
    broker.kill()
    broker.restart()
    consumer = connect().subscribe(topic, "s", Shared)
    got = receive(consumer, 5)
    assert now_ms() >= due
    assert datas(got) == payloads(5)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# ---- Schemas ---------------------------------------------------------------------------


class User(Record):  # type: ignore[misc]
    name = String()
    age = Integer()


# The same record, later, with a field more: a name is part of a schema.
NewerUser = type(Record)(
    "User", (Record,), {"name": String(), "age": Integer(), "mail": String(required_default=True)}
)


class Number(Record):  # type: ignore[misc]
    name = Integer(required=True)
    other = Integer(required=True)


@pytest.mark.parametrize("kind", [AvroSchema, JsonSchema])
def test_records(client: Any, topic: str, kind: Any) -> None:
    consumer = client.subscribe(topic, "s", schema=kind(User))
    producer = client.create_producer(topic, schema=kind(User))
    publish(producer, [User(name=f"user-{i}", age=i) for i in range(5)])
    got = [message.value() for message in receive(consumer, 5)]
    assert [(user.name, user.age) for user in got] == [(f"user-{i}", i) for i in range(5)]


@pytest.mark.parametrize("kind", [AvroSchema, JsonSchema])
def test_a_schema_that_does_not_fit_is_refused(client: Any, topic: str, kind: Any) -> None:
    client.create_producer(topic, schema=kind(User))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=kind(Number))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe(topic, "s", schema=kind(Number))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=StringSchema())


def test_schemas_outlive_a_restart(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str
) -> None:
    client = connect()
    client.subscribe(topic, "s", schema=AvroSchema(User)).close()
    client.create_producer(topic, schema=AvroSchema(User)).send(User(name="kept", age=1))
    broker.kill()
    broker.restart()
    client = connect()
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=AvroSchema(Number))
    message = receive(client.subscribe(topic, "s", schema=AvroSchema(User)), 1)[0]
    assert message.value().name == "kept"


def test_a_newer_schema_is_a_new_version(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=AvroSchema(User), consumer_name="old")
    client.create_producer(topic, schema=AvroSchema(User)).send(User(name="a", age=1))
    newer = client.create_producer(topic, schema=AvroSchema(NewerUser))
    newer.send(NewerUser(name="b", age=2, mail="b@example.org"))
    first, second = receive(consumer, 2)
    assert first.schema_version() != second.schema_version()
    assert (first.value().name, second.value().name) == ("a", "b")


def test_texts(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", schema=StringSchema())
    client.create_producer(topic, schema=StringSchema()).send("größe ✓")
    assert receive(consumer, 1)[0].value() == "größe ✓"


# ---- The end of a topic ----------------------------------------------------------------


def test_a_terminated_topic_takes_no_more(broker: BrokerProcess, client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = new_batcher(client, topic, 5)
    ids = publish(producer, payloads(10))
    last = rest(broker, "POST", f"{rest_path(topic)}/terminate").json()
    assert (last["ledgerId"], last["entryId"]) == (ids[-1].ledger_id(), ids[-1].entry_id())
    with pytest.raises((pulsar.TopicTerminated, pulsar.AlreadyClosed)):
        client.create_producer(topic).send(b"too late")
    assert datas(receive(consumer, 10)) == payloads(10)


# ---- The client's asyncio --------------------------------------------------------------


def test_the_asyncio_client(broker: BrokerProcess, topic: str) -> None:
    async def main() -> None:
        client = pulsar.asyncio.Client(
            broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        )
        consumer = await client.subscribe(topic, "s", Shared, batch_index_ack_enabled=True)
        producer = await client.create_producer(topic)
        await asyncio.gather(*[producer.send(payload) for payload in payloads(50)])
        async with asyncio.timeout(30):
            got = [await consumer.receive() for _ in range(50)]
        assert sorted(datas(got)) == payloads(50)
        for message in got[::2]:
            await consumer.acknowledge(message)
        await consumer.close()
        again = await client.subscribe(topic, "s", Shared, batch_index_ack_enabled=True)
        await producer.send(MARKER)
        left = []
        async with asyncio.timeout(30):
            while (message := await again.receive()).data() != MARKER:
                left.append(message.data())
        assert sorted(left) == sorted(datas(got[1::2]))
        await client.close()

    asyncio.run(main())
