"""Whoever stops waiting leaves nothing behind: no task, no permit, no thread, no consumer.

A coroutine is stopped after one turn of the loop, after two, and so on until it is done by
itself, so at every place where it waits. The conftest sees to it that no task is left.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
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
from magnetar.client import aio

Earliest = InitialPosition.Earliest
Shared = ConsumerType.Shared


async def cancelled_everywhere(make: Callable[[], Awaitable[Any]], step: int = 1) -> int:
    """Runs and cancels anew, each time a little later, until it ends by itself."""
    for turns in range(0, TURNS_MAX, step):
        task = asyncio.ensure_future(make())
        for _ in range(turns):
            await asyncio.sleep(0)
            if task.done():
                break
        if task.done():
            found = await task
            if found is not None:
                await found.close()
            return turns
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return TURNS_MAX


async def test_making_things_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await (await client.create_producer(topic)).close()
        await cancelled_everywhere(lambda: client.create_producer(topic))
        await cancelled_everywhere(lambda: client.subscribe(topic, "s"))
        await cancelled_everywhere(lambda: client.create_reader(topic, MessageId.earliest))
        await nobody_is_left(engine, topic)
        # The subscription is free, and so are the names.
        consumer = await client.subscribe(topic, "s")
        await consumer.close()


async def test_making_things_of_many_topics_can_be_stopped_anywhere(
    engine: Engine, topic: str
) -> None:
    engine.make_partitions(topic, 3)
    async with aio.Client(engine.url) as client:
        await cancelled_everywhere(lambda: client.create_producer(topic), 2)
        await cancelled_everywhere(lambda: client.subscribe(topic, "s"), 2)
        await cancelled_everywhere(lambda: client.subscribe(re.compile(f"{topic}.*"), "t"), 2)
        for number in range(3):
            await nobody_is_left(engine, f"{topic}-partition-{number}")


async def test_first_connections_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
    async def whole() -> None:
        async with aio.Client(engine.url) as client:
            await client.create_producer(topic)

    await (await aio_producer(engine, topic)).close()
    await cancelled_everywhere(whole)
    await nobody_is_left(engine, topic)


async def aio_producer(engine: Engine, topic: str) -> aio.Client:
    client = aio.Client(engine.url)
    await client.create_producer(topic)
    return client


async def test_closing_goes_on_when_nobody_waits_for_it(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        for turns in range(8):
            producer = await client.create_producer(topic, batching_enabled=True)
            consumer = await client.subscribe(topic, "s")
            sent = producer.send(b"x")
            for what in (producer, consumer):
                closing = asyncio.ensure_future(what.close())
                for _ in range(turns):
                    await asyncio.sleep(0)
                closing.cancel()
                await asyncio.gather(closing, return_exceptions=True)
                await what.close()
            await sent
        await nobody_is_left(engine, topic)
    closing = asyncio.ensure_future((await aio_producer(engine, topic)).close())
    await asyncio.sleep(0)
    closing.cancel()
    await nobody_is_left(engine, topic)


async def test_receives_that_are_stopped_lose_nothing(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", receiver_queue_size=10)
        producer = await client.create_producer(topic)
        got: list[Any] = []
        for number, content in enumerate(payloads(60)):
            task = asyncio.ensure_future(consumer.receive())
            producer.send(content)
            for _ in range(number % 12):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                got.append(await task)
        while len(got) < 60:
            got += await receive(consumer, 1)
        await nothing_comes(consumer)
        assert datas(got) == payloads(60)
        stats = consumer.stats()
        assert stats.available_permits + stats.unreturned_permits == 10
        assert consumer._consumer._waiters == []
        assert consumer._consumer._waiting == 0


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


async def test_acks_and_requests_can_be_stopped(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await send_all(await client.create_producer(topic), payloads(5))
        consumer = await client.subscribe(
            topic, "s", initial_position=Earliest, ack_receipt_enabled=True
        )
        got = await receive(consumer, 5)
        for message in got[:2]:
            acking = asyncio.ensure_future(consumer.acknowledge(message))
            await asyncio.sleep(0)
            acking.cancel()
        await consumer.acknowledge(got[2])
        for call in (consumer.get_last_message_id, consumer.unsubscribe):
            asking = asyncio.ensure_future(call())
            await asyncio.sleep(0)
            if call == consumer.get_last_message_id:
                asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        assert (await asyncio.to_thread(engine.stats, topic))["subscriptions"] == {}


async def test_seeks_can_be_stopped_anywhere(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        ids = await send_all(await client.create_producer(topic), payloads(5))
        consumer = await client.subscribe(
            topic, "s", initial_position=Earliest, start_message_id_inclusive=True
        )
        await cancelled_everywhere(lambda: consumer.seek(ids[1]), 3)
        await consumer.seek(ids[3])
        assert datas(await receive(consumer, 2)) == payloads(2, 3)
        await nothing_comes(consumer)


async def test_a_client_may_be_closed_while_things_are_being_made(
    engine: Engine, topic: str
) -> None:
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
