"""Entries that one consumer has in its queue while another has acked them.

A consumer that lost its connection may ack, once it is back, what was given to somebody else
meanwhile. The ack counts, and the broker lets go of the entry; but the consumer that has it does
not know, and will hand it to its application. Nothing is wrong with that until the entry is
skipped: after a skip no application is handed it (I5), so the skip must know whom to ask.

| an entry is | when                                                                  |
|-------------|-----------------------------------------------------------------------|
| held        | it was sent to a consumer that has not acked it                       |
| overtaken   | another consumer's ack of it counts                                   |
| neither     | its holder acks it too, leaves, or is asked to give it back           |
"""

from typing import Final, final

from magnetar.broker.topic.consumer import Consumer

__all__ = ["OVERTAKEN_MAX", "Overtaken"]

# A holder that never acks what it was handed must not fill the memory: the oldest are forgotten.
OVERTAKEN_MAX: Final = 10_000


@final
class Overtaken:
    """Who has each of these entries, by their keys."""

    def __init__(self, count_max: int = OVERTAKEN_MAX) -> None:
        self._count_max: Final = count_max
        self._holders: Final[dict[int, Consumer]] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, key: int, holder: Consumer) -> None:
        if len(self._holders) >= self._count_max:
            del self._holders[next(iter(self._holders))]
        self._holders[key] = holder

    def get(self, key: int) -> Consumer | None:
        return self._holders.get(key)

    def acked_by(self, key: int, consumer: Consumer) -> None:
        """Its holder has acked it too: it was handed out."""
        if self._holders.get(key) is consumer:
            del self._holders[key]

    def take(self, key: int) -> Consumer | None:
        """Who has the entry and is asked for it now."""
        return self._holders.pop(key, None)

    def leave(self, consumer: Consumer) -> None:
        """The consumer is gone, and its queue with it."""
        for key in [key for key, holder in self._holders.items() if holder is consumer]:
            del self._holders[key]
