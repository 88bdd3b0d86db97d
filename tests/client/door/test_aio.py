"""The asyncio door over a broker: producers and consumers, one topic each."""

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from client.conftest import (
    NEVER_MS,
    WAIT_MS,
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
    BatchingType,
    CompressionType,
    ConsumerBatchReceivePolicy,
    ConsumerBusy,
    ConsumerKeySharedPolicy,
    ConsumerType,
    CumulativeAcknowledgementNotAllowedError,
    InitialPosition,
    KeySharedMode,
    MessageId,
    ProducerAccessMode,
    ProducerBusy,
    ProducerFenced,
    ProducerQueueIsFull,
    Timeout,
)
from magnetar.client.door import aio
from magnetar.client.option.backoff import MultiplierRedeliveryBackoff

pytestmark = pytest.mark.both_engines

TYPES = (
    ConsumerType.Exclusive,
    ConsumerType.Failover,
    ConsumerType.Shared,
    ConsumerType.KeyShared,
)
every_type = pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
Earliest = InitialPosition.Earliest
Shared = ConsumerType.Shared


# ---- Producers ---------------------------------------------------------------


@every_type
@pytest.mark.parametrize("batched", [True, False], ids=["batched", "single"])
async def test_what_is_sent_is_received_in_order(
    engine: Engine, topic: str, kind: ConsumerType, batched: bool
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", consumer_type=kind)
        producer = await client.create_producer(topic, batching_enabled=batched)
        ids = await send_all(producer, payloads(50))
        got = await receive(consumer, 50)
        assert datas(got) == payloads(50)
        assert [m.message_id() for m in got] == ids
        await consumer.acknowledge(got)
        await consumer.close()
        again = await client.subscribe(topic, "s", consumer_type=kind)
        await nothing_comes(again)


async def test_a_batch_is_closed_by_count_by_bytes_and_by_time(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        by_count = await new_batcher(client, topic, 4)
        ids = await asyncio.gather(*(by_count.send(b"x") for _ in range(4)))
        assert {(i.entry_id(), i.batch_size()) for i in ids} == {(ids[0].entry_id(), 4)}

        by_bytes = await new_batcher(client, topic, 1000, batching_max_allowed_size_in_bytes=4000)
        sent = [by_bytes.send(bytes(1000)) for _ in range(5)]
        ids = await asyncio.gather(*sent[:3])
        assert len({i.entry_id() for i in ids}) == 1
        await by_bytes.flush()
        await asyncio.gather(*sent)

        by_time = await client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=20
        )
        ids = await asyncio.gather(*(by_time.send(b"x") for _ in range(3)))
        assert len({i.entry_id() for i in ids}) == 1


async def test_key_based_batches_have_one_key_each(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await new_batcher(client, topic, 100, batching_type=BatchingType.KeyBased)
        sent = {
            (key, n): producer.send(b"%d" % n, partition_key=key) for n in range(5) for key in "ab"
        }
        await producer.flush()
        entries = {key: {(await sent[key, n]).entry_id() for n in range(5)} for key in "ab"}
        assert [len(found) for found in entries.values()] == [1, 1]
        assert entries["a"] != entries["b"]


@pytest.mark.parametrize("kind", list(CompressionType), ids=lambda kind: kind.name)
@pytest.mark.parametrize("batched", [True, False], ids=["batched", "single"])
async def test_every_compression_can_be_read_again(
    engine: Engine, topic: str, kind: CompressionType, batched: bool
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(
            topic, compression_type=kind, batching_enabled=batched
        )
        contents = [b"", b"x", b"again and " * 1000]
        await send_all(producer, contents)
        assert datas(await receive(consumer, 3)) == contents


@pytest.mark.parametrize("batched", [True, False], ids=["batched", "single"])
async def test_what_comes_with_a_message_comes_with_it(
    engine: Engine, topic: str, batched: bool
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(
            topic, producer_name=f"p-{batched}", batching_enabled=batched
        )
        await producer.send(
            b"all",
            properties={"a": "1", "ü": "ß"},
            partition_key="key",
            ordering_key="order",
            event_timestamp=1234,
            sequence_id=77,
        )
        await producer.send(None, partition_key="key")
        whole, empty = await receive(consumer, 2)
        assert whole.properties() == {"a": "1", "ü": "ß"}
        assert (whole.partition_key(), whole.ordering_key()) == ("key", "order")
        assert (whole.event_timestamp(), whole.sequence_id()) == (1234, 77)
        assert whole.producer_name() == producer.producer_name() == f"p-{batched}"
        assert whole.topic_name() == topic
        assert abs(whole.publish_timestamp() - time.time() * 1000) < 60_000
        assert empty.has_null_value()
        assert empty.value() is None
        assert producer.last_sequence_id() == 78


async def test_a_message_is_delivered_when_it_is_due(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", consumer_type=Shared)
        producer = await client.create_producer(topic)
        # Brokers may be early, by a second.
        at_ms = int(time.time() * 1000) + 1400
        await producer.send(b"later", deliver_at=at_ms)
        await producer.send(b"late", deliver_after=timedelta(milliseconds=1200))
        await producer.send(b"now")
        assert datas(await receive(consumer, 1)) == [b"now"]
        assert sorted(datas(await receive(consumer, 2))) == [b"late", b"later"]


async def test_a_subscription_may_be_made_with_the_producer(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic, initial_subscription_name="first")
        await producer.send(b"kept")
        consumer = await client.subscribe(topic, "first")
        assert datas(await receive(consumer, 1)) == [b"kept"]


async def test_access_modes(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        mode = ProducerAccessMode
        alone = await client.create_producer(topic, access_mode=mode.Exclusive)
        with pytest.raises((ProducerFenced, ProducerBusy)):
            await client.create_producer(topic, access_mode=mode.Exclusive)
        waits = asyncio.ensure_future(
            client.create_producer(topic, access_mode=mode.WaitForExclusive)
        )
        await alone.send(b"one")
        assert not waits.done()
        await alone.close()
        second = await waits
        await second.send(b"two")
        fencing = await client.create_producer(topic, access_mode=mode.ExclusiveWithFencing)
        await fencing.send(b"three")
        with pytest.raises((ProducerFenced, AlreadyClosed)):
            await second.send(b"four")


async def test_a_full_queue_refuses_or_waits(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(
            topic, max_pending_messages=5, block_if_queue_full=False
        )
        sent = [producer.send(b"%d" % n) for n in range(5)]
        with pytest.raises(ProducerQueueIsFull, match="max_pending_messages"):
            producer.send(b"too much")
        sent += [await producer.send_when_room(b"%d" % n) for n in range(5, 50)]
        await asyncio.gather(*sent)
        assert datas(await receive(consumer, 50)) == [b"%d" % n for n in range(50)]


async def test_one_name_is_for_one_producer(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await client.create_producer(topic, producer_name="same")
        with pytest.raises(ProducerBusy):
            await client.create_producer(topic, producer_name="same")


async def test_numbers_of_a_producer_go_on_and_what_was_stored_is_not_stored_again(
    deduplicating: Engine, topic: str
) -> None:
    async with aio.Client(deduplicating.url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic, producer_name="p")
        await send_all(producer, payloads(5))
        assert producer.last_sequence_id() == 4
        await producer.close()
    async with aio.Client(deduplicating.url) as client:
        producer = await client.create_producer(topic, producer_name="p")
        assert producer.last_sequence_id() == 4
        for number in (3, 4, 5):
            await producer.send(b"again %d" % number, sequence_id=number)
        await producer.send(b"next")
        await producer.close()
        consumer = await client.subscribe(topic, "s")
        got = datas(await receive(consumer, 7))
        assert got == [*payloads(5), b"again 5", b"next"]
        await nothing_comes(consumer)


async def test_a_producer_counts(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await new_batcher(client, topic, 10)
        await send_all(producer, payloads(20))
        stats = producer.stats()
        assert (stats.messages_sent, stats.messages_stored, stats.entries_written) == (20, 20, 2)
        assert (stats.pending_messages, stats.pending_bytes, stats.messages_failed) == (0, 0, 0)


# ---- Consumers ---------------------------------------------------------------


async def test_receive_ends_when_its_time_is_over(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        with pytest.raises(Timeout, match="10 ms"):
            await consumer.receive(10)
        producer = await client.create_producer(topic)
        await producer.send(b"after all")
        assert datas(await receive(consumer, 1)) == [b"after all"]


async def test_async_for_goes_on_until_the_consumer_is_closed(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        await send_all(await client.create_producer(topic), payloads(5))
        got = []
        async for message in consumer:
            got.append(message.data())
            if len(got) == 5:
                closing = asyncio.ensure_future(consumer.close())
        await closing
        assert got == payloads(5)


async def test_batch_receive_stops_at_each_of_its_limits(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        await send_all(await client.create_producer(topic), payloads(10))
        await until(lambda: consumer.stats().queue_length == 10, lambda: str(consumer.stats()))
        policy = ConsumerBatchReceivePolicy
        by_count = await consumer.batch_receive(policy(4, -1, NEVER_MS))
        assert datas(by_count) == payloads(4)
        by_size = await consumer.batch_receive(policy(-1, 30, NEVER_MS))
        assert datas(by_size) == payloads(3, 4)
        by_time = await consumer.batch_receive(policy(100, -1, 50))
        assert datas(by_time) == payloads(3, 7)
        assert await consumer.batch_receive(policy(100, -1, 50)) == []


async def test_shared_consumers_share_and_key_shared_ones_keep_keys_together(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        shared = [
            await client.subscribe(topic, "s", consumer_type=Shared, receiver_queue_size=5)
            for _ in range(2)
        ]
        sticky = [
            await client.subscribe(
                topic,
                "k",
                consumer_type=ConsumerType.KeyShared,
                key_shared_policy=ConsumerKeySharedPolicy(
                    KeySharedMode.Sticky, sticky_ranges=[(32768 * n, 32768 * n + 32767)]
                ),
            )
            for n in range(2)
        ]
        producer = await client.create_producer(topic)
        for number in range(40):
            await producer.send(b"%d" % number, partition_key=f"k{number % 8}")
        got = await drain(shared, 40)
        assert all(got)
        by_key = await drain(sticky, 40)
        keys = [{m.partition_key() for m in some} for some in by_key]
        assert not keys[0] & keys[1]
        assert keys[0] | keys[1] == {f"k{n}" for n in range(8)}


async def drain(consumers: Sequence[aio.Consumer], count: int) -> list[list[Any]]:
    """Receives and acks by all in turn, until so many have come."""
    got: list[list[Any]] = [[] for _ in consumers]
    while sum(map(len, got)) < count:
        for consumer, some in zip(consumers, got, strict=True):
            try:
                message = await consumer.receive(20)
            except Timeout:
                continue
            await consumer.acknowledge(message)
            some.append(message)
    return got


async def test_a_second_exclusive_consumer_is_refused_and_a_failover_one_takes_over(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        first = await client.subscribe(topic, "x")
        with pytest.raises(ConsumerBusy):
            await client.subscribe(topic, "x")
        await first.close()
        kind = ConsumerType.Failover
        first = await client.subscribe(topic, "f", consumer_type=kind, consumer_name="a")
        second = await client.subscribe(topic, "f", consumer_type=kind, consumer_name="b")
        producer = await client.create_producer(topic)
        await producer.send(b"one")
        receiving = [asyncio.ensure_future(one.receive(WAIT_MS)) for one in (first, second)]
        await asyncio.wait(receiving, return_when=asyncio.FIRST_COMPLETED)
        owner, other = (first, second) if receiving[0].done() else (second, first)
        for task in receiving:
            task.cancel()
        await owner.close()
        await producer.send(b"two")
        assert datas(await receive(other, 2)) == [b"one", b"two"]


async def test_a_message_refused_comes_again_after_its_delay(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(
            topic, "s", consumer_type=Shared, negative_ack_redelivery_delay_ms=100
        )
        await send_all(await client.create_producer(topic), payloads(3))
        got = await receive(consumer, 3)
        consumer.negative_acknowledge(got[1])
        consumer.negative_acknowledge(got[2].message_id())
        await consumer.acknowledge(got[0])
        again = await receive(consumer, 2)
        assert sorted(datas(again)) == payloads(2, 1)
        assert [m.redelivery_count() for m in again] == [1, 1]


async def test_each_refusal_may_wait_longer_than_the_one_before(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=Shared,
            negative_ack_redelivery_backoff=MultiplierRedeliveryBackoff(100, 1000),
        )
        await (await client.create_producer(topic)).send(b"x")
        waits: list[float] = []
        for _ in range(3):
            (message,) = await receive(consumer, 1)
            consumer.negative_acknowledge(message)
            waits.append(time.monotonic())
        (message,) = await receive(consumer, 1)
        waits.append(time.monotonic())
        assert message.redelivery_count() == 3
        assert waits[3] - waits[2] >= 0.3


async def test_what_is_not_acked_in_time_comes_again(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(
            topic, "s", consumer_type=Shared, unacked_messages_timeout_ms=1000
        )
        await send_all(await client.create_producer(topic), payloads(2))
        first, _ = await receive(consumer, 2)
        await consumer.acknowledge(first)
        assert datas(await receive(consumer, 1)) == payloads(1, 1)


@every_type
async def test_everything_that_is_not_acked_can_be_asked_for_again(
    engine: Engine, topic: str, kind: ConsumerType
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", consumer_type=kind)
        await send_all(await new_batcher(client, topic, 5), payloads(10))
        got = await receive(consumer, 7)
        await consumer.acknowledge([got[0], got[6]])
        consumer.redeliver_unacknowledged_messages()
        again = await receive(consumer, 8)
        assert sorted(datas(again)) == sorted(set(payloads(10)) - {got[0].data(), got[6].data()})


async def test_seek_by_id_and_by_time(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic)
        ids = await send_all(producer, payloads(3))
        await asyncio.sleep(0.01)
        middle_ms = int(time.time() * 1000)
        await asyncio.sleep(0.01)
        await send_all(producer, payloads(3, 3))
        behind = await client.subscribe(topic, "s", initial_position=Earliest)
        await receive(behind, 6)
        await behind.seek(ids[1])
        assert datas(await receive(behind, 4)) == payloads(4, 2)
        await behind.seek(middle_ms)
        assert datas(await receive(behind, 3)) == payloads(3, 3)
        await behind.seek(MessageId.earliest)
        assert datas(await receive(behind, 6)) == payloads(6)
        await behind.seek(MessageId.latest)
        await producer.send(b"new")
        assert datas(await receive(behind, 1)) == [b"new"]


async def test_seek_into_a_batch_with_and_without_the_message_itself(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        ids = await send_all(await new_batcher(client, topic, 10), payloads(20))
        for inclusive in (True, False):
            consumer = await client.subscribe(
                topic,
                f"s-{inclusive}",
                initial_position=Earliest,
                start_message_id_inclusive=inclusive,
            )
            await receive(consumer, 20)
            await consumer.seek(ids[4])
            first = 4 if inclusive else 5
            assert datas(await receive(consumer, 20 - first)) == payloads(20 - first, first)
            await consumer.close()


async def test_unsubscribe_ends_the_subscription(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        await consumer.unsubscribe()
        assert engine.stats(topic)["subscriptions"] == {}
        with pytest.raises(AlreadyClosed):
            await consumer.receive()


async def test_the_last_message_of_a_topic(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        ids = await send_all(await new_batcher(client, topic, 3), payloads(3))
        assert await consumer.get_last_message_id() == ids[-1]


async def test_without_a_queue_a_message_is_fetched_for_who_waits(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        options: dict[str, Any] = {"consumer_type": Shared, "receiver_queue_size": 0}
        slow = await client.subscribe(topic, "s", **options)
        fast = await client.subscribe(topic, "s", **options)
        await send_all(await client.create_producer(topic), payloads(10))
        first = await receive(slow, 1)
        assert datas(first) == payloads(1)
        assert datas(await receive(fast, 9)) == payloads(9, 1)
        with pytest.raises(Timeout):
            await fast.receive(20)
        assert fast.stats().available_permits == 1
        await (await client.create_producer(topic)).send(b"x")
        by_slow, by_fast = await drain([slow, fast], 1)
        assert datas([*by_slow, *by_fast]) == [b"x"]


# ---- Acks --------------------------------------------------------------------


@pytest.mark.parametrize("receipts", [True, False], ids=["receipts", "none"])
async def test_a_message_an_id_a_list_and_bytes_can_be_acked(
    engine: Engine, topic: str, receipts: bool
) -> None:
    async with aio.Client(engine.url) as client:
        await send_all(await new_batcher(client, topic, 5), payloads(10))
        consumer = await client.subscribe(
            topic, "s", initial_position=Earliest, ack_receipt_enabled=receipts
        )
        got = await receive(consumer, 10)
        await consumer.acknowledge(got[0])
        await consumer.acknowledge(got[1].message_id())
        await consumer.acknowledge([got[2], got[3].message_id()])
        await consumer.acknowledge(MessageId.deserialize(got[4].message_id().serialize()))
        await consumer.acknowledge([])
        await consumer.acknowledge_cumulative(got[6])
        await consumer.close()
        again = await client.subscribe(topic, "s")
        assert datas(await receive(again, 3)) == payloads(3, 7)
        await nothing_comes(again)


async def test_consumers_that_share_cannot_ack_cumulatively(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", consumer_type=Shared)
        await (await client.create_producer(topic)).send(b"x")
        (message,) = await receive(consumer, 1)
        with pytest.raises(CumulativeAcknowledgementNotAllowedError, match="one by one"):
            await consumer.acknowledge_cumulative(message)


async def test_pip_391_after_a_restart_only_what_was_not_acked_comes(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        await send_all(await new_batcher(client, topic, 3), payloads(3))
        consumer = await client.subscribe(topic, "s", initial_position=Earliest)
        await consumer.acknowledge((await receive(consumer, 3))[0])
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        assert datas(await receive(consumer, 2)) == payloads(2, 1)
        await nothing_comes(consumer)


async def test_pip_391_ids_from_bytes_acked_in_different_places(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await send_all(await new_batcher(client, topic, 3), payloads(3))
        consumer = await client.subscribe(
            topic, "s", initial_position=Earliest, ack_receipt_enabled=True
        )
        stored = [m.message_id().serialize() for m in await receive(consumer, 3)]
        await consumer.close()
    for number, one in enumerate(stored):
        async with aio.Client(engine.url) as client:
            consumer = await client.subscribe(topic, "s", ack_receipt_enabled=True)
            await consumer.acknowledge(MessageId.deserialize(one))
            await consumer.close()
            consumer = await client.subscribe(topic, "s")
            assert datas(await receive(consumer, 2 - number)) == payloads(2 - number, number + 1)
            await consumer.close()
    assert engine.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0


async def test_pip_391_ack_ack_nack_brings_back_exactly_the_refused(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        await send_all(await new_batcher(client, topic, 3), payloads(3))
        consumer = await client.subscribe(
            topic,
            "s",
            initial_position=Earliest,
            consumer_type=Shared,
            negative_ack_redelivery_delay_ms=100,
        )
        got = await receive(consumer, 3)
        await consumer.acknowledge(got[0])
        await consumer.acknowledge(got[2])
        consumer.negative_acknowledge(got[1])
        assert datas(await receive(consumer, 1)) == payloads(1, 1)
        await nothing_comes(consumer)


async def test_a_receipt_says_that_the_ack_is_kept(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await send_all(await client.create_producer(topic), payloads(3))
        consumer = await client.subscribe(
            topic, "s", initial_position=Earliest, ack_receipt_enabled=True
        )
        for message in await receive(consumer, 3):
            await consumer.acknowledge(message)
        assert engine.stats(topic)["subscriptions"]["s"]["msgBacklog"] == 0


async def test_a_consumer_counts(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s", receiver_queue_size=10)
        await send_all(await client.create_producer(topic), payloads(8))
        for message in await receive(consumer, 7):
            await consumer.acknowledge(message)
        await until(lambda: consumer.stats().queue_length == 1, lambda: str(consumer.stats()))
        stats = consumer.stats()
        assert (stats.messages_received, stats.messages_taken, stats.messages_acked) == (8, 7, 7)
        permits = stats.available_permits + stats.unreturned_permits + stats.queue_length
        assert permits == 10


# ---- Clients -----------------------------------------------------------------


async def test_partitions_of_a_topic_can_be_listed(engine: Engine, topic: str) -> None:
    engine.make_partitions(topic, 2)
    async with aio.Client(engine.url) as client:
        assert await client.get_topic_partitions(topic) == [
            f"{topic}-partition-0",
            f"{topic}-partition-1",
        ]
        assert await client.get_topic_partitions(topic + "-other") == [topic + "-other"]


async def test_lookups_may_go_over_http(engine: Engine, topic: str) -> None:
    engine.make_partitions(topic, 2)
    async with aio.Client(engine.http_url) as client:
        consumer = await client.subscribe(topic, "s")
        await send_all(await client.create_producer(topic), payloads(4))
        assert sorted(datas(await receive(consumer, 4))) == payloads(4)
