"""Acks through unloads, lost connections and killed brokers, over both doors."""

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from client.conftest import (
    WAIT_MS,
    WAIT_S,
    Engine,
    datas,
    new_batcher,
    nothing_comes,
    payloads,
    receive,
    send_all,
    through_proxy,
    until,
)
from support.broker_process import BrokerProcess
from support.waiting import wait_until

from magnetar.broker.shell.server import BrokerServer
from magnetar.client.consumer.message import Message
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.errors import (
    AlreadyClosed,
    Interrupted,
    NotAllowedError,
    ServiceUnitNotReady,
    Timeout,
)
from magnetar.model import ConsumerType, InitialPosition, MessageId

RETRY: dict[str, Any] = {
    "auto_retry_acknowledgement": True,
    "initial_position": InitialPosition.Earliest,
}


def confirmed(consumer: Any) -> bool:
    return bool(consumer.stats().acks_pending == 0)


def beyond(message: Message) -> MessageId:
    """An id of the same ledger that no message has."""
    id = message.message_id()
    return MessageId(id.partition(), id.ledger_id(), id.entry_id() + 1000, -1)


def ours(engine: Engine) -> None:
    """Skips the test elsewhere: Apache Pulsar answers such acks otherwise, late or never."""
    assert engine.embedded is not None


# ---- The asyncio door ------------------------------------------------------------------


async def test_acks_are_confirmed_in_the_background_and_counted(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "sub", **RETRY)
        producer = await new_batcher(client, topic, 10)
        await send_all(producer, payloads(30))
        for message in await receive(consumer, 30):
            await consumer.acknowledge(message)
        await until(lambda: confirmed(consumer), lambda: str(consumer.stats()))
        stats = consumer.stats()
        assert stats.acks_kept >= 3
        assert stats.acks_sent == stats.acks_kept == sum(stats.ack_time_buckets)
        assert (stats.acks_failed, stats.ack_retries, stats.acks_exhausted) == (0, 0, 0)
        assert stats.ack_time_ms_sum >= 0
        assert engine.stats(topic)["subscriptions"]["sub"]["msgBacklog"] == 0


@pytest.mark.parametrize("receipts", [False, True])
async def test_an_ack_whose_connection_breaks_is_kept_by_the_next(
    engine: Engine, topic: str, receipts: bool
) -> None:
    ours(engine)
    async with through_proxy(engine) as (proxy, client):
        consumer = await client.subscribe(
            topic,
            "sub",
            consumer_type=ConsumerType.Shared,
            ack_receipt_enabled=receipts,
            **RETRY,
        )
        producer = await new_batcher(client, topic, 4)
        await send_all(producer, payloads(4))
        messages = await receive(consumer, 4)
        proxy.passes = lambda command: not command.HasField("ackResponse")
        acking = [asyncio.ensure_future(consumer.acknowledge(one)) for one in messages[:2]]
        await until(
            lambda: any(command.HasField("ack") for command in proxy.heard), lambda: "no ack came"
        )
        assert all(task.done() for task in acking) == (not receipts)
        proxy.passes = lambda command: True
        proxy.cut()
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*acking)
        await until(lambda: confirmed(consumer), lambda: str(consumer.stats()))
        assert consumer.stats().acks_kept_after_retry == 1
        assert datas(await receive(consumer, 2)) == payloads(2, first=2)
        await nothing_comes(consumer)


async def test_issue_23261_acks_during_unloads_are_all_kept(engine: Engine, topic: str) -> None:
    ours(engine)
    async with aio.Client(engine.url, initial_backoff_ms=5, max_backoff_ms=50) as client:
        consumer = await client.subscribe(
            topic, "sub", consumer_type=ConsumerType.KeyShared, **RETRY
        )
        producer = await client.create_producer(topic)
        acked: Counter[bytes] = Counter()
        count = 200
        sent = [
            producer.send(data, partition_key=str(n % 7)) for n, data in enumerate(payloads(count))
        ]
        unload = asyncio.ensure_future(unload_often(engine, topic))
        while len(acked) < count:
            message = await consumer.receive(WAIT_MS)
            acked[message.data()] += 1
            await consumer.acknowledge(message)
        unload.cancel()
        await asyncio.gather(unload, return_exceptions=True)
        places = [await one for one in sent]
        await consumer.close()
        assert set(acked.values()) == {1}, acked
        backlog = engine.stats(topic)["subscriptions"]["sub"]
        left = (backlog["msgBacklog"], backlog["unackedMessages"])
        assert left == (0, 0), f"{consumer.stats()}, sent to {places}"


async def unload_often(engine: Engine, topic: str) -> None:
    while True:
        await asyncio.to_thread(engine.unload, topic)
        await asyncio.sleep(0.05)


