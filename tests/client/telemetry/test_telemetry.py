"""Metrics, as OpenTelemetry's own reader sees them, and what it costs to have none."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from client.conftest import Engine, new_batcher, payloads, receive, send_all, until
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from support.waiting import wait_until

import magnetar
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.client.option.options import ConsumerDeadLetterPolicy
from magnetar.client.telemetry.telemetry import Telemetry
from magnetar.errors import AlreadyClosed, SettingsError
from magnetar.model import ConsumerType, InitialPosition

PREFIX = "pulsar.client."
DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


class Meters:
    """Telemetry, and what it says."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider([self._reader])
        self.telemetry = Telemetry(meter_provider=self._provider, traces=False)

    def read(self, name: str, **attributes: str) -> Any:
        """The value of an instrument, summed over what else its points differ in."""
        found = 0
        for point in self.points(name):
            has = {key.removeprefix("pulsar."): point.attributes[key] for key in point.attributes}
            if all(has.get(key) == value for key, value in attributes.items()):
                found += point.value if hasattr(point, "value") else point.count
        return found

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        if data is None:
            return []
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == PREFIX + name
            for point in metric.data.data_points
        ]

    def names(self) -> set[str]:
        data = self._reader.get_metrics_data()
        assert data is not None
        scopes = [scope for one in data.resource_metrics for scope in one.scope_metrics]
        return {metric.name for scope in scopes for metric in scope.metrics}

    def shutdown(self) -> None:
        self._provider.shutdown()


@pytest.fixture
def meters() -> Iterator[Meters]:
    meters = Meters()
    yield meters
    meters.shutdown()


async def test_producers_and_consumers_are_counted(
    engine: Engine, topic: str, meters: Meters
) -> None:
    async with aio.Client(engine.url, telemetry=meters.telemetry) as client:
        consumer = await client.subscribe(topic, "s", receiver_queue_size=100)
        producer = await new_batcher(client, topic, 100)
        await send_all(producer, payloads(10))
        got = await receive(consumer, 4)
        await until(lambda: consumer.stats().queue_length == 6, lambda: str(consumer.stats()))
        await consumer.acknowledge(got[:3])
        consumer.negative_acknowledge(got[3])

        where = {"topic": topic, "tenant": "public", "namespace": "public/default"}
        there = {**where, "subscription": "s"}
        size = len(payloads(1)[0])
        assert meters.read("producer.message.send.count", **where) == 10
        assert meters.read("producer.message.send.size", **where) == 10 * size
        assert meters.read("producer.entry.send.count", **where) == 1
        assert meters.read("producer.message.pending.count", **where) == 0
        assert meters.read("producer.opened", **where) == 1
        assert meters.read("producer.closed", **where) == 0
        assert meters.read("consumer.message.received.count", **there) == 4
        assert meters.read("consumer.receive_queue.count", **there) == 6
        assert meters.read("consumer.permit.count", **there) == 90
        assert meters.read("consumer.message.ack", **there) == 3
        assert meters.read("consumer.message.nack", **there) == 1
        assert meters.read("consumer.opened", **there) == 1
        assert meters.read("connection.opened") >= 1
        assert meters.read("connection.closed") == 0


async def test_counters_stay_when_what_they_count_is_closed(
    engine: Engine, topic: str, meters: Meters
) -> None:
    for _ in range(2):
        async with aio.Client(engine.url, telemetry=meters.telemetry) as client:
            consumer = await client.subscribe(topic, "s", receiver_queue_size=10)
            for _ in range(2):
                producer = await client.create_producer(topic)
                await send_all(producer, payloads(3))
                await producer.close()
            await consumer.acknowledge(await receive(consumer, 6))
            assert meters.read("consumer.permit.count") > 0
    assert meters.read("producer.message.send.count", topic=topic) == 12
    assert meters.read("producer.opened", topic=topic) == 4
    assert meters.read("producer.closed", topic=topic) == 4
    assert meters.read("consumer.message.ack", subscription="s") == 12
    assert meters.read("consumer.closed", subscription="s") == 2
    # What was only then is no more.
    assert meters.read("consumer.receive_queue.count") == 0
    assert meters.read("consumer.permit.count") == 0
    assert meters.read("connection.closed") == meters.read("connection.opened") > 0


