"""`with consumer.processing(message)`: the block decides what becomes of a message.

| the block                      | the message                                                |
|--------------------------------|------------------------------------------------------------|
| ends                           | is acked                                                   |
| raises                         | is nacked; with `retry_after` it goes to the retry topic   |
| is cancelled, or the program   | is nacked, `retry_after` or not: nothing is wrong with it  |
| is interrupted                 |                                                            |

Whatever was raised goes on. A nacked message comes again after the consumer's
`negative_ack_redelivery_delay_ms` or its backoff, and a dead letter policy counts these rounds as
it counts the others. A consumer that was closed inside the block has given its messages back
already, so there is nothing left to nack.

With telemetry the block has a span of its own, and its time is recorded.
"""

import time
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from types import TracebackType
from typing import Generic, Protocol

from magnetar.client.consumer.message import Message
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.schema.value import Received
from magnetar.client.telemetry.observer import Observer
from magnetar.errors import AlreadyClosed, InvalidConfiguration, MagnetarError, UsageError
from magnetar.model import TopicName

__all__ = ["Observed", "Processing", "ThreadProcessing"]


class AsyncAcker(Protocol):
    """What the asyncio door's consumer does with a message."""

    async def acknowledge(self, message: Message) -> None: ...
    def negative_acknowledge(self, message: Message) -> None: ...
    async def reconsume_later(self, message: Message, delay: timedelta) -> None: ...


class Acker(Protocol):
    """What the blocking door's consumer does with a message."""

    def acknowledge(self, message: Message) -> None: ...
    def negative_acknowledge(self, message: Message) -> None: ...
    def reconsume_later(self, message: Message, delay: timedelta) -> None: ...


class _Block(Generic[Received]):
    """What both forms share: the message, the span and the time."""

    def __init__(
        self, engine: EngineConsumer, message: Message[Received], retry_after: timedelta | None
    ) -> None:
        _check(engine, message, retry_after)
        self._message = message
        self._retry_after = retry_after
        self._subscription = engine.options.subscription_name
        self._observer: Observer | None = engine.observer
        self._began_s = 0.0
        tracing = engine.tracing
        self._span: AbstractContextManager[object] = (
            nullcontext() if tracing is None else tracing.process(message, self._subscription)
        )

    def _begin(self) -> Message[Received]:
        self._began_s = time.monotonic()
        self._span.__enter__()
        return self._message

    def _end(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._span.__exit__(kind, error, traceback)
        if self._observer is not None:
            topic = str(TopicName.parse(self._message.topic_name()).partitioned)
            seconds = time.monotonic() - self._began_s
            self._observer.processed(topic, self._subscription, seconds, good=error is None)

    def _delay_of(self, error: BaseException) -> timedelta | None:
        """After which time the message is to come by the retry topic, if it is to."""
        return self._retry_after if isinstance(error, Exception) else None


def _check(engine: EngineConsumer, message: object, retry_after: object) -> None:
    if not isinstance(message, Message):
        raise UsageError(f"processing takes a message, not {type(message).__name__}")
    if retry_after is None:
        return
    if not isinstance(retry_after, timedelta):
        raise UsageError(f"retry_after: expected a timedelta, not {retry_after!r:.40}")
    if not engine.options.retry_enabled:
        raise InvalidConfiguration(
            "retry_after needs a consumer that receives retry letters: "
            "subscribe with retry_enabled=True"
        )


def _note(error: BaseException, problem: MagnetarError) -> None:
    error.add_note(f"it could not be sent to the retry topic, and was nacked: {problem}")


class Observed(_Block[Received]):
    """A span and a time alone: what becomes of the message is for whoever has this."""

    def __init__(self, engine: EngineConsumer, message: Message[Received]) -> None:
        super().__init__(engine, message, None)

    def __enter__(self) -> Message[Received]:
        return self._begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(kind, error, traceback)


class Processing(_Block[Received]):
    """`async with` of the asyncio door; see the module."""

    def __init__(
        self,
        consumer: AsyncAcker,
        engine: EngineConsumer,
        message: Message[Received],
        retry_after: timedelta | None,
    ) -> None:
        super().__init__(engine, message, retry_after)
        self._consumer = consumer

    async def __aenter__(self) -> Message[Received]:
        return self._begin()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(kind, error, traceback)
        if error is None:
            await self._consumer.acknowledge(self._message)
        elif not await self._is_sent_again(error):
            with suppress(AlreadyClosed):
                self._consumer.negative_acknowledge(self._message)

    async def _is_sent_again(self, error: BaseException) -> bool:
        delay = self._delay_of(error)
        if delay is None:
            return False
        try:
            await self._consumer.reconsume_later(self._message, delay)
        except MagnetarError as problem:
            _note(error, problem)
            return False
        return True


class ThreadProcessing(_Block[Received]):
    """`with` of the blocking door; see the module."""

    def __init__(
        self,
        consumer: Acker,
        engine: EngineConsumer,
        message: Message[Received],
        retry_after: timedelta | None,
    ) -> None:
        super().__init__(engine, message, retry_after)
        self._consumer = consumer

    def __enter__(self) -> Message[Received]:
        return self._begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(kind, error, traceback)
        if error is None:
            self._consumer.acknowledge(self._message)
        elif not self._is_sent_again(error):
            with suppress(AlreadyClosed):
                self._consumer.negative_acknowledge(self._message)

    def _is_sent_again(self, error: BaseException) -> bool:
        delay = self._delay_of(error)
        if delay is None:
            return False
        try:
            self._consumer.reconsume_later(self._message, delay)
        except MagnetarError as problem:
            _note(error, problem)
            return False
        return True
