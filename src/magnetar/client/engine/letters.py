"""Letters of a consumer: messages that it publishes elsewhere, with a producer for each topic.

What came encrypted is encrypted again, for the same readers, with the keys of the consumer.
"""

import asyncio
from typing import TYPE_CHECKING

from magnetar.client.consumer.message import Message
from magnetar.client.engine.producer import EngineProducer
from magnetar.client.option.crypto_key_reader import CryptoKeyReader
from magnetar.client.option.options import ProducerOptions
from magnetar.client.producer.outgoing import Outgoing
from magnetar.client.schema.schema import Schema
from magnetar.client.transaction.core import TransactionCore
from magnetar.errors import AlreadyClosed, CryptoError
from magnetar.model import MessageId

if TYPE_CHECKING:
    from magnetar.client.engine.client import Engine

__all__ = ["Letters"]


class Letters:
    """Producers are made when they are first needed, and closed with the consumer."""

    def __init__(
        self, engine: "Engine", schema: Schema, crypto_key_reader: CryptoKeyReader | None
    ) -> None:
        self._engine = engine
        self._schema = schema
        self._crypto_key_reader = crypto_key_reader
        self._producers: dict[tuple[str, ...], EngineProducer] = {}
        self._opening = asyncio.Lock()
        self._closed = False

    async def publish(
        self,
        topic: str,
        message: Message,
        properties: dict[str, str],
        *,
        deliver_at: int | None = None,
        initial_subscription: str | None = None,
        transaction: TransactionCore | None = None,
    ) -> None:
        """Publishes a message as it is, but for its properties; returns when it is stored."""
        producer = await self._producer(topic, _readers(message), initial_subscription)
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def have_answer(error: Exception | None, id: MessageId | None) -> None:
            if stored.done():
                return
            if error is not None:
                stored.set_exception(error)
            else:
                stored.set_result(None)

        await producer.send_when_room(
            Outgoing(
                message.data(),
                have_answer,
                properties=properties,
                partition_key=message.partition_key() or None,
                ordering_key=message.ordering_key_bytes(),
                event_timestamp=message.event_timestamp(),
                deliver_at=deliver_at,
                null_value=message.has_null_value(),
                transaction=transaction,
            )
        )
        await stored

    async def _producer(
        self, topic: str, readers: list[str], initial_subscription: str | None
    ) -> EngineProducer:
        async with self._opening:
            producer = self._producers.get((topic, *readers))
            if producer is None:
                # What came in chunks is as large when it goes on.
                options = ProducerOptions(
                    initial_subscription_name=initial_subscription,
                    chunking_enabled=True,
                    encryption_key=readers or None,
                    crypto_key_reader=self._crypto_key_reader if readers else None,
                )
                producer = EngineProducer(self._engine, topic, options, self._schema)
                await self._engine.open(producer)
                if self._closed:
                    await producer.close()
                    raise AlreadyClosed("the consumer was closed before its letter was published")
                self._producers[(topic, *readers)] = producer
            return producer

    async def close(self) -> None:
        self._closed = True
        producers, self._producers = list(self._producers.values()), {}
        await asyncio.gather(*(producer.close() for producer in producers))


def _readers(message: Message) -> list[str]:
    """Returns the names of those that a message was encrypted for; none if it was not.

    Raises CryptoError for what is still encrypted: elsewhere nobody could decrypt it.
    """
    context = message.encryption_context()
    if context is None:
        return []
    if context.is_decryption_failed():
        raise CryptoError(f"{message.message_id()} cannot be decrypted, so it stays where it is")
    keys = context.keys()
    return list(dict.fromkeys([key.key for key in keys]))
