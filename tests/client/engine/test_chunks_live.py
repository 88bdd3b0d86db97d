"""Messages in chunks between client and broker, ours or Apache's: SEMANTICS of PIP-107."""

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from apache.harness import AGAINST_APACHE
from client.chunk_model import chunk_entries
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

from magnetar import (
    ChunkMessageId,
    CompressionType,
    ConsumerDeadLetterPolicy,
    ConsumerType,
    InitialPosition,
    MessageId,
    MessageTooBig,
)
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.client.network.connection import ClientConnection
from magnetar.protocol import CommandSend, CommandSendReceipt, encode, split_entry
from magnetar.protocol import pulsar_pb2 as pb

EVERY_TYPE = pytest.mark.parametrize(
    "type",
    [
        ConsumerType.Exclusive,
        ConsumerType.Failover,
        ConsumerType.Shared,
        ConsumerType.KeyShared,
    ],
    ids=lambda type: type.name,
)


def content(number: int, size: int = 1000) -> bytes:
    return random.Random(number).randbytes(size)


async def splitter(client: aio.Client, topic: str, size: int = 100, **options: Any) -> aio.Producer:
    """A producer of small chunks."""
    return await client.create_producer(
        topic, chunking_enabled=True, chunk_max_message_size=size, **options
    )


async def subscribe(client: aio.Client, topic: str, **options: Any) -> aio.Consumer:
    options.setdefault("initial_position", InitialPosition.Earliest)
    return await client.subscribe(topic, "sub", **options)


def backlog(engine: Engine, topic: str) -> int:
    return int(engine.stats(topic)["subscriptions"]["sub"]["msgBacklog"])


async def backlog_becomes(engine: Engine, topic: str, count: int) -> None:
    found = -1

    def there() -> bool:
        nonlocal found
        found = backlog(engine, topic)
        return found == count

    await until(there, lambda: f"a backlog of {found}, not {count}")


