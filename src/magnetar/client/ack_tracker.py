"""Acks on their way to the broker: gathered, sent in groups, and known until they are kept.

Every entry that was acked here in part or in full has an `EntryAcks`: which of its messages
are unacked. It is in one or more of these states, which are values, not objects' lives:

| state     | means                                        | left when                      |
|-----------|----------------------------------------------|--------------------------------|
| pending   | something of it was not sent yet             | `flush` sends it               |
| in flight | sent with a request id that has no answer    | the answer, or the end of wait |
| idle      | neither; kept to know when the batch is done | its last ack, or a redelivery  |

What is sent of an entry is always all that is known: the broker ANDs it, so sending more
than the news costs nothing, and once nothing is left the entry is acked plainly. A broker
that does not ack batch indexes loses nothing then.

Messages that come again while their ack is pending or in flight are duplicates and are
dropped. For everything else the broker's word counts: an entry that it delivers again is
idle no more, and starts with the `ack_set` that came with it.

Of cumulative acks only the newest is kept. It carries the bits of its own id, less what
was acked one by one, for some brokers would forget the latter otherwise.

With receipts, `done` is called when the broker answers; an ack without `done` that gets no
answer, since the connection broke, is pending again. Without receipts `done` is called at
once, and what was written counts as received.
"""

from collections.abc import Callable
from typing import Final, TypeAlias, final

from mypy_extensions import i64

from magnetar.client.errors import error_of
from magnetar.errors import BatchIndexError, ConnectError, Interrupted, Timeout
from magnetar.model.enums import AckType
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol.ack import CommandAck, CommandAckResponse
from magnetar.protocol.command import Command
from magnetar.wire.ack_set import BATCH_SIZE_MAX, all_unacked

__all__ = ["AckTracker", "Cumulative", "Done", "EntryAcks", "entry_key", "key_entry", "key_ledger"]

Done: TypeAlias = Callable[[Exception | None], None]

ENTRY_BITS: Final = 64
ENTRY_MASK: Final = (1 << ENTRY_BITS) - 1
# Idle records are a convenience: without one, an entry's last ack names an index only, and
# the broker finds out by itself that the batch is done.
IDLE_MAX: Final = 10_000
# What one ACK may hold: a command must stay well below the frame limit of 5 MiB, and a
# reader takes 250,000 fields.
COMMAND_IDS_MAX: Final = 10_000
COMMAND_BYTES_MAX: Final = 1 << 20
# As long as a client waits for the answer to any request.
RECEIPT_TIMEOUT_MS: Final = 30_000


def entry_key(ledger_id: int, entry_id: int) -> int:
    """A position as a number that sorts like it.

    >>> entry_key(1, 9) < entry_key(2, 0), key_ledger(entry_key(2, 5)), key_entry(entry_key(2, 5))
    (True, 2, 5)
    """
    return (ledger_id << ENTRY_BITS) + entry_id


def key_ledger(key: int) -> int:
    return key >> ENTRY_BITS


def key_entry(key: int) -> int:
    return key & ENTRY_MASK


@final
class EntryAcks:
    """Which messages of one entry are unacked; an entry that is no batch has one of them.

    `live` says that the tracker still has this record. One that is not is only a memory.
    """

    def __init__(self, ledger_id: i64, entry_id: i64, batch_size: i64, unacked: int) -> None:
        self.ledger_id: Final[i64] = ledger_id
        self.entry_id: Final[i64] = entry_id
        self.key: Final[int] = entry_key(ledger_id, entry_id)
        self.batch_size: Final[i64] = batch_size
        # A byte is cheaper to change than a long int.
        self._bits: bytearray = bytearray(unacked.to_bytes((batch_size >> 3) + 1, "little"))
        self.left: i64 = unacked.bit_count()
        self.pending: bool = False
        self.in_flight: i64 = 0
        # A message of it came again and was dropped: if the ack fails it must come once more.
        self.held_back: bool = False
        self.live: bool = True
        # The tracker that has it: a message can be acked by another consumer than its own.
        self.owner: object = None

    def clear(self, index: i64) -> None:
        """Index `index` is acked."""
        at = index >> 3
        bit: i64 = 1 << (index & 7)
        byte: i64 = self._bits[at]
        if byte & bit:
            self._bits[at] = byte ^ bit
            self.left -= 1

    def clear_all(self) -> None:
        self.keep(0)

    def keep(self, unacked: int) -> None:
        """What is not in `unacked` is acked."""
        left = self.unacked() & unacked
        self._bits = bytearray(left.to_bytes((self.batch_size >> 3) + 1, "little"))
        self.left = left.bit_count()

    def is_acked(self, index: i64) -> bool:
        if index < 0:
            return self.left == 0
        byte: i64 = self._bits[index >> 3]
        return byte >> (index & 7) & 1 == 0

    def unacked(self) -> int:
        return int.from_bytes(self._bits, "little")

    def contradicts(self, batch_size: i64) -> bool:
        """Whether this is the record of an id that told a wrong size, seen by the right one.

        A record of the whole entry (size 0) fits any.
        """
        return self.batch_size != batch_size and self.batch_size > 0 and batch_size > 0

    @property
    def idle(self) -> bool:
        return not self.pending and self.in_flight == 0


