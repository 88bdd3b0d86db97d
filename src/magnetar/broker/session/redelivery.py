"""REDELIVER_UNACKNOWLEDGED: what a consumer wants again, by name or all of it.

A list of very many ids is looked through in steps of the session's turns (I10). The session
handles nothing else meanwhile, so a redelivery stays behind the acks before it and before
the acks behind it.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.turn.long_answer import LongAnswer
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol import signed

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["Redelivery"]

# About so many ids are looked at in the time of one unit of a turn.
UNIT_IDS: Final = 3


@final
class Redelivery(LongAnswer):
    """See the module. Nobody is answered; the consumer gets its messages."""

    def __init__(
        self,
        subscription: "Subscription",
        consumer: Consumer,
        command: pb.CommandRedeliverUnacknowledgedMessages,
    ) -> None:
        super().__init__()
        self._subscription: Final = subscription
        self._consumer: Final = consumer
        self._command: Final = command
        self._count: Final = len(command.message_ids)
        self._next: int = 0
        # What is named and there. None, if all is meant.
        self._keys: Final[list[int] | None] = [] if self._count else None

    def step(self) -> i64:
        if self._consumer.closed:
            self.done = True
            return 1
        size = self._subscription.topic.broker.pieces.entries
        end = min(self._next + size, self._count)
        if self._keys is not None:
            self._take(self._keys, end)
        cost = (end - self._next) // UNIT_IDS + 1
        self._next = end
        if end == self._count:
            self.done = True
            self._begin()
        return cost

    def _take(self, keys: list[int], end: int) -> None:
        ledgers = self._subscription.topic.ledgers
        for id in self._command.message_ids[self._next : end]:
            key = ledgers.key(signed(id.ledgerId), signed(id.entryId))
            if key >= 0:
                keys.append(key)

    def _begin(self) -> None:
        command = self._command
        epoch = signed(command.consumer_epoch) if command.HasField("consumer_epoch") else None
        self._subscription.redeliver(self._consumer, self._keys, epoch)
