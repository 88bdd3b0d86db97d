"""An alarm: calls at a time of day, whatever is done to the clock of the machine meanwhile."""

from collections.abc import Callable
from typing import Final, final

from magnetar.broker.host import Host, Timer

__all__ = ["Alarm"]

# The clock may be set forward while we wait: it is looked at so often.
WAIT_MS_MAX: Final = 60_000


@final
class Alarm:
    """Calls `ring` at the time that it was set to last, or before; then it is set to none."""

    def __init__(self, host: Host, ring: Callable[[], None]) -> None:
        self._host: Final = host
        self._ring: Final = ring
        self._timer: Timer | None = None
        self._at_ms: int = 0

    def set(self, at_ms: int | None) -> None:
        """Sets it to a time, or to none."""
        if self._timer is not None:
            if at_ms == self._at_ms:
                return
            self._timer.cancel()
            self._timer = None
        if at_ms is not None:
            self._at_ms = at_ms
            delay_ms = min(max(at_ms - self._host.now_ms(), 1), WAIT_MS_MAX)
            self._timer = self._host.call_later(delay_ms, self._end)

    def _end(self) -> None:
        self._timer = None
        self._ring()
