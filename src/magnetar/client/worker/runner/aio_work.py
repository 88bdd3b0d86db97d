"""Work on an event loop: `work.py` says what happens when."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Unpack

from magnetar.client.consumer.message import Message
from magnetar.client.door import aio
from magnetar.client.door.arguments import SendKeywords
from magnetar.client.door.processing import Observed
from magnetar.client.engine.transaction import EngineTransaction
from magnetar.client.schema.schema import Schema
from magnetar.client.worker.runner.call import Call
from magnetar.client.worker.runner.work import (
    BaseWork,
    ProducerKey,
    ends_by_itself,
    is_unknown,
    key_of,
    outcome_may_come,
    refuse_transaction,
)
from magnetar.errors import AlreadyClosed, MagnetarError

__all__ = ["AsyncOutputs", "AsyncWork", "handle_in_transaction"]


class AsyncOutputs:
    """The producers of a worker's run: made when they are first wanted, closed with it."""

    def __init__(self, client: aio.Client, options: dict[str, Any]) -> None:
        self._client = client
        self._options = options
        self._producers: dict[ProducerKey, aio.Producer[Any]] = {}
        self._opening = asyncio.Lock()

    async def producer(self, topic: str, schema: Schema[Any] | None) -> aio.Producer[Any]:
        key = key_of(topic, schema)
        async with self._opening:
            producer = self._producers.get(key)
            if producer is None:
                producer = await self._client.create_producer(topic, schema=schema, **self._options)
                self._producers[key] = producer
        return producer

    async def close(self) -> None:
        producers, self._producers = list(self._producers.values()), {}
        await asyncio.gather(*(producer.close() for producer in producers))


class AsyncWork(BaseWork, aio.Transaction):
    """The transaction of a transactional worker's message, for a coroutine function.

    The worker commits it, with the acknowledgement of the message, when the function returns, and
    aborts it when the function raises. Producers and consumers of the worker's client may take part
    with `transaction=work`.
    """

    def __init__(self, transaction: EngineTransaction, outputs: AsyncOutputs) -> None:
        super().__init__(transaction)
        self._outputs = outputs

    async def send(
        self,
        topic: str,
        content: Any,
        *,
        schema: Schema[Any] | None = None,
        **options: Unpack[SendKeywords],
    ) -> None:
        """Publishes a message to a topic, to be seen when the transaction is committed.

        It returns when there is room for the message; the worker waits until it is stored. What
        can be said of a message besides is as with `Producer.send`. Raises what that and
        `create_producer` raise.
        """
        refuse_transaction(options)
        producer = await self._outputs.producer(topic, schema)
        options["transaction"] = self
        await producer.send_when_room(content, **options)

    async def commit(self) -> None:
        """Raises UsageError: the worker commits when the function returns."""
        raise ends_by_itself()

    async def abort(self) -> None:
        """Raises UsageError: the worker aborts when the function raises."""
        raise ends_by_itself()


Begin = Callable[[], Awaitable[AsyncWork]]


async def handle_in_transaction(
    call: Call,
    consumer: aio.Consumer,
    message: Message,
    begin: Begin,
    retry_after: timedelta | None,
) -> None:
    """Handles a message, and raises what kept it from being done."""
    with Observed(consumer._consumer, message):
        try:
            work = await begin()
            try:
                await call.function(*call.arguments(message, work))
                await work._transaction.quiet()
                await consumer.acknowledge(message, transaction=work)
            except BaseException as error:
                await _give_up(work, error)
                raise
        except BaseException as error:
            await _put_back(consumer, message, error, begin, retry_after)
            raise
        try:
            await _commit(work)
        except BaseException as error:
            await _give_up(work, error)
            if isinstance(error, asyncio.CancelledError):
                consumer.negative_acknowledge(message)
            raise


async def _commit(work: AsyncWork) -> None:
    """Asks again while the outcome is not known, as far as there is hope."""
    transaction = work._transaction
    attempts = 0
    while True:
        try:
            await transaction.commit()
        except MagnetarError as error:
            if not is_unknown(transaction):
                raise
            attempts += 1
            if not outcome_may_come(error, attempts):
                raise
        else:
            return


async def _give_up(work: AsyncWork, error: BaseException) -> None:
    if not work._transaction.core.open:
        return
    try:
        await work._transaction.abort()
    except MagnetarError as problem:
        error.add_note(f"transaction {work.id} could not be aborted: {problem}")


async def _put_back(
    consumer: aio.Consumer,
    message: Message,
    error: BaseException,
    begin: Begin,
    retry_after: timedelta | None,
) -> None:
    """A message whose function raised comes again, by the retry topic or from where it is."""
    if retry_after is not None and isinstance(error, Exception):
        try:
            await _send_again(consumer, message, begin, retry_after)
        except MagnetarError as problem:
            error.add_note(f"it could not be sent to the retry topic, and was nacked: {problem}")
        else:
            return
    with suppress(AlreadyClosed):
        consumer.negative_acknowledge(message)


async def _send_again(
    consumer: aio.Consumer, message: Message, begin: Begin, retry_after: timedelta
) -> None:
    letter = await begin()
    try:
        await consumer.reconsume_later(message, retry_after, transaction=letter)
        await _commit(letter)
    except BaseException as error:
        await _give_up(letter, error)
        raise