async def test_answers_that_do_not_come_hold_up_no_message(engine: Engine, topic: str) -> None:
    async with through_proxy(engine) as (proxy, client):
        consumer = await client.subscribe(topic, "sub", receiver_queue_size=10, **RETRY)
        producer = await client.create_producer(topic)
        await send_all(producer, payloads(200))
        proxy.passes = lambda command: not command.HasField("ackResponse")
        for data in payloads(200):
            message = await consumer.receive(WAIT_MS)
            assert message.data() == data
            await consumer.acknowledge(message)
        assert consumer.stats().acks_kept == 0
        proxy.passes = lambda command: True
        proxy.cut()
        await until(lambda: confirmed(consumer), lambda: str(consumer.stats()))
        assert consumer.stats().acks_exhausted == 0


async def test_what_fails_for_good_is_told_on_the_loop(engine: Engine, topic: str) -> None:
    ours(engine)
    told: list[tuple[list[MessageId], Exception, str]] = []

    def note(ids: list[MessageId], error: Exception) -> None:
        told.append((ids, error, threading.current_thread().name))

    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "sub", on_acknowledgement_failed=note, **RETRY)
        producer = await client.create_producer(topic)
        await producer.send(b"one")
        message = await consumer.receive(WAIT_MS)
        await consumer.acknowledge([message, beyond(message)])
        await until(lambda: len(told) > 0, lambda: str(consumer.stats()))
        await until(lambda: confirmed(consumer), lambda: str(consumer.stats()))
        ((ids, error, thread),) = told
        assert ids == [beyond(message)]
        assert isinstance(error, NotAllowedError)
        assert thread == threading.current_thread().name
        stats = consumer.stats()
        assert (stats.acks_exhausted, stats.acks_kept, stats.acks_pending) == (1, 1, 0)


async def test_with_receipts_the_call_raises_what_the_last_try_failed_with(
    engine: Engine, topic: str
) -> None:
    ours(engine)
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "sub", ack_receipt_enabled=True, **RETRY)
        producer = await client.create_producer(topic)
        await producer.send(b"one")
        message = await consumer.receive(WAIT_MS)
        with pytest.raises(NotAllowedError):
            await consumer.acknowledge(beyond(message))
        await consumer.acknowledge(message)
        with pytest.raises(NotAllowedError):
            await consumer.acknowledge_cumulative(beyond(message))
        await consumer.acknowledge_cumulative(message)


async def test_close_waits_for_acks_and_then_fails_what_is_left(engine: Engine, topic: str) -> None:
    failed: list[tuple[list[MessageId], Exception]] = []
    async with through_proxy(engine) as (proxy, client):
        options = {**RETRY, "on_acknowledgement_failed": lambda *told: failed.append(told)}
        consumer = await client.subscribe(topic, "sub", **options)
        producer = await client.create_producer(topic)
        ids = await send_all(producer, payloads(2))
        first, second = await receive(consumer, 2)
        # A close that has time enough: the connection comes back, and with it the answer.
        proxy.passes = lambda command: not command.HasField("ackResponse")
        await consumer.acknowledge(first)
        closing = asyncio.ensure_future(consumer.close(WAIT_S))
        await until(
            lambda: any(command.HasField("ack") for command in proxy.heard), lambda: "no ack came"
        )
        with pytest.raises(AlreadyClosed):
            await consumer.receive(10)
        with pytest.raises(AlreadyClosed):
            await consumer.acknowledge(second)
        proxy.passes = lambda command: True
        proxy.cut()
        await closing
        assert failed == []
        # And one that has not.
        consumer = await client.subscribe(topic, "sub", **options)
        (again,) = await receive(consumer, 1)
        assert again.data() == payloads(2)[1]
        proxy.passes = lambda command: not command.HasField("ackResponse")
        await consumer.acknowledge(again)
        await consumer.close(0.05)
        await until(lambda: len(failed) == 1, lambda: "nobody was told")
        ((left, error),) = failed
        assert left == [ids[1]]
        assert isinstance(error, AlreadyClosed)
        proxy.passes = lambda command: True


async def test_closing_without_a_broker_ends_in_time(engine: Engine, topic: str) -> None:
    async with through_proxy(engine, operation_timeout_seconds=1) as (proxy, client):
        consumer = await client.subscribe(topic, "sub", ack_receipt_enabled=True, **RETRY)
        producer = await client.create_producer(topic)
        await producer.send(b"one")
        message = await consumer.receive(WAIT_MS)
        proxy.refusing = True
        proxy.cut()
        acking = asyncio.ensure_future(consumer.acknowledge(message))
        await asyncio.sleep(0)
        async with asyncio.timeout(WAIT_S):
            await consumer.close()
        with pytest.raises(AlreadyClosed):
            await acking
        proxy.refusing = False


