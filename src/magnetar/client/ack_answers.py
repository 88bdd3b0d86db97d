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

Messages that came again and were dropped for an ack that then failed are `held back` no more:
their entries are asked for again. What is given up is handed out by `take_given_up`.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack_outbox import AckOutbox, AckSettings, Flight
from magnetar.client.ack_retry import (
    BREAKS_FREE,
    CUMULATIVE,
    AckRetries,
    is_kept_already,
    may_be_one_of_many,
)
from magnetar.client.entry_acks import Cumulative, EntryAcks, Waiter
from magnetar.client.entry_key import entry_key
from magnetar.client.errors import error_of
from magnetar.errors import ConnectError
from magnetar.protocol.ack import CommandAckResponse
from magnetar.protocol.command import Command

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
            acks.unanswered = 0
            if acks.in_flight > 0:
                continue
            if acks.more:
                # It was acked meanwhile, and goes on from here.
                acks.more = False
                if acks.live:
                    self._add(acks)
            if acks.left > 0 or acks.pending:
                acks.known &= flight.ids[at].ack_set or 0
            elif acks.live and acks.idle:
                self._drop(acks)
            if acks.left == 0 and self._acked_chunks:
                self._acked_chunks.pop(entry_key(acks.ledger_id, acks.entry_id), None)
        if retries is not None:
            if flight.cumulative is not None:
                self._cumulative_busy = False
            self._gather()
        self._tell(flight, None)

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
            return
        for acks in flight.acks:
            self._fail_held_back(acks)
        if flight.cumulative is not None:
            self._fail_held_back_through(flight.cumulative)
        self._tell(flight, error)

    def _unanswered(self, flight: Flight, error: Exception) -> None:
        """Nobody knows whether the broker has it: who waits is told, the rest goes again.

        It may be what the connection breaks with each time, so it does not for ever; what is
        given up comes again, and is acked again.
        """
        self._landed(flight)
        self.counts.failed += len(flight.ids)
        for acks in flight.acks:
            acks.unanswered += 1
            if flight.waiters(acks) is not None or acks.unanswered > BREAKS_FREE:
                self._fail_held_back(acks)
                acks.unanswered = 0
            elif acks.live and not acks.pending:
                self._add(acks)
        cumulative = flight.cumulative
        if cumulative is not None:
            cumulative.unanswered += 1
            if cumulative.waiters or cumulative.unanswered > BREAKS_FREE:
                self._fail_held_back_through(cumulative)
            else:
                self._merge(cumulative)
        self._gather()
        self._tell(flight, error)

    # ---- Who waits -----------------------------------------------------------

    def _tell(self, flight: Flight, error: Exception | None) -> None:
        """All who wait for it are told, as far as it goes."""
        if flight.told is not None:
            for waiters in flight.told.values():
                self._settle(waiters, error)
        if flight.cumulative is not None:
            waiters = flight.cumulative.waiters
            flight.cumulative.waiters = []
            self._settle(waiters, error)

    def _settle(self, waiters: list[Waiter], error: Exception | None) -> None:
        for waiter in waiters:
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
        """It is to be sent again, unless a newer one says the same."""
        newest = self._cumulative
        if newest is not None and newest.reaches(cumulative):
            newest.take_over(cumulative)
            return
        if newest is not None:
            cumulative.take_over(newest)
        self._cumulative = cumulative

    def _retry(self, flight: Flight, retries: AckRetries, error: Exception) -> None:
        """What failed is tried again later, or by halves, or not at all."""
        now_ms = self._now_ms()
        last: list[EntryAcks] = []
        bits: list[int] = []
        for at, acks in enumerate(flight.acks):
            if acks.in_flight > 0:
                acks.wait(flight.waiters(acks))
            elif not acks.live:
                self._settle(flight.waiters(acks) or [], error)
            elif self._supersede_one(retries, acks, flight.waiters(acks)):
                continue
            elif retries.may_retry(acks.key, error):
                retries.failed(acks.key, flight.begun_ms, now_ms, error)
                acks.waiting = True
                acks.more = False
                acks.wait(flight.waiters(acks))
            else:
                last.append(acks)
                bits.append(flight.ids[at].ack_set or 0)
        if len(last) > 1 and may_be_one_of_many(error):
            self._split(last, flight, retries)
        elif last:
            self._give_up(last, bits, flight, retries, error)
        if flight.cumulative is not None:
            self._retry_cumulative(flight.cumulative, flight.begun_ms, retries, error)
        self._gather()

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
        self._fail_held_back_through(cumulative)
        waiters = cumulative.waiters
        cumulative.waiters = []
        self._settle(waiters, error)

    def _split(self, acks: list[EntryAcks], flight: Flight, retries: AckRetries) -> None:
        """Sends a list that was refused in halves: one of its acks may be to blame for all."""
        commands: list[Command] = []
        middle = len(acks) // 2
        for half in (acks[:middle], acks[middle:]):
            for one in half:
                one.wait(flight.waiters(one))
                one.pending = True
                retries.lost(one.key, flight.begun_ms)
            self._send_individual(half, flight.begun_ms, commands)
        self._write(commands)

    def _lost(self, flight: Flight, retries: AckRetries) -> None:
        """Its connection is gone. It goes again on the next one, and that costs no attempt,
        unless it was so too often."""
        self._landed(flight)
        self.counts.failed += len(flight.ids)
        error = ConnectError(LOST)
        last: list[EntryAcks] = []
        bits: list[int] = []
        for at, acks in enumerate(flight.acks):
            if not acks.live:
                self._settle(flight.waiters(acks) or [], error)
            elif acks.in_flight > 0 or acks.pending:
                acks.wait(flight.waiters(acks))
            elif retries.broke(acks.key, flight.begun_ms):
                acks.wait(flight.waiters(acks))
                acks.more = False
                self._add(acks)
            elif retries.may_retry(acks.key, error):
                retries.failed(acks.key, flight.begun_ms, self._now_ms(), error)
                acks.wait(flight.waiters(acks))
                acks.waiting = True
                acks.more = False
            else:
                last.append(acks)
                bits.append(flight.ids[at].ack_set or 0)
        if last:
            self._give_up(last, bits, flight, retries, error)
        if flight.cumulative is None:
            return
        if retries.broke(CUMULATIVE, flight.begun_ms):
            self._cumulative_busy = False
            self._merge(flight.cumulative)
        else:
            self._retry_cumulative(flight.cumulative, flight.begun_ms, retries, error)

    def _give_up(
        self,
        last: list[EntryAcks],
        bits: list[int],
        flight: Flight,
        retries: AckRetries,
        error: Exception,
    ) -> None:
        given_up = GivenUp(error)
        for acks, sent in zip(last, bits, strict=True):
            retries.given_up(acks.key)
            self.counts.exhausted += 1
            given_up.entries.append((acks.key, acks.batch_size, acks.known & ~sent))
            if acks.more:
                # That is another ack, with tries of its own.
                acks.more = False
                self._add(acks)
            else:
                self._fail_held_back(acks)
        self._given_up.append(given_up)
        for acks in last:
            self._settle(flight.waiters(acks) or [], error)

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
                self._supersede_one(retries, self._entries[key], None)

    def _supersede_one(
        self, retries: AckRetries, acks: EntryAcks, waiters: list[Waiter] | None
    ) -> bool:
        """Whether a cumulative ack, pending or in flight, covers all of it, and took it over."""
        cover = self._cover(acks)
        if cover is None:
            return False
        retries.superseded(acks.key)
        acks.wait(waiters)
        if acks.waiters is not None:
            cover.waiters = acks.waiters + cover.waiters
            acks.waiters = None
        cover.held_back = cover.held_back or acks.held_back
        acks.waiting = False
        acks.more = False
        self._drop(acks)
        return True

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
