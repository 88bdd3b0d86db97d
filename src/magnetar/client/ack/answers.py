"""What becomes of ACKs: the broker keeps them, refuses them, or does not answer.

| an ACK is  | without retries                          | with retries                           |
|------------|------------------------------------------|----------------------------------------|
| kept       | who waits is told                        | likewise; what was acked of its        |
|            |                                          | entries meanwhile follows              |
| refused    | who waits is told why                    | each ack waits for its time, or goes   |
|            |                                          | again in halves, or is given up        |
| unanswered | who waits is told; what nobody waits for | as if it was refused                   |
|            | goes again, `BREAKS_FREE` times in a row |                                        |
| lost       | the same                                 | goes again on the next connection, for |
|            |                                          | nothing unless that was so too often   |

A broker may ack whole batches only (`acknowledgmentAtBatchIndexLevelEnabled` is false). Ours then
refuses acks of single messages, and whatever is in one ACK with them; Apache's says that it keeps
them, and does not. Both are the same here: they count as kept, with its last message the batch is
acked plainly, and until then all of it comes back. What was refused with them is sent again.

An ack that failed for good is none any more: its messages are unacked here too, so that they
can be refused, and what is acked of the same batch later does not ack them with it.

Messages that came again and were dropped for an ack that then failed are `held back` no more:
their entries are asked for again. What is given up is handed out by `take_given_up`.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.callers import Callers
from magnetar.client.ack.counts import AckCounts
from magnetar.client.ack.entry_acks import Cumulative, EntryAcks
from magnetar.client.ack.entry_state import DROPPED, FOLLOWED, IDLE, LANDED, PUT_OFF, TWICE
from magnetar.client.ack.flights import Flight
from magnetar.client.ack.outbox import AckOutbox
from magnetar.client.ack.records import AckRecords
from magnetar.client.ack.retry import (
    BREAKS_FREE,
    CUMULATIVE,
    AckRetries,
    is_kept_already,
    may_be_one_of_many,
    wants_whole_batches,
)
from magnetar.client.errors import error_of
from magnetar.errors import ConnectError
from magnetar.protocol.ack import CommandAckResponse

__all__ = ["LOST", "AckAnswers", "GivenUp"]

LOST: Final = (
    "the connection broke before the broker confirmed the ack: the message may be delivered "
    "again, and can be acknowledged again"
)


@final
class GivenUp:
    """Acks that failed for good, and why: entries with the indexes, or one cumulative ack."""

    def __init__(self, error: Exception) -> None:
        self.error: Final = error
        # Ledger and entry as a key, the batch size, and which indexes.
        self.entries: Final[list[tuple[int, int, int]]] = []
        self.cumulative: Cumulative | None = None


@final
class AckAnswers:
    """See the module, and `AckTracker`."""

    def __init__(
        self,
        *,
        records: AckRecords,
        outbox: AckOutbox,
        callers: Callers,
        retries: AckRetries | None,
        counts: AckCounts,
        now_ms: Callable[[], int],
    ) -> None:
        self._records: Final = records
        self._outbox: Final = outbox
        self._callers: Final = callers
        self._retries: Final = retries
        self._counts: Final = counts
        self._now_ms: Final = now_ms
        self._held_back: list[int] = []
        self._given_up: list[GivenUp] = []

    def answered(self, response: CommandAckResponse) -> None:
        """The broker's word on one ACK; of one that nobody waits for any more, nothing."""
        request_id = response.request_id
        flight = None if request_id is None else self._outbox.flights.end(request_id)
        if flight is None:
            return
        if response.error is None:
            self._kept(flight)
            return
        error = error_of(response.error, response.message or "the ack was refused")
        if flight.cumulative is not None and is_kept_already(error):
            self._kept(flight)
        elif wants_whole_batches(error) and flight.names_parts:
            self._kept_but_parts(flight)
        else:
            self._refused(flight, error)

    def unanswered(self, flight: Flight, error: Exception) -> None:
        """The answer did not come in time."""
        if self._retries is None:
            self._unknown(flight, error)
        else:
            self._refused(flight, error)

    def lost(self, flight: Flight) -> None:
        """Its connection is gone, and the answer will not come."""
        if self._retries is None:
            self._unknown(flight, ConnectError(LOST))
        else:
            self._lost(flight, self._retries)

    def _kept(self, flight: Flight) -> None:
        now_ms = self._now_ms()
        kept: i64 = len(flight.ids)
        retries = self._retries
        if retries is not None and len(retries):
            kept -= self._kept_after_retry(flight, retries, now_ms)
        if kept:
            self._counts.keep(kept, now_ms - flight.begun_ms)
        for at, acks in enumerate(flight.acks):
            self._confirm(acks, flight.left(at))
        if flight.cumulative is not None:
            self._confirm_through(flight.cumulative, flight.left(0))
            if retries is not None:
                self._outbox.cumulatives.busy = False
        self._outbox.gather()
        self._tell(flight, None)

    def _kept_but_parts(self, flight: Flight) -> None:
        """The broker acks whole batches only, and parts of some were named: see the module."""
        retries = self._retries
        again: list[EntryAcks] = []
        for at, acks in enumerate(flight.acks):
            if flight.left(at) > 0:
                acks.hidden = 0  # here parts are not acked by themselves
                if retries is not None and acks.state != TWICE and acks.live:
                    self._ended(retries, acks.key, self._now_ms())
                self._confirm(acks, flight.left(at))
                continue
            acks.move(LANDED)
            if acks.live and acks.state == IDLE and acks.unconfirmed():
                if retries is not None:
                    retries.lost(acks.key, flight.begun_ms)
                again.append(acks)
        if again:
            self._outbox.send_apart([again], flight.begun_ms)
        self._outbox.gather()
        self._tell(flight, None)

    def _confirm(self, acks: EntryAcks, left: int) -> None:
        """The broker has an ACK of an entry that left so much of it."""
        acks.unanswered = 0
        acks.confirm(left)
        followed = acks.state == FOLLOWED
        acks.move(LANDED)
        if followed:
            acks.renew()
            if acks.live and acks.unconfirmed():
                self._outbox.add(acks)
        if acks.left > 0 or acks.through:
            return
        if acks.live and acks.state == IDLE:
            self._done(acks, left)
        self._records.forget_acked(acks.key)

    def _confirm_through(self, cumulative: Cumulative, left: int) -> None:
        """The same of a cumulative ack, of the entry that it reaches into."""
        if cumulative.index < 0:
            return
        acks = self._records.get(cumulative.key)
        if acks is not None and not acks.contradicts(cumulative.batch_size):
            acks.confirm(left)
            if acks.left == 0 and acks.state == IDLE:
                self._done(acks, left)

    def _done(self, acks: EntryAcks, left: int) -> None:
        """Nothing is left of an entry. Brokers without batch index acks must be told plainly."""
        if left & ~acks.hidden == 0:
            self._records.drop(acks)
        else:
            self._outbox.add(acks)

    def _kept_after_retry(self, flight: Flight, retries: AckRetries, now_ms: int) -> i64:
        """Ends the retries of what was kept. Returns of how many."""
        count: i64 = 0
        for acks in flight.acks:
            # A record that was dropped has no retry: one of that key is another's.
            if acks.state != TWICE and acks.live:
                count += self._ended(retries, acks.key, now_ms)
        if flight.cumulative is not None:
            count += self._ended(retries, CUMULATIVE, now_ms)
        return count

    def _ended(self, retries: AckRetries, key: int, now_ms: int) -> i64:
        retry = retries.kept(key)
        if retry is None:
            return 0
        self._counts.kept_after_retry += 1
        self._counts.keep(1, now_ms - retry.since_ms)
        return 1

    def _refused(self, flight: Flight, error: Exception) -> None:
        self._land(flight)
        if self._retries is not None:
            self._retry(flight, self._retries, error)
        else:
            for at, acks in enumerate(flight.acks):
                self._fail(acks, self._sent(acks, flight.left(at)))
            if flight.cumulative is not None:
                self._fail_through(flight.cumulative)
            self._outbox.gather()
        self._tell(flight, error)

    def _land(self, flight: Flight) -> None:
        """It failed; what becomes of the entries that it named is to be decided."""
        self._counts.failed += len(flight.ids)
        for acks in flight.acks:
            acks.move(LANDED)

    def _unknown(self, flight: Flight, error: Exception) -> None:
        """Nobody knows whether the broker has it: who waits is told, the rest goes again.

        It may be what the connection breaks with each time, so it does not for ever; what is
        given up comes again, and is acked again.
        """
        self._land(flight)
        for at, acks in enumerate(flight.acks):
            acks.unanswered += 1
            failed = self._sent(acks, flight.left(at))
            if acks.unanswered <= BREAKS_FREE:
                failed &= acks.waited_for()
            self._fail(acks, failed)
        cumulative = flight.cumulative
        if cumulative is not None:
            cumulative.unanswered += 1
            if cumulative.waiters or cumulative.unanswered > BREAKS_FREE:
                self._fail_through(cumulative)
            else:
                self._outbox.cumulatives.add_again(cumulative)
        self._outbox.gather()
        self._tell(flight, error)

    def _sent(self, acks: EntryAcks, left: int) -> int:
        """What an ACK named of an entry; not what is named by a cumulative one that reaches into
        the entry too and is still under way."""
        return self._outbox.cumulatives.spare(acks.key, acks.known & ~left)

    def _fail(self, acks: EntryAcks, bits: int) -> None:
        """These are unacked again; what else was acked of the entry goes on from here."""
        if acks.take_back(bits):
            acks.unanswered = 0
            self._fail_held_back(acks)
        if acks.live and acks.state == IDLE and acks.unconfirmed():
            self._outbox.add(acks)

    def _fail_through(self, cumulative: Cumulative) -> None:
        """What it covered is unacked again, but for what another one covers."""
        self._fail_held_back_through(cumulative)
        acks = self._records.get(cumulative.key)
        if acks is not None and acks.through:
            failed = acks.through & ~cumulative.unacked(acks.key, acks.through)
            acks.take_back(self._outbox.cumulatives.beyond(acks.key, failed))

    def _tell(self, flight: Flight, error: Exception | None) -> None:
        """Those who wait for it are told, as far as it is decided."""
        if self._callers.waiting:
            for acks in flight.acks:
                if acks.stakes is not None:
                    self._callers.answer_entry(acks, error)
        if flight.cumulative is not None and (error is None or self._retries is None):
            self._callers.answer_cumulative(flight.cumulative, error)

    # ---- What came again -----------------------------------------------------

    def _fail_held_back(self, acks: EntryAcks) -> None:
        if acks.held_back and acks.live:
            acks.held_back = False
            self._held_back.append(acks.key)

    def _fail_held_back_through(self, cumulative: Cumulative) -> None:
        if cumulative.held_back:
            cumulative.held_back = False
            self._held_back.append(cumulative.key)

    def forget_held_back(self) -> None:
        """All that is not acked comes again by itself."""
        self._held_back = []

    def take_held_back(self) -> list[int]:
        """Entries that were dropped as duplicates of what was not acked after all."""
        keys = self._held_back
        if keys:
            self._held_back = []
        return keys

    # ---- Again, or never -----------------------------------------------------

    def _retry(self, flight: Flight, retries: AckRetries, error: Exception) -> None:
        """What failed is tried again later, or by halves, or not at all."""
        last: list[list[EntryAcks]] = []
        for together in self._units(flight, retries):
            left = [acks for acks in together if not self._take_over(retries, acks)]
            if not self._try_later(left, flight, retries, error):
                last.append(left)
        if len(last) > 1 and may_be_one_of_many(error):
            self._split(last, flight, retries)
        elif last:
            self._give_up(last, flight, retries, error)
        if flight.cumulative is not None:
            self._retry_cumulative(flight.cumulative, flight.begun_ms, retries, error)
        self._outbox.gather()

    def _units(self, flight: Flight, retries: AckRetries) -> list[list[EntryAcks]]:
        """What an ACK that failed named and is still to be acked: entries that share a fate, the
        chunks of one message, are together."""
        units: list[list[EntryAcks]] = []
        message: list[EntryAcks] | None = None
        for acks in flight.acks:
            if self._goes_on_without(acks, retries):
                continue
            if acks.chunks is None or acks.chunks is not message:
                units.append([])
                message = acks.chunks
            units[-1].append(acks)
        return units

    def _try_later(
        self, together: list[EntryAcks], flight: Flight, retries: AckRetries, error: Exception
    ) -> bool:
        """Lets these wait for their time, unless one of them has no try left."""
        for acks in together:
            if not retries.may_retry(acks.key, error):
                return False
        now_ms = self._now_ms()
        for acks in together:
            retries.failed(acks.key, flight.begun_ms, now_ms, error)
            acks.move(PUT_OFF)
        return True

    def _goes_on_without(self, acks: EntryAcks, retries: AckRetries) -> bool:
        """Whether nothing is to be done for an entry whose ACK failed: there is no record of it
        any more, another ACK names the same, or a negative ack took all of it back."""
        if not acks.live or acks.state != IDLE:
            return True
        if acks.unconfirmed():
            return False
        retries.superseded(acks.key)
        return True

    def _retry_cumulative(
        self, cumulative: Cumulative, begun_ms: int, retries: AckRetries, error: Exception
    ) -> None:
        if retries.may_retry(CUMULATIVE, error):
            retries.failed(CUMULATIVE, begun_ms, self._now_ms(), error)
            self._outbox.cumulatives.add_again(cumulative)
            return
        retries.given_up(CUMULATIVE)
        self._outbox.cumulatives.busy = False
        self._counts.exhausted += 1
        given_up = GivenUp(error)
        given_up.cumulative = cumulative
        self._given_up.append(given_up)
        self._fail_through(cumulative)
        self._callers.answer_cumulative(cumulative, error)

    def _split(self, units: list[list[EntryAcks]], flight: Flight, retries: AckRetries) -> None:
        """Sends a list that was refused in halves: one of its acks may be to blame for all."""
        middle = len(units) // 2
        halves: list[list[EntryAcks]] = []
        for half in (units[:middle], units[middle:]):
            halves.append([acks for together in half for acks in together])
            for acks in halves[-1]:
                retries.lost(acks.key, flight.begun_ms)
        self._outbox.send_apart(halves, flight.begun_ms)

    def _lost(self, flight: Flight, retries: AckRetries) -> None:
        """Its connection is gone. It goes again on the next one, and that costs no attempt,
        unless it was so too often."""
        self._land(flight)
        error = ConnectError(LOST)
        last: list[list[EntryAcks]] = []
        for together in self._units(flight, retries):
            free = True
            for acks in together:
                free = retries.may_break(acks.key) and free
            for acks in together:
                if retries.broke(acks.key, flight.begun_ms, free=free):
                    self._outbox.add(acks)
            if not free and not self._try_later(together, flight, retries, error):
                last.append(together)
        if last:
            self._give_up(last, flight, retries, error)
        if flight.cumulative is not None:
            if retries.broke(CUMULATIVE, flight.begun_ms, free=retries.may_break(CUMULATIVE)):
                self._outbox.cumulatives.busy = False
                self._outbox.cumulatives.add_again(flight.cumulative)
            else:
                self._retry_cumulative(flight.cumulative, flight.begun_ms, retries, error)
        self._tell(flight, error)

    def _give_up(
        self, units: list[list[EntryAcks]], flight: Flight, retries: AckRetries, error: Exception
    ) -> None:
        """What was sent of these is given up; what was acked since has tries of its own."""
        given_up = GivenUp(error)
        left = {acks.key: flight.left(at) for at, acks in enumerate(flight.acks)}
        for together in units:
            for acks in together:
                failed = self._sent(acks, left[acks.key])
                retries.given_up(acks.key)
                self._counts.exhausted += 1
                given_up.entries.append((acks.key, acks.batch_size, failed & acks.unconfirmed()))
                self._fail(acks, failed)
        self._given_up.append(given_up)

    def give_up_entry(self, acks: EntryAcks, error: Exception) -> None:
        """What was acked of an entry and is not confirmed is given up; the caller forgets it."""
        given_up = GivenUp(error)
        given_up.entries.append((acks.key, acks.batch_size, acks.unconfirmed()))
        self._counts.exhausted += 1
        self._given_up.append(given_up)

    def give_up_through(self, cumulative: Cumulative, error: Exception) -> None:
        """The newest cumulative ack, which was not sent, is not sent any more."""
        self._outbox.cumulatives.newest = None
        self._fail_through(cumulative)
        self._callers.answer_cumulative(cumulative, error)

    def take_given_up(self) -> list[GivenUp]:
        """Acks that failed for good since the last call."""
        given_up = self._given_up
        if given_up:
            self._given_up = []
        return given_up

    def give_up_all(self, error: Exception) -> None:
        """What is not confirmed is given up; the caller forgets it."""
        given_up = GivenUp(error)
        for acks in self._records.all():
            unconfirmed = acks.unconfirmed()
            if acks.state != IDLE and unconfirmed:
                given_up.entries.append((acks.key, acks.batch_size, unconfirmed))
        cumulatives = self._outbox.cumulatives
        for cumulative in self._outbox.flights.through():
            cumulatives.add_again(cumulative)
        given_up.cumulative = cumulatives.newest
        count = len(given_up.entries) + (given_up.cumulative is not None)
        self._counts.exhausted += count
        if count:
            self._given_up.append(given_up)

    # ---- Taken over by a cumulative ack --------------------------------------

    def take_over_waiting(self, retries: AckRetries) -> None:
        """The newest cumulative ack may cover acks that wait to be sent again."""
        for key in retries.waiting_keys():
            if key != CUMULATIVE:
                acks = self._records.get(key)
                assert acks is not None
                self._take_over(retries, acks)

    def _take_over(self, retries: AckRetries, acks: EntryAcks) -> bool:
        """Whether a cumulative ack, pending or in flight, covers all of it, and took it over."""
        cover = self._outbox.cumulatives.cover(acks)
        if cover is None or self._ends_behind(acks):
            return False
        retries.superseded(acks.key)
        if acks.stakes is not None:
            cover.waiters = [stake.waiter for stake in acks.stakes] + cover.waiters
            acks.stakes = None
        cover.held_back = cover.held_back or acks.held_back
        acks.move(DROPPED)
        self._records.drop(acks)
        return True

    def _ends_behind(self, acks: EntryAcks) -> bool:
        """Whether it is a chunk of a message that no cumulative ack covers to its end."""
        chunks = acks.chunks
        if chunks is None or not chunks[-1].live:
            return False
        return self._outbox.cumulatives.cover(chunks[-1]) is None
