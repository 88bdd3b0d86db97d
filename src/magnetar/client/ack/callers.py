"""Callers that wait for the broker's word: each is told of his own acks, once.

What a call acks is noted until the call ends; then whoever made it has a stake in each of those
entries, or waits for the cumulative ack.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.entry_acks import Cumulative, Done, EntryAcks, Stake, Waiter
from magnetar.errors import Interrupted

__all__ = ["Callers"]

REFUSED: Final = "a negative ack of the message came before the broker confirmed the ack"


@final
class Callers:
    """Those of one consumer."""

    def __init__(self) -> None:
        # What the current call acked: entries, and indexes in them.
        self._called: list[EntryAcks] = []
        self._called_indexes: list[int] = []
        self._waiters: dict[Waiter, None] = {}

    def note(self, acks: EntryAcks, index: i64) -> None:
        """Notes that the current call acks this."""
        self._called.append(acks)
        self._called_indexes.append(index)

    def wait(self, done: Done | None, cumulative: Cumulative | None, due_ms: int | None) -> None:
        """Ends the call: `done` waits for what it acked, or for the cumulative ack."""
        called = self._called
        indexes = self._called_indexes
        self._called = []
        self._called_indexes = []
        if done is None:
            return
        waiter = Waiter(done, len(called) if cumulative is None else 1)
        waiter.due_ms = due_ms
        if cumulative is not None:
            cumulative.waiters.append(waiter)
        elif not called:
            done(None)
            return
        for acks, index in zip(called, indexes, strict=True):
            if acks.stakes is None:
                acks.stakes = []
            acks.stakes.append(Stake(waiter, index))
        self._waiters[waiter] = None

    @property
    def waiting(self) -> bool:
        """Whether there is any."""
        return len(self._waiters) > 0

    def next_ms(self) -> int | None:
        """Returns when the first of them has waited long enough; they are in order."""
        for waiter in self._waiters:
            return waiter.due_ms
        return None

    def answer_entry(self, acks: EntryAcks, error: Exception | None) -> None:
        """Tells those who wait for what is confirmed, and for what is unacked again: because of
        the error or, if there is none, of a negative ack."""
        stakes = acks.stakes
        if stakes is None:
            return
        acks.stakes = None
        unacked = acks.unacked()
        for stake in stakes:
            bits = acks.bit_of(stake.index) & acks.known
            if bits == 0:
                self.tell(stake.waiter, None)
            elif bits & unacked or not acks.live:
                self.tell(stake.waiter, Interrupted(REFUSED) if error is None else error)
            elif acks.stakes is None:
                acks.stakes = [stake]
            else:
                acks.stakes.append(stake)

    def answer_cumulative(self, cumulative: Cumulative, error: Exception | None) -> None:
        """Tells those who wait for a cumulative ack that it has ended."""
        waiters = cumulative.waiters
        cumulative.waiters = []
        for waiter in waiters:
            self.tell(waiter, error)

    def tell(self, waiter: Waiter, error: Exception | None) -> None:
        """Tells a caller that one of the acks that he waits for has ended."""
        if waiter.count_down(error):
            self._waiters.pop(waiter, None)

    def fail_late(self, now_ms: int, error: Exception) -> None:
        """Fails those who have waited long enough, whatever for."""
        for waiter in [waiter for waiter in self._waiters if waiter.is_late(now_ms)]:
            del self._waiters[waiter]
            waiter.fail(error)

    def fail_all(self, error: Exception) -> None:
        waiters = list(self._waiters)
        self._waiters.clear()
        for waiter in waiters:
            waiter.fail(error)
