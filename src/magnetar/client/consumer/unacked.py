"""The ack timeout: what an application took and did not acknowledge in time comes again.

The time of an entry begins when the first of its messages is taken, and ends when all of
them are acked, or with its redelivery. Times are rounded up to the tick, so that a
consumer of many messages wakes up once for all that fall due together.
"""

from typing import Final, final

from magnetar.client.ack.deadlines import Deadlines
from magnetar.client.option.backoff import RedeliveryBackoff

__all__ = ["Unacked"]

# As in Pulsar: how exact a timeout is, that is at least a second itself.
TICK_MS: Final = 1000


@final
class Unacked:
    """Entries that the application has; a `timeout_ms` of 0 keeps track of none."""

    def __init__(
        self,
        timeout_ms: int,
        backoff: RedeliveryBackoff | None = None,
        tick_ms: int = TICK_MS,
    ) -> None:
        self.enabled: Final = timeout_ms > 0
        self._timeout_ms: Final = timeout_ms
        self._backoff: Final = backoff
        self._tick_ms: Final = tick_ms
        self.deadlines: Final = Deadlines()

    def taken(self, key: int, redelivery_count: int, now_ms: int) -> None:
        """A message of the entry goes to the application."""
        if key in self.deadlines:
            return
        due_ms = now_ms + self._timeout_ms
        if self._backoff is not None:
            due_ms += self._backoff.next_ms(redelivery_count)
        self.deadlines.add(key, -(-due_ms // self._tick_ms) * self._tick_ms)
