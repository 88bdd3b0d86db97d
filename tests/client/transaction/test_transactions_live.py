"""Transactions against a real coordinator: all of one counts, or nothing of it does."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Literal

import pytest
from client.conftest import (
    WAIT_MS,
    Engine,
    datas,
    nothing_comes,
    payloads,
    receive,
    send_all,
    through_proxy,
    until,
)
from support.proxy import Proxy

import magnetar
from magnetar import ConsumerType, InitialPosition, MessageId, Timeout
from magnetar.client.door import aio
from magnetar.errors import (
    ConnectError,
    InvalidTxnStatusError,
    TransactionConflict,
    TransactionOutcomeUnknownError,
    TransactionTimeoutError,
    UsageError,
)
from magnetar.protocol import pulsar_pb2 as pb

EVERY_TYPE = [
    ConsumerType.Exclusive,
    ConsumerType.Shared,
    ConsumerType.Failover,
    ConsumerType.KeyShared,
]


@asynccontextmanager
async def connected(engine: Engine) -> AsyncIterator[aio.Client]:
    async with aio.Client(engine.url, initial_backoff_ms=5, max_backoff_ms=50) as client:
        yield client


async def all_that_comes(consumer: aio.Consumer, at_least: int) -> Counter[bytes]:
    """What comes until nothing does; fails if it is too little."""
    got = datas(await receive(consumer, at_least))
    while True:
        try:
            got.append((await consumer.receive(400)).data())
        except Timeout:
            return Counter(got)


# ---- Commit ------------------------------------------------------------------


async def test_messages_of_a_transaction_come_when_it_is_committed_and_not_before(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s")
        async with client.transaction() as txn:
            sent = [await producer.send(content, transaction=txn) for content in payloads(3)]
            await nothing_comes(consumer)
            assert txn.state == "open"
        assert txn.state == "committed"
        got = await receive(consumer, 3)
        assert datas(got) == payloads(3)
        assert [message.message_id() for message in got] == sent


async def test_a_commit_waits_for_sends_that_nobody_awaits(coordinated: Engine, topic: str) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(
            topic, batching_enabled=True, max_pending_messages=10
        )
        consumer = await client.subscribe(topic, "s")
        async with client.transaction() as txn:
            for content in payloads(200):
                producer.send(content, transaction=txn)  # most of them have no room yet
        assert datas(await receive(consumer, 200)) == payloads(200)


async def test_several_topics_and_partitions_are_one_transaction(
    coordinated: Engine, topic: str
) -> None:
    coordinated.make_partitions(topic, 3)
    async with connected(coordinated) as client:
        many = await client.create_producer(topic)
        one = await client.create_producer(topic + "-other")
        consumer = await client.subscribe([topic, topic + "-other"], "s")
        async with client.transaction() as txn:
            for number, content in enumerate(payloads(9)):
                many.send(content, partition_key=f"key-{number}", transaction=txn)
            one.send(b"beside", transaction=txn)
            await many.flush()
            await one.flush()
            await nothing_comes(consumer)
        got = datas(await receive(consumer, 10))
        assert sorted(got) == sorted([*payloads(9), b"beside"])


async def test_messages_of_one_transaction_share_batches_with_no_others(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
        )
        first, second = await client.transaction(), await client.transaction()
        # Both know the topic, so that nothing is held back.
        for txn in (first, second):
            producer.send(b"hello", transaction=txn)
            await producer.flush()
        sent = []
        for its in (None, None, first, first, second, None, first):
            sent.append(producer.send(b"x", transaction=its))
        await producer.flush()
        ids = await asyncio.gather(*sent)
        entries = [(id.entry_id() - ids[0].entry_id(), id.batch_index()) for id in ids]
        assert entries == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 0), (4, 0)]
        await first.commit()
        await second.abort()


async def test_acks_of_a_committed_transaction_never_come_back(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
        )
        await send_all(producer, payloads(10))  # one batch
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            ack_receipt_enabled=True,
        )
        got = await receive(consumer, 10)
        async with client.transaction() as txn:
            await consumer.acknowledge(got[0], transaction=txn)
            await consumer.acknowledge(got[2].message_id(), transaction=txn)
            await consumer.acknowledge(got[4:7], transaction=txn)
        await consumer.acknowledge(got[1])
        await consumer.close()
        again = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        left = [payloads(10)[at] for at in (3, 7, 8, 9)]
        assert datas(await receive(again, 4)) == left
        await nothing_comes(again)


@pytest.mark.parametrize("kind", EVERY_TYPE, ids=lambda kind: kind.name)
async def test_consume_transform_produce_counts_once_on_every_type(
    coordinated: Engine, topic: str, kind: ConsumerType
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(topic)
        outputs = await client.create_producer(topic + "-out")
        reader = await client.subscribe(topic + "-out", "r")
        for number, content in enumerate(payloads(6)):
            await producer.send(content, partition_key=f"k{number}")
        consumer = await client.subscribe(
            topic, "s", consumer_type=kind, initial_position=InitialPosition.Earliest
        )
        for number in range(6):
            (message,) = await receive(consumer, 1)
            async with client.transaction() as txn:
                outputs.send(b"out-" + message.data(), transaction=txn)
                await consumer.acknowledge(message, transaction=txn)
            assert txn.state == "committed", number
        wanted = Counter(b"out-" + content for content in payloads(6))
        assert await all_that_comes(reader, 6) == wanted
        await consumer.close()
        again = await client.subscribe(topic, "s", consumer_type=kind)
        await nothing_comes(again)


async def test_a_cumulative_ack_counts_with_its_transaction(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(topic)
        await send_all(producer, payloads(6))
        consumer = await client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
        got = await receive(consumer, 3)
        txn = await client.transaction()
        await consumer.acknowledge_cumulative(got[2], transaction=txn)
        await txn.abort()
        assert datas(await receive(consumer, 6)) == payloads(6)
        async with client.transaction() as txn:
            await consumer.acknowledge_cumulative(got[2].message_id(), transaction=txn)
        await consumer.close()
        again = await client.subscribe(topic, "s")
        assert datas(await receive(again, 3)) == payloads(3, 3)


async def test_messages_in_chunks_are_sent_and_acked_in_a_transaction(
    coordinated: Engine, topic: str
) -> None:
    large = bytes(range(256)) * 400
    async with connected(coordinated) as client:
        producer = await client.create_producer(
            topic, chunking_enabled=True, batching_enabled=False, chunk_max_message_size=20_000
        )
        consumer = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        async with client.transaction() as txn:
            producer.send(large, transaction=txn)
        (message,) = await receive(consumer, 1)
        assert message.data() == large
        txn = await client.transaction()
        await consumer.acknowledge(message, transaction=txn)
        await txn.abort()
        (message,) = await receive(consumer, 1)
        assert message.data() == large
        async with client.transaction() as txn:
            await consumer.acknowledge(message, transaction=txn)
        await consumer.close()
        again = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        await nothing_comes(again)


async def test_delayed_messages_of_a_transaction_come_at_their_time_once_it_is_committed(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        at_ms = int(time.time() * 1000) + 1500
        async with client.transaction() as txn:
            producer.send(b"later", deliver_at=at_ms, transaction=txn)
            producer.send(b"now", transaction=txn)
        aborted = await client.transaction()
        await producer.send(b"never", deliver_at=at_ms, transaction=aborted)
        await aborted.abort()
        assert datas(await receive(consumer, 2)) == [b"now", b"later"]
        assert time.time() * 1000 >= at_ms
        await nothing_comes(consumer)


async def test_a_retry_letter_and_the_ack_of_its_message_are_one_transaction(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(topic)
        await producer.send(b"m")
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            retry_enabled=True,
        )
        (message,) = await receive(consumer, 1)
        txn = await client.transaction()
        await consumer.reconsume_later(message, timedelta(0), transaction=txn)
        await nothing_comes(consumer)
        await txn.abort()
        (message,) = await receive(consumer, 1)
        assert message.topic_name() == topic
        async with client.transaction() as txn:
            await consumer.reconsume_later(message, timedelta(0), transaction=txn)
        (letter,) = await receive(consumer, 1)
        assert (letter.data(), letter.topic_name()) != (b"m", topic)
        await consumer.acknowledge(letter)
        await consumer.close()
        again = await client.subscribe(
            topic, "s", consumer_type=ConsumerType.Shared, retry_enabled=True
        )
        await nothing_comes(again)


# ---- Abort -------------------------------------------------------------------


class Oops(Exception):
    """What went wrong in a block."""


@pytest.mark.parametrize("kind", EVERY_TYPE, ids=lambda kind: kind.name)
async def test_an_exception_aborts_and_goes_through_and_what_was_acked_comes_again(
    coordinated: Engine, topic: str, kind: ConsumerType
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(topic)
        outputs = await client.create_producer(topic + "-out")
        reader = await client.subscribe(topic + "-out", "r")
        for content in payloads(4):
            await producer.send(content, partition_key=content.decode())
        consumer = await client.subscribe(
            topic, "s", consumer_type=kind, initial_position=InitialPosition.Earliest
        )
        got = await receive(consumer, 4)
        with pytest.raises(Oops) as raised:  # noqa: PT012  it is the block that raises
            async with client.transaction() as txn:
                await outputs.send(b"never", transaction=txn)
                await consumer.acknowledge(got, transaction=txn)
                raise Oops("the block")
        assert txn.state == "aborted"
        assert not hasattr(raised.value, "__notes__")
        again = await receive(consumer, 4)
        assert sorted(datas(again)) == payloads(4)
        await nothing_comes(consumer)
        async with client.transaction() as txn:
            await consumer.acknowledge(again, transaction=txn)
            await outputs.send(b"once", transaction=txn)
        assert datas(await receive(reader, 1)) == [b"once"]
        await nothing_comes(reader)


async def test_part_of_a_batch_comes_again_after_an_abort_though_the_rest_is_queued(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
        )
        await send_all(producer, payloads(10))
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            ack_receipt_enabled=True,
        )
        got = await receive(consumer, 5)
        txn = await client.transaction()
        await consumer.acknowledge(got[:2], transaction=txn)
        await txn.abort()
        # Those that the application still had come with the rest of their entry.
        assert await all_that_comes(consumer, 10) == Counter(payloads(10))


@pytest.mark.parametrize("aborted_first", [False, True])
async def test_who_acks_the_rest_of_a_batch_does_not_ack_what_a_transaction_has_of_it(
    coordinated: Engine, topic: str, aborted_first: bool
) -> None:
    async with connected(coordinated) as client, connected(coordinated) as other:
        first = await client.subscribe(
            topic, "s", consumer_type=ConsumerType.Shared, ack_receipt_enabled=True
        )
        producer = await client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=60_000
        )
        await send_all(producer, payloads(3))
        txn = await client.transaction()
        message = await first.receive(5000)
        await first.acknowledge(message, transaction=txn)
        await first.close()
        second = await other.subscribe(
            topic, "s", consumer_type=ConsumerType.Shared, ack_receipt_enabled=True
        )
        rest = await receive(second, 2)
        if aborted_first:
            await txn.abort()
        for one in rest:
            await second.acknowledge(one)
        if not aborted_first:
            await txn.abort()
        await second.close()
        third = await other.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        assert await all_that_comes(third, 1) == Counter([message.data()])


async def test_what_a_crashed_client_acked_comes_again_when_the_time_is_over(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(topic)
        await send_all(producer, payloads(2))
        async with connected(coordinated) as other:
            consumer = await other.subscribe(
                topic,
                "s",
                consumer_type=ConsumerType.Shared,
                initial_position=InitialPosition.Earliest,
                ack_receipt_enabled=True,
            )
            got = await receive(consumer, 2)
            txn = await other.transaction(timeout=1)
            await consumer.acknowledge(got, transaction=txn)
            await other.shutdown()
        again = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        assert sorted(datas(await receive(again, 2))) == payloads(2)


# ---- What goes wrong ---------------------------------------------------------


async def test_a_second_transaction_that_acks_the_same_message_is_aborted(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client, connected(coordinated) as other:
        producer = await client.create_producer(topic)
        outputs = await other.create_producer(topic + "-out")
        reader = await client.subscribe(topic + "-out", "r")
        await producer.send(b"m")
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            ack_receipt_enabled=True,
        )
        beside = await other.subscribe(
            topic, "s", consumer_type=ConsumerType.Shared, ack_receipt_enabled=True
        )
        taken: list[aio.Consumer] = []
        for one in (consumer, beside):
            try:
                message = await one.receive(1000)
                taken.append(one)
            except Timeout:
                pass
        (holder,) = taken
        first = await (client if holder is consumer else other).transaction()
        await holder.acknowledge(message, transaction=first)
        stranger = beside if holder is consumer else consumer
        second = await (other if holder is consumer else client).transaction()
        sender = outputs
        if stranger is consumer:
            sender = await client.create_producer(topic + "-out")
        sender.send(b"doubled", transaction=second)
        id = MessageId.deserialize(message.message_id().serialize())
        with pytest.raises(TransactionConflict):
            await stranger.acknowledge(id, transaction=second)
        with pytest.raises(TransactionConflict) as raised:
            await second.commit()
        assert second.state == "aborted"
        assert any("was aborted for this" in note for note in raised.value.__notes__)
        await first.commit()
        await nothing_comes(reader)


async def test_what_was_acked_in_an_open_transaction_cannot_be_acked_beside_it(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(topic)
        await producer.send(b"m")
        consumer = await client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
        (message,) = await receive(consumer, 1)
        async with client.transaction() as txn:
            await consumer.acknowledge(message, transaction=txn)
            await consumer.acknowledge(message, transaction=txn)  # says it twice, no more
            with pytest.raises(TransactionConflict, match="which is open"):
                await consumer.acknowledge(message)
            beside = await client.transaction()
            with pytest.raises(TransactionConflict, match="which is open"):
                await consumer.acknowledge(message, transaction=beside)
            await beside.abort()
        assert txn.state == "committed"


async def test_a_negative_ack_in_the_middle_keeps_the_transaction_from_being_committed(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(topic)
        await send_all(producer, payloads(2))
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            ack_receipt_enabled=True,
        )
        got = await receive(consumer, 2)
        txn = await client.transaction()
        await consumer.acknowledge(got, transaction=txn)
        consumer.negative_acknowledge(got[0])
        with pytest.raises(magnetar.Interrupted, match="negative ack"):
            await txn.commit()
        assert txn.state == "aborted"
        assert sorted(datas(await receive(consumer, 2))) == payloads(2)


async def test_a_seek_in_the_middle_keeps_the_transaction_from_being_committed(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(topic)
        await send_all(producer, payloads(3))
        consumer = await client.subscribe(
            topic, "s", initial_position=InitialPosition.Earliest, ack_receipt_enabled=True
        )
        got = await receive(consumer, 3)
        txn = await client.transaction()
        await consumer.acknowledge(got[:2], transaction=txn)
        await consumer.seek(MessageId.earliest)
        with pytest.raises(magnetar.Interrupted, match="seek"):
            await txn.commit()
        assert txn.state == "aborted"


async def test_a_transaction_whose_time_is_over_is_aborted_and_says_so(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(topic)
        outputs = await client.create_producer(topic + "-out")
        reader = await client.subscribe(topic + "-out", "r")
        await producer.send(b"m")
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            ack_receipt_enabled=True,
        )
        txn = await client.transaction(timeout=0.5)
        await outputs.send(b"late", transaction=txn)
        await consumer.acknowledge(await receive(consumer, 1), transaction=txn)
        await consumer.close()
        # What it had acked comes again: the broker has aborted it.
        again = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        assert datas(await receive(again, 1)) == [b"m"]
        with pytest.raises(TransactionTimeoutError, match="500 ms"):
            outputs.send(b"later", transaction=txn)
        with pytest.raises(TransactionTimeoutError, match="500 ms"):
            await txn.commit()
        assert txn.state == "aborted"
        await nothing_comes(reader)


async def test_an_ended_transaction_takes_nothing_more(coordinated: Engine, topic: str) -> None:
    async with connected(coordinated) as client, connected(coordinated) as other:
        producer = await client.create_producer(topic)
        async with client.transaction() as txn:
            producer.send(b"m", transaction=txn)
        with pytest.raises(InvalidTxnStatusError, match="is committed"):
            producer.send(b"n", transaction=txn)
        with pytest.raises(InvalidTxnStatusError, match="is committed"):
            await txn.abort()
        theirs = await other.transaction()
        with pytest.raises(UsageError, match="another client's"):
            producer.send(b"n", transaction=theirs)
        with pytest.raises(UsageError, match="expected what"):
            producer.send(b"n", transaction=5)  # type: ignore[arg-type]
        await theirs.abort()


def without(
    field: Literal["endTxnResponse", "ackResponse", "send_receipt"], proxy: Proxy
) -> list[str]:
    """The proxy loses answers of this kind, and breaks the connection; which ones it lost."""
    lost: list[str] = []

    def passes(command: pb.BaseCommand) -> bool:
        if not command.HasField(field):
            return True
        lost.append(field)
        proxy.cut()
        return False

    proxy.passes = passes
    return lost


async def test_a_commit_whose_answer_is_lost_is_asked_for_again_by_the_same_id(
    coordinated: Engine, topic: str
) -> None:
    async with through_proxy(coordinated, operation_timeout_seconds=3) as (proxy, client):
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s")
        txn = await client.transaction()
        await producer.send(b"m", transaction=txn)
        lost = without("endTxnResponse", proxy)
        with pytest.raises(TransactionOutcomeUnknownError, match="All of it counts or nothing"):
            await txn.commit()
        assert lost
        assert txn.state == "unknown"
        with pytest.raises(InvalidTxnStatusError, match="call commit again"):
            await txn.abort()
        ends = [one.endTxn for one in proxy.heard if one.HasField("endTxn")]
        assert len({(one.txnid_most_bits, one.txnid_least_bits) for one in ends}) == 1
        assert datas(await receive(consumer, 1)) == [b"m"]  # here it was done


async def test_what_may_be_committed_is_never_called_not_committed(
    coordinated: Engine, topic: str
) -> None:
    """Whoever was told so once would do it again, and both would count."""
    async with through_proxy(coordinated, operation_timeout_seconds=2) as (proxy, client):
        producer = await client.create_producer(topic)
        txn = await client.transaction()
        await producer.send(b"m", transaction=txn)
        without("endTxnResponse", proxy)
        with pytest.raises(TransactionOutcomeUnknownError):
            await txn.commit()
        await proxy.__aexit__()  # nobody is there any more
        with pytest.raises(TransactionOutcomeUnknownError, match="not known"):
            await txn.commit()
        assert txn.state == "unknown"


async def test_a_commit_whose_answer_is_lost_once_is_known_where_the_broker_remembers(
    coordinated: Engine, topic: str
) -> None:
    """Apache Pulsar forgets what has ended; ours says it again."""
    async with through_proxy(coordinated, operation_timeout_seconds=20) as (proxy, client):
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s")
        txn = await client.transaction()
        await producer.send(b"m", transaction=txn)
        passes_all = proxy.passes
        lost: list[str] = []

        def once(command: pb.BaseCommand) -> bool:
            if not command.HasField("endTxnResponse"):
                return True
            lost.append("endTxnResponse")
            proxy.passes = passes_all
            proxy.cut()
            return False

        proxy.passes = once
        if coordinated.is_ours:
            await txn.commit()
            assert txn.state == "committed"
        else:
            with pytest.raises(TransactionOutcomeUnknownError):
                await txn.commit()
        assert len(lost) == 1
        assert datas(await receive(consumer, 1)) == [b"m"]


async def test_a_message_whose_receipt_is_lost_is_never_there_twice(
    coordinated: Engine, topic: str
) -> None:
    async with through_proxy(coordinated) as (proxy, client), connected(coordinated) as direct:
        reader = await direct.subscribe(topic, "r")
        producer = await client.create_producer(topic)
        async with client.transaction() as txn:
            await producer.send(b"first", transaction=txn)
        passes_all = proxy.passes
        lost = without("send_receipt", proxy)
        txn = await client.transaction()
        sent = producer.send(b"doubtful", transaction=txn)
        await until(lambda: len(lost) > 0, lambda: "no receipt was lost")
        proxy.passes = passes_all
        with pytest.raises(magnetar.Interrupted, match="would be there twice"):
            await sent
        with pytest.raises(magnetar.Interrupted, match="would be there twice"):
            await txn.commit()
        assert txn.state == "aborted"
        async with client.transaction() as txn:
            producer.send(b"doubtful", transaction=txn)
        assert await all_that_comes(reader, 2) == Counter([b"first", b"doubtful"])


async def test_answers_to_acks_that_are_lost_never_split_a_transaction(
    coordinated: Engine, topic: str
) -> None:
    async with through_proxy(coordinated) as (proxy, client), connected(coordinated) as direct:
        producer = await direct.create_producer(topic)
        reader = await direct.subscribe(topic + "-out", "r")
        await send_all(producer, payloads(3))
        outputs = await client.create_producer(topic + "-out")
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
        )
        done: list[bytes] = []
        passes_all = proxy.passes
        lost = without("ackResponse", proxy)
        while len(done) < 3:
            (message,) = await receive(consumer, 1)
            try:
                async with client.transaction() as txn:
                    outputs.send(message.data(), transaction=txn)
                    await consumer.acknowledge(message, transaction=txn)
                    if proxy.passes is not passes_all:
                        await until(lambda: len(lost) > 0, lambda: "no answer was lost")
                        proxy.passes = passes_all
            except (TransactionConflict, Timeout, ConnectError):
                assert txn.state == "aborted"
            else:
                done.append(message.data())
        assert lost
        assert await all_that_comes(reader, 3) == Counter(payloads(3))
        await consumer.close()
        again = await direct.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        await nothing_comes(again)


async def test_topics_that_are_unloaded_in_the_middle_go_on_in_the_same_transaction(
    coordinated: Engine, topic: str
) -> None:
    async with connected(coordinated) as client:
        producer = await client.create_producer(topic)
        outputs = await client.create_producer(topic + "-out")
        reader = await client.subscribe(topic + "-out", "r")
        await send_all(producer, payloads(4))
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            ack_receipt_enabled=True,
        )
        got = await receive(consumer, 4)
        async with client.transaction() as txn:
            await outputs.send(b"before", transaction=txn)
            await consumer.acknowledge(got[:2], transaction=txn)
            await asyncio.to_thread(coordinated.unload, topic)
            await asyncio.to_thread(coordinated.unload, topic + "-out")
            await outputs.send(b"after", transaction=txn)
            await consumer.acknowledge(got[2:], transaction=txn)
        assert datas(await receive(reader, 2)) == [b"before", b"after"]
        await consumer.close()
        again = await client.subscribe(topic, "s", consumer_type=ConsumerType.Shared)
        await nothing_comes(again)


async def test_messages_on_their_way_while_their_topic_is_unloaded_are_there_once(
    coordinated: Engine, topic: str
) -> None:
    if not coordinated.is_ours:
        pytest.skip("Apache Pulsar closes producers without the receipts of what it has stored")
    contents = payloads(2000)
    async with connected(coordinated) as client:
        reader = await client.subscribe(topic, "r")
        producer = await client.create_producer(topic, max_pending_messages=0)
        async with client.transaction() as txn:

            async def publish() -> None:
                for content in contents:
                    producer.send(content, transaction=txn)
                    await asyncio.sleep(0)

            publishing = asyncio.create_task(publish())
            for _ in range(5):
                await asyncio.to_thread(coordinated.unload, topic)
            await publishing
        assert await all_that_comes(reader, 2000) == Counter(contents)


async def test_the_coordinators_connection_is_made_again_when_it_breaks(
    coordinated: Engine, topic: str
) -> None:
    async with through_proxy(coordinated) as (proxy, client):
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s")
        for content in payloads(3):
            async with client.transaction() as txn:
                producer.send(content, transaction=txn)
                proxy.cut()
        assert datas(await receive(consumer, 3)) == payloads(3)


# ---- The blocking door -------------------------------------------------------


def test_the_blocking_door_has_transactions_too(coordinated: Engine, topic: str) -> None:
    with magnetar.Client(coordinated.url) as client:
        producer = client.create_producer(topic)
        outputs = client.create_producer(topic + "-out", batching_enabled=True)
        reader = client.subscribe(topic + "-out", "r")
        consumer = client.subscribe(topic, "s", initial_position=InitialPosition.Earliest)
        producer.send(b"m")
        message = consumer.receive(WAIT_MS)
        with pytest.raises(Oops), client.transaction() as txn:  # noqa: PT012  the block raises
            consumer.acknowledge(message, transaction=txn)
            outputs.send(b"never", transaction=txn)
            raise Oops("the block")
        assert txn.state == "aborted"
        message = consumer.receive(WAIT_MS)
        told: list[object] = []
        with client.transaction() as txn:
            for number in range(20):
                outputs.send_async(
                    b"%d" % number, lambda result, id: told.append(result), transaction=txn
                )
            consumer.acknowledge_cumulative(message, transaction=txn)
        assert [reader.receive(WAIT_MS).data() for _ in range(20)] == [
            b"%d" % number for number in range(20)
        ]
        assert txn.state == "committed"


def test_the_blocking_door_raises_what_went_wrong(coordinated: Engine, topic: str) -> None:
    with magnetar.Client(coordinated.url) as client, magnetar.Client(coordinated.url) as other:
        producer = client.create_producer(topic)
        reader = client.subscribe(topic + "-out", "r")
        outputs = client.create_producer(topic + "-out")
        consumer = client.subscribe(
            topic,
            "s",
            consumer_type=ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            ack_receipt_enabled=True,
        )
        producer.send(b"m")
        message = consumer.receive(WAIT_MS)
        first, second = client.transaction(), client.transaction()
        consumer.acknowledge(message, transaction=first)
        outputs.send(b"doubled", transaction=second)
        with pytest.raises(TransactionConflict):
            consumer.acknowledge(message, transaction=second)
        second.abort()
        first.commit()
        with pytest.raises(InvalidTxnStatusError, match="is committed"):
            first.commit()
        with pytest.raises(UsageError, match="another client's"):
            outputs.send(b"n", transaction=other.transaction())
        late = client.transaction(timeout=0.2)
        outputs.send(b"late", transaction=late)
        beside = other.create_producer(topic + "-out")
        # As soon as nothing holds them back, later messages come.
        beside.send(b"after")
        assert reader.receive(WAIT_MS).data() == b"after"
        with pytest.raises(TransactionTimeoutError, match="200 ms"):
            late.commit()
        producer.send(b"n")
        message = consumer.receive(WAIT_MS)
        with client.transaction() as txn:
            consumer.acknowledge(message.message_id(), transaction=txn)
            outputs.send(b"once", transaction=txn)
        assert reader.receive(WAIT_MS).data() == b"once"
