"""Entries that a consumer may hand out though the broker does not count them as its own.

A consumer that lost its connection may ack, once it is back, what was given to somebody else
meanwhile. The ack counts, and the broker lets go of the entry; but the consumer that has it does
not know, and will hand it to its application. And clients that do not know WITHDRAW keep in their
queue what they have given back: the rest of a batch of which one message was refused, everything
after a call for the redelivery of everything, and what was there when their connection broke,
until they are back. Nothing is wrong with that until the entry is skipped: after a skip no
application is handed it (I5), so the skip must know whom to ask, or to name.

| an entry is | when                                                                  |
|-------------|-----------------------------------------------------------------------|
| held        | it was sent to a consumer that has not acked it                       |
| overtaken   | another consumer's ack of it counts                                   |
| left behind | its consumer gave it back, or lost its connection, and its client     |
|             | does not empty its queue for that                                     |
| neither     | who has it acks it too, leaves, is asked to give it back or gets it   |
|             | anew; is back after its connection broke, by its name; or has been    |
|             | away for so long that its client must be gone                         |
"""

from itertools import islice
from typing import Final, final

from magnetar.broker.topic.consumer import Consumer

__all__ = ["AWAY_MAX", "AWAY_MS", "OVERTAKEN_MAX", "Overtaken"]

# A holder that never acks what it was handed must not fill the memory: the oldest are forgotten.
OVERTAKEN_MAX: Final = 10_000
# So many may have one entry.
HOLDERS_MAX: Final = 10
# So many that lost their connection are remembered, with so many entries each.
AWAY_MAX: Final = 50
LEFT_MAX: Final = 10_000
# A client that lives is back by then, unless the network is away for longer.
AWAY_MS: Final = 5 * 60_000


@final
class _Away:
    """A consumer that lost its connection, and the entries that its client had then."""

    def __init__(self, consumer: Consumer, since_ms: int) -> None:
        self.ghost: Final = consumer.ghost()
        self.since_ms: Final = since_ms
        self.keys: Final[set[int]] = set()


@final
class Overtaken:
    """Who has each of these entries, by their keys."""

    def __init__(self, count_max: int = OVERTAKEN_MAX) -> None:
        self._count_max: Final = count_max
        self._holders: Final[dict[int, list[Consumer]]] = {}
        # Those that lost their connection, by their numbers; the first is the oldest.
        self._away: Final[dict[int, _Away]] = {}

    def __len__(self) -> int:
        return len(self._holders) + len(self._away)

    def add(self, key: int, holder: Consumer) -> None:
        holders = self._holders.get(key)
        if holders is None:
            if len(self._holders) >= self._count_max:
                self._forget_oldest()
            self._holders[key] = [holder]
        elif holder not in holders:
            if len(holders) >= HOLDERS_MAX:
                del holders[0]
            holders.append(holder)

    def _forget_oldest(self) -> None:
        """Several at once, for to find the first of a dict takes longer each time."""
        for key in list(islice(self._holders, max(self._count_max // 10, 1))):
            del self._holders[key]

    def get(self, key: int) -> list[Consumer]:
        return self._holders.get(key, [])

    def is_done_with(self, key: int, consumer: Consumer) -> None:
        """A consumer has acked the entry too, so that it was handed out; or is sent it anew."""
        holders = self._holders.get(key)
        if holders is not None and consumer in holders:
            holders.remove(consumer)
            if not holders:
                del self._holders[key]

    def take(self, key: int, now_ms: int) -> Consumer | None:
        """One who has the entry and is asked for it, or named, now."""
        holders = self._holders.get(key)
        if holders:
            holder = holders.pop(0)
            if not holders:
                del self._holders[key]
            return holder
        for number in list(self._away):
            away = self._away[number]
            if now_ms - away.since_ms >= AWAY_MS:
                del self._away[number]
            elif key in away.keys:
                away.keys.remove(key)
                return away.ghost
        return None

    def leave(self, consumer: Consumer) -> None:
        """The consumer is gone, and its queue with it."""
        for key in [key for key, holders in self._holders.items() if consumer in holders]:
            self.is_done_with(key, consumer)

    def went_away(self, consumer: Consumer, keys: list[int], now_ms: int) -> None:
        """It lost its connection, and its client goes on with what it has: with these too."""
        away = self._away.get(consumer.key)
        if away is None:
            if len(self._away) >= AWAY_MAX:
                del self._away[next(iter(self._away))]
            away = self._away[consumer.key] = _Away(consumer, now_ms)
        if len(away.keys) < LEFT_MAX:
            away.keys.update(keys)

    def came_back(self, name: str) -> None:
        """A client is back and asks for messages: what it had under that name is gone."""
        for number in [number for number, away in self._away.items() if away.ghost.name == name]:
            del self._away[number]
