"""Interceptors in both doors: what they see, what they change, and what they cannot harm."""

import asyncio
import logging
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest
from client.conftest import WAIT_MS, WAIT_S, Engine, until
from support.waiting import wait_until

import magnetar
from magnetar import (
    ConsumerInterceptor,
    ConsumerType,
    InitialPosition,
    Message,
    MessageId,
    MessageTooBig,
    MessageToSend,
    ProducerInterceptor,
    Result,
    SettingsError,
    aio,
)
from magnetar.client.door.blocking import Client
from magnetar.schema import JsonSchema, Record, String

Earliest = InitialPosition.Earliest


class Stamps(ProducerInterceptor):
    """Writes its name behind those before it, and what it hears."""

    def __init__(self, name: str = "a") -> None:
        self.name = name
        self.heard: list[tuple[str, MessageId | None, Exception | None]] = []
        self.producers: set[str] = set()
        self.closed = 0

    def before_send(self, producer: Any, message: MessageToSend) -> MessageToSend:
        self.producers.add(producer.topic())
        message.properties["by"] = message.properties.get("by", "") + self.name
        return message

    def on_send_acknowledgement(
        self,
        producer: Any,
        message: MessageToSend,
        message_id: MessageId | None,
        error: Exception | None,
    ) -> None:
        self.heard.append((message.properties["by"], message_id, error))

    def close(self) -> None:
        self.closed += 1


class Notes(ConsumerInterceptor):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []
        self.closed = 0

    def before_consume(self, consumer: Any, message: Message[Any]) -> Message[Any]:
        self.heard.append(("consume", message.message_id()))
        return message

    def on_acknowledge(self, consumer: Any, message_id: MessageId, error: Exception | None) -> None:
        self.heard.append(("ack" if error is None else type(error).__name__, message_id))

    def on_acknowledge_cumulative(
        self, consumer: Any, message_id: MessageId, error: Exception | None
    ) -> None:
        self.heard.append(("cumulative", message_id))

    def on_negative_acks_send(self, consumer: Any, message_ids: set[MessageId]) -> None:
        self.heard.append(("nacks", message_ids))

    def on_ack_timeout_send(self, consumer: Any, message_ids: set[MessageId]) -> None:
        self.heard.append(("late", message_ids))

    def close(self) -> None:
        self.closed += 1

    def of(self, kind: str) -> list[Any]:
        return [what for told, what in list(self.heard) if told == kind]


class Fails(ProducerInterceptor, ConsumerInterceptor):
    """Raises in all that it is asked, after it has changed what it was given."""

    def before_send(self, producer: Any, message: MessageToSend) -> MessageToSend:
        message.properties["by"] = "nobody"
        message.content = b"changed"
        raise RuntimeError("before_send")

    def before_consume(self, consumer: Any, message: Message[Any]) -> Message[Any]:
        raise RuntimeError("before_consume")

    def _fail(self, *arguments: Any) -> Any:
        raise RuntimeError("on_something")

    on_send_acknowledgement: Any = _fail
    on_acknowledge: Any = _fail
    on_acknowledge_cumulative: Any = _fail
    on_negative_acks_send: Any = _fail
    on_ack_timeout_send: Any = _fail
    close: Any = _fail


class Forgets(ProducerInterceptor, ConsumerInterceptor):
    """Does not return what it was given."""

    def before_send(self, producer: Any, message: MessageToSend) -> Any:
        message.content = b"changed"

    def before_consume(self, consumer: Any, message: Message[Any]) -> Any:
        pass


# ---- Producers ------------------------------------------------------------------------------


def test_a_chain_changes_messages_in_its_order(client: Client, topic: str) -> None:
    first, second = Stamps("a"), Stamps("b")
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, interceptors=[first, second])
    id = producer.send(b"one", properties={"own": "x"}, partition_key="k", event_timestamp=7)
    message = consumer.receive(WAIT_MS)
    assert (message.data(), message.properties()) == (b"one", {"own": "x", "by": "ab"})
    assert (message.partition_key(), message.event_timestamp()) == ("k", 7)
    assert first.heard == second.heard == [("ab", id, None)]
    assert first.producers == {topic}
    producer.close()
    assert (first.closed, second.closed) == (1, 1)


def test_a_value_is_changed_before_it_is_encoded(client: Client, topic: str) -> None:
    class Person(Record):  # type: ignore[misc, unused-ignore]
        name = String()

    class Masks(ProducerInterceptor):
        def before_send(self, producer: Any, message: MessageToSend) -> MessageToSend:
            return MessageToSend(Person(name=message.content.name[:1] + "."), {"masked": "yes"})

    consumer = client.subscribe(topic, "s", schema=JsonSchema(Person))
    producer = client.create_producer(topic, schema=JsonSchema(Person), interceptors=[Masks()])
    producer.send(Person(name="Alice"))
    message = consumer.receive(WAIT_MS)
    assert (message.value().name, message.properties()) == ("A.", {"masked": "yes"})


