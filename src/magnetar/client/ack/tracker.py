"""Acks on their way to the broker: gathered, sent in groups, and known until they are kept.

One tracker owns its parts, and each part one thing:

| part          | owns                                                                        |
|---------------|-----------------------------------------------------------------------------|
| `records`     | an `EntryAcks` for every entry that was acked here in part or in full:      |
|               | which of its messages are unacked, and where its ack is (`entry_state.py`)  |
| `outbox`      | the group that is being gathered; ACKs in flight; the cumulative acks       |
| `answers`     | what becomes of ACKs; what was held back, and what was given up             |
| `callers`     | who waits for the broker's word                                             |
| `retries`     | when an ack that failed is sent again (`retry.py`); None if it is not       |
| `transactions`| what was acked in transactions, which is sent by itself                     |

The tracker itself takes acks, negative acks, time and connections, and tells its parts. The outbox
knows the records, the answers know all others, and no part knows the tracker.

Messages that come again while their ack is pending, in flight or waiting are duplicates and
are dropped. For everything else the broker's word counts: an idle record of an entry that it
delivers again is forgotten, and the next one starts with the `ack_set` that came with it.

With receipts, `done` is called when the broker answers; an ack without `done` that gets no
answer, since the connection broke, is pending again. Without receipts `done` is called at
once, and what was written counts as received.

An entry has one ACK on its way at a time; what is acked of it meanwhile goes with the next
one. An ack that failed for good, or that a negative ack takes back, is an ack no more: what is
acked later of the same batch does not name it. An idle record has nothing unconfirmed.

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

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.answers import AckAnswers, GivenUp
from magnetar.client.ack.callers import Callers
from magnetar.client.ack.counts import AckCounts
from magnetar.client.ack.deadlines import earlier
from magnetar.client.ack.entry_acks import Cumulative, Done, EntryAcks
from magnetar.client.ack.entry_state import (
    DUE,
    FOLLOWED,
    HURRY,
    IDLE,
    IN_FLIGHT,
    PENDING,
    WAITING,
)
from magnetar.client.ack.outbox import AckOutbox
from magnetar.client.ack.records import AckRecords
from magnetar.client.ack.retry import CUMULATIVE, AckRetries
from magnetar.client.ack.settings import AckSettings
from magnetar.client.ack.transaction_acks import SOUGHT as SOUGHT_IN_TRANSACTION
from magnetar.client.ack.transaction_acks import TransactionAcks
from magnetar.errors import BatchIndexError, Interrupted, MemoryBufferIsFull, Timeout
from magnetar.model.position_key import wide_key
from magnetar.protocol.ack import CommandAckResponse
from magnetar.protocol.command import Command
from magnetar.wire.ack_set import all_unacked

__all__ = ["AckTracker"]

# A message of so many chunks, of three fields each, is still acked by one ACK.
COMMAND_CHUNKS_MAX: Final = 80_000
# How many times the limit may be exceeded by acks of what was not delivered here.
CROWD_FACTOR: Final = 10


@final
class AckTracker:
    """The acks of one consumer. `write` is only called between `connected` and `disconnected`.

    `acknowledge` and its kin change the state and join the group that is being gathered;
    `joined` ends each call, with whoever waits. Groups end by count, by time or by `flush`.
    """

    def __init__(
        self,
        consumer_id: i64,
        settings: AckSettings,
        *,
        now_ms: Callable[[], int],
        write: Callable[[list[Command]], None],
        retries: AckRetries | None = None,
    ) -> None:
        self._settings: Final = settings
        # Whether callers wait for answers, and whether there are any.
        self._waits: Final[bool] = settings.receipts
        self._receipts: Final[bool] = settings.receipts or retries is not None
        self._now_ms: Final = now_ms
        self.retries: Final = retries
        self.counts: Final = AckCounts()
        self.records: Final = AckRecords(settings.idle_max)
        self.transactions: Final = TransactionAcks(
            consumer_id, settings, now_ms=now_ms, write=write
        )
        self._callers: Final = Callers()
        self._outbox: Final = AckOutbox(
            consumer_id,
            settings,
            records=self.records,
            retries=retries,
            counts=self.counts,
            now_ms=now_ms,
            write=write,
        )
        self._answers: Final = AckAnswers(
            records=self.records,
            outbox=self._outbox,
            callers=self._callers,
            retries=retries,
            counts=self.counts,
            now_ms=now_ms,
        )
        self.records.on_wrong_size = self._give_up_wrong

    # ---- What is acked -------------------------------------------------------

    def acknowledge(self, acks: EntryAcks, index: i64) -> bool:
        """Acks one message, or with index -1 the entry. Says whether nothing is left of it.

        An ack that repeats another is sent once more, and answered by itself.
        """
        if index < 0 or acks.batch_size == 0:
            acks.ack_all()
        else:
            acks.clear(index)
        self._outbox.add(acks)
        if self._waits:
            self._callers.note(acks, index)
        return acks.left == 0

    def ack_chunks(self, keys: list[int], *, all_known: bool = True) -> None:
        """A message in chunks is acked, all of them; if `keys` lacks some, the broker knows."""
        chunks = [self.records.find_id(key, -1, 0) for key in keys]
        if not all_known:
            chunks[-1].first_key = keys[0]
        for acks in chunks:
            acks.chunks = chunks if len(keys) <= COMMAND_CHUNKS_MAX else None
            self.acknowledge(acks, -1)
        self.records.chunks.pop(keys[-1], None)
        if self._receipts and all_known:
            self.records.remember_acked(keys)

    def acknowledge_cumulative(self, cumulative: Cumulative) -> None:
        """Acks everything through a message; an earlier one than the newest adds nothing."""
        if cumulative.index >= 0:
            acks = self.records.find(
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
        self._outbox.cumulatives.add(cumulative)
        if self.retries is not None and self.retries.waiting:
            self._answers.take_over_waiting(self.retries)

    def joined(self, done: Done | None, *, cumulative: bool = False) -> bool:
        """Ends a call: `done` waits for what it acked, and the group may be full.

        Says whether something may fall due sooner now.
        """
        if self._waits:
            newest = self._outbox.cumulatives.newest if cumulative else None
            assert newest is not None or not cumulative
            due_ms: int | None = None
            if self.retries is None:
                due_ms = self._now_ms() + self._settings.receipt_timeout_ms
            self._callers.wait(done, newest, due_ms)
        sooner = self._outbox.end_call()
        if done is not None and not self._waits:
            done(None)
        # Who waits does so for his time, too, if there is no connection.
        return sooner or self._waits

    def take_back(self, key: int, index: i64) -> None:
        """A negative ack: an ack of the message that is not confirmed is not meant any more."""
        acks = self.records.get(key)
        if acks is not None:
            self._take_back(acks, acks.bit_of(index), None)

    def _take_back(self, acks: EntryAcks, bits: int, error: Exception | None) -> None:
        if not acks.take_back(bits & acks.unconfirmed()):
            return
        if acks.state >= IN_FLIGHT:
            return  # it may be kept all the same, and who waits is told then
        if not acks.unconfirmed():
            self._outbox.withdraw(acks)
            if self.retries is not None:
                self.retries.superseded(acks.key)
        self._callers.answer_entry(acks, error)

    # ---- What comes again ----------------------------------------------------

    def unacked_of(self, ledger_id: i64, entry_id: i64, batch_size: i64, unacked: int) -> int:
        """What an entry just delivered has that was not acked here too.

        `unacked` is what the broker says. It ends what is idle, and adds to the rest.
        """
        acks = self.records.get(wide_key(ledger_id, entry_id))
        if acks is not None:
            if acks.is_outdone_by(batch_size):
                self.records.drop_wrong(acks, batch_size)
            elif acks.state == IDLE:
                self.records.drop(acks)
            else:
                unacked = acks.came_again(unacked)
        if self._outbox.cumulatives.exist:
            unacked = self._outbox.cumulatives.hold_back(wide_key(ledger_id, entry_id), unacked)
        if self.transactions.parts:
            unacked = self.transactions.hold_back(wide_key(ledger_id, entry_id), unacked)
        return unacked

    def _give_up_wrong(self, acks: EntryAcks, batch_size: i64) -> None:
        """An id told a wrong size of its batch, and the right one is known now: what is still to
        be sent of it would be of a batch that is not there. What was sent has its answer."""
        if self.retries is not None:
            self.retries.superseded(acks.key)
        if acks.state not in (PENDING, WAITING):
            return
        reason = f"a batch of {batch_size} messages, not of {acks.batch_size}"
        error = BatchIndexError(acks.ledger_id, acks.entry_id, reason)
        if self.retries is not None:
            self._answers.give_up_entry(acks, error)
        self._outbox.withdraw(acks)
        acks.owner = None  # from here on it is nobody's, so that who waits is told
        self._callers.answer_entry(acks, error)

    def take_held_back(self) -> list[int]:
        """Entries that were dropped as duplicates of what was not acked after all."""
        return self._answers.take_held_back()

    def take_given_up(self) -> list[GivenUp]:
        """Acks that failed for good since the last call."""
        return self._answers.take_given_up()

    # ---- How much there is ---------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether callers wait for the broker's word."""
        return self._waits

    @property
    def in_flight(self) -> int:
        """How many ACKs have no answer yet."""
        return len(self._outbox.flights)

    @property
    def waiting(self) -> int:
        """How many acks wait to be sent again."""
        return 0 if self.retries is None else self.retries.waiting

    @property
    def unconfirmed(self) -> int:
        """How many acks are pending, in flight or waiting."""
        return self._outbox.unconfirmed

    def check_room(self, count: i64) -> None:
        """Raises MemoryBufferIsFull if so many more acks would be too many to remember."""
        if self.retries is None:
            return
        settings = self._settings
        most: i64 = CROWD_FACTOR * settings.pending_max + 2 * settings.idle_max
        if self.records.size + count > most:
            raise MemoryBufferIsFull(
                f"{self.unconfirmed} acks wait for the broker to confirm them: acknowledge more "
                "after that, or close the consumer"
            )

    @property
    def crowded(self) -> bool:
        """Whether so much is unconfirmed that no more messages should come."""
        return self.retries is not None and self.unconfirmed >= self._settings.pending_max

    @property
    def roomy(self) -> bool:
        """Whether, after it was crowded, messages may come again."""
        return self.unconfirmed <= self._settings.pending_max // 2

    # ---- Time ----------------------------------------------------------------

    def next_ms(self) -> int | None:
        """When the group is to be sent, an ack again, or an answer has not come in time.

        Without a connection: when a caller has waited for one for long enough.
        """
        if not self._outbox.connected:
            due_ms = self._callers.next_ms()
        else:
            due_ms = self._outbox.due_ms
            if self._receipts:
                due_ms = earlier(due_ms, self._outbox.flights.next_ms())
            if self.retries is not None:
                due_ms = earlier(due_ms, self.retries.next_ms())
        if self.transactions.parts:
            due_ms = earlier(due_ms, self.transactions.next_ms())
        return due_ms

    def tick(self, now_ms: int) -> None:
        if self.transactions.parts:
            self.transactions.tick(now_ms)
        if not self._outbox.connected:
            self._give_up_waiting(now_ms)
            return
        flights = self._outbox.flights
        for request_id in flights.late(now_ms):
            flight = flights.end(request_id)
            if flight is not None:
                error = Timeout(_no_answer(self._settings.receipt_timeout_ms))
                self._answers.unanswered(flight, error)
        again = self.retries is not None and self._wake(self.retries.take_due(now_ms))
        due_ms = self._outbox.due_ms
        if again or (due_ms is not None and due_ms <= now_ms):
            self.flush()

    def _give_up_waiting(self, now_ms: int) -> None:
        """There is no connection, and callers have waited long enough for one: what they acked
        was never sent, and is not meant any more."""
        due_ms = self._callers.next_ms()
        if due_ms is None or due_ms > now_ms:
            return
        error = Timeout(_no_connection(self._settings.receipt_timeout_ms))
        for acks in self.records.all():
            self._take_back(acks, acks.waited_for_until(now_ms), error)
        through = self._outbox.cumulatives.newest
        if through is not None and through.is_waited_for_until(now_ms):
            self._answers.give_up_through(through, error)
        self._callers.fail_late(now_ms, error)

    def _wake(self, keys: list[int]) -> bool:
        """Makes those that waited pending; returns whether there are any."""
        for key in keys:
            if key == CUMULATIVE:
                self._outbox.cumulatives.busy = False
            else:
                self._outbox.join(self._record(key), DUE)
        return len(keys) > 0

    def _record(self, key: int) -> EntryAcks:
        acks = self.records.get(key)
        assert acks is not None, "an ack that waits has no record"
        return acks

    # ---- The broker ----------------------------------------------------------

    def answered(self, response: CommandAckResponse) -> None:
        """The broker's word on one ACK; of one that nobody waits for any more, nothing."""
        if not self.transactions.answered(response):
            self._answers.answered(response)

    def flush(self) -> None:
        """Sends what is pending, if there is a connection."""
        self._outbox.flush()

    def flush_all(self) -> None:
        """Sends all that is known and not confirmed, for there is no later."""
        if self._outbox.connected and self._receipts:
            if self.retries is not None:
                self._wake(self.retries.end_waits())
                self.retries.clear()
                self._outbox.cumulatives.busy = False
            for acks in self.records.all():
                if acks.state == FOLLOWED:
                    self._outbox.join(acks, HURRY)
        self.flush()

    def connected(self) -> None:
        """Sends what was acked meanwhile. What is not acked comes again by itself."""
        self._answers.forget_held_back()
        if self.retries is not None:
            self._wake(self.retries.take_due(self._now_ms()))
            for key in self.retries.waiting_keys():
                if key != CUMULATIVE:
                    self._record(key).held_back = False
        self._outbox.connect()
        self.transactions.connected()

    def disconnected(self) -> None:
        """What was not answered is not answered any more."""
        self.transactions.disconnected()
        flights = self._outbox.disconnect()
        if self.retries is not None:
            self._wake(self.retries.lose_all())
        for flight in flights:
            self._answers.lost(flight)

    # ---- The end -------------------------------------------------------------

    def give_up_all(self, error: Exception) -> None:
        """What is not confirmed is given up, and everything is forgotten."""
        if self.retries is not None:
            self._answers.give_up_all(error)
        self.clear(error)

    def clear(self, error: Exception | None = None) -> None:
        """Forgets everything, as a seek does; who waits is told."""
        self.transactions.fail_all(Interrupted(SOUGHT_IN_TRANSACTION) if error is None else error)
        self.records.clear()
        self._outbox.clear()
        self._answers.forget_held_back()
        if self.retries is not None:
            self.retries.clear()
        self._callers.fail_all(Interrupted(_SOUGHT) if error is None else error)


_SOUGHT: Final = "a seek came before the broker confirmed the ack, and decides what is acked"


def _no_connection(timeout_ms: int) -> str:
    return (
        f"there was no connection for {timeout_ms} ms, and the ack was not sent: the message will "
        "be delivered again, and can be acknowledged again"
    )


def _no_answer(timeout_ms: int) -> str:
    return (
        f"the broker did not confirm the ack within {timeout_ms} ms: the message may be "
        "delivered again, and can be acknowledged again"
    )
