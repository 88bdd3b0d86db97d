"""Messages in chunks at the end of a topic: readers come to an end, and seeks land on them.

With an id from elsewhere, and of the official client too.
"""

from typing import Any

import pulsar
import pytest
from client.chunk_model import chunk_entries
from client.conftest import WAIT_MS, Engine, datas, nothing_comes, receive, send_all
from client.engine.test_chunks_live import (
    EVERY_TYPE,
    backlog,
    backlog_becomes,
    content,
    raw_producer,
    splitter,
    subscribe,
)
from client.engine.test_chunks_peer import official as official_client

from magnetar import ChunkMessageId, ConsumerType, MessageId
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client

official = official_client
LARGE = content(9, 6 << 20)
AT_THE_END: dict[str, Any] = {
    "start_message_id": MessageId.latest,
    "start_message_id_inclusive": True,
}


async def rest_of(reader: aio.Reader) -> list[bytes]:
    got = []
    while await reader.has_message_available():
        got.append((await reader.read_next(WAIT_MS)).data())
    return got


async def leave_orphans(engine: Engine, topic: str, count: int = 2) -> list[MessageId]:
    """The first chunks of a message whose producer then died."""
    async with raw_producer(engine, topic, "gone") as gone:
        return await gone.publish(*chunk_entries(content(7), 200, name="gone")[:count])


# ---- Readers -----------------------------------------------------------------


