"""The backlog of a subscription as something to read: runs of entries, and picked indexes.

From one snapshot of an ack state. Entries that are acked are in no run. A batch of which a part
is acked is in a run, and `picked` has the bits of the indexes that are left.

Runs that lie close together are read at one go, and what is acked between them is dropped
after it was read: to begin a read anew costs more than some entries do. Tasks get runs by the
number of entries that they have.
"""

from typing import Final, TypeAlias, final

from magnetar.arrow.plan.range_end import Place

__all__ = ["Backlog", "BacklogSplit", "Run", "plan_backlog"]

# A ledger, its first entry and the one behind the last.
Run: TypeAlias = tuple[int, int, int]
# Topic, start, end, runs between, and for partly acked batches ledger, entry and bits in hex.
BacklogSplit: TypeAlias = tuple[str, Place, Place, list[Run], list[tuple[int, int, str]]]

# So many acked entries are read rather than passed over.
GAP_ENTRIES_MAX: Final = 50


@final
class Backlog:
    """What a subscription of one topic partition has not acked."""

    def __init__(self, runs: list[Run], picked: dict[tuple[int, int], int]) -> None:
        self.runs: Final[list[Run]] = sorted(runs)
        self.picked: Final = picked

    @property
    def entries(self) -> int:
        total = 0
        for _, first, end in self.runs:
            total += end - first
        return total


def plan_backlog(
    backlogs: dict[str, Backlog], partitions_min: int, gap_max: int = GAP_ENTRIES_MAX
) -> list[BacklogSplit]:
    """Returns what tasks read: each unacked entry once."""
    total = 0
    for backlog in backlogs.values():
        total += backlog.entries
    share = max(total // max(partitions_min, 1), 1)
    splits: list[BacklogSplit] = []
    for topic in sorted(backlogs):
        backlog = backlogs[topic]
        group: list[Run] = []
        size = 0
        for run in _divided(backlog.runs, share):
            far = bool(group) and (run[0] != group[-1][0] or run[1] - group[-1][2] > gap_max)
            if group and (far or size + run[2] - run[1] > share):
                splits.append(_split(topic, group, backlog.picked))
                group, size = [], 0
            group.append(run)
            size += run[2] - run[1]
        if group:
            splits.append(_split(topic, group, backlog.picked))
    return splits


def _divided(runs: list[Run], share: int) -> list[Run]:
    """Runs of at most so many entries."""
    found: list[Run] = []
    for ledger, first, end in runs:
        while end - first > share:
            found.append((ledger, first, first + share))
            first += share
        if end > first:
            found.append((ledger, first, end))
    return found


def _split(topic: str, group: list[Run], picked: dict[tuple[int, int], int]) -> BacklogSplit:
    start: Place = (group[0][0], group[0][1], 0)
    end: Place = (group[-1][0], group[-1][2], 0)
    bits: list[tuple[int, int, str]] = []
    for (ledger, entry), left in sorted(picked.items()):
        if start[:2] <= (ledger, entry) < end[:2]:
            bits.append((ledger, entry, f"{left:x}"))
    return (topic, start, end, group, bits)
