"""The asyncio client, with everything that a program does with it written into a history.

`RecordedClient` takes the place of `magnetar.aio.Client` and behaves like it: its producers
and consumers are the real ones, and write facts on the way in and out. A program under test
needs no change but the client that it is given; `Simulation.client` makes one.

A consumer is called after its process and a number, so one that comes back is another one.
"""

import asyncio
import itertools
import re
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Any

from magnetar.client.ack.entry_state import PENDING
from magnetar.client.ack.retry import default_backoff
from magnetar.client.consumer.message import Message
from magnetar.client.door.aio import Client, Consumer, Producer
from magnetar.client.door.arguments import messages_of
from magnetar.client.door.transaction import Transaction
from magnetar.client.network.clock import Clock
from magnetar.client.option.backoff import JITTER
from magnetar.client.schema.schema import Schema
from magnetar.errors import MagnetarError
from magnetar.model import ChunkMessageId, ConsumerType, MessageId
from magnetar.model.position_key import wide_key
from magnetar.testing.checker.asked_acks import AskedAcks
from magnetar.testing.checker.history import (
    AckAsked,
    AckFailed,
    AckGivenUp,
    AckKept,
    History,
    Left,
    Nacked,
    Opened,
    Place,
    Received,
    SendFailed,
    Sent,
    Sought,
    Stored,
    TxnAckAsked,
    TxnSent,
    place_of,
)

__all__ = ["RecordedClient", "RecordedConsumer", "RecordedProducer"]


class RecordedClient(Client):
    """An asyncio client whose producers and consumers record what happens to them."""

    def __init__(
        self,
        service_url: str,
        history: History,
        name: str,
        *,
        clock: Clock | None = None,
        rng: Random | None = None,
        **options: Any,
    ) -> None:
        # Where brokers are made to fail, programs start while there is none.
        options.setdefault("wait_for_broker", True)
        super().__init__(service_url, clock=clock, rng=rng, **options)
        self._history = history
        self._name = name
        self._numbers = itertools.count(1)
        # Whether consumers are called as their options say, where programs share a client.
        self.names_consumers: bool = False

    async def create_producer(
        self, topic: str, *, schema: Schema | None = None, **options: Any
    ) -> "RecordedProducer":
        plain = await super().create_producer(topic, schema=schema, **options)
        name = f"{self._name}/{next(self._numbers)}"
        return RecordedProducer(plain, self._history, name)

    async def subscribe(
        self,
        topic: "str | list[str] | re.Pattern[str]",
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        schema: Schema | None = None,
        **options: Any,
    ) -> "RecordedConsumer":
        made: list[RecordedConsumer] = []
        if options.get("auto_retry_acknowledgement"):
            told = options.get("on_acknowledgement_failed")

            def gave_up(ids: list[MessageId], error: Exception) -> None:
                for consumer in made:
                    consumer.note_given_up(ids, error)
                if told is not None:
                    told(ids, error)

            options["on_acknowledgement_failed"] = gave_up
        plain = await super().subscribe(
            topic, subscription_name, consumer_type, schema=schema, **options
        )
        name = f"{self._name}/{next(self._numbers)}"
        if self.names_consumers and "consumer_name" in options:
            name = f"{options['consumer_name']}.{name.partition('.')[2]}"
        made.append(RecordedConsumer(plain, self._history, name))
        return made[0]


class RecordedProducer(Producer[Any]):
    """Writes Sent, and then Stored or SendFailed."""

    def __init__(self, plain: Producer[Any], history: History, name: str) -> None:
        super().__init__(plain._producer, plain._schema)
        self._history = history
        self.name: str = name
        self._count = itertools.count()

    def send(self, content: Any, **options: Any) -> "asyncio.Future[MessageId]":
        future = super().send(content, **options)
        self._follow(content, options, future)
        return future

    async def send_when_room(self, content: Any, **options: Any) -> "asyncio.Future[MessageId]":
        future = await super().send_when_room(content, **options)
        self._follow(content, options, future)
        return future

    def _follow(
        self, content: Any, options: dict[str, Any], future: "asyncio.Future[MessageId]"
    ) -> None:
        number = next(self._count)
        transaction = options.get("transaction")
        if transaction is not None:
            self._history.add(TxnSent(transaction.id, self.name, number))
        delayed = "deliver_at" in options or "deliver_after" in options
        key = str(options.get("partition_key") or "")
        payload = bytes(self._schema.encode(content))
        self._history.add(Sent(self.name, number, self.topic(), payload, key, delayed))

        def settled(done: "asyncio.Future[MessageId]") -> None:
            if done.cancelled():
                return
            error = done.exception()
            if error is not None:
                self._history.add(SendFailed(self.name, number, type(error).__name__))
            else:
                id = done.result()
                split = isinstance(id, ChunkMessageId)
                self._history.add(Stored(self.name, number, place_of(id), id.partition(), split))

        future.add_done_callback(settled)


