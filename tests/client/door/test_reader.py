"""Readers: where they begin, what is left to read, and moving about."""

import asyncio
import time
from typing import Any

import pytest
from client.conftest import (
    Engine,
    datas,
    new_batcher,
    payloads,
    send_all,
    until,
)
from support.waiting import wait_until

from magnetar import AlreadyClosed, MessageId, Timeout
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client

pytestmark = pytest.mark.both_engines

batched_or_not = pytest.mark.parametrize("batched", [True, False], ids=["batched", "single"])


async def publish(client: aio.Client, topic: str, batched: bool, count: int = 10) -> list[Any]:
    producer = await new_batcher(client, topic, 4) if batched else None
    return await send_all(producer or await client.create_producer(topic), payloads(count))


async def rest_of(reader: aio.Reader) -> list[bytes]:
    got = []
    while await reader.has_message_available():
        got.append((await reader.read_next(30_000)).data())
    return got


@batched_or_not
async def test_a_reader_begins_at_either_end(engine: Engine, topic: str, batched: bool) -> None:
    async with aio.Client(engine.url) as client:
        empty = await client.create_reader(topic, MessageId.earliest)
        assert not await empty.has_message_available()
        await publish(client, topic, batched)
        assert await rest_of(empty) == payloads(10)
        late = await client.create_reader(topic, MessageId.latest)
        assert not await late.has_message_available()
        with pytest.raises(Timeout):
            await late.read_next(20)
        await (await client.create_producer(topic)).send(b"new")
        assert await rest_of(late) == [b"new"]
        assert await rest_of(empty) == [b"new"]


@batched_or_not
@pytest.mark.parametrize("inclusive", [True, False], ids=["inclusive", "exclusive"])
async def test_a_reader_begins_at_any_message(
    engine: Engine, topic: str, batched: bool, inclusive: bool
) -> None:
    async with aio.Client(engine.url) as client:
        ids = await publish(client, topic, batched)
        for number in (0, 3, 4, 6, 9):
            reader = await client.create_reader(
                topic, ids[number], start_message_id_inclusive=inclusive
            )
            first = number if inclusive else number + 1
            assert await rest_of(reader) == payloads(10 - first, first)
            await reader.close()


@batched_or_not
async def test_a_reader_moves_about(engine: Engine, topic: str, batched: bool) -> None:
    async with aio.Client(engine.url) as client:
        ids = await publish(client, topic, batched, 8)
        await asyncio.sleep(0.01)
        between_ms = int(time.time() * 1000)
        await asyncio.sleep(0.01)
        await (await client.create_producer(topic)).send(b"last")
        reader = await client.create_reader(topic, MessageId.earliest)
        await reader.seek(ids[5])
        assert await rest_of(reader) == [*payloads(2, 6), b"last"]
        await reader.seek(between_ms)
        assert await rest_of(reader) == [b"last"]
        await reader.seek(between_ms + 3_600_000)
        assert await rest_of(reader) == []
        await reader.seek(MessageId.earliest)
        assert await rest_of(reader) == [*payloads(8), b"last"]
        await reader.seek(MessageId.latest)
        assert await rest_of(reader) == []
        await reader.seek(0)
        assert await rest_of(reader) == [*payloads(8), b"last"]


async def test_an_inclusive_reader_moves_to_the_message_itself(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        ids = await publish(client, topic, True, 8)
        reader = await client.create_reader(
            topic, MessageId.earliest, start_message_id_inclusive=True
        )
        await rest_of(reader)
        await reader.seek(ids[7])
        assert await rest_of(reader) == payloads(1, 7)


async def test_a_reader_leaves_no_subscription(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await publish(client, topic, False)
        async with await client.create_reader(
            topic, MessageId.earliest, subscription_role_prefix="mine"
        ) as reader:
            await reader.read_next(30_000)
            (name,) = (await asyncio.to_thread(engine.stats, topic))["subscriptions"]
            assert name.startswith("mine-")
        assert (await asyncio.to_thread(engine.stats, topic))["subscriptions"] == {}
        with pytest.raises(AlreadyClosed):
            await reader.read_next(20)


async def test_a_reader_of_partitions(engine: Engine, topic: str) -> None:
    engine.make_partitions(topic, 3)
    async with aio.Client(engine.url) as client:
        await publish(client, topic, False, 12)
        reader = await client.create_reader(topic, MessageId.earliest)
        assert sorted(await rest_of(reader)) == payloads(12)


async def test_a_small_queue_reads_all(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await publish(client, topic, False, 20)
        for size in (0, 1, 3):
            reader = await client.create_reader(topic, MessageId.earliest, receiver_queue_size=size)
            got = [await reader.read_next(30_000) for _ in range(20)]
            assert datas(got) == payloads(20)
            await reader.close()


def test_the_blocking_reader_and_its_listener(client: Client, topic: str) -> None:
    producer = client.create_producer(topic)
    ids = [producer.send(content) for content in payloads(5)]
    reader = client.create_reader(topic, ids[1])
    assert reader.has_message_available()
    assert [reader.read_next(30_000).data() for _ in range(3)] == payloads(3, 2)
    assert not reader.has_message_available()
    reader.seek(ids[3])
    assert reader.read_next(30_000).data() == payloads(1, 4)[0]
    assert (reader.topic(), reader.is_connected()) == (topic, True)
    got: list[bytes] = []
    listening = client.create_reader(
        topic, MessageId.earliest, reader_listener=lambda r, message: got.append(message.data())
    )
    wait_until(lambda: got == payloads(5), lambda: str(got))
    listening.close()


async def test_reading_returns_permits(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await publish(client, topic, False, 25)
        reader = await client.create_reader(topic, MessageId.earliest, receiver_queue_size=10)
        for _ in range(25):
            await reader.read_next(30_000)
        stats = reader._consumer.stats()
        assert stats.available_permits + stats.unreturned_permits == 10
        await until(
            lambda: sum(permits_of(engine, topic)) == stats.available_permits,
            lambda: f"{permits_of(engine, topic)} at the broker, {stats}",
        )


def permits_of(engine: Engine, topic: str) -> list[int]:
    """What the broker says of the permits of a topic's consumers."""
    return [
        consumer["availablePermits"]
        for subscription in engine.stats(topic)["subscriptions"].values()
        for consumer in subscription["consumers"]
    ]


async def test_partitions_may_join_while_a_reader_asks_what_is_left(
    engine: Engine, topic: str
) -> None:
    engine.make_partitions(topic, 2)
    async with aio.Client(engine.url) as client:
        reader = await client.create_reader(topic, MessageId.earliest)
        await asyncio.to_thread(engine.grow_partitions, topic, 8)
        looks = asyncio.ensure_future(reader._engine._find())
        while not looks.done():
            assert not await reader.has_message_available()
        await looks
        assert len(reader._engine.parts) == 8


@batched_or_not
async def test_an_inclusive_reader_may_begin_with_the_last_message(
    engine: Engine, topic: str, batched: bool
) -> None:
    async with aio.Client(engine.url) as client:
        start: dict[str, Any] = {
            "start_message_id": MessageId.latest,
            "start_message_id_inclusive": True,
        }
        empty = await client.create_reader(topic, **start)
        assert not await empty.has_message_available()
        await publish(client, topic, batched)
        assert datas([await empty.read_next(30_000)]) == payloads(1)
        reader = await client.create_reader(topic, **start)
        assert await rest_of(reader) == payloads(1, 9)
        await reader.seek(MessageId.latest)
        assert await rest_of(reader) == payloads(1, 9)