def test_send_async_tells_interceptors_and_then_the_caller(client: Client, topic: str) -> None:
    stamps = Stamps()
    told: SimpleQueue[tuple[Result, MessageId, int]] = SimpleQueue()
    producer = client.create_producer(topic, interceptors=[stamps])
    producer.send_async(b"one", lambda result, id: told.put((result, id, len(stamps.heard))))
    result, id, heard = told.get(timeout=WAIT_S)
    assert (result, heard) == (Result.Ok, 1)
    assert stamps.heard == [("a", id, None)]
    producer.send_async(b"two", None)
    producer.flush()
    wait_until(lambda: len(stamps.heard) == 2)


def test_interceptors_hear_of_what_is_not_sent(client: Client, topic: str) -> None:
    stamps = Stamps()
    producer = client.create_producer(topic, interceptors=[stamps])
    with pytest.raises(MessageTooBig):
        producer.send(b"x" * 6_000_000)
    with pytest.raises(MessageTooBig):
        producer.send_async(b"x" * 6_000_000, None)
    told: SimpleQueue[Result] = SimpleQueue()
    producer.send_async(b"x" * 6_000_000, lambda result, id: told.put(result))
    assert told.get(timeout=WAIT_S) is Result.MessageTooBig
    assert [(by, id) for by, id, _ in stamps.heard] == [("a", None)] * 3
    assert all(isinstance(error, MessageTooBig) for _, _, error in stamps.heard)


def test_a_failure_of_an_interceptor_changes_nothing_and_is_logged(
    client: Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    stamps = Stamps()
    consumer = client.subscribe(topic, "s", interceptors=[Fails(), Forgets(), notes := Notes()])
    producer = client.create_producer(topic, interceptors=[Fails(), Forgets(), stamps])
    with caplog.at_level(logging.ERROR):
        producer.send(b"one")
        message = consumer.receive(WAIT_MS)
        consumer.acknowledge(message)
        producer.close()
    assert (message.data(), message.properties()) == (b"one", {"by": "a"})
    assert [told for told, _ in notes.heard] == ["consume", "ack"]
    assert stamps.closed == 1
    texts = [record.getMessage() for record in caplog.records]
    for method in ("before_send", "on_send_acknowledgement", "before_consume", "on_acknowledge"):
        assert f"Fails.{method} failed" in texts
    assert "Fails.close failed" in texts
    assert any("Forgets.before_send returned a NoneType" in text for text in texts)
    assert any("Forgets.before_consume returned a NoneType" in text for text in texts)


async def test_the_asyncio_door_intercepts_what_it_sends(engine: Engine, topic: str) -> None:
    stamps = Stamps()
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic, interceptors=[stamps])
        ids = [
            await producer.send(b"one"),
            await (await producer.send_when_room(b"two", properties={"own": "x"})),
        ]
        assert [await_id for _, await_id, _ in stamps.heard] == ids
        got = [await consumer.receive(WAIT_MS) for _ in range(2)]
        assert [message.properties() for message in got] == [
            {"by": "a"},
            {"own": "x", "by": "a"},
        ]
        with pytest.raises(MessageTooBig):
            await producer.send(b"x" * 6_000_000)
        assert isinstance(stamps.heard[-1][2], MessageTooBig)
    # With the client, too.
    assert stamps.closed == 1


async def test_a_send_that_is_cancelled_is_told_of(engine: Engine, topic: str) -> None:
    stamps = Stamps()
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(
            topic,
            batching_enabled=True,
            batching_max_publish_delay_ms=60_000,
            interceptors=[stamps],
        )
        future = producer.send(b"one")
        future.cancel()
        await until(lambda: len(stamps.heard) == 1, lambda: str(stamps.heard))
        assert type(stamps.heard[0][2]).__name__ == "Interrupted"


# ---- Consumers ------------------------------------------------------------------------------


def published(client: Client, topic: str, count: int) -> None:
    producer = client.create_producer(topic)
    for number in range(count):
        producer.send(b"%d" % number)
    producer.close()


def receive_by(client: Client, topic: str, way: str, notes: Notes) -> list[Message[Any]]:
    """Two messages, in one of the ways to get them."""
    if way == "listener":
        got: SimpleQueue[Message[Any]] = SimpleQueue()
        client.subscribe(
            topic,
            "s",
            initial_position=Earliest,
            message_listener=lambda consumer, message: got.put(message),
            interceptors=[notes],
        )
        return [got.get(timeout=WAIT_S) for _ in range(2)]
    policy = magnetar.ConsumerBatchReceivePolicy(2, 0, WAIT_MS)
    consumer = client.subscribe(
        topic,
        "s",
        initial_position=Earliest,
        batch_receive_policy=policy,
        interceptors=[notes],
    )
    if way == "batch":
        return consumer.batch_receive()
    if way == "for":
        return [message for _, message in zip(range(2), consumer, strict=False)]
    return [consumer.receive(WAIT_MS) for _ in range(2)]


