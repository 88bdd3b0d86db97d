"""What a client did in all, and what it writes to the log about it."""

import logging
import re
from dataclasses import fields
from typing import Any

import pytest
from client.conftest import Engine, payloads, receive, send_all, until

from magnetar.client.door import aio
from magnetar.client.telemetry.stats import ConsumerStats, consumer_stats, producer_stats
from magnetar.client.telemetry.totals import NOW, added, past, taken_from
from magnetar.errors import ConsumerBusy
from magnetar.model import MessageId


async def test_a_client_counts_what_is_open_and_what_was(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", receiver_queue_size=10)
        for _ in range(2):
            producer = await client.create_producer(topic)
            await send_all(producer, payloads(3))
            await producer.close()
        other = await client.create_producer(f"{topic}-other")
        await send_all(other, payloads(2))
        await consumer.acknowledge(await receive(consumer, 6))
        stats = client.stats()
        assert (stats.producers_opened, stats.producers_closed) == (3, 2)
        assert (stats.consumers_opened, stats.consumers_closed) == (1, 0)
        assert stats.producers.messages_stored == 8
        assert stats.consumers.messages_taken == stats.consumers.messages_acked == 6
        assert stats.consumers.available_permits + stats.consumers.unreturned_permits == 10
        assert stats.connections_opened >= 1
        assert stats.connections_failed == 0
    stats = client.stats()
    assert (stats.producers_closed, stats.consumers_closed) == (3, 1)
    assert stats.producers.messages_stored == 8
    assert stats.consumers.messages_acked == 6
    assert stats.consumers.available_permits == 0
    assert stats.connections_closed == stats.connections_opened


async def test_what_could_not_be_made_is_not_counted(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await client.subscribe(topic, "s")
        with pytest.raises(ConsumerBusy):
            await client.subscribe(topic, "s")
        assert client.stats().consumers_opened == 1
        assert client.stats().consumers_closed == 0


async def test_topics_that_a_pattern_leaves_stay_counted(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(re.compile(f"{topic}.*"), "s")
        await send_all(producer, payloads(3))
        await consumer.acknowledge(await receive(consumer, 3))
        await producer.close()
        before = client.stats().consumers
        engine.rest("DELETE", topic.replace("://", "/"), params={"force": "true"})
        await consumer._consumer._find()  # as when the discovery period is over
        assert not consumer._consumer.parts
        after = client.stats().consumers
        assert (before.messages_taken, after.messages_taken) == (3, 3)


async def test_the_log_has_a_line_for_each_that_did_something(
    engine: Engine, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "magnetar.client.stats"):
        async with aio.Client(engine.url, stats_interval_in_seconds=1) as client:
            consumer = await client.subscribe(topic, "s")
            await client.create_producer(f"{topic}-idle")
            await send_all(await client.create_producer(topic), payloads(4))
            await consumer.acknowledge(await receive(consumer, 4))
            await until(lambda: len(caplog.messages) == 2, lambda: str(caplog.messages))
            wrote = list(caplog.messages)
    assert wrote[0].startswith(f"producers of {topic}: 4 messages sent (52 bytes), 4 stored")
    assert wrote[1].startswith(f"consumers of {topic}, subscription s: 4 messages came")
    assert "4 received, 4 acked" in wrote[1]


async def test_without_an_interval_nothing_is_logged(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url, stats_interval_in_seconds=0) as client:
        await client.create_producer(topic)
        assert client._engine._stats_log is None


def test_sums_and_differences_are_field_by_field() -> None:
    names = [field.name for field in fields(ConsumerStats)]
    assert set(names) > NOW - {"pending_messages", "pending_bytes"}
    none = consumer_stats([])
    values: dict[str, Any] = {}
    for number, name in enumerate(names, 1):
        nothing = getattr(none, name)
        values[name] = tuple(range(len(nothing))) if isinstance(nothing, tuple) else number
    one = ConsumerStats(**values)
    two = added(one, one)
    assert added(one, none) == one
    assert two.messages_received == 2 * one.messages_received
    assert two.ack_time_buckets[3] == 6
    since = taken_from(one, two)
    assert since.messages_received == one.messages_received
    assert since.queue_length == two.queue_length
    assert past(one).queue_length == 0
    assert past(one).messages_acked == one.messages_acked
    assert past(producer_stats([])) == producer_stats([])


async def test_readers_that_come_and_go_are_counted_as_one(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await send_all(await client.create_producer(topic), payloads(1))
        for _ in range(5):
            async with await client.create_reader(topic, MessageId.earliest) as reader:
                await reader.read_next(30_000)
        totals = client._engine.totals
        assert [taken.messages_taken for taken in totals.consumers().values()] == [5]
        assert [one.closed for one in totals.consumer_sessions.values()] == [5]