@final
class Cumulative:
    """An ack of everything through one message. Index -1 is the whole entry."""

    def __init__(self, ledger_id: i64, entry_id: i64, index: i64, batch_size: i64) -> None:
        self.ledger_id: Final[i64] = ledger_id
        self.entry_id: Final[i64] = entry_id
        self.key: Final[int] = entry_key(ledger_id, entry_id)
        self.index: Final[i64] = -1 if index == batch_size - 1 else index
        self.batch_size: Final[i64] = batch_size
        self.held_back: bool = False

    def reaches(self, other: "Cumulative") -> bool:
        """Whether this one acks all that the other does."""
        if self.key != other.key:
            return self.key > other.key
        return self.index < 0 or 0 <= other.index <= self.index

    def unacked(self, key: int, unacked: int) -> int:
        """What it leaves of the `unacked` messages of an entry."""
        if key != self.key:
            return 0 if key < self.key else unacked
        if self.index < 0:
            return 0
        following = int(self.index) + 1  # an i64 would make one of the long int, too
        return unacked >> following << following

    def hold_back(self, key: int, unacked: int) -> int:
        """As `unacked`, of an entry that came again."""
        left = self.unacked(key, unacked)
        if left != unacked:
            self.held_back = True
        return left


@final
class _Waiting:
    """Who waits for a group of acks, and how many of its commands are not answered yet."""

    def __init__(self) -> None:
        self.waiters: list[Done] = []
        # Some acks of the group have nobody who would try again.
        self.unwatched: bool = False
        self.commands: i64 = 0
        self.error: Exception | None = None

    def add(self, done: Done | None) -> None:
        if done is None:
            self.unwatched = True
        else:
            self.waiters.append(done)

    def answered(self, error: Exception | None) -> None:
        self.commands -= 1
        if error is not None and self.error is None:
            self.error = error
        if self.commands <= 0:
            self.finish(self.error)

    def finish(self, error: Exception | None) -> None:
        waiters = self.waiters
        self.waiters = []
        for done in waiters:
            done(error)


@final
class _Flight:
    """One ACK that asked for an answer."""

    def __init__(
        self, waiting: _Waiting, acks: list[EntryAcks], cumulative: Cumulative | None, due_ms: int
    ) -> None:
        self.waiting: Final = waiting
        self.acks: Final = acks
        self.cumulative: Final = cumulative
        self.due_ms: Final = due_ms


