"""Acked entries and batch indexes of a whole topic, ledger by ledger.

`Acks` is the set without a floor: it knows neither mark-delete nor which ledgers exist.
`Cursor` adds both.

`freeze` gives a snapshot the ledgers as they are, without copying any. From then on each
ledger is copied before its first change (copy on write, told by generation numbers), so a
snapshot can be written at leisure, and one that is abandoned costs nothing more.

>>> from magnetar.ack.record import make_record
>>> acks = Acks()
>>> acks.ack_indexes(7, 0, make_record(2, 0b10))
>>> acks.is_acked(7, 0, 0), acks.is_acked(7, 0, 1), acks.is_acked(7, 0)
(True, False, False)
>>> acks.ack_indexes(7, 0, make_record(2, 0b01))
>>> acks.is_acked(7, 0)
True
"""

from collections.abc import Iterator
from typing import Final, final

from mypy_extensions import i64

from magnetar.ack.bitmap import next_set, run_end
from magnetar.ack.entry_run import Run
from magnetar.ack.ledger_acks import LedgerAcks, Tally
from magnetar.ack.ledgers import BatchSizes
from magnetar.ack.record import record_size
from magnetar.model.position import Position


@final
class Acks:
    """Which entries and which batch indexes are acked."""

    def __init__(self, sizes: BatchSizes | None = None) -> None:
        self.sizes: Final[BatchSizes] = BatchSizes() if sizes is None else sizes
        self._ledgers: dict[int, LedgerAcks] = {}
        self._generation: i64 = 0
        self._tally: Final = Tally()
        # The ledger that was asked for last, and its acks: most come in runs, and its id is wide,
        # an object of its own each time for a dict.
        self._last_id: i64 = -1
        self._last: LedgerAcks | None = None

    @property
    def tally(self) -> Tally:
        """What counts the bytes of records, for ledgers that are to be `put` here."""
        return self._tally

    def record_bytes(self) -> i64:
        """About how much memory the records of partly acked batches take."""
        return self._tally.bytes

    def ack_entry(self, ledger_id: int, entry_id: int) -> None:
        size = max(self.sizes.batch_size(ledger_id, entry_id), 1)
        self.own(ledger_id).ack_entry(entry_id, size)

    def ack_indexes(self, ledger_id: int, entry_id: int, record: int) -> None:
        """Acks the indexes that `record` does not leave."""
        size = max(self.sizes.batch_size(ledger_id, entry_id), 1)
        self.own(ledger_id).ack_indexes(entry_id, record, size)

    def is_acked(self, ledger_id: int, entry_id: int, batch_index: int = -1) -> bool:
        """Returns whether an entry, or one index of it, is acked."""
        acks = self.ledger(ledger_id)
        if acks is None:
            return False
        if entry_id in acks.entries:
            return True
        record = acks.records.get(entry_id, 0)
        if record == 0 or not 0 <= batch_index < record_size(record):
            return False
        return not record >> batch_index & 1

    def record(self, ledger_id: int, entry_id: int) -> int:
        """Returns the record of a partly acked batch; 0 if there is none."""
        acks = self.ledger(ledger_id)
        return 0 if acks is None else acks.records.get(entry_id, 0)

    def ledger(self, ledger_id: i64) -> LedgerAcks | None:
        """Returns the acks of a ledger, to be read only."""
        if ledger_id != self._last_id:
            self._last = self._ledgers.get(ledger_id)
            self._last_id = ledger_id
        return self._last

    def ledger_ids(self) -> list[int]:
        return sorted(self._ledgers)

    def own(self, ledger_id: i64) -> LedgerAcks:
        """Returns the acks of a ledger, to be changed: no snapshot shares them."""
        acks = self.ledger(ledger_id)
        if acks is None:
            acks = LedgerAcks(self._generation, self._tally)
            self.put(ledger_id, acks)
        elif acks.generation != self._generation:
            acks = acks.copy(self._generation)
            self.put(ledger_id, acks)
        return acks

    def end(self, ledger_id: int) -> i64:
        """Returns the entry after the last one that is acked or partly so in a ledger."""
        return self._ledgers[ledger_id].end()

    def put(self, ledger_id: i64, acks: LedgerAcks) -> None:
        """Takes over the acks of a ledger, as read from a snapshot and counted by `tally`."""
        self._ledgers[ledger_id] = acks
        self._last_id = ledger_id
        self._last = acks

    def drop_before(self, ledger_id: i64, end: i64) -> None:
        """Forgets the entries of a ledger before `end`."""
        if self.ledger(ledger_id) is not None:
            self.own(ledger_id).drop_before(end, ledger_id, self.sizes)
            self._tidy(ledger_id)

    def drop_from(self, ledger_id: i64, first: i64) -> None:
        """Forgets the entries of a ledger from `first` on."""
        self.own(ledger_id).drop_from(first, ledger_id, self.sizes)
        self._tidy(ledger_id)

    def drop_ledger(self, ledger_id: int) -> None:
        acks = self._ledgers.pop(ledger_id)
        acks.discard()
        self._tally.bytes -= acks.record_bytes
        self._last_id = -1
        self._last = None

    def _tidy(self, ledger_id: i64) -> None:
        acks = self.ledger(ledger_id)
        if acks is not None and acks.is_empty():
            del self._ledgers[ledger_id]
            self._last = None

    def clear(self) -> None:
        self.discard()
        self._ledgers.clear()
        self._last_id = -1
        self._last = None
        self._tally.bytes = 0

    def discard(self) -> None:
        """Hands all records over to whoever frees them at leisure (`Tally.discarded`)."""
        for acks in self._ledgers.values():
            acks.discard()

    def freeze(self) -> list[tuple[int, LedgerAcks]]:
        """Returns the ledgers in order, as they are now and will stay."""
        self._generation += 1
        return [(ledger_id, self._ledgers[ledger_id]) for ledger_id in sorted(self._ledgers)]

    def runs(self) -> Iterator[Run]:
        """Yields the acked entries in order, consecutive ones together."""
        for ledger_id in self.ledger_ids():
            entries = self._ledgers[ledger_id].entries
            first = next_set(entries, 0, -1)
            while first >= 0:
                end = run_end(entries, first)
                yield Run(ledger_id, first, end)
                first = next_set(entries, end, -1)

    def run_count(self) -> int:
        """Returns how many `runs` there are, without walking them."""
        count = 0
        for acks in self._ledgers.values():
            entries = acks.entries
            count += len(entries) - entries.shift(1).intersection_cardinality(entries)
        return count

    def partial(self, start: Position | None = None) -> Iterator[tuple[Position, int]]:
        """Yields the partly acked batches in order, from `start` on, each with its record."""
        for ledger_id in self.ledger_ids():
            first = 0
            if start is not None:
                if ledger_id < start.ledger_id:
                    continue
                if ledger_id == start.ledger_id:
                    first = max(int(start.entry_id), 0)
            acks = self._ledgers[ledger_id]
            if not acks.partial or acks.partial.max() < first:
                continue
            for entry_id in acks.partial.iter_equal_or_larger(first):
                yield Position(ledger_id, entry_id), acks.records[entry_id]

    def entry_count(self) -> int:
        return sum([len(acks.entries) for acks in self._ledgers.values()])

    def partial_count(self) -> int:
        return sum([len(acks.records) for acks in self._ledgers.values()])

    def message_count(self) -> int:
        return sum([acks.messages for acks in self._ledgers.values()])
