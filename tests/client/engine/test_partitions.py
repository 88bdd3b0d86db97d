"""Topics of several partitions, and several topics: routing, receiving, acks, growth."""

import asyncio
import contextlib
from typing import Any

import pytest
from client.conftest import (
    Engine,
    datas,
    nothing_comes,
    payloads,
    receive,
    send_all,
    until,
)
from support.proxy import Proxy

from magnetar import (
    AlreadyClosed,
    BatchIndexError,
    ConsumerType,
    InitialPosition,
    InvalidConfiguration,
    MessageId,
    PartitionsRoutingMode,
    ProducerQueueIsFull,
    UsageError,
)
from magnetar.client.door import aio
from magnetar.protocol import pulsar_pb2 as pb

pytestmark = pytest.mark.both_engines

Earliest = InitialPosition.Earliest


@pytest.fixture
def partitioned(engine: Engine, topic: str) -> str:
    engine.make_partitions(topic, 3)
    return topic


async def sent_to(client: aio.Client, topic: str, **fields: Any) -> list[int]:
    options = {name: fields.pop(name) for name in list(fields) if name.startswith("message_rout")}
    producer = await client.create_producer(topic, **options)
    ids = await send_all(producer, payloads(30), **fields)
    await producer.close()
    return [id.partition() for id in ids]


async def test_messages_go_where_the_mode_says(engine: Engine, partitioned: str) -> None:
    async with aio.Client(engine.url) as client:
        turns = await sent_to(client, partitioned)
        assert sorted(turns[:3]) == [0, 1, 2]
        assert turns == turns[:3] * 10
        single = PartitionsRoutingMode.UseSinglePartition
        assert len(set(await sent_to(client, partitioned, message_routing_mode=single))) == 1
        assert len(set(await sent_to(client, partitioned, partition_key="one"))) == 1

        def last(message: Any, partitions: int) -> int:
            assert message.data().startswith(b"message-")
            return partitions - 1

        assert set(await sent_to(client, partitioned, message_router=last)) == {2}


