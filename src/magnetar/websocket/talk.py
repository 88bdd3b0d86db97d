"""One WebSocket that is open: what its peer says is handled, and it is told what comes.

| kind     | the peer says                     | and is told                              |
|----------|-----------------------------------|------------------------------------------|
| producer | messages                          | of each, in their order: its id, or why  |
|          |                                   | it was not stored                        |
| consumer | acks, negative acks, permits      | messages, as long as fewer than          |
|          | (pullMode), unsubscribe           | `receiverQueueSize` are unacknowledged   |
| reader   | that it has read a message        | messages, in the same way                |

Everything is bounded. The next text is read when the one before is handled; a producer has
PENDING_MAX messages under way, or PENDING_BYTES_MAX, and all of them what `UnderWay` allows: beyond
that messages fail at once. A peer is told a message when it has read the one before, and one more
entry waits for it here. Two tasks do the work, one for each direction, and the end of either is
the end of both.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from magnetar.client.consumer.message import Message
from magnetar.client.door import aio
from magnetar.client.door.aio_consumer import Consumer
from magnetar.client.door.aio_producer import Producer
from magnetar.client.door.aio_reader import Reader
from magnetar.client.door.arguments import SendKeywords
from magnetar.errors import InvalidConfiguration, MagnetarError, ProducerQueueIsFull
from magnetar.model import MessageId
from magnetar.websocket.form import (
    Sent,
    failure,
    message_text,
    payload_pieces,
    read_id,
    read_sent,
    read_told,
    stored,
)
from magnetar.websocket.target import CONSUMER, PENDING_MAX, PRODUCER, Target

__all__ = ["Talk", "UnderWay", "begin", "send_options"]

# Of one producer, but for one message that is larger.
PENDING_BYTES_MAX: Final = 1 << 20

# Next text of the peer; None when it is gone.
Hear = Callable[[], Awaitable[bytes | None]]
Say = Callable[[str], Awaitable[None]]


class UnderWay:
    """How many bytes of messages all producers together have sent and not heard of."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max

    def require_room(self, size: int) -> None:
        """Raises ProducerQueueIsFull."""
        if self.bytes and self.bytes + size > self._bytes_max:
            raise ProducerQueueIsFull(
                f"{self.bytes} bytes of all WebSockets wait for their receipts, and there is no "
                f"room for {size} more: try again later"
            )


