"""The blocking door: the official Python client's names and arguments, on a loop thread.

    application's threads   send, receive and acknowledge work on the cores themselves, with
                            the engine's lock; what must go to a socket is handed to the loop
    the loop's thread       connections, lookups, timers
    the callback thread     callbacks of send_async, in order
    a thread per listener   message listeners

A blocking call on the loop's thread would wait for itself, so it raises instead. Callbacks and
listeners may block: nobody waits for their threads but `close`.
"""

import asyncio
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from datetime import timedelta
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar

from magnetar.client import aio
from magnetar.client.authentication import Authentication
from magnetar.client.engine.client import Engine
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.engine.producer import EngineProducer, partition_names
from magnetar.client.engine.stats import ConsumerStats, ProducerStats
from magnetar.client.errors import Result, result_of
from magnetar.client.message import Message
from magnetar.client.options import (
    BatchingType,
    ClientOptions,
    ConsumerBatchReceivePolicy,
    ConsumerCryptoFailureAction,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    ConsumerOptions,
    PartitionsRoutingMode,
    ProducerOptions,
    ReaderOptions,
)
from magnetar.client.outgoing import Outgoing
from magnetar.client.schema import BytesSchema, Schema
from magnetar.client.schema_info import SchemaInfo
from magnetar.client.service_info import ServiceInfo
from magnetar.errors import (
    AlreadyClosed,
    MagnetarError,
    OperationNotSupported,
    ProducerQueueIsFull,
    Timeout,
)
from magnetar.model import (
    CompressionType,
    ConsumerType,
    InitialPosition,
    MessageId,
    ProducerAccessMode,
    RegexSubscriptionMode,
    TopicName,
)

__all__ = ["Client", "Consumer", "Producer", "Reader", "TableView"]

T = TypeVar("T")

log: logging.Logger = logging.getLogger("magnetar.client")

