"""The asyncio door's consumer, which `async for` goes over."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any, Generic, Self, TypeVar, cast

from magnetar.client.consumer.message import Message
from magnetar.client.door.arguments import consumer_interceptors_of, message_of, messages_of
from magnetar.client.door.closing import AsyncClosing
from magnetar.client.door.processing import Processing
from magnetar.client.door.transaction import Transaction, core_of
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.option.options import ConsumerBatchReceivePolicy
from magnetar.client.schema.avro_schema import AvroSchema
from magnetar.client.schema.value import Received
from magnetar.client.telemetry.stats import ConsumerStats
from magnetar.client.transaction.core import TransactionCore
from magnetar.errors import AlreadyClosed, MagnetarError, Timeout
from magnetar.model import MessageId

__all__ = ["Consumer", "reconsume"]

# Of a message, whichever consumer it is from.
Value = TypeVar("Value")


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
        self._interceptors = interceptors = consumer_interceptors_of(consumer)
        if interceptors is not None:
            consumer.on_due = lambda refused, late: interceptors.redelivered(self, refused, late)
            consumer.on_letter_acknowledged = partial(interceptors.letter_acknowledged, self)
            consumer.on_closed = interceptors.close

    async def receive(self, timeout_millis: int | None = None) -> Message[Received]:
        """Returns the next message. Raises Timeout, and AlreadyClosed once it is closed."""
        message = await self._receive(timeout_millis)
        if self._interceptors is not None:
            message = self._interceptors.before_consume(self, message)
        return message

    async def _receive(self, timeout_millis: int | None) -> Message[Received]:
        began_ns = 0 if self._tracing is None else self._tracing.now_ns()
        message = self._consumer.take()
        if message is None:
            message = await self._wait(timeout_millis)
        if self._tracing is not None:
            self._tracing.received(message, self.subscription_name(), began_ns)
        if self._avro is not None and not await self._learned(self._avro, message):
            return await self._receive(timeout_millis)
        return message

    async def _learned(self, schema: AvroSchema[Any], message: Message) -> bool:
        """Returns whether the message, whose schema is known now, is still for the application."""
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
                batch.add(await self._receive(batch.left_ms()))
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
        messages = batch.messages
        interceptors = self._interceptors
        if interceptors is not None:
            messages = [interceptors.before_consume(self, message) for message in messages]
        return cast("list[Message[Received]]", messages)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[Received]:
        try:
            return await self.receive()
        except AlreadyClosed:
            raise StopAsyncIteration from None

    async def acknowledge(
        self,
        message: "Message | MessageId | Iterable[Message | MessageId]",
        *,
        transaction: Transaction | None = None,
    ) -> None:
        """Acks a message or several; with receipts, returns when that is kept.

        With receipts and retries it returns after the success, or raises what the last try
        failed with. In a transaction it counts when that is committed, which waits for it. Raises
        TransactionConflict for what was acknowledged in another one; a broker's refusal is raised
        here if there are receipts, else by the commit.
        """
        messages = messages_of(message)
        if self._interceptors is None:
            await self._acknowledge(messages, transaction)
            return
        with self._interceptors.acknowledging(self, messages, cumulative=False):
            await self._acknowledge(messages, transaction)

    async def _acknowledge(
        self, messages: "list[Message | MessageId]", transaction: Transaction | None
    ) -> None:
        core = core_of(transaction, self._consumer.engine)
        if core is None:
            await self._ack(lambda done: self._consumer.acknowledge(messages, done))
        else:
            await self._ack(lambda done: self._consumer.acknowledge_in(core, messages, done))

    async def acknowledge_cumulative(
        self, message: "Message | MessageId", *, transaction: Transaction | None = None
    ) -> None:
        """Acknowledges a message and all before it."""
        one = message_of(message)
        if self._interceptors is None:
            await self._acknowledge_cumulative(one, transaction)
            return
        with self._interceptors.acknowledging(self, [one], cumulative=True):
            await self._acknowledge_cumulative(one, transaction)

    async def _acknowledge_cumulative(
        self, one: "Message | MessageId", transaction: Transaction | None
    ) -> None:
        core = core_of(transaction, self._consumer.engine)
        if core is not None:
            await self._ack(lambda done: self._consumer.acknowledge_cumulative_in(core, one, done))
            return
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
        """Returns what `async with` takes: it acks when the block ends, and nacks if it raises.

        A cancelled block nacks too; whatever was raised goes on. With `retry_after` and
        `retry_enabled=True` a message whose block raised an error is not nacked but sent to the
        retry topic, to come again after that time (`reconsume_later`).
        """
        return Processing(self, self._consumer, message, retry_after)

    async def reconsume_later(
        self,
        message: Message,
        delay: timedelta,
        properties: dict[str, str] | None = None,
        *,
        transaction: Transaction | None = None,
    ) -> None:
        """Publishes it to the retry topic, to come again after a delay, and acks it.

        The consumer was made with `retry_enabled=True`. After as many rounds as the dead
        letter policy says, 16 without one, the message is a dead letter. In a transaction letter
        and ack are one; without, a program that is killed between them leaves both.
        """
        core = core_of(transaction, self._consumer.engine)
        await reconsume(self._consumer, message, delay, properties, core)

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
        """Returns what it did so far."""
        return self._consumer.stats()

    def is_connected(self) -> bool:
        """Returns whether the consumer has a connection to its broker now."""
        return self._consumer.connected

    def __repr__(self) -> str:
        return f"<magnetar.aio.Consumer of {self._consumer.description}>"


async def reconsume(
    consumer: EngineConsumer,
    message: Message,
    delay: timedelta,
    properties: dict[str, str] | None,
    transaction: TransactionCore | None,
) -> None:
    """Publishes a message to the retry topic and acks it; for both doors.

    With receipts it returns when the ack is stored, and raises if that failed.
    """
    delay_ms = int(delay.total_seconds() * 1000)
    if not consumer.options.ack_receipt_enabled:
        await consumer.reconsume_later(message, delay_ms, properties, None, transaction)
        return
    kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    await consumer.reconsume_later(message, delay_ms, properties, _AckFuture(kept), transaction)
    await kept
