"""Warnings that strangers can cause: one in a while is logged, and the others are counted.

Whoever may connect may be refused ten thousand times a second. A log line for each would fill
the disk, and hide everything else.
"""

from typing import Final, final

from magnetar.broker.host import Host

__all__ = ["RareWarning"]

# At most one line in so long.
EVERY_MS: Final = 1000


@final
class RareWarning:
    """Logs at most one warning in EVERY_MS; the next one says how many there were in between."""

    def __init__(self, host: Host) -> None:
        self._host: Final = host
        self._told_ms: int = -1
        self._untold: int = 0
        self.count: int = 0

    def warn(self, text: str) -> None:
        self.count += 1
        now_ms = self._host.ticks_ms()
        if self._told_ms >= 0 and now_ms - self._told_ms < EVERY_MS:
            self._untold += 1
            return
        if self._untold:
            text = f"{text} (and {self._untold} others before it)"
        self._told_ms = now_ms
        self._untold = 0
        self._host.warn(text)
