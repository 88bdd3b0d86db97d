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
| on its way  | it came again to its consumer, which acked it: what it had before,    |
|             | perhaps, while the copy was on its way                                |
| left behind | its consumer gave it back, or lost its connection, and its client     |
|             | does not empty its queue for that                                     |
| neither     | who has it acks it too, leaves, is asked to give it back or gets it   |
|             | anew; or is back after its connection broke (`absent.py`)             |

Who is away and had too much to be remembered, or is one of too many, goes to the broker's strays:
those are named for whatever is skipped. So are all who are away when this dispatcher ends.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, final

from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.dispatch.absent import Absent, Absentees

__all__ = ["AWAY_MAX", "LEFT_MAX", "OVERTAKEN_MAX", "Overtaken"]

# A holder that never acks what it was handed must not fill the memory: the oldest are forgotten.
OVERTAKEN_MAX: Final = 10_000
# So many may have one entry.
HOLDERS_MAX: Final = 10
# So many that lost their connection are remembered, with so many entries each.
AWAY_MAX: Final = 50
LEFT_MAX: Final = 10_000


@final
class Overtaken:
    """Who has each of these entries, by their keys; `stray` takes those of whom that is lost."""

    def __init__(self, stray: Callable[[Absent], None], *, count_max: int = OVERTAKEN_MAX) -> None:
        self._stray: Final = stray
        self._count_max: Final = count_max
        self._holders: Final[dict[int, list[Consumer]]] = {}
        self._away: Final = Absentees()

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
        """Takes out one who has the entry, and returns it; None if nobody has."""
        holders = self._holders.get(key)
        if holders:
            holder = holders.pop(0)
            if not holders:
                del self._holders[key]
            return holder
        if len(self._away) > 0:
            self._away.expire(now_ms)
            for absent in self._away.all():
                if key in absent.keys:
                    absent.keys.remove(key)
                    return absent.ghost
        return None

    def leave(self, consumer: Consumer, now_ms: int) -> None:
        """The consumer is gone, and its queue with it, unless its client goes on with that."""
        keys = [key for key, holders in self._holders.items() if consumer in holders]
        for key in keys:
            self.is_done_with(key, consumer)
        if keys and consumer.keeps_queue:
            self.went_away(consumer, keys, now_ms)

    def went_away(self, consumer: Consumer, keys: list[int], now_ms: int) -> None:
        """It lost its connection, and its client goes on with what it has: with these too."""
        absent = self._away.get(consumer)
        if absent is None:
            if len(self._away) >= AWAY_MAX:
                self._give_up(self._away.oldest())
            absent = Absent(consumer, now_ms)
            self._away.add(absent)
        absent.keys.update(keys)
        if len(absent.keys) > LEFT_MAX:
            self._give_up(absent)

    def _give_up(self, absent: Absent) -> None:
        """What it has is too much to be remembered."""
        self._away.remove(absent)
        self._stray(absent)

    def came_back(self, consumer: Consumer) -> None:
        """A client asks for messages on a new connection."""
        self._away.came_back(consumer)

    def end(self) -> None:
        """The dispatcher ends: from here on nobody knows what those have who are away."""
        for absent in self._away.all():
            self._give_up(absent)
