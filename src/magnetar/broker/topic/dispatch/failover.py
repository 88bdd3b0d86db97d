"""Which consumer of a Failover subscription is served.

Those with the lowest priority level are candidates. Partitions go round among them by
number, so that many partitions spread over all. A topic that is no partition has no
number: the candidates stand on a ring of hashes, many times each, and the first one at or
after the topic's own hash is served. The choice depends on nothing but its arguments, and
not on the order of consumers.

What takes time is the distance from the topic to the first point of a consumer. It never
changes, so `Candidates` keeps it; and it keeps consumers in order, for thousands of them may
come and leave one after the other.
"""

from bisect import bisect_left, insort
from typing import Final, TypeAlias, final

from mypy_extensions import i64

from magnetar.protocol.key_hash import key_hash

__all__ = ["Candidates", "pick_active", "ring_distance"]

# Points that a candidate has on the ring; Pulsar's number.
POINTS: Final = 100

_RING_MASK: Final = 0x7FFFFFFF

# Priority level, distance on the ring, name, id.
_Rank: TypeAlias = tuple[int, int, str, int]


@final
class Candidates:
    """The consumers of one topic, in the order in which they would be served.

    `partition` is -1 for a topic that is no partition.

    >>> candidates = Candidates(1, "any")
    >>> for priority, name, id in [(0, "b", 7), (0, "a", 9), (1, "c", 3)]:
    ...     candidates.add(priority, name, id)
    >>> candidates.pick()
    7
    >>> candidates.remove(7)
    >>> candidates.pick()
    9
    """

    def __init__(self, partition: int, topic: str) -> None:
        self._partition: Final = partition
        self._topic: Final = topic
        self._ranks: Final[list[_Rank]] = []
        self._by_id: Final[dict[int, _Rank]] = {}

    def add(self, priority: int, name: str, id: int, distance: int | None = None) -> None:
        """`distance` is that on the ring, if it is known."""
        if distance is None or self._partition >= 0:
            distance = 0 if self._partition >= 0 else ring_distance(name, self._topic)
        rank = (priority, distance, name, id)
        insort(self._ranks, rank)
        self._by_id[id] = rank

    def remove(self, id: int) -> None:
        """Removes a consumer, which must be one of them."""
        del self._ranks[bisect_left(self._ranks, self._by_id.pop(id))]

    def pick(self) -> int:
        """Returns the id of the consumer to serve, or -1 if there is none."""
        if not self._ranks:
            return -1
        if self._partition < 0:
            return self._ranks[0][3]
        # Those of the lowest level there is, which come first.
        count = bisect_left(self._ranks, (self._ranks[0][0] + 1, -1, "", -1))
        return self._ranks[self._partition % count][3]


def pick_active(
    consumers: list[tuple[int, str, int]],
    partition: int,
    topic: str,
    distances: dict[int, int] | None = None,
) -> int:
    """Returns the id of the consumer to serve, or -1 if there is none.

    Consumers are a priority level, a name and an id; `partition` is -1 for a topic that
    is no partition. Of two consumers with one name the one with the lower id goes first.
    `distances` are those of the ring, by id, if they are known.

    >>> pick_active([(0, "b", 7), (0, "a", 9), (1, "c", 3)], 1, "any")
    7
    """
    candidates = Candidates(partition, topic)
    for priority, name, id in consumers:
        candidates.add(priority, name, id, None if distances is None else distances[id])
    return candidates.pick()


def ring_distance(name: str, topic: str) -> int:
    """Returns how far behind the topic's place on the ring a consumer's next point is."""
    place = key_hash(topic.encode())
    nearest: i64 = _RING_MASK
    for j in range(POINTS):
        # Beyond the last point the ring begins again.
        nearest = min(nearest, (key_hash(f"{name}{j}".encode()) - place) & _RING_MASK)
    return nearest
