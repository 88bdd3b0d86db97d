"""What became of acks, counted. One is counted for each entry that an ACK names.

Of a batch whose messages are acked one by one, every ACK that names the batch counts once,
however many of its messages it acks. Nothing but `sent` moves without receipts: what is not
answered is not known.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

__all__ = ["TIME_BOUNDS_MS", "AckCounts"]

# Upper bounds of the buckets of times; the last bucket has none. From the time of a group to
# that of a broker's restart.
TIME_BOUNDS_MS: Final = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)


@final
class AckCounts:
    """Counters that only grow."""

    def __init__(self) -> None:
        # Each time it was sent.
        self.sent: i64 = 0
        # Each time it was refused, timed out, or lost its connection before the answer.
        self.failed: i64 = 0
        # Each time it was sent after it had failed.
        self.retried: i64 = 0
        # Confirmed by the broker; and of those, the ones that had failed before.
        self.kept: i64 = 0
        self.kept_after_retry: i64 = 0
        # Given up: out of retries, refused for good, or left when the consumer was closed.
        self.exhausted: i64 = 0
        # From the first ack of its group to the broker's word, of all that were kept.
        self.time_ms_sum: i64 = 0
        self.time_buckets: Final[list[int]] = [0] * (len(TIME_BOUNDS_MS) + 1)
        # Is told of each time, once for all that were confirmed together.
        self.watcher: Callable[[int], None] | None = None

    def keep(self, count: i64, time_ms: int) -> None:
        """So many were confirmed after this time."""
        time_ms = max(time_ms, 0)
        self.kept += count
        self.time_ms_sum += count * time_ms
        bucket = 0
        while bucket < len(TIME_BOUNDS_MS) and time_ms > TIME_BOUNDS_MS[bucket]:
            bucket += 1
        self.time_buckets[bucket] += count
        if self.watcher is not None:
            self.watcher(time_ms)
