"""What is judged beside crashes: the time that one event takes, the memory that an input takes.

Limits are for the interpreted build under a tracer, on a machine that does other things too.
They find what grows without bounds; tests/hostile measures.
"""

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# One event: a receive, a callback, a request, the opening of a store.
EVENT_SECONDS_MAX: Final = 0.5
# One input, beyond what was there before it.
INPUT_BYTES_MAX: Final = 64 << 20

LINUX: Final = sys.platform == "linux"


class TooSlow(AssertionError):
    """An event took more time than any may."""


class TooMuchMemory(AssertionError):
    """An input took more memory than any may."""


@contextmanager
def timed(event: str, seconds_max: float = EVENT_SECONDS_MAX) -> Iterator[None]:
    """Raises TooSlow if what is done inside takes too much of this thread's time."""
    began = time.thread_time()
    yield
    took = time.thread_time() - began
    if took > seconds_max:
        raise TooSlow(f"{event} took {took:.3f} s, more than {seconds_max} s")


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
