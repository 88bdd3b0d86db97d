"""Acks on their way to the broker: gathered, sent in groups, and known until they are kept.

Every entry that was acked here in part or in full has an `EntryAcks`: which of its messages
are unacked. Where its ack stands:

| state     | means                                        | left when                       |
|-----------|----------------------------------------------|---------------------------------|
| pending   | something of it was not sent yet             | `flush` sends it                |
| in flight | sent with a request id that has no answer    | the answer, or the end of wait  |
| waiting   | it failed, and is to be sent again later     | its time, see `retry.py`    |
| idle      | neither; kept to know when the batch is done | its last ack, or a redelivery   |

Messages that come again while their ack is pending, in flight or waiting are duplicates and
are dropped. For everything else the broker's word counts: an entry that it delivers again
is idle no more, and starts with the `ack_set` that came with it.

With receipts, `done` is called when the broker answers; an ack without `done` that gets no
answer, since the connection broke, is pending again. Without receipts `done` is called at
once, and what was written counts as received.

An entry has one ACK on its way at a time; what is acked of it meanwhile goes with the next
one. An ack that failed for good, or that a negative ack takes back, is an ack no more: what is
acked later of the same batch does not name it. An idle record has nothing unconfirmed;
`entry_acks.py` has the table.

With retries every ACK asks for an answer, and

- a retry and newer acks of the same batch are one thing. Likewise cumulative acks: there is
  one on its way, and at most one behind it, the newest;
- what fails waits for its time (`retry.py`), and `done` waits with it;
- a list that is refused, and would be for good, is sent again in halves: if one of its acks
  is to blame, it alone is given up;
- a cumulative ack takes over the waiting acks that it covers, and those who wait for them;
- what is given up is handed out by `take_given_up`;
- so that memory is bounded, `crowded` says when no more messages should be asked for, and
  `check_room` refuses acks of very many entries that were never delivered here.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.answers import LOST, AckAnswers, GivenUp
from magnetar.client.ack.deadlines import earlier
from magnetar.client.ack.entry_acks import Cumulative
from magnetar.client.ack.retry import CUMULATIVE
from magnetar.errors import ConnectError, Interrupted, Timeout
from magnetar.wire.ack_set import all_unacked

__all__ = ["AckTracker"]


@final
class AckTracker(AckAnswers):
    """The acks of one consumer. `write` is only called between `connected` and `disconnected`.

    `acknowledge` and its kin change the state and join the group that is being gathered;
    `joined` ends each call, with whoever waits. Groups end by count, by time or by `flush`.
    """

    def acknowledge_cumulative(self, cumulative: Cumulative) -> None:
        """Acks everything through a message; an earlier one than the newest adds nothing."""
        if cumulative.index >= 0:
            acks = self.find(
                cumulative.ledger_id,
                cumulative.entry_id,
                cumulative.batch_size,
                all_unacked(cumulative.batch_size),
            )
            left = cumulative.unacked(acks.key, acks.unacked())
            if self._receipts:
                acks.cover(left)
            else:
                acks.keep(left)
        newest = self._cumulative
        if newest is None:
            self._cumulative = cumulative
        elif not newest.reaches(cumulative):
            cumulative.take_over(newest)
            self._cumulative = cumulative
            self._renew()
        if self._retries is not None and self._retries.waiting:
            self._supersede(self._retries)

    def take_back(self, key: int, index: i64) -> None:
        """A negative ack: an ack of the message that is not confirmed is not meant any more."""
        acks = self._entries.get(key)
        if acks is None or not acks.take_back(acks.bit_of(index) & acks.unconfirmed()):
            return
        if acks.in_flight > 0:
            return  # it may be kept all the same, and who waits is told then
        if not acks.unconfirmed():
            if acks.pending:
                self._withdraw(acks)
            self._end_wait(acks)
        self._settle_stakes(acks, None)

    # ---- Time ----------------------------------------------------------------

    def next_ms(self) -> int | None:
        """When the group is to be sent, an ack again, or an answer has not come in time."""
        if not self._connected:
            return None
        due_ms = self._due_ms
        if self._retries is not None:
            due_ms = earlier(due_ms, self._retries.next_ms())
        for flight in self._flights.values():
            # The first is the oldest.
            return earlier(due_ms, flight.due_ms)
        return due_ms

    def tick(self, now_ms: int) -> None:
        late: list[int] = []
        for request_id, flight in self._flights.items():
            if flight.due_ms > now_ms:
                break
            late.append(request_id)
        for request_id in late:
            error = Timeout(_no_answer(self._receipt_timeout_ms))
            if self._retries is None:
                self._unanswered(self._flights.pop(request_id), error)
            else:
                self._refused(self._flights.pop(request_id), error)
        again = self._retries is not None and self._wake(self._retries.take_due(now_ms))
        if again or (self._due_ms is not None and self._due_ms <= now_ms):
            self.flush()

    def _wake(self, keys: list[int]) -> bool:
        """These waited, and are pending now. Says whether there is any."""
        for key in keys:
            if key == CUMULATIVE:
                self._cumulative_busy = False
            else:
                acks = self._entries[key]
                acks.waiting = False
                self._add(acks)
        return len(keys) > 0

    def flush_all(self) -> None:
        """Sends all that is known and not confirmed, for there is no later."""
        if self._connected and self._receipts:
            if self._retries is not None:
                self._wake(self._retries.end_waits())
                self._retries.clear()
                self._cumulative_busy = False
            for acks in self._entries.values():
                if acks.more and not acks.pending:
                    self._add(acks)
        self.flush()

    # ---- The connection ------------------------------------------------------

    def connected(self) -> None:
        """Sends what was acked meanwhile. What is not acked comes again by itself."""
        self._connected = True
        self._held_back = []
        if self._retries is not None:
            self._wake(self._retries.take_due(self._now_ms()))
            for key in self._retries.waiting_keys():
                if key != CUMULATIVE:
                    self._entries[key].held_back = False
        for acks in self._pending:
            acks.held_back = False
        if self._cumulative is not None:
            self._cumulative.held_back = False
        self.flush()

    def disconnected(self) -> None:
        """What was not answered is not answered any more."""
        self._connected = False
        self._due_ms = None
        flights = list(self._flights.values())
        self._flights.clear()
        if self._retries is not None:
            self._wake(self._retries.lose_all())
        for flight in flights:
            if self._retries is None:
                self._unanswered(flight, ConnectError(LOST))
            else:
                self._lost(flight, self._retries)

    # ---- The end -------------------------------------------------------------

    def give_up_all(self, error: Exception) -> None:
        """What is not confirmed is given up, and everything is forgotten."""
        if self._retries is not None:
            given_up = GivenUp(error)
            for acks in self._entries.values():
                unconfirmed = acks.unconfirmed()
                if not acks.idle and unconfirmed:
                    given_up.entries.append((acks.key, acks.batch_size, unconfirmed))
            for flight in self._flights.values():
                if flight.cumulative is not None:
                    self._merge(flight.cumulative)
            given_up.cumulative = self._cumulative
            count = len(given_up.entries) + (given_up.cumulative is not None)
            self.counts.exhausted += count
            if count:
                self._given_up.append(given_up)
        self.clear(error)

    def clear(self, error: Exception | None = None) -> None:
        """Forgets everything, as a seek does; who waits is told."""
        if error is None:
            error = Interrupted(_SOUGHT)
        for acks in self._entries.values():
            acks.live = False
        self._entries.clear()
        self.chunks.clear()
        self._acked_chunks.clear()
        self._pending = []
        self._cumulative = None
        self._cumulative_busy = False
        self._due_ms = None
        self._flights.clear()
        self._ids_in_flight = 0
        self._cumulatives_in_flight = 0
        self._held_back = []
        if self._retries is not None:
            self._retries.clear()
        waiters = list(self._waiters)
        self._waiters.clear()
        for waiter in waiters:
            waiter.fail(error)


_SOUGHT: Final = "a seek came before the broker confirmed the ack, and decides what is acked"


def _no_answer(timeout_ms: int) -> str:
    return (
        f"the broker did not confirm the ack within {timeout_ms} ms: the message may be "
        "delivered again, and can be acknowledged again"
    )
