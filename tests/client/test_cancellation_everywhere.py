"""Every call of the asyncio door, stopped after any number of steps of the loop.

Whatever the step, nothing stays behind: no task (the fixtures look), no request that a
connection keeps, no producer or consumer at the broker, no permit; and the next call works.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from client.conftest import (
    TURNS_MAX,
    Engine,
    datas,
    new_batcher,
    nobody_is_left,
    nothing_comes,
    payloads,
    receive,
    send_all,
)

from magnetar.client import aio
from magnetar.client.options import ConsumerDeadLetterPolicy
from magnetar.errors import AlreadyClosed, Timeout
from magnetar.model import ConsumerType, InitialPosition, MessageId

Earliest = InitialPosition.Earliest


async def stopped_after(turns: int, call: Callable[[], Awaitable[Any]]) -> bool:
    """Stops a call after so many steps; whether it had ended by itself."""
    task = asyncio.ensure_future(call())
    for _ in range(turns):
        await asyncio.sleep(0)
        if task.done():
            break
    ended = task.done()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return ended


async def stopped_everywhere(call: Callable[[int], Awaitable[Any]]) -> int:
    """Stops it after 0, 1, 2... steps, until it ends by itself; how many that were."""
    for turns in range(TURNS_MAX):
        if await stopped_after(turns, lambda turns=turns: call(turns)):  # type: ignore[misc]
            return turns
    return TURNS_MAX


def requests_of(client: aio.Client) -> int:
    """What connections keep for answers to come."""
    return sum(len(one._requests) for one in client._engine._pool._open.values())


async def test_sends(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        contents: list[bytes] = []

        async def send(turns: int) -> None:
            contents.append(b"%d" % turns)
            await producer.send(contents[-1])

        assert await stopped_everywhere(send) > 1
        await producer.flush()
        # A send is a plain call: once made, it is made, whoever waits.
        assert datas(await receive(consumer, len(contents))) == contents
        assert producer.stats().pending_messages == 0


async def test_sends_that_wait_for_room(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic, max_pending_messages=1)

        async def send(turns: int) -> None:
            for _ in range(3):
                await (await producer.send_when_room(b"x"))

        assert await stopped_everywhere(send) > 3
        await producer.flush()
        stats = producer.stats()
        assert stats.pending_messages == 0
        assert stats.messages_stored == stats.messages_sent
        assert not [room for room in producer._producer._room if not room.done()]


async def test_flushes(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await new_batcher(client, topic, 100)
        sent: list[Any] = []

        async def flush(turns: int) -> None:
            sent.append(producer.send(b"%d" % turns))
            await producer.flush()

        assert await stopped_everywhere(flush) > 1
        await producer.flush()
        ids = await asyncio.gather(*sent)
        assert len(await receive(consumer, len(ids))) == len(ids)


async def test_receives(engine: Engine, topic: str) -> None:
    """In a queue of five: one permit lost would show within the run."""
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", receiver_queue_size=5)
        producer = await client.create_producer(topic)
        got: list[bytes] = []

        async def take(turns: int) -> None:
            got.append((await consumer.receive()).data())

        async def take_by_time(turns: int) -> None:
            got.append((await consumer.receive(10_000)).data())

        async def take_batch(turns: int) -> None:
            got.extend(datas(await consumer.batch_receive()))

        sent: list[bytes] = []
        for call in (take, take_by_time):
            for turns in range(40):
                sent.append(b"%d" % len(sent))
                producer.send(sent[-1])
                await stopped_after(turns, lambda call=call, turns=turns: call(turns))  # type: ignore[misc]
        while len(got) < len(sent):
            got += datas(await receive(consumer, 1))
        assert got == sent
        await nothing_comes(consumer)
        stats = consumer.stats()
        assert stats.available_permits + stats.unreturned_permits == 5
        assert consumer._consumer._waiting == 0
        assert not consumer._consumer._waiters
        await stopped_everywhere(take_batch)


async def test_acks_with_receipts(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(
            topic, "s", ack_receipt_enabled=True, acknowledgement_group_time_ms=0
        )
        for cumulative in (False, True):

            async def ack(turns: int, cumulative: bool = cumulative) -> None:
                await producer.send(b"x")
                (message,) = await receive(consumer, 1)
                if cumulative:
                    await consumer.acknowledge_cumulative(message)
                else:
                    await consumer.acknowledge(message)

            assert await stopped_everywhere(ack) > 1
        await producer.flush()
        with contextlib.suppress(Timeout):
            while True:
                await consumer.acknowledge(await consumer.receive(50))
        await consumer.acknowledge_cumulative(await producer.send(b"last"))
        assert consumer.stats().acks_pending == 0
        await consumer.close()
        again = await client.subscribe(topic, "s")
        await nothing_comes(again)
        assert requests_of(client) == 0


async def test_seeks_and_questions(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        ids = await send_all(await client.create_producer(topic), payloads(6))
        consumer = await client.subscribe(
            topic, "s", initial_position=Earliest, start_message_id_inclusive=True
        )
        reader = await client.create_reader(topic, MessageId.earliest)
        assert await stopped_everywhere(lambda turns: consumer.get_last_message_id()) > 1
        assert await stopped_everywhere(lambda turns: reader.has_message_available()) > 0
        assert await stopped_everywhere(lambda turns: consumer.seek(ids[turns % 6])) > 1
        assert await stopped_everywhere(lambda turns: consumer.seek(0)) > 1
        await consumer.seek(ids[4])
        assert datas(await receive(consumer, 2)) == payloads(2, 4)
        await nothing_comes(consumer)
        assert requests_of(client) == 0


async def test_letters(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=ConsumerType.Shared,
            retry_enabled=True,
            dead_letter_policy=ConsumerDeadLetterPolicy(5),
        )
        producer = await client.create_producer(topic)
        await producer.send(b"first")
        (message,) = await receive(consumer, 1)
        later = timedelta(hours=1)
        ends = await stopped_everywhere(
            lambda turns: consumer.reconsume_later(message, later)  # the producer is made once
        )
        assert ends > 1
        await consumer.close()
    await nobody_is_left(engine, topic)


@pytest.mark.parametrize("what", ["producer", "consumer", "reader", "client", "unsubscribe"])
async def test_closes(engine: Engine, topic: str, what: str) -> None:
    """Who stops waiting for it does not stop it."""
    for turns in range(60):
        async with aio.Client(engine.url) as client:
            producer = await client.create_producer(topic, batching_enabled=True)
            consumer = await client.subscribe(topic, "s")
            reader = await client.create_reader(topic, MessageId.latest)
            sent = producer.send(b"x")
            calls: dict[str, Callable[[], Awaitable[Any]]] = {
                "producer": producer.close,
                "consumer": consumer.close,
                "reader": reader.close,
                "client": client.close,
                "unsubscribe": consumer.unsubscribe,
            }
            ended = await stopped_after(turns, calls[what])
            if what != "unsubscribe":
                await calls[what]()
            if what in ("producer", "client"):
                await sent
                with pytest.raises(AlreadyClosed):
                    producer.send(b"y")
        if ended:
            break
    assert turns > 0
    await nobody_is_left(engine, topic)


async def test_connecting_to_nobody(engine: Engine, topic: str) -> None:
    """A host that takes connections and says nothing."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    try:
        for turns in range(25):
            client = aio.Client(f"pulsar://127.0.0.1:{port}", connection_timeout_ms=60_000)
            calls: list[Callable[[], Awaitable[Any]]] = [
                lambda client=client: client.create_producer(topic),  # type: ignore[misc]
                lambda client=client: client.get_topic_partitions(topic),  # type: ignore[misc]
            ]
            for call in calls:
                assert not await stopped_after(turns, call)
            await client.close()
            assert not client._engine._pool._opening
    finally:
        silent.close()
