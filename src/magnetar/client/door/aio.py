"""The asyncio door: `async with`, `await`, `async for`.

Everything runs on the loop that the client was made on. `Producer.send` is a plain function
that returns a future, so a thousand sends can be on their way without a task for each.
"""

import re
from datetime import timedelta
from random import Random
from typing import Unpack, cast

from magnetar.client.door.aio_consumer import Consumer
from magnetar.client.door.aio_producer import Producer, answer_futures
from magnetar.client.door.aio_reader import Reader
from magnetar.client.door.aio_table_view import TableView
from magnetar.client.door.arguments import split_topics, version_bytes
from magnetar.client.door.closing import AsyncClosing
from magnetar.client.door.reading import reader_of
from magnetar.client.door.transaction import Begin, Transaction, timeout_ms_of
from magnetar.client.engine.client import Engine
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.engine.producer import EngineProducer, partition_names
from magnetar.client.network.clock import Clock
from magnetar.client.option.crypto_key_reader import CryptoKeyReader
from magnetar.client.option.keywords import (
    ClientKeywords,
    ConsumerKeywords,
    ProducerKeywords,
    ReaderKeywords,
)
from magnetar.client.option.options import (
    ClientOptions,
    ConsumerOptions,
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
from magnetar.model import ConsumerType, MessageId, TopicName

__all__ = ["Client", "Consumer", "Producer", "Reader", "TableView", "Transaction"]


class Client(AsyncClosing):
    """A client of a broker or a cluster.

    Options are those of `magnetar.Client`, which is the official Python client's.
    """

    def __init__(
        self,
        service_url: str | AutoClusterFailover | ServiceInfoProvider,
        *,
        clock: Clock | None = None,
        rng: Random | None = None,
        **options: Unpack[ClientKeywords],
    ) -> None:
        """Makes a client; it connects when it first has to.

        `clock` and `rng` are for simulations: they stand in for time and chance.

        Args:
            service_url: Where the brokers are, pulsar://host:port or pulsar+ssl://host:port;
                several hosts are separated by commas. Or an AutoClusterFailover or a
                ServiceInfoProvider.
            clock: For simulations: stands in for the time.
            rng: For simulations: stands in for chance.
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
        self._engine = Engine(service_url, ClientOptions(**options), clock=clock, rng=rng)

    async def create_producer(
        self,
        topic: str,
        *,
        schema: Schema[Default] | None = None,
        **options: Unpack[ProducerKeywords],
    ) -> Producer[Default]:
        """Returns a producer of a topic, which the broker knows already.

        `send` waits for room where there is none, unless `block_if_queue_full=False` is given.

        Args:
            topic: Name of the topic.
            schema: What values become bytes by, and the reverse; without one values are bytes.
            producer_name: Name that no other producer of the topic has; the broker makes one for
                None.
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
        schema = _or_bytes(schema)
        options.setdefault("block_if_queue_full", True)
        checked = ProducerOptions(**options)
        producer = EngineProducer(self._engine, topic, checked, schema)
        producer.tell = answer_futures
        await self._engine.open(producer)
        return Producer(producer, schema)

    async def subscribe(
        self,
        topic: "str | list[str] | re.Pattern[str]",
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        schema: Schema[Default] | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> Consumer[Default]:
        """Returns a consumer of a topic, of several, or of all that match a pattern.

        Args:
            topic: Name of the topic, a list of names, or a compiled pattern that names match.
            subscription_name: The subscription; it is created if the topic has none of that name.
            consumer_type: Exclusive, Shared, Failover or KeyShared.
            schema: What values become bytes by, and the reverse; without one values are bytes.
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
        schema = _or_bytes(schema)
        topics, pattern = split_topics(topic)
        consumer = EngineConsumer(
            self._engine,
            topics,
            pattern,
            ConsumerOptions(subscription_name, consumer_type=consumer_type, **options),
            schema,
        )
        await self._engine.open(consumer)
        return Consumer(consumer)

    async def create_reader(
        self,
        topic: str,
        start_message_id: MessageId,
        *,
        schema: Schema[Default] | None = None,
        **options: Unpack[ReaderKeywords],
    ) -> Reader[Default]:
        """Returns a reader of a topic, from a message on.

        Args:
            topic: Name of the topic.
            start_message_id: Where reading begins: MessageId.earliest, MessageId.latest or an id.
            schema: What values become bytes by, and the reverse; without one values are bytes.
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
        schema = _or_bytes(schema)
        reader = ReaderOptions(start_message_id, **options)
        consumer = reader_of(self._engine, topic, reader, schema)
        await self._engine.open(consumer)
        return Reader(consumer)

    async def create_table_view(
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
        reader = await self.create_reader(
            topic,
            MessageId.earliest,
            schema=schema,
            subscription_role_prefix=subscription_name,
            is_read_compacted=TopicName.parse(topic).persistent,
            crypto_key_reader=crypto_key_reader,
        )
        view = TableView(reader, self._engine.log_problem)
        try:
            await view._fill()
        except BaseException:
            await reader.close()
            raise
        return view

    def transaction(self, timeout: float | timedelta | None = None) -> Begin:
        """Begins a transaction: `async with client.transaction() as txn`.

        What is sent and acknowledged with `transaction=txn` counts all together when the block
        ends, or not at all when it raises. By hand, `txn = await client.transaction()` is ended by
        its `commit` or `abort`. The broker aborts it if it is not committed within `timeout`
        seconds (or a timedelta), 60 without one.

        Entered or awaited, it raises TransactionsDisabledError where the broker has none.
        """
        return Begin(self._engine, timeout_ms_of(timeout))

    async def get_schema_info(self, topic: str, version: int | None = None) -> SchemaInfo:
        """Returns the schema of a topic, or a version of it."""
        return await self._engine.schema_info(topic, version_bytes(version))

    async def get_topic_partitions(self, topic: str) -> list[str]:
        """Returns the names of a topic's partitions, or its own if it has none."""
        count = await self._engine.partitions(topic)
        return partition_names(str(TopicName.parse(topic)), count)

    def get_service_info(self) -> ServiceInfo:
        """Returns what the client connects to now."""
        return self._engine.service_info

    def stats(self) -> ClientStats:
        """Returns what all of its producers and consumers did so far."""
        return self._engine.totals.stats()

    async def close(self) -> None:
        """Closes producers and consumers, and waits until that is done."""
        await self._engine.close()

    async def shutdown(self) -> None:
        """Drops all connections at once; what is on its way fails."""
        await self._engine.shutdown()

    def __repr__(self) -> str:
        return f"<magnetar.aio.Client of {self._engine.title}: {self._engine.state}>"


def _or_bytes(schema: Schema[Default] | None) -> Schema[Default]:
    """Returns the schema; that of bytes, for which `Default` stands then, if there is none."""
    return cast("Schema[Default]", BytesSchema()) if schema is None else schema
