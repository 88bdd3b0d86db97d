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

An ack that failed for good is none any more: its messages are unacked here too, so that they
can be refused, and what is acked of the same batch later does not ack them with it.

Messages that came again and were dropped for an ack that then failed are `held back` no more:
their entries are asked for again. What is given up is handed out by `take_given_up`.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.entry_acks import Cumulative, EntryAcks, Waiter
from magnetar.client.ack.outbox import AckOutbox, AckSettings, Flight
from magnetar.client.ack.retry import (
    BREAKS_FREE,
    CUMULATIVE,
    AckRetries,
    is_kept_already,
    may_be_one_of_many,
)
from magnetar.client.errors import error_of
from magnetar.errors import ConnectError, Interrupted
from magnetar.protocol.ack import CommandAckResponse
from magnetar.protocol.command import Command

__all__ = ["LOST", "AckAnswers", "GivenUp"]

LOST: Final = (
    "the connection broke before the broker confirmed the ack: the message may be delivered "
    "again, and can be acknowledged again"
)

REFUSED: Final = "a negative ack of the message came before the broker confirmed the ack"


@final
class GivenUp:
    """Acks that failed for good, and why: entries with the indexes, or one cumulative ack."""

    def __init__(self, error: Exception) -> None:
        self.error: Final = error
        # Ledger and entry as a key, the batch size, and which indexes.
        self.entries: Final[list[tuple[int, int, int]]] = []
        self.cumulative: Cumulative | None = None