async def test_a_reader_may_begin_with_the_last_message_though_it_is_in_chunks(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        producer = await splitter(client, topic)
        await send_all(producer, [b"before", content(1)])
        reader = await client.create_reader(topic, **AT_THE_END)
        assert await rest_of(reader) == [content(1)]
        await leave_orphans(engine, topic)
        await reader.seek(MessageId.latest)
        assert await rest_of(reader) == [content(1)]


@pytest.mark.both_engines
@pytest.mark.parametrize("queue_size", [1000, 1])
async def test_a_reader_comes_to_an_end_where_the_last_message_was_never_finished(
    engine: Engine, topic: str, queue_size: int
) -> None:
    async with aio.Client(engine.url) as client:
        producer = await splitter(client, topic)
        await send_all(producer, [b"before", content(1)])
        await leave_orphans(engine, topic)
        early = await client.create_reader(
            topic, MessageId.earliest, receiver_queue_size=queue_size
        )
        assert await rest_of(early) == [b"before", content(1)]
        late = await client.create_reader(topic, MessageId.latest)
        assert await rest_of(late) == []
        await producer.send(b"behind")
        assert await rest_of(early) == [b"behind"]
        assert await rest_of(late) == [b"behind"]


@pytest.mark.both_engines
async def test_a_reader_that_begins_inside_of_a_message_comes_to_an_end(
    engine: Engine, topic: str
) -> None:
    """Of the last message it gets the end only, which is nothing to read."""
    async with aio.Client(engine.url) as client:
        producer = await splitter(client, topic)
        id = await producer.send(content(1))
        assert isinstance(id, ChunkMessageId)
        inside = MessageId(-1, id.ledger_id(), id.entry_id() - 1)
        reader = await client.create_reader(topic, inside)
        assert await rest_of(reader) == []
        await producer.send(b"behind")
        assert await rest_of(reader) == [b"behind"]


async def test_a_reader_whose_messages_were_cleared_comes_to_an_end(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic, batching_enabled=False)
        ids = await send_all(producer, [b"a", b"b", b"c"])
        reader = await client.create_reader(
            topic, ids[0], receiver_queue_size=0, subscription_role_prefix="mine"
        )
        assert (await reader.read_next(WAIT_MS)).data() == b"b"
        assert await reader.has_message_available()

        def clear(server: Any) -> None:
            for subscription in server.broker.topics[topic].subscriptions.values():
                subscription.clear()

        engine.call(clear)
        assert not await reader.has_message_available()


def test_the_blocking_reader_begins_with_the_last_message_in_chunks(
    client: Client, topic: str
) -> None:
    producer = client.create_producer(topic, chunking_enabled=True, chunk_max_message_size=100)
    producer.send(b"before")
    producer.send(content(1))
    reader = client.create_reader(topic, **AT_THE_END)
    assert reader.has_message_available()
    assert reader.read_next(WAIT_MS).data() == content(1)
    assert not reader.has_message_available()
    reader.close()


# ---- Seeks -------------------------------------------------------------------


@EVERY_TYPE
async def test_an_inclusive_seek_to_the_last_message_brings_it_whole(
    engine: Engine, topic: str, type: ConsumerType
) -> None:
    async with aio.Client(engine.url) as client:
        producer = await splitter(client, topic)
        await send_all(producer, [b"before", content(1)])
        await leave_orphans(engine, topic)
        consumer = await subscribe(
            client, topic, consumer_type=type, start_message_id_inclusive=True
        )
        last = await consumer.get_last_message_id()
        assert isinstance(last, ChunkMessageId)
        await consumer.seek(last)
        message = await consumer.receive(WAIT_MS)
        assert message.data() == content(1)
        await consumer.acknowledge(message)
        await backlog_becomes(engine, topic, 2)  # the orphans


@EVERY_TYPE
async def test_an_exclusive_seek_leaves_nothing_unacked_that_is_not_delivered(
    engine: Engine, topic: str, type: ConsumerType
) -> None:
    contents = [content(1), b"single", b"zero", b"one", b"two", content(2), b"end"]
    async with aio.Client(engine.url) as client:
        chunked = await splitter(client, topic)
        ids = await send_all(chunked, contents[:2])
        batched = await client.create_producer(topic, batching_max_publish_delay_ms=60_000)
        waiting = [batched.send(one) for one in contents[2:5]]
        await batched.flush()
        ids += [await one for one in waiting]
        ids += await send_all(chunked, contents[5:])
        consumer = await subscribe(client, topic, consumer_type=type, receiver_queue_size=20)
        for number in (5, 0, 1, 2, 3, 4, 6):
            await consumer.seek(ids[number])
            assert datas(await receive(consumer, 6 - number)) == contents[number + 1 :]
            await nothing_comes(consumer)
            stats = consumer.stats()
            assert stats.available_permits + stats.unreturned_permits == 20
            left = engine.stats(topic)["subscriptions"]["sub"]["msgBacklogMessages"]
            chunks = 9 * sum(len(one) > 100 for one in contents[number + 1 :])
            assert left == 6 - number + chunks


async def test_what_an_operator_brings_back_comes_though_it_was_sought_past(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        ids = await send_all(
            await client.create_producer(topic, batching_enabled=False), [b"a", b"b"]
        )
        consumer = await subscribe(client, topic)
        await consumer.seek(ids[0])
        assert datas(await receive(consumer, 1)) == [b"b"]
        engine.rest("POST", f"{topic.replace('://', '/')}/subscription/sub/resetcursor/0")
        assert datas(await receive(consumer, 2)) == [b"a", b"b"]


# ---- Ids from elsewhere ------------------------------------------------------


@EVERY_TYPE
async def test_an_id_from_elsewhere_acks_all_chunks_of_its_message(
    engine: Engine, topic: str, type: ConsumerType
) -> None:
    async with aio.Client(engine.url) as client:
        await (await subscribe(client, topic, consumer_type=type)).close()
        producer = await splitter(client, topic)
        ids = await send_all(producer, [content(1), b"small", content(2)])
        # It takes nothing, so it cannot know which chunks there are.
        consumer = await subscribe(
            client, topic, consumer_type=type, receiver_queue_size=0, ack_receipt_enabled=True
        )
        assert backlog(engine, topic) == 21
        await consumer.acknowledge(MessageId.deserialize(ids[2].serialize()))
        assert backlog(engine, topic) == 11
        await consumer.acknowledge(MessageId.deserialize(ids[0].serialize()))
        assert backlog(engine, topic) == 1


# ---- The official client -----------------------------------------------------


@pytest.mark.parametrize("type", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared])
def test_what_the_official_client_refuses_comes_again_whole(
    official: Any, topic: str, type: Any
) -> None:
    consumer = official.subscribe(topic, "sub", type, negative_ack_redelivery_delay_ms=100)
    producer = official.create_producer(topic, chunking_enabled=True, batching_enabled=False)
    producer.send(LARGE)
    producer.send(b"small")
    for _ in range(2):
        got = consumer.receive(WAIT_MS)
        if got.data() != LARGE:
            consumer.acknowledge(got)
            got = consumer.receive(WAIT_MS)
        assert got.data() == LARGE
        consumer.negative_acknowledge(got)
    got = consumer.receive(WAIT_MS)
    while got.data() != LARGE:
        got = consumer.receive(WAIT_MS)
    assert got.redelivery_count() >= 1


def test_the_official_reader_begins_with_the_last_message_in_chunks(
    official: Any, topic: str
) -> None:
    producer = official.create_producer(topic, chunking_enabled=True, batching_enabled=False)
    producer.send(b"before")
    producer.send(LARGE)
    reader = official.create_reader(topic, pulsar.MessageId.latest, start_message_id_inclusive=True)
    got = []
    while reader.has_message_available():
        got.append(reader.read_next(WAIT_MS).data())
    assert got == [LARGE]


def test_the_official_consumer_seeks_to_the_last_message_in_chunks(
    official: Any, topic: str
) -> None:
    consumer = official.subscribe(topic, "sub", start_message_id_inclusive=True)
    producer = official.create_producer(topic, chunking_enabled=True, batching_enabled=False)
    producer.send(b"before")
    producer.send(LARGE)
    for _ in range(2):
        consumer.receive(WAIT_MS)
    consumer.seek(consumer.get_last_message_id())
    assert consumer.receive(WAIT_MS).data() == LARGE


async def test_the_official_reader_comes_to_an_end_behind_which_orphans_are(
    engine: Engine, official: Any, topic: str
) -> None:
    official.create_producer(topic).send(b"before")
    await leave_orphans(engine, topic)
    reader = official.create_reader(topic, pulsar.MessageId.earliest)
    got = []
    while reader.has_message_available():
        got.append(reader.read_next(WAIT_MS).data())
    assert got == [b"before"]
