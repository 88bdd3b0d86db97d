"""Bad input: one clear exception each, which says what to do."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from client.conftest import Engine

from magnetar import (
    AlreadyClosed,
    AuthenticationToken,
    ConsumerAssignError,
    ErrorGettingAuthenticationData,
    InvalidConfiguration,
    InvalidMessageIdError,
    InvalidTopicName,
    InvalidUrl,
    MessageId,
    MessageTooBig,
    SettingsError,
    TopicNotFound,
    UsageError,
)
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("localhost:6650", "begin with pulsar://"),
        ("kafka://localhost", "use one of pulsar"),
        ("pulsar://", "a host is missing"),
        ("pulsar://a:b", "is not a port"),
        ("pulsar://me@host", "authentication instead"),
        ("", "there is no scheme"),
    ],
)
def test_bad_urls(url: str, says: str) -> None:
    for kind in (aio.Client, Client):
        with pytest.raises(InvalidUrl, match=says):
            kind(url)


def test_bad_options_of_a_client() -> None:
    for kind in (aio.Client, Client):
        with pytest.raises(TypeError, match="no_such_option"):
            kind("pulsar://localhost", no_such_option=1)  # type: ignore[call-arg]
        with pytest.raises(SettingsError, match="operation_timeout_seconds"):
            kind("pulsar://localhost", operation_timeout_seconds=0)
        with pytest.raises(SettingsError, match="authentication"):
            kind("pulsar://localhost", authentication="token")  # type: ignore[arg-type]


BAD_PRODUCER: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"no_such_option": 1}, TypeError, "no_such_option"),
    ({"batching_max_messages": 0}, SettingsError, "batching_max_messages: 0 is too little"),
    ({"compression_type": 1}, SettingsError, "CompressionType.LZ4"),
    ({"properties": {"a": 1}}, SettingsError, "properties"),
    (
        {"chunking_enabled": True, "batching_enabled": True},
        SettingsError,
        "exclude each other",
    ),
    ({"encryption_key": "k"}, SettingsError, "crypto_key_reader, or neither"),
]
BAD_CONSUMER: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"no_such_option": 1}, TypeError, "no_such_option"),
    ({"receiver_queue_size": -1}, SettingsError, "receiver_queue_size"),
    ({"unacked_messages_timeout_ms": 10}, SettingsError, "give 1000 or more"),
    ({"consumer_type": "Shared"}, SettingsError, "ConsumerType.Shared"),
    ({"dead_letter_policy": 3}, SettingsError, "a ConsumerDeadLetterPolicy"),
]


@pytest.mark.parametrize(("options", "kind", "says"), BAD_PRODUCER)
async def test_bad_options_of_a_producer(
    engine: Engine, topic: str, options: dict[str, Any], kind: type[Exception], says: str
) -> None:
    async with aio.Client(engine.url) as client:
        with pytest.raises(kind, match=says):
            await client.create_producer(topic, **options)


@pytest.mark.parametrize(("options", "kind", "says"), BAD_CONSUMER)
async def test_bad_options_of_a_consumer(
    engine: Engine, topic: str, options: dict[str, Any], kind: type[Exception], says: str
) -> None:
    async with aio.Client(engine.url) as client:
        with pytest.raises(kind, match=says):
            await client.subscribe(topic, "s", **options)


def test_the_blocking_door_refuses_the_same(client: Client, topic: str) -> None:
    for options, kind, says in BAD_PRODUCER:
        with pytest.raises(kind, match=says):
            client.create_producer(topic, **options)
    for options, kind, says in BAD_CONSUMER:
        with pytest.raises(kind, match=says):
            client.subscribe(topic, "s", **options)
    with pytest.raises(SettingsError, match="subscription_name"):
        client.subscribe(topic, "")
    with pytest.raises(SettingsError, match="start_message_id"):
        client.create_reader(topic, 3)  # type: ignore[arg-type]


async def test_bad_topics(engine: Engine) -> None:
    async with aio.Client(engine.url) as client:
        for topic in ("", "a/b", "persistent://a/b", "mine://a/b/c"):
            with pytest.raises(InvalidTopicName):
                await client.create_producer(topic)
            with pytest.raises(InvalidTopicName):
                await client.subscribe(topic, "s")
        bad: list[Any] = [[], [1], 5]
        for topics in bad:
            with pytest.raises((InvalidConfiguration, TypeError)):
                await client.subscribe(topics, "s")
        for url in (engine.url, engine.http_url):
            async with aio.Client(url) as other:
                with pytest.raises(TopicNotFound):
                    await other.create_producer("persistent://nobody/nothing/topic")


async def test_bad_messages(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        for batched in (True, False):
            producer = await client.create_producer(topic, batching_enabled=batched)
            with pytest.raises(MessageTooBig, match="exceed the limit"):
                await producer.send(bytes(5 * 1024 * 1024 + 1))
            bad: list[tuple[dict[str, Any], str]] = [
                ({"properties": {"a": 1}}, "properties"),
                ({"event_timestamp": -1}, "before 1970"),
                ({"sequence_id": -1}, "sequence_id"),
                ({"deliver_after": 5}, "timedelta"),
            ]
            for fields, says in bad:
                with pytest.raises(UsageError, match=says):
                    producer.send(b"x", **fields)
            with pytest.raises(TypeError, match="no_such_field"):
                producer.send(b"x", no_such_field=1)  # type: ignore[call-arg]
            await producer.send(b"and then one that is good", deliver_after=timedelta(0))
            assert producer.stats().pending_messages == 0


async def test_bad_acks(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        bad: Any = 5
        with pytest.raises((InvalidConfiguration, TypeError)):
            await consumer.acknowledge(bad)
        with pytest.raises(InvalidConfiguration, match="a message or its id"):
            await consumer.acknowledge([b"id"])  # type: ignore[list-item]
        for id in (MessageId.earliest, MessageId.latest):
            with pytest.raises(InvalidMessageIdError):
                await consumer.acknowledge(id)
        with pytest.raises(InvalidMessageIdError, match="partition"):
            await consumer.acknowledge(MessageId(3, 1, 1, -1))


async def test_bad_seeks(engine: Engine, topic: str) -> None:
    async with aio.Client(engine.url) as client:
        consumer = await client.subscribe(topic, "s")
        for bad in ("yesterday", 1.5, -1, None):
            with pytest.raises(UsageError, match="a time in ms"):
                await consumer.seek(bad)  # type: ignore[arg-type]


async def test_what_is_closed_says_so(engine: Engine, topic: str) -> None:
    client = aio.Client(engine.url)
    producer = await client.create_producer(topic)
    consumer = await client.subscribe(topic, "s")
    reader = await client.create_reader(topic, MessageId.earliest)
    await producer.send(b"x")
    message = await consumer.receive(30_000)
    for what in (producer, consumer, reader):
        await what.close()
        await what.close()
        assert not what.is_connected()
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: consumer.receive(),
        lambda: consumer.receive(10),
        lambda: consumer.acknowledge(message),
        lambda: consumer.acknowledge_cumulative(message),
        lambda: consumer.seek(0),
        lambda: consumer.get_last_message_id(),
        lambda: consumer.unsubscribe(),
        lambda: reader.read_next(),
        lambda: reader.seek(0),
    ]
    for call in calls:
        with pytest.raises(AlreadyClosed):
            await call()
    with pytest.raises(AlreadyClosed):
        producer.send(b"x")
    with pytest.raises(AlreadyClosed):
        await producer.flush()
    with pytest.raises(AlreadyClosed):
        consumer.negative_acknowledge(message)
    await client.close()
    await client.close()
    closed: list[Callable[[], Awaitable[Any]]] = [
        lambda: client.create_producer(topic),
        lambda: client.subscribe(topic, "s"),
        lambda: client.create_reader(topic, MessageId.earliest),
        lambda: client.get_topic_partitions(topic),
        lambda: client.get_schema_info(topic),
    ]
    for open_again in closed:
        with pytest.raises(AlreadyClosed, match="the client is closed"):
            await open_again()


async def test_a_token_that_cannot_be_had(engine: Engine, topic: str) -> None:
    def fail() -> str:
        raise OSError("no such file")

    async with aio.Client(engine.url, authentication=AuthenticationToken(fail)) as client:
        with pytest.raises(ErrorGettingAuthenticationData, match="no such file"):
            await client.create_producer(topic)


async def test_what_goes_wrong_inside_is_raised_and_not_waited_for(
    engine: Engine, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with aio.Client(engine.url) as client:

        async def broken(topic: str) -> Any:
            raise ZeroDivisionError

        monkeypatch.setattr(client._engine.lookup, "broker_of", broken)
        async with asyncio.timeout(5):
            with pytest.raises(ZeroDivisionError):
                await client.create_producer(topic)


async def test_ranges_that_others_have_are_refused(engine: Engine, topic: str) -> None:
    from magnetar import ConsumerKeySharedPolicy, ConsumerType, KeySharedMode

    policy = ConsumerKeySharedPolicy(KeySharedMode.Sticky, sticky_ranges=[(0, 100)])
    async with aio.Client(engine.url) as client:
        options: dict[str, Any] = {"key_shared_policy": policy}
        options["consumer_type"] = ConsumerType.KeyShared
        await client.subscribe(topic, "s", **options)
        with pytest.raises(ConsumerAssignError):
            await client.subscribe(topic, "s", **options)
