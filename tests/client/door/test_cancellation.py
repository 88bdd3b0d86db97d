"""Calls of the asyncio door, stopped after any number of steps of the loop.

Whatever the step, nothing stays behind: no task (the conftest looks), no request that a
connection keeps, no producer or consumer at the broker, no permit; and the next call works.
"""

import asyncio
import contextlib
import re
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
    through_proxy,
    until,
)

from magnetar import (
    AlreadyClosed,
    ConsumerDeadLetterPolicy,
    ConsumerType,
    InitialPosition,
    MessageId,
    Timeout,
)
from magnetar.client.door import aio

Earliest = InitialPosition.Earliest
Shared = ConsumerType.Shared


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


async def stopped_everywhere(call: Callable[[int], Awaitable[Any]], step: int = 1) -> int:
    """Stops it after 0, 1, 2... steps, until it ends by itself; how many that were."""
    for turns in range(0, TURNS_MAX, step):
        if await stopped_after(turns, lambda turns=turns: call(turns)):  # type: ignore[misc]
            return turns
    return TURNS_MAX


async def made_everywhere(make: Callable[[], Awaitable[Any]], step: int = 1) -> None:
    """The same with what makes something, which is closed if it was made in the end."""
    made: list[Any] = []

    async def one(turns: int) -> None:
        made.append(await make())

    assert await stopped_everywhere(one, step) > 1
    for what in made:
        await what.close()


def requests_of(client: aio.Client) -> int:
    """What connections keep for answers to come."""
    return sum(len(one._requests) for one in client._engine._pool._open.values())


# ---- Making ------------------------------------------------------------------


async def test_making_things_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await (await client.create_producer(topic)).close()
        await made_everywhere(lambda: client.create_producer(topic))
        await made_everywhere(lambda: client.subscribe(topic, "s"))
        await made_everywhere(lambda: client.create_reader(topic, MessageId.earliest))
        await nobody_is_left(engine, topic)
        # The subscription is free, and so are the names.
        consumer = await client.subscribe(topic, "s")
        await consumer.close()


async def test_making_things_of_many_topics_can_be_stopped_anywhere(
    engine: Engine, topic: str
) -> None:
    engine.make_partitions(topic, 3)
    async with aio.Client(engine.url) as client:
        await made_everywhere(lambda: client.create_producer(topic), 2)
        await made_everywhere(lambda: client.subscribe(topic, "s"), 2)
        await made_everywhere(lambda: client.subscribe(re.compile(f"{topic}.*"), "t"), 2)
        for number in range(3):
            await nobody_is_left(engine, f"{topic}-partition-{number}")


async def test_first_connections_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
    async def whole(turns: int = 0) -> None:
        async with aio.Client(engine.url) as client:
            await client.create_producer(topic)

    await whole()
    assert await stopped_everywhere(whole) > 1
    await nobody_is_left(engine, topic)


async def test_a_client_may_be_closed_while_things_are_being_made(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:  # else it is there only if one was quick enough
        await (await client.create_producer(topic)).close()
    for turns in range(0, 60, 4):
        client = aio.Client(engine.url)
        making = [
            asyncio.ensure_future(client.create_producer(topic)),
            asyncio.ensure_future(client.subscribe(topic, f"s-{turns}")),
        ]
        for _ in range(turns):
            await asyncio.sleep(0)
        await client.close()
        for result in await asyncio.gather(*making, return_exceptions=True):
            if isinstance(result, BaseException):
                assert isinstance(result, AlreadyClosed), repr(result)
    await nobody_is_left(engine, topic)


async def test_connecting_to_nobody_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
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


# ---- Sending -----------------------------------------------------------------


async def test_sends_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
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


async def test_sends_that_wait_for_room_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
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
        assert not producer._producer._in_turn


async def test_flushes_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
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


async def test_sends_and_flushes_that_nobody_waits_for_are_done_all_the_same(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await new_batcher(client, topic, 100)
        for content in payloads(10):
            producer.send(content).cancel()
        flushing = asyncio.ensure_future(producer.flush())
        await asyncio.sleep(0)
        flushing.cancel()
        assert datas(await receive(consumer, 10)) == payloads(10)
        room = await client.create_producer(topic, max_pending_messages=1)
        first = room.send(b"a")
        waiting = asyncio.ensure_future(room.send_when_room(b"b"))
        await asyncio.sleep(0)
        waiting.cancel()
        await first
        await (await room.send_when_room(b"c"))
        assert datas(await receive(consumer, 2)) == [b"a", b"c"]


# ---- Receiving ---------------------------------------------------------------


async def test_receives_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
    """In a queue of five: one permit lost would show within the run."""
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", receiver_queue_size=5)
        producer = await client.create_producer(topic)
        got: list[bytes] = []

        async def take(turns: int) -> None:
            got.append((await consumer.receive()).data())

        async def take_by_time(turns: int) -> None:
            got.append((await consumer.receive(30_000)).data())

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


async def test_without_a_queue_a_stopped_receive_leaves_its_permit_to_the_next(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", receiver_queue_size=0, consumer_type=Shared)
        for _ in range(5):
            with pytest.raises(Timeout):
                await consumer.receive(5)
        assert consumer.stats().available_permits == 1
        await send_all(await client.create_producer(topic), payloads(3))
        assert datas(await receive(consumer, 3)) == payloads(3)
        assert consumer.stats().available_permits == 0


async def test_acks_with_receipts_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
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


async def test_seeks_and_questions_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
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


async def test_letters_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=Shared,
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


async def test_dead_letters_under_way_are_left_to_the_next(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=Shared,
            dead_letter_policy=ConsumerDeadLetterPolicy(1),
            negative_ack_redelivery_delay_ms=100,
        )
        await (await client.create_producer(topic)).send(b"poison")
        for _ in range(2):
            (message,) = await receive(consumer, 1)
            consumer.negative_acknowledge(message)
        part = consumer._consumer._order[0]
        await until(lambda: part._burials._task is not None, lambda: "nothing died")
        await consumer.close()
    await nobody_is_left(engine, topic)


# ---- Closing -----------------------------------------------------------------


@pytest.mark.parametrize("what", ["producer", "consumer", "reader", "client", "unsubscribe"])
async def test_closing_goes_on_when_nobody_waits_for_it(
    engine: Engine, topic: str, what: str
) -> None:
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


async def test_closing_while_the_broker_is_away(engine: Engine, topic: str) -> None:
    async with through_proxy(engine) as (proxy, client):
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s", ack_receipt_enabled=True)
        await producer.send(b"x")
        (message,) = await receive(consumer, 1)
        proxy.refusing = True
        proxy.cut()
        await until(lambda: not producer.is_connected(), lambda: "still connected")
        sent = producer.send(b"never")
        acking = asyncio.ensure_future(consumer.acknowledge(message))
        receiving = asyncio.ensure_future(consumer.receive())
        await until(lambda: consumer._consumer._waiting == 1, lambda: "nobody waits")
        await client.close()
        for future in (sent, acking, receiving):
            with pytest.raises(AlreadyClosed):
                await future
