"""Readers, seeks, table views and the last message, as the official client uses them."""

import time
from collections.abc import Callable
from typing import Any

import pulsar
import pytest
from peer.conftest import (
    MARKER,
    WAIT_MS,
    batched_or_not,
    datas,
    new_batcher,
    new_producer,
    payloads,
    publish,
    receive,
    receive_until_marker,
)
from support.broker_process import BrokerProcess
from support.waiting import wait_until

EARLIEST = pulsar.InitialPosition.Earliest
COUNT = 30


def read_all(reader: Any) -> list[bytes]:
    """All that there is."""
    got = []
    while reader.has_message_available():
        got.append(reader.read_next(WAIT_MS).data())
    return got


@batched_or_not
def test_a_reader_from_the_beginning(client: Any, topic: str, batching: bool) -> None:
    producer = new_producer(client, topic, batching=batching)
    publish(producer, payloads(COUNT))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert read_all(reader) == payloads(COUNT)
    publish(producer, payloads(COUNT, COUNT))
    assert read_all(reader) == payloads(COUNT, COUNT)


@batched_or_not
def test_a_reader_from_the_end(client: Any, topic: str, batching: bool) -> None:
    producer = new_producer(client, topic, batching=batching)
    publish(producer, payloads(COUNT))
    reader = client.create_reader(topic, pulsar.MessageId.latest)
    assert not reader.has_message_available()
    publish(producer, payloads(COUNT, COUNT))
    assert [reader.read_next(WAIT_MS).data() for _ in range(COUNT)] == payloads(COUNT, COUNT)
    assert not reader.has_message_available()


@batched_or_not
def test_a_reader_from_the_last_message_itself(client: Any, topic: str, batching: bool) -> None:
    publish(new_producer(client, topic, batching=batching), payloads(COUNT))
    latest = pulsar.MessageId.latest
    reader = client.create_reader(topic, latest, start_message_id_inclusive=True)
    assert read_all(reader) == payloads(COUNT)[-1:]


def test_a_reader_of_an_empty_topic(client: Any, topic: str) -> None:
    for start in (pulsar.MessageId.earliest, pulsar.MessageId.latest):
        reader = client.create_reader(topic, start)
        assert not reader.has_message_available()


@pytest.mark.parametrize("inclusive", [True, False], ids=["inclusive", "exclusive"])
@pytest.mark.parametrize("number", [0, 9, 10, 14, 19, 29])
@batched_or_not
def test_a_reader_from_a_message(
    client: Any, topic: str, batching: bool, number: int, inclusive: bool
) -> None:
    ids = publish(new_producer(client, topic, batching=batching), payloads(COUNT))
    first = number if inclusive else number + 1
    reader = client.create_reader(topic, ids[number], start_message_id_inclusive=inclusive)
    assert read_all(reader) == payloads(COUNT)[first:]


def test_a_reader_from_an_id_that_was_written_down(client: Any, topic: str) -> None:
    ids = publish(new_batcher(client, topic, 10), payloads(COUNT))
    kept = pulsar.MessageId.deserialize(ids[17].serialize())
    assert read_all(client.create_reader(topic, kept)) == payloads(COUNT)[18:]


@batched_or_not
def test_a_reader_seeks(client: Any, topic: str, batching: bool) -> None:
    ids = publish(new_producer(client, topic, batching=batching), payloads(COUNT))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    for number in (25, 3, 10):
        reader.seek(ids[number])
        assert read_all(reader) == payloads(COUNT)[number + 1 :]
    reader.seek(pulsar.MessageId.earliest)
    assert read_all(reader) == payloads(COUNT)
    reader.seek(pulsar.MessageId.latest)
    assert not reader.has_message_available()


def test_readers_keep_nothing(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str
) -> None:
    client = connect()
    client.subscribe(topic, "keeps").close()
    publish(new_batcher(client, topic, 10), payloads(COUNT))
    reader = client.create_reader(topic, pulsar.MessageId.earliest, reader_name="same")
    assert read_all(reader) == payloads(COUNT)
    reader.close()
    broker.restart()
    reader = connect().create_reader(topic, pulsar.MessageId.earliest, reader_name="same")
    assert read_all(reader) == payloads(COUNT)