@pytest.mark.parametrize("way", ["receive", "batch", "for", "listener"])
def test_each_message_is_seen_once_however_it_is_received(
    client: Client, topic: str, way: str
) -> None:
    notes = Notes()
    client.subscribe(topic, "keeps")
    published(client, topic, 2)
    got = receive_by(client, topic, way, notes)
    assert notes.of("consume")[:2] == [message.message_id() for message in got[:2]]


def test_another_message_may_be_handed_over(client: Client, topic: str) -> None:
    seen: list[Message[Any]] = []

    class Repeats(ConsumerInterceptor):
        def before_consume(self, consumer: Any, message: Message[Any]) -> Message[Any]:
            seen.append(message)
            return seen[0]

    published(client, topic, 2)
    consumer = client.subscribe(topic, "s", initial_position=Earliest, interceptors=[Repeats()])
    assert [consumer.receive(WAIT_MS).data() for _ in range(2)] == [b"0", b"0"]


@pytest.mark.parametrize("receipts", [False, True])
def test_acks_are_told_of_one_by_one(client: Client, topic: str, receipts: bool) -> None:
    notes = Notes()
    published(client, topic, 4)
    consumer = client.subscribe(
        topic,
        "s",
        initial_position=Earliest,
        ack_receipt_enabled=receipts,
        interceptors=[notes],
    )
    got = [consumer.receive(WAIT_MS) for _ in range(4)]
    ids = [message.message_id() for message in got]
    consumer.acknowledge(got[0])
    some: list[Message[Any] | MessageId] = [got[1], ids[2]]
    consumer.acknowledge(iter(some))
    consumer.acknowledge_cumulative(got[3])
    assert notes.of("ack") == ids[:3]
    assert notes.of("cumulative") == ids[3:]
    consumer.close()
    with pytest.raises(magnetar.AlreadyClosed):
        consumer.acknowledge(got[0])
    assert notes.of("AlreadyClosed") == ids[:1]
    assert notes.closed == 1


def test_redelivery_is_told_of_as_it_is_asked_for(client: Client, topic: str) -> None:
    notes = Notes()
    published(client, topic, 2)
    consumer = client.subscribe(
        topic,
        "s",
        ConsumerType.Shared,
        initial_position=Earliest,
        negative_ack_redelivery_delay_ms=100,
        unacked_messages_timeout_ms=10_000,
        interceptors=[notes],
    )
    refused, late = (consumer.receive(WAIT_MS) for _ in range(2))
    consumer.negative_acknowledge(refused)
    assert consumer.receive(WAIT_MS).message_id() == refused.message_id()
    wait_until(lambda: len(notes.of("nacks")) > 0)
    assert notes.of("nacks") == [{refused.message_id()}]
    wait_until(lambda: len(notes.of("late")) > 0)
    assert late.message_id() in set().union(*notes.of("late"))


async def test_the_asyncio_door_intercepts_what_it_receives(engine: Engine, topic: str) -> None:
    notes = Notes()
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(
            topic,
            "s",
            ConsumerType.Shared,
            initial_position=Earliest,
            ack_receipt_enabled=True,
            negative_ack_redelivery_delay_ms=50,
            interceptors=[notes],
        )
        ids = [await producer.send(b"%d" % number) for number in range(3)]
        one = await consumer.receive(WAIT_MS)
        await consumer.acknowledge(one)
        async with asyncio.timeout(WAIT_S):
            others = [await anext(consumer) for _ in range(2)]
        await consumer.acknowledge([others[0]])
        consumer.negative_acknowledge(others[1])
        again = await consumer.receive(WAIT_MS)
        assert again.message_id() == ids[2]
        await until(lambda: len(notes.of("nacks")) == 1, lambda: str(notes.heard))
        assert notes.of("nacks") == [{ids[2]}]
        await consumer.acknowledge(again)
        assert notes.of("consume") == [*ids, ids[2]]
        assert notes.of("ack") == ids
    assert notes.closed == 1


# ---- What is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda client: client.create_producer("t", interceptors=Stamps()),
        lambda client: client.create_producer("t", interceptors=[Notes()]),
        lambda client: client.create_producer("t", interceptors=[Stamps]),
        lambda client: client.subscribe("t", "s", interceptors=[Stamps()]),
        lambda client: client.subscribe("t", "s", interceptors="all"),
    ],
)
def test_what_is_no_interceptor_is_refused(
    client: Client, make: Callable[[Client], object]
) -> None:
    with pytest.raises(SettingsError, match="interceptors: ") as caught:
        make(client)
    assert caught.value.key == "interceptors"
