"""Acks that leave in groups: gathered, written, and in flight until they are answered.

What is sent of an entry is always all that is known: the broker ANDs it, so sending more
than the news costs nothing, and once nothing is left the entry is acked plainly. A broker
that does not ack batch indexes loses nothing then; it does not hide parts of batches either.

Of cumulative acks only the newest is kept. It carries the bits of its own id, less what
was acked one by one, for some brokers would forget the latter otherwise.

A group ends by count, by time or by `flush`. It becomes one ACK for the cumulative ack and
one or more for the entries, each of them a `Flight` if it asks for an answer. An entry has one
flight at a time, so that a refusal says of each of its messages whether it is acked; what is
acked of it meanwhile follows. With retries the cumulative ack has one too.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.counts import AckCounts
from magnetar.client.ack.cumulatives import Cumulatives
from magnetar.client.ack.entry_acks import Cumulative, EntryAcks
from magnetar.client.ack.entry_state import (
    ADDED,
    DROPPED,
    DUE,
    HURRIED,
    IDLE,
    PENDING,
    SENT,
    WAITING,
    WRITTEN,
)
from magnetar.client.ack.flights import Flight, Flights
from magnetar.client.ack.records import AckRecords
from magnetar.client.ack.retry import CUMULATIVE, AckRetries
from magnetar.client.ack.settings import AckSettings
from magnetar.model.enums import AckType
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position_key import wide_key_entry, wide_key_ledger
from magnetar.protocol.ack import CommandAck
from magnetar.protocol.command import Command
from magnetar.wire.ack_set import all_unacked

__all__ = ["AckOutbox"]

# What one ACK may hold: a command must stay well below the frame limit of 5 MiB, and a
# reader takes 250,000 fields.
COMMAND_IDS_MAX: Final = 10_000
COMMAND_BYTES_MAX: Final = 1 << 20


@final
class AckOutbox:
    """What is to be sent, and what was sent and has no answer. See `AckTracker`."""

    def __init__(
        self,
        consumer_id: i64,
        settings: AckSettings,
        *,
        records: AckRecords,
        retries: AckRetries | None,
        counts: AckCounts,
        now_ms: Callable[[], int],
        write: Callable[[list[Command]], None],
    ) -> None:
        self._consumer_id: Final[i64] = consumer_id
        self._group_time_ms: Final[i64] = settings.group_time_ms
        self._group_size_max: Final[i64] = settings.group_size_max
        self._receipt_timeout_ms: Final[i64] = settings.receipt_timeout_ms
        # Whether there are answers.
        self._receipts: Final[bool] = settings.receipts or retries is not None
        self._records: Final = records
        self._retries: Final = retries
        self._counts: Final = counts
        self._now_ms: Final = now_ms
        self._write: Final = write
        self.connected: bool = False
        self._pending: list[EntryAcks] = []
        # When the group is to be sent.
        self.due_ms: int | None = None
        self.flights: Final = Flights()
        self.cumulatives: Final = Cumulatives(self.flights, retries)

    # ---- Gathering -----------------------------------------------------------

    def add(self, acks: EntryAcks) -> None:
        """Adds an entry of which there is something to send: it joins the group, or follows its
        ACK."""
        if acks.state == PENDING:
            return
        if acks.state == IDLE:
            self._pending.append(acks)
        acks.move(ADDED)

    def join(self, acks: EntryAcks, event: i64) -> None:
        """An event puts an entry into the group."""
        acks.move(event)
        self._pending.append(acks)

    def withdraw(self, acks: EntryAcks) -> None:
        """Takes an entry out that is not to be sent after all."""
        if acks.state == PENDING:
            self._pending.remove(acks)
        acks.move(DROPPED)

    def end_call(self) -> bool:
        """Ends a call that has acked something, after which the group may be full.

        Says whether something falls due now that did not before.
        """
        if self._group_time_ms == 0 or self.group_size() >= self._group_size_max:
            self.flush()
            return self._receipts
        if self.due_ms is None:
            self.due_ms = self._now_ms() + self._group_time_ms
            return True
        return False

    def gather(self) -> None:
        """Begins a group, if something is pending that did not join one."""
        if self.connected and self.due_ms is None and self.group_size() > 0:
            self.due_ms = self._now_ms() + self._group_time_ms

    def group_size(self) -> i64:
        """Returns how many entries the group names, plainly or by index."""
        count: i64 = len(self._pending)
        if self.cumulatives.newest is not None and not self.cumulatives.busy:
            count += 1
        return count

    def _begun_ms(self) -> int:
        """Returns when the first ack of the group was made."""
        if self.due_ms is None:
            return self._now_ms()
        return self.due_ms - self._group_time_ms

    @property
    def unconfirmed(self) -> int:
        """How many acks are pending, in flight or waiting."""
        count = len(self._pending) + self.flights.ids
        # A cumulative one that waits is counted already.
        alone = self.cumulatives.newest is not None
        if self._retries is not None:
            count += self._retries.waiting
            if CUMULATIVE in self._retries and self.cumulatives.busy:
                alone = False
        return count + 1 if alone else count

    # ---- The connection ------------------------------------------------------

    def connect(self) -> None:
        """Sends what was acked meanwhile. What is not acked comes again by itself."""
        self.connected = True
        for acks in self._pending:
            acks.held_back = False
        if self.cumulatives.newest is not None:
            self.cumulatives.newest.held_back = False
        self.flush()

    def disconnect(self) -> list[Flight]:
        """Returns the ACKs that will not be answered any more."""
        self.connected = False
        self.due_ms = None
        return self.flights.end_all()

    def clear(self) -> None:
        """Forgets everything."""
        self._pending = []
        self.due_ms = None
        self.cumulatives.clear()
        self.flights.end_all()

    # ---- Sending -------------------------------------------------------------

    def flush(self) -> None:
        """Sends what is pending, if there is a connection."""
        if not self.connected:
            return
        begun_ms = self._begun_ms() if self._receipts else 0
        self.due_ms = None
        commands: list[Command] = []
        newest = self.cumulatives.newest
        if newest is not None and not self.cumulatives.busy:
            self._send_cumulative(newest, begun_ms, commands)
        if self._pending:
            pending = self._pending
            self._pending = []
            self._send_individual(pending, begun_ms, commands)
        if commands:
            self._write(commands)

    def send_apart(self, parts: list[list[EntryAcks]], begun_ms: int) -> None:
        """Sends entries whose ACK failed again at once, each part in ACKs of its own."""
        commands: list[Command] = []
        for part in parts:
            for acks in part:
                acks.move(ADDED)
            self._send_individual(part, begun_ms, commands)
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
        self.cumulatives.newest = None
        if self._retries is not None:
            self.cumulatives.busy = True
            if self._retries.sent(CUMULATIVE):
                self._counts.retried += 1
        for acks in self._records.all():
            if acks.state == IDLE and not cumulative.unacked(acks.key, acks.unacked()):
                self._records.drop(acks)
        self._send(AckType.Cumulative, [id], [], cumulative, begun_ms, commands)

    def _bits_of(self, cumulative: Cumulative) -> int | None:
        if cumulative.index < 0:
            return None
        bits = cumulative.unacked(cumulative.key, all_unacked(cumulative.batch_size))
        acks = self._records.get(cumulative.key)
        if acks is not None:
            bits &= acks.unacked() | acks.hidden
        return bits if bits else None

    def _send_individual(
        self, pending: list[EntryAcks], begun_ms: int, commands: list[Command]
    ) -> None:
        ids: list[MessageIdData] = []
        some: list[EntryAcks] = []
        size: i64 = 0
        for acks in pending:
            if acks.state != PENDING and acks.state != HURRIED:
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
                self._hasten(chunk)
                if chunk.state == PENDING or chunk.state == HURRIED:
                    size += self._name(chunk, ids, some)
        if ids:
            self._send(AckType.Individual, ids, some, None, begun_ms, commands)

    def _hasten(self, chunk: EntryAcks) -> None:
        """A chunk that waits to be sent again goes now, with the others."""
        if chunk.state == WAITING and self._retries is not None:
            self._retries.hasten(chunk.key)
            chunk.move(DUE)

    def _name(self, acks: EntryAcks, ids: list[MessageIdData], some: list[EntryAcks]) -> i64:
        """Puts an entry into an ACK. Returns the most bytes that it may take there."""
        ids.append(_id_of(acks))
        # A word of 64 bits is written in at most eleven bytes.
        size: i64 = 32 if acks.left == 0 else 32 + acks.batch_size // 5
        if not self._receipts:
            acks.move(WRITTEN)
            if acks.left > 0:
                acks.known = acks.unacked()
            elif acks.owner is not None:
                self._records.drop(acks)
            return size
        acks.move(SENT)
        acks.again = 0
        some.append(acks)
        if self._retries is not None and self._retries.sent(acks.key):
            self._counts.retried += 1
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
            due_ms = self._now_ms() + self._receipt_timeout_ms
            request_id = self.flights.begin(Flight(acks, ids, cumulative, begun_ms, due_ms))
        self._counts.sent += len(ids)
        commands.append(CommandAck(self._consumer_id, ack_type, ids, request_id))


def _id_of(acks: EntryAcks) -> MessageIdData:
    if acks.left == 0 and not acks.through and not acks.hidden:
        first: MessageIdData | None = None
        if acks.first_key >= 0:
            first = MessageIdData(wide_key_ledger(acks.first_key), wide_key_entry(acks.first_key))
        return MessageIdData(acks.ledger_id, acks.entry_id, first_chunk=first)
    left = acks.unacked() | acks.through | acks.hidden
    return MessageIdData(acks.ledger_id, acks.entry_id, ack_set=left, batch_size=acks.batch_size)
