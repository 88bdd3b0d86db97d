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

from typing import Final, final

from magnetar.broker.topic.consumer import Consumer

__all__ = ["AWAY_MAX", "AWAY_MS", "OVERTAKEN_MAX", "Overtaken"]

# A holder that never acks what it was handed must not fill the memory: the oldest are forgotten.
OVERTAKEN_MAX: Final = 10_000
# So many may have one entry; and so many that lost their connection are known by their names.
HOLDERS_MAX: Final = 10
AWAY_MAX: Final = 1000
# A client that lives is back by then, unless the network is away for longer.
AWAY_MS: Final = 5 * 60_000


@final
class Overtaken:
    """Who has each of these entries, by their keys."""

    def __init__(self, count_max: int = OVERTAKEN_MAX) -> None:
        self._count_max: Final = count_max
        self._holders: Final[dict[int, list[Consumer]]] = {}
        # Ghosts of those that lost their connection, and when; and the same by name.
        self._away_ms: Final[dict[Consumer, int]] = {}
        self._away: Final[dict[str, list[Consumer]]] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, key: int, holder: Consumer) -> None:
        holders = self._holders.get(key)
        if holders is None:
            if len(self._holders) >= self._count_max:
                del self._holders[next(iter(self._holders))]
            self._holders[key] = [holder]
        elif holder not in holders:
            if len(holders) >= HOLDERS_MAX:
                del holders[0]
            holders.append(holder)

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
        """One who has the entry and is asked for it now."""
        holders = self._holders.get(key)
        while holders:
            holder = holders.pop(0)
            if not holders:
                del self._holders[key]
            if holder.is_over and not self._is_away(holder, now_ms):
                continue
            return holder
        return None

    def _is_away(self, ghost: Consumer, now_ms: int) -> bool:
        """Whether it lost its connection a while ago, and is not back."""
        since_ms = self._away_ms.get(ghost)
        return since_ms is not None and now_ms - since_ms < AWAY_MS

    def leave(self, consumer: Consumer) -> None:
        """The consumer is gone, and its queue with it."""
        for key in [key for key, holders in self._holders.items() if consumer in holders]:
            self.is_done_with(key, consumer)

    def went_away(self, consumer: Consumer, keys: list[int], now_ms: int) -> None:
        """It lost its connection, and its client goes on with what it has."""
        ghost = consumer.ghost()
        for key in keys[-self._count_max :]:
            self.add(key, ghost)
        self._away_ms[ghost] = now_ms
        self._away.setdefault(ghost.name, []).append(ghost)
        if len(self._away_ms) > AWAY_MAX:
            self.came_back(next(iter(self._away_ms)).name)

    def came_back(self, name: str) -> None:
        """A client subscribed anew: what it had under that name is not there any more."""
        for ghost in self._away.pop(name, ()):
            del self._away_ms[ghost]
