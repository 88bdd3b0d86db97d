"""What a cursor must be told about its topic: the ledgers, and the sizes of batches.

A topic is a row of ledgers whose ids ascend but leave gaps, each a row of entries that
are counted from 0. `Ledgers` holds that row, keeps no entry, and is shared by all
cursors of the topic; whoever owns the topic keeps it up to date: `add` when a ledger is
opened, `grow` when entries were appended and *before* an ack of them is applied,
`remove` when a ledger is trimmed, followed by `Cursor.trim`. It may know fewer entries than are
stored: those that no cursor may see yet. Entries that no cursor may ever see are *void*, and count
as acked for every one of them.

Ids are never reused, not by other stores either, so a ledger that is not here either was
trimmed or never there:

| its id is                              | it            |
|----------------------------------------|---------------|
| not above the topic's own (`born`)     | was never it  |
| above that, below the oldest one here  | was trimmed   |
| between others, or above all           | was never it  |

Whatever keeps positions by the thousand keeps narrow *keys* of them (`model/position_key.py`):
ledgers are numbered here as they are added. A key means something within one topic only, as long
as it is loaded. Keys of ledgers that were trimmed can be read for a while, since some may still
be under way.
"""

from bisect import bisect_left, bisect_right
from typing import Final, final

from mypy_extensions import i64, mypyc_attr
from pyroaring import BitMap

from magnetar.ack.bitmap import next_set, run_end
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position import Position
from magnetar.model.position_key import NARROW_ENTRY_BITS, NARROW_ENTRY_MASK

# Entry ids must fit the 32-bit bitmaps, with room for a range's end. Ledgers roll over
# at some ten thousand entries.
ENTRY_COUNT_MAX: Final = 1 << 31

# What no position has, and what is behind all that there are.
NO_KEY: Final = -1
KEY_MAX: Final = (1 << 62) - 1
NO_ENTRIES: Final = BitMap()
# How many trimmed ledgers keep their numbers.
GONE_MAX: Final = 1000


@mypyc_attr(allow_interpreted_subclasses=True)
class BatchSizes:
    """How many messages an entry holds. As it stands, nobody knows; override what you know.

    The answer for an entry must never change: counts are kept by adding and subtracting it.
    """

    def batch_size(self, ledger_id: i64, entry_id: i64) -> i64:
        """The messages of an entry, 1 if it is no batch, 0 if that is unknown."""
        return 0

    def message_count(self, ledger_id: i64, first: i64, end: i64) -> i64:
        """The messages of entries `first` to `end` - 1; an unknown size counts as 1.

        Adds them up one by one: override it where there are totals or prefix sums.
        """
        total: i64 = 0
        entry_id = first
        while entry_id < end:
            total += max(self.batch_size(ledger_id, entry_id), 1)
            entry_id += 1
        return total