@final
class AckTracker:
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
    ) -> None:
        self._consumer_id: Final[i64] = consumer_id
        self._group_time_ms: Final[i64] = group_time_ms
        self._group_size_max: Final[i64] = group_size_max
        self._receipts: Final[bool] = receipts
        self._now_ms: Final = now_ms
        self._write: Final = write
        self._receipt_timeout_ms: Final[i64] = receipt_timeout_ms
        self._idle_max: Final[i64] = idle_max
        self._connected: bool = False
        self._entries: dict[int, EntryAcks] = {}
        self._evict_at: i64 = 2 * idle_max
        self._pending: list[EntryAcks] = []
        self._waiting: _Waiting = _Waiting()
        self._cumulative: Cumulative | None = None
        self._cumulative_waiting: _Waiting = _Waiting()
        self._flights: dict[int, _Flight] = {}
        self._cumulatives_in_flight: i64 = 0
        self._request_id: i64 = 0
        self._due_ms: int | None = None
        self._held_back: list[int] = []
        # The keys of the chunks of a message, by the key of its last one.
        self.chunks: Final[dict[int, list[int]]] = {}
        # Counters, for statistics.
        self.ids_sent: i64 = 0
        self.acks_failed: i64 = 0

    # ---- Acknowledging -------------------------------------------------------

    def find(self, ledger_id: i64, entry_id: i64, batch_size: i64, unacked: int) -> EntryAcks:
        """The record of an entry; a new one begins with `unacked`, as it was delivered."""
        key = entry_key(ledger_id, entry_id)
        acks = self._entries.get(key)
        if acks is not None and not acks.contradicts(batch_size):
            return acks
        if len(self._entries) >= self._evict_at:
            self._evict()
        if acks is not None:
            acks.live = False
        acks = EntryAcks(ledger_id, entry_id, batch_size, unacked)
        acks.owner = self
        self._entries[key] = acks
        return acks

    def find_id(self, key: int, batch_index: i64, batch_size: i64) -> EntryAcks:
        """The record of an entry that a checked id names, perhaps one kept as bytes."""
        acks = self._entries.get(key)
        if acks is not None:
            return acks
        size = batch_size if batch_index >= 0 else i64(0)
        unacked = 1 if size == 0 else all_unacked(size)
        return self.find(key_ledger(key), key_entry(key), size, unacked)

    def check_id(self, key: int, batch_index: i64, batch_size: i64) -> None:
        """Raises BatchIndexError for an index that cannot be placed in its batch."""
        if batch_index < 0:
            return
        reason = ""
        known = self._entries.get(key)
        if batch_size == 0:
            reason = (
                f"the id has index {batch_index} but not the size of its batch, so it cannot be "
                "acked by itself: acknowledge the message, or an id that tells the size"
            )
        elif known is not None and known.contradicts(batch_size):
            reason = f"a batch of {known.batch_size} messages, not of {batch_size}"
        elif batch_index >= batch_size or batch_size > BATCH_SIZE_MAX:
            reason = f"no index {batch_index} in a batch of {batch_size}"
        if reason:
            raise BatchIndexError(key_ledger(key), key_entry(key), reason)

    def acknowledge(self, acks: EntryAcks, index: i64) -> bool:
        """Acks one message, or with index -1 the entry. Says whether nothing is left of it.

        An ack that repeats another is sent once more: the first may have failed.
        """
        if index < 0 or acks.batch_size == 0:
            acks.clear_all()
        else:
            acks.clear(index)
        if not acks.pending:
            acks.pending = True
            self._pending.append(acks)
        return acks.left == 0

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
        if newest is None or not newest.reaches(cumulative):
            self._cumulative = cumulative

    def joined(self, done: Done | None, *, cumulative: bool = False) -> bool:
        """Ends a call: `done` waits for the group, and the group may be full.

        Says whether something falls due now that did not before.
        """
        sooner = False
        if self._receipts or done is None:
            (self._cumulative_waiting if cumulative else self._waiting).add(done)
        if self._group_time_ms == 0 or self.group_size() >= self._group_size_max:
            self.flush()
            sooner = self._receipts
        elif self._due_ms is None:
            self._due_ms = self._now_ms() + self._group_time_ms
            sooner = True
        if done is not None and not self._receipts:
            done(None)
        return sooner

    def group_size(self) -> i64:
        """How many entries the group names, plainly or by index."""
        return len(self._pending) + (0 if self._cumulative is None else 1)

    # ---- What came again -----------------------------------------------------

    def unacked_of(self, ledger_id: i64, entry_id: i64, batch_size: i64, unacked: int) -> int:
        """What an entry just delivered has that was not acked here too.

        `unacked` is what the broker says. It ends what is idle, and adds to the rest.
        """
        if self._entries:
            key = entry_key(ledger_id, entry_id)
            acks = self._entries.get(key)
            if acks is not None:
                if acks.idle or acks.contradicts(batch_size):
                    self._drop(acks)
                else:
                    acks.keep(unacked)
                    if acks.unacked() != unacked:
                        acks.held_back = True
                        unacked = acks.unacked()
        if self._cumulative is not None or self._cumulatives_in_flight:
            unacked = self._beyond_cumulative(entry_key(ledger_id, entry_id), unacked)
        return unacked

    def _beyond_cumulative(self, key: int, unacked: int) -> int:
        if self._cumulative is not None:
            unacked = self._cumulative.hold_back(key, unacked)
        if self._cumulatives_in_flight:
            for flight in self._flights.values():
                if flight.cumulative is not None:
                    unacked = flight.cumulative.hold_back(key, unacked)
        return unacked

    def is_acked(self, key: int, index: i64) -> bool:
        """Whether the message was acked here, as far as is remembered."""
        acks = self._entries.get(key)
        return acks is not None and acks.is_acked(index)

    def forget(self, key: int) -> None:
        """The entry goes back to the broker: what it delivers next begins anew."""
        acks = self._entries.get(key)
        if acks is not None and acks.idle:
            self._drop(acks)

    def forget_idle(self) -> None:
        for acks in list(self._entries.values()):
            if acks.idle:
                self._drop(acks)

    def _drop(self, acks: EntryAcks) -> None:
        acks.live = False
        del self._entries[acks.key]

    def _evict(self) -> None:
        """Forgets the oldest idle records. So rarely that each costs next to nothing."""
        idle = [acks for acks in self._entries.values() if acks.idle]
        for acks in idle[: max(len(idle) - self._idle_max, 0)]:
            self._drop(acks)
        self._evict_at = len(self._entries) + self._idle_max

    # ---- Sending -------------------------------------------------------------

    def next_ms(self) -> int | None:
        """When the group is to be sent, or an answer has not come in time."""
        if not self._connected:
            return None
        due_ms = self._due_ms
        for flight in self._flights.values():
            # The first is the oldest.
            return flight.due_ms if due_ms is None else min(due_ms, flight.due_ms)
        return due_ms

    def tick(self, now_ms: int) -> None:
        for request_id, flight in list(self._flights.items()):
            if flight.due_ms > now_ms:
                break
            del self._flights[request_id]
            self._unanswered(flight, Timeout(_no_answer(self._receipt_timeout_ms)))
        if self._due_ms is not None and self._due_ms <= now_ms:
            self.flush()

    def flush(self) -> None:
        """Sends what is pending, if there is a connection."""
        if not self._connected:
            return
        self._due_ms = None
        commands: list[Command] = []
        if self._cumulative is not None:
            self._send_cumulative(self._cumulative, commands)
        if self._pending:
            self._send_individual(commands)
        if commands:
            self._write(commands)

    def _send_cumulative(self, cumulative: Cumulative, commands: list[Command]) -> None:
        id = MessageIdData(
            cumulative.ledger_id,
            cumulative.entry_id,
            ack_set=self._bits_of(cumulative),
            batch_size=cumulative.batch_size if cumulative.index >= 0 else 0,
        )
        waiting = self._cumulative_waiting
        self._cumulative = None
        self._cumulative_waiting = _Waiting()
        for acks in list(self._entries.values()):
            if acks.idle and not cumulative.unacked(acks.key, acks.unacked()):
                self._drop(acks)
        self._send(AckType.Cumulative, [id], [], cumulative, waiting, commands)

    def _bits_of(self, cumulative: Cumulative) -> int | None:
        if cumulative.index < 0:
            return None
        bits = cumulative.unacked(cumulative.key, all_unacked(cumulative.batch_size))
        acks = self._entries.get(cumulative.key)
        if acks is not None:
            bits &= acks.unacked()
        return bits if bits else None

    def _send_individual(self, commands: list[Command]) -> None:
        pending = self._pending
        waiting = self._waiting
        self._pending = []
        self._waiting = _Waiting()
        ids: list[MessageIdData] = []
        some: list[EntryAcks] = []
        size: i64 = 0
        for acks in pending:
            if len(ids) == COMMAND_IDS_MAX or size > COMMAND_BYTES_MAX:
                self._send(AckType.Individual, ids, some, None, waiting, commands)
                ids = []
                some = []
                size = 0
            acks.pending = False
            ids.append(_id_of(acks))
            # A word of 64 bits is written in at most eleven bytes.
            size += 32 if acks.left == 0 else 32 + acks.batch_size // 5
            if self._receipts:
                acks.in_flight += 1
                some.append(acks)
            elif acks.left == 0 and acks.live:
                self._drop(acks)
        self._send(AckType.Individual, ids, some, None, waiting, commands)

    def _send(
        self,
        ack_type: i64,
        ids: list[MessageIdData],
        acks: list[EntryAcks],
        cumulative: Cumulative | None,
        waiting: _Waiting,
        commands: list[Command],
    ) -> None:
        request_id: int | None = None
        if self._receipts:
            self._request_id += 1
            request_id = self._request_id
            waiting.commands += 1
            if cumulative is not None:
                self._cumulatives_in_flight += 1
            self._flights[request_id] = _Flight(
                waiting, acks, cumulative, self._now_ms() + self._receipt_timeout_ms
            )
        self.ids_sent += len(ids)
        commands.append(CommandAck(self._consumer_id, ack_type, ids, request_id))

    # ---- Answers -------------------------------------------------------------

    def answered(self, response: CommandAckResponse) -> None:
        """The broker's word on one ACK; of one that nobody waits for any more, nothing."""
        request_id = response.request_id
        flight = None if request_id is None else self._flights.pop(request_id, None)
        if flight is None:
            return
        self._landed(flight)
        error: Exception | None = None
        if response.error is not None:
            error = error_of(response.error, response.message or "the ack was refused")
            self._failed(flight)
        else:
            for acks in flight.acks:
                if acks.left == 0 and acks.idle and acks.live:
                    self._drop(acks)
        flight.waiting.answered(error)

    @property
    def in_flight(self) -> int:
        """How many ACKs have no answer yet."""
        return len(self._flights)

    def _landed(self, flight: _Flight) -> None:
        for acks in flight.acks:
            acks.in_flight -= 1
        if flight.cumulative is not None:
            self._cumulatives_in_flight -= 1

    def _unanswered(self, flight: _Flight, error: Exception) -> None:
        """Nobody knows whether the broker has it: who waits is told, the rest goes again."""
        self._landed(flight)
        if flight.waiting.unwatched:
            self._put_back(flight)
        else:
            self._failed(flight)
        flight.waiting.answered(error)

    def _failed(self, flight: _Flight) -> None:
        self.acks_failed += 1
        for acks in flight.acks:
            if acks.held_back and acks.live:
                acks.held_back = False
                self._held_back.append(acks.key)
        cumulative = flight.cumulative
        if cumulative is not None and cumulative.held_back:
            self._held_back.append(cumulative.key)

    def take_held_back(self) -> list[int]:
        """Entries that were dropped as duplicates of what was not acked after all."""
        keys = self._held_back
        if keys:
            self._held_back = []
        return keys

    def _put_back(self, flight: _Flight) -> None:
        for acks in flight.acks:
            if acks.live and not acks.pending:
                acks.pending = True
                self._pending.append(acks)
                self._waiting.unwatched = True
        cumulative = flight.cumulative
        if cumulative is not None:
            self._cumulative_waiting.unwatched = True
            if self._cumulative is None or not self._cumulative.reaches(cumulative):
                self._cumulative = cumulative
        if self._connected and self._due_ms is None:
            self._due_ms = self._now_ms() + self._group_time_ms

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
        for flight in flights:
            self._unanswered(flight, ConnectError(_LOST))

    def clear(self, error: Exception | None = None) -> None:
        """Forgets everything, as a seek does; who waits is told."""
        if error is None:
            error = Interrupted(_SOUGHT)
        for acks in self._entries.values():
            acks.live = False
        self._entries.clear()
        self.chunks.clear()
        self._pending = []
        self._cumulative = None
        self._due_ms = None
        self._cumulatives_in_flight = 0
        waiting = [flight.waiting for flight in self._flights.values()]
        waiting.append(self._cumulative_waiting)
        waiting.append(self._waiting)
        self._flights.clear()
        self._waiting = _Waiting()
        self._cumulative_waiting = _Waiting()
        for one in waiting:
            one.finish(error)


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


def _id_of(acks: EntryAcks) -> MessageIdData:
    if acks.left == 0:
        return MessageIdData(acks.ledger_id, acks.entry_id)
    return MessageIdData(
        acks.ledger_id, acks.entry_id, ack_set=acks.unacked(), batch_size=acks.batch_size
    )
