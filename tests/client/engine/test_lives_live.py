"""Acks that others overtake, on both doors: another cluster, and a reset by the operator."""

import asyncio
from typing import Any

import pytest
from client.conftest import Engine, datas, make_engine, path_of, payloads, receive, send_all, until
from client.network.test_failover import Provider
from support.waiting import wait_until

from magnetar import ConsumerType, InitialPosition, MessageId
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.client.option.service_info import ServiceInfo
from magnetar.errors import Interrupted

# Acks gather so long that a test says when they are sent.
LATER = 3_600_000
EARLIEST = InitialPosition.Earliest


def publish(url: str, topic: str, contents: list[bytes]) -> None:
    with Client(url) as client:
        producer = client.create_producer(topic, batching_enabled=False)
        for content in contents:
            producer.send(content)


def test_acks_that_a_cluster_never_confirmed_do_not_follow_the_client_to_another(
    topic: str,
) -> None:
    failed: list[tuple[list[MessageId], Exception]] = []
    with make_engine() as here, make_engine() as there:
        publish(here.url, topic, payloads(10))
        publish(there.url, topic, payloads(10, 10))
        provider = Provider(here.url)
        with Client(provider) as client:
            consumer = client.subscribe(
                topic,
                "s",
                initial_position=EARLIEST,
                acknowledgement_group_time_ms=LATER,
                auto_retry_acknowledgement=True,
                on_acknowledgement_failed=lambda ids, error: failed.append((ids, error)),
            )
            old = [consumer.receive(30_000) for _ in range(10)]
            for message in old[:7]:
                consumer.acknowledge(message)
            provider.update(ServiceInfo(there.url))
            new = [consumer.receive(30_000) for _ in range(10)]
            assert datas(new) == payloads(10, 10)
            wait_until(lambda: len(failed) == 1)
            ids, error = failed[0]
            assert ids == [message.message_id() for message in old[:7]]
            assert isinstance(error, Interrupted)
            # Nor does what the application still has of the first.
            consumer.acknowledge(old[8])
            wait_until(lambda: len(failed) == 2)
            assert failed[1][0] == [old[8].message_id()]
            consumer.acknowledge(new[0])
            consumer.close()
        backlog = there.stats(topic)["subscriptions"]["s"]["msgBacklog"]
        assert backlog == 9
        assert here.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 10


@pytest.mark.parametrize("waits", [False, True])
async def test_acks_of_another_cluster_are_told_of_once_where_none_is_retried(
    topic: str, waits: bool
) -> None:
    """Told of at the next moment, for ever, they kept a core busy."""
    failed: list[list[MessageId]] = []
    with make_engine() as here, make_engine() as there:
        provider = Provider(here.url)
        async with aio.Client(provider) as client:
            consumer = await client.subscribe(
                topic,
                "s",
                ack_receipt_enabled=waits,
                on_acknowledgement_failed=lambda ids, error: failed.append(ids),
            )
            producer = await client.create_producer(topic)
            await send_all(producer, payloads(1))
            (old,) = await receive(consumer, 1)
            provider.update(ServiceInfo(there.url))
            await send_all(producer, payloads(1))
            await receive(consumer, 1)
            if waits:
                with pytest.raises(Interrupted, match="another cluster"):
                    await consumer.acknowledge(old)
            else:
                await consumer.acknowledge(old)
            await until(lambda: len(failed) == 1, lambda: f"told of {failed}")
            (part,) = consumer._consumer.parts.values()
            assert failed == [[old.message_id()]]
            assert part.core.next_ms() is None, "nothing is left to do"


