"""A disk that breaks its promises, to see that somebody notices."""

from collections.abc import Callable, Iterable

from magnetar.storage import CorruptionError
from magnetar.testing import SimDisk


class LyingDisk(SimDisk):
    """Says that writes are durable, and leaves them where they are."""

    def write(self, path: str, offset: int, data: bytes, *, sync: bool) -> None:
        super().write(path, offset, data, sync=False)


def is_found(run_seed: Callable[..., object], seeds: Iterable[int], *, times: int = 4) -> bool:
    """Whether so many of the seeds fail on such a disk."""
    left = times
    for seed in seeds:
        try:
            run_seed(seed, disk_class=LyingDisk)
        except (AssertionError, CorruptionError, TimeoutError):
            left -= 1
            if left == 0:
                return True
    return False
