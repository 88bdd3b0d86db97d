"""Gathers what an operation wants acked, refuses what cannot be, and makes the delta.

A plan reads the cursor's state and changes nothing: if any id of a list is refused, the
list is, as a whole. What is durable already is left out of the delta, so an empty delta
means "answer success, there is nothing to write". What is only pending is *not* left out:
its write may fail, and this ack's answer must wait for a write that covers it.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.ack.acks import Acks
from magnetar.ack.delta import ENTRY_BITS, ENTRY_MASK, AckDelta, position_key
from magnetar.ack.ledger_acks import LedgerAcks
from magnetar.ack.ledgers import BatchSizes, Ledgers
from magnetar.ack.record import (
    is_complete,
    is_untouched,
    make_record,
    merge_records,
    record_size,
)
from magnetar.errors import BatchIndexError, NoSuchEntryError
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position import Position
from magnetar.wire.ack_set import BATCH_SIZE_MAX


@final
class AckPlan:
    """One ack delta in the making."""

    def __init__(self, ledgers: Ledgers, acks: Acks, mark_delete: Position) -> None:
        self._ledgers: Final = ledgers
        self._acks: Final = acks
        self._mark_delete: Final = mark_delete
        self._target: Position | None = None
        self._keys: list[int] = []
        self._records: dict[int, int] = {}

    def ack(self, id: MessageIdData) -> None:
        """What an ACK says: the indexes that are not in `ack_set`; without one, the entry."""
        if not self.exists(id.ledger_id, id.entry_id):
            return
        ack_set = id.ack_set
        if ack_set is None or ack_set == 0:
            self._keys.append(position_key(id.ledger_id, id.entry_id))
        elif not self._is_acked(id.ledger_id, id.entry_id):
            size = self._batch_size(id)
            self._add_record(id.ledger_id, id.entry_id, make_record(size, ack_set))

    def ack_message(self, id: MessageIdData) -> None:
        """What a message id names: the one index `batch_index`, or at -1 the entry."""
        index: int = id.batch_index  # no i64, which would wrap when shifted
        if index < -1:
            raise BatchIndexError(id.ledger_id, id.entry_id, f"no message has index {index}")
        if not self.exists(id.ledger_id, id.entry_id):
            return
        if index == -1:
            self._keys.append(position_key(id.ledger_id, id.entry_id))
        elif not self._is_acked(id.ledger_id, id.entry_id):
            size = self._batch_size(id)
            if index >= size:
                reason = f"no index {index} in a batch of {size}"
                raise BatchIndexError(id.ledger_id, id.entry_id, reason)
            self._add_record(id.ledger_id, id.entry_id, make_record(size, ~(1 << index)))

    def ack_through(self, id: MessageIdData, *, whole_entries: bool = False) -> None:
        """What a cumulative ACK says: all before the entry, and of the entry as `ack` does.

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

    def _add_record(self, ledger_id: int, entry_id: int, record: int) -> None:
        key = position_key(ledger_id, entry_id)
        before = self._records.get(key, 0)
        if before != 0:
            record = merge_records(before, record)
        self._records[key] = record
        if is_complete(record):
            self._keys.append(key)

    def exists(self, ledger_id: i64, entry_id: i64) -> bool:
        """Whether the entry is there; raises if it never was. False: it was trimmed."""
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
        floor = self._mark_delete if self._target is None else self._target
        floor_key = position_key(floor.ledger_id, floor.entry_id)
        records = self._new_records(floor_key) if self._records else ()
        return AckDelta(epoch, self._target, tuple(self._new_entries(floor_key)), records)

    def _new_entries(self, floor: int) -> list[int]:
        """The keys in order, without repeats and without what is durably acked."""
        self._keys.sort()
        fresh: list[int] = []
        last = floor
        ledger_id = -1
        acks: LedgerAcks | None = None
        for key in self._keys:
            if key <= last:
                continue
            last = key
            if key >> ENTRY_BITS != ledger_id:
                ledger_id = key >> ENTRY_BITS
                acks = self._acks.ledger(ledger_id)
            if acks is None or key & ENTRY_MASK not in acks.entries:
                fresh.append(key)
        return fresh

    def _new_records(self, floor: int) -> tuple[tuple[int, int], ...]:
        """The records in order, without those that ack nothing more than is durably acked."""
        whole = set(self._keys)
        fresh: list[tuple[int, int]] = []
        for key in sorted(self._records):
            record = self._records[key]
            if key <= floor or key in whole or is_untouched(record):
                continue
            before = self._acks.record(key >> ENTRY_BITS, key & ENTRY_MASK)
            if before == 0 or merge_records(before, record) != before:
                fresh.append((key, record))
        return tuple(fresh)


def known_batch_size(
    sizes: BatchSizes, acks: Acks, ledger_id: i64, entry_id: i64, claimed: i64
) -> i64:
    """How many messages the entry has: as known here, else as the peer claims.

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
