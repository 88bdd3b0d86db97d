"""Traces through messages, as OpenTelemetry's own exporter sees them."""

from collections.abc import Iterator

import pytest
from client.conftest import Engine, receive, until
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from support.waiting import wait_until

import magnetar
from magnetar import Message
from magnetar.client.door import aio
from magnetar.client.door.blocking import Client
from magnetar.client.errors import Result
from magnetar.client.telemetry.telemetry import Telemetry
from magnetar.errors import MessageTooLargeError, ProducerQueueIsFull
from magnetar.model import MessageId


class Spans:
    """Telemetry that keeps its spans."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self._provider = TracerProvider()
        self._provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self._provider.get_tracer("tests")
        self.telemetry = Telemetry(
            tracer_provider=self._provider,
            propagator=TraceContextTextMapPropagator(),
            metrics=False,
        )

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        names = [span.name for span in self._exporter.get_finished_spans()]
        assert names.count(name) == 1, names
        return self.named(name)[0]

    def shutdown(self) -> None:
        self._provider.shutdown()


@pytest.fixture
def spans() -> Iterator[Spans]:
    spans = Spans()
    yield spans
    spans.shutdown()


def id_text(id: MessageId) -> str:
    return f"{id.ledger_id()}:{id.entry_id()}:{id.partition()}:{id.batch_index()}"


async def test_a_trace_goes_with_its_message(engine: Engine, topic: str, spans: Spans) -> None:
    async with aio.Client(engine.url, telemetry=spans.telemetry) as client:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        with spans.tracer.start_as_current_span("order") as order:
            id = await producer.send(b"hello", properties={"mine": "yes"})
        (message,) = await receive(consumer, 1)
        with spans.telemetry.process(message, "s"), spans.tracer.start_as_current_span("bill"):
            pass

    send = spans.one(f"send {topic}")
    assert send.kind == SpanKind.PRODUCER
    assert send.parent is not None
    assert send.parent.span_id == order.get_span_context().span_id
    assert dict(send.attributes or {}) == {
        "messaging.system": "pulsar",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.message.body.size": 5,
        "messaging.message.id": id_text(id),
    }
    assert message.properties()["mine"] == "yes"
    trace, span = send.context.trace_id, send.context.span_id
    carried = message.properties()["traceparent"]
    assert carried.startswith(f"00-{trace:032x}-{span:016x}-")

    got = spans.one(f"receive {topic}")
    assert got.kind == SpanKind.CLIENT
    assert [link.context.span_id for link in got.links] == [span]
    assert got.attributes is not None
    assert got.attributes["messaging.destination.subscription.name"] == "s"
    assert got.attributes["messaging.message.id"] == id_text(message.message_id())

    process, bill = spans.one(f"process {topic}"), spans.one("bill")
    assert process.kind == SpanKind.CONSUMER
    assert process.parent is not None
    assert process.parent.span_id == span
    assert bill.parent is not None
    assert bill.parent.span_id == process.context.span_id
    assert {one.context.trace_id for one in (process, bill)} == {trace}


async def test_a_message_without_a_trace_begins_one(
    engine: Engine, topic: str, spans: Spans
) -> None:
    async with (
        aio.Client(engine.url) as plain,
        aio.Client(engine.url, telemetry=spans.telemetry) as client,
    ):
        consumer = await client.subscribe(topic, "s")
        await (await plain.create_producer(topic)).send(
            b"x", properties={"traceparent": "nonsense"}
        )
        (message,) = await receive(consumer, 1)
        with spans.telemetry.process(message):
            pass
        assert not list(spans.telemetry.context_of(message))
    assert spans.one(f"process {topic}").parent is None
    assert not spans.one(f"receive {topic}").links


async def test_sends_that_fail_say_so(engine: Engine, topic: str, spans: Spans) -> None:
    async with aio.Client(engine.url, telemetry=spans.telemetry) as client:
        producer = await client.create_producer(
            topic, max_pending_messages=1, block_if_queue_full=False
        )
        with pytest.raises(MessageTooLargeError):
            producer.send(b"x" * (6 << 20))
        first = producer.send(b"x")
        with pytest.raises(ProducerQueueIsFull):
            producer.send(b"y")
        waiting = await producer.send_when_room(b"z")
        waiting.cancel()
        await first
        await producer.flush()
    kinds = [(span.attributes or {}).get("error.type") for span in spans.named(f"send {topic}")]
    assert sorted(kinds, key=str) == [
        "MessageTooLargeError",
        None,
        None,
        "ProducerQueueIsFull",
    ]
    for span in spans.named(f"send {topic}"):
        failed = "error.type" in (span.attributes or {})
        assert (span.status.status_code == StatusCode.ERROR) == failed


def test_the_blocking_door_traces_too(engine: Engine, topic: str, spans: Spans) -> None:
    with Client(engine.url, telemetry=spans.telemetry) as client:
        producer = client.create_producer(topic, batching_enabled=True)
        inside: list[int] = []

        def listen(consumer: object, message: object) -> None:
            with spans.tracer.start_as_current_span("inside") as span:
                inside.append(span.get_span_context().trace_id)
            if len(inside) == 2:
                raise ValueError("not this one")

        results: list[Result] = []
        complaints: list[object] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("threading.excepthook", complaints.append)
            client.subscribe(topic, "s", message_listener=listen)
            reader = client.create_reader(topic, MessageId.latest)
            producer.send(b"first")
            producer.send_async(b"second", lambda result, id: results.append(result))
            producer.send_async(b"third", None)
            producer.flush()
            wait_until(
                lambda: len(spans.named(f"process {topic}")) == 3, lambda: "not all were processed"
            )
            wait_until(lambda: results == [Result.Ok], lambda: str(results))
        assert reader.read_next(30_000).data() == b"first"
        wait_until(lambda: len(spans.named(f"send {topic}")) == 3, lambda: "a span is open")
    sends, processes = spans.named(f"send {topic}"), spans.named(f"process {topic}")
    assert {one.context.trace_id for one in sends} == set(inside)
    assert {one.context.trace_id for one in processes} == set(inside)
    errors = [(one.attributes or {}).get("error.type") for one in processes]
    assert sorted(errors, key=str) == [None, None, "ValueError"]
    assert len(complaints) == 1
    (received,) = spans.named(f"receive {topic}")
    assert received.start_time is not None
    assert received.end_time is not None
    assert received.start_time <= received.end_time


def test_without_traces_a_message_carries_none(engine: Engine, topic: str) -> None:
    telemetry = Telemetry(metrics=False, traces=False)
    with Client(engine.url, telemetry=telemetry) as client:
        reader = client.create_reader(topic, MessageId.earliest)
        client.create_producer(topic).send(b"x")
        message = reader.read_next(30_000)
        assert message.properties() == {}
        with telemetry.process(message):
            assert not list(telemetry.context_of(message))


async def test_a_block_of_processing_has_a_span_that_says_how_it_ended(
    engine: Engine, topic: str, spans: Spans
) -> None:
    @magnetar.worker(topic, subscription="s", negative_ack_redelivery_delay_ms=1)
    async def work(message: Message) -> None:
        if not message.redelivery_count():
            raise ValueError("not yet")

    async with aio.Client(engine.url, telemetry=spans.telemetry) as client, work.running(client):
        producer = await client.create_producer(topic)
        await producer.send(b"job")
        await until(lambda: work.health().handled == 1, lambda: repr(work.health()))
    processed = spans.named(f"process {topic}")
    assert [(span.attributes or {}).get("error.type") for span in processed] == ["ValueError", None]
