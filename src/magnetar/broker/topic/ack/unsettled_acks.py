"""Acks of one subscription that are on their way, and what waits until they are settled.

An ack is on its way while it is looked for what it names, or written in pieces (a *search*),
and then until its ticket is settled. What depends on acks (redelivery, a consumer that comes
or goes, a reset) waits for all of them, so that nothing comes back that was acked before.
"""

from typing import TYPE_CHECKING, Final, final

from magnetar.broker.promise import Promise

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic

__all__ = ["UnsettledAcks"]


@final
class UnsettledAcks:
    """See the module."""

    def __init__(self, topic: "Topic") -> None:
        self._topic: Final = topic
        # The last ticket of an ack, and of one in a transaction.
        self._ticket: int = -1
        self._transactional_ticket: int = -1
        # Where the last of those stands that wait.
        self._waiting_ticket: int = -1
        self._searches: int = 0
        self._after_searches: Final[list[Promise[None]]] = []

    def have_queued(self, ticket: int) -> None:
        """An ack, or what else changes the cursor, is on its way to the disk."""
        self._ticket = ticket

    def have_queued_in_transaction(self, ticket: int) -> None:
        """An ack that waits for the end of its transaction is on its way to the disk."""
        self._transactional_ticket = ticket

    def begin_search(self) -> None:
        """An ACK came that takes more than a moment until it is written."""
        self._searches += 1

    def end_search(self) -> None:
        """Such an ACK is written, or refused."""
        self._searches -= 1
        if self._searches == 0:
            waiting = self._after_searches.copy()
            self._after_searches.clear()
            for promise in waiting:
                self._keep_when_settled(promise)

    def _keep_when_settled(self, promise: Promise[None]) -> None:
        self.settled().when_done(lambda error: promise.keep(None))

    def settled(self) -> Promise[None]:
        """Done when all acks that came so far are settled, well or not, in the order of calls."""
        if self._searches > 0:
            promise: Promise[None] = Promise()
            self._after_searches.append(promise)
            return promise
        last = max(self._ticket, self._transactional_ticket, self._waiting_ticket)
        settled = self._topic.wait_for(last)
        if not settled.done:
            # It stands behind all that waits now, and who comes later must not overtake it.
            self._waiting_ticket = self._topic.commits.last_ticket
        return settled

    def plain_settled(self) -> Promise[None]:
        """Done when acks in no transaction, as many as came so far, are settled, well or not."""
        return self._topic.wait_for(self._ticket)
