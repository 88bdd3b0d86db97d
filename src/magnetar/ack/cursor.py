"""The cursor: what one subscription has acknowledged, and what it has not.

    mark-delete position    it and everything before it is acked
    acks                    above it: acked entries, and records of partly acked batches
    epoch                   the number of the last reset

*Decide, then apply.* `plan_*` checks a request and returns a delta, or raises; the state
stays as it is. `apply` carries a delta out, which cannot fail. Between the two stands the
journal: the state here is always what is durable, deltas on their way are values in the
hands of whoever writes them, and a write that failed is undone by forgetting its deltas.
After a restart the same deltas are applied to the last snapshot.

The cursor's mark-delete is always as far as it can be: the entry after it is unacked. It
may name an entry that is trimmed by now.
"""

from collections.abc import Iterator
from typing import Final, final

from mypy_extensions import i64
from pyroaring import BitMap

from magnetar.ack.acks import Acks
from magnetar.ack.bitmap import clear_count, next_set, nth_clear, run_end
from magnetar.ack.delta import AckDelta, Delta, LedgerDelta, ResetDelta
from magnetar.ack.entry_run import Run
from magnetar.ack.ledger_acks import LedgerAcks
from magnetar.ack.ledgers import ENTRY_COUNT_MAX, Ledgers
from magnetar.ack.plan import RECORD_BYTES_MAX, AckPlan
from magnetar.ack.record import record_size, remaining_indexes
from magnetar.ack.reset_plan import ResetPlan
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position import Position

# How many entries `unacked` yields before it looks at the state again.
RUN_ENTRIES: Final = 1024

NOTHING: Final = BitMap()


