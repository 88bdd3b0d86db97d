"""The blocking door: the official Python client's names and arguments, on a loop thread.

    application's threads   send, receive and acknowledge work on the cores themselves, with
                            the engine's lock; what must go to a socket is handed to the loop
    the loop's thread       connections, lookups, timers
    the callback thread     callbacks of send_async, in order
    threads of listeners    message listeners; as many as message_listener_threads says

A blocking call on the loop's thread would wait for itself, so it raises instead. Callbacks and
listeners may block: nobody waits for their threads but `close`.
"""

import re
import threading
import warnings
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from magnetar.client.consumer.message import Message
from magnetar.client.door import aio
from magnetar.client.door.arguments import split_topics, version_bytes
from magnetar.client.door.closing import Closing
from magnetar.client.door.table_view import TableView
from magnetar.client.door.threads.consumer import Consumer, Reader
from magnetar.client.door.threads.listener import Listeners
from magnetar.client.door.threads.loop_thread import LoopThread
from magnetar.client.door.threads.producer import Producer
from magnetar.client.door.threads.settlement import Callbacks, Settlement
from magnetar.client.engine.client import Engine
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.engine.producer import EngineProducer, partition_names
from magnetar.client.option.crypto_key_reader import CryptoKeyReader
from magnetar.client.option.options import (
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
from magnetar.client.option.service_info import (
    AutoClusterFailover,
    ServiceInfo,
    ServiceInfoProvider,
)
from magnetar.client.schema.schema import BytesSchema, Schema
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.client.telemetry.totals import ClientStats
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

_warned_batch_index = False


class Client(Closing):
    """A client of a broker or a cluster. Every argument is the official client's."""

    def __init__(
        self,
        service_url: str | AutoClusterFailover | ServiceInfoProvider,
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
        self._lock = threading.RLock()
        self._engine = Engine(service_url, options, lock=self._lock)
        self._loop = LoopThread()
        self._callbacks = Callbacks()
        self._listeners = Listeners(options.message_listener_threads, self._engine.log)
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
        encryption_key: str | list[str] | None = None,
        crypto_key_reader: CryptoKeyReader | None = None,
        access_mode: ProducerAccessMode = ProducerAccessMode.Shared,
        message_router: Callable[[Any, int], int] | None = None,
        **ours: Any,
    ) -> Producer:
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
        settlement = Settlement(self._callbacks)
        producer.tell = settlement
        self._call(self._engine.open(producer))
        return Producer(self, producer, schema, settlement)

    def subscribe(
        self,
        topic: "str | list[str] | re.Pattern[str]",
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        schema: Schema | None = None,
        message_listener: Callable[[Consumer, Message], Any] | None = None,
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
        crypto_key_reader: CryptoKeyReader | None = None,
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
    ) -> Consumer:
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
        topics, pattern = split_topics(topic)
        engine = EngineConsumer(self._engine, topics, pattern, options, schema)
        consumer = Consumer(self, engine)
        self._call(self._engine.open(engine))
        if message_listener is not None:
            consumer._listen(partial(message_listener, consumer))
        return consumer

    def create_reader(
        self,
        topic: str,
        start_message_id: MessageId,
        schema: Schema | None = None,
        reader_listener: Callable[[Reader, Message], Any] | None = None,
        receiver_queue_size: int = 1000,
        reader_name: str | None = None,
        subscription_role_prefix: str | None = None,
        is_read_compacted: bool = False,
        crypto_key_reader: CryptoKeyReader | None = None,
        start_message_id_inclusive: bool = False,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
        **ours: Any,
    ) -> Reader:
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
            **ours,
        )
        engine = aio.reader_of(self._engine, topic, options, schema)
        reader = Reader(self, engine)
        self._call(self._engine.open(engine))
        if reader_listener is not None:
            reader._listen(reader_listener)
        return reader

    def create_table_view(
        self,
        topic: str,
        subscription_name: str | None = None,
        schema: Schema | None = None,
        crypto_key_reader: CryptoKeyReader | None = None,
    ) -> TableView:
        """The latest value of every key of a topic, kept up to date."""
        schema = schema or BytesSchema()
        return TableView(self, topic, subscription_name, schema, crypto_key_reader)

    def _attached(self, schema: Schema | None) -> Schema:
        schema = schema or BytesSchema()
        schema.attach_client(self)
        return schema

    def get_schema_info(self, topic: str, version: int | None = None) -> SchemaInfo:
        """The schema of a topic, or a version of it."""
        return self._call(self._engine.schema_info(topic, version_bytes(version)))

    def get_topic_partitions(self, topic: str) -> list[str]:
        """Returns the names of a topic's partitions, or its own if it has none."""
        count = self._call(self._engine.partitions(topic))
        return partition_names(str(TopicName.parse(topic)), count)

    def get_service_info(self) -> ServiceInfo:
        """What the client connects to."""
        return self._engine.service_info

    def stats(self) -> ClientStats:
        """What all of its producers and consumers did so far."""
        return self._engine.totals.stats()

    def close(self) -> None:
        """Closes producers and consumers, and waits until that is done."""
        self._end(self._engine.close, at_once=False)

    def shutdown(self) -> None:
        """Drops everything at once; what is on its way fails."""
        self._end(self._engine.shutdown, at_once=True)

    def _end(self, close: Callable[[], Coroutine[Any, Any, None]], *, at_once: bool) -> None:
        self._loop.refuse_here()
        if self._closed:
            return
        self._closed = True
        try:
            if not at_once:
                self._listeners.stop()
            self._call(close())
        finally:
            # At once, listeners that wait for the client are told first that it is closed.
            self._listeners.stop()
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
