"""The asyncio door: `async with`, `await`, `async for`.

Everything runs on the loop that the client was made on. `Producer.send` is a plain function
that returns a future, so a thousand sends can be on their way without a task for each.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, Generic, Self, TypeVar, Unpack, cast

from magnetar.client.consumer.message import Message
from magnetar.client.door.aio_table_view import TableView
from magnetar.client.door.arguments import (
    SendKeywords,
    make_outgoing,
    message_of,
    messages_of,
    split_topics,
    version_bytes,
)
from magnetar.client.door.closing import AsyncClosing
from magnetar.client.door.processing import Processing
from magnetar.client.door.reading import has_message, reader_of
from magnetar.client.engine.client import Engine
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.engine.producer import EngineProducer, partition_names
from magnetar.client.errors import Result
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
    ConsumerBatchReceivePolicy,
    ConsumerOptions,
    ProducerOptions,
    ReaderOptions,
)
from magnetar.client.option.service_info import (
    AutoClusterFailover,
    ServiceInfo,
    ServiceInfoProvider,
)
from magnetar.client.producer.outgoing import Outgoing
from magnetar.client.schema.avro_schema import AvroSchema
from magnetar.client.schema.schema import BytesSchema, Schema
from magnetar.client.schema.schema_info import SchemaInfo
from magnetar.client.schema.value import Default, Received, Sent
from magnetar.client.telemetry.observer import SendTrace, Tracing
from magnetar.client.telemetry.stats import ConsumerStats, ProducerStats
from magnetar.client.telemetry.totals import ClientStats
from magnetar.errors import AlreadyClosed, MagnetarError, ProducerQueueIsFull, Timeout
from magnetar.model import ConsumerType, MessageId, TopicName

__all__ = ["Client", "Consumer", "Producer", "Reader", "TableView"]


# Of a message, whichever consumer it is from.
Value = TypeVar("Value")


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
    ) -> "Producer[Default]":
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
        """
        schema = _or_bytes(schema)
        options.setdefault("block_if_queue_full", True)
        checked = ProducerOptions(**options)
        producer = EngineProducer(self._engine, topic, checked, schema)
        producer.tell = _answer_futures
        await self._engine.open(producer)
        return Producer(producer, schema)

    async def subscribe(
        self,
        topic: "str | list[str] | re.Pattern[str]",
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        schema: Schema[Default] | None = None,
        **options: Unpack[ConsumerKeywords],
    ) -> "Consumer[Default]":
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
            is_read_compacted: Read the compacted topic; only Apache Pulsar compacts topics.
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
                that grows with each redelivery.
            ack_timeout_redelivery_backoff: Added to unacked_messages_timeout_ms: a wait that grows
                with each redelivery.
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
    ) -> "Reader[Default]":
        """Returns a reader of a topic, from a message on.

        Args:
            topic: Name of the topic.
            start_message_id: Where reading begins: MessageId.earliest, MessageId.latest or an id.
            schema: What values become bytes by, and the reverse; without one values are bytes.
            receiver_queue_size: Messages that are fetched before the application asks for them.
            reader_name: Name that the topic's stats show.
            subscription_role_prefix: Begins the name of the subscription that the reader has
                meanwhile.
            is_read_compacted: Read the compacted topic; only Apache Pulsar compacts topics.
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
    ) -> "TableView[Default]":
        """Returns the latest value of every key of a topic, kept up to date.

        It has all that the topic held when it was made. `subscription_name` begins the name of
        the subscription that it has meanwhile.
        """
        reader = await self.create_reader(
            topic,
            MessageId.earliest,
            schema=schema,
            subscription_role_prefix=subscription_name,
            crypto_key_reader=crypto_key_reader,
        )
        view = TableView(reader, self._engine.log_problem)
        try:
            await view._fill()
        except BaseException:
            await reader.close()
            raise
        return view

    async def get_schema_info(self, topic: str, version: int | None = None) -> SchemaInfo:
        """The schema of a topic, or a version of it."""
        return await self._engine.schema_info(topic, version_bytes(version))

    async def get_topic_partitions(self, topic: str) -> list[str]:
        """Returns the names of a topic's partitions, or its own if it has none."""
        count = await self._engine.partitions(topic)
        return partition_names(str(TopicName.parse(topic)), count)

    def get_service_info(self) -> ServiceInfo:
        """What the client connects to now."""
        return self._engine.service_info

    def stats(self) -> ClientStats:
        """What all of its producers and consumers did so far."""
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