async def test_clients_of_one_telemetry_are_added_up(
    engine: Engine, topic: str, meters: Meters
) -> None:
    async with (
        aio.Client(engine.url, telemetry=meters.telemetry) as one,
        aio.Client(engine.url, telemetry=meters.telemetry) as other,
    ):
        for client in (one, other):
            await send_all(await client.create_producer(topic), payloads(5))
        assert meters.read("producer.message.send.count", topic=topic) == 10
        assert len(meters.points("producer.message.send.count")) == 1


async def test_partitions_count_for_their_topic(engine: Engine, topic: str, meters: Meters) -> None:
    engine.make_partitions(topic, 3)
    async with aio.Client(engine.url, telemetry=meters.telemetry) as client:
        consumer = await client.subscribe(topic, "s")
        await send_all(await client.create_producer(topic), payloads(9))
        await receive(consumer, 9)
        assert meters.read("producer.message.send.count", topic=topic) == 9
        assert meters.read("consumer.message.received.count", topic=topic) == 9
        assert len(meters.points("consumer.message.received.count")) == 1


async def test_times_are_taken_of_entries_and_lookups(
    engine: Engine, topic: str, meters: Meters
) -> None:
    async with aio.Client(engine.url, telemetry=meters.telemetry) as client:
        producer = await new_batcher(client, topic, 5)
        await send_all(producer, payloads(10))
        (sent,) = meters.points("producer.message.send.duration")
        assert sent.count == 2
        assert sent.sum >= 0
        assert sent.attributes["pulsar.topic"] == topic
        assert sent.attributes["pulsar.response.status"] == "success"
        found = {"lookup.transport-type": "binary", "response.status": "success"}
        assert meters.read("lookup.duration", **{"lookup.type": "topic", **found}) == 1
        assert meters.read("lookup.duration", **{"lookup.type": "metadata", **found}) == 1


async def test_times_are_taken_of_messages_that_are_handled(
    engine: Engine, topic: str, meters: Meters
) -> None:
    @magnetar.worker(topic, subscription="s")
    async def work(data: bytes) -> None:
        if data == payloads(1)[0]:
            raise ValueError("not this one")

    async with aio.Client(engine.url, telemetry=meters.telemetry) as client, work.running(client):
        await send_all(await client.create_producer(topic), payloads(3))
        await until(lambda: work.health().handled == 2, lambda: repr(work.health()))
    name = "consumer.message.process.duration"
    status = "response.status"
    assert meters.read(name, topic=topic, subscription="s", **{status: "success"}) == 2
    assert meters.read(name, topic=topic, subscription="s", **{status: "failed"}) == 1


async def test_connections_that_fail_are_counted_by_how(meters: Meters) -> None:
    silent = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    url = f"pulsar://127.0.0.1:{port}"
    await connect_in_vain(url, meters, "handshake")
    silent.close()
    await silent.wait_closed()
    assert meters.read("connection.failed", **{"failure.type": "tcp-failed"}) == 0
    await connect_in_vain(url, meters, "tcp-failed")
    assert meters.read("lookup.duration", **{"response.status": "failed"}) > 0


async def connect_in_vain(url: str, meters: Meters, failure: str) -> None:
    """Tries until such a failure is counted."""
    async with aio.Client(url, telemetry=meters.telemetry, wait_for_broker=True) as client:
        trying = asyncio.ensure_future(client.create_producer("t"))
        await until(
            lambda: meters.read("connection.failed", **{"failure.type": failure}) > 0,
            lambda: f"nothing failed by {failure}",
        )
    with pytest.raises(AlreadyClosed):
        await trying


