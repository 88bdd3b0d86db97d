"""The entries of a topic, numbered from 0 in their order: runs of positions.

A copy has the entries of its source in the same order, and nothing else. So entry number n here
is entry number n there, and two of these maps translate every position, forth and back, from no
more than where each run of entries begins and ends.
"""

from bisect import bisect_right
from typing import Final, TypeAlias, final

__all__ = ["EntryMap", "Run"]

# A ledger, its first entry and the one behind the last.
Run: TypeAlias = tuple[int, int, int]


@final
class EntryMap:
    """See the module. Runs come in the order of the topic.

    >>> map = EntryMap([(3, 0, 2), (7, 5, 9)])
    >>> map.count, map.position(1), map.position(2), map.number(7, 6), map.number(3, 2)
    (6, (3, 1), (7, 5), 3, -1)
    """

    def __init__(self, runs: "list[Run] | None" = None) -> None:
        self.runs: Final[list[Run]] = []
        # How many entries there are before each run.
        self._before: Final[list[int]] = []
        self.count: int = 0
        for run in runs or []:
            self.add(run)

    def add(self, run: Run) -> None:
        """Adds what follows; a run that goes on where the last one ended is no other one."""
        ledger, first, end = run
        if end <= first:
            return
        if self.runs and (ledger, first) < (self.runs[-1][0], self.runs[-1][2]):
            raise ValueError(f"{run} does not come after {self.runs[-1]}")
        if self.runs and self.runs[-1][0] == ledger and self.runs[-1][2] == first:
            self.runs[-1] = (ledger, self.runs[-1][1], end)
        else:
            self.runs.append(run)
            self._before.append(self.count)
        self.count += end - first

    def position(self, number: int) -> tuple[int, int]:
        """Returns where an entry is."""
        if not 0 <= number < self.count:
            raise IndexError(f"there is no entry {number} of {self.count}")
        at = bisect_right(self._before, number) - 1
        ledger, first, _ = self.runs[at]
        return (ledger, first + number - self._before[at])

    def number(self, ledger: int, entry: int) -> int:
        """Returns which entry is there; -1 if none is."""
        at = bisect_right(self.runs, (ledger, entry, 1 << 63)) - 1
        if at < 0 or self.runs[at][0] != ledger or entry >= self.runs[at][2]:
            return -1
        return self._before[at] + entry - self.runs[at][1]

    def numbers(self, run: Run) -> "list[tuple[int, int]]":
        """Returns which entries of a run of positions there are, as ranges of numbers."""
        ledger, first, end = run
        found: list[tuple[int, int]] = []
        at = max(bisect_right(self.runs, (ledger, first, 1 << 63)) - 1, 0)
        while at < len(self.runs) and self.runs[at][:2] < (ledger, end):
            other, low, high = self.runs[at]
            low, high, begin = max(low, first), min(high, end), low
            if other == ledger and low < high:
                base = self._before[at] - begin
                found.append((base + low, base + high))
            at += 1
        return found

    def cut(self, count: int) -> None:
        """Forgets all but the first entries."""
        while self.count > count:
            ledger, first, end = self.runs.pop()
            before = self._before.pop()
            self.count = before
            self.add((ledger, first, min(end, first + max(count - before, 0))))
            if before <= count:
                return

    def behind(self) -> tuple[int, int]:
        """Returns the position behind the last entry; the beginning if there is none."""
        if not self.runs:
            return (-1, -1)
        return (self.runs[-1][0], self.runs[-1][2])
