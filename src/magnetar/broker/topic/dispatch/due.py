"""Delayed messages whose time has come, and the alarm that says so.

What an abort gives back waits here too (`free`), to be sent before all else; before what is being
read at that time, as well.
"""

from collections.abc import Callable
from typing import Final, final

from magnetar.broker.host import Host
from magnetar.broker.topic.delayed import DelayedMessages
from magnetar.broker.topic.dispatch.alarm import Alarm
from magnetar.broker.topic.dispatch.replay import Replay

__all__ = ["DUE", "DUE_MAX", "LACKING", "NEW", "REPLAY", "Due"]

# Where the entries of a plan come from.
DUE: Final = 0
REPLAY: Final = 1
NEW: Final = 2
LACKING: Final = 3

# How many are taken out of the tracker at once.
DUE_MAX: Final = 200


@final
class Due:
    """See the module. `was_read` says whether an entry stands before the read position: the
    reading gets to others in turn. `ring` is called when there may be some."""

    def __init__(
        self,
        delayed: DelayedMessages,
        host: Host,
        was_read: Callable[[int], bool],
        ring: Callable[[], None],
    ) -> None:
        self._delayed: Final = delayed
        self._host: Final = host
        self._was_read: Final = was_read
        self._ring: Final = ring
        self._keys: Final = Replay()
        self._alarm: Final = Alarm(host, self._rings)
        self._closed: bool = False
        # Whether an abort gave something back since the last plan was made.
        self.freed: bool = False

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: int) -> None:
        self._keys.add(key)

    def free(self, key: int) -> None:
        self._keys.add(key)
        self.freed = True

    def discard(self, key: int) -> None:
        if len(self._keys) > 0:
            self._keys.discard(key)

    def discard_through(self, key: int) -> None:
        self._keys.discard_through(key)

    def first(self, count: int) -> list[int]:
        return self._keys.first(count)

    def clear(self) -> None:
        self._keys.clear()

    def set_alarm(self) -> None:
        """Wakes up when the first delayed message is due."""
        self._alarm.set(None if self._closed else self._delayed.next_ms())

    def close(self) -> None:
        self._closed = True
        self._alarm.set(None)

    def take(self, now_ms: int) -> bool:
        """Takes those whose time has come; False if none of a piece of them counts.

        Those that are still to be read do not, and there may be many.
        """
        if not self.is_any(now_ms):
            return True
        for key in self._delayed.due(now_ms, DUE_MAX):
            if self._was_read(key):
                self._keys.add(key)
        self.set_alarm()
        return len(self._keys) > 0 or not self.is_any(now_ms)

    def is_any(self, now_ms: int) -> bool:
        """Whether some are to be taken."""
        next_ms = self._delayed.next_ms() if len(self._delayed) > 0 else None
        return next_ms is not None and next_ms <= now_ms

    def _rings(self) -> None:
        self.take(self._host.now_ms())
        self.set_alarm()
        self._ring()
