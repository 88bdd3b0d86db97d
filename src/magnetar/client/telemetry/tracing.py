"""Traces that follow messages from their senders to their receivers.

| span              | kind     | from                           | to                           |
|-------------------|----------|--------------------------------|------------------------------|
| `send <topic>`    | producer | the call                       | the broker's receipt         |
| `receive <topic>` | client   | the call                       | its message, linked to `send` |
| `process <topic>` | consumer | a listener gets a message      | it returns; child of `send`  |

A message carries the context of its `send` in its properties, as W3C's `traceparent` and
`tracestate` unless another propagator is set, which is what Pulsar's Java client does too. Names
and attributes are those of OpenTelemetry's conventions for messaging.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import (
    Link,
    Span,
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
    get_current_span,
    get_tracer,
    set_span_in_context,
)

from magnetar.client.consumer.message import Message
from magnetar.client.errors import Result
from magnetar.client.telemetry.observer import SendTrace, Tracing
from magnetar.model import MessageId, TopicName

__all__ = ["MessageTracing"]


class MessageTracing(Tracing):
    """See the module. Without a provider or a propagator, those that are set globally."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
    ) -> None:
        self._tracer: Tracer = get_tracer("magnetar.client", tracer_provider=tracer_provider)
        self._propagator = propagator

    @property
    def propagator(self) -> TextMapPropagator:
        # Asked for each time: it may be set globally after the client was made.
        return self._propagator or propagate.get_global_textmap()

    def context_of(self, message: Message) -> Context:
        """Returns what the sender of a message was doing; empty if the message does not say."""
        return self.propagator.extract(message.properties(), context=Context())

    def send(self, topic: str, properties: dict[str, str] | None, size: int) -> SendTrace:
        span = self._tracer.start_span(
            f"send {topic}",
            kind=SpanKind.PRODUCER,
            attributes={**_attributes("send", topic), "messaging.message.body.size": size},
        )
        carried = {} if properties is None else dict(properties)
        self.propagator.inject(carried, context=set_span_in_context(span))
        return _Send(span, carried)

    def now_ns(self) -> int:
        return time.time_ns()

    def received(self, message: Message, subscription: str, began_ns: int) -> None:
        sent = get_current_span(self.context_of(message)).get_span_context()
        span = self._tracer.start_span(
            f"receive {_topic_of(message)}",
            kind=SpanKind.CLIENT,
            attributes=_message_attributes("receive", message, subscription),
            links=[Link(sent)] if sent.is_valid else None,
            start_time=began_ns,
        )
        span.end()

    def process(self, message: Message, subscription: str) -> AbstractContextManager[Span]:
        """Makes `process` the current span; what a `with` block raises is noted in it."""
        return self._process(message, subscription)

    @contextmanager
    def _process(self, message: Message, subscription: str) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            f"process {_topic_of(message)}",
            context=self.context_of(message),
            kind=SpanKind.CONSUMER,
            attributes=_message_attributes("process", message, subscription),
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise


class _Send(SendTrace):
    def __init__(self, span: Span, properties: dict[str, str]) -> None:
        self._span = span
        self.properties = properties

    def end(self, error: Exception | Result | None, id: MessageId | None) -> None:
        span = self._span
        if error is not None and error is not Result.Ok:
            kind = error.name if isinstance(error, Result) else type(error).__qualname__
            span.set_attribute("error.type", kind)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        elif id is not None:
            span.set_attribute("messaging.message.id", _id_text(id))
            if id.partition() >= 0:
                span.set_attribute("messaging.destination.partition.id", str(id.partition()))
        span.end()


def _attributes(operation: str, topic: str) -> dict[str, Any]:
    return {
        "messaging.system": "pulsar",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }


def _message_attributes(operation: str, message: Message, subscription: str) -> dict[str, Any]:
    found = _attributes(operation, _topic_of(message))
    found["messaging.destination.subscription.name"] = subscription
    found["messaging.message.id"] = _id_text(message.message_id())
    found["messaging.message.body.size"] = message.length()
    partition = TopicName.parse(message.topic_name()).partition
    if partition >= 0:
        found["messaging.destination.partition.id"] = str(partition)
    return found


def _topic_of(message: Message) -> str:
    return str(TopicName.parse(message.topic_name()).partitioned)


def _id_text(id: MessageId) -> str:
    return f"{id.ledger_id()}:{id.entry_id()}:{id.partition()}:{id.batch_index()}"
