"""Acks that leave in groups: gathered, written, and in flight until they are answered.

What is sent of an entry is always all that is known: the broker ANDs it, so sending more
than the news costs nothing, and once nothing is left the entry is acked plainly. A broker
that does not ack batch indexes loses nothing then.

Of cumulative acks only the newest is kept. It carries the bits of its own id, less what
was acked one by one, for some brokers would forget the latter otherwise.

A group ends by count, by time or by `flush`. It becomes one ACK for the cumulative ack and
one or more for the entries, each of them a `Flight` if it asks for an answer. An entry has one
flight at a time, so that a refusal says of each of its messages whether it is acked; what is
acked of it meanwhile is its `more`, and follows. With retries the cumulative ack has one too.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.counts import AckCounts
from magnetar.client.ack.entry_acks import Cumulative, Done, EntryAcks, Stake, Waiter
from magnetar.client.ack.entry_key import entry_key, key_entry, key_ledger
from magnetar.client.ack.records import IDLE_MAX, AckRecords
from magnetar.client.ack.retry import CUMULATIVE, AckRetries
from magnetar.client.option.options import PENDING_MAX
from magnetar.errors import MemoryBufferIsFull
from magnetar.model.enums import AckType
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol.ack import CommandAck
from magnetar.protocol.command import Command
from magnetar.wire.ack_set import all_unacked

__all__ = ["RECEIPT_TIMEOUT_MS", "AckOutbox", "AckSettings", "Flight"]

# What one ACK may hold: a command must stay well below the frame limit of 5 MiB, and a
# reader takes 250,000 fields.
COMMAND_IDS_MAX: Final = 10_000
# A message of so many chunks, of three fields each, is still acked by one ACK.
COMMAND_CHUNKS_MAX: Final = 80_000
COMMAND_BYTES_MAX: Final = 1 << 20
# As long as a client waits for the answer to any request, unless it is told otherwise.
RECEIPT_TIMEOUT_MS: Final = 30_000
# How many times the limit may be exceeded by acks of what was not delivered here.
CROWD_FACTOR: Final = 10


@final
class AckSettings:
    """How acks gather, whether callers wait for the broker's word, and what is remembered.

    From `pending_max` unconfirmed acks on, those who retry should get no more messages.
    """

    def __init__(
        self,
        *,
        group_time_ms: i64,
        group_size_max: i64,
        receipts: bool,
        receipt_timeout_ms: i64 = RECEIPT_TIMEOUT_MS,
        idle_max: i64 = IDLE_MAX,
        pending_max: i64 = PENDING_MAX,
    ) -> None:
        self.group_time_ms: Final[i64] = group_time_ms
        self.group_size_max: Final[i64] = group_size_max
        self.receipts: Final[bool] = receipts
        self.receipt_timeout_ms: Final[i64] = receipt_timeout_ms
        self.idle_max: Final[i64] = idle_max
        self.pending_max: Final[i64] = pending_max


@final
class Flight:
    """One ACK that asked for an answer, and what it named."""

    def __init__(
        self,
        acks: list[EntryAcks],
        ids: list[MessageIdData],
        cumulative: Cumulative | None,
        begun_ms: int,
        due_ms: int,
    ) -> None:
        self.acks: Final = acks
        self.ids: Final = ids
        self.cumulative: Final = cumulative
        self.begun_ms: Final = begun_ms
        self.due_ms: Final = due_ms

    def left(self, at: i64) -> int:
        """What it left unacked of the entry that it names there."""
        return self.ids[at].ack_set or 0


class AckOutbox(AckRecords):
    """What is to be sent, and what was sent and has no answer. See `AckTracker`."""

    def __init__(
        self,
        consumer_id: i64,
        settings: AckSettings,
        *,
        now_ms: Callable[[], int],
        write: Callable[[list[Command]], None],
        retries: AckRetries | None = None,
    ) -> None:
        super().__init__(settings.idle_max)
        self._consumer_id: Final[i64] = consumer_id
        self._group_time_ms: Final[i64] = settings.group_time_ms
        self._group_size_max: Final[i64] = settings.group_size_max
        self._pending_max: Final[i64] = settings.pending_max
        # Whether callers wait for answers, and whether there are any.
        self._waits: Final[bool] = settings.receipts
        self._receipts: Final[bool] = settings.receipts or retries is not None
        self._retries: Final = retries
        self._now_ms: Final = now_ms
        self._write: Final = write
        self._receipt_timeout_ms: Final[i64] = settings.receipt_timeout_ms
        self._connected: bool = False
        self._pending: list[EntryAcks] = []
        # What the current call acked, entries and indexes, and all who wait.
        self._called: list[EntryAcks] = []
        self._called_indexes: list[int] = []
        self._waiters: dict[Waiter, None] = {}
        self._cumulative: Cumulative | None = None
        # With retries: one is in flight, or it waits to be sent again.
        self._cumulative_busy: bool = False
        self._flights: dict[int, Flight] = {}
        self._ids_in_flight: i64 = 0
        self._cumulatives_in_flight: i64 = 0
        self._request_id: i64 = 0
        self._due_ms: int | None = None
        self.counts: Final = AckCounts()

    # ---- Gathering -----------------------------------------------------------

    def acknowledge(self, acks: EntryAcks, index: i64) -> bool:
        """Acks one message, or with index -1 the entry. Says whether nothing is left of it.

        An ack that repeats another is sent once more, and answered by itself.
        """
        if index < 0 or acks.batch_size == 0:
            acks.ack_all()
        else:
            acks.clear(index)
        if not acks.pending:
            if acks.waiting or acks.in_flight > 0:
                acks.more = True
            else:
                self._add(acks)
        if self._waits:
            self._called.append(acks)
            self._called_indexes.append(index)
        return acks.left == 0

    def ack_chunks(self, keys: list[int], *, all_known: bool = True) -> None:
        """A message in chunks is acked, all of them; if `keys` lacks some, the broker knows."""
        chunks = [self.find_id(key, -1, 0) for key in keys]
        if not all_known:
            chunks[-1].first_key = keys[0]
        for acks in chunks:
            acks.chunks = chunks if len(keys) <= COMMAND_CHUNKS_MAX else None
            self.acknowledge(acks, -1)
        self.chunks.pop(keys[-1], None)
        if self._receipts:
            self._remember_acked(keys)

    def joined(self, done: Done | None, *, cumulative: bool = False) -> bool:
        """Ends a call: `done` waits for what it acked, and the group may be full.

        Says whether something falls due now that did not before.
        """
        sooner = False
        if self._waits:
            self._wait(done, cumulative)
        if self._group_time_ms == 0 or self.group_size() >= self._group_size_max:
            self.flush()
            sooner = self._receipts
        elif self._due_ms is None:
            self._due_ms = self._now_ms() + self._group_time_ms
            sooner = True
        if done is not None and not self._waits:
            done(None)
        return sooner

    def _wait(self, done: Done | None, cumulative: bool) -> None:
        called = self._called
        indexes = self._called_indexes
        self._called = []
        self._called_indexes = []
        if done is None:
            return
        waiter = Waiter(done, 1 if cumulative else len(called))
        if cumulative:
            newest = self._cumulative
            assert newest is not None
            newest.waiters.append(waiter)
        elif not called:
            done(None)
            return
        for acks, index in zip(called, indexes, strict=True):
            if acks.stakes is None:
                acks.stakes = []
            acks.stakes.append(Stake(waiter, index))
        self._waiters[waiter] = None

    def group_size(self) -> i64:
        """How many entries the group names, plainly or by index."""
        count: i64 = len(self._pending)
        if self._cumulative is not None and not self._cumulative_busy:
            count += 1
        return count

    def _add(self, acks: EntryAcks) -> None:
        acks.pending = True
        self._pending.append(acks)

    def _withdraw(self, acks: EntryAcks) -> None:
        """It is not to be sent after all."""
        acks.pending = False
        self._pending.remove(acks)

    def _gather(self) -> None:
        """Begins a group, if something is pending that did not join one."""
        if self._connected and self._due_ms is None and self.group_size() > 0:
            self._due_ms = self._now_ms() + self._group_time_ms

    def _begun_ms(self) -> int:
        """When the first ack of the group was made."""
        if self._due_ms is None:
            return self._now_ms()
        return self._due_ms - self._group_time_ms

    # ---- How much there is ---------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether callers wait for the broker's word."""
        return self._waits

    @property
    def in_flight(self) -> int:
        """How many ACKs have no answer yet."""
        return len(self._flights)

    @property
    def waiting(self) -> int:
        """How many acks wait to be sent again."""
        return 0 if self._retries is None else self._retries.waiting

    @property
    def unconfirmed(self) -> int:
        """How many acks are pending, in flight or waiting."""
        count = len(self._pending) + self._ids_in_flight + self.waiting
        # One that waits is counted already.
        alone = self._cumulative is not None and (
            self._retries is None or CUMULATIVE not in self._retries or not self._cumulative_busy
        )
        return count + 1 if alone else count

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
                    acks.known &= unacked
                    acks.through &= unacked
                    if acks.unacked() != unacked:
                        acks.held_back = True
                        unacked = acks.unacked()
        if self._cumulative is not None or self._cumulatives_in_flight:
            unacked = self._beyond_cumulative(entry_key(ledger_id, entry_id), unacked)
        return unacked

    def _beyond(self, key: int, unacked: int) -> int:
        """What no cumulative ack, pending or in flight, covers of an entry."""
        if self._cumulative is not None:
            unacked = self._cumulative.unacked(key, unacked)
        for flight in self._flights.values():
            if flight.cumulative is not None:
                unacked = flight.cumulative.unacked(key, unacked)
        return unacked

    def _beyond_cumulative(self, key: int, unacked: int) -> int:
        if self._cumulative is not None:
            unacked = self._cumulative.hold_back(key, unacked)
        if self._cumulatives_in_flight:
            for flight in self._flights.values():
                if flight.cumulative is not None:
                    unacked = flight.cumulative.hold_back(key, unacked)
        return unacked

    # ---- Sending -------------------------------------------------------------

    def flush(self) -> None:
        """Sends what is pending, if there is a connection."""
        if not self._connected:
            return
        begun_ms = self._begun_ms() if self._receipts else 0
        self._due_ms = None
        commands: list[Command] = []
        if self._cumulative is not None and not self._cumulative_busy:
            self._send_cumulative(self._cumulative, begun_ms, commands)
        if self._pending:
            pending = self._pending
            self._pending = []
            self._send_individual(pending, begun_ms, commands)
        if commands:
            self._write(commands)

    def _send_cumulative(
        self, cumulative: Cumulative, begun_ms: int, commands: list[Command]
    ) -> None:
        id = MessageIdData(
            cumulative.ledger_id,
            cumulative.entry_id,
            ack_set=self._bits_of(cumulative),
            batch_size=cumulative.batch_size if cumulative.index >= 0 else 0,
        )
        self._cumulative = None
        if self._retries is not None:
            self._cumulative_busy = True
            if self._retries.sent(CUMULATIVE):
                self.counts.retried += 1
        for acks in list(self._entries.values()):
            if acks.idle and not cumulative.unacked(acks.key, acks.unacked()):
                self._drop(acks)
        self._send(AckType.Cumulative, [id], [], cumulative, begun_ms, commands)

    def _bits_of(self, cumulative: Cumulative) -> int | None:
        if cumulative.index < 0:
            return None
        bits = cumulative.unacked(cumulative.key, all_unacked(cumulative.batch_size))
        acks = self._entries.get(cumulative.key)
        if acks is not None:
            bits &= acks.unacked()
        return bits if bits else None

    def _send_individual(
        self, pending: list[EntryAcks], begun_ms: int, commands: list[Command]
    ) -> None:
        ids: list[MessageIdData] = []
        some: list[EntryAcks] = []
        size: i64 = 0
        for acks in pending:
            if not acks.pending:
                continue
            count: i64 = 1 if acks.chunks is None else len(acks.chunks)
            if ids and (len(ids) + count > COMMAND_IDS_MAX or size > COMMAND_BYTES_MAX):
                self._send(AckType.Individual, ids, some, None, begun_ms, commands)
                ids = []
                some = []
                size = 0
            if acks.chunks is None:
                size += self._name(acks, ids, some)
                continue
            for chunk in acks.chunks:
                if chunk.pending or self._hasten(chunk):
                    size += self._name(chunk, ids, some)
        if ids:
            self._send(AckType.Individual, ids, some, None, begun_ms, commands)

    def _hasten(self, chunk: EntryAcks) -> bool:
        """Whether a chunk waited to be sent again; it goes now, with the others."""
        if not chunk.waiting or self._retries is None:
            return False
        self._retries.hasten(chunk.key)
        chunk.waiting = False
        return True

    def _name(self, acks: EntryAcks, ids: list[MessageIdData], some: list[EntryAcks]) -> i64:
        """Puts an entry into an ACK. Returns the most bytes that it may take there."""
        acks.pending = False
        ids.append(_id_of(acks))
        # A word of 64 bits is written in at most eleven bytes.
        size: i64 = 32 if acks.left == 0 else 32 + acks.batch_size // 5
        if self._receipts:
            acks.in_flight += 1
            acks.more = False
            acks.again = 0
            some.append(acks)
            retries = self._retries
            if retries is not None and retries.sent(acks.key):
                self.counts.retried += 1
        elif acks.left > 0:
            acks.known = acks.unacked()  # what is written counts as received
        elif acks.live:
            self._drop(acks)
        return size

    def _send(
        self,
        ack_type: i64,
        ids: list[MessageIdData],
        acks: list[EntryAcks],
        cumulative: Cumulative | None,
        begun_ms: int,
        commands: list[Command],
    ) -> None:
        request_id: int | None = None
        if self._receipts:
            self._request_id += 1
            request_id = self._request_id
            self._ids_in_flight += len(ids)
            if cumulative is not None:
                self._cumulatives_in_flight += 1
            due_ms = self._now_ms() + self._receipt_timeout_ms
            self._flights[request_id] = Flight(acks, ids, cumulative, begun_ms, due_ms)
        self.counts.sent += len(ids)
        commands.append(CommandAck(self._consumer_id, ack_type, ids, request_id))


def _id_of(acks: EntryAcks) -> MessageIdData:
    if acks.left == 0 and not acks.through:
        first: MessageIdData | None = None
        if acks.first_key >= 0:
            first = MessageIdData(key_ledger(acks.first_key), key_entry(acks.first_key))
        return MessageIdData(acks.ledger_id, acks.entry_id, first_chunk=first)
    left = acks.unacked() | acks.through
    return MessageIdData(acks.ledger_id, acks.entry_id, ack_set=left, batch_size=acks.batch_size)
