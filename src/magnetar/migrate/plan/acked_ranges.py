"""Acks as Apache Pulsar's statistics tell them: a position, and runs of entries above it."""

import re
from typing import Final, final

from magnetar.errors import RemoteProtocolError
from magnetar.migrate.plan.entry_map import EntryMap
from magnetar.model import Position

__all__ = ["AckedRanges"]

_RANGE: Final = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")


@final
class AckedRanges:
    """See the module. A run begins behind its first position, and has its last.

    >>> entries = EntryMap([(3, 0, 10)])
    >>> AckedRanges("3:1", "[(3:4..3:6],(3:8..3:9]]").rest_of(entries)
    [(2, 5), (7, 9)]
    """

    def __init__(self, mark_delete: str, individually: str) -> None:
        self._mark_delete: Final = Position.parse(mark_delete)
        self._runs: list[tuple[int, int, int, int]] = []
        if individually not in ("", "[]"):
            for found in _RANGE.findall(individually):
                low, behind, high, last = (int(number) for number in found)
                self._runs.append((low, behind, high, last))
            if not self._runs:
                raise RemoteProtocolError("individuallyDeletedMessages", 0, individually[:80])

    def rest_of(self, entries: EntryMap) -> list[tuple[int, int]]:
        """Returns which entries are not acked whole, as ranges of their numbers."""
        acked: list[tuple[int, int]] = []
        mark = self._mark_delete
        for ledger, first, end in entries.runs:
            base = entries.number(ledger, first)
            if (ledger, first) <= (mark.ledger_id, mark.entry_id):
                last = mark.entry_id if ledger == mark.ledger_id else end - 1
                acked.append((base, base + min(last, end - 1) - first + 1))
            for low, behind, high, last in self._runs:
                begin = behind + 1 if low == ledger else first
                stop = last + 1 if high == ledger else end
                if low <= ledger <= high and max(begin, first) < min(stop, end):
                    acked.append((base + max(begin, first) - first, base + min(stop, end) - first))
        return _complement(sorted(acked), entries.count)


def _complement(ranges: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    before = 0
    for first, end in ranges:
        if before < first:
            found.append((before, first))
        before = max(before, end)
    if before < count:
        found.append((before, count))
    return found
