"""Whose turn it is: consumers of the best priority that have room, round robin.

A turn is some entries long, so that one consumer gets what one read brings in few writes.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.topic.consumer import Consumer

__all__ = ["ConsumerTurns"]


@final
class ConsumerTurns:
    """See the module."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings: Final = settings
        self._index: int = 0
        self._left: i64 = 0

    def end(self) -> None:
        """Ends the turn: consumers came or went, and the next entry is another's."""
        self._left = 0

    def next(self, consumers: list[Consumer]) -> Consumer | None:
        """Returns who of them gets the next entry; None if nobody has room."""
        count, best = len(consumers), best_priority(consumers)
        if self._left > 0 and self._index < count:
            consumer = consumers[self._index]
            if consumer.available and consumer.priority == best:
                self._left -= 1
                return consumer
        for step in range(1, count + 1):
            index = (self._index + step) % count
            consumer = consumers[index]
            if consumer.available and consumer.priority == best:
                self._index = index
                self._left = self._settings.dispatch_round_robin_entries - 1
                return consumer
        return None


def best_priority(consumers: list[Consumer]) -> int:
    """The priority of the first that has room, for they are in order of it; -1 if none has."""
    for consumer in consumers:
        if consumer.available:
            return consumer.priority
    return -1
