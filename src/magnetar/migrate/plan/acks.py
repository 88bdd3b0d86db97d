"""What a subscription has not acked, taken from the source's positions to the target's.

`Unacked` is the truth about a subscription in numbers of entries (see `entry_map`), so it is the
same on both sides: ranges that are not acked at all, and batches of which some indexes are left.
`orders` says what the target's subscription, which begins before the first entry, has to ack.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias, final

from magnetar.migrate.plan.entry_map import EntryMap, Run

__all__ = ["AckOrders", "Batch", "Unacked", "orders", "unacked_of"]

# The indexes that are left, as bits, and how many the batch has.
Batch: TypeAlias = tuple[int, int]


@final
class Unacked:
    """See the module. Ranges are half-open, apart from each other, and in order."""

    def __init__(self, ranges: "list[tuple[int, int]]", batches: "dict[int, Batch]") -> None:
        self.ranges: Final = ranges
        self.batches: Final = batches

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Unacked):
            return NotImplemented
        return self.ranges == other.ranges and self.batches == other.batches

    def __hash__(self) -> int:
        return hash(tuple(self.ranges))

    @property
    def entries(self) -> int:
        return sum(end - first for first, end in self.ranges)

    def difference(self, other: "Unacked") -> str:
        """Returns in which entry it differs from another, in words; empty if it does not."""
        if self.ranges != other.ranges:
            mine, theirs = set(self._edges()), set(other._edges())
            return f"they differ at entry {min(mine ^ theirs)} of the topic"
        for number in sorted({*self.batches, *other.batches}):
            if self.batches.get(number) != other.batches.get(number):
                return f"they differ inside the batch that is entry {number} of the topic"
        return ""

    def _edges(self) -> Iterator[int]:
        for first, end in self.ranges:
            yield first
            yield end


def unacked_of(
    entries: EntryMap, runs: Sequence[Run], batches: "Mapping[tuple[int, int], Batch]"
) -> Unacked:
    """Returns the state of a subscription whose unacked entries are in these runs.

    What is in no entry of the topic does not count: nobody can be handed it.
    """
    ranges: list[tuple[int, int]] = []
    for run in sorted(runs):
        for first, end in entries.numbers(run):
            if ranges and ranges[-1][1] >= first:
                ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
            elif first < end:
                ranges.append((first, end))
    left: dict[int, Batch] = {}
    for (ledger, entry), (bits, size) in batches.items():
        number = entries.number(ledger, entry)
        if number >= 0 and bits != (1 << size) - 1:
            left[number] = (bits, size)
    return Unacked(ranges, left)


@final
class AckOrders:
    """What is to be acked, in numbers of entries: all below `floor`, then these."""

    def __init__(
        self, floor: int, ranges: "list[tuple[int, int]]", indexes: "list[tuple[int, int, int]]"
    ) -> None:
        self.floor: Final = floor
        self.ranges: Final = ranges
        # An entry, an index of it, and how many indexes it has.
        self.indexes: Final = indexes


def orders(unacked: Unacked, count: int) -> AckOrders:
    """Returns what makes a subscription of `count` unacked entries this one.

    >>> found = orders(Unacked([(2, 4), (6, 7)], {3: (0b01, 2)}), 8)
    >>> found.floor, found.ranges, found.indexes
    (2, [(4, 6), (7, 8)], [(3, 1, 2)])
    """
    floor = unacked.ranges[0][0] if unacked.ranges else count
    ranges: list[tuple[int, int]] = []
    before = floor
    for first, end in unacked.ranges:
        if before < first:
            ranges.append((before, first))
        before = end
    if floor < count and before < count:
        ranges.append((before, count))
    indexes: list[tuple[int, int, int]] = []
    for number, (bits, size) in sorted(unacked.batches.items()):
        for index in range(size):
            if not bits >> index & 1:
                indexes.append((number, index, size))
    return AckOrders(floor, ranges, indexes)
