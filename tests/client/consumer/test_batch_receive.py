"""One call of `batch_receive`: when it has enough, and how long it may wait."""

import asyncio
from typing import Any

import pytest
from client.conftest import (
    WAIT_MS,
    Engine,
    datas,
    make_engine,
    new_batcher,
    nothing_comes,
    path_of,
    payloads,
    receive,
    send_all,
    through_proxy,
    until,
)
from client.consumer_model import TOPIC
from support.proxy import Proxy

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.client.consumer.batch_receive import BatchReceive
from magnetar.client.consumer.message import Delivery, Message
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.client.option.policy import ConsumerBatchReceivePolicy
from magnetar.errors import AlreadyClosed, TopicNotFound
from magnetar.model import ConsumerType
from magnetar.protocol import MessageMetadata


def message(size: int) -> Message:
    metadata = MessageMetadata("maker", 0, 0)
    delivery = Delivery(TOPIC, -1, 7, 0, metadata, bytes(size), 0, 1, 0, None)
    return Message(delivery, -1, 0, 0, size)


def test_enough_is_so_many_messages_or_bytes() -> None:
    for policy, sizes in (
        (ConsumerBatchReceivePolicy(3, -1, -1), [1, 1, 1]),
        (ConsumerBatchReceivePolicy(-1, 10, -1), [4, 4, 4]),
        (ConsumerBatchReceivePolicy(3, 10, -1), [10]),
    ):
        batch = BatchReceive(policy, lambda: 0.0)
        for size in sizes:
            assert batch.open
            assert batch.left_ms() is None
            batch.add(message(size))
        assert not batch.open
        assert [one.length() for one in batch.messages] == sizes


def test_its_time_begins_with_the_call() -> None:
    now_s = 50.0
    batch = BatchReceive(ConsumerBatchReceivePolicy(10, -1, 200), lambda: now_s)
    assert (batch.open, batch.left_ms()) == (True, 200)
    now_s += 0.125
    assert (batch.open, batch.left_ms()) == (True, 75)
    now_s += 1.0
    assert (batch.open, batch.left_ms()) == (False, 0)


# ---- Over a broker -----------------------------------------------------------

WANTS_TEN = ConsumerBatchReceivePolicy(10, -1, -1)