class Producer(AsyncClosing, Generic[Sent]):
    """Publishes to a topic."""

    def __init__(self, producer: EngineProducer, schema: Schema[Any]) -> None:
        self._producer = producer
        self._schema = schema
        self._tracing = producer.tracing
        self._plain = type(schema) is BytesSchema and self._tracing is None
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
        """
        future: asyncio.Future[MessageId] = self._new_future()
        if self._plain and type(content) is bytes and not options:
            message = Outgoing(content, future)
            try:
                self._send(message)
            except ProducerQueueIsFull:
                self._wait_in_turn(message)
            return future
        message = self._outgoing(content, future, options)
        if self._tracing is None:
            self._send_or_wait(message)
        else:
            with self._traced(self._tracing, message, future):
                self._send_or_wait(message)
        return future

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
        """As `send`, but returns when there was room for the message: the caller waits for it.

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
        """
        future: asyncio.Future[MessageId] = self._new_future()
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
        return make_outgoing(self._schema, content, future, self._producer.day_ms, **options)

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
        """What it did so far."""
        return self._producer.stats()

    def last_sequence_id(self) -> int:
        """Returns the highest sequence id that the broker has stored, -1 for none."""
        return self._producer.last_sequence_id

    def is_connected(self) -> bool:
        """Whether the producer has a connection to its broker now."""
        return self._producer.connected

    def __repr__(self) -> str:
        return f"<magnetar.aio.Producer of {self._producer.topic}: {self._producer.state}>"


def _future_maker(loop: asyncio.AbstractEventLoop) -> "Callable[[], asyncio.Future[MessageId]]":
    """`loop.create_future`, without the function around it that asyncio's own loops have."""
    if getattr(type(loop), "create_future", None) is asyncio.BaseEventLoop.create_future:
        return partial(asyncio.Future, loop=loop)
    return loop.create_future


def _answer_futures(
    futures: "list[Any]", error: Exception | None, ids: Sequence[MessageId]
) -> None:
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


def _end_trace(trace: SendTrace, future: "asyncio.Future[MessageId]") -> None:
    if future.cancelled():
        trace.end(None, None)  # the message was sent all the same
        return
    error = future.exception()
    if error is None:
        trace.end(None, future.result())
    else:
        trace.end(error if isinstance(error, Exception) else Result.UnknownError, None)


class _AckFuture:
    """Hands what became of an ack to a future."""

    __slots__ = ("_future",)

    def __init__(self, future: "asyncio.Future[None]") -> None:
        self._future = future

    def __call__(self, error: Exception | None) -> None:
        if self._future.done():
            return
        if error is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(None)