class Talk:
    """What each kind does with an open WebSocket."""

    async def run(self, hear: Hear, say: Say) -> None:
        """Goes on until the peer is gone. Raises MagnetarError if the broker ends it."""
        tasks = [
            asyncio.ensure_future(self.listen(hear, say)),
            asyncio.ensure_future(self.tell(say)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def listen(self, hear: Hear, say: Say) -> None:
        raise NotImplementedError

    async def tell(self, say: Say) -> None:
        raise NotImplementedError


async def begin(client: aio.Client, target: Target, under_way: UnderWay) -> Talk:
    """Returns what a WebSocket is for, once the broker has agreed. Raises MagnetarError."""
    if target.kind == PRODUCER:
        options = target.producer_options()
        return _Producing(await client.create_producer(target.topic, **options), under_way)
    if target.kind == CONSUMER:
        options = target.consumer_options()
        consumer = await client.subscribe(target.topic, target.subscription, **options)
        return _Consuming(consumer, target)
    options = target.reader_options()
    return _Reading(await client.create_reader(target.topic, **options), target)


class _Producing(Talk):
    def __init__(self, producer: Producer[Any], under_way: UnderWay) -> None:
        self._producer = producer
        self._under_way = under_way
        self._bytes = 0
        self._less = asyncio.Event()
        # What became of each, in their order: an answer, or who will have one.
        self._sent: asyncio.Queue[tuple[str | asyncio.Future[MessageId], str | None]] = (
            asyncio.Queue(PENDING_MAX)
        )

    async def listen(self, hear: Hear, say: Say) -> None:
        while (text := await hear()) is not None:
            context: str | None = None
            answer: str | asyncio.Future[MessageId]
            try:
                sent = read_sent(text)
                context = sent.context
                answer = await self._send(sent)
            except MagnetarError as error:
                answer = failure(error, context)
            await self._sent.put((answer, context))

    async def _send(self, sent: Sent) -> "asyncio.Future[MessageId]":
        content = sent.content()
        while self._bytes and self._bytes + len(content) > PENDING_BYTES_MAX:
            self._less.clear()
            await self._less.wait()
        self._under_way.require_room(len(content))
        answer = await self._producer.send_when_room(content, **send_options(sent))
        self._count(len(content))
        answer.add_done_callback(lambda done: self._count(-len(content)))
        return answer

    def _count(self, size: int) -> None:
        self._bytes += size
        self._under_way.bytes += size
        self._less.set()

    async def tell(self, say: Say) -> None:
        while True:
            answer, context = await self._sent.get()
            if isinstance(answer, str):
                await say(answer)
                continue
            try:
                text = stored(await answer, context)
            except MagnetarError as error:
                text = failure(error, context)
            await say(text)


def send_options(sent: Sent) -> SendKeywords:
    """Returns how a message is to be sent. Raises InvalidConfiguration."""
    after = timedelta(milliseconds=sent.deliver_after) if sent.deliver_after else None
    return {
        "properties": sent.properties or None,
        "partition_key": sent.key,
        "replication_clusters": sent.replication_clusters,
        "event_timestamp": _event_time(sent.event_time),
        "deliver_at": sent.deliver_at or None,
        "deliver_after": after,
    }


def _event_time(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise InvalidConfiguration("eventTime: give ms since 1970")
    return int(text)


class _Delivering(Talk):
    """What consumers and readers have in common: how many messages the peer may have."""

    def __init__(self, target: Target) -> None:
        self._pulls = target.pulls
        self._room = 0 if self._pulls else target.queue_size
        self._more = asyncio.Event()

    async def tell(self, say: Say) -> None:
        while True:
            while self._room <= 0:
                self._more.clear()
                await self._more.wait()
            text = await _text_of(await self.next())
            self._room -= 1
            await say(text)

    def give_room(self, count: int) -> None:
        self._room += count
        self._more.set()

    def handled(self) -> None:
        """The peer is done with a message; who pulls says by itself how many more it wants."""
        if not self._pulls:
            self.give_room(1)

    async def next(self) -> Any:
        raise NotImplementedError


async def _text_of(message: Message[Any]) -> str:
    pieces: list[str] = []
    for piece in payload_pieces(message.data()):
        if pieces:
            await asyncio.sleep(0)
        pieces.append(piece)
    return message_text(message, "".join(pieces))


class _Consuming(_Delivering):
    def __init__(self, consumer: Consumer[Any], target: Target) -> None:
        super().__init__(target)
        self._consumer = consumer

    async def next(self) -> Any:
        return await self._consumer.receive()

    async def listen(self, hear: Hear, say: Say) -> None:
        while (text := await hear()) is not None:
            told = read_told(text)
            if told.type == "acknowledge":
                await self._consumer.acknowledge(self._id(told.message_id))
                self.handled()
            elif told.type == "negativeAcknowledge":
                self._consumer.negative_acknowledge(self._id(told.message_id))
                self.handled()
            elif told.type == "permit":
                self.give_room(told.permit_messages)
            elif told.type == "unsubscribe":
                await self._consumer.unsubscribe()
                return
            else:
                raise InvalidConfiguration(
                    f"type: {told.type[:100]!r} is none of acknowledge, negativeAcknowledge, "
                    "permit and unsubscribe"
                )

    def _id(self, text: str) -> MessageId:
        return read_id(text)


class _Reading(_Delivering):
    def __init__(self, reader: Reader[Any], target: Target) -> None:
        super().__init__(target)
        self._reader = reader

    async def next(self) -> Any:
        return await self._reader.read_next()

    async def listen(self, hear: Hear, say: Say) -> None:
        while (text := await hear()) is not None:
            told = read_told(text)
            if told.type == "permit":
                self.give_room(told.permit_messages)
            elif told.type == "acknowledge":
                self.handled()
            else:
                raise InvalidConfiguration(
                    f"type: {told.type[:100]!r} is neither acknowledge nor permit"
                )


async def close(client: aio.Client) -> None:
    with suppress(MagnetarError):
        await client.close()
