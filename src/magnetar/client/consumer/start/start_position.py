"""Where a consumer begins, and where it begins again.

| subscription | SUBSCRIBE names              | after a reconnect                                 |
|--------------|------------------------------|---------------------------------------------------|
| durable      | where a new one is to begin  | the broker knows                                  |
| not durable  | the same                     | behind the last message that was taken            |

A seek moves it: it begins there from now on. At another cluster it begins as it was told to at
first, for no position means anything there. Brokers begin with the entry that is named, so
what is before the message within it, or the message itself, is dropped as it comes (`Start`).
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.client.consumer.arrival.incoming import Incoming, Start
from magnetar.client.consumer.chunk.spans import ChunkSpans
from magnetar.client.consumer.message import Message
from magnetar.client.consumer.receive_queue import ReceiveQueue
from magnetar.client.option.options import ConsumerOptions
from magnetar.model.message_id import MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position_key import wide_key_entry, wide_key_ledger
from magnetar.model.subscription_type import type_of
from magnetar.wire.integer import INT64_MAX

__all__ = ["StartPosition"]


@final
class StartPosition:
    """See the module. What it decides about single messages it tells `incoming`."""

    def __init__(
        self,
        options: ConsumerOptions,
        partition: i64,
        incoming: Incoming,
        spans: ChunkSpans,
        queue: ReceiveQueue,
    ) -> None:
        self._partition: Final[i64] = partition
        self._incoming: Final = incoming
        self._spans: Final = spans
        self._queue: Final = queue
        self._durable: Final[bool] = options.durable
        self._ordered: Final[bool] = type_of(options.consumer_type).has_active
        self._inclusive: Final[bool] = options.start_message_id_inclusive
        self._id_of_options: Final = options.start_message_id
        # Where a subscription begins that does not exist yet.
        self._first_id: MessageId | None = options.start_message_id
        # Not of a durable subscription.
        self.last_taken: Message | None = None
        # Where it began again, if that was before what was taken, which ends there.
        self._resume_key: int = -1
        self._resume_through: int = -1
        if not options.durable:
            self._begin_at(options.start_message_id, options.start_message_id_inclusive)

    def start_message_id(self) -> MessageIdData | None:
        """Returns where SUBSCRIBE is to begin: behind what was taken, if no subscription knows
        it."""
        if self.last_taken is not None:
            return _id_data(self.last_taken.message_id())
        return None if self._first_id is None else _id_data(self._first_id)

    def subscribe_from(self) -> MessageIdData | None:
        """Returns where SUBSCRIBE is to begin, which names the entry that comes first.

        Messages that nobody took may have chunks in front of the last that was taken: then it
        begins with the first of those, and what was taken is dropped when it comes again.
        """
        start = self._incoming.start
        if self.last_taken is None:
            self._resume_key = -1
            self._resume_through = -1
            return self.start_message_id() if start is None else _id_data(start.id)
        key = self.last_taken._delivery.key
        first = self._spans.first_pending(key, self._queue.chunks())
        if self._resume_key >= 0 and self._incoming.last_key() <= self._resume_through:
            # It was interrupted before all of that had come.
            first = self._resume_key if first < 0 else min(first, self._resume_key)
        self._resume_key = first
        self._resume_through = key
        if first < 0:
            return self.start_message_id()
        return MessageIdData(wide_key_ledger(first), wide_key_entry(first), self._partition)

    def connected(self) -> None:
        """SUBSCRIBE succeeded on a new connection: everything comes from where it began."""
        self._incoming.only_from_start = False
        if self.last_taken is not None:
            self._begin_at(self.last_taken.message_id(), False)
            # What was taken since SUBSCRIBE was sent comes again, and what is before it.
            late = self._ordered and self.last_taken._delivery.key > self._resume_through
            self._incoming.only_from_start = self._resume_key >= 0 or late
        self._incoming.reconnected()

    def sought(
        self, id: MessageId | None, inclusive: bool, ready: bool, *, exact: bool = False
    ) -> None:
        """The broker moved the subscription, to an id or to a time.

        If it did so exactly nothing is to be dropped: what comes from before that was brought
        back by somebody else, later. A subscription that is gone with its consumer begins anew
        by SUBSCRIBE, which is less exact.
        """
        self.last_taken = None
        # A subscription that is gone with its consumer forgets a time; everything is enough.
        self._first_id = MessageId.earliest if id is None else id
        if self._durable:
            self._first_id = None
        self._begin_at(None if exact and self._durable else id, inclusive)
        self._incoming.only_from_start = ready
        self._incoming.reconnected()

    def reset(self) -> None:
        """Others moved the subscription: what a seek of ours left out may come."""
        if self._durable:
            self._incoming.start = None

    def moved(self) -> None:
        """Forgets what was taken: at another cluster that says nothing of where to begin."""
        self.last_taken = None
        self._first_id = self._id_of_options
        self._incoming.start = None
        self._incoming.only_from_start = False
        self._resume_key = -1
        self._resume_through = -1
        if not self._durable:
            self._begin_at(self._id_of_options, self._inclusive)

    def _begin_at(self, id: MessageId | None, inclusive: bool) -> None:
        if id is None or id.ledger_id() < 0 or id.ledger_id() == INT64_MAX:
            self._incoming.start = None
        else:
            self._incoming.start = Start(id, inclusive)


def _id_data(id: MessageId) -> MessageIdData:
    return MessageIdData(
        id.ledger_id(),
        id.entry_id(),
        id.partition(),
        id.batch_index(),
        batch_size=id.batch_size(),
    )