class RawProducer:
    """Publishes entries as they are: what a producer would not, or not now."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._receipts: asyncio.Queue[CommandSendReceipt] = asyncio.Queue()

    async def publish(self, *entries: bytes) -> list[MessageId]:
        ids = []
        for entry in entries:
            sequence_id = split_entry(entry).metadata().sequence_id
            send = CommandSend(1, sequence_id, entry, is_chunk=True)
            self._connection.write([encode(send)])
            found = (await asyncio.wait_for(self._receipts.get(), 10)).message_id
            assert found is not None
            ids.append(MessageId(-1, found.ledger_id, found.entry_id))
        return ids

    def on_receipt(self, receipt: CommandSendReceipt) -> None:
        self._receipts.put_nowait(receipt)

    def on_send_error(self, error: pb.CommandSendError) -> None:
        raise AssertionError(error)

    def on_ready(self, success: pb.CommandProducerSuccess) -> None:
        pass

    def on_closed(self, connection: ClientConnection) -> None:
        pass

    def on_writable(self) -> None:
        pass


@contextlib.asynccontextmanager
async def raw_producer(engine: Engine, topic: str, name: str) -> AsyncIterator[RawProducer]:
    host, _, port = engine.one_url.removeprefix("pulsar://").partition(":")
    connection = await ClientConnection.open(
        host, int(port), timeout_s=10, connect_timeout_s=10, client_version="raw"
    )
    try:
        producer = RawProducer(connection)
        connection.add_producer(1, producer)
        await connection.request(
            pb.CommandProducer(topic=topic, producer_id=1, request_id=1, producer_name=name),
            pb.CommandProducerSuccess,
        )
        yield producer
    finally:
        connection.close()
        await connection.wait_closed()


# ---- To and fro --------------------------------------------------------------


@EVERY_TYPE
async def test_large_messages_come_whole_and_are_acked_whole(
    engine: Engine, topic: str, type: ConsumerType
) -> None:
    """testLargeMessage: acking the ids moves the subscription over every chunk."""
    contents = [content(number, size) for number, size in enumerate([1, 99, 100, 101, 5000])]
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(client, topic, consumer_type=type)
        producer = await splitter(client, topic)
        ids = await send_all(producer, contents)
        messages = await receive(consumer, 5)
        assert datas(messages) == contents
        assert [message.message_id() for message in messages] == ids
        assert [isinstance(id, ChunkMessageId) for id in ids] == [False] * 3 + [True] * 2
        assert [str(message.message_id()) for message in messages] == [str(id) for id in ids]
        for message in messages:
            await consumer.acknowledge(message)
        await backlog_becomes(engine, topic, 0)
        consumer.redeliver_unacknowledged_messages()
        await nothing_comes(consumer)


@pytest.mark.parametrize(
    "compression",
    [CompressionType.LZ4, CompressionType.ZLib, CompressionType.ZSTD, CompressionType.SNAPPY],
    ids=lambda compression: compression.name,
)
async def test_keys_properties_and_compression_are_those_of_the_message(
    engine: Engine, topic: str, compression: CompressionType
) -> None:
    """testChunkingWithOrderingKey."""
    large = content(1, 3000) + bytes(3000)
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(client, topic)
        producer = await splitter(client, topic, compression_type=compression)
        await producer.send(
            large,
            properties={"a": "b"},
            partition_key="key",
            ordering_key="order",
            event_timestamp=77,
        )
        (message,) = await receive(consumer, 1)
        assert message.data() == large
        assert message.properties() == {"a": "b"}
        assert (message.partition_key(), message.ordering_key()) == ("key", "order")
        assert message.event_timestamp() == 77


def test_the_blocking_door_does_the_same(engine: Engine, topic: str, client: Client) -> None:
    consumer = client.subscribe(topic, "sub")
    producer = client.create_producer(topic, chunking_enabled=True)
    large = content(5, 12 << 20)
    id = producer.send(large)
    assert isinstance(id, ChunkMessageId)
    message = consumer.receive(WAIT_MS)
    assert message.data() == large
    assert message.message_id() == id
    consumer.acknowledge(message)


async def test_without_chunking_a_large_message_is_refused(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic)
        with pytest.raises(MessageTooBig, match="chunking_enabled"):
            await producer.send(bytes(6 << 20))


async def test_a_message_of_100_mib(engine: Engine, topic: str) -> None:
    large = content(1, 1 << 20) * 100
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(client, topic)
        producer = await client.create_producer(topic, chunking_enabled=True)
        id = await producer.send(large)
        (message,) = await receive(consumer, 1)
        assert message.data() == large
        assert message.message_id() == id
        await consumer.acknowledge(message)
        await backlog_becomes(engine, topic, 0)


async def test_partitions_each_have_their_own(engine: Engine, topic: str) -> None:
    engine.make_partitions(topic, 3)
    contents = [content(number) for number in range(9)]
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(client, topic)
        producer = await splitter(client, topic)
        ids = await send_all(producer, contents)
        messages = await receive(consumer, 9)
        assert sorted(datas(messages)) == sorted(contents)
        found = {message.data(): message.message_id() for message in messages}
        assert [found[one] for one in contents] == ids
        await consumer.acknowledge(messages)
        await nothing_comes(consumer)


async def test_a_delayed_message_comes_whole(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(client, topic, consumer_type=ConsumerType.Shared)
        producer = await splitter(client, topic)
        await producer.send(content(1), deliver_after=timedelta(milliseconds=300))
        assert datas(await receive(consumer, 1)) == [content(1)]


# ---- Sharing -----------------------------------------------------------------


async def test_a_message_with_more_chunks_than_the_queue_has_places(
    engine: Engine, topic: str
) -> None:
    """testSingleConsumer (Shared)."""
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(
            client, topic, consumer_type=ConsumerType.Shared, receiver_queue_size=3
        )
        producer = await splitter(client, topic)
        await send_all(producer, [content(number, 2000) for number in range(5)])
        messages = await receive(consumer, 5)
        assert sorted(datas(messages)) == sorted(content(number, 2000) for number in range(5))


@pytest.mark.parametrize("type", [ConsumerType.Shared, ConsumerType.KeyShared])
async def test_all_chunks_of_a_message_go_to_one_consumer(
    engine: Engine, topic: str, type: ConsumerType
) -> None:
    """testMultiConsumers: every message whole, and both consumers used."""
    contents = [content(number, 500) for number in range(60)]
    async with aio.Client(engine.url) as client:
        consumers = [
            await subscribe(client, topic, consumer_type=type, receiver_queue_size=4)
            for _ in range(2)
        ]
        producers = [await splitter(client, topic) for _ in range(3)]
        # So many keys that neither consumer is left without one, whatever their names.
        sent = [
            producers[number % 3].send(one, partition_key=f"k{number % 30}")
            for number, one in enumerate(contents)
        ]
        await asyncio.gather(*sent)
        got: list[bytes] = []
        used = set()

        async def consume(number: int) -> None:
            while len(got) < len(contents):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        message = await consumers[number].receive()
                        await consumers[number].acknowledge(message)
                        got.append(message.data())
                        used.add(number)

        async with asyncio.timeout(20):
            await asyncio.gather(consume(0), consume(1))
        assert sorted(got) == sorted(contents)
        assert used == {0, 1}
        await backlog_becomes(engine, topic, 0)


@pytest.mark.parametrize("type", [ConsumerType.Shared, ConsumerType.KeyShared])
async def test_what_a_consumer_that_leaves_had_goes_whole_to_the_other(
    engine: Engine, topic: str, type: ConsumerType
) -> None:
    async with aio.Client(engine.url) as client:
        first = await subscribe(client, topic, consumer_type=type)
        producer = await splitter(client, topic)
        await send_all(producer, [content(number) for number in range(10)])
        assert len(await receive(first, 10)) == 10
        second = await subscribe(client, topic, consumer_type=type)
        await first.close()
        messages = await receive(second, 10)
        assert sorted(datas(messages)) == sorted(content(number) for number in range(10))
        await second.acknowledge(messages)
        await backlog_becomes(engine, topic, 0)


# ---- Coming again ------------------------------------------------------------


@EVERY_TYPE
async def test_a_refused_message_comes_again_whole(
    engine: Engine, topic: str, type: ConsumerType
) -> None:
    """testNegativeAckChunkedMessage; #25220, #25229."""
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(
            client, topic, consumer_type=type, negative_ack_redelivery_delay_ms=100
        )
        producer = await splitter(client, topic)
        await send_all(producer, [content(1), content(2)])
        messages = await receive(consumer, 2)
        consumer.negative_acknowledge(messages[0].message_id())
        again = await receive(consumer, 1)
        assert again[0].data() in (content(1), content(2))
        assert again[0].message_id() in [message.message_id() for message in messages]