async def test_who_waits_for_an_ack_is_told_that_the_cluster_is_another(topic: str) -> None:
    with make_engine() as here, make_engine() as there:
        provider = Provider(here.url)
        async with aio.Client(provider) as client:
            consumer = await client.subscribe(
                topic, "s", acknowledgement_group_time_ms=LATER, ack_receipt_enabled=True
            )
            producer = await client.create_producer(topic)
            await send_all(producer, payloads(2))
            first, second = await receive(consumer, 2)
            waiting = asyncio.ensure_future(consumer.acknowledge(first))
            await asyncio.sleep(0)
            provider.update(ServiceInfo(there.url))
            with pytest.raises(Interrupted, match="another cluster"):
                await waiting
            with pytest.raises(Interrupted, match="another cluster"):
                await consumer.acknowledge(second)
            with pytest.raises(Interrupted):
                await consumer.acknowledge_cumulative(second)


async def test_new_credentials_for_the_same_cluster_give_up_nothing(
    engine: Engine, topic: str
) -> None:
    provider = Provider(engine.url)
    async with aio.Client(provider) as client:
        consumer = await client.subscribe(
            topic, "s", acknowledgement_group_time_ms=LATER, ack_receipt_enabled=True
        )
        producer = await client.create_producer(topic)
        await send_all(producer, payloads(1))
        (message,) = await receive(consumer, 1)
        waiting = asyncio.ensure_future(consumer.acknowledge(message))
        await asyncio.sleep(0)
        provider.update(ServiceInfo(engine.url))
        await waiting  # it is sent with the next connection


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared])
@pytest.mark.parametrize("partitions", [0, 2])
async def test_acks_from_before_a_reset_by_the_operator_are_not_applied_after_it(
    engine: Engine, topic: str, kind: ConsumerType, partitions: int
) -> None:
    failed: list[tuple[list[MessageId], Exception]] = []
    if partitions:
        engine.make_partitions(topic, partitions)
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=kind,
            acknowledgement_group_time_ms=LATER,
            auto_retry_acknowledgement=True,
            on_acknowledgement_failed=lambda ids, error: failed.append((ids, error)),
        )
        producer = await client.create_producer(topic)
        await send_all(producer, payloads(6))
        for message in await receive(consumer, 6):
            await consumer.acknowledge(message)
        await asyncio.to_thread(engine.rest, "POST", f"{path_of(topic)}/subscription/s/{RESET}")
        again = await receive(consumer, 6)
        assert sorted(datas(again)) == payloads(6)
        await until(
            lambda: sum(len(ids) for ids, _ in failed) == 6, lambda: f"told of {len(failed)}"
        )
        assert all(isinstance(error, Interrupted) for _, error in failed)
        for message in again:
            await consumer.acknowledge(message)
        await consumer.close()
        assert len(failed) <= 2, "those from after the reset are kept"
        assert await left(engine, topic, partitions) == 0


RESET = "resetcursor/0"


async def left(engine: Engine, topic: str, partitions: int) -> int:
    names = [f"{topic}-partition-{n}" for n in range(partitions)] or [topic]
    found: list[Any] = [await asyncio.to_thread(engine.stats, name) for name in names]
    return sum(stats["subscriptions"]["s"]["msgBacklog"] for stats in found)


async def test_acks_from_before_a_seek_of_another_consumer_are_not_applied_after_it(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        options: dict[str, Any] = {
            "consumer_type": ConsumerType.Shared,
            "acknowledgement_group_time_ms": LATER,
            "ack_receipt_enabled": True,
            "auto_retry_acknowledgement": True,
        }
        one = await client.subscribe(topic, "s", **options)
        producer = await client.create_producer(topic)
        await send_all(producer, payloads(4))
        waiting = [
            asyncio.ensure_future(one.acknowledge(message)) for message in await receive(one, 4)
        ]
        await asyncio.sleep(0)
        other = await client.subscribe(topic, "s", **options)
        await other.seek(MessageId.earliest)
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(result) for result in results] == [Interrupted] * 4
        await one.close()
        assert sorted(datas(await receive(other, 4))) == payloads(4)


async def test_the_wait_for_an_ack_s_answer_is_as_long_as_an_operation_may_take(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url, operation_timeout_seconds=7) as client:
        consumer = await client.subscribe(topic, "s", ack_receipt_enabled=True)
        (part,) = consumer._consumer.parts.values()
        assert part.core.acks._settings.receipt_timeout_ms == 7000
