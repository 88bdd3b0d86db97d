"""The two times of a client: the time of day, and a time that only goes on.

Clocks of machines are set forward and back. What is told to others, when a message was
published or is to be delivered, is the time of day. What is measured here, how long acks
gather or a send may take, must not care: its clock begins at the time of day and then counts.
"""

import time
from collections.abc import Callable

__all__ = ["Clock"]


class Clock:
    """See the module; in milliseconds. A simulation brings functions of its own."""

    def __init__(
        self,
        day_ms: Callable[[], int] | None = None,
        steady_ms: Callable[[], int] | None = None,
    ) -> None:
        self.day_ms: Callable[[], int] = day_ms or _day_ms
        self.steady_ms: Callable[[], int] = steady_ms or _steady_ms


def _day_ms() -> int:
    return time.time_ns() // 1_000_000


_BEGAN_MS = _day_ms() - time.monotonic_ns() // 1_000_000


def _steady_ms() -> int:
    return time.monotonic_ns() // 1_000_000 + _BEGAN_MS
