"""Admission: how much of what is there one micro-batch may have.

| option                        | bounds                                                     |
|-------------------------------|------------------------------------------------------------|
| maxRowsPerTrigger             | messages, to the message: a batch may be divided           |
| maxBytesPerTrigger            | bytes of entries; at least one entry comes, however large  |
| maxEntriesPerTrigger          | entries                                                    |
| minRowsPerTrigger             | nothing comes before so many messages are there, ...       |
| maxTriggerDelay               | ... or the last micro-batch was so long ago                |

Who scans feeds the entries of each topic partition in their order, and stops at `full`.
Partitions get shares of each limit that go by how many entries they lag behind; what one
leaves of its share goes to those that come after it.
"""

from typing import Final, final

from magnetar.arrow.plan.range_end import Place

__all__ = ["Limits", "Quota", "Window", "shares"]

NO_LIMIT: Final = 1 << 62


@final
class Limits:
    """What a micro-batch is bounded by; 0 is no bound."""

    def __init__(
        self,
        rows_max: int = 0,
        bytes_max: int = 0,
        entries_max: int = 0,
        rows_min: int = 0,
        delay_max_ms: int = 0,
    ) -> None:
        self.rows_max: Final[int] = rows_max
        self.bytes_max: Final[int] = bytes_max
        self.entries_max: Final[int] = entries_max
        self.rows_min: Final[int] = rows_min
        self.delay_max_ms: Final[int] = delay_max_ms

    @property
    def bounded(self) -> bool:
        """Whether anything must be counted to know how much comes."""
        return self.rows_max + self.bytes_max + self.entries_max + self.rows_min > 0

    def waits(self, rows: int, since_ms: int) -> bool:
        """Returns whether so many rows are too few yet, `since_ms` after the last micro-batch."""
        return self.rows_min > 0 and rows < self.rows_min and since_ms < self.delay_max_ms


@final
class Quota:
    """What is left of one micro-batch for the partitions that are not admitted yet."""

    def __init__(self, limits: Limits) -> None:
        self.rows: int = limits.rows_max or NO_LIMIT
        self.size_bytes: int = limits.bytes_max or NO_LIMIT
        self.entries: int = limits.entries_max or NO_LIMIT
        # Whether anything was admitted: the first entry is, however large.
        self.begun: bool = False

    def window(self, start: Place, end: Place, share: float) -> "Window":
        """Returns a partition's part of it."""
        return Window(self, start, end, share)


@final
class Window:
    """What one topic partition gives to a micro-batch: from `start` to `at`."""

    def __init__(self, quota: Quota, start: Place, end: Place, share: float) -> None:
        self._quota: Final = quota
        self._end: Final[Place] = end
        self._rows_max: Final[int] = _part(quota.rows, share)
        self._bytes_max: Final[int] = _part(quota.size_bytes, share)
        self._entries_max: Final[int] = _part(quota.entries, share)
        self.at: Place = start
        self.rows: int = 0
        self.size_bytes: int = 0
        self.entries: int = 0
        # Of the batch that `at` is inside of.
        self.batch_size: int = 0
        self.full: bool = start >= end

    def add(self, ledger: int, entry: int, rows: int, size_bytes: int) -> None:
        """Adds the next entry, which has so many rows."""
        assert not self.full
        first = self.at[2] if (self.at[0], self.at[1]) == (ledger, entry) else 0
        last = self._end[2] if (self._end[0], self._end[1]) == (ledger, entry) else rows
        if (ledger, entry, first) >= self._end:
            self.full = True
            return
        wanted = max(min(last, rows) - first, 0)
        free = self._quota.begun or self.entries > 0
        if self.entries + 1 > self._entries_max or (
            free and self.size_bytes + size_bytes > self._bytes_max
        ):
            self.full = True
            return
        taken = min(wanted, self._rows_max - self.rows)
        if taken <= 0 and wanted > 0:
            self.full = True
            return
        self.rows += taken
        self.entries += 1
        self.size_bytes += size_bytes
        self._quota.begun = True
        if first + taken < rows:
            self.at = (ledger, entry, first + taken)
            self.batch_size = rows
            self.full = True
        else:
            self.at = (ledger, entry + 1, 0)
            self.batch_size = 0
            self.full = self.at >= self._end

    def close(self) -> None:
        """No entry comes any more: what it took leaves the quota."""
        self._quota.rows -= self.rows
        self._quota.size_bytes -= self.size_bytes
        self._quota.entries -= self.entries


def _part(left: int, share: float) -> int:
    """Returns a share of what is left; of a little, at least one."""
    if left >= NO_LIMIT // 2:
        return NO_LIMIT
    return max(min(int(left * share), left), min(left, 1))


def shares(lags: list[int]) -> list[float]:
    """Returns the share of each partition in what it and those after it get; the last gets all.

    >>> shares([1, 1, 2])
    [0.25, 0.3333333333333333, 1.0]
    """
    left = 0
    for lag in lags:
        left += max(lag, 1)
    found: list[float] = []
    for lag in lags:
        found.append(max(lag, 1) / left)
        left -= max(lag, 1)
    return found
