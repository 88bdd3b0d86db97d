"""What is judged beside crashes: the time that one event takes, the memory that an input takes.

Limits are for the interpreted build under a tracer, on a machine that does other things too.
They find what grows without bounds; tests/hostile measures.
"""

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final

# One event: a receive, a callback, a request, the opening of a store.
EVENT_SECONDS_MAX: Final = 0.5
# One input, beyond what was there before it.
INPUT_BYTES_MAX: Final = 64 << 20

LINUX: Final = sys.platform == "linux"

# The time of this thread is asked for so seldom as that: it is a call of the system, which takes
# 13 us where calls are watched, and there are thousands of events in a second.
MARK_SECONDS: Final = 0.1


class TooSlow(AssertionError):
    """An event took more time than any may."""


class TooMuchMemory(AssertionError):
    """An input took more memory than any may."""


class _Mark:
    """When this thread's own time was asked for last, by the clock, and what it was."""

    def __init__(self) -> None:
        self.set(time.perf_counter())

    def set(self, now: float) -> None:
        self.clock = now
        self.own = time.thread_time()


MARK: Final = _Mark()


class timed:
    """Raises TooSlow if what is done inside takes too much of this thread's time.

    An event that took long by the clock is judged by this thread's time since the last mark, less
    what others may have taken before it: so one that the machine held up is never blamed.
    """

    def __init__(self, event: str, seconds_max: float = EVENT_SECONDS_MAX) -> None:
        self._event = event
        self._seconds_max = seconds_max

    def __enter__(self) -> None:
        self._began = time.perf_counter()
        if self._began - MARK.clock > MARK_SECONDS:
            MARK.set(self._began)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None or time.perf_counter() - self._began <= self._seconds_max:
            return
        took = time.thread_time() - MARK.own - (self._began - MARK.clock)
        if took > self._seconds_max:
            raise TooSlow(f"{self._event} took {took:.3f} s, more than {self._seconds_max} s")


@contextmanager
def bounded(what: str, bytes_max: int = INPUT_BYTES_MAX) -> Iterator[None]:
    """Raises TooMuchMemory if what is done inside makes the process that much larger."""
    _forget_peak()
    before = _peak_bytes()
    yield
    grown = _peak_bytes() - before
    if grown > bytes_max:
        raise TooMuchMemory(f"{what} took {grown >> 20} MiB, more than {bytes_max >> 20} MiB")


def _forget_peak() -> None:
    """Elsewhere than on Linux the highest peak counts, so that less is found."""
    if LINUX:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")


def _peak_bytes() -> int:
    if not LINUX:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    raise AssertionError("the system does not tell how much memory a process takes")
