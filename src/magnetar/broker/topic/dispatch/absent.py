"""Consumers that lost their connection, while their clients go on with what they have queued.

Clients that do not know WITHDRAW do so until they are back, and every client does where it has a
subscription for itself. What they have may be skipped meanwhile, and nobody can ask them for it:
they are named. A client that comes back subscribes on another connection, with the name and the
number that its consumer had. Others may have both, so:

| a consumer asks for messages                        | means                                     |
|-----------------------------------------------------|-------------------------------------------|
| for the first time on its connection, and one that  | that one is back                          |
| was lost before it subscribed has its name, its     |                                           |
| number and its host                                 |                                           |
| likewise, and several that are away have them       | one of them is back, nobody knows which:  |
|                                                     | they are all named until so many are back |
| whose client was there before, under that number    | nothing: it was not away                  |

Who has been away for very long must be gone.
"""

from typing import Final, TypeAlias, final

from magnetar.broker.topic.consumer import Consumer

__all__ = ["AWAY_MS", "Absent", "Absentees"]

# A client that lives is back by then, unless the network is away for longer.
AWAY_MS: Final = 5 * 60_000

# What a consumer has when it is back as well: its name, its number with its client, and its host.
Identity: TypeAlias = tuple[str, int, str]


def identity_of(consumer: Consumer) -> Identity:
    return consumer.name, int(consumer.id), consumer.peer.address.rpartition(":")[0]


@final
class Absent:
    """A consumer that is away, since when, and the entries that it had, if those are known."""

    def __init__(self, consumer: Consumer, since_ms: int) -> None:
        self.ghost: Final = consumer.ghost()
        self.identity: Final = identity_of(consumer)
        self.since_ms: Final = since_ms
        self.keys: Final[set[int]] = set()


@final
class Absentees:
    """All that are away, the first to be lost at the front."""

    def __init__(self) -> None:
        self._by_key: Final[dict[int, Absent]] = {}
        # The same, together with those that nobody can tell them from.
        self._alike: Final[dict[Identity, list[Absent]]] = {}
        # How many of those may be back.
        self._back: Final[dict[Identity, int]] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, consumer: Consumer) -> Absent | None:
        return self._by_key.get(consumer.key)

    def add(self, absent: Absent) -> None:
        self._by_key[absent.ghost.key] = absent
        self._alike.setdefault(absent.identity, []).append(absent)

    def all(self) -> list[Absent]:
        return list(self._by_key.values())

    def oldest(self) -> Absent:
        return next(iter(self._by_key.values()))

    def remove(self, absent: Absent) -> None:
        """It is gone, or looked after elsewhere."""
        identity = absent.identity
        del self._by_key[absent.ghost.key]
        alike = self._alike[identity]
        alike.remove(absent)
        if not alike:
            del self._alike[identity]
        back = self._back.pop(identity, 0)
        if back > 1:
            # It may be one of those that are back: then so many fewer of the others are.
            self._back[identity] = back - 1

    def expire(self, now_ms: int) -> None:
        """Forgets those that have been away for too long."""
        while self._by_key:
            oldest = self.oldest()
            if now_ms - oldest.since_ms < AWAY_MS:
                return
            self.remove(oldest)

    def came_back(self, consumer: Consumer) -> None:
        """A client has subscribed on a new connection, and its queue is empty."""
        identity = identity_of(consumer)
        alike = [
            one for one in self._alike.get(identity, ()) if one.since_ms < consumer.connected_ms
        ]
        if not alike:
            return
        back = self._back.get(identity, 0) + 1
        if back < len(alike):
            self._back[identity] = back
            return
        for absent in alike:
            self.remove(absent)
