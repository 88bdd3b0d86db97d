"""What waits for the journal: each record's ticket, and what to do when it is settled.

The store settles tickets in order, group by group, so one queue serves all topics. What
was queued with a ticket runs when that ticket is durable or failed, in the order in which
it was queued; that is what makes receipts leave in order. Acks of a group are all applied
before any of it runs: nothing is shown to a consumer that is acked on the disk.

What one of them raises is a bug of its own: the others go on, and `take` says whose it is.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import mypyc_attr

from magnetar.storage.log.journal import Outcome

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic

__all__ = ["Commits", "Waiting"]


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiting:
    """Something that goes on when its ticket is settled."""

    def __init__(self, ticket: int) -> None:
        self.ticket: Final = ticket

    def apply(self, error: Exception | None) -> None:
        """Its group is settled; others of the group go on after this."""

    def settle(self, error: Exception | None) -> None:
        raise NotImplementedError

    def topic(self) -> "Topic | None":
        """The topic that it is about, if it is about one."""
        return None


@final
class _Callback(Waiting):
    def __init__(
        self, ticket: int, callback: Callable[[Exception | None], None], topic: "Topic | None"
    ) -> None:
        super().__init__(ticket)
        self._callback: Final = callback
        self._topic: Final = topic

    def settle(self, error: Exception | None) -> None:
        self._callback(error)

    def topic(self) -> "Topic | None":
        return self._topic


@final
class Commits:
    """The queue of those that wait."""

    def __init__(self, settled: int = 0) -> None:
        self._waiting: Final[deque[Waiting]] = deque()
        # Tickets below this are settled.
        self.settled: int = settled

    def add(self, waiting: Waiting) -> None:
        """Tickets must not descend."""
        assert not self._waiting or self._waiting[-1].ticket <= waiting.ticket
        self._waiting.append(waiting)

    def when(
        self,
        ticket: int,
        callback: Callable[[Exception | None], None],
        topic: "Topic | None" = None,
    ) -> None:
        """Calls back when the ticket is settled; at once if it is, and nobody waits for it."""
        if ticket < self.settled and (not self._waiting or self._waiting[0].ticket > ticket):
            callback(None)
            return
        last = self._waiting[-1].ticket if self._waiting else ticket
        self._waiting.append(_Callback(max(ticket, last), callback, topic))

    def take(self, outcome: Outcome) -> "list[tuple[Topic | None, Exception]]":
        """Settles what the outcome covers; what was raised meanwhile, and about which topics.

        Whatever one of them raises, the others are settled too: who was left would be told
        of the next outcome as if it were its own.
        """
        self.settled = max(self.settled, outcome.end)
        faults: list[tuple[Topic | None, Exception]] = []
        waiting = self._waiting
        for one in waiting:
            if one.ticket >= outcome.end:
                break
            try:
                one.apply(outcome.error)
            except Exception as error:
                faults.append((one.topic(), error))
        while waiting and waiting[0].ticket < outcome.end:
            one = waiting.popleft()
            try:
                one.settle(outcome.error)
            except Exception as error:
                faults.append((one.topic(), error))
        return faults

    def __len__(self) -> int:
        return len(self._waiting)
