"""`with consumer.processing(message)` over a broker: acked, nacked, or sent to the retry topic."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from client.conftest import WAIT_MS, Engine, nothing_comes, receive

from magnetar import (
    AlreadyClosed,
    ConsumerDeadLetterPolicy,
    ConsumerType,
    InitialPosition,
    InvalidConfiguration,
    UsageError,
)
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client, Consumer

pytestmark = pytest.mark.both_engines

SOON: dict[str, Any] = {
    "consumer_type": ConsumerType.Shared,
    "negative_ack_redelivery_delay_ms": 50,
}


class Broken(Exception):
    """What the blocks of these tests raise."""


async def fail(consumer: aio.Consumer, *, closing: bool = False, **options: Any) -> None:
    """A block that raises, after it has closed its consumer if it is told to."""
    async with consumer.processing(await consumer.receive(WAIT_MS), **options):
        if closing:
            await consumer.close()
        raise Broken


def fail_blocking(consumer: Consumer, *, closing: bool = False, **options: Any) -> None:
    with consumer.processing(consumer.receive(WAIT_MS), **options):
        if closing:
            consumer.close()
        raise Broken


async def one_message(client: aio.Client, topic: str, **options: Any) -> aio.Consumer:
    """A consumer for which one message waits."""
    consumer = await client.subscribe(topic, "s", **{**SOON, **options})
    producer = await client.create_producer(topic)
    await producer.send(b"job")
    return consumer


async def test_a_block_that_ends_acks_its_message(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await one_message(client, topic, ack_receipt_enabled=True)
        async with consumer.processing(await consumer.receive(WAIT_MS)) as message:
            assert message.data() == b"job"
        await consumer.close()
        await nothing_comes(await client.subscribe(topic, "s", **SOON))


async def test_a_block_that_raises_gets_its_message_again(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await one_message(client, topic)
        with pytest.raises(Broken):
            await fail(consumer)
        again = (await receive(consumer, 1))[0]
        assert (again.data(), again.redelivery_count()) == (b"job", 1)


async def test_a_cancelled_block_gets_its_message_again(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await one_message(client, topic, retry_enabled=True)
        inside = asyncio.Event()

        async def work() -> None:
            message = await consumer.receive(WAIT_MS)
            async with consumer.processing(message, retry_after=timedelta(hours=1)):
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await receive(consumer, 1))[0].redelivery_count() == 1


async def test_a_message_that_always_fails_becomes_a_dead_letter(
    engine: Engine, topic: str
) -> None:
    policy = ConsumerDeadLetterPolicy(2, f"{topic}-dead", initial_subscription_name="people")
    async with aio.Client(engine.url) as client:
        consumer = await one_message(client, topic, dead_letter_policy=policy)
        for _ in range(3):
            with pytest.raises(Broken):
                await fail(consumer)
        # The letter is written when the consumer meets the message once more.
        waiting = asyncio.create_task(consumer.receive())
        people = await client.subscribe(f"{topic}-dead", "people", **SOON)
        assert (await receive(people, 1))[0].data() == b"job"
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_with_retry_after_a_failed_message_goes_to_the_retry_topic(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await one_message(client, topic, retry_enabled=True)
        with pytest.raises(Broken):
            await fail(consumer, retry_after=timedelta(milliseconds=1))
        again = (await receive(consumer, 1))[0]
        assert again.properties()["RECONSUMETIMES"] == "1"


async def test_what_cannot_go_to_the_retry_topic_is_nacked_and_the_error_says_so(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await one_message(client, topic, retry_enabled=True)
        with pytest.raises(Broken) as caught:
            await fail(consumer, closing=True, retry_after=timedelta(0))
        assert "retry topic" in caught.value.__notes__[0]


async def test_a_consumer_closed_inside_the_block_leaves_the_error_as_it_is(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await one_message(client, topic)
        with pytest.raises(Broken):
            await fail(consumer, closing=True)
        again = await client.subscribe(topic, "s", **SOON)
        assert (await receive(again, 1))[0].data() == b"job"


async def test_retry_after_needs_retries_and_a_time(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await one_message(client, topic)
        message = await consumer.receive(WAIT_MS)
        with pytest.raises(InvalidConfiguration, match="retry_enabled=True"):
            consumer.processing(message, retry_after=timedelta(seconds=1))
        with pytest.raises(UsageError, match="expected a timedelta"):
            consumer.processing(message, retry_after=5)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="takes a message"):
            consumer.processing(message.message_id())  # type: ignore[arg-type]


# ---- The blocking door -------------------------------------------------------


def test_a_blocking_block_acks_nacks_and_retries(client: Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", retry_enabled=True, **SOON)
    client.create_producer(topic).send(b"job")
    with pytest.raises(Broken):
        fail_blocking(consumer)
    message = consumer.receive(WAIT_MS)
    assert message.redelivery_count() == 1
    consumer.negative_acknowledge(message)
    with pytest.raises(Broken):
        fail_blocking(consumer, retry_after=timedelta(milliseconds=1))
    message = consumer.receive(WAIT_MS)
    assert message.properties()["RECONSUMETIMES"] == "1"
    with consumer.processing(message) as same:
        assert same is message
    assert consumer.stats().messages_acked == 2


def test_an_interrupted_block_gets_its_message_again(client: Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", retry_enabled=True, **SOON)
    client.create_producer(topic).send(b"job")
    message = consumer.receive(WAIT_MS)
    with (
        pytest.raises(KeyboardInterrupt),
        consumer.processing(message, retry_after=timedelta(hours=1)),
    ):
        raise KeyboardInterrupt
    assert consumer.receive(WAIT_MS).redelivery_count() == 1


def test_a_blocking_block_survives_the_end_of_its_consumer(client: Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", initial_position=InitialPosition.Earliest, **SOON)
    client.create_producer(topic).send(b"job")
    with pytest.raises(Broken):
        fail_blocking(consumer, closing=True)
    again = client.subscribe(topic, "s", **SOON)
    with pytest.raises(AlreadyClosed), again.processing(again.receive(WAIT_MS)):
        again.close()
