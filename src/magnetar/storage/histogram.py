"""How often a figure fell between which bounds: cheap enough to be kept of every entry."""

from typing import Final, final

from mypy_extensions import i64

__all__ = ["Histogram"]

ENDLESS: Final = (1 << 62) - 1


@final
class Histogram:
    """Counts by upper bounds, which ascend and belong to their bucket; the last has none."""

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self.bounds: Final = bounds
        self.counts: Final[list[int]] = [0] * (len(bounds) + 1)
        self.sum: i64 = 0
        # The bucket of the last figure: the next one is mostly of the same.
        self._bucket: int = 0
        self._low: i64 = -1
        self._high: i64 = bounds[0]

    def add(self, figure: i64, times: i64) -> None:
        """So many had this figure; what is below 0 counts as 0, for clocks differ."""
        if figure < 0:
            figure = 0
        if figure <= self._low or figure > self._high:
            self._find(figure)
        self.counts[self._bucket] += times
        self.sum += figure * times

    def _find(self, figure: i64) -> None:
        bucket = 0
        low: i64 = -1
        for bound in self.bounds:
            if figure <= bound:
                break
            low = bound
            bucket += 1
        self._bucket = bucket
        self._low = low
        self._high = self.bounds[bucket] if bucket < len(self.bounds) else ENDLESS