async def test_lazy_producers_connect_to_partitions_when_they_are_used(
    engine: Engine, partitioned: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(partitioned, "s")
        producer = await client.create_producer(partitioned, lazy_start_partitioned_producers=True)
        parts = producer._producer._parts
        assert [part.connection is not None for part in parts].count(True) == 1
        assert producer.is_connected()
        assert producer.producer_name()
        ids = await send_all(producer, payloads(30))
        assert {id.partition() for id in ids} == {0, 1, 2}
        assert all(part.connection is not None for part in parts)
        assert sorted(datas(await receive(consumer, 30))) == payloads(30)


async def test_lazy_producers_of_one_partition_connect_to_that_alone(
    engine: Engine, partitioned: str
) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(
            partitioned,
            lazy_start_partitioned_producers=True,
            message_routing_mode=PartitionsRoutingMode.UseSinglePartition,
        )
        await send_all(producer, payloads(10))
        parts = producer._producer._parts
        assert [part.connection is not None for part in parts].count(True) == 1


async def test_what_lazy_producers_have_taken_is_stored_before_they_close(
    engine: Engine, partitioned: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(partitioned, "s")
        for turn in range(3):
            producer = await client.create_producer(
                partitioned, lazy_start_partitioned_producers=True
            )
            sent = [producer.send(content) for content in payloads(6, 6 * turn)]
            await producer.close()
            await asyncio.gather(*sent)
        assert sorted(datas(await receive(consumer, 18))) == payloads(18)


async def test_a_router_that_names_no_partition_is_told_so(
    engine: Engine, partitioned: str
) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(partitioned, message_router=lambda m, n: n)
        with pytest.raises(UsageError, match="partitions 0 to 2"):
            producer.send(b"x")


@pytest.mark.parametrize("kind", [ConsumerType.Exclusive, ConsumerType.Shared])
async def test_all_partitions_are_received_and_acked(
    engine: Engine, partitioned: str, kind: ConsumerType
) -> None:
    async with aio.Client(engine.url) as client:
        options: dict[str, Any] = {"consumer_type": kind, "initial_position": Earliest}
        await send_all(await client.create_producer(partitioned), payloads(30))
        consumer = await client.subscribe(partitioned, "s", ack_receipt_enabled=True, **options)
        got = await receive(consumer, 30)
        assert sorted(datas(got)) == payloads(30)
        from_bytes = [MessageId.deserialize(m.message_id().serialize()) for m in got[5:10]]
        await consumer.acknowledge([*got[:5], *from_bytes])
        await consumer.acknowledge(got[10:29])
        await consumer.close()
        again = await client.subscribe(partitioned, "s", **options)
        assert datas(await receive(again, 1)) == [got[29].data()]
        await nothing_comes(again)


async def test_a_list_with_an_id_that_cannot_be_acked_acks_nothing(
    engine: Engine, partitioned: str
) -> None:
    """Also if the others are of other partitions."""
    async with aio.Client(engine.url) as client:
        await send_all(await client.create_producer(partitioned), payloads(3))
        consumer = await client.subscribe(
            partitioned, "s", initial_position=Earliest, ack_receipt_enabled=True
        )
        got = await receive(consumer, 3)
        last = got[2].message_id()
        bad = MessageId(last.partition(), last.ledger_id(), last.entry_id(), 5, batch_size=2)
        with pytest.raises(BatchIndexError, match="no index 5 in a batch of 2"):
            await consumer.acknowledge([*got[:2], bad])
        await consumer.close()
        again = await client.subscribe(partitioned, "s")
        assert sorted(datas(await receive(again, 3))) == payloads(3)


async def test_seeks_move_all_partitions_or_the_one_of_the_id(
    engine: Engine, partitioned: str
) -> None:
    async with aio.Client(engine.url) as client:
        ids = await send_all(await client.create_producer(partitioned), payloads(9))
        consumer = await client.subscribe(partitioned, "s", initial_position=Earliest)
        await receive(consumer, 9)
        await consumer.seek(MessageId.earliest)
        await receive(consumer, 9)
        await consumer.seek(0)
        await receive(consumer, 9)
        await consumer.seek(MessageId.latest)
        await nothing_comes(consumer)
        await consumer.seek(ids[0])
        got = await receive(consumer, 2)
        assert {m.message_id().partition() for m in got} == {ids[0].partition()}
        await nothing_comes(consumer)


async def test_partitions_that_are_added_are_found(engine: Engine, partitioned: str) -> None:
    async with aio.Client(engine.url) as client:
        options: dict[str, Any] = {"auto_update_partitions_interval_seconds": 1}
        consumer = await client.subscribe(partitioned, "s", **options)
        producer = await client.create_producer(partitioned, **options)
        assert len(await client.get_topic_partitions(partitioned)) == 3
        await asyncio.to_thread(engine.grow_partitions, partitioned, 5)
        await until(lambda: len(producer._producer._parts) == 5, lambda: "the producer has not")
        await until(lambda: len(consumer._consumer.parts) == 5, lambda: "the consumer has not")
        ids = await send_all(producer, payloads(10))
        assert {id.partition() for id in ids} == set(range(5))
        assert sorted(datas(await receive(consumer, 10))) == payloads(10)


async def test_limits_are_shared_by_all_partitions(engine: Engine, partitioned: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(
            partitioned,
            max_pending_messages_across_partitions=6,
            block_if_queue_full=False,
            message_router=lambda message, partitions: 0,
        )
        sent = [producer.send(b"x"), producer.send(b"x")]
        with pytest.raises(ProducerQueueIsFull):
            producer.send(b"x")
        await asyncio.gather(*sent)
        consumer = await client.subscribe(
            partitioned, "s", max_total_receiver_queue_size_across_partitions=30
        )
        assert consumer.stats().available_permits == 30


async def test_several_topics_are_one_consumer(engine: Engine, topic: str) -> None:
    topics = [f"{topic}-a", f"{topic}-b", f"{topic}-c"]
    engine.make_partitions(topics[2], 2)
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topics, "s", ack_receipt_enabled=True)
        for number, name in enumerate(topics):
            await send_all(await client.create_producer(name), payloads(4, 4 * number))
        got = await receive(consumer, 12)
        assert sorted(datas(got)) == payloads(12)
        await consumer.acknowledge(got[:6])
        await consumer.acknowledge([m.message_id() for m in got[6:]])
        await consumer.acknowledge([])
        with pytest.raises(InvalidConfiguration, match="which of 4 topics"):
            await consumer.acknowledge(MessageId.deserialize(got[0].message_id().serialize()))
        for name in (*topics[:2], f"{topics[2]}-partition-0"):
            stats = await asyncio.to_thread(engine.stats, name)
            assert stats["subscriptions"]["s"]["msgBacklog"] == 0
        await consumer.unsubscribe()


async def test_a_topic_that_is_refused_leaves_no_consumer_on_the_others(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        taken = await client.subscribe(f"{topic}-b", "s")
        with pytest.raises(Exception, match=r"(?i)consumer"):
            await client.subscribe([f"{topic}-a", f"{topic}-b"], "s")
        stats = await asyncio.to_thread(engine.stats, f"{topic}-a")
        assert stats["subscriptions"]["s"]["consumers"] == []
        await taken.close()


async def test_each_topic_has_its_turn(engine: Engine, topic: str) -> None:
    topics = [f"{topic}-a", f"{topic}-b"]
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topics, "s")
        for name in topics:
            await send_all(await client.create_producer(name), payloads(10))
        await until(lambda: consumer.stats().queue_length == 20, lambda: str(consumer.stats()))
        got = [m.topic_name() for m in await receive(consumer, 20)]
        assert got == got[:2] * 10


async def test_an_empty_key_is_none(engine: Engine, partitioned: str) -> None:
    async with aio.Client(engine.url) as client:
        reader = await client.create_reader(partitioned, MessageId.latest)
        assert set(await sent_to(client, partitioned, partition_key="")) == {0, 1, 2}
        message = await reader.read_next(30_000)
        assert message._delivery.metadata.partition_key is None


@pytest.mark.parametrize("turns", range(6))
async def test_a_client_may_be_closed_as_the_last_partition_answers(
    engine: Engine, partitioned: str, turns: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing complains, and nobody looks for more partitions (see conftest)."""
    async with Proxy(engine.one_url) as proxy:
        client = aio.Client(proxy.url)
        answers = 0
        closing: list[asyncio.Task[None]] = []

        async def close() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            await client.close()

        def passes(command: pb.BaseCommand) -> bool:
            nonlocal answers
            answers += command.HasField("success")
            if answers == 3 and not closing:
                closing.append(asyncio.ensure_future(close()))
            return True

        proxy.passes = passes
        with contextlib.suppress(AlreadyClosed):
            await client.subscribe(partitioned, "s")
        await closing[0]
    assert "closed" not in caplog.text
