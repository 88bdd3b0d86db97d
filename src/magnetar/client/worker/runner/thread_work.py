"""Work on threads: `work.py` says what happens when."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Unpack

from magnetar.client.consumer.message import Message
from magnetar.client.door.arguments import SendKeywords
from magnetar.client.door.blocking import Client, Transaction
from magnetar.client.door.processing import Observed
from magnetar.client.door.threads.consumer import Consumer
from magnetar.client.door.threads.producer import Producer
from magnetar.client.engine.transaction import EngineTransaction
from magnetar.client.schema.schema import BytesSchema, Schema
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
from magnetar.errors import AlreadyClosed, Interrupted, MagnetarError

__all__ = ["ThreadOutputs", "ThreadWork", "handle_in_transaction"]


class ThreadOutputs:
    """The producers of a worker's run: made when they are first wanted, closed with it."""

    def __init__(self, client: Client, options: dict[str, Any]) -> None:
        self.client = client
        self._options = options
        self._producers: dict[ProducerKey, Producer[Any]] = {}
        self._opening = threading.Lock()

    def producer(self, topic: str, schema: Schema[Any] | None) -> Producer[Any]:
        key = key_of(topic, schema)
        with self._opening:
            producer = self._producers.get(key)
            if producer is None:
                producer = self.client.create_producer(
                    topic, schema=schema or BytesSchema(), **self._options
                )
                self._producers[key] = producer
        return producer

    def close(self) -> None:
        with self._opening:
            producers, self._producers = list(self._producers.values()), {}
        for producer in producers:
            with suppress(AlreadyClosed):
                producer.close()


class ThreadWork(BaseWork, Transaction):
    """The transaction of a transactional worker's message, for a function on a thread.

    The worker commits it, with the acknowledgement of the message, when the function returns, and
    aborts it when the function raises. Producers and consumers of the worker's client may take part
    with `transaction=work`.
    """

    def __init__(self, transaction: EngineTransaction, outputs: ThreadOutputs) -> None:
        super().__init__(outputs.client, transaction)
        self._outputs = outputs

    def send(
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
        producer = self._outputs.producer(topic, schema)
        fields: dict[str, Any] = {**options, "transaction": self}
        producer.send_async(content, _leave_it_to_the_commit, **fields)

    def _quiet(self) -> None:
        """Returns when all that was sent is with the broker; for the worker."""
        self._client._call(self._transaction.quiet())

    def _end(self, *, commit: bool) -> None:
        """Commits or aborts; for the worker."""
        end = self._transaction.commit if commit else self._transaction.abort
        self._client._call(end())

    def commit(self) -> None:
        """Raises UsageError: the worker commits when the function returns."""
        raise ends_by_itself()

    def abort(self) -> None:
        """Raises UsageError: the worker aborts when the function raises."""
        raise ends_by_itself()


def _leave_it_to_the_commit(result: object, id: object) -> None:
    """A send that fails dooms its transaction, and is raised there."""


Begin = Callable[[], ThreadWork]


def handle_in_transaction(
    call: Call,
    consumer: Consumer,
    message: Message,
    begin: Begin,
    retry_after: timedelta | None,
    gave_up: Callable[[], bool],
) -> None:
    """Handles a message, and raises what kept it from being done.

    Once `gave_up` says so the message has gone back, and nothing is committed.
    """
    with Observed(consumer._consumer, message):
        try:
            work = begin()
            try:
                call.function(*call.arguments(message, work))
                work._quiet()
                if gave_up():
                    raise Interrupted("the worker has stopped, and its message has gone back")
                consumer.acknowledge(message, transaction=work)
            except BaseException as error:
                _give_up(work, error)
                raise
        except BaseException as error:
            if not gave_up():
                _put_back(consumer, message, error, begin, retry_after)
            raise
        try:
            _commit(work)
        except BaseException as error:
            _give_up(work, error)
            raise


def _commit(work: ThreadWork) -> None:
    """Asks again while the outcome is not known, as far as there is hope."""
    transaction = work._transaction
    attempts = 0
    while True:
        try:
            work._end(commit=True)
        except MagnetarError as error:
            if not is_unknown(transaction):
                raise
            attempts += 1
            if not outcome_may_come(error, attempts):
                raise
        else:
            return


def _give_up(work: ThreadWork, error: BaseException) -> None:
    if not work._transaction.core.open:
        return
    try:
        work._end(commit=False)
    except MagnetarError as problem:
        error.add_note(f"transaction {work.id} could not be aborted: {problem}")


def _put_back(
    consumer: Consumer,
    message: Message,
    error: BaseException,
    begin: Begin,
    retry_after: timedelta | None,
) -> None:
    """A message whose function raised comes again, by the retry topic or from where it is."""
    if retry_after is not None and isinstance(error, Exception):
        try:
            _send_again(consumer, message, begin, retry_after)
        except MagnetarError as problem:
            error.add_note(f"it could not be sent to the retry topic, and was nacked: {problem}")
        else:
            return
    with suppress(AlreadyClosed):
        consumer.negative_acknowledge(message)


def _send_again(consumer: Consumer, message: Message, begin: Begin, retry_after: timedelta) -> None:
    letter = begin()
    try:
        consumer.reconsume_later(message, retry_after, transaction=letter)
        _commit(letter)
    except BaseException as error:
        _give_up(letter, error)
        raise
