"""Acks on their way to the broker: gathered, sent in groups, and known until they are kept.

Every entry that was acked here in part or in full has an `EntryAcks`: which of its messages
are unacked. Where its ack stands:

| state     | means                                        | left when                       |
|-----------|----------------------------------------------|---------------------------------|
| pending   | something of it was not sent yet             | `flush` sends it                |
| in flight | sent with a request id that has no answer    | the answer, or the end of wait  |
| waiting   | it failed, and is to be sent again later     | its time, or another connection |
| idle      | neither; kept to know when the batch is done | its last ack, or a redelivery   |

What is sent of an entry is always all that is known: the broker ANDs it, so sending more
than the news costs nothing, and once nothing is left the entry is acked plainly. A broker
that does not ack batch indexes loses nothing then.

Messages that come again while their ack is pending, in flight or waiting are duplicates and
are dropped. For everything else the broker's word counts: an entry that it delivers again
is idle no more, and starts with the `ack_set` that came with it.

Of cumulative acks only the newest is kept. It carries the bits of its own id, less what
was acked one by one, for some brokers would forget the latter otherwise.

With receipts, `done` is called when the broker answers; an ack without `done` that gets no
answer, since the connection broke, is pending again. Without receipts `done` is called at
once, and what was written counts as received.

With retries every ACK asks for an answer, and

- an entry has one ACK on its way at a time; what is acked of it meanwhile goes with the next
  one, so a retry and newer acks of the same batch are one thing. Likewise cumulative acks:
  there is one on its way, and at most one behind it, the newest;
- what fails waits for its time (`ack_retry.py`), and `done` waits with it;
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

from magnetar.client.ack_outbox import RECEIPT_TIMEOUT_MS, AckOutbox, Flight
from magnetar.client.ack_records import IDLE_MAX
from magnetar.client.ack_retry import CUMULATIVE, AckRetries, is_kept_already, may_be_one_of_many
from magnetar.client.entry_acks import (
    Cumulative,
    Done,
    EntryAcks,
    Waiter,
    entry_key,
    key_entry,
    key_ledger,
)
from magnetar.client.errors import error_of
from magnetar.errors import ConnectError, Interrupted, MemoryBufferIsFull, Timeout
from magnetar.protocol.ack import CommandAckResponse
from magnetar.protocol.command import Command
from magnetar.wire.ack_set import all_unacked

__all__ = [
    "AckTracker",
    "Cumulative",
    "Done",
    "EntryAcks",
    "GivenUp",
    "entry_key",
    "key_entry",
    "key_ledger",
]

# Twice what a broker lets one consumer leave unacked by default.
PENDING_MAX: Final = 100_000
# How many times the limit may be exceeded by acks of what was not delivered here.
CROWD_FACTOR: Final = 10
# Of how many messages in chunks, acked but not confirmed, all chunks are remembered.
ACKED_CHUNKS_MAX: Final = 10_000


@final
class GivenUp:
    """Acks that failed for good, and why: entries with the indexes, or one cumulative ack."""

    def __init__(self, error: Exception) -> None:
        self.error: Final = error
        # Ledger and entry as a key, the batch size, and which indexes.
        self.entries: Final[list[tuple[int, int, int]]] = []
        self.cumulative: Cumulative | None = None


@final
class AckTracker(AckOutbox):
    """The acks of one consumer. `write` is only called between `connected` and `disconnected`.

    `acknowledge` and its kin change the state and join the group that is being gathered;
    `joined` ends each call, with whoever waits. Groups end by count, by time or by `flush`.
    """

    def __init__(
        self,
        consumer_id: i64,
        *,
        group_time_ms: i64,
        group_size_max: i64,
        receipts: bool,
        now_ms: Callable[[], int],
        write: Callable[[list[Command]], None],
        receipt_timeout_ms: i64 = RECEIPT_TIMEOUT_MS,
        idle_max: i64 = IDLE_MAX,
        retries: AckRetries | None = None,
        pending_max: i64 = PENDING_MAX,
    ) -> None:
        super().__init__(
            consumer_id,
            group_time_ms=group_time_ms,
            group_size_max=group_size_max,
            receipts=receipts,
            now_ms=now_ms,
            write=write,
            receipt_timeout_ms=receipt_timeout_ms,
            idle_max=idle_max,
            retries=retries,
        )
        self._pending_max: Final[i64] = pending_max
        self._held_back: list[int] = []
        self._given_up: list[GivenUp] = []
        # The keys of the chunks of a message, by the key of its last one.
        self.chunks: Final[dict[int, list[int]]] = {}
        # The same of messages that were acked, until that is confirmed: an ack that failed
        # may be given again by its id, and must name all chunks then too.
        self._acked_chunks: Final[dict[int, list[int]]] = {}

    def acknowledge_cumulative(self, cumulative: Cumulative) -> None:
        """Acks everything through a message; an earlier one than the newest adds nothing."""
        if cumulative.index >= 0:
            acks = self.find(
                cumulative.ledger_id,
                cumulative.entry_id,
                cumulative.batch_size,
                all_unacked(cumulative.batch_size),
            )
            acks.keep(cumulative.unacked(acks.key, acks.unacked()))
        newest = self._cumulative
        if newest is None:
            self._cumulative = cumulative
        elif not newest.reaches(cumulative):
            cumulative.take_over(newest)
            self._cumulative = cumulative
        if self._retries is not None and self._retries.waiting:
            self._supersede(self._retries)

    # ---- Room ----------------------------------------------------------------

    def ack_chunks(self, keys: list[int]) -> None:
        """A message in chunks is acked, all of them."""
        for key in keys:
            self.acknowledge(self.find_id(key, -1, 0), -1)
        self.chunks.pop(keys[-1], None)
        if self._receipts:
            while len(self._acked_chunks) >= ACKED_CHUNKS_MAX:
                del self._acked_chunks[next(iter(self._acked_chunks))]
            self._acked_chunks[keys[-1]] = keys

    def chunks_of(self, key: int) -> list[int] | None:
        """The keys of all chunks of a message, by the key of the last, if they are known."""
        known = self.chunks.get(key)
        return known if known is not None else self._acked_chunks.get(key)

    def check_room(self, count: i64) -> None:
        """Raises MemoryBufferIsFull if so many more acks would be too many to remember."""
        if self._retries is None:
            return
        if len(self._entries) + count > CROWD_FACTOR * self._pending_max + 2 * self._idle_max:
            raise MemoryBufferIsFull(
                f"{self.unconfirmed} acks wait for the broker's word: acknowledge more when it "
                "has come, or close the consumer"
            )

    @property
    def crowded(self) -> bool:
        """Whether so much is unconfirmed that no more messages should come."""
        return self._retries is not None and self.unconfirmed >= self._pending_max

    @property
    def roomy(self) -> bool:
        """Whether, after it was crowded, messages may come again."""
        return self.unconfirmed <= self._pending_max // 2

    # ---- Time ----------------------------------------------------------------

    def next_ms(self) -> int | None:
        """When the group is to be sent, an ack again, or an answer has not come in time."""
        if not self._connected:
            return None
        due_ms = self._due_ms
        if self._retries is not None:
            due_ms = _earlier(due_ms, self._retries.next_ms())
        for flight in self._flights.values():
            # The first is the oldest.
            return _earlier(due_ms, flight.due_ms)
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
        if self._retries is not None and self._connected:
            self._wake(self._retries.lose_all())
            self._retries.clear()
            self._cumulative_busy = False
            for acks in self._entries.values():
                if acks.more and not acks.pending:
                    self._add(acks)
        self.flush()

    # ---- Answers -------------------------------------------------------------

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
        """Nobody knows whether the broker has it: who waits is told, the rest goes again."""
        self._landed(flight)
        self.counts.failed += len(flight.ids)
        for acks in flight.acks:
            if flight.waiters(acks) is not None:
                self._fail_held_back(acks)
            elif acks.live and not acks.pending:
                self._add(acks)
        cumulative = flight.cumulative
        if cumulative is not None:
            if cumulative.waiters:
                self._fail_held_back_through(cumulative)
            else:
                self._merge(cumulative)
        self._gather()
        self._tell(flight, error)

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

    def _merge(self, cumulative: Cumulative) -> None:
        """It is to be sent again, unless a newer one says the same."""
        newest = self._cumulative
        if newest is not None and newest.reaches(cumulative):
            newest.take_over(cumulative)
            return
        if newest is not None:
            cumulative.take_over(newest)
        self._cumulative = cumulative

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

    # ---- Retries -------------------------------------------------------------

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
                retries.failed(acks.key, flight.begun_ms, now_ms)
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
            broke = isinstance(error, ConnectError)
            retries.failed(CUMULATIVE, begun_ms, self._now_ms(), broke=broke)
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

    def take_given_up(self) -> list[GivenUp]:
        """Acks that failed for good since the last call."""
        given_up = self._given_up
        if given_up:
            self._given_up = []
        return given_up

    def give_up_all(self, error: Exception) -> None:
        """The end: what is not confirmed is given up, and forgotten."""
        if self._retries is not None:
            given_up = GivenUp(error)
            for acks in self._entries.values():
                if not acks.idle:
                    unconfirmed = acks.known & ~acks.unacked()
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

    # ---- The connection ------------------------------------------------------

    def connected(self) -> None:
        """Sends what was acked meanwhile. What is not acked comes again by itself."""
        self._connected = True
        self._held_back = []
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
                self._unanswered(flight, ConnectError(_LOST))
            else:
                self._lost(flight, self._retries)

    def _lost(self, flight: Flight, retries: AckRetries) -> None:
        """Its connection is gone. It goes again on the next one, and that costs no attempt,
        unless it was so too often."""
        self._landed(flight)
        self.counts.failed += len(flight.ids)
        error = ConnectError(_LOST)
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
                retries.failed(acks.key, flight.begun_ms, self._now_ms(), broke=True)
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


_LOST: Final = (
    "the connection broke before the broker confirmed the ack: the message may be delivered "
    "again, and can be acknowledged again"
)
_SOUGHT: Final = "a seek came before the broker confirmed the ack, and decides what is acked"


def _no_answer(timeout_ms: int) -> str:
    return (
        f"the broker did not confirm the ack within {timeout_ms} ms: the message may be "
        "delivered again, and can be acknowledged again"
    )


def _earlier(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
