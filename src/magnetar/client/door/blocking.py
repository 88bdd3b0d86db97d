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
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar, Unpack, cast

from magnetar.client.consumer.message import Message
from magnetar.client.door.arguments import split_topics, version_bytes
from magnetar.client.door.closing import Closing
from magnetar.client.door.reading import reader_of
from magnetar.client.door.table_view import TableView
from magnetar.client.door.threads.consumer import Consumer, Reader
from magnetar.client.door.threads.listener import Listeners
from magnetar.client.door.threads.loop_thread import LoopThread
from magnetar.client.door.threads.producer import Producer
from magnetar.client.door.threads.teller import Callbacks, Teller
from magnetar.client.door.threads.transaction import Transaction
from magnetar.client.door.transaction import timeout_ms_of
from magnetar.client.engine.client import Engine
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.engine.fork import fork_error
from magnetar.client.engine.producer import EngineProducer, partition_names
from magnetar.client.option.authentication import Authentication
from magnetar.client.option.crypto_key_reader import CryptoKeyReader
from magnetar.client.option.keywords import (
    OurClientKeywords,
    OurConsumerKeywords,
    OurProducerKeywords,
    OurReaderKeywords,
)
from magnetar.client.option.logger import ClientLogger
from magnetar.client.option.options import (
    BatchingType,
    ClientOptions,
    ConsumerBatchReceivePolicy,
    ConsumerCryptoFailureAction,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    ConsumerOptions,
    MessageRouter,
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
from magnetar.client.schema.value import Default
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

__all__ = ["Client", "Consumer", "Producer", "Reader", "TableView", "Transaction"]

T = TypeVar("T")

_warned_batch_index = False


class Client(Closing):
    """A client of a broker or a cluster. Every argument is the official client's."""

    def __init__(
        self,
        service_url: str | AutoClusterFailover | ServiceInfoProvider,
        authentication: Authentication | None = None,
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
        logger: ClientLogger = None,
        connection_timeout_ms: int = 10000,
        listener_name: str | None = None,
        tls_private_key_file_path: str | None = None,
        tls_certificate_file_path: str | None = None,
        **ours: Unpack[OurClientKeywords],
    ) -> None:
        """Makes a client; it connects when it first has to.

        Args:
            service_url: Where the brokers are, pulsar://host:port or pulsar+ssl://host:port;
                several hosts are separated by commas. Or an AutoClusterFailover or a
                ServiceInfoProvider.
            authentication: Proves who the client is: a token, a certificate or a password.
            operation_timeout_seconds: Time for a lookup, for making a producer and for subscribing.
            io_threads: Accepted and ignored: a client has one loop.
            message_listener_threads: Threads that call message listeners; the blocking client only.
            concurrent_lookup_requests: Accepted and ignored: lookups have no limit.
            log_conf_file_path: Accepted and ignored, as in the official client.
            stats_interval_in_seconds: How often statistics are logged; 0 logs none.
            use_tls: Accepted and ignored: the scheme of the service URL decides.
            tls_trust_certs_file_path: CA certificates, a PEM file; without it the system's are
                trusted.
            tls_allow_insecure_connection: Accept any certificate of the broker, without checking
                it.
            tls_validate_hostname: Check that the broker's certificate names its host.
            logger: A logging.Logger, or a ConsoleLogger or FileLogger as in the official client.
            connection_timeout_ms: Time for a TCP connection and the handshake on it.
            listener_name: The advertised listener whose address the broker answers lookups with.
            tls_private_key_file_path: The private key of the client's certificate, a PEM file.
            tls_certificate_file_path: The client's certificate, a PEM file.
            keep_alive_interval_seconds: Time between pings; a connection that leaves one unanswered
                is dropped.
            initial_backoff_ms: Wait before the first attempt to reconnect; it doubles each time.
            max_backoff_ms: Longest wait between two attempts to reconnect.
            telemetry: OpenTelemetry metrics and traces:
                magnetar.client.telemetry.telemetry.Telemetry.
            wait_for_broker: Try again for operation_timeout_seconds when no broker takes the
                client's first connection, instead of failing at once: for programs that start with
                their broker.
        """
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
        schema: Schema[Default] | None = None,
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
        message_router: MessageRouter | None = None,
        **ours: Unpack[OurProducerKeywords],
    ) -> Producer[Default]:
        """Returns a producer of a topic, which the broker knows already.

        Args:
            topic: Name of the topic.
            producer_name: Name that no other producer of the topic has; the broker makes one for
                None.
            schema: What values become bytes by, and the reverse; without one values are bytes.
            initial_sequence_id: Sequence id before the first message's; deduplication compares
                sequence ids.
            send_timeout_millis: Time until a message that was not stored fails with Timeout; 0
                waits for ever.
            compression_type: Compression of batches, and of messages outside of batches.
            max_pending_messages: Messages that may wait for their receipt; 0 is no limit.
            max_pending_messages_across_partitions: The same for all partitions of a topic together;
                0 is no limit.
            block_if_queue_full: Wait for room when too many messages wait for their receipt,
                instead of raising ProducerQueueIsFull; the asyncio client does unless it is told
                False.
            batching_enabled: Send messages in batches; excludes chunking_enabled.
            batching_max_messages: Messages at which a batch is sent.
            batching_max_allowed_size_in_bytes: Size at which a batch is sent.
            batching_max_publish_delay_ms: Time after which a batch is sent, however small it is.
            chunking_enabled: Send messages that are larger than the broker's limit in chunks;
                excludes batching_enabled.
            message_routing_mode: How the partition of a message without a key is chosen.
            lazy_start_partitioned_producers: Open the producer of a partition with its first
                message.
            properties: Properties of the producer, which the topic's stats show.
            batching_type: Which messages may share a batch: any, or those of one key.
            encryption_key: Name of the key, or names of the keys, that messages are encrypted with.
            crypto_key_reader: Loads the keys that encryption_key names.
            access_mode: Whether other producers of the topic are allowed beside this one.
            message_router: Function of a message and the number of partitions that returns the
                partition.
            hashing_scheme: How a key is hashed to choose its partition.
            chunk_max_message_size: Largest chunk in bytes; 0 leaves it to the broker's limit.
            initial_subscription_name: Subscription that is made with the topic, if that is new.
            auto_update_partitions_interval_seconds: How often the client looks for new partitions.
            interceptors: Interceptors that see each message before it is sent, may change it, and
                hear what becomes of it, in this order.
        """
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
        teller = Teller(self._callbacks)
        producer.tell = teller
        self._call(self._engine.open(producer))
        return Producer(self, producer, schema, teller)

    def subscribe(
        self,
        topic: "str | list[str] | re.Pattern[str]",
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        schema: Schema[Default] | None = None,
        message_listener: Callable[[Consumer[Default], Message[Default]], Any] | None = None,
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
        **ours: Unpack[OurConsumerKeywords],
    ) -> Consumer[Default]:
        """Returns a consumer of a topic, of several, or of all that match a pattern.

        Args:
            topic: Name of the topic, a list of names, or a compiled pattern that names match.
            subscription_name: The subscription; it is created if the topic has none of that name.
            consumer_type: Exclusive, Shared, Failover or KeyShared.
            schema: What values become bytes by, and the reverse; without one values are bytes.
            message_listener: Function that is called with the consumer and each message, on a
                thread.
            receiver_queue_size: Messages that are fetched before the application asks for them.
            max_total_receiver_queue_size_across_partitions: The same for all partitions and topics
                of the consumer together.
            consumer_name: Name that the subscription's stats show.
            unacked_messages_timeout_ms: Time after which a message that is not acknowledged is
                delivered again; 1000 or more, None or 0 for never.
            broker_consumer_stats_cache_time_ms: Accepted and ignored: stats() asks no broker.
            negative_ack_redelivery_delay_ms: Time after which a negatively acknowledged message is
                delivered again.
            is_read_compacted: Read the compacted view of the topic, then what came later.
            properties: Properties of the consumer, which the subscription's stats show.
            pattern_auto_discovery_period: Seconds between two looks for new topics that match the
                pattern.
            initial_position: Where a new subscription begins: Latest or Earliest.
            crypto_key_reader: Loads the keys that messages are decrypted with.
            replicate_subscription_state_enabled: Asks Apache Pulsar to replicate the subscription.
            max_pending_chunked_message: Incomplete messages in chunks that are kept; 0 is no limit.
            auto_ack_oldest_chunked_message_on_queue_full: Acknowledge the oldest incomplete message
                above that limit, instead of having it delivered again.
            start_message_id_inclusive: Whether start_message_id itself is received, and seek's
                target.
            batch_receive_policy: When batch_receive has enough messages.
            key_shared_policy: Which keys of a KeyShared subscription this consumer gets.
            batch_index_ack_enabled: Accepted and ignored, with a warning: messages in batches are
                always acknowledged one by one.
            regex_subscription_mode: Whether a pattern matches persistent topics, non-persistent
                ones or both.
            dead_letter_policy: After how many redeliveries a message is moved to the dead letter
                topic.
            crypto_failure_action: What to do with a message that cannot be decrypted.
            acknowledgement_group_time_ms: Time that acknowledgements are gathered before they are
                sent; 0 sends each at once.
            max_acknowledgement_group_size: Acknowledgements at which they are sent before that
                time.
            ack_receipt_enabled: acknowledge() returns when the broker has stored the
                acknowledgement, and raises if it did not.
            auto_retry_acknowledgement: Send acknowledgements again until the broker has confirmed
                them (PIP-377).
            max_acknowledgement_retries: How often an acknowledgement is sent again.
            auto_retry_acknowledgement_backoff: Wait before an acknowledgement is sent again; None
                is 100 ms, doubling up to 10 s. A function gets the number of failures so far and
                returns milliseconds.
            on_acknowledgement_failed: Function that is called with the message ids and the error
                when acknowledgements were tried for the last time.
            max_pending_acknowledgements: Unconfirmed acknowledgements at which a consumer that
                retries them asks for no more messages.
            negative_ack_redelivery_backoff: Instead of negative_ack_redelivery_delay_ms: a wait
                that grows with each redelivery, a MultiplierRedeliveryBackoff.
            ack_timeout_redelivery_backoff: Added to unacked_messages_timeout_ms: a wait that grows
                with each redelivery, a MultiplierRedeliveryBackoff.
            retry_enabled: Subscribe to the retry topic as well; reconsume_later needs it.
            expire_time_of_incomplete_chunked_message_ms: Time after which an incomplete message in
                chunks is given up; 0 keeps it for ever.
            max_message_size_total: Bytes that one message in chunks may have, and all incomplete
                ones together.
            subscription_properties: Properties of the subscription, if this consumer creates it.
            priority_level: Consumers with a lower number get messages first; 0 comes before all
                others.
            auto_update_partitions_interval_seconds: How often the client looks for new partitions.
            durable: False: the subscription is deleted with its consumer, as a reader's is.
            start_message_id: Where a subscription that is not durable, or new, begins.
            interceptors: Interceptors that see each message before it is handed over, and its
                acknowledgement, in this order.
        """
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
        consumer: Consumer[Default] = Consumer(self, engine)
        self._call(self._engine.open(engine))
        if message_listener is not None:
            consumer._listen(partial(message_listener, consumer))
        return consumer

    def create_reader(
        self,
        topic: str,
        start_message_id: MessageId,
        schema: Schema[Default] | None = None,
        reader_listener: Callable[[Reader[Default], Message[Default]], Any] | None = None,
        receiver_queue_size: int = 1000,
        reader_name: str | None = None,
        subscription_role_prefix: str | None = None,
        is_read_compacted: bool = False,
        crypto_key_reader: CryptoKeyReader | None = None,
        start_message_id_inclusive: bool = False,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
        **ours: Unpack[OurReaderKeywords],
    ) -> Reader[Default]:
        """Returns a reader of a topic, from a message on.

        Args:
            topic: Name of the topic.
            start_message_id: Where reading begins: MessageId.earliest, MessageId.latest or an id.
            schema: What values become bytes by, and the reverse; without one values are bytes.
            reader_listener: Function that is called with the reader and each message, on a thread.
            receiver_queue_size: Messages that are fetched before the application asks for them.
            reader_name: Name that the topic's stats show.
            subscription_role_prefix: Begins the name of the subscription that the reader has
                meanwhile.
            is_read_compacted: Read the compacted view of the topic, then what came later.
            crypto_key_reader: Loads the keys that messages are decrypted with.
            start_message_id_inclusive: Whether start_message_id itself is read.
            crypto_failure_action: What to do with a message that cannot be decrypted.
            max_pending_chunked_message: Incomplete messages in chunks that are kept; 0 is no limit.
            auto_ack_oldest_chunked_message_on_queue_full: Drop the oldest incomplete one above it.
            expire_time_of_incomplete_chunked_message_ms: Time after which an incomplete message in
                chunks is given up; 0 keeps it for ever.
            max_message_size_total: Bytes that one message in chunks may have, and all incomplete
                ones together.
        """
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
        engine = reader_of(self._engine, topic, options, schema)
        reader: Reader[Default] = Reader(self, engine)
        self._call(self._engine.open(engine))
        if reader_listener is not None:
            reader._listen(reader_listener)
        return reader

    def create_table_view(
        self,
        topic: str,
        subscription_name: str | None = None,
        schema: Schema[Default] | None = None,
        crypto_key_reader: CryptoKeyReader | None = None,
    ) -> TableView[Default]:
        """Returns the latest value of every key of a topic, kept up to date.

        It has all that the topic held when it was made. `subscription_name` begins the name of
        the subscription that it has meanwhile.
        """
        schema = self._attached(schema)
        return TableView(self, topic, subscription_name, schema, crypto_key_reader)

    def _attached(self, schema: Schema[Default] | None) -> Schema[Default]:
        """Returns the schema, or that of bytes, for which `Default` stands without one."""
        attached = cast("Schema[Default]", BytesSchema()) if schema is None else schema
        attached.attach_client(self)
        return attached

    def transaction(self, timeout: float | timedelta | None = None) -> Transaction:
        """Begins a transaction: `with client.transaction() as txn`.

        What is sent and acknowledged with `transaction=txn` counts all together when the block
        ends, or not at all when it raises; by hand, it is ended by `commit` or `abort`. The broker
        aborts it if it is not committed within `timeout` seconds (or a timedelta), 60 without one.

        Raises TransactionsDisabledError where the broker has none.
        """
        timeout_ms = timeout_ms_of(timeout)
        return Transaction(self, self._call(self._engine.begin_transaction(timeout_ms)))

    def get_schema_info(self, topic: str, version: int | None = None) -> SchemaInfo:
        """Returns the schema of a topic, or a version of it."""
        return self._call(self._engine.schema_info(topic, version_bytes(version)))

    def get_topic_partitions(self, topic: str) -> list[str]:
        """Returns the names of a topic's partitions, or its own if it has none."""
        count = self._call(self._engine.partitions(topic))
        return partition_names(str(TopicName.parse(topic)), count)

    def get_service_info(self) -> ServiceInfo:
        """Returns what the client connects to now."""
        return self._engine.service_info

    def stats(self) -> ClientStats:
        """Returns what all of its producers and consumers did so far."""
        return self._engine.totals.stats()

    def close(self) -> None:
        """Closes producers and consumers, and waits until that is done."""
        self._end(self._engine.close, at_once=False)

    def shutdown(self) -> None:
        """Drops everything at once; what is on its way fails."""
        self._end(self._engine.shutdown, at_once=True)

    def __repr__(self) -> str:
        return f"<magnetar.Client of {self._engine.title}: {self._engine.state}>"

    def _end(self, close: Callable[[], Coroutine[Any, Any, None]], *, at_once: bool) -> None:
        self._loop.refuse_here()
        if self._closed or self._engine.forked:
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
        if self._engine.forked:
            work.close()
            raise fork_error()
        return self._loop.call(work)


def _warn_of_batch_index(given: bool | None) -> None:
    global _warned_batch_index
    if given is not None and not _warned_batch_index:
        _warned_batch_index = True
        warnings.warn(
            "batch_index_ack_enabled has no effect: acks are always per message, also in batches",
            stacklevel=3,
        )