async def test_unsubscribing_makes_acks_pointless(engine: Engine, topic: str) -> None:
    failed: list[Any] = []
    async with through_proxy(engine) as (proxy, client):
        consumer = await client.subscribe(
            topic,
            "sub",
            ack_receipt_enabled=True,
            on_acknowledgement_failed=lambda *told: failed.append(told),
            **RETRY,
        )
        producer = await client.create_producer(topic)
        await producer.send(b"one")
        message = await consumer.receive(WAIT_MS)
        proxy.passes = lambda command: not command.HasField("ackResponse")
        acking = asyncio.ensure_future(consumer.acknowledge(message))
        await until(
            lambda: any(command.HasField("ack") for command in proxy.heard), lambda: "no ack came"
        )
        await consumer.unsubscribe()
        with pytest.raises(Interrupted, match="unsubscribed"):
            await acking
        assert failed == []


async def test_a_seek_makes_acks_pointless(engine: Engine, topic: str) -> None:
    async with through_proxy(engine) as (proxy, client):
        consumer = await client.subscribe(topic, "sub", ack_receipt_enabled=True, **RETRY)
        producer = await client.create_producer(topic)
        await send_all(producer, payloads(2))
        first, _ = await receive(consumer, 2)
        proxy.passes = lambda command: not command.HasField("ackResponse")
        acking = asyncio.ensure_future(consumer.acknowledge(first))
        await until(
            lambda: any(command.HasField("ack") for command in proxy.heard), lambda: "no ack came"
        )
        await consumer.seek(MessageId.earliest)
        proxy.passes = lambda command: True
        with pytest.raises(Interrupted, match="seek"):
            await acking
        assert datas(await receive(consumer, 2)) == payloads(2)
        assert confirmed(consumer)


