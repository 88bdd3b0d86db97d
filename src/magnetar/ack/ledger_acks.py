"""The acks of one ledger: acked entries as a bitmap, partly acked batches as records.

This is the unit that a snapshot shares with the living state: `Acks` copies it before
the first change after a snapshot, so what a snapshot has seen never moves.

Beside the sets stand `messages`, how many messages they ack, and `record_bytes`, about how
much memory the records take. Every change carries the entry's size, so the numbers follow
without a walk; `Cursor.check` does the walk. A `Tally` has the bytes of all ledgers together.

A record of a million messages takes 50 us to count and as long to free, and one ack can end
hundreds of them. So what is left of large batches is kept beside them, and whoever shares its
time with others gives a list (`Tally.discarded`) that records go to instead of being freed, to
free them at leisure.
"""

from typing import Final, final

from mypy_extensions import i64
from pyroaring import BitMap

from magnetar.ack.bitmap import next_set, run_end
from magnetar.ack.ledgers import BatchSizes
from magnetar.ack.record import (
    is_complete,
    is_untouched,
    merge_records,
    record_bytes,
    record_size,
    remaining_count,
)
from magnetar.model.position import Position

# How many entries are acked before the bitmap is asked to look for runs anew. It takes
# about a microsecond; without it a ledger with few holes left takes 8 KiB, not hundreds
# of bytes.
OPTIMIZE_EVERY: Final = 1024

# From this size on it is kept how many messages of a batch are left: counting them takes half
# a microsecond, which is more than looking it up.
LARGE_BATCH: Final = 8192


@final
class Tally:
    """What the records of all ledgers of a cursor take together."""

    def __init__(self) -> None:
        self.bytes: i64 = 0
        # Where records go that are not needed any more; None to free them then and there.
        self.discarded: list[int] | None = None