class Consumer(AsyncClosing, Generic[Received]):
    """Receives from a subscription; `async for message in consumer` goes on until it is closed."""

    def __init__(self, consumer: EngineConsumer) -> None:
        self._consumer = consumer
        self._tracing = consumer.tracing
        self._avro = consumer.schema if isinstance(consumer.schema, AvroSchema) else None

    async def receive(self, timeout_millis: int | None = None) -> Message[Received]:
        """Returns the next message. Raises Timeout, and AlreadyClosed once it is closed."""
        began_ns = 0 if self._tracing is None else self._tracing.now_ns()
        message = self._consumer.take()
        if message is None:
            message = await self._wait(timeout_millis)
        if self._tracing is not None:
            self._tracing.received(message, self.subscription_name(), began_ns)
        if self._avro is not None and not await self._learned(self._avro, message):
            return await self.receive(timeout_millis)
        return message

    async def _learned(self, schema: AvroSchema[Any], message: Message) -> bool:
        """Whether the message, whose schema is known now, is still for the application."""
        if schema.knows(message.topic_name(), message.int_schema_version()):
            return True
        batch = self._consumer.gather(None, asyncio.get_running_loop().time)
        batch.add(message)
        try:
            await self._learn(schema, message)
        except BaseException:
            self._consumer.put_back(batch.messages)
            raise
        finally:
            self._consumer.handed(batch)
        return len(batch.messages) > 0

    async def _learn(self, schema: AvroSchema[Any], message: Message) -> None:
        """Gets the schema that a message was written with, for `value` cannot wait.

        If it cannot be had the message is received all the same, and `value` says why.
        """
        topic, version = message.topic_name(), message.int_schema_version()
        try:
            info = await self._consumer.schema_info(topic, version)
            schema.add_writer_schema(topic, version, info)
        except MagnetarError as error:
            schema.add_problem(topic, version, error)

    async def _wait(self, timeout_millis: int | None) -> Message[Any]:
        if timeout_millis is None:
            return await self._consumer.receive()
        try:
            async with asyncio.timeout(timeout_millis / 1000):
                return await self._consumer.receive()
        except Timeout:
            raise  # why there will be no message
        except TimeoutError:
            raise Timeout(f"no message within {timeout_millis} ms") from None

    async def batch_receive(
        self, policy: ConsumerBatchReceivePolicy | None = None
    ) -> list[Message[Received]]:
        """Returns some messages: as many as the policy wants, or those that came in its time.

        The list is empty if none came.
        """
        batch = self._consumer.gather(policy, asyncio.get_running_loop().time)
        try:
            while batch.open:
                batch.add(await self.receive(batch.left_ms()))
        except Timeout:
            pass
        except MagnetarError:
            # What it has is for the application, unless that could not ack it any more.
            if not batch.messages or self._consumer.closed:
                raise
        except BaseException:
            self._consumer.put_back(batch.messages)
            raise
        finally:
            self._consumer.handed(batch)
        return cast("list[Message[Received]]", batch.messages)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[Received]:
        try:
            return await self.receive()
        except AlreadyClosed:
            raise StopAsyncIteration from None

    async def acknowledge(
        self, message: "Message | MessageId | Iterable[Message | MessageId]"
    ) -> None:
        """Acks a message or several; with receipts, returns when that is kept.

        With receipts and retries it returns after the success, or raises what the last try
        failed with.
        """
        messages = messages_of(message)
        await self._ack(lambda done: self._consumer.acknowledge(messages, done))

    async def acknowledge_cumulative(self, message: "Message | MessageId") -> None:
        """Acknowledges a message and all before it."""
        one = message_of(message)
        await self._ack(lambda done: self._consumer.acknowledge_cumulative(one, done))

    async def _ack(self, ack: Any) -> None:
        if not self._consumer.options.ack_receipt_enabled:
            ack(None)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ack(_AckFuture(future))
        await future

    def negative_acknowledge(self, message: "Message | MessageId") -> None:
        """Asks for it again, after a while."""
        self._consumer.negative_acknowledge(message)

    def processing(
        self, message: Message[Value], *, retry_after: timedelta | None = None
    ) -> Processing[Value]:
        """`async with` it: the message is acked when the block ends, and nacked when it raises.

        A cancelled block nacks too; whatever was raised goes on. With `retry_after` and
        `retry_enabled=True` a message whose block raised an error is not nacked but sent to the
        retry topic, to come again after that time (`reconsume_later`).
        """
        return Processing(self, self._consumer, message, retry_after)

    async def reconsume_later(
        self, message: Message, delay: timedelta, properties: dict[str, str] | None = None
    ) -> None:
        """Publishes it to the retry topic, to come again after a delay, and acks it.

        The consumer was made with `retry_enabled=True`. After as many rounds as the dead
        letter policy says, 16 without one, the message is a dead letter.
        """
        await reconsume(self._consumer, message, delay, properties)

    def redeliver_unacknowledged_messages(self) -> None:
        """Asks for all messages again that are not acknowledged."""
        self._consumer.redeliver()

    async def seek(self, messageid: "MessageId | int") -> None:
        """Moves the subscription to a message, or to a time in ms."""
        if isinstance(messageid, MessageId):
            await self._consumer.seek(messageid, None)
        else:
            await self._consumer.seek(None, messageid)

    async def get_last_message_id(self) -> MessageId:
        """Returns the id of the last message in the topic."""
        return max(last for last, _ in await self._consumer.last_message_ids())

    async def unsubscribe(self) -> None:
        """Deletes the subscription, and closes the consumer."""
        await self._consumer.unsubscribe()

    # A time of its own: `asyncio.timeout` would end the wait for it, and not the closing.
    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Closes it. Acks that are not confirmed yet are waited for, `timeout` seconds long.

        Without a time that is as long as an operation may take if acks are retried, else
        not at all. Acks that are left then fail, and `on_acknowledgement_failed` is told.
        """
        await self._consumer.close(timeout)

    def topic(self) -> str:
        """Returns the whole name of the topic."""
        return self._consumer.topic

    def subscription_name(self) -> str:
        """Returns the name of the subscription."""
        return self._consumer.options.subscription_name

    def consumer_name(self) -> str:
        """Returns the consumer's name."""
        return self._consumer.name

    def stats(self) -> ConsumerStats:
        """What it did so far."""
        return self._consumer.stats()

    def is_connected(self) -> bool:
        """Whether the consumer has a connection to its broker now."""
        return self._consumer.connected

    def __repr__(self) -> str:
        return f"<magnetar.aio.Consumer of {self._consumer.description}>"


