"""The asyncio door: `async with`, `await`, `async for`.

Everything runs on the loop that the client was made on. `Producer.send` is a plain function
that returns a future, so a thousand sends can be on their way without a task for each.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from random import Random
from types import TracebackType
from typing import Any, Self

from magnetar.client.consumer.message import Message
from magnetar.client.door.arguments import (
    make_outgoing,
    message_of,
    messages_of,
    split_topics,
    version_bytes,
)
from magnetar.client.door.processing import Processing
from magnetar.client.engine.client import Engine
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.engine.partition_consumer import PartitionConsumer
from magnetar.client.engine.producer import EngineProducer, partition_names
from magnetar.client.errors import Result
from magnetar.client.network.clock import Clock
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
from magnetar.client.telemetry.observer import SendTrace, Tracing
from magnetar.client.telemetry.stats import ConsumerStats, ProducerStats
from magnetar.client.telemetry.totals import ClientStats
from magnetar.errors import AlreadyClosed, MagnetarError, Timeout
from magnetar.model import MessageId, TopicName
from magnetar.wire.integer import INT64_MAX

__all__ = ["Client", "Consumer", "Producer", "Reader"]


class _Closing:
    """`async with` closes it."""

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class Client(_Closing):
    """A client of a broker or a cluster.

    Options are those of `magnetar.Client`, which is the official Python client's.
    """

    def __init__(
        self,
        service_url: str | AutoClusterFailover | ServiceInfoProvider,
        *,
        clock: Clock | None = None,
        rng: Random | None = None,
        **options: Any,
    ) -> None:
        """`clock` and `rng` are for simulations: they stand in for time and chance."""
        self._engine = Engine(service_url, ClientOptions(**options), clock=clock, rng=rng)

    async def create_producer(
        self, topic: str, *, schema: Schema | None = None, **options: Any
    ) -> "Producer":
        """Returns a producer of a topic, which the broker knows already."""
        schema = schema or BytesSchema()
        producer = EngineProducer(self._engine, topic, ProducerOptions(**options), schema)
        producer.tell = _answer_futures
        await self._engine.open(producer)
        return Producer(producer, schema)

    async def subscribe(
        self,
        topic: "str | list[str] | re.Pattern[str]",
        subscription_name: str,
        *,
        schema: Schema | None = None,
        **options: Any,
    ) -> "Consumer":
        """Returns a consumer of a topic, of several, or of all that match a pattern."""
        schema = schema or BytesSchema()
        topics, pattern = split_topics(topic)
        consumer = EngineConsumer(
            self._engine,
            topics,
            pattern,
            ConsumerOptions(subscription_name, **options),
            schema,
        )
        await self._engine.open(consumer)
        return Consumer(consumer)

    async def create_reader(
        self,
        topic: str,
        start_message_id: MessageId,
        *,
        schema: Schema | None = None,
        **options: Any,
    ) -> "Reader":
        """Returns a reader of a topic, from a message on."""
        schema = schema or BytesSchema()
        reader = ReaderOptions(start_message_id, **options)
        consumer = reader_of(self._engine, topic, reader, schema)
        await self._engine.open(consumer)
        return Reader(consumer)

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


class Producer(_Closing):
    """Publishes to a topic."""

    def __init__(self, producer: EngineProducer, schema: Schema) -> None:
        self._producer = producer
        self._schema = schema
        self._tracing = producer.tracing
        self._plain = type(schema) is BytesSchema and self._tracing is None
        self._send = producer.send
        self._new_future = _future_maker(asyncio.get_running_loop())

    def send(self, content: Any, **options: Any) -> "asyncio.Future[MessageId]":
        """Sends a message; the future is its id, when it is stored.

        Raises ProducerQueueIsFull, unless the producer was made to wait for room: then use
        `await send_when_room`.
        """
        future: asyncio.Future[MessageId] = self._new_future()
        if self._plain and type(content) is bytes and not options:
            self._send(Outgoing(content, future))
            return future
        message = self._outgoing(content, future, options)
        if self._tracing is None:
            self._send(message)
        else:
            with self._traced(self._tracing, message, future):
                self._send(message)
        return future

    async def send_when_room(self, content: Any, **options: Any) -> "asyncio.Future[MessageId]":
        """As `send`, but waits while there is too much on its way."""
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
        self, content: Any, future: "asyncio.Future[MessageId]", options: dict[str, Any]
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


class Consumer(_Closing):
    """Receives from a subscription; `async for message in consumer` goes on until it is closed."""

    def __init__(self, consumer: EngineConsumer) -> None:
        self._consumer = consumer
        self._tracing = consumer.tracing
        self._avro = consumer.schema if isinstance(consumer.schema, AvroSchema) else None

    async def receive(self, timeout_millis: int | None = None) -> Message:
        """The next message. Raises Timeout."""
        began_ns = 0 if self._tracing is None else self._tracing.now_ns()
        message = self._consumer.take()
        if message is None:
            message = await self._wait(timeout_millis)
        if self._tracing is not None:
            self._tracing.received(message, self.subscription_name(), began_ns)
        if self._avro is not None and not await self._learned(self._avro, message):
            return await self.receive(timeout_millis)
        return message

    async def _learned(self, schema: AvroSchema, message: Message) -> bool:
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

    async def _learn(self, schema: AvroSchema, message: Message) -> None:
        """Gets the schema that a message was written with, for `value` cannot wait.

        If it cannot be had the message is received all the same, and `value` says why.
        """
        topic, version = message.topic_name(), message.int_schema_version()
        try:
            info = await self._consumer.schema_info(topic, version)
            schema.add_writer_schema(topic, version, info)
        except MagnetarError as error:
            schema.add_problem(topic, version, error)

    async def _wait(self, timeout_millis: int | None) -> Message:
        if timeout_millis is None:
            return await self._consumer.receive()
        try:
            async with asyncio.timeout(timeout_millis / 1000):
                return await self._consumer.receive()
        except TimeoutError:
            raise Timeout(f"no message within {timeout_millis} ms") from None

    async def batch_receive(
        self, policy: ConsumerBatchReceivePolicy | None = None
    ) -> list[Message]:
        """Some messages: as many as the policy wants, or those that came in its time."""
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
        return batch.messages

    def __aiter__(self) -> AsyncIterator[Message]:
        return self._messages()

    async def _messages(self) -> AsyncIterator[Message]:
        while True:
            try:
                yield await self.receive()
            except AlreadyClosed:
                return

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

    def processing(self, message: Message, *, retry_after: timedelta | None = None) -> Processing:
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

    async def seek(self, to: "MessageId | int") -> None:
        """Moves the subscription to a message, or to a time in ms."""
        if isinstance(to, MessageId):
            await self._consumer.seek(to, None)
        else:
            await self._consumer.seek(None, to)

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

    def stats(self) -> ConsumerStats:
        """What it did so far."""
        return self._consumer.stats()

    def is_connected(self) -> bool:
        """Whether the consumer has a connection to its broker now."""
        return self._consumer.connected


class Reader(_Closing):
    """Reads a topic from a place on, without a subscription that stays."""

    def __init__(self, consumer: EngineConsumer) -> None:
        self._consumer = Consumer(consumer)
        self._engine = consumer

    async def read_next(self, timeout_millis: int | None = None) -> Message:
        """Returns the next message. Raises Timeout."""
        message = await self._consumer.receive(timeout_millis)
        self._engine.acknowledge_cumulative(message, None)
        return message

    async def has_message_available(self) -> bool:
        """Whether there is a message behind the last one that was read."""
        return await has_message(self._engine)

    async def seek(self, to: "MessageId | int") -> None:
        """Moves the reader to a message, or to a time in ms."""
        await self._consumer.seek(to)

    async def close(self) -> None:
        """Closes the reader."""
        await self._consumer.close()

    def topic(self) -> str:
        """Returns the whole name of the topic."""
        return self._consumer.topic()

    def is_connected(self) -> bool:
        """Whether the reader has a connection to its broker now."""
        return self._consumer.is_connected()


# ---- What both doors share ---------------------------------------------------


def reader_of(engine: Engine, topic: str, options: ReaderOptions, schema: Schema) -> EngineConsumer:
    """What reads for a reader: a consumer, on a subscription that goes with it."""
    name = f"reader-{int(engine.random() * (1 << 40)):010x}"
    return EngineConsumer(engine, [topic], None, options.consumer_options(name), schema)


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


async def has_message(consumer: EngineConsumer) -> bool:
    """Whether there is a message behind the last one that was read."""
    if consumer.has_returned:
        return True
    # A list, since partitions may join meanwhile.
    for part in list(consumer.parts.values()):
        if part.core.queue_length() > 0:
            return True
        last, mark_delete = await part.last_message_id()
        if last.entry_id() < 0:
            continue
        if _begins_with(part, last, mark_delete):
            await part.seek(last, None)
            mark_delete = None
        if _is_behind(part, last, mark_delete) and await part.arrives(last):
            return True
    return False


def _begins_with(part: PartitionConsumer, last: MessageId, mark_delete: MessageId | None) -> bool:
    """Whether reading is to begin with the last message, and none was published since."""
    start = part.core.start_message_id()
    if start is None or start.ledger_id != INT64_MAX or part.core.has_taken:
        return False
    return part.options.start_message_id_inclusive and not _is_behind(part, last, mark_delete)


def _is_behind(part: PartitionConsumer, last: MessageId, mark_delete: MessageId | None) -> bool:
    """Whether the last message of a topic is one that was not read yet."""
    start = part.core.start_message_id()
    by_time = part.sought_by_time and not part.core.has_taken
    entry = (last.ledger_id(), last.entry_id())
    if mark_delete is not None and entry <= (mark_delete.ledger_id(), mark_delete.entry_id()):
        return False  # it was read, or skipped, or is before where reading began
    if start is None or (start.ledger_id < 0 and not by_time):
        return True
    if start.ledger_id == INT64_MAX or by_time:
        # Nothing was read yet, and reading begins where the subscription was made or moved.
        return mark_delete is not None
    read_to = (start.ledger_id, start.entry_id)
    if part.options.start_message_id_inclusive and not part.core.has_taken:
        return (*entry, last.batch_index()) >= (*read_to, start.batch_index)
    if start.batch_index < 0:
        return entry > read_to  # all of the entry
    return (*entry, last.batch_index()) > (*read_to, start.batch_index)
