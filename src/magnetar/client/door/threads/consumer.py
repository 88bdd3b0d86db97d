"""The blocking door's consumer and reader: what is there is taken by the caller's thread."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from magnetar.client.consumer.batch_receive import BatchReceive
from magnetar.client.consumer.message import Message
from magnetar.client.door.aio_consumer import reconsume
from magnetar.client.door.arguments import consumer_interceptors_of, message_of, messages_of
from magnetar.client.door.closing import Closing
from magnetar.client.door.processing import ThreadProcessing
from magnetar.client.door.reading import has_message
from magnetar.client.door.threads.listener import Listener
from magnetar.client.door.threads.outcome import Outcome
from magnetar.client.door.threads.transaction import Transaction
from magnetar.client.door.transaction import core_of
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.errors import Result
from magnetar.client.intercept.consumer_interceptors import ConsumerInterceptors
from magnetar.client.schema.value import Received
from magnetar.client.telemetry.observer import Tracing
from magnetar.client.telemetry.stats import ConsumerStats
from magnetar.client.transaction.core import TransactionCore
from magnetar.errors import AlreadyClosed, MagnetarError, Timeout
from magnetar.model import MessageId

if TYPE_CHECKING:
    from magnetar.client.door.blocking import Client

__all__ = ["Consumer", "Reader"]


# Of a message, whichever consumer it is from.
Value = TypeVar("Value")


class Consumer(Closing, Generic[Received]):
    """Receives from a subscription; `for message in consumer` goes on until it is closed.

    Any thread may call it, and several at once.
    """

    def __init__(self, client: "Client", consumer: EngineConsumer) -> None:
        self._client = client
        self._consumer = consumer
        self._lock = client._lock
        self._arrived = threading.Condition(client._lock)
        self._waiting = 0
        self._listener: Listener | None = None
        # Whether the listener waits for a message.
        self._asks = False
        self._receipts = consumer.options.ack_receipt_enabled
        self._tracing = consumer.tracing
        consumer.on_wake = self._awake
        consumer.call_back = self._call_back
        self._interceptors = interceptors = consumer_interceptors_of(consumer)
        # Whether a message is acked by a call that nobody waits for, and nobody else is told of.
        self._plain_acks = not self._receipts and interceptors is None
        if interceptors is not None:
            consumer.on_due = lambda refused, late: interceptors.redelivered(self, refused, late)
            consumer.on_letter_acknowledged = partial(interceptors.letter_acknowledged, self)
            consumer.on_closed = interceptors.close

    def receive(self, timeout_millis: int | None = None) -> Message[Received]:
        """Returns the next message. Raises Timeout, and AlreadyClosed once it is closed."""
        began_ns = 0 if self._tracing is None else self._tracing.now_ns()
        with self._lock:
            message = self._consumer.take()
            if message is None:
                message = self._wait(timeout_millis)
        if self._tracing is not None:
            self._tracing.received(message, self.subscription_name(), began_ns)
        if self._interceptors is not None:
            message = self._interceptors.before_consume(self, message)
        return message

    def __iter__(self) -> Iterator[Message[Received]]:
        while True:
            try:
                message = self.receive()
            except AlreadyClosed:
                return
            yield message

    def _receive_into(self, batch: BatchReceive) -> None:
        """Gathers the next message."""
        began_ns = 0 if self._tracing is None else self._tracing.now_ns()
        with self._lock:
            message = self._consumer.take()
            if message is None:
                message = self._wait(batch.left_ms())
            batch.add(message)
        if self._tracing is not None:
            self._tracing.received(message, self.subscription_name(), began_ns)

    def _wait(self, timeout_millis: int | None) -> Message[Any]:
        """With the lock."""
        self._client._loop.refuse_here()
        found: Message[Any] | None = None

        def here() -> bool:
            nonlocal found
            self._consumer.check()
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
        if self._listener is not None:
            self._listener.wake()

    def _call_back(self, function: Callable[[], object]) -> None:
        """Calls a function of the application's where it may call us."""
        self._client._callbacks.put([lambda result, id: function()], Result.Ok, [None])

    def batch_receive(self) -> list[Message[Received]]:
        """Returns some messages, as the batch receive policy says; none if none came in time."""
        self._client._loop.refuse_here()
        with self._lock:
            batch = self._consumer.gather(None, time.monotonic)
        try:
            while batch.open:
                self._receive_into(batch)
        except Timeout:
            pass
        except MagnetarError:
            # What it has is for the application, unless that could not ack it any more.
            if not batch.messages or self._consumer.closed:
                raise
        except BaseException:
            with self._lock:
                self._consumer.put_back(batch.messages)
            raise
        finally:
            with self._lock:
                self._consumer.handed(batch)
        messages = batch.messages
        interceptors = self._interceptors
        if interceptors is not None:
            messages = [interceptors.before_consume(self, message) for message in messages]
        return cast("list[Message[Received]]", messages)

    def acknowledge(
        self,
        message: "Message | MessageId | Iterable[Message | MessageId]",
        *,
        transaction: Transaction | None = None,
    ) -> None:
        """Acks a message, or several in one request.

        In a transaction it counts when that is committed, which waits for it. Raises
        TransactionConflict for what was acknowledged in another one; a broker's refusal is raised
        here if there are receipts, else by the commit.
        """
        if type(message) is Message and self._plain_acks and transaction is None:
            with self._lock:
                self._consumer.acknowledge_message(message)
            return
        messages = messages_of(message)
        if self._interceptors is None:
            self._acknowledge(messages, transaction)
            return
        with self._interceptors.acknowledging(self, messages, cumulative=False):
            self._acknowledge(messages, transaction)

    def _acknowledge(
        self, messages: "list[Message | MessageId]", transaction: Transaction | None
    ) -> None:
        if transaction is not None:
            self._acknowledge_in(transaction, messages)
        elif self._receipts:
            self._ack_and_wait(lambda done: self._consumer.acknowledge(messages, done))
        else:
            with self._lock:
                self._consumer.acknowledge(messages, None)

    def _acknowledge_in(
        self, transaction: Transaction, messages: "list[Message | MessageId]"
    ) -> None:
        core = core_of(transaction, self._consumer.engine)
        assert core is not None, "there is a transaction"
        if self._receipts:
            self._ack_and_wait(lambda done: self._consumer.acknowledge_in(core, messages, done))
            return
        with self._lock:
            self._consumer.acknowledge_in(core, messages, None)

    def acknowledge_cumulative(
        self, message: "Message | MessageId", *, transaction: Transaction | None = None
    ) -> None:
        """Acks a message and all before it."""
        one = message_of(message)
        if self._plain_acks and transaction is None:
            with self._lock:
                self._consumer.acknowledge_cumulative(one, None)
            return
        if self._interceptors is None:
            self._acknowledge_cumulative(one, transaction)
            return
        with self._interceptors.acknowledging(self, [one], cumulative=True):
            self._acknowledge_cumulative(one, transaction)

    def _acknowledge_cumulative(
        self, one: "Message | MessageId", transaction: Transaction | None
    ) -> None:
        core = core_of(transaction, self._consumer.engine)
        if core is not None:
            self._acknowledge_cumulative_in(core, one)
        elif self._receipts:
            self._ack_and_wait(lambda done: self._consumer.acknowledge_cumulative(one, done))
        else:
            with self._lock:
                self._consumer.acknowledge_cumulative(one, None)

    def _acknowledge_cumulative_in(self, core: TransactionCore, one: "Message | MessageId") -> None:
        if self._receipts:
            self._ack_and_wait(
                lambda done: self._consumer.acknowledge_cumulative_in(core, one, done)
            )
            return
        with self._lock:
            self._consumer.acknowledge_cumulative_in(core, one, None)

    def _ack_and_wait(self, ack: Callable[[Callable[[Exception | None], None]], None]) -> None:
        kept: Outcome[None] = Outcome()
        self._client._loop.refuse_here()
        with self._lock:
            ack(lambda error: kept.set(error, None))
        kept.wait()

    def negative_acknowledge(self, message: "Message | MessageId") -> None:
        """Asks for it again, after a while."""
        with self._lock:
            self._consumer.check_open()
            self._consumer.negative_acknowledge(message)

    def processing(
        self, message: Message[Value], *, retry_after: timedelta | None = None
    ) -> ThreadProcessing[Value]:
        """Returns what `with` takes: it acks when the block ends, and nacks if it raises.

        Whatever was raised goes on. With `retry_after` and `retry_enabled=True` a message whose
        block raised an error is not nacked but sent to the retry topic, to come again after
        that time (`reconsume_later`).
        """
        return ThreadProcessing(self, self._consumer, message, retry_after)

    def reconsume_later(
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
        self._client._call(reconsume(self._consumer, message, delay, properties, core))

    def redeliver_unacknowledged_messages(self) -> None:
        """Asks for all messages again that are not acknowledged."""
        with self._lock:
            self._consumer.check_open()
            self._consumer.redeliver()

    def pause_message_listener(self) -> None:
        """Stops calls of the message listener until it is resumed."""
        if self._listener is not None:
            self._listener.pause()

    def resume_message_listener(self) -> None:
        """Goes on calling the message listener."""
        if self._listener is not None:
            self._listener.resume()

    def seek(self, messageid: "MessageId | int") -> None:
        """Moves the subscription to a message, or to a time in ms."""
        if isinstance(messageid, MessageId):
            self._client._call(self._consumer.seek(messageid, None))
        else:
            self._client._call(self._consumer.seek(None, messageid))

    def get_last_message_id(self) -> MessageId:
        """Returns the id of the last message in the topic."""
        return max(last for last, _ in self._client._call(self._consumer.last_message_ids()))

    def unsubscribe(self) -> None:
        """Deletes the subscription, and closes the consumer."""
        self._stop_listening()
        try:
            self._client._call(self._consumer.unsubscribe())
        except BaseException:
            if self._listener is not None and not self._consumer.closed:
                self._client._listeners.restore(self._listener)
            raise

    def close(self, timeout: float | None = None) -> None:
        """Closes it. Acks that are not confirmed yet are waited for, `timeout` seconds long.

        Without a time that is as long as an operation may take if acks are retried, else
        not at all. Acks that are left then fail, and `on_acknowledgement_failed` is told.
        """
        if self._client._engine.forked:
            return
        self._stop_listening()
        self._client._call(self._consumer.close(timeout))

    def topic(self) -> str:
        """Returns the whole name of the topic."""
        return self._consumer.topic

    def subscription_name(self) -> str:
        """Returns the name of the subscription."""
        return self._consumer.options.subscription_name

    def consumer_name(self) -> str:
        """Returns the consumer's name."""
        return self._consumer.name

    def is_connected(self) -> bool:
        """Returns whether the consumer has a connection to its broker now."""
        return self._consumer.connected

    def stats(self) -> ConsumerStats:
        """Returns what it did so far."""
        return self._consumer.stats()

    def __repr__(self) -> str:
        return f"<magnetar.Consumer of {self._consumer.description}>"

    # ---- For a listener ------------------------------------------------------

    def _take_held(self) -> Message[Any] | None:
        """The next message, whose permit stays with it until it is given back."""
        with self._lock:
            self._consumer.check_all()
            message = self._consumer.take(held=True)
            asks = message is None
            if asks != self._asks:
                self._asks = asks
                self._consumer.wait(1 if asks else -1)
            return message

    def _give_back(self, message: Message) -> None:
        """Returns the permit of a message that `_take_held` handed out."""
        with self._lock:
            self._consumer.give_back(message)

    def _listen(self, call: Callable[[Message[Any]], object], *, alone: bool = False) -> None:
        tracing, interceptors = self._tracing, self._interceptors
        if interceptors is not None:
            call = partial(_intercept, interceptors, self, call)
        if tracing is not None:
            call = partial(_process, tracing, self.subscription_name(), call)
        self._listener = self._client._listeners.add(self, call, alone=alone)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._client._loop.refuse_here()
            self._client._listeners.remove(self._listener)


def _intercept(
    interceptors: ConsumerInterceptors,
    consumer: Consumer[Any],
    call: Callable[[Message], object],
    message: Message,
) -> None:
    call(interceptors.before_consume(consumer, message))


def _process(
    tracing: Tracing, subscription: str, call: Callable[[Message], object], message: Message
) -> None:
    with tracing.process(message, subscription):
        call(message)


class Reader(Closing, Generic[Received]):
    """Reads a topic from a message on, without a subscription that stays.

    `for message in reader` goes on until it is closed.
    """

    def __init__(self, client: "Client", consumer: EngineConsumer) -> None:
        self._client = client
        self._engine = consumer
        self._consumer: Consumer[Received] = Consumer(client, consumer)

    def read_next(self, timeout_millis: int | None = None) -> Message[Received]:
        """Returns the next message. Raises Timeout."""
        message = self._consumer.receive(timeout_millis)
        with self._client._lock:
            self._engine.acknowledge_cumulative(message, None)
        return message

    def __iter__(self) -> Iterator[Message[Received]]:
        while True:
            try:
                message = self.read_next()
            except AlreadyClosed:
                return
            yield message

    def has_message_available(self) -> bool:
        """Returns whether there is a message behind the last one that was read."""
        return self._client._call(has_message(self._engine))

    def seek(self, messageid: "MessageId | int") -> None:
        """Moves the reader to a message, or to a time in ms."""
        self._consumer.seek(messageid)

    def close(self) -> None:
        """Closes the reader."""
        self._consumer.close()

    def topic(self) -> str:
        """Returns the whole name of the topic."""
        return self._consumer.topic()

    def is_connected(self) -> bool:
        """Returns whether the reader has a connection to its broker now."""
        return self._consumer.is_connected()

    def __repr__(self) -> str:
        return f"<magnetar.Reader of {self._engine.topic}: {self._engine.state}>"

    def _listen(
        self,
        call: "Callable[[Reader[Any], Message[Any]], object]",
        *,
        alone: bool = False,
    ) -> None:
        def called(message: Message) -> None:
            try:
                call(self, message)
            finally:
                # The function may have closed the reader.
                with self._client._lock, suppress(AlreadyClosed):
                    self._engine.acknowledge_cumulative(message, None)

        self._consumer._listen(called, alone=alone)