async def test_what_a_call_that_is_stopped_has_taken_is_for_the_next(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        await send_all(await client.create_producer(topic), payloads(4))
        (first,) = await receive(consumer, 1)
        call = asyncio.ensure_future(consumer.batch_receive(WANTS_TEN))
        await until(lambda: consumer.stats().messages_taken == 4, lambda: str(consumer.stats()))
        other = asyncio.ensure_future(consumer.receive(WAIT_MS))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        got = [first, await other, *await receive(consumer, 2)]
        assert datas(got) == payloads(4)


@pytest.mark.parametrize("how", ["seek", "redeliver"])
async def test_what_was_taken_is_dropped_where_it_comes_again(
    engine: Engine, topic: str, how: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", start_message_id_inclusive=True)
        ids = await send_all(await client.create_producer(topic), payloads(4))
        call = asyncio.ensure_future(consumer.batch_receive(WANTS_TEN))
        await until(lambda: consumer.stats().messages_taken == 4, lambda: str(consumer.stats()))
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        if how == "seek":
            await consumer.seek(ids[0])
        else:
            consumer.redeliver_unacknowledged_messages()
        assert datas(await receive(consumer, 4)) == payloads(4)
        await nothing_comes(consumer)


async def stopped_call(consumer: Any, taken: int) -> None:
    """A call takes all that there is, and is stopped: what it has is for the next one."""
    call = asyncio.ensure_future(consumer.batch_receive(WANTS_TEN))
    await until(lambda: consumer.stats().messages_taken == taken, lambda: str(consumer.stats()))
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)


@pytest.mark.parametrize("type", [ConsumerType.Shared, ConsumerType.Exclusive])
async def test_siblings_of_a_refused_message_come_once_though_a_call_had_taken_them(
    engine: Engine, topic: str, type: ConsumerType
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", type, negative_ack_redelivery_delay_ms=50)
        await send_all(await new_batcher(client, topic, 4), payloads(4))
        (first,) = await receive(consumer, 1)
        await stopped_call(consumer, 4)
        consumer.negative_acknowledge(first)
        await until(lambda: consumer.stats().messages_received == 8, lambda: str(consumer.stats()))
        assert datas(await receive(consumer, 4)) == payloads(4)
        await nothing_comes(consumer)


@pytest.mark.parametrize("type", [ConsumerType.Shared, ConsumerType.Exclusive])
async def test_what_a_stopped_call_had_taken_comes_once_on_the_next_connection(
    engine: Engine, topic: str, type: ConsumerType
) -> None:
    async with through_proxy(engine) as (proxy, client):
        consumer = await client.subscribe(topic, "s", type)
        await send_all(await client.create_producer(topic), payloads(4))
        await stopped_call(consumer, 4)
        proxy.cut()
        await until(lambda: consumer.stats().messages_received == 8, lambda: str(consumer.stats()))
        assert datas(await receive(consumer, 4)) == payloads(4)
        await nothing_comes(consumer)


async def test_a_call_hands_out_nothing_that_was_skipped_while_the_connection_was_gone(
    engine: Engine, topic: str
) -> None:
    """The broker does not name its consumer, for our client empties its queue then (I5)."""
    async with (
        Proxy(engine.one_url) as proxy,
        aio.Client(proxy.url) as client,
        aio.Client(engine.url) as other,
    ):
        consumer = await client.subscribe(topic, "s", ConsumerType.Shared)
        producer = await other.create_producer(topic)
        ids = await send_all(producer, payloads(2))
        call = asyncio.ensure_future(consumer.batch_receive(ConsumerBatchReceivePolicy(3, -1, -1)))
        await until(lambda: consumer.stats().messages_taken == 2, lambda: str(consumer.stats()))
        proxy.refusing = True
        proxy.cut()
        await until(lambda: not connected(engine, topic), lambda: "it is connected still")
        skipped = await asyncio.to_thread(skip, engine, topic, ids)
        assert skipped["unconfirmed"] == 0
        proxy.refusing = False
        await send_all(producer, [b"a", b"b", b"c"])
        assert datas(await call) == [b"a", b"b", b"c"]


def connected(engine: Engine, topic: str) -> list[Any]:
    """The consumers that the broker has."""
    found: list[Any] = engine.stats(topic)["subscriptions"]["s"]["consumers"]
    return found


def skip(engine: Engine, topic: str, ids: list[Any]) -> Any:
    return engine.rest(
        "POST",
        f"{path_of(topic)}/subscription/s/skipByMessageIds",
        params={"details": "true"},
        json={
            "type": "messageId",
            "messageIds": [{"ledgerId": i.ledger_id(), "entryId": i.entry_id()} for i in ids],
        },
    ).json()


async def test_a_call_returns_what_it_has_if_no_more_can_come(topic: str) -> None:
    with make_engine(BrokerSettings(auto_create_topics=False), kind="ours") as engine:
        topics = [f"{topic}-a", f"{topic}-b"]
        for name in topics:
            await asyncio.to_thread(engine.rest, "PUT", path_of(name))
        async with aio.Client(engine.url) as client:
            consumer = await client.subscribe(topics, "s")
            await send_all(await client.create_producer(topics[0]), payloads(3))
            call = asyncio.ensure_future(consumer.batch_receive(WANTS_TEN))
            await until(lambda: consumer.stats().messages_taken == 3, lambda: str(consumer.stats()))
            forced: dict[str, Any] = {"params": {"force": "true"}}
            await asyncio.to_thread(engine.rest, "DELETE", path_of(topics[1]), **forced)
            assert datas(await call) == payloads(3)
            with pytest.raises(TopicNotFound):
                await consumer.batch_receive(WANTS_TEN)


async def test_a_call_ends_with_its_consumer(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        await send_all(await client.create_producer(topic), payloads(3))
        call = asyncio.ensure_future(consumer.batch_receive(WANTS_TEN))
        await until(lambda: consumer.stats().messages_taken == 3, lambda: str(consumer.stats()))
        await consumer.close()
        with pytest.raises(AlreadyClosed):
            await call
        with pytest.raises(AlreadyClosed):
            await consumer.receive(WAIT_MS)


def test_what_a_blocking_call_has_taken_when_it_is_interrupted_is_for_the_next(
    client: Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", batch_receive_policy=WANTS_TEN)
    producer = client.create_producer(topic)
    ids = [producer.send(content) for content in payloads(3)]
    assert len(ids) == 3
    receive_one = consumer._receive_into

    def receive_two(batch: BatchReceive) -> None:
        if len(batch.messages) == 2:
            raise KeyboardInterrupt
        receive_one(batch)

    consumer._receive_into = receive_two  # type: ignore[method-assign]  # as ^C comes in between
    with pytest.raises(KeyboardInterrupt):
        consumer.batch_receive()
    assert [consumer.receive(WAIT_MS).data() for _ in range(3)] == payloads(3)
