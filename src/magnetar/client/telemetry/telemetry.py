"""Metrics and traces of clients, for OpenTelemetry: the extra `otel`.

    telemetry = Telemetry()
    client = magnetar.Client("pulsar://broker:6650", telemetry=telemetry)

Make one, and give it to all clients: it adds up what they count. Counters and gauges are read
from the clients' statistics when a reader asks for them, so they cost a message nothing. Three
histograms are recorded: of entries that are sent, of lookups, and of messages that a worker, or
a block of `consumer.processing`, has in hand. Names are those of Pulsar's
Java client where it has them (docs/reference/metrics.md lists all).
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

from magnetar.client.consumer.message import Message
from magnetar.client.telemetry.observer import Observer, Tracing
from magnetar.client.telemetry.totals import Totals
from magnetar.errors import InvalidTopicNameError, OperationNotSupported
from magnetar.model import TopicName

try:
    from opentelemetry.context import Context
    from opentelemetry.metrics import (
        CallbackOptions,
        Meter,
        MeterProvider,
        Observation,
        get_meter,
    )
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import TracerProvider

    from magnetar.client.telemetry.tracing import MessageTracing
except ImportError as _missing:
    raise OperationNotSupported(
        f"telemetry needs OpenTelemetry ({_missing}): pip install opentelemetry-api"
    ) from _missing

__all__ = ["Telemetry"]

# In seconds: from a send on one machine to one that sat through a broker's restart.
BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

# Field of the statistics, name, unit, what it is.
PRODUCER_COUNTERS = (
    ("messages_stored", "message.send.count", "{message}", "Messages stored"),
    ("messages_failed", "message.send.failed.count", "{message}", "Messages given up"),
    ("bytes_sent", "message.send.size", "By", "Bytes of messages that were sent"),
    ("entries_written", "entry.send.count", "{entry}", "Entries written, again too"),
)
PRODUCER_GAUGES = (
    ("pending_messages", "message.pending.count", "{message}", "Messages on their way"),
    ("pending_bytes", "message.pending.size", "By", "Bytes of messages on their way"),
)
CONSUMER_COUNTERS = (
    ("messages_taken", "message.received.count", "{message}", "Messages received"),
    ("bytes_received", "message.received.size", "By", "Bytes of entries that came"),
    ("messages_dropped", "message.dropped.count", "{message}", "Came, not for the application"),
    ("messages_acked", "message.ack", "{message}", "Messages acknowledged"),
    ("messages_refused", "message.nack", "{message}", "Messages negatively acknowledged"),
    ("entries_late", "message.ack.timeout", "{entry}", "Entries left unacked for too long"),
    ("messages_dead", "message.dlq", "{message}", "Messages sent to a dead letter topic"),
    ("entries_redelivered", "entry.redelivered.count", "{entry}", "Entries asked for again"),
    ("entries_refused", "entry.refused.count", "{entry}", "Entries that cannot be read"),
    # One for each entry in an ACK; without receipts and retries there is only the first.
    ("acks_sent", "ack.sent.count", "{ack}", "Acks sent, again too"),
    ("acks_failed", "ack.failed.count", "{ack}", "Acks refused, late, or lost with a connection"),
    ("ack_retries", "ack.retry.count", "{ack}", "Acks sent again"),
    ("acks_kept", "ack.kept.count", "{ack}", "Acks that a broker confirmed"),
    ("acks_kept_after_retry", "ack.kept_after_retry.count", "{ack}", "Of those, sent again"),
    ("acks_exhausted", "ack.exhausted.count", "{ack}", "Acks given up"),
)
CONSUMER_GAUGES = (
    ("queue_length", "receive_queue.count", "{message}", "Messages in receive queues"),
    ("available_permits", "permit.count", "{message}", "Messages that brokers may send"),
    ("acks_pending", "ack.pending.count", "{ack}", "Acks not confirmed yet"),
    ("acks_waiting", "ack.waiting.count", "{ack}", "Of those, waiting to be sent again"),
)

Observe: TypeAlias = Callable[[Totals], Iterator[Observation]]


class Telemetry(Observer):
    """See the module. Without providers, those that are set globally."""

    def __init__(
        self,
        *,
        meter_provider: MeterProvider | None = None,
        tracer_provider: TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
        metrics: bool = True,
        traces: bool = True,
    ) -> None:
        self._message_tracing = MessageTracing(tracer_provider, propagator) if traces else None
        self.tracing: Tracing | None = self._message_tracing
        self._lock = threading.Lock()
        self._open: dict[Totals, None] = {}
        # Of clients that are closed: counters do not go back.
        self._past = Totals(nullcontext())
        self._now: _Snapshot | None = None
        self._metrics = metrics
        if metrics:
            self._make_metrics(get_meter("magnetar.client", meter_provider=meter_provider))

    def process(self, message: Message, subscription: str = "") -> AbstractContextManager[object]:
        """A span for the time in which a message is worked on; listeners have one anyway.

        with telemetry.process(message):
            ...
        """
        if self._message_tracing is None:
            return nullcontext()
        return self._message_tracing.process(message, subscription)

    def context_of(self, message: Message) -> Context:
        """The context that a message was sent in, to be the parent of a span of one's own."""
        tracing = self._message_tracing
        return Context() if tracing is None else tracing.context_of(message)

    # ---- What the engine tells -----------------------------------------------

    def opened(self, totals: Totals) -> None:
        with self._lock:
            self._open[totals] = None

    def closed(self, totals: Totals) -> None:
        with self._lock:
            if totals in self._open:
                del self._open[totals]
                self._past.absorb(totals)

    def stored(self, topic: str, seconds: float) -> None:
        if self._metrics:
            attributes = topic_attributes(topic)
            attributes["pulsar.response.status"] = _status(True)
            self._send_duration.record(seconds, attributes)

    def confirmed(self, topic: str, subscription: str, seconds: float) -> None:
        if self._metrics:
            self._ack_duration.record(seconds, topic_attributes(topic, subscription))

    def processed(self, topic: str, subscription: str, seconds: float, *, good: bool) -> None:
        if self._metrics:
            attributes = topic_attributes(topic, subscription)
            attributes["pulsar.response.status"] = _status(good)
            self._process_duration.record(seconds, attributes)

    def looked_up(self, kind: str, transport: str, seconds: float, *, found: bool) -> None:
        if self._metrics:
            attributes = {
                "pulsar.lookup.type": kind,
                "pulsar.lookup.transport-type": transport,
                "pulsar.response.status": _status(found),
            }
            self._lookup_duration.record(seconds, attributes)

    # ---- Metrics -------------------------------------------------------------

    def _make_metrics(self, meter: Meter) -> None:
        self._send_duration = meter.create_histogram(
            "pulsar.client.producer.message.send.duration",
            unit="s",
            description="From the first message of an entry to its receipt",
            explicit_bucket_boundaries_advisory=list(BOUNDS_S),
        )
        self._process_duration = meter.create_histogram(
            "pulsar.client.consumer.message.process.duration",
            unit="s",
            description="What blocks of consumer.processing take, workers' functions included",
            explicit_bucket_boundaries_advisory=list(BOUNDS_S),
        )
        self._ack_duration = meter.create_histogram(
            "pulsar.client.consumer.ack.duration",
            unit="s",
            description="From the first acknowledge of an ACK to the broker's confirmation",
            explicit_bucket_boundaries_advisory=list(BOUNDS_S),
        )
        self._lookup_duration = meter.create_histogram(
            "pulsar.client.lookup.duration",
            unit="s",
            description="What lookups take",
            explicit_bucket_boundaries_advisory=list(BOUNDS_S),
        )
        for field, name, unit, what in PRODUCER_COUNTERS:
            self._count(meter, f"producer.{name}", unit, what, _producers(field))
        for field, name, unit, what in CONSUMER_COUNTERS:
            self._count(meter, f"consumer.{name}", unit, what, _consumers(field))
        for field in ("opened", "closed"):
            self._count(meter, f"producer.{field}", "{session}", f"Producers {field}", _made(field))
            self._count(
                meter, f"consumer.{field}", "{session}", f"Consumers {field}", _subscribed(field)
            )
            self._count(
                meter,
                f"connection.{field}",
                "{connection}",
                f"Connections {field}",
                _connections(field),
            )
        self._count(
            meter, "connection.failed", "{connection}", "Connections that failed", _failures
        )
        for field, name, unit, what in PRODUCER_GAUGES:
            self._show(meter, f"producer.{name}", unit, what, _producers(field))
        for field, name, unit, what in CONSUMER_GAUGES:
            self._show(meter, f"consumer.{name}", unit, what, _consumers(field))

    def _count(self, meter: Meter, name: str, unit: str, what: str, observe: Observe) -> None:
        name = f"pulsar.client.{name}"
        meter.create_observable_counter(name, [self._callback(name, observe)], unit, what)

    def _show(self, meter: Meter, name: str, unit: str, what: str, observe: Observe) -> None:
        name = f"pulsar.client.{name}"
        meter.create_observable_up_down_counter(name, [self._callback(name, observe)], unit, what)

    def _callback(
        self, name: str, observe: Observe
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda options: observe(self._totals_for(name))

    def _totals_for(self, name: str) -> Totals:
        """What all clients did, added up once for all instruments of a collection."""
        with self._lock:
            now = self._now
            if now is None or name in now.told:
                now = self._now = _Snapshot(self._past, *self._open)
            now.told.add(name)
            return now.totals


class _Snapshot:
    """What all clients did, and which instruments have been told."""

    def __init__(self, *clients: Totals) -> None:
        self.totals = Totals(nullcontext())
        for client in clients:
            self.totals.absorb(client)
        self.told: set[str] = set()


def _producers(field: str) -> Observe:
    def observe(totals: Totals) -> Iterator[Observation]:
        for topic, stats in totals.producers().items():
            yield Observation(getattr(stats, field), topic_attributes(topic))

    return observe


def _consumers(field: str) -> Observe:
    def observe(totals: Totals) -> Iterator[Observation]:
        for (topic, subscription), stats in totals.consumers().items():
            yield Observation(getattr(stats, field), topic_attributes(topic, subscription))

    return observe


def _made(field: str) -> Observe:
    def observe(totals: Totals) -> Iterator[Observation]:
        for topic, sessions in totals.producer_sessions.items():
            yield Observation(getattr(sessions, field), topic_attributes(topic))

    return observe


def _subscribed(field: str) -> Observe:
    def observe(totals: Totals) -> Iterator[Observation]:
        for (topic, subscription), sessions in totals.consumer_sessions.items():
            yield Observation(getattr(sessions, field), topic_attributes(topic, subscription))

    return observe


def _connections(field: str) -> Observe:
    def observe(totals: Totals) -> Iterator[Observation]:
        yield Observation(getattr(totals.connections, field))

    return observe


def _failures(totals: Totals) -> Iterator[Observation]:
    connections = totals.connections
    yield Observation(connections.failed_connect, {"pulsar.failure.type": "tcp-failed"})
    yield Observation(connections.failed_handshake, {"pulsar.failure.type": "handshake"})


def topic_attributes(topic: str, subscription: str | None = None) -> dict[str, str]:
    """What is said of a number besides its name; a pattern has no tenant and no namespace."""
    found = {"pulsar.topic": topic}
    try:
        name = TopicName.parse(topic)
    except InvalidTopicNameError:
        pass
    else:
        found["pulsar.tenant"] = name.tenant
        found["pulsar.namespace"] = str(name.namespace)
    if subscription is not None:
        found["pulsar.subscription"] = subscription
    return found


def _status(good: bool) -> str:
    return "success" if good else "failed"
