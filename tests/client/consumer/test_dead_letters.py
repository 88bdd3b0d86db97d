"""Messages that nobody can handle: where they go, what is told of them, what stays."""

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
from client.conftest import (
    Engine,
    datas,
    new_batcher,
    nothing_comes,
    payloads,
    receive,
    send_all,
    until,
)

from magnetar import (
    AlreadyClosed,
    ConsumerDeadLetterPolicy,
    ConsumerType,
    InitialPosition,
    InvalidConfiguration,
    OperationNotSupported,
)
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.client.engine.producer import EngineProducer

pytestmark = pytest.mark.both_engines

Earliest = InitialPosition.Earliest
OPTIONS: dict[str, Any] = {
    "consumer_type": ConsumerType.Shared,
    "negative_ack_redelivery_delay_ms": 100,
    "initial_position": Earliest,
}


async def refuse(consumer: aio.Consumer, times: int) -> Any:
    """Refuses the one message, so often."""
    for _ in range(times):
        (message,) = await receive(consumer, 1)
        consumer.negative_acknowledge(message)
    return message


async def backlog(engine: Engine, topic: str) -> int:
    stats = await asyncio.to_thread(engine.stats, topic)
    return int(stats["subscriptions"]["s"]["msgBacklog"])


async def test_a_message_refused_too_often_is_a_dead_letter(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        policy = ConsumerDeadLetterPolicy(2, initial_subscription_name="watch")
        consumer = await client.subscribe(topic, "s", dead_letter_policy=policy, **OPTIONS)
        producer = await client.create_producer(topic)
        await producer.send(
            b"poison",
            properties={"a": "b"},
            partition_key="k",
            ordering_key="o",
            event_timestamp=12,
        )
        message = await refuse(consumer, 3)
        letters = await client.subscribe(f"{topic}-s-DLQ", "watch")
        (letter,) = await receive(letters, 1)
        origin = message.message_id()
        assert letter.data() == b"poison"
        assert letter.properties() == {
            "a": "b",
            "REAL_TOPIC": topic,
            "REAL_SUBSCRIPTION": "s",
            "ORIGIN_MESSAGE_ID": f"{origin.ledger_id()}:{origin.entry_id()}:-1",
        }
        assert (letter.partition_key(), letter.ordering_key()) == ("k", "o")
        assert letter.event_timestamp() == 12
        await nothing_comes(consumer)
        await consumer.close()
        assert await backlog(engine, topic) == 0


async def test_of_a_batch_only_the_refused_one_dies(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        letters = await client.subscribe(f"{topic}-dead", "watch")
        policy = ConsumerDeadLetterPolicy(1, f"{topic}-dead")
        consumer = await client.subscribe(topic, "s", dead_letter_policy=policy, **OPTIONS)
        await send_all(await new_batcher(client, topic, 4), payloads(4))
        got = await receive(consumer, 4)
        await consumer.acknowledge([got[0], got[2], got[3]])
        consumer.negative_acknowledge(got[1])
        await refuse(consumer, 1)
        assert datas(await receive(letters, 1)) == payloads(1, 1)
        await nothing_comes(letters)
        await consumer.close()
        assert await backlog(engine, topic) == 0


async def test_what_is_acked_at_last_is_no_dead_letter(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        letters = await client.subscribe(f"{topic}-s-DLQ", "watch")
        policy = ConsumerDeadLetterPolicy(2)
        consumer = await client.subscribe(topic, "s", dead_letter_policy=policy, **OPTIONS)
        await (await client.create_producer(topic)).send(b"hard")
        await refuse(consumer, 2)
        (message,) = await receive(consumer, 1)
        assert message.redelivery_count() == 2
        await consumer.acknowledge(message)
        await nothing_comes(letters)
        await consumer.close()
        assert await backlog(engine, topic) == 0


async def test_a_letter_that_cannot_be_published_stays_where_it_is(
    engine: Engine, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with aio.Client(engine.url) as client:
        policy = ConsumerDeadLetterPolicy(1, "persistent://nobody/nothing/dead")
        consumer = await client.subscribe(topic, "s", dead_letter_policy=policy, **OPTIONS)
        await (await client.create_producer(topic)).send(b"poison")
        await refuse(consumer, 2)
        says = "publishing to persistent://nobody/nothing/dead"
        await until(lambda: says in caplog.text, lambda: caplog.text)
        await consumer.close()
        assert await backlog(engine, topic) == 1
        again = await client.subscribe(topic, "s", **OPTIONS)
        assert datas(await receive(again, 1)) == [b"poison"]


async def test_each_partition_has_letters_of_its_own_unless_told_otherwise(
    engine: Engine, topic: str
) -> None:
    engine.make_partitions(topic, 2)
    async with aio.Client(engine.url) as client:
        letters = await client.subscribe(
            [f"{topic}-partition-{n}-s-DLQ" for n in range(2)], "watch"
        )
        policy = ConsumerDeadLetterPolicy(1)
        consumer = await client.subscribe(topic, "s", dead_letter_policy=policy, **OPTIONS)
        await send_all(await client.create_producer(topic), payloads(2))
        await refuse(consumer, 4)
        got = await receive(letters, 2)
        assert sorted(datas(got)) == payloads(2)


def test_the_blocking_door_buries_too(client: Client, topic: str) -> None:
    letters = client.subscribe(f"{topic}-s-DLQ", "watch")
    consumer = client.subscribe(
        topic, "s", dead_letter_policy=ConsumerDeadLetterPolicy(1), **OPTIONS
    )
    client.create_producer(topic).send(b"poison")
    for _ in range(2):
        consumer.negative_acknowledge(consumer.receive(30_000))
    assert letters.receive(30_000).data() == b"poison"


# ---- Retry letters -----------------------------------------------------------


async def test_a_retry_letter_comes_again_and_is_dead_at_last(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        policy = ConsumerDeadLetterPolicy(2, initial_subscription_name="watch")
        consumer = await client.subscribe(
            topic,
            "s",
            dead_letter_policy=policy,
            retry_enabled=True,
            ack_receipt_enabled=True,
            **OPTIONS,
        )
        producer = await client.create_producer(topic)
        await producer.send(b"hard", properties={"a": "b"}, partition_key="k")
        (first,) = await receive(consumer, 1)
        origin = first.message_id()
        message = first
        for times in (1, 2):
            await consumer.reconsume_later(message, timedelta(milliseconds=10), {"more": "m"})
            (message,) = await receive(consumer, 1)
            assert (message.data(), message.partition_key()) == (b"hard", "k")
            assert message.topic_name() == f"{topic}-s-RETRY"
            place = f"{origin.ledger_id()}:{origin.entry_id()}:-1"
            assert message.properties() == {
                "a": "b",
                "more": "m",
                "REAL_TOPIC": topic,
                "REAL_SUBSCRIPTION": "s",
                "ORIGIN_MESSAGE_ID": place,
                "ORIGIN_MESSAGE_IDY_TIME": place,
                "RECONSUMETIMES": str(times),
                "DELAY_TIME": "10",
            }
        await consumer.reconsume_later(message, timedelta(0))
        letters = await client.subscribe(f"{topic}-s-DLQ", "watch")
        (letter,) = await receive(letters, 1)
        assert letter.properties()["RECONSUMETIMES"] == "3"
        await consumer.close()
        assert await backlog(engine, topic) == 0
        assert await backlog(engine, f"{topic}-s-RETRY") == 0


async def test_who_receives_no_retry_letters_cannot_send_them(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", **OPTIONS)
        await (await client.create_producer(topic)).send(b"x")
        (message,) = await receive(consumer, 1)
        with pytest.raises(InvalidConfiguration, match="retry_enabled=True"):
            await consumer.reconsume_later(message, timedelta(0))
        with pytest.raises(OperationNotSupported, match="by name"):
            await client.subscribe(re.compile(topic), "t", retry_enabled=True)


def test_retry_letters_through_the_blocking_door(client: Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", retry_enabled=True, **OPTIONS)
    client.create_producer(topic).send(b"hard")
    consumer.reconsume_later(consumer.receive(30_000), timedelta(0))
    again = consumer.receive(30_000)
    assert (again.data(), again.properties()["RECONSUMETIMES"]) == (b"hard", "1")
    consumer.acknowledge(again)


async def test_a_consumer_that_is_closed_leaves_no_producer_of_letters(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        await send_all(await client.create_producer(topic), payloads(1))
        for turns in range(0, 40, 2):
            consumer = await client.subscribe(topic, f"s-{turns}", retry_enabled=True, **OPTIONS)
            (message,) = await receive(consumer, 1)
            letter = asyncio.ensure_future(consumer.reconsume_later(message, timedelta(0)))
            for _ in range(turns):
                await asyncio.sleep(0)
            await consumer.close()
            (result,) = await asyncio.gather(letter, return_exceptions=True)
            assert result is None or isinstance(result, AlreadyClosed), repr(result)
            left = [one for one in client._engine._open if isinstance(one, EngineProducer)]
            assert [one.topic for one in left] == [topic], turns
