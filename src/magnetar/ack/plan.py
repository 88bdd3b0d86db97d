"""Gathers what an operation wants acked, refuses what cannot be, and makes the delta.

A plan reads the cursor's state and changes nothing: if any id of a list is refused, the
list is, as a whole. What is durable already is left out of the delta, so an empty delta
means "answer success, there is nothing to write". What is only pending is *not* left out:
its write may fail, and this ack's answer must wait for a write that covers it.

A few bytes of an id can stand for a bitset of 128 KiB, so a plan takes no more of them than
it was told to: beyond that it raises AckSizeError before it has built them.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.ack.acks import Acks
from magnetar.ack.delta import AckDelta, LedgerDelta
from magnetar.ack.ledgers import ENTRY_COUNT_MAX, BatchSizes, Ledgers
from magnetar.ack.record import (
    is_complete,
    is_untouched,
    make_record,
    merge_records,
    record_bytes,
    record_size,
)
from magnetar.errors import AckSizeError, BatchIndexError, NoSuchEntryError
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position import Position
from magnetar.wire.ack_set import BATCH_SIZE_MAX

# What the parts of batches in one plan take at most, unless it is told otherwise: 120,000
# batches of 1000 messages.
RECORD_BYTES_MAX: Final = 32 << 20


@final
class AckPlan:
    """One ack delta in the making."""

    def __init__(
        self,
        ledgers: Ledgers,
        acks: Acks,
        mark_delete: Position,
        record_bytes_max: i64 = RECORD_BYTES_MAX,
    ) -> None:
        self._ledgers: Final = ledgers
        self._acks: Final = acks
        self._mark_delete: Final = mark_delete
        self._target: Position | None = None
        # By ledger: entries to be acked, as they come; the ledger of the last, and its list.
        self._entries: Final[dict[int, list[int]]] = {}
        self._ledger_id: i64 = -1
        self._ledger_entries: list[int] = []
        # By ledger and entry: the records of batches of which a part is to be acked.
        self._records: Final[dict[int, dict[int, int]]] = {}
        self._record_bytes_max: Final[i64] = record_bytes_max
        # Of all that was asked for, repeats included: it is work as much as it is memory.
        self._record_bytes: i64 = 0
        # Of what the delta has.
        self._delta_bytes: i64 = 0
        self._growth: i64 = 0

    def ack(self, id: MessageIdData) -> None:
        """Plans what an ACK says: the indexes that are not in `ack_set`; without one, the entry."""
        if not self.exists(id.ledger_id, id.entry_id):
            return
        ack_set = id.ack_set
        if ack_set is None or ack_set == 0:
            self._add_entry(id.ledger_id, id.entry_id)
        elif not self._is_acked(id.ledger_id, id.entry_id):
            size = self._batch_size(id)
            self._spend(size)
            self._add_record(id.ledger_id, id.entry_id, make_record(size, ack_set))

    def ack_message(self, id: MessageIdData) -> None:
        """Plans what a message id names: the one index `batch_index`, or at -1 the entry."""
        index: int = id.batch_index  # no i64, which would wrap when shifted
        if index < -1:
            raise BatchIndexError(id.ledger_id, id.entry_id, f"no message has index {index}")
        if not self.exists(id.ledger_id, id.entry_id):
            return
        if index == -1:
            self._add_entry(id.ledger_id, id.entry_id)
        elif not self._is_acked(id.ledger_id, id.entry_id):
            size = self._batch_size(id)
            if index >= size:
                reason = f"no index {index} in a batch of {size}"
                raise BatchIndexError(id.ledger_id, id.entry_id, reason)
            self._spend(size)
            self._add_record(id.ledger_id, id.entry_id, make_record(size, ~(1 << index)))

    def ack_through(self, id: MessageIdData, *, whole_entries: bool = False) -> None:
        """Plans what a cumulative ACK says: all before the entry, and of the entry what `ack` does.

        With `whole_entries` a part of the entry is not acked. Entry -1 is fine here and means
        all before the ledger: a client that does not ack indexes acks the previous entry
        instead, and subtracts one.
        """
        position = Position(id.ledger_id, id.entry_id)
        if id.entry_id == -1:
            if self._has_ledger(id.ledger_id, -1):
                self.move(self._ledgers.previous(position))
        elif self.exists(id.ledger_id, id.entry_id):
            if id.ack_set is None or id.ack_set == 0:
                self.move(position)
            else:
                self.move(self._ledgers.previous(position))
                if not whole_entries:
                    self.ack(id)

    def move(self, target: Position) -> None:
        """Moves mark-delete to `target`, unless it stands there or further on."""
        following = self._ledgers.next(self._mark_delete)
        if following is not None and target >= following:
            self._target = target

    def _add_entry(self, ledger_id: i64, entry_id: i64) -> None:
        if ledger_id != self._ledger_id:
            self._ledger_id = ledger_id
            self._ledger_entries = self._entries.setdefault(ledger_id, [])
        self._ledger_entries.append(entry_id)

    def _spend(self, size: i64) -> None:
        self._record_bytes += record_bytes(size)
        if self._record_bytes > self._record_bytes_max:
            raise AckSizeError(self._record_bytes_max)

    def _add_record(self, ledger_id: int, entry_id: int, record: int) -> None:
        records = self._records.setdefault(ledger_id, {})
        before = records.get(entry_id, 0)
        if before != 0:
            record = merge_records(before, record)
        records[entry_id] = record
        if is_complete(record):
            self._add_entry(ledger_id, entry_id)

    def exists(self, ledger_id: i64, entry_id: i64) -> bool:
        """Returns whether the entry is there; raises if it never was. False: it was trimmed."""
        count = self._ledgers.entry_count(ledger_id)
        if 0 <= entry_id < count:
            return True
        if not self._has_ledger(ledger_id, entry_id) and entry_id >= 0:
            return False
        raise NoSuchEntryError(ledger_id, entry_id, f"the ledger has {max(count, 0)} entries")

    def _has_ledger(self, ledger_id: i64, entry_id: i64) -> bool:
        if self._ledgers.entry_count(ledger_id) >= 0:
            return True
        if ledger_id >= 0 and self._ledgers.was_trimmed(ledger_id):
            return False
        raise NoSuchEntryError(ledger_id, entry_id, "it never had this ledger")

    def _is_acked(self, ledger_id: int, entry_id: int) -> bool:
        if Position(ledger_id, entry_id) <= self._mark_delete:
            return True
        return self._acks.is_acked(ledger_id, entry_id)

    def _batch_size(self, id: MessageIdData) -> i64:
        return known_batch_size(
            self._ledgers.sizes, self._acks, id.ledger_id, id.entry_id, id.batch_size
        )

    def delta(self, epoch: i64) -> AckDelta:
        """Returns what is asked for, without repeats and without what is durably acked."""
        ledger_ids = list(self._entries)
        if self._records:
            ledger_ids.extend([id for id in self._records if id not in self._entries])
        if len(ledger_ids) > 1:
            ledger_ids.sort()
        parts: list[LedgerDelta] = []
        for ledger_id in ledger_ids:
            first = self._first(ledger_id)
            entries = self._new_entries(ledger_id, first)
            records = self._new_records(ledger_id, first) if self._records else ()
            if entries or records:
                parts.append((ledger_id, entries, records))
        return AckDelta(
            epoch,
            self._target,
            tuple(parts),
            record_bytes=self._delta_bytes,
            growth=self._growth,
        )

    def _first(self, ledger_id: i64) -> i64:
        """Returns the first entry of a ledger that mark-delete does not cover, once it has
        moved."""
        floor = self._mark_delete if self._target is None else self._target
        if ledger_id < floor.ledger_id:
            return ENTRY_COUNT_MAX
        return floor.entry_id + 1 if ledger_id == floor.ledger_id else 0

    def _new_entries(self, ledger_id: int, first: i64) -> tuple[int, ...]:
        asked = self._entries.get(ledger_id)
        if asked is None:
            return ()
        asked.sort()
        acks = self._acks.ledger(ledger_id)
        fresh: list[int] = []
        last = first - 1
        for entry_id in asked:
            if entry_id > last:
                last = entry_id
                if acks is None or entry_id not in acks.entries:
                    fresh.append(entry_id)
        return tuple(fresh)

    def _new_records(self, ledger_id: int, first: i64) -> tuple[tuple[int, int], ...]:
        """Also without those that ack nothing more than is durably acked."""
        records = self._records.get(ledger_id, {})
        whole = set(self._entries.get(ledger_id, []))
        fresh: list[tuple[int, int]] = []
        for entry_id in sorted(records):
            record = records[entry_id]
            if entry_id < first or entry_id in whole or is_untouched(record):
                continue
            before = self._acks.record(ledger_id, entry_id)
            if before == 0 or merge_records(before, record) != before:
                fresh.append((entry_id, record))
                size = record_bytes(record_size(record))
                self._delta_bytes += size
                if before == 0:
                    self._growth += size
        return tuple(fresh)


def known_batch_size(
    sizes: BatchSizes, acks: Acks, ledger_id: i64, entry_id: i64, claimed: i64
) -> i64:
    """Returns how many messages the entry has: as known here, else as the peer claims.

    Raises BatchIndexError if nobody knows, or if the peer is mistaken: what its bits mean
    would be a guess.
    """
    known = sizes.batch_size(ledger_id, entry_id)
    if known == 0:
        record = acks.record(ledger_id, entry_id)
        known = record_size(record) if record != 0 else 0
    if known > 0 and claimed > 0 and claimed != known:
        reason = f"a batch of {known} messages, not of {claimed}"
        raise BatchIndexError(ledger_id, entry_id, reason)
    size = known if known > 0 else claimed
    if size <= 0:
        raise BatchIndexError(ledger_id, entry_id, "the size of its batch is not known")
    if size > BATCH_SIZE_MAX:
        raise BatchIndexError(ledger_id, entry_id, f"no batch has {size} messages")
    return size