async def test_the_ack_timeout_brings_back_all_chunks(engine: Engine, topic: str) -> None:
    """testLargeMessageAckTimeOut: in order, and a cumulative ack of the last clears all."""
    contents = [content(number) for number in range(3)]
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(client, topic, unacked_messages_timeout_ms=1000)
        producer = await splitter(client, topic)
        await send_all(producer, contents)
        assert datas(await receive(consumer, 3)) == contents
        again = await receive(consumer, 3)
        assert datas(again) == contents
        await consumer.acknowledge_cumulative(again[2])
        await backlog_becomes(engine, topic, 0)


async def test_dead_letters_are_as_large_as_what_died(engine: Engine, topic: str) -> None:
    large = content(1, 6 << 20)
    async with aio.Client(engine.url) as client:
        policy = ConsumerDeadLetterPolicy(1, f"{topic}-dead", "dead-sub")
        consumer = await subscribe(
            client,
            topic,
            consumer_type=ConsumerType.Shared,
            negative_ack_redelivery_delay_ms=100,
            dead_letter_policy=policy,
        )
        producer = await client.create_producer(topic, chunking_enabled=True)
        id = await producer.send(large)
        for _ in range(2):
            (message,) = await receive(consumer, 1)
            consumer.negative_acknowledge(message)
        dead = await client.subscribe(
            f"{topic}-dead", "dead-sub", initial_position=InitialPosition.Earliest
        )
        (letter,) = await receive(dead, 1)
        assert letter.data() == large
        assert letter.properties()["REAL_TOPIC"] == topic
        assert isinstance(id, ChunkMessageId)
        first = id.first_chunk_message_id()
        places = [f"{one.ledger_id()}:{one.entry_id()}:-1" for one in (first, id)]
        assert letter.properties()["ORIGIN_MESSAGE_ID"] == ";".join(places)
        await backlog_becomes(engine, topic, 0)