def test_a_reader_goes_on_after_a_restart(broker: BrokerProcess, client: Any, topic: str) -> None:
    client.subscribe(topic, "keeps").close()
    producer = new_batcher(client, topic, 10)
    publish(producer, payloads(COUNT))
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    got = [reader.read_next(WAIT_MS).data() for _ in range(14)]
    broker.kill()
    broker.restart()
    got += [reader.read_next(WAIT_MS).data() for _ in range(COUNT - 14)]
    assert got == payloads(COUNT)
    publish(producer, payloads(10, COUNT))
    assert [reader.read_next(WAIT_MS).data() for _ in range(10)] == payloads(10, COUNT)


# ---- Seeks of consumers ----------------------------------------------------------------

both_kinds = pytest.mark.parametrize(
    "type", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared], ids=lambda type: type.name
)


@both_kinds
@batched_or_not
def test_a_seek_by_id(client: Any, topic: str, type: Any, batching: bool) -> None:
    consumer = client.subscribe(
        topic, "s", type, batch_index_ack_enabled=True, start_message_id_inclusive=True
    )
    producer = new_producer(client, topic, batching=batching)
    ids = publish(producer, payloads(COUNT))
    for message in receive(consumer, COUNT):
        consumer.acknowledge(message)
    for number in (0, 14, 29, 5):
        consumer.seek(ids[number])
        got = receive(consumer, COUNT - number)
        assert datas(got) == payloads(COUNT)[number:]
    consumer.seek(pulsar.MessageId.earliest)
    assert datas(receive(consumer, COUNT)) == payloads(COUNT)
    consumer.seek(pulsar.MessageId.latest)
    publish(new_producer(client, topic), [MARKER])
    assert receive_until_marker(consumer) == []


@both_kinds
def test_a_seek_is_kept(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str, type: Any
) -> None:
    client = connect()
    options = {"batch_index_ack_enabled": True, "start_message_id_inclusive": True}
    consumer = client.subscribe(topic, "s", type, **options)
    ids = publish(new_batcher(client, topic, 10), payloads(COUNT))
    for message in receive(consumer, COUNT):
        consumer.acknowledge(message)
    consumer.seek(ids[10])
    broker.kill()
    broker.restart()
    client.close()
    client = connect()
    publish(new_producer(client, topic), [MARKER])
    again = client.subscribe(topic, "s", type, **options)
    assert datas(receive_until_marker(again)) == payloads(COUNT)[10:]


@both_kinds
@batched_or_not
def test_a_seek_by_time(client: Any, topic: str, type: Any, batching: bool) -> None:
    consumer = client.subscribe(topic, "s", type)
    producer = new_producer(client, topic, batching=batching)
    publish(producer, payloads(10))
    before = receive(consumer, 10)[-1].publish_timestamp()
    # The clock must move on, or no time lies between the two halves.
    wait_until(lambda: now_ms() > before + 1, lambda: "the clock stands still")
    between = now_ms()
    publish(producer, payloads(10, 10))
    receive(consumer, 10)
    consumer.seek(between)
    assert datas(receive(consumer, 10)) == payloads(10, 10)
    consumer.seek(before - 60_000)
    assert datas(receive(consumer, 20)) == payloads(20)
    consumer.seek(now_ms() + 60_000)
    publish(new_producer(client, topic), [MARKER])
    assert receive_until_marker(consumer) == []


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# ---- The last message ------------------------------------------------------------------


def test_the_last_message_id(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    assert (consumer.get_last_message_id().ledger_id()) == -1
    (id,) = publish(new_producer(client, topic), payloads(1))
    assert str(consumer.get_last_message_id()) == str(id)
    ids = publish(new_batcher(client, topic, 5), payloads(5))
    last = consumer.get_last_message_id()
    assert str(last) == str(ids[-1])
    assert last.batch_index() == 4


# ---- Table views -----------------------------------------------------------------------


def test_a_table_view(client: Any, topic: str) -> None:
    producer = new_batcher(client, topic, 10)
    publish(producer, payloads(20), partition_key=lambda i: f"key-{i % 7}")
    table = client.create_table_view(topic)
    wait_until(lambda: len(table) == 7, lambda: f"{len(table)} of 7 keys are there")
    wait_until(
        lambda: table.get("key-5") == payloads(20)[19], lambda: f"key-5 is {table.get('key-5')!r}"
    )
    publish(producer, payloads(10, 20), partition_key="key-5")
    wait_until(
        lambda: table.get("key-5") == payloads(30)[29], lambda: f"key-5 is {table.get('key-5')!r}"
    )
    table.close()
