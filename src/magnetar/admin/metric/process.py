"""What the system tells of this process. Where there is no /proc, less."""

import os
import resource
import sys
import time
from pathlib import Path
from typing import Final

__all__ = [
    "STARTED",
    "cpu_seconds",
    "descriptors_max",
    "memory_bytes",
    "open_descriptors",
    "virtual_bytes",
]

STATM: Final = Path("/proc/self/statm")
DESCRIPTORS: Final = Path("/proc/self/fd")


def _started() -> float:
    """When the process began, in seconds since 1970."""
    try:
        # Behind the name, which may hold anything: the 22nd field, in ticks since the boot.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        running = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf(
            "SC_CLK_TCK"
        )
    except (OSError, AttributeError):
        return time.time()
    return time.time() - running


STARTED: Final = _started()


def cpu_seconds() -> float:
    return time.process_time()


def memory_bytes() -> int:
    """What the process has in memory; the most that it ever had, where no system tells more."""
    pages = _pages(1)
    if pages is None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * resource.getpagesize()


def virtual_bytes() -> int | None:
    pages = _pages(0)
    return None if pages is None else pages * resource.getpagesize()


def _pages(field: int) -> int | None:
    try:
        return int(STATM.read_text().split()[field])
    except OSError:
        return None


def open_descriptors() -> int | None:
    """Returns how many are open. It takes milliseconds for thousands: not for the loop."""
    try:
        return len(os.listdir(DESCRIPTORS))
    except OSError:
        return None


def descriptors_max() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
