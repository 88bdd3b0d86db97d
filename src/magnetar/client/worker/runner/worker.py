"""What both kinds of workers are: a function, where its messages come from, and its record."""

import logging
import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from magnetar.client.consumer.message import Message
from magnetar.client.door.transaction import timeout_ms_of
from magnetar.client.option.check import flag
from magnetar.client.option.keywords import ProducerKeywords
from magnetar.client.option.options import ConsumerOptions, ProducerOptions
from magnetar.client.schema.schema import Schema
from magnetar.client.worker.health import WorkerHealth, WorkerRecord
from magnetar.client.worker.runner.call import Call, name_of
from magnetar.client.worker.runner.work import BaseWork
from magnetar.client.worker.settings import WorkerSettings, consumer_defaults, output_defaults
from magnetar.client.worker.state import ENDED, WorkerEvent
from magnetar.errors import SettingsError, UsageError
from magnetar.model.subscription_type import SubscriptionType, type_of

__all__ = ["LOG", "Topic", "Worker"]

LOG = logging.getLogger("magnetar.worker")

Topic = str | list[str] | re.Pattern[str]


class Worker:
    """The base of AsyncWorker and ThreadWorker.

    Called, it calls its function as it is: a test of the function needs no broker.
    """

    # What a function on this kind of worker publishes with.
    WORK: type[BaseWork]

    def __init__(
        self,
        function: Callable[..., Any],
        topic: Topic,
        subscription: str,
        *,
        concurrency: int,
        grace_s: float,
        schema: Schema | None,
        retry_after: timedelta | None,
        transactional: bool,
        transaction_timeout: float | timedelta | None,
        output_options: ProducerKeywords | None,
        options: dict[str, Any],
    ) -> None:
        self.name: str = name_of(function)
        self.topic: Topic = topic
        self.subscription: str = subscription
        self.settings: WorkerSettings = WorkerSettings(concurrency, grace_s)
        self.transactional: bool = flag("transactional", transactional)
        self.transaction_timeout_ms: int = timeout_ms_of(transaction_timeout)
        given = dict(output_options or {})
        self.output_options: dict[str, Any] = {
            **output_defaults(chunking=given.get("chunking_enabled") is True),
            **given,
        }
        self._check_outputs(transaction_timeout, given)
        self.call: Call = Call(function, schema, self.WORK if transactional else None)
        self.retry_after: timedelta | None = retry_after
        self.options: dict[str, Any] = consumer_defaults(self.settings.concurrency) | options
        if retry_after is not None:
            self.options.setdefault("retry_enabled", True)
        # Checked now, where the mistake is, and not when it runs.
        checked = ConsumerOptions(subscription, **self.options)
        self._type: SubscriptionType = type_of(checked.consumer_type)
        self.record: WorkerRecord = WorkerRecord()
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def _check_outputs(self, timeout: object, given: dict[str, object]) -> None:
        """Checked now, where the mistake is. Raises SettingsError."""
        for name, value in (("transaction_timeout", timeout), ("output_options", given or None)):
            if value is not None and not self.transactional:
                raise SettingsError(name, "is for a worker with transactional=True")
        ProducerOptions(**self.output_options)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.call.function(*arguments, **named)

    def __repr__(self) -> str:
        state = self.record.state.name.lower()
        return f"<{type(self).__name__} {self.name} of {self.topic!r}: {state}>"

    def health(self) -> WorkerHealth:
        """Returns where the worker is and what it did so far. Any thread may ask."""
        return self.record.health(connected=self._connected())

    def _connected(self) -> bool:
        raise NotImplementedError

    def stop(self, grace_s: float | None = None) -> None:
        """Tells the worker to receive no more and to end; `run` returns when it has.

        What is in hand has `grace_s` seconds to be finished, by default as long as the worker
        was made with; what is left then goes back to the broker and comes again. A second
        call sets the time anew: `stop(0)` gives up at once.
        """
        raise NotImplementedError

    def start(self) -> None:
        """Notes that it is run. Raises UsageError if it runs already."""
        if self.record.state not in ENDED:
            raise UsageError(f"{self.name} runs already: make a second worker for a second run")
        self.record.move(WorkerEvent.START)

    def lane_of(self, message: Message) -> str | None:
        """Returns what a message has to wait for: its key, its topic, or nothing.

        A Key_Shared subscription keeps the order of keys, and one with a single consumer that
        of topics; where consumers share there is no order to keep.
        """
        if self._type.goes_by_key:
            return message.ordering_key() or message.partition_key() or None
        return message.topic_name() if self._type.has_active else None

    def log_failure(self, message: Message, error: BaseException) -> None:
        """Says that the function raised; `record` is for who has the right to change it."""
        LOG.error("%s failed on %s", self.name, message.message_id(), exc_info=error)

    def log_lost(self, error: Exception, wait_ms: int) -> None:
        """Logs that there is no broker, why, and when the worker tries again."""
        LOG.warning("%s has no broker, and tries again in %d ms: %s", self.name, wait_ms, error)

    def log_left(self, count: int) -> None:
        """Logs how many messages were in hand when time was up; says nothing of none."""
        if count:
            LOG.warning("%s stops with %d messages in hand, which come again", self.name, count)


def now() -> float:
    return time.time()