async def test_acks_and_their_times_are_counted(engine: Engine, topic: str, meters: Meters) -> None:
    async with aio.Client(engine.url, telemetry=meters.telemetry) as client:
        consumer = await client.subscribe(topic, "s", ack_receipt_enabled=True)
        await send_all(await client.create_producer(topic), payloads(5))
        await consumer.acknowledge(await receive(consumer, 5))
        assert meters.read("consumer.ack.sent.count", subscription="s") == 5
        assert meters.read("consumer.ack.kept.count", subscription="s") == 5
        assert meters.read("consumer.ack.pending.count", subscription="s") == 0
        assert meters.read("consumer.ack.failed.count", subscription="s") == 0
        where = {"topic": topic, "namespace": "public/default", "subscription": "s"}
        [point] = meters.points("consumer.ack.duration")
        assert meters.read("consumer.ack.duration", **where) == point.count
        assert 1 <= point.count <= 5, "one value for each ACK, which may name several"
        assert 0 <= point.sum < 60, "in seconds"
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1 > 10


async def test_dead_letters_and_late_acks_are_counted(
    engine: Engine, topic: str, meters: Meters
) -> None:
    async with aio.Client(engine.url, telemetry=meters.telemetry) as client:
        consumer = await client.subscribe(
            topic,
            "s",
            consumer_type=ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            negative_ack_redelivery_delay_ms=20,
            dead_letter_policy=ConsumerDeadLetterPolicy(1),
        )
        await (await client.create_producer(topic)).send(b"poison")
        for _ in range(2):
            (message,) = await receive(consumer, 1)
            consumer.negative_acknowledge(message)
        await until(
            lambda: meters.read("consumer.message.dlq", topic=topic) == 1, lambda: "no dead letter"
        )
        assert meters.read("consumer.message.nack", topic=topic) == 2
        assert meters.read("consumer.entry.redelivered.count", topic=topic) >= 1


def test_the_blocking_door_is_counted_too(engine: Engine, topic: str, meters: Meters) -> None:
    with Client(engine.url, telemetry=meters.telemetry) as client:
        got: list[bytes] = []
        client.subscribe(
            topic, "s", message_listener=lambda consumer, message: got.append(message.data())
        )
        client.create_producer(topic).send(b"x")
        wait_until(lambda: got == [b"x"], lambda: str(got))
        assert meters.read("producer.message.send.count", topic=topic) == 1
        assert meters.read("consumer.message.received.count", topic=topic) == 1
        assert client.stats().producers.messages_stored == 1


async def test_the_documentation_lists_every_instrument(
    engine: Engine, topic: str, meters: Meters
) -> None:
    async with aio.Client(engine.url, telemetry=meters.telemetry) as client:
        consumer = await client.subscribe(topic, "s", ack_receipt_enabled=True)
        await (await client.create_producer(topic)).send(b"x")
        await consumer.acknowledge(await consumer.receive())
        meters.telemetry.processed(topic, "s", 0.1, good=True)
        told = meters.names()
    listed = set(re.findall(rf"^\| `({PREFIX}[^`]+)`", DOCUMENT.read_text(), re.MULTILINE))
    assert told == listed


def test_what_is_no_telemetry_is_refused() -> None:
    with pytest.raises(SettingsError, match="telemetry"):
        Client("pulsar://127.0.0.1:1", telemetry=True)  # type: ignore[arg-type]


PROGRAM = """
import sys
sys.modules["opentelemetry"] = None
sys.modules["opentelemetry.context"] = None
import magnetar.client.door.blocking
assert not any(name.startswith("opentelemetry.") and sys.modules[name] for name in sys.modules)
try:
    import magnetar.client.telemetry.telemetry
except magnetar.OperationNotSupported as error:
    print(error)
"""


def test_without_opentelemetry_everything_else_works() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert "pip install opentelemetry-api" in done.stdout
