"""Commits: records on their way to the journal, and what each does when its ticket is settled.

A ticket is the place of a record in the journal. It is *settled* when its group is durable or
has failed; that is the only meaning of the word in the broker. The store settles tickets in order,
group by group, so one queue serves all topics. A commit is settled with its ticket, in the order
in which it was queued; that is what makes receipts leave in order. All commits of a group are
applied before any of it is settled: nothing is shown to a consumer that is acked on the disk.

Entries and acks are commits of their own kind. Everybody else asks for a promise (`wait_for`).

What one of them raises is a bug of its own: the others go on, and `take` says whose it is.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import mypyc_attr

from magnetar.broker.promise import Promise, kept
from magnetar.storage.log.journal import Outcome

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic

__all__ = ["Commit", "Commits"]


@mypyc_attr(allow_interpreted_subclasses=True)
class Commit:
    """A record on its way to the journal."""

    def __init__(self, ticket: int) -> None:
        self.ticket: Final = ticket

    def apply(self, error: Exception | None) -> None:
        """Takes over what is durable now; all of the group are settled after this."""

    def settle(self, error: Exception | None) -> None:
        """Answers whoever waits for the record, which is durable if there is no error."""
        raise NotImplementedError

    def topic(self) -> "Topic | None":
        """Returns the topic that it is about, if it is about one."""
        return None


@final
class _Promised(Commit):
    """Keeps or breaks a promise when its ticket is settled."""

    def __init__(self, ticket: int, topic: "Topic | None") -> None:
        super().__init__(ticket)
        self.promise: Final[Promise[None]] = Promise()
        self._topic: Final = topic

    def settle(self, error: Exception | None) -> None:
        self.promise.end(error)

    def topic(self) -> "Topic | None":
        return self._topic


@final
class Commits:
    """The queue of those that wait."""

    def __init__(self, settled: int = 0) -> None:
        self._waiting: Final[deque[Commit]] = deque()
        # Tickets below this are settled.
        self.settled: int = settled

    def add(self, commit: Commit) -> None:
        """Queues a commit. Tickets must not descend."""
        assert not self._waiting or self._waiting[-1].ticket <= commit.ticket
        self._waiting.append(commit)

    def wait_for(self, ticket: int, topic: "Topic | None" = None) -> Promise[None]:
        """Returns a promise that is kept when the ticket is durable, and broken if it failed.

        It is done already if the ticket is settled, and nobody waits for it. `topic` is the one
        that is given up if a listener raises.
        """
        if ticket < self.settled and (not self._waiting or self._waiting[0].ticket > ticket):
            return kept(None)
        last = self._waiting[-1].ticket if self._waiting else ticket
        promised = _Promised(max(ticket, last), topic)
        self._waiting.append(promised)
        return promised.promise

    def take(self, outcome: Outcome) -> "list[tuple[Topic | None, Exception]]":
        """Settles what the outcome covers; returns what was raised, and about which topics.

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

    @property
    def last_ticket(self) -> int:
        """The ticket of the last that waits, -1 if nobody does."""
        return self._waiting[-1].ticket if self._waiting else -1

    def __len__(self) -> int:
        return len(self._waiting)