_warned_batch_index = False


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = _new_event_loop()
        self._stopping = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="magnetar-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    def refuse_here(self) -> None:
        """Raises if this is the loop's own thread."""
        if threading.current_thread() is self._thread:
            raise OperationNotSupported(
                "a blocking call on the client's own thread would wait for itself: use send_async, "
                "or make the call from another thread"
            )

    def call(self, work: "Coroutine[Any, Any, T]") -> T:
        """Runs a coroutine there and waits for it here."""
        try:
            self.refuse_here()
            with self._lock:
                if self._stopping:
                    raise AlreadyClosed("the client is closed: make another")
                future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except CancelledError:
            raise AlreadyClosed("the client was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


# Callbacks of the messages of one entry, what became of it, and the id of each.
_Called = tuple[list[Any], Result, Sequence[MessageId | None]]


class _Callbacks:
    """A thread that calls back, in order."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Called | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def put(self, callbacks: list[Any], result: Result, ids: Sequence[MessageId | None]) -> None:
        """Has all of them called, but for None, each with its id."""
        if self._thread is None:
            self._start()
        self._queue.put((callbacks, result, ids))

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="magnetar-callbacks", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        get = self._queue.get
        while (item := get()) is not None:
            callbacks, result, ids = item
            for callback, id in zip(callbacks, ids, strict=True):
                if callback is not None:
                    try:
                        callback(result, id)
                    except Exception:
                        _complain()

    def stop(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            if threading.current_thread() is not self._thread:
                self._thread.join()


def _complain() -> None:
    """Tells what a function of the application's raised, as for any thread."""
    threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


class _Sending:
    """A call of `send` that waits, on another thread than the one that settles it."""

    __slots__ = ("_error", "_id", "_settled")

    def __init__(self) -> None:
        self._settled = threading.Lock()
        self._settled.acquire()
        self._error: Exception | None = None
        self._id: MessageId | None = None

    def settle(self, error: Exception | None, id: MessageId | None) -> None:
        self._error = error
        self._id = id
        self._settled.release()

    def wait(self) -> MessageId:
        self._settled.acquire()
        if self._error is not None:
            raise self._error
        assert self._id is not None
        return self._id


class _Settlement:
    """Tells the senders of one producer's messages what became of them, an entry at a time.

    Who waits in `send` is told at once, whatever the callbacks before it do; callbacks are
    left to their thread. Everything here is done with the engine's lock.
    """

    def __init__(self, callbacks: _Callbacks) -> None:
        self._callbacks = callbacks
        # How many calls of `send` wait.
        self.sending: int = 0

    def __call__(
        self, senders: list[Any], error: Exception | None, ids: Sequence[MessageId | None]
    ) -> None:
        if error is not None:
            ids = [None] * len(senders)
        if self.sending:
            senders = self._settle(senders, error, ids)
            if not senders:
                return
        self._callbacks.put(senders, Result.Ok if error is None else result_of(error), ids)

    def _settle(
        self, senders: list[Any], error: Exception | None, ids: Sequence[MessageId | None]
    ) -> list[Any]:
        """Tells those who wait; the callbacks among the senders, each in its place, if any."""
        left: list[Any] = []
        for sender, id in zip(senders, ids, strict=True):
            if type(sender) is _Sending:
                self.sending -= 1
                sender.settle(error, id)
                left.append(None)
            else:
                left.append(sender)
        return left if any(sender is not None for sender in left) else []


class _Closing:
    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Client(_Closing):
    """A client of a broker or a cluster. Every argument is the official client's."""

    def __init__(
        self,
        service_url: str,
        authentication: Any = None,
        operation_timeout_seconds: int = 30,
        io_threads: int = 1,
        message_listener_threads: int = 1,
        concurrent_lookup_requests: int = 50000,
        log_conf_file_path: str | None = None,
        stats_interval_in_seconds: int = 600,
        use_tls: bool = False,
        tls_trust_certs_file_path: str | None = None,
        tls_allow_insecure_connection: bool = False,
        tls_validate_hostname: bool = False,
        logger: Any = None,
        connection_timeout_ms: int = 10000,
        listener_name: str | None = None,
        tls_private_key_file_path: str | None = None,
        tls_certificate_file_path: str | None = None,
        **ours: Any,
    ) -> None:
        options = ClientOptions(
            authentication=authentication,
            operation_timeout_seconds=operation_timeout_seconds,
            io_threads=io_threads,
            message_listener_threads=message_listener_threads,
            concurrent_lookup_requests=concurrent_lookup_requests,
            log_conf_file_path=log_conf_file_path,
            stats_interval_in_seconds=stats_interval_in_seconds,
            use_tls=use_tls,
            tls_trust_certs_file_path=tls_trust_certs_file_path,
            tls_allow_insecure_connection=tls_allow_insecure_connection,
            tls_validate_hostname=tls_validate_hostname,
            logger=logger,
            connection_timeout_ms=connection_timeout_ms,
            listener_name=listener_name,
            tls_private_key_file_path=tls_private_key_file_path,
            tls_certificate_file_path=tls_certificate_file_path,
            **ours,
        )
        self._service_url = service_url
        self._options = options
        self._lock = threading.RLock()
        self._engine = Engine(service_url, options, lock=self._lock)
        self._loop = _LoopThread()
        self._callbacks = _Callbacks()
        self._listeners: dict[_Listener, None] = {}
        self._closed = False

    def create_producer(
        self,
        topic: str,
        producer_name: str | None = None,
        schema: Schema | None = None,
        initial_sequence_id: int | None = None,
        send_timeout_millis: int = 30000,
        compression_type: CompressionType = CompressionType.NONE,
        max_pending_messages: int = 1000,
        max_pending_messages_across_partitions: int = 50000,
        block_if_queue_full: bool = False,
        batching_enabled: bool = False,
        batching_max_messages: int = 1000,
        batching_max_allowed_size_in_bytes: int = 128 * 1024,
        batching_max_publish_delay_ms: int = 10,
        chunking_enabled: bool = False,
        message_routing_mode: PartitionsRoutingMode = PartitionsRoutingMode.RoundRobinDistribution,
        lazy_start_partitioned_producers: bool = False,
        properties: dict[str, str] | None = None,
        batching_type: BatchingType = BatchingType.Default,
        encryption_key: str | None = None,
        crypto_key_reader: Any = None,
        access_mode: ProducerAccessMode = ProducerAccessMode.Shared,
        message_router: Callable[[Any, int], int] | None = None,
        **ours: Any,
    ) -> "Producer":
        """A producer of a topic."""
        schema = self._attached(schema)
        options = ProducerOptions(
            producer_name=producer_name,
            initial_sequence_id=initial_sequence_id,
            send_timeout_millis=send_timeout_millis,
            compression_type=compression_type,
            max_pending_messages=max_pending_messages,
            max_pending_messages_across_partitions=max_pending_messages_across_partitions,
            block_if_queue_full=block_if_queue_full,
            batching_enabled=batching_enabled,
            batching_max_messages=batching_max_messages,
            batching_max_allowed_size_in_bytes=batching_max_allowed_size_in_bytes,
            batching_max_publish_delay_ms=batching_max_publish_delay_ms,
            chunking_enabled=chunking_enabled,
            message_routing_mode=message_routing_mode,
            lazy_start_partitioned_producers=lazy_start_partitioned_producers,
            properties=properties,
            batching_type=batching_type,
            encryption_key=encryption_key,
            crypto_key_reader=crypto_key_reader,
            access_mode=access_mode,
            message_router=message_router,
            **ours,
        )
        producer = EngineProducer(self._engine, topic, options, schema)
        settlement = _Settlement(self._callbacks)
        producer.settle = settlement
        self._call(self._engine.open(producer))
        return Producer(self, producer, schema, settlement)

    def subscribe(
        self,
        topic: "str | list[str] | re.Pattern[str]",
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        schema: Schema | None = None,
        message_listener: "Callable[[Consumer, Message], Any] | None" = None,
        receiver_queue_size: int = 1000,
        max_total_receiver_queue_size_across_partitions: int = 50000,
        consumer_name: str | None = None,
        unacked_messages_timeout_ms: int | None = None,
        broker_consumer_stats_cache_time_ms: int = 30000,
        negative_ack_redelivery_delay_ms: int = 60000,
        is_read_compacted: bool = False,
        properties: dict[str, str] | None = None,
        pattern_auto_discovery_period: int = 60,
        initial_position: InitialPosition = InitialPosition.Latest,
        crypto_key_reader: Any = None,
        replicate_subscription_state_enabled: bool = False,
        max_pending_chunked_message: int = 10,
        auto_ack_oldest_chunked_message_on_queue_full: bool = False,
        start_message_id_inclusive: bool = False,
        batch_receive_policy: ConsumerBatchReceivePolicy | None = None,
        key_shared_policy: ConsumerKeySharedPolicy | None = None,
        batch_index_ack_enabled: bool | None = None,
        regex_subscription_mode: RegexSubscriptionMode = RegexSubscriptionMode.PersistentOnly,
        dead_letter_policy: ConsumerDeadLetterPolicy | None = None,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
        **ours: Any,
    ) -> "Consumer":
        """A consumer of a topic, of several, or of all that match a pattern."""
        _warn_of_batch_index(batch_index_ack_enabled)
        schema = self._attached(schema)
        options = ConsumerOptions(
            subscription_name,
            consumer_type=consumer_type,
            receiver_queue_size=receiver_queue_size,
            max_total_receiver_queue_size_across_partitions=(
                max_total_receiver_queue_size_across_partitions
            ),
            consumer_name=consumer_name,
            unacked_messages_timeout_ms=unacked_messages_timeout_ms,
            broker_consumer_stats_cache_time_ms=broker_consumer_stats_cache_time_ms,
            negative_ack_redelivery_delay_ms=negative_ack_redelivery_delay_ms,
            is_read_compacted=is_read_compacted,
            properties=properties,
            pattern_auto_discovery_period=pattern_auto_discovery_period,
            initial_position=initial_position,
            crypto_key_reader=crypto_key_reader,
            replicate_subscription_state_enabled=replicate_subscription_state_enabled,
            max_pending_chunked_message=max_pending_chunked_message,
            auto_ack_oldest_chunked_message_on_queue_full=(
                auto_ack_oldest_chunked_message_on_queue_full
            ),
            start_message_id_inclusive=start_message_id_inclusive,
            batch_receive_policy=batch_receive_policy,
            key_shared_policy=key_shared_policy,
            regex_subscription_mode=regex_subscription_mode,
            dead_letter_policy=dead_letter_policy,
            crypto_failure_action=crypto_failure_action,
            **ours,
        )
        topics, pattern = aio.split_topics(topic)
        engine = EngineConsumer(self._engine, topics, pattern, options, schema)
        consumer = Consumer(self, engine, schema)
        self._call(self._engine.open(engine))
        if message_listener is not None:
            consumer._listen(message_listener)
        return consumer

    def create_reader(
        self,
        topic: str,
        start_message_id: MessageId,
        schema: Schema | None = None,
        reader_listener: "Callable[[Reader, Message], Any] | None" = None,
        receiver_queue_size: int = 1000,
        reader_name: str | None = None,
        subscription_role_prefix: str | None = None,
        is_read_compacted: bool = False,
        crypto_key_reader: Any = None,
        start_message_id_inclusive: bool = False,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
    ) -> "Reader":
        """A reader of a topic, from a message on."""
        schema = self._attached(schema)
        options = ReaderOptions(
            start_message_id,
            receiver_queue_size=receiver_queue_size,
            reader_name=reader_name,
            subscription_role_prefix=subscription_role_prefix,
            is_read_compacted=is_read_compacted,
            crypto_key_reader=crypto_key_reader,
            start_message_id_inclusive=start_message_id_inclusive,
            crypto_failure_action=crypto_failure_action,
        )
        name = f"reader-{int(self._engine.random() * (1 << 40)):010x}"
        engine = EngineConsumer(self._engine, [topic], None, options.consumer_options(name), schema)
        reader = Reader(self, engine, schema)
        self._call(self._engine.open(engine))
        if reader_listener is not None:
            reader._listen(reader_listener)
        return reader

    def create_table_view(
        self, topic: str, subscription_name: str | None = None, schema: Schema | None = None
    ) -> "TableView":
        """The latest value of every key of a topic, kept up to date."""
        return TableView(self, topic, subscription_name, schema or BytesSchema())

    def _attached(self, schema: Schema | None) -> Schema:
        schema = schema or BytesSchema()
        schema.attach_client(self)
        return schema

    def get_schema_info(self, topic: str, version: int | None = None) -> SchemaInfo:
        """The schema of a topic, or a version of it."""
        return self._call(self._engine.schema_info(topic, aio.version_bytes(version)))

    def get_topic_partitions(self, topic: str) -> list[str]:
        count = self._call(self._engine.partitions(topic))
        return partition_names(str(TopicName.parse(topic)), count)

    def get_service_info(self) -> ServiceInfo:
        """What the client connects to."""
        authentication = self._options.authentication
        return ServiceInfo(
            self._service_url,
            authentication if isinstance(authentication, Authentication) else None,
            self._options.tls_trust_certs_file_path,
        )

    def close(self) -> None:
        """Closes producers and consumers, and waits until that is done."""
        self._end(self._engine.close)

    def shutdown(self) -> None:
        """Drops everything at once; what is on its way fails."""
        self._end(self._engine.shutdown)

    def _end(self, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._loop.refuse_here()
        if self._closed:
            return
        self._closed = True
        for listener in list(self._listeners):
            listener.stop()
        try:
            self._call(close())
        finally:
            self._loop.stop()
            self._callbacks.stop()

    def _call(self, work: "Coroutine[Any, Any, T]") -> T:
        return self._loop.call(work)


def _warn_of_batch_index(given: bool | None) -> None:
    global _warned_batch_index
    if given is not None and not _warned_batch_index:
        _warned_batch_index = True
        warnings.warn(
            "batch_index_ack_enabled has no effect: acks are always per message, also in batches",
            stacklevel=3,
        )


class Producer(_Closing):
    """Publishes to a topic."""

    def __init__(
        self, client: Client, producer: EngineProducer, schema: Schema, settlement: _Settlement
    ) -> None:
        self._client = client
        self._producer = producer
        self._schema = schema
        self._plain = type(schema) is BytesSchema
        self._lock = client._lock
        self._settlement = settlement
        self._room = threading.Condition(client._lock)
        producer.on_room = self._have_room
        self._waiting = 0

    def send(
        self,
        content: Any,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: Any = None,
    ) -> MessageId:
        """Sends a message; returns its id when it is stored."""
        sending = _Sending()
        message = aio.make_outgoing(
            self._schema,
            content,
            sending,
            properties=properties,
            partition_key=partition_key,
            ordering_key=ordering_key,
            sequence_id=sequence_id,
            replication_clusters=replication_clusters,
            disable_replication=disable_replication,
            event_timestamp=event_timestamp,
            deliver_at=deliver_at,
            deliver_after=deliver_after,
        )
        self._client._loop.refuse_here()
        with self._lock:
            self._settlement.sending += 1
            try:
                self._put(message)
            except Exception:
                self._settlement.sending -= 1
                raise
            self._producer.hurry()
        return sending.wait()

    def send_async(
        self,
        content: Any,
        callback: Callable[[Result, MessageId], Any] | None,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: Any = None,
    ) -> None:
        """Sends a message; `callback(result, message_id)` is called when it is stored."""
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
        ):
            message = Outgoing(content, callback)  # type: ignore[arg-type]
        else:
            message = aio.make_outgoing(
                self._schema,
                content,
                callback,
                properties=properties,
                partition_key=partition_key,
                ordering_key=ordering_key,
                sequence_id=sequence_id,
                replication_clusters=replication_clusters,
                disable_replication=disable_replication,
                event_timestamp=event_timestamp,
                deliver_at=deliver_at,
                deliver_after=deliver_after,
            )
        with self._lock:
            try:
                self._producer.send(message)
            except ProducerQueueIsFull:
                self._put(message)

    def _put(self, message: Outgoing) -> None:
        """As the producer's `send`, but waits for room if it may. With the lock."""
        while True:
            try:
                self._producer.send(message)
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
        self._client._call(self._producer.close())

    def topic(self) -> str:
        return self._producer.topic

    def producer_name(self) -> str:
        return self._producer.name

    def stats(self) -> ProducerStats:
        """What it did so far."""
        return self._producer.stats()

    def last_sequence_id(self) -> int:
        return self._producer.last_sequence_id

    def is_connected(self) -> bool:
        return self._producer.connected


class Consumer(_Closing):
    """Receives from a subscription."""

    def __init__(self, client: Client, consumer: EngineConsumer, schema: Schema) -> None:
        self._client = client
        self._consumer = consumer
        self._schema = schema
        self._lock = client._lock
        self._arrived = threading.Condition(client._lock)
        self._waiting = 0
        self._listener: _Listener | None = None
        self._receipts = consumer.options.ack_receipt_enabled
        consumer.on_wake = self._awake

    def receive(self, timeout_millis: int | None = None) -> Message:
        """The next message. Raises Timeout."""
        with self._lock:
            message = self._consumer.take()
            if message is None:
                message = self._wait(timeout_millis)
        return message

    def _wait(self, timeout_millis: int | None) -> Message:
        """With the lock."""
        self._client._loop.refuse_here()
        found: Message | None = None

        def here() -> bool:
            nonlocal found
            self._consumer.check()
            if self._listener is not None:
                self._listener.check()
            found = self._consumer.take()
            return found is not None

        self._waiting += 1
        self._consumer.wait(1)
        try:
            seconds = None if timeout_millis is None else timeout_millis / 1000
            self._arrived.wait_for(here, seconds)
        finally:
            self._waiting -= 1
            self._consumer.wait(-1)
        if found is None:
            raise Timeout(f"no message within {timeout_millis} ms")
        return found

    def _awake(self) -> None:
        with self._lock:
            if self._waiting:
                self._arrived.notify_all()

    def batch_receive(self) -> list[Message]:
        """Some messages, as the batch receive policy says."""
        policy = self._consumer.options.batch_receive_policy
        door = aio.Consumer(self._consumer, self._schema)
        return self._client._call(door.batch_receive(policy))

    def acknowledge(self, message: "Message | MessageId | Iterable[Message | MessageId]") -> None:
        """Acks a message, or several in one request."""
        if type(message) is Message and not self._receipts:
            with self._lock:
                self._consumer.acknowledge_message(message)
            return
        ids = aio.ids_of(message)
        if self._receipts:
            self._ack_and_wait(lambda done: self._consumer.acknowledge(ids, done))
        else:
            with self._lock:
                self._consumer.check_open()
                self._consumer.acknowledge(ids, None)

    def acknowledge_cumulative(self, message: "Message | MessageId") -> None:
        """Acks a message and all before it."""
        id = aio.id_of(message)
        if self._consumer.options.ack_receipt_enabled:
            self._ack_and_wait(lambda done: self._consumer.acknowledge_cumulative(id, done))
        else:
            with self._lock:
                self._consumer.check_open()
                self._consumer.acknowledge_cumulative(id, None)

    def _ack_and_wait(self, ack: Callable[[Callable[[Exception | None], None]], None]) -> None:
        kept: Future[None] = Future()

        def settle(error: Exception | None) -> None:
            if error is not None:
                kept.set_exception(error)
            else:
                kept.set_result(None)

        self._client._loop.refuse_here()
        with self._lock:
            self._consumer.check_open()
            ack(settle)
        kept.result()

    def negative_acknowledge(self, message: "Message | MessageId") -> None:
        """Asks for it again, after a while."""
        with self._lock:
            self._consumer.check_open()
            self._consumer.negative_acknowledge(message)

    def reconsume_later(
        self, message: Message, delay: timedelta, properties: dict[str, str] | None = None
    ) -> None:
        """Publishes it to the retry topic, to come again after a delay, and acks it.

        The consumer was made with `retry_enabled=True`. After as many rounds as the dead
        letter policy says, 16 without one, the message is a dead letter.
        """
        self._client._call(aio.reconsume(self._consumer, message, delay, properties))

    def redeliver_unacknowledged_messages(self) -> None:
        with self._lock:
            self._consumer.check_open()
            self._consumer.redeliver()

    def pause_message_listener(self) -> None:
        if self._listener is not None:
            self._listener.pause()

    def resume_message_listener(self) -> None:
        if self._listener is not None:
            self._listener.resume()

    def seek(self, messageid: "MessageId | int") -> None:
        """Moves the subscription to a message, or to a time in ms."""
        if isinstance(messageid, MessageId):
            self._client._call(self._consumer.seek(messageid, None))
        else:
            self._client._call(self._consumer.seek(None, messageid))

    def get_last_message_id(self) -> MessageId:
        return max(last for last, _ in self._client._call(self._consumer.last_message_ids()))

    def unsubscribe(self) -> None:
        self._stop_listening()
        self._client._call(self._consumer.unsubscribe())

    def close(self) -> None:
        self._stop_listening()
        self._client._call(self._consumer.close())

    def topic(self) -> str:
        return ",".join(self._consumer.topics)

    def subscription_name(self) -> str:
        return self._consumer.options.subscription_name

    def consumer_name(self) -> str:
        return self._consumer.name

    def is_connected(self) -> bool:
        return self._consumer.connected

    def stats(self) -> ConsumerStats:
        """What it did so far."""
        return self._consumer.stats()

    def _listen(self, listener: Callable[[Any, Message], Any]) -> None:
        self._listener = _Listener(self, lambda message: listener(self, message))
        self._client._listeners[self._listener] = None

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._client._loop.refuse_here()
            self._listener.stop()
            self._client._listeners.pop(self._listener, None)


class _Listener:
    """A thread that gives messages to a function, one at a time."""

    def __init__(self, consumer: Consumer, take: Callable[[Message], Any]) -> None:
        self._consumer = consumer
        self._take = take
        self._stopped = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._thread = threading.Thread(target=self._run, name="magnetar-listener", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self._running.wait()
            try:
                message = self._consumer.receive()
            except MagnetarError as error:
                if not isinstance(error, AlreadyClosed):
                    log.error("a listener ends: %s", error)
                return
            self._running.wait()  # it may have been paused while there was nothing
            if self._stopped.is_set():
                return
            try:
                self._take(message)
            except Exception:
                _complain()

    def check(self) -> None:
        """Raises where the listener waits, once it is to end."""
        if self._stopped.is_set():
            raise AlreadyClosed("the consumer is closed")

    def pause(self) -> None:
        self._running.clear()

    def resume(self) -> None:
        self._running.set()

    def stop(self) -> None:
        self._stopped.set()
        self._running.set()
        self._consumer._awake()
        if threading.current_thread() is not self._thread:
            self._thread.join()


class Reader(_Closing):
    """Reads a topic from a message on, without a subscription that stays."""

    def __init__(self, client: Client, consumer: EngineConsumer, schema: Schema) -> None:
        self._client = client
        self._engine = consumer
        self._consumer = Consumer(client, consumer, schema)

    def read_next(self, timeout_millis: int | None = None) -> Message:
        message = self._consumer.receive(timeout_millis)
        with self._client._lock:
            self._engine.acknowledge_cumulative(message.message_id(), None)
        return message

    def has_message_available(self) -> bool:
        return self._client._call(aio.has_message(self._engine))

    def seek(self, messageid: "MessageId | int") -> None:
        self._consumer.seek(messageid)

    def close(self) -> None:
        self._consumer.close()

    def topic(self) -> str:
        return self._consumer.topic()

    def is_connected(self) -> bool:
        return self._consumer.is_connected()

    def _listen(self, listener: Callable[[Any, Message], Any]) -> None:
        self._consumer._listen(lambda consumer, message: listener(self, message))


class TableView(_Closing):
    """The latest value of every key of a topic, kept up to date by a thread."""

    def __init__(
        self, client: Client, topic: str, subscription_name: str | None, schema: Schema
    ) -> None:
        self._data: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._listeners: list[Callable[[str, Any], None]] = []
        self._reader = client.create_reader(
            topic,
            MessageId.earliest,
            schema=schema,
            subscription_role_prefix=subscription_name,
        )
        try:
            while self._reader.has_message_available():
                self._take(self._reader.read_next())
        except BaseException:
            self._reader.close()
            raise
        self._reader._listen(lambda reader, message: self._take(message))

    def _take(self, message: Message) -> None:
        key = message.partition_key()
        if not key:
            return
        with self._lock:
            if message.has_null_value() or not message.data():
                self._data.pop(key, None)
                return
            value = message.value()
            self._data[key] = value
            listeners = list(self._listeners)
        for listener in listeners:
            listener(key, value)

    def get(self, key: str) -> Any | None:
        with self._lock:
            return self._data.get(key)

    def for_each(self, callback: Callable[[str, Any], None]) -> None:
        with self._lock:
            items = list(self._data.items())
        for key, value in items:
            callback(key, value)

    def for_each_and_listen(self, callback: Callable[[str, Any], None]) -> None:
        with self._lock:
            self.for_each(callback)
            self._listeners.append(callback)

    def __len__(self) -> int:
        with self._lock:
            return len(self._data)

    def __str__(self) -> str:
        with self._lock:
            return str(self._data)

    def __repr__(self) -> str:
        return f"<TableView of {self._reader.topic()}, {len(self)} keys>"

    def close(self) -> None:
        self._reader.close()