class AckAnswers(AckOutbox):
    """See the module, and `AckTracker`."""

    def __init__(
        self,
        consumer_id: i64,
        settings: AckSettings,
        *,
        now_ms: Callable[[], int],
        write: Callable[[list[Command]], None],
        retries: AckRetries | None = None,
    ) -> None:
        super().__init__(consumer_id, settings, now_ms=now_ms, write=write, retries=retries)
        self._held_back: list[int] = []
        self._given_up: list[GivenUp] = []

    def answered(self, response: CommandAckResponse) -> None:
        """The broker's word on one ACK; of one that nobody waits for any more, nothing."""
        request_id = response.request_id
        flight = None if request_id is None else self._flights.pop(request_id, None)
        if flight is None:
            return
        if response.error is None:
            self._kept(flight)
            return
        error = error_of(response.error, response.message or "the ack was refused")
        if flight.cumulative is not None and is_kept_already(error):
            self._kept(flight)
        else:
            self._refused(flight, error)

    def _landed(self, flight: Flight) -> None:
        self._ids_in_flight -= len(flight.ids)
        for acks in flight.acks:
            acks.in_flight -= 1
        if flight.cumulative is not None:
            self._cumulatives_in_flight -= 1

    def _kept(self, flight: Flight) -> None:
        self._landed(flight)
        now_ms = self._now_ms()
        kept: i64 = len(flight.ids)
        retries = self._retries
        if retries is not None and len(retries):
            kept -= self._kept_after_retry(flight, retries, now_ms)
        if kept:
            self.counts.keep(kept, now_ms - flight.begun_ms)
        for at, acks in enumerate(flight.acks):
            self._confirm(acks, flight.left(at))
        if flight.cumulative is not None:
            self._confirm_through(flight.cumulative, flight.left(0))
        if retries is not None and flight.cumulative is not None:
            self._cumulative_busy = False
        self._gather()
        self._tell(flight, None)

    def _confirm(self, acks: EntryAcks, left: int) -> None:
        """The broker has an ACK of an entry that left so much of it."""
        acks.unanswered = 0
        acks.confirm(left)
        if acks.more:
            # It was acked meanwhile, and goes on from here.
            acks.more = False
            acks.renew()
            if acks.live and acks.in_flight == 0 and acks.unconfirmed():
                self._add(acks)
        if acks.left > 0 or acks.through:
            return
        if acks.live and acks.idle:
            self._done(acks, left == 0)
        if self._acked_chunks:
            self._acked_chunks.pop(acks.key, None)

    def _confirm_through(self, cumulative: Cumulative, left: int) -> None:
        """The same of a cumulative ack, of the entry that it reaches into."""
        if cumulative.index < 0:
            return
        acks = self._entries.get(cumulative.key)
        if acks is not None and not acks.contradicts(cumulative.batch_size):
            acks.confirm(left)
            if acks.left == 0 and acks.idle:
                self._done(acks, left == 0)

    def _done(self, acks: EntryAcks, plainly: bool) -> None:
        """Nothing is left of an entry. Brokers without batch index acks must be told plainly."""
        if plainly:
            self._drop(acks)
        else:
            self._add(acks)

    def _kept_after_retry(self, flight: Flight, retries: AckRetries, now_ms: int) -> i64:
        """Ends the retries of what was kept. Returns of how many."""
        count: i64 = 0
        for acks in flight.acks:
            if acks.in_flight == 0:
                count += self._ended(retries, acks.key, now_ms)
        if flight.cumulative is not None:
            count += self._ended(retries, CUMULATIVE, now_ms)
        return count

    def _ended(self, retries: AckRetries, key: int, now_ms: int) -> i64:
        retry = retries.kept(key)
        if retry is None:
            return 0
        self.counts.kept_after_retry += 1
        self.counts.keep(1, now_ms - retry.since_ms)
        return 1

    def _refused(self, flight: Flight, error: Exception) -> None:
        self._landed(flight)
        self.counts.failed += len(flight.ids)
        if self._retries is not None:
            self._retry(flight, self._retries, error)
        else:
            for at, acks in enumerate(flight.acks):
                self._fail(acks, self._sent(acks, flight.left(at)))
            if flight.cumulative is not None:
                self._fail_through(flight.cumulative)
            self._gather()
        self._tell(flight, error)

    def _unanswered(self, flight: Flight, error: Exception) -> None:
        """Nobody knows whether the broker has it: who waits is told, the rest goes again.

        It may be what the connection breaks with each time, so it does not for ever; what is
        given up comes again, and is acked again.
        """
        self._landed(flight)
        self.counts.failed += len(flight.ids)
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
                self._merge(cumulative)
        self._gather()
        self._tell(flight, error)

    def _sent(self, acks: EntryAcks, left: int) -> int:
        """What an ACK named of an entry; not what is named by a cumulative one that reaches into
        the entry too and is still under way."""
        bits = acks.known & ~left
        if self._cumulatives_in_flight:
            for flight in self._flights.values():
                through = flight.cumulative
                if through is not None and through.key == acks.key and through.index >= 0:
                    bits &= flight.left(0)
        return bits

    def _fail(self, acks: EntryAcks, bits: int) -> None:
        """These are unacked again; what else was acked of the entry goes on from here."""
        if acks.take_back(bits):
            acks.unanswered = 0
            self._fail_held_back(acks)
        acks.more = False
        if acks.live and not acks.pending and acks.unconfirmed():
            self._add(acks)

    def _fail_through(self, cumulative: Cumulative) -> None:
        """What it covered is unacked again, but for what another one covers."""
        self._fail_held_back_through(cumulative)
        acks = self._entries.get(cumulative.key)
        if acks is not None and acks.through:
            failed = acks.through & ~cumulative.unacked(acks.key, acks.through)
            acks.take_back(self._beyond(acks.key, failed))

    # ---- Who waits -----------------------------------------------------------

    def _tell(self, flight: Flight, error: Exception | None) -> None:
        """Those who wait for it are told, as far as it is decided."""
        if self._waiters:
            for acks in flight.acks:
                if acks.stakes is not None:
                    self._settle_stakes(acks, error)
        if self._retries is None and flight.cumulative is not None:
            self._settle(flight.cumulative, error)
        elif error is None and flight.cumulative is not None:
            self._settle(flight.cumulative, None)

    def _settle_stakes(self, acks: EntryAcks, error: Exception | None) -> None:
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
                self._told(stake.waiter, None)
            elif bits & unacked or not acks.live:
                self._told(stake.waiter, Interrupted(REFUSED) if error is None else error)
            elif acks.stakes is None:
                acks.stakes = [stake]
            else:
                acks.stakes.append(stake)

    def _settle(self, cumulative: Cumulative, error: Exception | None) -> None:
        waiters = cumulative.waiters
        cumulative.waiters = []
        for waiter in waiters:
            self._told(waiter, error)

    def _told(self, waiter: Waiter, error: Exception | None) -> None:
        if waiter.settle(error):
            self._waiters.pop(waiter, None)

    # ---- What came again -----------------------------------------------------

    def _fail_held_back(self, acks: EntryAcks) -> None:
        if acks.held_back and acks.live:
            acks.held_back = False
            self._held_back.append(acks.key)

    def _fail_held_back_through(self, cumulative: Cumulative) -> None:
        if cumulative.held_back:
            cumulative.held_back = False
            self._held_back.append(cumulative.key)

    def take_held_back(self) -> list[int]:
        """Entries that were dropped as duplicates of what was not acked after all."""
        keys = self._held_back
        if keys:
            self._held_back = []
        return keys

    # ---- Again, or never -----------------------------------------------------

    def _merge(self, cumulative: Cumulative) -> None:
        """It is to be sent again, unless a newer one says the same: that has all of its tries."""
        newest = self._cumulative
        if newest is not None and newest.reaches(cumulative):
            newest.take_over(cumulative)
            self._renew()
            return
        if newest is not None:
            cumulative.take_over(newest)
        self._cumulative = cumulative

    def _renew(self) -> None:
        if self._retries is not None:
            self._retries.renewed(CUMULATIVE)

    def _retry(self, flight: Flight, retries: AckRetries, error: Exception) -> None:
        """What failed is tried again later, or by halves, or not at all."""
        last: list[list[EntryAcks]] = []
        for together in self._units(flight):
            left = [acks for acks in together if not self._supersede_one(retries, acks)]
            if not self._try_later(left, flight, retries, error):
                last.append(left)
        if len(last) > 1 and may_be_one_of_many(error):
            self._split(last, flight, retries)
        elif last:
            self._give_up(last, flight, retries, error)
        if flight.cumulative is not None:
            self._retry_cumulative(flight.cumulative, flight.begun_ms, retries, error)
        self._gather()

    def _units(self, flight: Flight) -> list[list[EntryAcks]]:
        """What an ACK that failed named and is still to be acked: entries that share a fate, the
        chunks of one message, are together."""
        units: list[list[EntryAcks]] = []
        message: list[EntryAcks] | None = None
        for acks in flight.acks:
            if self._goes_on_without(acks):
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
            acks.waiting = True
            acks.more = False
        return True

    def _goes_on_without(self, acks: EntryAcks) -> bool:
        """Whether nothing is to be done for an entry whose ACK failed: there is no record of it
        any more, another ACK names the same, or a negative ack took all of it back."""
        if not acks.live or acks.in_flight > 0 or acks.pending:
            return True
        if acks.unconfirmed():
            return False
        self._end_wait(acks)
        return True

    def _end_wait(self, acks: EntryAcks) -> None:
        """There is nothing to send again."""
        acks.waiting = False
        acks.more = False
        if self._retries is not None:
            self._retries.superseded(acks.key)

    def _retry_cumulative(
        self, cumulative: Cumulative, begun_ms: int, retries: AckRetries, error: Exception
    ) -> None:
        if retries.may_retry(CUMULATIVE, error):
            retries.failed(CUMULATIVE, begun_ms, self._now_ms(), error)
            self._merge(cumulative)
            return
        retries.given_up(CUMULATIVE)
        self._cumulative_busy = False
        self.counts.exhausted += 1
        given_up = GivenUp(error)
        given_up.cumulative = cumulative
        self._given_up.append(given_up)
        self._fail_through(cumulative)
        self._settle(cumulative, error)

    def _split(self, units: list[list[EntryAcks]], flight: Flight, retries: AckRetries) -> None:
        """Sends a list that was refused in halves: one of its acks may be to blame for all."""
        commands: list[Command] = []
        middle = len(units) // 2
        for half in (units[:middle], units[middle:]):
            pending = [acks for together in half for acks in together]
            for acks in pending:
                acks.pending = True
                retries.lost(acks.key, flight.begun_ms)
            self._send_individual(pending, flight.begun_ms, commands)
        self._write(commands)

    def _lost(self, flight: Flight, retries: AckRetries) -> None:
        """Its connection is gone. It goes again on the next one, and that costs no attempt,
        unless it was so too often."""
        self._landed(flight)
        self.counts.failed += len(flight.ids)
        error = ConnectError(LOST)
        last: list[list[EntryAcks]] = []
        for together in self._units(flight):
            free = True
            for acks in together:
                free = retries.may_break(acks.key) and free
            for acks in together:
                if retries.broke(acks.key, flight.begun_ms, free=free):
                    acks.more = False
                    self._add(acks)
            if not free and not self._try_later(together, flight, retries, error):
                last.append(together)
        if last:
            self._give_up(last, flight, retries, error)
        if flight.cumulative is not None:
            if retries.broke(CUMULATIVE, flight.begun_ms, free=retries.may_break(CUMULATIVE)):
                self._cumulative_busy = False
                self._merge(flight.cumulative)
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
                self.counts.exhausted += 1
                given_up.entries.append((acks.key, acks.batch_size, failed & acks.unconfirmed()))
                self._fail(acks, failed)
        self._given_up.append(given_up)

    def take_given_up(self) -> list[GivenUp]:
        """Acks that failed for good since the last call."""
        given_up = self._given_up
        if given_up:
            self._given_up = []
        return given_up

    # ---- Taken over by a cumulative ack --------------------------------------

    def _supersede(self, retries: AckRetries) -> None:
        """The newest cumulative ack covers acks that wait to be sent again."""
        for key in retries.waiting_keys():
            if key != CUMULATIVE:
                self._supersede_one(retries, self._entries[key])

    def _supersede_one(self, retries: AckRetries, acks: EntryAcks) -> bool:
        """Whether a cumulative ack, pending or in flight, covers all of it, and took it over."""
        cover = self._cover(acks)
        if cover is None or self._ends_behind(acks):
            return False
        retries.superseded(acks.key)
        if acks.stakes is not None:
            cover.waiters = [stake.waiter for stake in acks.stakes] + cover.waiters
            acks.stakes = None
        cover.held_back = cover.held_back or acks.held_back
        acks.waiting = False
        acks.more = False
        self._drop(acks)
        return True

    def _ends_behind(self, acks: EntryAcks) -> bool:
        """Whether it is a chunk of a message that no cumulative ack covers to its end."""
        chunks = acks.chunks
        return chunks is not None and chunks[-1].live and self._cover(chunks[-1]) is None

    def _cover(self, acks: EntryAcks) -> Cumulative | None:
        newest = self._cumulative
        if newest is not None and newest.unacked(acks.key, acks.known) & ~acks.unacked() == 0:
            return newest
        if self._cumulatives_in_flight:
            for flight in self._flights.values():
                sent = flight.cumulative
                if sent is not None and sent.unacked(acks.key, acks.known) & ~acks.unacked() == 0:
                    return sent
        return None
