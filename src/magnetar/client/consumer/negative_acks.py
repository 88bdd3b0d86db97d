"""Messages that an application could not handle, and when to ask for them again.

What is redelivered is an entry: the broker keeps back those of its messages that are
acked. So an entry has one due time here, which refusing it once more may bring forward, and
never puts off.
"""

from typing import Final, final

from magnetar.client.ack.deadlines import Deadlines
from magnetar.client.option.backoff import RedeliveryBackoff

__all__ = ["NegativeAcks"]


@final
class NegativeAcks:
    """Entries to be redelivered after `delay_ms`, or as `backoff` says of their count."""

    def __init__(self, delay_ms: int, backoff: RedeliveryBackoff | None = None) -> None:
        self._delay_ms: Final = delay_ms
        self._backoff: Final = backoff
        self.deadlines: Final = Deadlines()

    def add(self, key: int, redelivery_count: int, now_ms: int) -> None:
        backoff = self._backoff
        delay_ms = self._delay_ms if backoff is None else backoff.next_ms(redelivery_count)
        self.deadlines.add(key, now_ms + delay_ms)
