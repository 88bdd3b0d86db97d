"""An asyncio producer whose queue is full: messages wait for room, in order, and none is lost."""

import asyncio

import pytest
from client.conftest import Engine, datas, receive

from magnetar import aio
from magnetar.errors import AlreadyClosed, MessageTooLargeError, PulsarException


async def test_a_thousand_and_one_sends_at_once_are_all_stored_in_order(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        sent = [producer.send(b"%d" % n) for n in range(2500)]
        ids = await asyncio.gather(*sent)
        assert ids == sorted(ids)
        assert datas(await receive(consumer, 2500)) == [b"%d" % n for n in range(2500)]


async def test_what_is_sent_while_others_wait_does_not_overtake_them(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic, max_pending_messages=2)
        first = [producer.send(b"%d" % n, partition_key="k") for n in range(10)]
        await first[0]  # now there is room, but others were first
        behind = await producer.send_when_room(b"10")
        await asyncio.gather(*first, behind, producer.send(b"11"))
        assert datas(await receive(consumer, 12)) == [b"%d" % n for n in range(12)]


async def test_flush_waits_for_messages_that_wait_for_room(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic, max_pending_messages=1)
        sent = [producer.send(b"x") for _ in range(20)]
        await producer.flush()
        assert all(one.done() for one in sent)
        assert producer.stats().messages_stored == 20


@pytest.mark.parametrize("what", ["producer", "client"])
async def test_close_sends_what_waits_for_room(engine: Engine, topic: str, what: str) -> None:
    client = aio.Client(engine.url)
    producer = await client.create_producer(topic, max_pending_messages=1)
    sent = [producer.send(b"x") for _ in range(20)]
    closing = asyncio.ensure_future(producer.close() if what == "producer" else client.close())
    if what == "producer":
        await asyncio.sleep(0)
        with pytest.raises(AlreadyClosed):
            producer.send(b"too late")
    await closing
    assert len(await asyncio.gather(*sent)) == 20
    await client.close()


async def test_shutdown_fails_what_waits_for_room(engine: Engine, topic: str) -> None:
    client = aio.Client(engine.url)
    producer = await client.create_producer(topic, max_pending_messages=1)
    sent = [producer.send(b"x") for _ in range(20)]
    room = asyncio.ensure_future(producer.send_when_room(b"x"))
    await asyncio.sleep(0)
    await client.shutdown()
    ended = await asyncio.gather(*sent, room, return_exceptions=True)
    assert {type(one) for one in ended[1:]} == {AlreadyClosed}
    assert repr(client) == f"<magnetar.aio.Client of {engine.url}: closed>"
    with pytest.raises(AlreadyClosed):
        await client.create_producer(topic)


async def test_a_message_that_is_cancelled_while_it_waits_is_not_sent(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic, max_pending_messages=1)
        sent = [producer.send(content) for content in (b"a", b"b", b"c")]
        sent[1].cancel()
        await asyncio.gather(sent[0], sent[2])
        assert datas(await receive(consumer, 2)) == [b"a", b"c"]


async def test_a_message_that_cannot_be_sent_is_told_and_those_behind_it_go_on(
    engine: Engine, topic: str
) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic, max_pending_messages=1)
        sent = [producer.send(content) for content in (b"a", b"x" * (6 << 20), b"c")]
        with pytest.raises(MessageTooLargeError):
            await sent[1]
        await asyncio.gather(sent[0], sent[2])


async def test_messages_that_wait_fail_with_the_producer(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        producer = await client.create_producer(topic, max_pending_messages=1)
        await producer.send(b"x")
        engine.rest("POST", f"persistent/public/default/{topic.rpartition('/')[2]}/terminate")
        sent = [producer.send(b"x") for _ in range(5)]
        ended = await asyncio.gather(*sent, return_exceptions=True)
        assert all(isinstance(one, PulsarException) for one in ended), ended