async def test_a_backoff_that_raises_is_logged_and_replaced(
    engine: Engine, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(failures: int) -> int:
        raise ZeroDivisionError(failures)

    async with aio.Client(engine.url, initial_backoff_ms=5) as client:
        consumer = await client.subscribe(
            topic, "sub", auto_retry_acknowledgement_backoff=broken, **RETRY
        )
        producer = await client.create_producer(topic)
        await producer.send(b"one")
        message = await consumer.receive(WAIT_MS)
        fence(engine, topic, True)
        await consumer.acknowledge(message)
        await until(lambda: consumer.stats().ack_retries > 0, lambda: str(consumer.stats()))
        fence(engine, topic, False)
        await until(lambda: confirmed(consumer), lambda: str(consumer.stats()))
    assert "auto_retry_acknowledgement_backoff" in caplog.text


def fence(engine: Engine, topic: str, fenced: bool) -> None:
    """Has the broker refuse acks for a while, as during a reset of the cursor."""

    def set_it(server: BrokerServer) -> None:
        server.broker.topics[topic].subscriptions["sub"].fenced = fenced

    engine.call(set_it)


# ---- The blocking door -----------------------------------------------------------------


def test_what_fails_for_good_is_told_on_the_callbacks_thread(
    client: Client, engine: Engine, topic: str
) -> None:
    ours(engine)
    told: list[tuple[list[MessageId], str]] = []
    producer = client.create_producer(topic)

    def note(ids: list[MessageId], error: Exception) -> None:
        producer.send(b"told")  # which may block there
        told.append((ids, threading.current_thread().name))

    consumer = client.subscribe(topic, "sub", on_acknowledgement_failed=note, **RETRY)
    producer.send(b"one")
    message = consumer.receive(WAIT_MS)
    consumer.acknowledge(beyond(message))
    consumer.acknowledge(message)
    assert consumer.receive(WAIT_MS).data() == b"told"
    wait_until(lambda: len(told) > 0, lambda: str(consumer.stats()))
    assert told == [([beyond(message)], "magnetar-callbacks")]
    consumer.close(WAIT_S)


def test_receipts_and_retries_block_until_the_end(
    client: Client, engine: Engine, topic: str
) -> None:
    ours(engine)
    consumer = client.subscribe(topic, "sub", ack_receipt_enabled=True, **RETRY)
    producer = client.create_producer(topic)
    producer.send(b"one")
    message = consumer.receive(WAIT_MS)
    with pytest.raises(NotAllowedError):
        consumer.acknowledge(beyond(message))
    consumer.acknowledge(message)
    assert confirmed(consumer)
    consumer.close(0)


@pytest.mark.parametrize("number", [22352, 22353])
def test_issues_22352_22353_threads_that_ack_one_batch_lose_no_index(
    client: Client, engine: Engine, topic: str, number: int
) -> None:
    ours(engine)
    consumer = client.subscribe(
        topic, "sub", consumer_type=ConsumerType.Shared, acknowledgement_group_time_ms=1, **RETRY
    )
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=400,
        batching_max_publish_delay_ms=60_000,
    )
    for data in payloads(400):
        producer.send_async(data, None)
    producer.flush()
    messages = [consumer.receive(WAIT_MS) for _ in range(400)]

    def acknowledge(some: list[Message]) -> None:
        for message in some:
            consumer.acknowledge(message)

    threads = [threading.Thread(target=acknowledge, args=(messages[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    if number == 22353:
        engine.unload(topic)
    for thread in threads:
        thread.join()
    wait_until(lambda: confirmed(consumer), lambda: str(consumer.stats()))
    assert engine.stats(topic)["subscriptions"]["sub"]["msgBacklog"] == 0
    with pytest.raises(Timeout):
        consumer.receive(100)


# ---- A broker that is killed ---------------------------------------------------------------


class Work:
    """What an application handled, and in which order."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.acked: set[bytes] = set()

    def handle(self, message: Message) -> None:
        data = message.data()
        assert data not in self.acked, f"{data!r} was acked, and came again"
        self.seen.append(data)
        self.acked.add(data)

    def check(self, count: int) -> None:
        assert self.acked == set(payloads(count))
        assert self.seen == sorted(self.seen)


@pytest.mark.parametrize("cumulative", [False, True])
def test_a_broker_killed_under_a_blocking_consumer_gives_back_nothing_that_was_acked(
    tmp_path: Path, topic: str, cumulative: bool
) -> None:
    count = 300
    work = Work()
    with (
        BrokerProcess(tmp_path) as broker,
        Client(broker.url, initial_backoff_ms=10, max_backoff_ms=100) as client,
    ):
        producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=7)
        for data in payloads(count):
            producer.send_async(data, None)
        producer.flush()
        consumer = client.subscribe(topic, "sub", receiver_queue_size=20, **RETRY)
        while len(work.acked) < count:
            message = consumer.receive(WAIT_MS)
            work.handle(message)
            if cumulative:
                consumer.acknowledge_cumulative(message)
            else:
                consumer.acknowledge(message)
            if len(work.acked) in (100, 200):
                broker.kill()
                broker.restart()
        consumer.close()
        stats = consumer.stats()
        assert (stats.acks_exhausted, stats.acks_pending) == (0, 0)
        consumer = client.subscribe(topic, "sub", **RETRY)
        with pytest.raises(Timeout):
            consumer.receive(200)
    work.check(count)


async def test_a_broker_killed_under_an_asyncio_consumer_gives_back_nothing_that_was_acked(
    tmp_path: Path, topic: str
) -> None:
    count = 300
    work = Work()
    with BrokerProcess(tmp_path) as broker:
        async with aio.Client(broker.url, initial_backoff_ms=10, max_backoff_ms=100) as client:
            producer = await new_batcher(client, topic, 7)
            await send_all(producer, payloads(count))
            consumer = await client.subscribe(
                topic,
                "sub",
                consumer_type=ConsumerType.Failover,
                ack_receipt_enabled=True,
                **RETRY,
            )
            acking: list[asyncio.Task[None]] = []
            while len(work.acked) < count:
                message = await consumer.receive(WAIT_MS)
                work.handle(message)
                acking.append(asyncio.create_task(consumer.acknowledge(message)))
                if len(work.acked) in (100, 200):
                    await asyncio.sleep(0)
                    broker.kill()
                    await asyncio.to_thread(broker.restart)
            async with asyncio.timeout(WAIT_S):
                await asyncio.gather(*acking)
            await consumer.close()
            consumer = await client.subscribe(topic, "sub", **RETRY)
            await nothing_comes(consumer)
    work.check(count)


def test_without_retries_a_receipt_fails_at_once(
    client: Client, engine: Engine, topic: str
) -> None:
    """Opt-in: nothing of this happens to those who did not ask for it."""
    consumer = client.subscribe(
        topic, "sub", ack_receipt_enabled=True, initial_position=InitialPosition.Earliest
    )
    producer = client.create_producer(topic)
    producer.send(b"one")
    message = consumer.receive(WAIT_MS)
    results: list[type[Exception] | None] = []

    def acknowledge() -> None:
        try:
            consumer.acknowledge(message)
        except Exception as error:
            results.append(type(error))
        else:
            results.append(None)

    fence(engine, topic, True)
    acknowledge()
    fence(engine, topic, False)
    acknowledge()
    assert results == [ServiceUnitNotReady, None]
    assert consumer.stats().ack_retries == 0