@final
class LedgerAcks:
    """What is acked in a ledger. An entry is in `entries`, in `records`, or untouched."""

    def __init__(self, generation: i64, tally: Tally) -> None:
        self.generation: Final[i64] = generation
        self._tally: Final = tally
        self.entries: BitMap = BitMap()
        # The keys of `records`, in order: Python's dict has none, and sorting tens of
        # thousands of them for a snapshot would take milliseconds.
        self.partial: BitMap = BitMap()
        self.records: dict[int, int] = {}
        # How many messages are left of those that are large.
        self._left: dict[int, int] = {}
        self.messages: i64 = 0
        self.record_bytes: i64 = 0
        self._changes: i64 = 0

    def copy(self, generation: i64) -> "LedgerAcks":
        twin = LedgerAcks(generation, self._tally)
        twin.entries = self.entries.copy()
        twin.partial = self.partial.copy()
        twin.records = self.records.copy()
        twin._left = self._left.copy()
        twin.messages = self.messages
        twin.record_bytes = self.record_bytes
        return twin

    def is_empty(self) -> bool:
        return not self.entries and not self.records

    def end(self) -> i64:
        """Returns the entry after the last one that is acked or partly so."""
        end: i64 = self.entries.max() + 1 if self.entries else 0
        return max(end, self.partial.max() + 1) if self.partial else end

    def ack_entry(self, entry_id: int, size: i64) -> None:
        """Acks what is left of an entry of `size` messages."""
        entries = self.entries
        if entry_id in entries:
            return
        entries.add(entry_id)
        if self.records:
            size = self._forget(entry_id, size)
        self.messages += size
        self._changes += 1
        if self._changes >= OPTIMIZE_EVERY:
            self._changes = 0
            entries.run_optimize()

    def ack_single(self, entry_ids: tuple[int, ...]) -> None:
        """Acks many entries of one message each."""
        if self.records:
            for entry_id in entry_ids:
                self.ack_entry(entry_id, 1)
            return
        before = len(self.entries)
        self.entries.update(entry_ids)
        count: i64 = len(self.entries) - before
        self.messages += count
        self._changes += count
        if self._changes >= OPTIMIZE_EVERY:
            self._changes = 0
            self.entries.run_optimize()

    def ack_many(self, entries: BitMap, messages: i64, ledger_id: i64, sizes: BatchSizes) -> None:
        """Acks entries that are not acked, and have so many messages together."""
        if self.records:
            for entry_id in list(entries & self.partial):
                size = max(sizes.batch_size(ledger_id, entry_id), 1)
                messages -= size - self._forget(entry_id, size)
        self.entries |= entries
        self.messages += messages
        self.entries.run_optimize()

    def ack_indexes(self, entry_id: int, record: int, size: i64) -> None:
        """Acks the indexes that `record` does not leave, of an entry of `size` messages."""
        if entry_id in self.entries:
            return
        before = self.records.get(entry_id, 0)
        left = size
        if before != 0:
            left = self._left_of(entry_id, before)
            record = merge_records(before, record)
        if is_complete(record):
            self.ack_entry(entry_id, size)
        elif not is_untouched(record):
            self.put_record(entry_id, record, before)
            self.messages += left - self._left_of(entry_id, record)

    def put_record(self, entry_id: int, record: int, before: int = 0) -> None:
        """Keeps the record of a partly acked batch, instead of the one `before`, if any."""
        size: i64 = record_bytes(record_size(record))
        if before == 0:
            self.partial.add(entry_id)
        else:
            size -= record_bytes(record_size(before))
        self.records[entry_id] = record
        if record_size(record) >= LARGE_BATCH:
            self._left[entry_id] = remaining_count(record)
        self._grow(size)

    def _left_of(self, entry_id: int, record: int) -> i64:
        """Returns how many messages its record, which is this, leaves of an entry."""
        left: i64 = self._left.get(entry_id, -1)
        return left if left >= 0 else remaining_count(record)

    def _grow(self, size: i64) -> None:
        self.record_bytes += size
        self._tally.bytes += size

    def drop_before(self, end: i64, ledger_id: i64, sizes: BatchSizes) -> None:
        """Forgets entries before `end`: mark-delete covers them now."""
        while self.entries and (first := self.entries.min()) < end:
            acked = min(run_end(self.entries, first), end)
            self.messages -= sizes.message_count(ledger_id, first, acked)
            self.entries.remove_range(first, acked)
        while self.partial and (first := self.partial.min()) < end:
            size = max(sizes.batch_size(ledger_id, first), 1)
            self.messages -= size - self._forget(first, size)

    def drop_from(self, first: i64, ledger_id: i64, sizes: BatchSizes) -> None:
        """Forgets entries from `first` on: the ledger turned out not to have them."""
        self.entries.remove_range(first, 1 << 32)
        for entry_id in list(self.partial.iter_equal_or_larger(first)):
            self._forget(entry_id, 0)
        self.partial.remove_range(first, 1 << 32)
        self.messages = self.count_messages(ledger_id, sizes)

    def count_messages(self, ledger_id: i64, sizes: BatchSizes) -> i64:
        """Returns what `messages` must be, by a walk over runs and records."""
        total: i64 = 0
        first = next_set(self.entries, 0, -1)
        while first >= 0:
            end = run_end(self.entries, first)
            total += sizes.message_count(ledger_id, first, end)
            first = next_set(self.entries, end, -1)
        for entry_id, record in self.records.items():
            total += max(sizes.batch_size(ledger_id, entry_id), 1) - remaining_count(record)
        return total

    def check(self, ledger_id: i64, entry_count: i64, floor: Position, sizes: BatchSizes) -> None:
        """Asserts that the parts agree with each other and with the ledger."""
        for bitmap in (self.entries, self.partial):
            if bitmap:
                assert Position(ledger_id, bitmap.min()) > floor, "acks below mark-delete"
                assert bitmap.max() < entry_count, "acks beyond the ledger's end"
        assert self.entries.isdisjoint(self.partial), "an acked entry has a record"
        assert list(self.partial) == sorted(self.records), "records and their keys differ"
        for entry_id, record in self.records.items():
            size = sizes.batch_size(ledger_id, entry_id)
            assert size in (0, record_size(record)), "a record of another size"
            assert not is_complete(record), "a record of an acked entry"
            assert not is_untouched(record), "a record of an untouched entry"
            left = self._left_of(entry_id, record)
            assert left == remaining_count(record), "what is left of a batch is miscounted"
        assert not set(self._left) - set(self.records), "a count without a record"
        assert self.messages == self.count_messages(ledger_id, sizes), "messages miscounted"
        taken = sum([record_bytes(record_size(record)) for record in self.records.values()])
        assert self.record_bytes == taken, "bytes of records miscounted"

    def _forget(self, entry_id: int, size: i64) -> i64:
        """Drops an entry's record and returns how many messages were left of it."""
        record = self.records.pop(entry_id, 0)
        if record == 0:
            return size
        self.partial.discard(entry_id)
        self._grow(-record_bytes(record_size(record)))
        if self._tally.discarded is not None:
            self._tally.discarded.append(record)
        left: i64 = self._left.pop(entry_id, -1)
        return left if left >= 0 else remaining_count(record)

    def discard(self) -> None:
        """Hands the records over, before all of this is dropped."""
        if self._tally.discarded is not None:
            self._tally.discarded.extend(self.records.values())
