"""What passed through the broker in the last minutes, so that who looks now sees what was before.

There is a point for each interval in which rates are reckoned. Topics are gone through a few at a
time, so a point is what one round found, and it is there when the next round begins.
"""

from collections import deque
from typing import Final, final

__all__ = ["RateHistory", "RatePoint"]

# Ten minutes, where there is one every ten seconds.
POINTS_MAX: Final = 60


@final
class RatePoint:
    """Messages a second, published and delivered, of all topics together."""

    def __init__(self, time_ms: int) -> None:
        self.time_ms: Final = time_ms
        self.rate_in: float = 0.0
        self.rate_out: float = 0.0


@final
class RateHistory:
    """See the module. `points` are in the order of their times."""

    def __init__(self) -> None:
        self.points: Final[deque[RatePoint]] = deque(maxlen=POINTS_MAX)
        self._round: RatePoint | None = None

    def begin(self, now_ms: int) -> None:
        """A round begins; what the one before found is a point."""
        if self._round is not None:
            self.points.append(self._round)
        self._round = RatePoint(now_ms)

    def add(self, rate_in: float, rate_out: float) -> None:
        """What one topic has."""
        if self._round is not None:
            self._round.rate_in += rate_in
            self._round.rate_out += rate_out
