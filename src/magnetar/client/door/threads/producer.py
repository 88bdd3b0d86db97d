"""The blocking door's producer: work on the core is done by the caller's thread."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic

from magnetar.client.door.arguments import interceptors_of, make_outgoing
from magnetar.client.door.closing import Closing
from magnetar.client.door.threads.teller import Sending, Teller
from magnetar.client.door.threads.transaction import Transaction
from magnetar.client.engine.producer import EngineProducer
from magnetar.client.errors import Result, exception_of, result_of
from magnetar.client.intercept.failure import failure_of
from magnetar.client.intercept.producer_interceptor import MessageToSend, ProducerInterceptors
from magnetar.client.producer.outgoing import Outgoing
from magnetar.client.schema.schema import BytesSchema, Schema
from magnetar.client.schema.value import Sent
from magnetar.client.telemetry.observer import Tracing
from magnetar.client.telemetry.stats import ProducerStats
from magnetar.errors import ProducerQueueIsFull, PulsarException
from magnetar.model import MessageId

if TYPE_CHECKING:
    from magnetar.client.door.blocking import Client

__all__ = ["Producer"]

# What most messages are sent with, besides their bytes.
NO_FIELDS = (None,) * 5
NO_TIMES = (None,) * 3


class Producer(Closing, Generic[Sent]):
    """Publishes to a topic. Any thread may call it, and several at once."""

    def __init__(
        self,
        client: "Client",
        producer: EngineProducer,
        schema: Schema[Any],
        teller: Teller,
    ) -> None:
        self._client = client
        self._producer = producer
        self._schema = schema
        self._tracing = producer.tracing
        self._interceptors = interceptors_of(producer)
        if self._interceptors is not None:
            producer.on_closed = self._interceptors.close
        plain = self._tracing is None and self._interceptors is None
        self._plain = type(schema) is BytesSchema and plain
        self._lock = client._lock
        self._teller = teller
        self._room = threading.Condition(client._lock)
        producer.on_room = self._have_room
        self._waiting = 0

    def send(
        self,
        content: Sent | None,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
        transaction: Transaction | None = None,
    ) -> MessageId:
        """Sends a message; returns its id when it is stored.

        A content of None is a message without a value: table views and compaction forget its key.

        Raises Timeout if it was not stored in time, what the schema refuses, MessageTooBig,
        AlreadyClosed, and ProducerQueueIsFull unless `block_if_queue_full` is set.

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
        self._client._loop.refuse_here()
        sending = Sending()
        given = (properties, partition_key, ordering_key, sequence_id, replication_clusters)
        times = (event_timestamp, deliver_at, deliver_after)
        if (
            self._plain
            and type(content) is bytes
            and not disable_replication
            and given == NO_FIELDS
            and times == NO_TIMES
            and transaction is None
        ):
            return self._send(Outgoing(content, sending), sending)
        if self._interceptors is not None:
            draft = MessageToSend(
                content,
                properties or {},
                partition_key,
                ordering_key,
                sequence_id,
                replication_clusters,
                disable_replication,
                event_timestamp,
                deliver_at,
                deliver_after,
                transaction,
            )
            return self._send_intercepted(self._interceptors, draft, sending)
        message = make_outgoing(
            self._schema,
            content,
            sending,
            self._producer,
            properties=properties,
            partition_key=partition_key,
            ordering_key=ordering_key,
            sequence_id=sequence_id,
            replication_clusters=replication_clusters,
            disable_replication=disable_replication,
            event_timestamp=event_timestamp,
            deliver_at=deliver_at,
            deliver_after=deliver_after,
            transaction=transaction,
        )
        return self._send_whole(message, sending)

    def _send_intercepted(
        self, interceptors: ProducerInterceptors, draft: MessageToSend, sending: Sending
    ) -> MessageId:
        draft = interceptors.before_send(self, draft)
        try:
            message = make_outgoing(
                self._schema, draft.content, sending, self._producer, **draft.keywords()
            )
            id = self._send_whole(message, sending)
        except BaseException as error:
            interceptors.acknowledged(self, draft, None, failure_of(error))
            raise
        interceptors.acknowledged(self, draft, id, None)
        return id

    def _send_whole(self, message: Outgoing, sending: Sending) -> MessageId:
        if self._tracing is None:
            return self._send(message, sending)
        trace = self._tracing.follow(self._producer.topic, message)
        try:
            id = self._send(message, sending)
        except BaseException as error:
            trace.end(error if isinstance(error, Exception) else Result.Interrupted, None)
            raise
        trace.end(None, id)
        return id

    def _send(self, message: Outgoing, sending: Sending) -> MessageId:
        with self._lock:
            self._teller.sending += 1
            try:
                self._put(message, self._producer.send_now)
            except BaseException:
                self._teller.sending -= 1
                raise
        return sending.wait()

    def send_async(
        self,
        content: Sent | None,
        callback: Callable[[Result, MessageId], Any] | None,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        """Sends a message; `callback(result, message_id)` is called with what became of it.

        Without a callback, a producer that cannot take it raises.

        Args:
            content: The value, as the schema takes it, or bytes; None is a message without a value.
            callback: Function that is called with a Result and the message's id, on a thread.
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
        if (
            self._plain
            and type(content) is bytes
            and properties is None
            and partition_key is None
            and ordering_key is None
            and sequence_id is None
            and replication_clusters is None
            and not disable_replication
            and event_timestamp is None
            and deliver_at is None
            and deliver_after is None
            and transaction is None
        ):
            message = Outgoing(content, callback)
        elif self._interceptors is not None:
            draft = MessageToSend(
                content,
                properties or {},
                partition_key,
                ordering_key,
                sequence_id,
                replication_clusters,
                disable_replication,
                event_timestamp,
                deliver_at,
                deliver_after,
                transaction,
            )
            self._send_async_intercepted(self._interceptors, draft, callback)
            return
        else:
            message = make_outgoing(
                self._schema,
                content,
                callback,
                self._producer,
                properties=properties,
                partition_key=partition_key,
                ordering_key=ordering_key,
                sequence_id=sequence_id,
                replication_clusters=replication_clusters,
                disable_replication=disable_replication,
                event_timestamp=event_timestamp,
                deliver_at=deliver_at,
                deliver_after=deliver_after,
                transaction=transaction,
            )
            if self._tracing is not None:
                self._send_traced(self._tracing, message, callback, raises=callback is None)
                return
        self._send_later(message, callback)

    def _send_async_intercepted(
        self,
        interceptors: ProducerInterceptors,
        draft: MessageToSend,
        callback: Callable[[Result, MessageId], Any] | None,
    ) -> None:
        draft = interceptors.before_send(self, draft)

        def have_answer(result: Result, id: MessageId) -> None:
            stored = result is Result.Ok
            error = None if stored else exception_of(result)
            interceptors.acknowledged(self, draft, id if stored else None, error)
            if callback is not None:
                callback(result, id)

        try:
            message = make_outgoing(
                self._schema, draft.content, have_answer, self._producer, **draft.keywords()
            )
            if self._tracing is not None:
                self._send_traced(self._tracing, message, have_answer, raises=callback is None)
            else:
                self._send_later(message, None if callback is None else have_answer)
        except BaseException as error:
            # Nobody else hears of it.
            interceptors.acknowledged(self, draft, None, failure_of(error))
            raise

    def _send_later(
        self, message: Outgoing, callback: Callable[[Result, MessageId], Any] | None
    ) -> None:
        try:
            with self._lock:
                try:
                    self._producer.send(message)
                except ProducerQueueIsFull:
                    self._put(message, self._producer.send)
        except PulsarException as error:
            if callback is None:
                raise
            self._client._callbacks.tell(callback, result_of(error))

    def _send_traced(
        self,
        tracing: Tracing,
        message: Outgoing,
        callback: Callable[[Result, MessageId], Any] | None,
        *,
        raises: bool,
    ) -> None:
        trace = tracing.follow(self._producer.topic, message)

        def have_answer(result: Result, id: MessageId) -> None:
            trace.end(result, id)
            if callback is not None:
                callback(result, id)

        message.sender = have_answer
        try:
            with self._lock:
                self._put(message, self._producer.send)
        except BaseException as error:
            trace.end(error if isinstance(error, Exception) else Result.Interrupted, None)
            if callback is None or raises or not isinstance(error, PulsarException):
                raise
            self._client._callbacks.tell(callback, result_of(error))

    def _put(self, message: Outgoing, send: Callable[[Outgoing], None]) -> None:
        """Calls `send`, but waits for room if it may. With the lock."""
        while True:
            try:
                send(message)
                return
            except ProducerQueueIsFull:
                if not self._producer.options.block_if_queue_full:
                    raise
                self._client._loop.refuse_here()
            self._waiting += 1
            try:
                self._room.wait()
            finally:
                self._waiting -= 1

    def _have_room(self) -> None:
        self._producer.let_waiters_on()
        if self._waiting:
            with self._lock:
                self._room.notify_all()

    def flush(self) -> None:
        """Returns when everything sent so far is stored."""
        self._client._call(self._producer.flush())

    def close(self) -> None:
        """Sends what is still waiting, and closes the producer."""
        if not self._client._engine.forked:
            self._client._call(self._producer.close())

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
        return f"<magnetar.Producer of {self._producer.topic}: {self._producer.state}>"