class RecordedConsumer(Consumer[Any]):
    """Writes what a program receives, acks, refuses and seeks."""

    def __init__(self, plain: Consumer, history: History, name: str) -> None:
        super().__init__(plain._consumer)
        self._history = history
        self.name: str = name
        self._count = itertools.count()
        options = plain._consumer.options
        self._asks = AskedAcks(receipts=options.ack_receipt_enabled)
        history.add(
            Opened(
                name,
                options.subscription_name,
                options.consumer_type.name,
                options.ack_receipt_enabled,
                options.auto_retry_acknowledgement,
            )
        )

    async def receive(self, timeout_millis: int | None = None) -> Message:
        message = await super().receive(timeout_millis)
        id = message.message_id()
        self._history.add(
            Received(
                self.name,
                self.subscription_name(),
                message.topic_name(),
                place_of(id),
                id.batch_size(),
                message.data(),
                message.partition_key(),
                message.redelivery_count(),
            )
        )
        return message

    async def acknowledge(
        self,
        message: "Message | MessageId | Iterable[Message | MessageId]",
        *,
        transaction: Transaction | None = None,
    ) -> None:
        messages = messages_of(message)
        if transaction is not None:
            self._asked_in(transaction, messages, cumulative=False)
            await super().acknowledge(messages, transaction=transaction)
            return
        ids = [_id_of(one) for one in messages]
        places = tuple(place_of(id) for id in ids)
        topic = (ids[0].topic_name() or "") if ids else ""
        number = self._asked(places, topic, cumulative=False)
        await self._told(number, places, super().acknowledge(messages))

    async def acknowledge_cumulative(
        self, message: "Message | MessageId", *, transaction: Transaction | None = None
    ) -> None:
        if transaction is not None:
            await super().acknowledge_cumulative(message, transaction=transaction)
            return
        id = _id_of(message)
        places = (place_of(id),)
        number = self._asked(places, id.topic_name() or "", cumulative=True)
        await self._told(number, places, super().acknowledge_cumulative(message))

    def _asked_in(
        self,
        transaction: Transaction,
        messages: "Iterable[Message | MessageId]",
        *,
        cumulative: bool,
    ) -> None:
        """It counts when the transaction is committed."""
        places = tuple(place_of(_id_of(one)) for one in messages)
        subscription = self.subscription_name()
        fact = TxnAckAsked(transaction.id, self.name, subscription, places, cumulative)
        self._history.add(fact)

    def _asked(self, places: tuple[Place, ...], topic: str, *, cumulative: bool) -> int:
        number = next(self._count)
        self._asks.asked(number, places, asyncio.get_running_loop().time())
        fact = AckAsked(self.name, self.subscription_name(), number, places, cumulative, topic)
        self._history.add(fact)
        return number

    async def _told(self, number: int, places: tuple[Place, ...], ack: Any) -> None:
        try:
            await ack
        except MagnetarError as error:
            self._asks.failed(number)
            self._history.add(AckFailed(self.name, number, type(error).__name__))
            raise
        if self._consumer.options.ack_receipt_enabled:
            self._asks.kept(number, places)
            self._history.add(AckKept(self.name, number))

    def note_given_up(self, ids: list[MessageId], error: Exception) -> None:
        """The program is told that these acks are not tried again."""
        places = tuple(place_of(id) for id in ids)
        tried_s = self._asks.given_up(places, asyncio.get_running_loop().time())
        tried_ms = -1 if tried_s is None else round(tried_s * 1000)
        retries = self._consumer.options.max_acknowledgement_retries
        least_ms = sum(int(default_backoff().next_ms(n) * (1 - JITTER)) for n in range(retries))
        kind = type(error).__name__
        self._history.add(AckGivenUp(self.name, places, kind, tried_ms, least_ms))

    def negative_acknowledge(self, message: "Message | MessageId") -> None:
        id = _id_of(message)
        unsent = self._is_unsent(id)
        self._history.add(Nacked(self.name, self.subscription_name(), place_of(id), unsent))
        super().negative_acknowledge(message)

    def _is_unsent(self, id: MessageId) -> bool:
        """Returns whether an ack of a message was asked for and never sent, as far as the client
        knows."""
        part = self._consumer.parts.get(id.topic_name() or "")
        if part is None:
            return False
        tracker = part.core.acks
        acks = tracker.records.get(wide_key(id.ledger_id(), id.entry_id()))
        if acks is None or acks.state != PENDING or acks.unanswered:
            return False
        if tracker.retries is not None and acks.key in tracker.retries:
            return False
        return acks.unconfirmed() & acks.bit_of(id.batch_index()) != 0

    async def seek(self, to: "MessageId | int") -> None:
        topic, first = self._first_after(to)
        seek = partial(Sought, self.name, self.subscription_name(), topic=topic, first=first)
        self._history.add(seek("asked"))
        try:
            await super().seek(to)
        except MagnetarError:
            self._history.add(seek("failed"))
            raise
        self._history.add(seek("done"))

    def _first_after(self, to: "MessageId | int") -> tuple[str, Place]:
        """Returns what may come first after a seek, as `Sought` has it."""
        if isinstance(to, int) or to.entry_id() < 0 or to == MessageId.latest:
            return "", Place(-1, -1)
        topic = to.topic_name() or self.topic()
        place = place_of(to)  # of one in chunks, where it ends
        if self._consumer.options.start_message_id_inclusive:
            return topic, place
        if place.index < 0:
            return topic, Place(place.ledger, place.entry + 1)
        return topic, Place(place.ledger, place.entry, place.index + 1)

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await super().close(timeout)
        self._history.add(Left(self.name))


def _id_of(message: "Message | MessageId") -> MessageId:
    return message.message_id() if isinstance(message, Message) else message
