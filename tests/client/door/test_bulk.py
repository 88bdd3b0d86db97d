"""The bulk door against a broker: entries as they are, exactly once, through lost connections."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from client.conftest import Engine, nobody_is_left, through_proxy
from support.broker_process import BrokerProcess

import magnetar
from magnetar.client.consumer.start.entry_range import RawEntry
from magnetar.client.door.bulk import BulkClient, mark_delete
from magnetar.client.engine.entries import EngineEntries
from magnetar.client.option.options import ProducerOptions
from magnetar.client.producer.outgoing import Outgoing
from magnetar.client.schema.schema import BytesSchema
from magnetar.errors import AlreadyClosed, Timeout, TopicNotFound
from magnetar.testing.embedded import EmbeddedBroker

TOPIC = "persistent://public/default/bulk"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as process:
        yield process


def publish(url: str, topic: str, entries: int, size: int = 100) -> None:
    client = magnetar.Client(url)
    producer = client.create_producer(topic, max_pending_messages=10_000)
    for i in range(entries):
        producer.send_async(b"%08d" % i + bytes(size), lambda result, id: None)
    producer.flush()
    client.close()


def payloads(raws: list[RawEntry]) -> list[bytes]:
    return [raw.entry.payload()[:8] for raw in raws if raw.entry is not None]


def test_entries_come_once_though_the_broker_is_killed(broker: BrokerProcess) -> None:
    publish(broker.url, TOPIC, 300, size=100_000)
    client = BulkClient(broker.url)
    (ledger, last, _, _) = client.last_ids([TOPIC])[TOPIC] or (0, 0, 0, 0)
    assert last == 299
    found: list[bytes] = []
    with client.entries(TOPIC, (-1, -1), (ledger, last + 1)) as entries:
        found += payloads(entries.next(1 << 19))
        assert 0 < len(found) < 300
        broker.kill()
        broker.restart()
        while chunk := entries.next():
            found += payloads(chunk)
        assert entries.take_gaps() == []
    assert found == [b"%08d" % i for i in range(300)]
    # Nor does a broker that came back lose those who ask about ends.
    assert client.last_ids([TOPIC])[TOPIC] == (ledger, last, -1, 0)
    client.close()
    client.close()
    with pytest.raises(AlreadyClosed):
        client.partitions(TOPIC)


def test_topics_are_found_and_missed(magnetar_broker: EmbeddedBroker, topic: str) -> None:
    publish(magnetar_broker.url, topic, 1)
    client = BulkClient(magnetar_broker.url)
    name = topic.rpartition("/")[2]
    assert client.partitions(name) == [topic]
    assert client.topics(f"{name[:-1]}.*") == [topic]
    assert client.topics(f"x{name}.*") == []
    missing = f"{topic}-missing"
    assert client.last_ids([missing]) == {missing: None}
    with pytest.raises(TopicNotFound):
        client.entries(missing, (-1, -1), None)
    client.close()


async def test_a_reader_that_is_not_answered_leaves_nobody_at_the_broker(
    engine: Engine, topic: str
) -> None:
    async with through_proxy(engine, operation_timeout_seconds=1) as (proxy, client):
        await (await client.create_producer(topic)).close()
        proxy.passes = lambda command: not command.HasField("success")
        with pytest.raises(Timeout, match="no answer to CommandSubscribe"):
            await EngineEntries(client._engine, topic, (-1, -1), None).start()
        await nobody_is_left(engine, topic)


def test_a_bulk_producer_publishes_and_a_subscription_says_where_it_stands(
    broker: BrokerProcess,
) -> None:
    client = BulkClient(broker.url)
    told: list[Exception | None] = []

    async def story() -> magnetar.MessageId | None:
        assert await client.count_partitions(TOPIC) == 0
        options = ProducerOptions(producer_name="bulk")
        producer = await client.open_producer(TOPIC, options, BytesSchema())
        assert (producer.topic, producer.last_sequence_id, producer.failure) == (TOPIC, -1, None)
        assert producer.message_size_max > 1 << 20
        answers: list[int] = []
        producer.call_on_answers(lambda: answers.append(len(told)))
        producer.send(Outgoing(b"one", lambda error, id: told.append(error)))
        producer.core.send(Outgoing(b"two", lambda error, id: told.append(error)))
        producer.rearm()
        await producer.flush()
        assert answers
        await producer.close()
        async with await client.aio.subscribe(
            TOPIC, "s", initial_position=magnetar.InitialPosition.Earliest
        ) as consumer:
            return await mark_delete(consumer)

    position = client.call(story())
    assert told == [None, None]
    assert position is not None
    assert position.entry_id() == -1
    client.close()