async def test_retry_letters_too(engine: Engine, topic: str) -> None:
    large = content(1, 6 << 20)
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(
            client, topic, consumer_type=ConsumerType.Shared, retry_enabled=True
        )
        producer = await client.create_producer(topic, chunking_enabled=True)
        await producer.send(large)
        (message,) = await receive(consumer, 1)
        await consumer.reconsume_later(message, timedelta(milliseconds=50))
        (again,) = await receive(consumer, 1)
        assert again.data() == large
        assert again.properties()["RECONSUMETIMES"] == "1"
        await consumer.acknowledge(again)
        await backlog_becomes(engine, topic, 0)


# ---- Cumulative --------------------------------------------------------------


async def test_a_cumulative_ack_does_not_reach_into_a_message_behind_it(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(client, topic)
        small = await client.create_producer(topic)
        entries = chunk_entries(content(1), 400, name="slow")
        async with raw_producer(engine, topic, "slow") as slow:
            await small.send(b"first")
            await slow.publish(entries[0])
            await small.send(b"second")
            await slow.publish(entries[1])
            await small.send(b"third")
            messages = await receive(consumer, 3)
            await consumer.acknowledge_cumulative(messages[2])
            await backlog_becomes(engine, topic, 2)
            await consumer.close()
            consumer = await subscribe(client, topic)
            await slow.publish(entries[2])
            (message,) = await receive(consumer, 1)
            assert message.data() == content(1)
            await consumer.acknowledge_cumulative(message)
            await backlog_becomes(engine, topic, 0)


# ---- Seeking and reading -----------------------------------------------------


async def test_the_example_of_pip_107(engine: Engine, topic: str) -> None:
    """An inclusive seek to a message in chunks receives that message, not the next."""
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(client, topic, start_message_id_inclusive=True)
        producer = await splitter(client, topic)
        id = await producer.send(content(1))
        other = await producer.send(content(2))
        await receive(consumer, 2)
        await consumer.seek(id)
        message = await consumer.receive(WAIT_MS)
        assert message.message_id() == id
        assert (await consumer.receive(WAIT_MS)).message_id() == other


@pytest.mark.parametrize("inclusive", [True, False], ids=["inclusive", "exclusive"])
@pytest.mark.parametrize("kept", ["id", "bytes"])
async def test_seeks_and_readers_land_on_whole_messages(
    engine: Engine, topic: str, inclusive: bool, kept: str
) -> None:
    """testSeekChunkMessages."""
    contents = [content(1), b"small", content(2), content(3), b"end"]
    async with aio.Client(engine.url) as client:
        producer = await splitter(client, topic)
        ids = await send_all(producer, contents)
        if kept == "bytes":
            ids = [MessageId.deserialize(id.serialize()) for id in ids]
        consumer = await subscribe(client, topic, start_message_id_inclusive=inclusive)
        for number in (2, 0, 3, 1):
            first = number if inclusive else number + 1
            await consumer.seek(ids[number])
            assert datas(await receive(consumer, 5 - first)) == contents[first:]
            reader = await client.create_reader(
                topic, ids[number], start_message_id_inclusive=inclusive
            )
            for one in contents[first:]:
                assert (await reader.read_next(WAIT_MS)).data() == one
            assert not await reader.has_message_available()
            await reader.seek(ids[number])
            for one in contents[first:]:
                assert (await reader.read_next(WAIT_MS)).data() == one
            await reader.close()


async def test_an_id_of_an_old_version_begins_behind_its_last_chunk(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        producer = await splitter(client, topic)
        id = await producer.send(content(1))
        await producer.send(content(2))
        assert isinstance(id, ChunkMessageId)
        old = MessageId.deserialize(id.last_chunk_message_id().serialize())
        assert old == id
        reader = await client.create_reader(topic, old)
        assert (await reader.read_next(WAIT_MS)).data() == content(2)


# ---- Lost connections, lost producers ----------------------------------------


async def test_connections_may_break_at_any_time(engine: Engine, topic: str) -> None:
    contents = [content(number, 40_000) for number in range(12)]
    rng = random.Random(7)
    async with through_proxy(engine) as (proxy, client):
        consumer = await subscribe(client, topic, ack_receipt_enabled=True)
        producer = await splitter(client, topic, 1000)

        async def send() -> None:
            for one in contents:
                await producer.send(one)

        sending = asyncio.create_task(send())
        got: list[bytes] = []
        cuts = 6
        while len(set(got)) < len(contents):
            message = await consumer.receive(WAIT_MS)
            got.append(message.data())
            if cuts and rng.random() < 0.7:
                cuts -= 1
                await asyncio.sleep(rng.random() * 0.02)
                proxy.cut()
            with contextlib.suppress(Exception):  # it comes again, and is acked then
                await consumer.acknowledge(message)
        await sending
        assert set(got) == set(contents)
        while backlog(engine, topic):
            try:
                await consumer.acknowledge(await consumer.receive(500))
            except Exception:
                break
        await producer.close()
        await consumer.close()
    async with aio.Client(engine.url) as client:
        # Chunks that were sent twice are acked, and nothing is left.
        consumer = await subscribe(client, topic, expire_time_of_incomplete_chunked_message_ms=200)
        with contextlib.suppress(Exception):
            while True:
                await consumer.acknowledge(await consumer.receive(1000))
        await backlog_becomes(engine, topic, 0)


@pytest.mark.parametrize("type", [ConsumerType.Exclusive, ConsumerType.Shared])
async def test_what_a_producer_that_died_left_is_acked_after_a_while(
    engine: Engine, topic: str, type: ConsumerType
) -> None:
    """Orphans: the beginning, the middle, the end; Go client #1397, #26395."""
    entries = chunk_entries(content(1), 200, name="gone")
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(
            client,
            topic,
            consumer_type=type,
            expire_time_of_incomplete_chunked_message_ms=400,
        )
        producer = await client.create_producer(topic)
        async with raw_producer(engine, topic, "gone") as gone:
            await gone.publish(entries[0], entries[1])
            # Apache's broker hands such ones to nobody, and nothing that is behind them: #26395.
            if AGAINST_APACHE and type == ConsumerType.Shared:
                await gone.publish(*chunk_entries(b"xyz", 1, name="gone", sequence_id=1))
            else:
                tail = chunk_entries(content(2), 200, name="gone", sequence_id=1)[3:]
                await gone.publish(*tail)
            middle = chunk_entries(content(3), 200, name="gone", sequence_id=2)
            await gone.publish(middle[0], middle[2])
        await producer.send(b"next")
        while (message := await consumer.receive(WAIT_MS)).data() != b"next":
            assert message.data() == b"xyz"
            await consumer.acknowledge(message)
        await consumer.acknowledge(message)
        await backlog_becomes(engine, topic, 0)
        await producer.send(b"and another")
        assert datas(await receive(consumer, 1)) == [b"and another"]


@EVERY_TYPE
async def test_chunks_that_were_sent_again_corrupt_nothing(
    engine: Engine, topic: str, type: ConsumerType
) -> None:
    """#21070, #21101; testResendChunkMessages, testResendChunkMessagesWithoutAckHole."""
    one = chunk_entries(content(1), 300, name="a")
    two = chunk_entries(content(2), 300, name="b")
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(client, topic, consumer_type=type, receiver_queue_size=2)
        async with (
            raw_producer(engine, topic, "a") as first,
            raw_producer(engine, topic, "b") as second,
        ):
            await first.publish(one[0], one[1])
            await second.publish(two[0])
            await first.publish(one[0])
            await second.publish(two[1], two[1], two[2])
            await first.publish(one[1], one[1], one[2], one[3])
            await second.publish(two[3])
            messages = await receive(consumer, 2)
            assert datas(messages) == [content(1), content(2)]
            for message in messages:
                await consumer.acknowledge(message)
        await backlog_becomes(engine, topic, 0)
        stats = engine.rest("GET", f"{topic.replace('://', '/')}/internalStats").json()
        assert stats["cursors"]["sub"]["individuallyDeletedMessages"] == "[]"


async def test_bad_chunks_are_refused_and_told_in_the_log(
    engine: Engine, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(client, topic, max_message_size_total=5000)
        bomb = chunk_entries(bytes(100_000), 60, name="bad", kind=CompressionType.ZSTD.value)
        assert len(bomb) < 10
        with caplog.at_level(logging.WARNING, "magnetar.client"):
            async with raw_producer(engine, topic, "bad") as bad:
                await bad.publish(chunk_entries(content(1, 6000), 3000, name="bad")[0])
                await bad.publish(*(bomb if len(bomb) > 1 else []))
                await bad.publish(*chunk_entries(content(2), 500, name="bad", sequence_id=5))
            assert datas(await receive(consumer, 1)) == [content(2)]
        assert "raise max_message_size_total" in caplog.text


# ---- Duplicates --------------------------------------------------------------


async def test_a_message_of_the_same_sequence_id_is_stored_once(
    deduplicating: Engine, topic: str
) -> None:
    """testSendChunkMessageWithSameSequenceID; no orphan is left by the second."""
    async with aio.Client(deduplicating.url) as client:
        consumer = await subscribe(client, topic, expire_time_of_incomplete_chunked_message_ms=300)
        producer = await splitter(client, topic)
        first = await producer.send(content(1), sequence_id=3)
        second = await producer.send(content(1), sequence_id=3)
        assert isinstance(first, ChunkMessageId)
        assert (second.ledger_id(), second.entry_id()) == (-1, -1)
        await producer.send(b"next")
        messages = await receive(consumer, 2)
        assert datas(messages) == [content(1), b"next"]
        await consumer.acknowledge(messages)
        await backlog_becomes(deduplicating, topic, 0)


async def test_numbers_say_that_there_are_chunks(engine: Engine, topic: str) -> None:
    _ = engine.embedded  # Apache's rates are made once a minute
    async with aio.Client(engine.url) as client:
        consumer = await subscribe(client, topic)
        producer = await splitter(client, topic)
        await send_all(producer, [content(1), *payloads(2)])
        await receive(consumer, 3)

        def there() -> bool:
            stats = engine.stats(topic)
            return bool(
                stats["msgChunkPublished"]
                and stats["publishers"][0]["chunkedMessageRate"] > 0
                and stats["subscriptions"]["sub"]["consumers"][0]["chunkedMessageRate"] > 0
            )

        await until(there, lambda: str(engine.stats(topic)))