@final
class Cursor:
    """The ack state of a subscription.

    >>> ledgers = Ledgers()
    >>> ledgers.add(5, 10)
    >>> cursor = Cursor(ledgers, Position(5, -1))
    >>> cursor.apply(cursor.plan_acks([MessageIdData(5, 1), MessageIdData(5, 2)]))
    True
    >>> cursor.mark_delete, cursor.unacked_entries()
    (Position(5, -1), 8)
    >>> cursor.apply(cursor.plan_cumulative(MessageIdData(5, 0)))
    True
    >>> cursor.mark_delete, cursor.next_run(Position(5, 0), 100)
    (Position(5, 2), Run(5, 3, 10))
    """

    def __init__(
        self, ledgers: Ledgers, mark_delete: Position, epoch: i64 = 0, acks: Acks | None = None
    ) -> None:
        self._ledgers: Final = ledgers
        self._acks: Final[Acks] = Acks(ledgers.sizes) if acks is None else acks
        self._mark_delete: Position = ledgers.clip(mark_delete)
        self._epoch: i64 = epoch
        # An epoch is given out once, even if its reset then fails.
        self._epoch_planned: i64 = epoch
        self._acks.drop_before(self._mark_delete.ledger_id, self._mark_delete.entry_id + 1)
        self.trim()
        self.pass_over(self._mark_delete)

    @property
    def mark_delete(self) -> Position:
        """It and everything before it is acked; the entry after it is not."""
        return self._mark_delete

    @property
    def epoch(self) -> int:
        """The number of the last reset."""
        return self._epoch

    # ---- decide --------------------------------------------------------------

    def plan_acks(
        self, ids: list[MessageIdData], record_bytes_max: i64 = RECORD_BYTES_MAX
    ) -> AckDelta:
        """Individual acks as an ACK carries them, all or nothing.

        An id without `ack_set` is the whole entry. Ids that are acked or trimmed already
        are fine and change nothing. Raises NoSuchEntryError, BatchIndexError, and
        AckSizeError if the parts of batches take more than `record_bytes_max`.
        """
        plan = AckPlan(self._ledgers, self._acks, self._mark_delete, record_bytes_max)
        for id in ids:
            plan.ack(id)
        return plan.delta(self._epoch)

    def plan_messages(self, ids: list[MessageIdData]) -> AckDelta:
        """Individual acks of messages by name, all or nothing: `batch_index` counts.

        Raises NoSuchEntryError, and BatchIndexError if an index is beyond its batch or
        the size of the batch is neither known nor given; AckSizeError as `plan_acks` does.
        """
        plan = AckPlan(self._ledgers, self._acks, self._mark_delete)
        for id in ids:
            plan.ack_message(id)
        return plan.delta(self._epoch)

    def plan_cumulative(self, id: MessageIdData, *, whole_entries: bool = False) -> AckDelta:
        """A cumulative ack as an ACK carries it; a stale one gives an empty delta.

        Inside a batch (with `ack_set`) it adds to what is acked there, and takes nothing
        back; where only whole entries are acked, it acks everything before the batch.
        Raises NoSuchEntryError, BatchIndexError.
        """
        plan = AckPlan(self._ledgers, self._acks, self._mark_delete)
        plan.ack_through(id, whole_entries=whole_entries)
        return plan.delta(self._epoch)

    def plan_skip(self, entry_count: int) -> AckDelta:
        """Acks the next `entry_count` unacked entries; all, if there are fewer."""
        target = self._mark_delete
        found = self._ledgers.next(target)
        while found is not None and entry_count > 0:
            ledger_id = found.ledger_id
            end = self._ledgers.entry_count(ledger_id)
            acks = self._acks.ledger(ledger_id)
            entries = NOTHING if acks is None else acks.entries
            left: int = clear_count(entries, found.entry_id, end)
            if left >= entry_count:
                target = Position(ledger_id, nth_clear(entries, found.entry_id, end, entry_count))
                break
            entry_count -= left
            target = Position(ledger_id, end - 1)
            found = self._ledgers.next(target)
        return self.plan_expire(target)

    def plan_expire(self, position: Position) -> AckDelta:
        """Acks everything through `position`, or through the last entry if that is earlier."""
        plan = AckPlan(self._ledgers, self._acks, self._mark_delete)
        plan.move(self._ledgers.clip(position))
        return plan.delta(self._epoch)

    def plan_clear(self) -> AckDelta:
        """Acks everything that is there now."""
        return self.plan_expire(self._ledgers.last())

    def plan_reset(
        self,
        position: Position,
        *,
        batch_index: i64 = -1,
        ack_set: int | None = None,
        batch_size: i64 = 0,
    ) -> ResetDelta:
        """Puts the cursor where `position` is the next to be read, and unacks the rest.

        A position that is not there stands for the next one that is; beyond the end, for
        the end. Inside a batch the messages from `batch_index` on are unacked, or those
        in `ack_set`; none of them means the next entry. Raises BatchIndexError if the
        size of that batch is neither known nor given.
        """
        plan = ResetPlan(self._ledgers, self._acks, position)
        if batch_index > 0 or ack_set:
            plan.enter_batch(batch_index, ack_set, batch_size)
        self._epoch_planned += 1
        return plan.delta(self._epoch_planned)

    def plan_spare(self, reset: ResetDelta, keys: list[int]) -> tuple[ResetDelta, AckDelta]:
        """A reset that leaves some entries unacked that are before its place.

        What is acked between them is a second delta, of the same epoch, to be written and
        applied with the first.
        """
        ledgers, mark = self._ledgers, reset.mark_delete
        end = ledgers.key(mark.ledger_id, mark.entry_id)
        spared = {key for key in keys if key <= end and self._exists(ledgers.position(key))}
        if not spared:
            return reset, AckDelta(reset.epoch, None)
        position: Position | None = ledgers.position(min(spared))
        assert position is not None
        before = ledgers.previous(position)
        acked: dict[int, list[int]] = {}
        while position is not None and position <= mark:
            if ledgers.key(position.ledger_id, position.entry_id) not in spared:
                acked.setdefault(position.ledger_id, []).append(position.entry_id)
            position = ledgers.next(position)
        moved = ResetDelta(reset.epoch, before, reset.entry, reset.record)
        parts: list[LedgerDelta] = [(id, tuple(entries), ()) for id, entries in acked.items()]
        return moved, AckDelta(reset.epoch, None, tuple(parts))

    def _exists(self, position: Position) -> bool:
        return position.entry_id < self._ledgers.entry_count(position.ledger_id)

    # ---- apply ---------------------------------------------------------------

    def apply(self, delta: Delta, *, single: bool = False) -> bool:
        """Carries a delta out. False: it is of another epoch, and nothing changed.

        Deltas of one epoch may come in any order and more than once. What they name but
        the topic does not have (any more) is passed over. `single` says that none of the
        entries is a batch (see `are_single`), and saves the time of asking for their sizes.
        """
        if isinstance(delta, ResetDelta):
            return self._reset(delta)
        if delta.epoch != self._epoch:
            return False
        if delta.mark_delete is not None:
            target = self._ledgers.clip(delta.mark_delete)
            if target > self._mark_delete:
                self._move(target)
        self._ack(delta, single=single)
        self._advance()
        return True

    def apply_named(self, delta: AckDelta, *, single: bool) -> int:
        """The same for a delta without mark-delete; how many messages were not acked before.

        `single` says that none of its entries is a batch (see `are_single`), and saves the
        time of asking for their sizes.
        """
        assert delta.mark_delete is None
        if delta.epoch != self._epoch:
            return 0
        before = self._acked_messages(delta)
        self._ack(delta, single=single)
        count = self._acked_messages(delta) - before
        self._advance()
        return count

    def are_single(self, delta: AckDelta) -> bool:
        """Whether no entry of a delta is a batch."""
        sizes = self._ledgers.sizes
        for ledger_id, entries, _ in delta.ledgers:
            for entry_id in entries:
                if sizes.batch_size(ledger_id, entry_id) > 1:
                    return False
        return True

    def _acked_messages(self, delta: AckDelta) -> int:
        """How many messages are acked above mark-delete, in the ledgers of a delta."""
        total = 0
        for ledger_id, _, _ in delta.ledgers:
            acks = self._acks.ledger(ledger_id)
            total += 0 if acks is None else acks.messages
        return total

    def _ack(self, delta: AckDelta, *, single: bool) -> None:
        for ledger_id, entries, records in delta.ledgers:
            if ledger_id < self._mark_delete.ledger_id:
                continue
            first, count = self._acked_before(ledger_id), self._ledgers.entry_count(ledger_id)
            if single and entries and first <= entries[0] and entries[-1] < count:
                self._acks.own(ledger_id).ack_single(entries)
            else:
                self._ack_entries(ledger_id, entries, first, count)
            self._ack_records(ledger_id, records)

    def trim(self) -> None:
        """Forgets the acks of what the topic does not have (any more)."""
        for ledger_id in self._acks.ledger_ids():
            count = self._ledgers.entry_count(ledger_id)
            if count < 0 or ledger_id < self._mark_delete.ledger_id:
                self._acks.drop_ledger(ledger_id)
            elif self._acks.end(ledger_id) > count:
                self._acks.drop_from(ledger_id, count)
        self._advance()

    def pass_over(self, start: Position) -> None:
        """Takes what is void from `start` on for acked: to be called when there is more of it."""
        if not self._ledgers.has_voids:
            return
        start = max(start, self._mark_delete)
        for ledger_id in self._ledgers.void_ledgers():
            if ledger_id >= start.ledger_id:
                first: i64 = max(start.entry_id, 0) if ledger_id == start.ledger_id else 0
                self._ack_voids(ledger_id, max(first, self._acked_before(ledger_id)))
        self._advance()

    def _ack_voids(self, ledger_id: i64, first: i64) -> None:
        voids = self._ledgers.voids(ledger_id, first)
        present = self._acks.ledger(ledger_id)
        fresh = voids if present is None else voids - present.entries
        if fresh:
            messages = self._ledgers.count_messages(ledger_id, fresh)
            self._acks.own(ledger_id).ack_many(fresh, messages, ledger_id, self._ledgers.sizes)

    def _reset(self, delta: ResetDelta) -> bool:
        if delta.epoch <= self._epoch:
            return False
        self._epoch = delta.epoch
        self._epoch_planned = max(self._epoch_planned, delta.epoch)
        self._acks.clear()
        self._mark_delete = self._ledgers.clip(delta.mark_delete)
        if delta.entry is not None:
            self._ack_records(delta.entry.ledger_id, ((int(delta.entry.entry_id), delta.record),))
        self._advance()
        self.pass_over(self._mark_delete)
        return True

    def _ack_entries(
        self, ledger_id: i64, entries: tuple[int, ...], first: i64, count: i64
    ) -> None:
        sizes = self._ledgers.sizes
        acks: LedgerAcks | None = None
        for entry_id in entries:
            if first <= entry_id < count:
                if acks is None:
                    acks = self._acks.own(ledger_id)
                acks.ack_entry(entry_id, max(sizes.batch_size(ledger_id, entry_id), 1))

    def _ack_records(self, ledger_id: i64, records: tuple[tuple[int, int], ...]) -> None:
        first, count = self._acked_before(ledger_id), self._ledgers.entry_count(ledger_id)
        for entry_id, record in records:
            if first <= entry_id < count:
                self._acks.ack_indexes(ledger_id, entry_id, record)

    def _acked_before(self, ledger_id: i64) -> i64:
        """Returns the first entry behind mark-delete of a ledger that this stands in or before."""
        mark = self._mark_delete
        return mark.entry_id + 1 if ledger_id == mark.ledger_id else 0

    def _advance(self) -> None:
        """Moves mark-delete over what is acked right behind it, through ledgers."""
        while (following := self._ledgers.next(self._mark_delete)) is not None:
            acks = self._acks.ledger(following.ledger_id)
            if acks is None or following.entry_id not in acks.entries:
                return
            end = run_end(acks.entries, following.entry_id)
            self._move(Position(following.ledger_id, end - 1))

    def _move(self, target: Position) -> None:
        if target.ledger_id != self._mark_delete.ledger_id:
            for ledger_id in self._acks.ledger_ids():
                if ledger_id >= target.ledger_id:
                    break
                self._acks.drop_ledger(ledger_id)
        self._acks.drop_before(target.ledger_id, target.entry_id + 1)
        self._mark_delete = target

    # ---- ask -----------------------------------------------------------------

    def is_acked(self, position: Position, batch_index: i64 = -1) -> bool:
        """Whether an entry, or one message of it, is acked."""
        if position <= self._mark_delete:
            return True
        return self._acks.is_acked(position.ledger_id, position.entry_id, batch_index)

    def remaining(self, position: Position) -> int | None:
        """The unacked indexes of a partly acked batch; 0 if acked, None if untouched.

        What MESSAGE carries as `ack_set`, in other words.
        """
        if self.is_acked(position):
            return 0
        record = self._acks.record(position.ledger_id, position.entry_id)
        return None if record == 0 else remaining_indexes(record)

    def next_run(self, position: Position, entries_max: int) -> Run | None:
        """The first unacked entries from `position` on, as far as they are consecutive."""
        after = Position(self._mark_delete.ledger_id, self._mark_delete.entry_id + 1)
        found = self._ledgers.at_or_after(position if position > after else after)
        entries_max = min(entries_max, ENTRY_COUNT_MAX)  # which i64 can add to an entry id
        while found is not None:
            ledger_id = found.ledger_id
            first = found.entry_id
            end = self._ledgers.entry_count(ledger_id)
            acks = self._acks.ledger(ledger_id)
            if acks is not None:
                if first in acks.entries:
                    first = run_end(acks.entries, first)
                end = next_set(acks.entries, first, end)
            if first < end:
                return Run(ledger_id, first, min(end, first + entries_max))
            found = self._ledgers.at_or_after(Position(ledger_id, end))
        return None

    def unacked(self, position: Position | None = None) -> Iterator[tuple[Position, int | None]]:
        """Unacked entries in order, each with what `remaining` says of it.

        Looks afresh for each run of entries, so it may be used while acks are applied.
        """
        start = self._mark_delete if position is None else position
        run = self.next_run(start, RUN_ENTRIES)
        while run is not None:
            for entry_id in range(run.first, run.end):
                record = self._acks.record(run.ledger_id, entry_id)
                remaining = None if record == 0 else remaining_indexes(record)
                yield Position(run.ledger_id, entry_id), remaining
            run = self.next_run(Position(run.ledger_id, run.end), RUN_ENTRIES)

    def acked_between(self, ledger_id: i64, first: i64, end: i64) -> tuple[int, int]:
        """Returns how many of the entries `first` to `end` - 1 are acked, and how many partly.

        Takes about as long for millions of entries as for a few.
        """
        mark = self._mark_delete
        floor: i64 = end if ledger_id < mark.ledger_id else self._acked_before(ledger_id)
        passed = max(min(floor, end) - first, 0)
        acks = self._acks.ledger(ledger_id)
        if acks is None or first >= end:
            return passed, 0
        # Neither has anything at or before mark-delete.
        acked = acks.entries.range_cardinality(first, end)
        return passed + acked, acks.partial.range_cardinality(first, end)

    def acked_runs(self) -> Iterator[Run]:
        """The acked entries above mark-delete in order, consecutive ones together.

        Not to be used while deltas are applied; nor is the next.
        """
        return self._acks.runs()

    def acked_run_count(self) -> int:
        """How many `acked_runs` there are: the holes between them are one fewer."""
        return self._acks.run_count()

    def last_touched(self) -> Position | None:
        """The last entry above mark-delete that is acked, or of which a part is."""
        ledger_ids = self._acks.ledger_ids()
        if not ledger_ids:
            return None
        return Position(ledger_ids[-1], self._acks.end(ledger_ids[-1]) - 1)

    def partly_acked(self, start: Position | None = None) -> Iterator[tuple[Position, int, int]]:
        """Partly acked batches in order from `start` on: position, remaining indexes, size."""
        for position, record in self._acks.partial(start):
            yield position, remaining_indexes(record), record_size(record)

    def unacked_entries(self) -> int:
        """The backlog in entries, as Pulsar's msgBacklog has it."""
        return self._ledgers.entries_after(self._mark_delete) - self._acks.entry_count()

    def unacked_messages(self) -> int:
        """The backlog in messages; an entry of unknown size counts as one."""
        return self._ledgers.messages_after(self._mark_delete) - self._acks.message_count()

    def acked_above(self) -> int:
        """How many messages are acked behind the mark-delete position."""
        return self._acks.message_count()

    def partial_entries(self) -> int:
        """How many batches are partly acked."""
        return self._acks.partial_count()

    def record_bytes(self) -> int:
        """About how much memory the records of partly acked batches take."""
        return self._acks.record_bytes()

    def discard_to(self, discarded: list[int]) -> None:
        """From now on records that are not needed any more go there, to be freed at leisure."""
        self._acks.tally.discarded = discarded

    def discard(self) -> None:
        """The cursor itself is about to be dropped: hands over all records that it has."""
        self._acks.discard()

    def freeze(self) -> list[tuple[int, LedgerAcks]]:
        """The acks above mark-delete as they are now, for a snapshot to write at leisure."""
        return self._acks.freeze()

    # ---- check ---------------------------------------------------------------

    def check(self) -> None:
        """Asserts that the state is consistent with itself and with the ledgers."""
        following = self._ledgers.next(self._mark_delete)
        assert following is None or not self.is_acked(following), "mark-delete lags behind"
        taken: i64 = 0
        for ledger_id in self._acks.ledger_ids():
            acks = self._acks.ledger(ledger_id)
            assert acks is not None
            taken += acks.record_bytes
            assert not acks.is_empty(), f"no acks in ledger {ledger_id}"
            count = self._ledgers.entry_count(ledger_id)
            acks.check(ledger_id, count, self._mark_delete, self._ledgers.sizes)
        assert taken == self._acks.record_bytes(), "bytes of records miscounted"
