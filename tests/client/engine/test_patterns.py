"""Consumers of all topics that match a pattern, those that come later too."""

import asyncio
import re
from typing import Any

import pytest
from client.conftest import Engine, datas, payloads, receive, send_all, until

from magnetar import InitialPosition, InvalidConfiguration, RegexSubscriptionMode
from magnetar.client.door import aio
from magnetar.client.network.patterns import matching, namespace_of, whole_pattern

Earliest = InitialPosition.Earliest


def topics_of(consumer: aio.Consumer) -> list[str]:
    return sorted(consumer._consumer.parts)


async def look_again(consumer: aio.Consumer) -> None:
    """What is done when the discovery period is over."""
    await consumer._consumer._find()


async def send_one(client: aio.Client, topic: str, content: bytes) -> None:
    async with await client.create_producer(topic) as producer:
        await producer.send(content)


@pytest.mark.parametrize("url", ["url", "http_url"])
async def test_what_matches_is_received_and_what_comes_later_is_found(
    engine: Engine, topic: str, url: str
) -> None:
    engine.make_partitions(f"{topic}-parts", 2)
    async with aio.Client(getattr(engine, url)) as client:
        for name in ("a", "b", "parts"):
            await client.create_producer(f"{topic}-{name}")
        await client.create_producer("other-" + topic.rpartition("/")[2])
        consumer = await client.subscribe(
            re.compile(f"{topic}-.*"), "s", pattern_auto_discovery_period=1
        )
        names = [f"{topic}-{n}" for n in ("a", "b", "parts-partition-0", "parts-partition-1")]
        assert topics_of(consumer) == names
        await send_one(client, f"{topic}-c", b"before it was found")
        await until(lambda: f"{topic}-c" in topics_of(consumer), lambda: str(topics_of(consumer)))
        await send_all(await client.create_producer(f"{topic}-c"), payloads(1))
        await send_all(await client.create_producer(f"{topic}-parts"), payloads(2, 1))
        got = await receive(consumer, 3)
        assert sorted(datas(got)) == payloads(3)
        await consumer.acknowledge(got)


async def test_a_topic_that_is_gone_is_left(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        for name in ("a", "b"):
            await send_one(client, f"{topic}-{name}", b"x")
        consumer = await client.subscribe(re.compile(f"{topic}-.*"), "s")
        assert topics_of(consumer) == [f"{topic}-a", f"{topic}-b"]
        path = f"{topic}-b".replace("://", "/")
        await asyncio.to_thread(engine.rest, "DELETE", path, params={"force": "true"})
        await look_again(consumer)
        assert topics_of(consumer) == [f"{topic}-a"]
        assert consumer.topic() == f"{topic}-.*"


async def test_a_topic_that_is_gone_may_come_again(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        await send_one(client, f"{topic}-a", b"x")
        consumer = await client.subscribe(re.compile(f"{topic}-.*"), "s", initial_position=Earliest)
        await consumer.acknowledge(await receive(consumer, 1))
        await look_again(consumer)
        (part,) = consumer._consumer.parts.values()
        path = f"{topic}-a".replace("://", "/")
        await asyncio.to_thread(engine.rest, "DELETE", path, params={"force": "true"})
        await until(lambda: part.failure is not None, lambda: "it is still there")
        # Back before anybody looked, so the list of topics is as it was.
        await send_one(client, f"{topic}-a", b"again")
        await look_again(consumer)
        assert datas(await receive(consumer, 1)) == [b"again"]


async def test_a_pattern_may_match_nothing_yet(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(re.compile(f"{topic}-.*"), "s")
        waits = asyncio.ensure_future(consumer.receive(20_000))
        producer = await client.create_producer(f"{topic}-new", initial_subscription_name="s")
        await producer.send(b"x")
        await look_again(consumer)
        assert (await waits).data() == b"x"


async def test_both_kinds_of_topics_or_one(engine: Engine, topic: str) -> None:
    volatile = topic.replace("persistent://", "non-persistent://")
    mode: Any = RegexSubscriptionMode
    async with aio.Client(engine.url) as client:
        for name in (topic, volatile):
            await client.create_producer(f"{name}-x")
        for which, names in (
            (mode.PersistentOnly, [topic]),
            (mode.NonPersistentOnly, [volatile]),
            (mode.AllTopics, [topic, volatile]),
        ):
            consumer = await client.subscribe(
                re.compile(f"{topic}-.*"), f"s-{which.name}", regex_subscription_mode=which
            )
            assert topics_of(consumer) == sorted(f"{name}-x" for name in names)
            await consumer.close()


def test_patterns_and_names() -> None:
    assert whole_pattern("a.*") == "persistent://public/default/a.*"
    assert whole_pattern("t/n/a.*") == "persistent://t/n/a.*"
    assert whole_pattern("non-persistent://t/n/a") == "non-persistent://t/n/a"
    assert namespace_of("persistent://t/n/a/b.*") == "t/n"
    with pytest.raises(InvalidConfiguration, match="tenant/namespace"):
        namespace_of("persistent://t/n")
    names = [f"persistent://public/default/{name}" for name in ("a1", "ba1", "a-partition-3")]
    assert matching(re.compile("a.*"), names) == [names[0], "persistent://public/default/a"]
    assert matching(re.compile("A1", re.IGNORECASE), names) == [names[0]]
