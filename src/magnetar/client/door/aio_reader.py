"""The asyncio door's reader: a topic from a place on, without a subscription that stays."""

from typing import Generic, Self

from magnetar.client.consumer.message import Message
from magnetar.client.door.aio_consumer import Consumer
from magnetar.client.door.closing import AsyncClosing
from magnetar.client.door.reading import has_message
from magnetar.client.engine.consumer import EngineConsumer
from magnetar.client.schema.value import Received
from magnetar.errors import AlreadyClosed
from magnetar.model import MessageId

__all__ = ["Reader"]


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
        """Returns whether there is a message behind the last one that was read."""
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
        """Returns whether the reader has a connection to its broker now."""
        return self._consumer.is_connected()

    def __repr__(self) -> str:
        return f"<magnetar.aio.Reader of {self._engine.topic}: {self._engine.state}>"
