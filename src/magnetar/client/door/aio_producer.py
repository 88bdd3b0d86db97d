"""The asyncio door's producer: each send is a future."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, Unpack

from magnetar.client.door.arguments import SendKeywords, interceptors_of, make_outgoing
from magnetar.client.door.closing import AsyncClosing
from magnetar.client.engine.producer import EngineProducer
from magnetar.client.errors import Result
from magnetar.client.intercept.failure import failure_of
from magnetar.client.intercept.producer_interceptor import MessageToSend
from magnetar.client.producer.outgoing import Outgoing
from magnetar.client.schema.schema import BytesSchema, Schema
from magnetar.client.schema.value import Sent
from magnetar.client.telemetry.observer import SendTrace, Tracing
from magnetar.client.telemetry.stats import ProducerStats
from magnetar.errors import Interrupted, ProducerQueueIsFull
from magnetar.model import MessageId

__all__ = ["Producer", "answer_futures"]


class Producer(AsyncClosing, Generic[Sent]):
    """Publishes to a topic."""

    def __init__(self, producer: EngineProducer, schema: Schema[Any]) -> None:
        self._producer = producer
        self._schema = schema
        self._tracing = producer.tracing
        self._interceptors = interceptors_of(producer)
        if self._interceptors is not None:
            producer.on_closed = self._interceptors.close
        plain = self._tracing is None and self._interceptors is None
        self._plain = type(schema) is BytesSchema and plain
        self._send = producer.send
        self._waits = producer.options.block_if_queue_full
        self._new_future = _future_maker(asyncio.get_running_loop())

    def send(
        self, content: Sent | None, **options: Unpack[SendKeywords]
    ) -> "asyncio.Future[MessageId]":
        """Sends a message; the future is its id, when it is stored.

        It is a plain function: messages go out in the order of the calls, also of those that
        nobody awaits yet. Where `max_pending_messages` wait for their receipt already the
        message waits for room here, without a limit; to make the caller wait, which keeps
        memory bounded, await the future or `send_when_room`. A message whose future is cancelled
        while it waits for room is not sent.

        A content of None is a message without a value: table views and compaction forget its key.

        Raises what the schema refuses, MessageTooBig and AlreadyClosed; ProducerQueueIsFull
        only of a producer that was made with `block_if_queue_full=False`.

        Args:
            content: The value, as the schema takes it, or bytes; None is a message without a value.
            properties: Texts that go with the message, each by its name.
            partition_key: The message's key: it chooses the partition, and the consumer of a
                KeyShared subscription.
            ordering_key: Chooses the consumer of a KeyShared subscription instead of partition_key.
            sequence_id: Number that deduplication compares, larger than that of the message before;
                None counts on.
            replication_clusters: Clusters that Apache Pulsar replicates the message to; None is
                all.
            disable_replication: Keep the message in the cluster that it is sent to.
            event_timestamp: When it happened that the message tells of, in ms since 1970.
            deliver_at: Deliver the message from then on, in ms since 1970, on Shared and KeyShared
                subscriptions.
            deliver_after: The same, as a timedelta from now on.
            transaction: The transaction that the message is part of; None is none.
        """
        future: asyncio.Future[MessageId] = self._new_future()
        if self._plain and type(content) is bytes and not options:
            message = Outgoing(content, future)
            try:
                self._send(message)
            except ProducerQueueIsFull:
                self._wait_in_turn(message)
            return future
        with self._intercepted(content, future, options) as (content, options):
            message = self._outgoing(content, future, options)
            if self._tracing is None:
                self._send_or_wait(message)
            else:
                with self._traced(self._tracing, message, future):
                    self._send_or_wait(message)
        return future

    @contextmanager
    def _intercepted(
        self, content: Any, future: "asyncio.Future[MessageId]", options: SendKeywords
    ) -> Iterator[tuple[Any, SendKeywords]]:
        """What is sent after interceptors had their turn, which hear what becomes of it."""
        interceptors = self._interceptors
        if interceptors is None:
            yield content, options
            return
        said: dict[str, Any] = {**options, "properties": options.get("properties") or {}}
        draft = MessageToSend(content, **said)
        draft = interceptors.before_send(self, draft)

        def tell(future: "asyncio.Future[MessageId]") -> None:
            if future.cancelled():
                interceptors.acknowledged(self, draft, None, Interrupted("it was cancelled"))
                return
            error = future.exception()
            if error is None:
                interceptors.acknowledged(self, draft, future.result(), None)
            else:
                interceptors.acknowledged(self, draft, None, failure_of(error))

        try:
            keywords: Any = draft.keywords()
            yield draft.content, keywords
        except BaseException as error:
            interceptors.acknowledged(self, draft, None, failure_of(error))
            raise
        future.add_done_callback(tell)

    def _send_or_wait(self, message: Outgoing) -> None:
        try:
            self._send(message)
        except ProducerQueueIsFull:
            self._wait_in_turn(message)

    def _wait_in_turn(self, message: Outgoing) -> None:
        """While ProducerQueueIsFull is handled, which is raised again if it was asked for."""
        if not self._waits:
            raise
        self._producer.wait_in_turn(message)

    async def send_when_room(
        self, content: Sent | None, **options: Unpack[SendKeywords]
    ) -> "asyncio.Future[MessageId]":
        """Sends as `send` does, but waits until there is room for the message.

        For whoever sends faster than the broker stores, and does not want to await each message.

        Args:
            content: The value, as the schema takes it, or bytes; None is a message without a value.
            properties: Texts that go with the message, each by its name.
            partition_key: The message's key: it chooses the partition, and the consumer of a
                KeyShared subscription.
            ordering_key: Chooses the consumer of a KeyShared subscription instead of partition_key.
            sequence_id: Number that deduplication compares, larger than that of the message before;
                None counts on.
            replication_clusters: Clusters that Apache Pulsar replicates the message to; None is
                all.
            disable_replication: Keep the message in the cluster that it is sent to.
            event_timestamp: When it happened that the message tells of, in ms since 1970.
            deliver_at: Deliver the message from then on, in ms since 1970, on Shared and KeyShared
                subscriptions.
            deliver_after: The same, as a timedelta from now on.
            transaction: The transaction that the message is part of; None is none.
        """
        future: asyncio.Future[MessageId] = self._new_future()
        with self._intercepted(content, future, options) as (content, options):
            message = self._outgoing(content, future, options)
            if self._tracing is None:
                await self._producer.send_when_room(message)
            else:
                with self._traced(self._tracing, message, future):
                    await self._producer.send_when_room(message)
        return future

    @contextmanager
    def _traced(
        self, tracing: Tracing, message: Outgoing, future: "asyncio.Future[MessageId]"
    ) -> Iterator[None]:
        trace = tracing.follow(self._producer.topic, message)
        try:
            yield
        except BaseException as error:
            trace.end(error if isinstance(error, Exception) else Result.Interrupted, None)
            raise
        future.add_done_callback(partial(_end_trace, trace))

    def _outgoing(
        self, content: Sent | None, future: "asyncio.Future[MessageId]", options: SendKeywords
    ) -> Outgoing:
        message = make_outgoing(self._schema, content, future, self._producer, **options)
        if message.transaction is not None:
            # Who does not await it hears of it by the commit.
            future.add_done_callback(_look_at)
        return message

    async def flush(self) -> None:
        """Returns when everything sent so far is stored."""
        await self._producer.flush()

    async def close(self) -> None:
        """Sends what is still waiting, and closes the producer."""
        await self._producer.close()

    def topic(self) -> str:
        """Returns the whole name of the topic."""
        return self._producer.topic

    def producer_name(self) -> str:
        """Returns the producer's name, which the broker made if none was given."""
        return self._producer.name

    def stats(self) -> ProducerStats:
        """Returns what it did so far."""
        return self._producer.stats()

    def last_sequence_id(self) -> int:
        """Returns the highest sequence id that the broker has stored, -1 for none."""
        return self._producer.last_sequence_id

    def is_connected(self) -> bool:
        """Returns whether the producer has a connection to its broker now."""
        return self._producer.connected

    def __repr__(self) -> str:
        return f"<magnetar.aio.Producer of {self._producer.topic}: {self._producer.state}>"


def _future_maker(loop: asyncio.AbstractEventLoop) -> "Callable[[], asyncio.Future[MessageId]]":
    """`loop.create_future`, without the function around it that asyncio's own loops have."""
    if getattr(type(loop), "create_future", None) is asyncio.BaseEventLoop.create_future:
        return partial(asyncio.Future, loop=loop)
    return loop.create_future


def answer_futures(futures: "list[Any]", error: Exception | None, ids: Sequence[MessageId]) -> None:
    """Hands what became of the messages of an entry to the futures of their senders."""
    if error is not None:
        for future in futures:
            if not future.done():
                future.set_exception(error)
        return
    for future, id in zip(futures, ids, strict=True):
        try:
            future.set_result(id)
        except asyncio.InvalidStateError:
            continue  # cancelled: nobody waits for it


def _look_at(future: "asyncio.Future[MessageId]") -> None:
    if not future.cancelled():
        future.exception()


def _end_trace(trace: SendTrace, future: "asyncio.Future[MessageId]") -> None:
    if future.cancelled():
        trace.end(None, None)  # the message was sent all the same
        return
    error = future.exception()
    if error is None:
        trace.end(None, future.result())
    else:
        trace.end(error if isinstance(error, Exception) else Result.UnknownError, None)