class Reader(AsyncClosing, Generic[Received]):
    """Reads a topic from a place on, without a subscription that stays.

    `async for message in reader` goes on until it is closed.
    """

    def __init__(self, consumer: EngineConsumer) -> None:
        self._consumer: Consumer[Received] = Consumer(consumer)
        self._engine = consumer

    async def read_next(self, timeout_millis: int | None = None) -> Message[Received]:
        """Returns the next message. Raises Timeout."""
        message = await self._consumer.receive(timeout_millis)
        self._engine.acknowledge_cumulative(message, None)
        return message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[Received]:
        try:
            return await self.read_next()
        except AlreadyClosed:
            raise StopAsyncIteration from None

    async def has_message_available(self) -> bool:
        """Whether there is a message behind the last one that was read."""
        return await has_message(self._engine)

    async def seek(self, messageid: "MessageId | int") -> None:
        """Moves the reader to a message, or to a time in ms."""
        await self._consumer.seek(messageid)

    async def close(self) -> None:
        """Closes the reader."""
        await self._consumer.close()

    def topic(self) -> str:
        """Returns the whole name of the topic."""
        return self._consumer.topic()

    def is_connected(self) -> bool:
        """Whether the reader has a connection to its broker now."""
        return self._consumer.is_connected()

    def __repr__(self) -> str:
        return f"<magnetar.aio.Reader of {self._engine.topic}: {self._engine.state}>"


# ---- What both doors share ---------------------------------------------------


async def reconsume(
    consumer: EngineConsumer,
    message: Message,
    delay: timedelta,
    properties: dict[str, str] | None,
) -> None:
    delay_ms = int(delay.total_seconds() * 1000)
    if not consumer.options.ack_receipt_enabled:
        await consumer.reconsume_later(message, delay_ms, properties, None)
        return
    kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    await consumer.reconsume_later(message, delay_ms, properties, _AckFuture(kept))
    await kept
