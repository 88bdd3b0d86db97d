"""What both doors share for people: loops over messages, table views, and how things show."""

import asyncio
import threading
from typing import Any

import pytest
from client.conftest import WAIT_MS, Engine
from support.waiting import wait_until

import magnetar
from magnetar import Client, MessageId, aio
from magnetar.errors import AlreadyClosed, SchemaDecodeError
from magnetar.schema import Schema, SchemaType, StringSchema

# ---- Loops -----------------------------------------------------------------------------


async def test_async_for_over_a_reader_ends_when_it_is_closed(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic)
        for content in (b"a", b"b"):
            await producer.send(content)
        reader = await client.create_reader(topic, MessageId.earliest)
        got = []
        async for message in reader:
            got.append(message.data())
            if len(got) == 2:
                await reader.close()
        assert got == [b"a", b"b"]


async def _forward(consumer: aio.Consumer[bytes], producer: aio.Producer[bytes]) -> None:
    async for message in consumer:
        await producer.send(message.value())


async def test_what_the_body_of_a_loop_raises_does_not_end_it_in_silence(
    engine: Engine, topic: str
) -> None:
    """AlreadyClosed ends a loop, but only that of its own consumer."""
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s")
        await producer.send(b"x")
        await producer.close()
        with pytest.raises(AlreadyClosed, match=r"producer of .* is closed"):
            await _forward(consumer, producer)


@pytest.mark.parametrize("kind", ["consumer", "reader"])
def test_a_blocking_for_ends_when_it_is_closed(engine: Engine, topic: str, kind: str) -> None:
    with Client(engine.url) as client:
        source: Any = (
            client.subscribe(topic, "s")
            if kind == "consumer"
            else client.create_reader(topic, MessageId.earliest)
        )
        producer = client.create_producer(topic)
        got: list[bytes] = []

        def work() -> None:
            for message in source:
                got.append(message.data())

        thread = threading.Thread(target=work)
        thread.start()
        for content in (b"a", b"b"):
            producer.send(content)
        wait_until(lambda: len(got) == 2, lambda: str(got))
        source.close()
        thread.join(WAIT_MS / 1000)
        assert not thread.is_alive()
        assert got == [b"a", b"b"]


# ---- Table views -----------------------------------------------------------------------


async def test_an_asyncio_table_view_has_the_latest_values_and_follows(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic, schema=StringSchema())
        for key, value in (("a", "1"), ("b", "2"), ("a", "3")):
            await producer.send(value, partition_key=key)
        async with await client.create_table_view(topic, "view", StringSchema()) as view:
            assert (len(view), view.get("a"), view.get("b"), view.get("c")) == (2, "3", "2", None)
            changed: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
            view.for_each_and_listen(lambda key, value: changed.put_nowait((key, value)))
            assert sorted([changed.get_nowait(), changed.get_nowait()]) == [("a", "3"), ("b", "2")]
            await producer.send("4", partition_key="c")
            assert await changed.get() == ("c", "4")
            await producer.send(None, partition_key="a")
            await producer.send("5", partition_key="b")
            assert await changed.get() == ("b", "5")
            assert str(view) == "{'b': '5', 'c': '4'}"
            assert repr(view) == f"<magnetar.aio.TableView of {topic}: 2 keys, connected>"
        assert view.get("b") == "5"
        assert "closed" in repr(view)


class Text(Schema[str]):
    """Text that the broker is told nothing of."""

    def __init__(self) -> None:
        super().__init__(str, SchemaType.NONE, None, "BYTES")

    def decode(self, data: bytes) -> str:
        return StringSchema().decode(data)


async def test_a_table_view_says_of_a_value_why_it_cannot_be_decoded(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic)
        await producer.send(b"\xff", partition_key="a")
        view = await client.create_table_view(topic, schema=Text())
        with pytest.raises(SchemaDecodeError, match="utf-8"):
            view.get("a")


async def test_a_table_view_of_a_closed_client_is_closed_too(engine: Engine, topic: str) -> None:
    client = aio.Client(engine.url)
    view = await client.create_table_view(topic)
    await client.close()
    await view.close()
    assert len(view) == 0


# ---- Both doors ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Client", "Producer", "Consumer", "Reader", "TableView"])
def test_the_asyncio_door_has_all_that_the_blocking_one_has(name: str) -> None:
    """As docs/compatibility.md says, with what asyncio has other means for."""
    blocking, asynchronous = (
        {member for member in dir(getattr(door, name)) if not member.startswith("_")}
        for door in (magnetar, aio)
    )
    other_means = {"send_async", "pause_message_listener", "resume_message_listener"}
    assert blocking - asynchronous <= other_means


# ---- How they show ---------------------------------------------------------------------


async def test_asyncio_handles_show_topic_subscription_and_state(
    engine: Engine, topic: str
) -> None:
    client = aio.Client(engine.url)
    assert repr(client) == f"<magnetar.aio.Client of {engine.url}: not connected>"
    consumer = await client.subscribe(topic, "billing")
    assert repr(client) == f"<magnetar.aio.Client of {engine.url}: connected>"
    assert repr(consumer) == f"<magnetar.aio.Consumer of {topic}, subscription billing: connected>"
    producer = await client.create_producer(topic)
    assert repr(producer) == f"<magnetar.aio.Producer of {topic}: connected>"
    reader = await client.create_reader(topic, MessageId.earliest)
    assert repr(reader) == f"<magnetar.aio.Reader of {topic}: connected>"
    await client.close()
    for handle in (client, consumer, producer, reader):
        assert repr(handle).endswith(": closed>")


def test_blocking_handles_show_topic_subscription_and_state(engine: Engine, topic: str) -> None:
    client = Client(engine.url)
    consumer = client.subscribe(topic, "billing")
    producer = client.create_producer(topic)
    reader = client.create_reader(topic, MessageId.earliest)
    view = client.create_table_view(topic)
    assert repr(client) == f"<magnetar.Client of {engine.url}: connected>"
    assert repr(consumer) == f"<magnetar.Consumer of {topic}, subscription billing: connected>"
    assert repr(producer) == f"<magnetar.Producer of {topic}: connected>"
    assert repr(reader) == f"<magnetar.Reader of {topic}: connected>"
    assert repr(view) == f"<magnetar.TableView of {topic}: 0 keys, connected>"
    client.close()
    for handle in (client, consumer, producer, reader):
        assert repr(handle).endswith(": closed>")


def test_what_only_the_client_needs_is_private(engine: Engine, topic: str) -> None:
    with Client(engine.url) as client:
        consumer = client.subscribe(topic, "s")
        client.create_producer(topic).send(b"x")
        message = consumer.receive(WAIT_MS)
        for handle in (consumer, message):
            for name in ("give_back", "take_held", "data_first", "delivery", "single"):
                assert not hasattr(handle, name), f"{type(handle).__name__}.{name}"