@final
class Ledgers:
    """The ledgers of a topic in order, with the number of entries in each.

    >>> ledgers = Ledgers()
    >>> ledgers.add(5, 2)
    >>> ledgers.add(9, 1)
    >>> ledgers.next(Position(5, 1)), ledgers.previous(Position(9, 0)), ledgers.last()
    (Position(9, 0), Position(5, 1), Position(9, 0))
    """

    def __init__(self, sizes: BatchSizes | None = None, *, born: i64 = -1) -> None:
        self.sizes: Final[BatchSizes] = BatchSizes() if sizes is None else sizes
        # What was the last id when the topic came to be: its ledgers have higher ones.
        self._born: Final[i64] = born
        self._ids: list[int] = []
        self._counts: dict[int, int] = {}
        self._trimmed: i64 = -1
        # Keys: the number of each ledger, from 1 on, and the reverse.
        self._numbers: Final[dict[int, int]] = {}
        self._by_number: Final[dict[int, int]] = {}
        self._next_number: int = 1
        # The ledger that was asked for last, and its number: most come in runs.
        self._last_id: i64 = -1
        self._last_number: i64 = 0
        # The same for counts. Ids are wide, and an object of its own each time for a dict.
        self._counted_id: i64 = -1
        self._counted: i64 = -1
        # What was counted last.
        self._counted_messages_of: i64 = -1
        self._counted_messages_in: BitMap = NO_ENTRIES
        self._counted_messages: i64 = 0
        # By ledger, entries that are nobody's: their transactions aborted.
        self._voids: Final[dict[int, BitMap]] = {}

    def add(self, ledger_id: i64, entry_count: i64 = 0) -> None:
        """A new ledger, newer than all others."""
        assert ledger_id > (self._ids[-1] if self._ids else -1)
        assert 0 <= entry_count <= ENTRY_COUNT_MAX
        self._ids.append(ledger_id)
        self._set_count(ledger_id, entry_count)
        self._numbers[ledger_id] = self._next_number
        self._by_number[self._next_number] = ledger_id
        self._next_number += 1

    def grow(self, ledger_id: i64, entry_count: i64) -> None:
        """The ledger now has `entry_count` entries, never fewer than before."""
        assert 0 <= self.entry_count(ledger_id) <= entry_count <= ENTRY_COUNT_MAX
        self._set_count(ledger_id, entry_count)

    def _set_count(self, ledger_id: i64, entry_count: i64) -> None:
        self._counts[ledger_id] = entry_count
        self._counted_id = ledger_id
        self._counted = entry_count

    def remove(self, ledger_id: i64) -> None:
        """The ledger was trimmed: the oldest, or any that is empty."""
        oldest = ledger_id == self._ids[0]
        assert oldest or self._counts[ledger_id] == 0
        if oldest:
            self._trimmed = ledger_id
        del self._counts[ledger_id]
        self._voids.pop(ledger_id, None)
        self._counted_id = -1
        self._counted = -1
        self._ids.remove(ledger_id)
        self._forget_numbers()

    def _forget_numbers(self) -> None:
        """Of ledgers that were trimmed long ago."""
        while len(self._numbers) > len(self._ids) + GONE_MAX:
            oldest = next(iter(self._numbers))
            if oldest in self._counts:
                return
            del self._by_number[self._numbers.pop(oldest)]
            self._last_id = -1
            self._last_number = 0

    def trimmed_through(self, ledger_id: i64) -> None:
        """Of a topic that has no ledger left: those up to this id may have been its own."""
        assert not self._ids
        self._trimmed = max(self._trimmed, ledger_id)

    def entry_count(self, ledger_id: i64) -> i64:
        """The entries of a ledger, or -1 if it is not here."""
        if ledger_id != self._counted_id:
            self._counted = self._counts.get(ledger_id, -1)
            self._counted_id = ledger_id
        return self._counted

    def was_trimmed(self, ledger_id: i64) -> bool:
        """Whether a ledger that is not here may have been, once."""
        if ledger_id <= self._born:
            return False
        return ledger_id <= self._trimmed or (bool(self._ids) and ledger_id < self._ids[0])

    def ids_from(self, ledger_id: i64) -> list[int]:
        """The ledgers from this one on."""
        return self._ids[bisect_left(self._ids, ledger_id) :]

    # ---- Voids ---------------------------------------------------------------

    def void(self, ledger_id: int, entries: BitMap) -> None:
        """These entries are nobody's, now and for ever; followed by `Cursor.pass_over`."""
        if entries and self.entry_count(ledger_id) >= 0:
            before = self._voids.get(ledger_id)
            self._voids[ledger_id] = entries if before is None else before | entries

    @property
    def has_voids(self) -> bool:
        """Whether any entry is nobody's."""
        return len(self._voids) > 0

    def void_ledgers(self) -> list[int]:
        """The ledgers with such entries, in order."""
        return sorted(self._voids)

    def voids(self, ledger_id: i64, first: i64) -> BitMap:
        """Returns the void entries of a ledger from `first` on, as far as there are entries."""
        entries = self._voids.get(ledger_id)
        count = self.entry_count(ledger_id)
        return NO_ENTRIES if entries is None else entries & BitMap(range(first, max(count, first)))

    def count_messages(self, ledger_id: i64, entries: BitMap) -> i64:
        """Returns how many messages some entries have. All cursors of a topic ask the same, one
        after the other, when a transaction aborts: counted once."""
        if ledger_id != self._counted_messages_of or entries != self._counted_messages_in:
            messages: i64 = 0
            first = next_set(entries, 0, -1)
            while first >= 0:
                end = run_end(entries, first)
                messages += self.sizes.message_count(ledger_id, first, end)
                first = next_set(entries, end, -1)
            self._counted_messages_of = ledger_id
            self._counted_messages_in = entries
            self._counted_messages = messages
        return self._counted_messages

    def is_void(self, position: Position) -> bool:
        """Whether an entry is nobody's."""
        entries = self._voids.get(position.ledger_id)
        return entries is not None and position.entry_id in entries

    # ---- Keys ----------------------------------------------------------------

    def key(self, ledger_id: i64, entry_id: i64) -> int:
        """The key of a position, which need not exist; NO_KEY if its ledger is not known."""
        if ledger_id != self._last_id and not self._turn_to(ledger_id):
            return NO_KEY
        if entry_id < -1 or entry_id >= ENTRY_COUNT_MAX:
            return NO_KEY
        return (self._last_number << NARROW_ENTRY_BITS) + entry_id

    def _turn_to(self, ledger_id: i64) -> bool:
        number = self._numbers.get(ledger_id, 0)
        if number == 0:
            return False
        self._last_id = ledger_id
        self._last_number = number
        return True

    def keys(self, ids: list[MessageIdData]) -> list[int]:
        """The keys of entries, in the order given, without those whose ledgers are not known."""
        found: list[int] = []
        for id in ids:
            key = self.key(id.ledger_id, id.entry_id)
            if key >= 0:
                found.append(key)
        return found

    def position(self, key: int) -> Position:
        """The position of a key, whose entry must not be -1; of a ledger -1 if it is forgotten."""
        return Position(self.ledger_of(key), key & NARROW_ENTRY_MASK)

    def ledger_of(self, key: int) -> i64:
        """The ledger of a key; -1 if it is not known, or not any more."""
        number: i64 = key >> NARROW_ENTRY_BITS
        if number != self._last_number:
            ledger_id: i64 = self._by_number.get(number, -1)
            if ledger_id < 0:
                return -1
            self._last_id = ledger_id
            self._last_number = number
        return self._last_id

    # ---- Positions -----------------------------------------------------------

    def last(self) -> Position:
        """The last entry; while there is none, the position before the first."""
        return self._last_before(len(self._ids))

    def at_or_after(self, position: Position) -> Position | None:
        """The first entry that is not before `position`."""
        ledger_id = position.ledger_id
        if position.entry_id < self.entry_count(ledger_id):
            return Position(ledger_id, max(position.entry_id, 0))
        for index in range(bisect_right(self._ids, ledger_id), len(self._ids)):
            if self._counts[self._ids[index]] > 0:
                return Position(self._ids[index], 0)
        return None

    def next(self, position: Position) -> Position | None:
        """The entry after `position`, which need not exist itself."""
        return self.at_or_after(Position(position.ledger_id, position.entry_id + 1))

    def previous(self, position: Position) -> Position:
        """The entry before `position`, or the position before the first entry."""
        count = self.entry_count(position.ledger_id)
        if position.entry_id > 0 and count > 0:
            return Position(position.ledger_id, min(position.entry_id, count) - 1)
        return self._last_before(bisect_left(self._ids, position.ledger_id))

    def clip(self, position: Position) -> Position:
        """The position, or the last entry before it if it points where nothing is.

        One that is older than everything here was trimmed, and stays what it is.
        """
        end = self.entry_count(position.ledger_id)
        if end < 0:
            newer = bisect_left(self._ids, position.ledger_id)
            if newer > 0:
                return self._last_before(newer)
            end = ENTRY_COUNT_MAX
        return Position(position.ledger_id, max(min(position.entry_id, end - 1), -1))

    def entries_after(self, position: Position) -> int:
        ledger_id = position.ledger_id
        total = max(self.entry_count(ledger_id) - position.entry_id - 1, 0)
        for index in range(bisect_right(self._ids, ledger_id), len(self._ids)):
            total += self._counts[self._ids[index]]
        return total

    def messages_after(self, position: Position) -> int:
        ledger_id = position.ledger_id
        first = position.entry_id + 1
        end = self.entry_count(ledger_id)
        total = self.sizes.message_count(ledger_id, first, end) if first < end else 0
        for index in range(bisect_right(self._ids, ledger_id), len(self._ids)):
            ledger_id = self._ids[index]
            total += self.sizes.message_count(ledger_id, 0, self._counts[ledger_id])
        return total

    def _last_before(self, index: int) -> Position:
        for before in range(index - 1, -1, -1):
            count = self._counts[self._ids[before]]
            if count > 0:
                return Position(self._ids[before], count - 1)
        return Position(self._ids[0] if self._ids else -1, -1)
