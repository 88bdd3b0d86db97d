"""Which consumer of a Failover subscription is served.

Those with the lowest priority level are candidates. Partitions go round among them by
number, so that many partitions spread over all. A topic that is no partition has no
number: the candidates stand on a ring of hashes, many times each, and the first one at or
after the topic's own hash is served. The choice depends on nothing but its arguments, and
not on the order of consumers.

What takes time is the distance from the topic to the first point of a consumer. It never
changes, so whoever asks again and again keeps it.
"""

from typing import Final

from mypy_extensions import i64

from magnetar.protocol.key_hash import key_hash

__all__ = ["pick_active", "ring_distance"]

# Points that a candidate has on the ring; Pulsar's number.
POINTS: Final = 100

_RING_MASK: Final = 0x7FFFFFFF


def pick_active(
    consumers: list[tuple[int, str, int]],
    partition: int,
    topic: str,
    distances: dict[int, int] | None = None,
) -> int:
    """The id of the consumer to serve, or -1 if there is none.

    Consumers are a priority level, a name and an id; `partition` is -1 for a topic that
    is no partition. Of two consumers with one name the one with the lower id goes first.
    `distances` are those of the ring, by id, if they are known.

    >>> pick_active([(0, "b", 7), (0, "a", 9), (1, "c", 3)], 1, "any")
    7
    """
    if not consumers:
        return -1
    ordered = sorted(consumers)
    candidates = [consumer for consumer in ordered if consumer[0] == ordered[0][0]]
    if partition >= 0:
        return candidates[partition % len(candidates)][2]
    if distances is None:
        distances = {id: ring_distance(name, topic) for _, name, id in candidates}
    nearest = candidates[0][2]
    for _, _, id in candidates:
        if distances[id] < distances[nearest]:
            nearest = id
    return nearest


def ring_distance(name: str, topic: str) -> int:
    """How far behind the topic's place on the ring a consumer's next point is."""
    place = key_hash(topic.encode())
    nearest: i64 = _RING_MASK
    for j in range(POINTS):
        # Beyond the last point the ring begins again.
        nearest = min(nearest, (key_hash(f"{name}{j}".encode()) - place) & _RING_MASK)
    return nearest
