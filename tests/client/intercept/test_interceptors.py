"""Interceptors in both doors: what they see, what they change, and what they cannot harm."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from queue import SimpleQueue
from typing import Any

import pytest
from client.conftest import WAIT_MS, WAIT_S, Engine, make_engine, until
from support.waiting import wait_until

import magnetar
from magnetar import (
    ConsumerInterceptor,
    ConsumerType,
    InitialPosition,
    Interrupted,
    Message,
    MessageId,
    MessageTooBig,
    MessageToSend,
    ProducerInterceptor,
    Result,
    SettingsError,
    aio,
)
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.client.door.blocking import Client
from magnetar.schema import BytesSchema, JsonSchema, Record, String

Earliest = InitialPosition.Earliest


class Stamps(ProducerInterceptor):
    """Writes its name behind those before it, and what it hears."""

    def __init__(self, name: str = "a") -> None:
        self.name = name
        self.heard: list[tuple[str, MessageId | None, Exception | None]] = []
        self.begun: list[Any] = []
        self.producers: set[str] = set()
        self.closed = 0

    def before_send(self, producer: Any, message: MessageToSend) -> MessageToSend:
        self.begun.append(message.content)
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
        assert type(stamps.heard[0][2]) is Interrupted


async def test_a_send_that_is_cancelled_while_it_waits_for_room_is_told_of(
    engine: Engine, topic: str
) -> None:
    stamps = Stamps()
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(
            topic,
            batching_enabled=True,
            batching_max_publish_delay_ms=60_000,
            max_pending_messages=1,
            interceptors=[stamps],
        )
        await producer.send_when_room(b"one")
        waiting = asyncio.create_task(producer.send_when_room(b"two"))
        await asyncio.sleep(0)  # it was begun, and the first cannot be stored yet
        assert stamps.begun == [b"one", b"two"]
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert [type(error) for _, _, error in stamps.heard] == [Interrupted]


def test_a_send_that_the_program_s_end_interrupts_is_told_of(client: Client, topic: str) -> None:
    class Stops(BytesSchema):
        def encode(self, value: Any) -> bytes:
            raise KeyboardInterrupt

    stamps = Stamps()
    producer = client.create_producer(topic, schema=Stops(), interceptors=[stamps])
    with pytest.raises(KeyboardInterrupt):
        producer.send(b"one")
    with pytest.raises(KeyboardInterrupt):
        producer.send_async(b"one", None)
    assert [type(error) for _, _, error in stamps.heard] == [Interrupted] * 2


def test_an_interceptor_may_take_all_properties_away(client: Client, topic: str) -> None:
    class Bares(ProducerInterceptor):
        def before_send(self, producer: Any, message: MessageToSend) -> MessageToSend:
            # As `send` takes it.
            message.properties = None  # type: ignore[assignment]
            return message

    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, interceptors=[Bares(), Stamps(), Stamps("b")])
    producer.send(b"one", properties={"own": "x"})
    assert consumer.receive(WAIT_MS).properties() == {"by": "ab"}


def test_each_message_of_a_batch_is_told_of_with_its_own_id(client: Client, topic: str) -> None:
    stamps = Stamps()
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=60_000, interceptors=[stamps]
    )
    told: SimpleQueue[MessageId] = SimpleQueue()
    for number in range(3):
        producer.send_async(b"%d" % number, lambda result, id: told.put(id))
    producer.flush()
    ids = [told.get(timeout=WAIT_S) for _ in range(3)]
    assert [id.batch_index() for id in ids] == [0, 1, 2]
    assert [id for _, id, _ in stamps.heard] == ids


def test_a_message_in_chunks_is_told_of_once_on_either_side(client: Client, topic: str) -> None:
    stamps, notes = Stamps(), Notes()
    consumer = client.subscribe(topic, "s", interceptors=[notes])
    producer = client.create_producer(
        topic, chunking_enabled=True, chunk_max_message_size=10_000, interceptors=[stamps]
    )
    id = producer.send(b"x" * 50_000)
    message = consumer.receive(WAIT_MS)
    consumer.acknowledge(message)
    assert stamps.heard == [("a", id, None)]
    assert notes.heard == [("consume", message.message_id()), ("ack", message.message_id())]


def test_a_key_that_an_interceptor_gives_chooses_the_partition(
    engine: Engine, client: Client, topic: str
) -> None:
    class Keys(ProducerInterceptor):
        def before_send(self, producer: Any, message: MessageToSend) -> MessageToSend:
            message.partition_key = "one"
            return message

    engine.rest("PUT", f"{topic.replace('://', '/')}/partitions", json=5)
    stamps, notes = Stamps(), Notes()
    consumer = client.subscribe(topic, "s", interceptors=[notes])
    producer = client.create_producer(topic, batching_enabled=False, interceptors=[Keys(), stamps])
    ids = [producer.send(b"%d" % number) for number in range(5)]
    assert len({id.partition() for id in ids}) == 1
    assert [id for _, id, _ in stamps.heard] == ids
    assert stamps.producers == {topic}
    consumer.acknowledge_cumulative([consumer.receive(WAIT_MS) for _ in ids][-1])
    assert notes.of("consume") == ids
    assert notes.of("cumulative") == ids[-1:]


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


async def test_an_ack_that_is_cancelled_is_not_told_to_be_stored(
    engine: Engine, topic: str
) -> None:
    notes = Notes()
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(
            topic,
            "s",
            initial_position=Earliest,
            ack_receipt_enabled=True,
            interceptors=[notes],
        )
        id = await producer.send(b"one")
        acking = asyncio.create_task(consumer.acknowledge(await consumer.receive(WAIT_MS)))
        await asyncio.sleep(0)  # it was sent, and cannot be answered yet
        acking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await acking
        assert notes.of("Interrupted") == [id]
        assert notes.of("ack") == []


def retry_or_bury(
    client: Client, topic: str, interceptors: list[ConsumerInterceptor], receipts: bool
) -> magnetar.Consumer[Any]:
    return client.subscribe(
        topic,
        "s",
        ConsumerType.Shared,
        initial_position=Earliest,
        retry_enabled=True,
        ack_receipt_enabled=receipts,
        negative_ack_redelivery_delay_ms=10,
        dead_letter_policy=magnetar.ConsumerDeadLetterPolicy(1),
        interceptors=interceptors,
    )


@pytest.mark.parametrize("receipts", [False, True])
def test_the_ack_of_a_message_that_is_to_be_received_later_is_told_of(
    client: Client, topic: str, receipts: bool
) -> None:
    notes = Notes()
    published(client, topic, 1)
    consumer = retry_or_bury(client, topic, [Fails(), notes], receipts)
    ids = []
    # The first time it goes to the retry topic, and then to that of dead letters.
    for _ in range(2):
        message = consumer.receive(WAIT_MS)
        ids.append(message.message_id())
        consumer.reconsume_later(message, timedelta(0))
    wait_until(lambda: notes.of("ack") == ids)


def test_the_ack_of_a_dead_letter_is_told_of(client: Client, topic: str) -> None:
    notes = Notes()
    published(client, topic, 1)
    consumer = retry_or_bury(client, topic, [notes], False)
    for _ in range(2):
        message = consumer.receive(WAIT_MS)
        consumer.negative_acknowledge(message)
    wait_until(lambda: notes.of("ack") == [message.message_id()])


async def test_the_asyncio_door_tells_of_letters_too(engine: Engine, topic: str) -> None:
    notes = Notes()
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(
            topic,
            "s",
            ConsumerType.Shared,
            initial_position=Earliest,
            retry_enabled=True,
            ack_receipt_enabled=True,
            interceptors=[notes],
        )
        id = await producer.send(b"one")
        await consumer.reconsume_later(await consumer.receive(WAIT_MS), timedelta(0))
        assert notes.of("ack") == [id]


def test_messages_and_acks_of_a_transaction_are_seen_as_others(topic: str) -> None:
    with make_engine(BrokerSettings(transactions=True)) as engine, Client(engine.url) as client:
        see_a_transaction(client, topic)


def see_a_transaction(client: Client, topic: str) -> None:
    stamps, notes = Stamps(), Notes()
    published(client, topic, 1)
    consumer = client.subscribe(topic, "s", initial_position=Earliest, interceptors=[notes])
    producer = client.create_producer(f"{topic}-out", interceptors=[stamps])
    message = consumer.receive(WAIT_MS)
    with client.transaction() as transaction:
        producer.send_async(b"one", None, transaction=transaction)
        consumer.acknowledge(message, transaction=transaction)
    assert notes.of("ack") == [message.message_id()]
    wait_until(lambda: len(stamps.heard) == 1)
    assert stamps.heard[0][2] is None


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
