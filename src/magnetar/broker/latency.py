"""How long publishes and deliveries take: two histograms, and hardly anything for each entry.

A publish takes from the event in which it came to the one in which it is durable and its receipt
is made. All that come in one event have the same time, and so have all that end in one: it is
looked at the clock once for each, and in between they are counted in runs.

A delivery takes from the time at which its message was published, by the producer's clock, to the
first time that it is sent to a consumer. So what is read from a backlog took long. Exclusive and
Failover do not know what came before; there each time counts.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.storage.histogram import Histogram

__all__ = ["Latency"]

PUBLISH_BOUNDS_US: Final = (
    *(500, 1000, 2000, 5000, 10_000, 20_000, 50_000),
    *(100_000, 200_000, 500_000, 1_000_000, 5_000_000, 30_000_000),
)
DISPATCH_BOUNDS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 30_000),
    *(60_000, 600_000, 3_600_000, 86_400_000),
)


@final
class Latency:
    """See the module."""

    def __init__(self) -> None:
        self.publish_us: Final = Histogram(PUBLISH_BOUNDS_US)
        self.dispatch_ms: Final = Histogram(DISPATCH_BOUNDS_MS)
        # Publishes that came in the same event, and are durable.
        self._came_us: i64 = 0
        self._entries: i64 = 0
        self._now_us: i64 = 0

    def begin(self, now_us: int) -> None:
        """What is durable now is told of next."""
        self._now_us = now_us

    def stored(self, came_us: i64) -> None:
        """An entry is durable that came then; 0 where nobody knows."""
        if came_us != self._came_us:
            self.end()
            self._came_us = came_us
        self._entries += 1

    def end(self) -> None:
        """That was all."""
        if self._entries > 0 and self._came_us > 0:
            self.publish_us.add(self._now_us - self._came_us, self._entries)
        self._entries = 0
