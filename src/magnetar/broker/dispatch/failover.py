"""Which consumer of a Failover subscription is served.

Those with the lowest priority level are candidates. Partitions go round among them by
number, so that many partitions spread over all. A topic that is no partition has no
number: the candidates stand on a ring of hashes, many times each, and the first one at or
after the topic's own hash is served. The choice depends on nothing but its arguments, and
not on the order of consumers.
"""

from typing import Final

from mypy_extensions import i64

from magnetar.protocol.key_hash import key_hash

__all__ = ["pick_active"]

# Points that a candidate has on the ring; Pulsar's number.
POINTS: Final = 100

_RING_MASK: Final = 0x7FFFFFFF


def pick_active(consumers: list[tuple[int, str, int]], partition: int, topic: str) -> int:
    """The id of the consumer to serve, or -1 if there is none.

    Consumers are a priority level, a name and an id; `partition` is -1 for a topic that
    is no partition. Of two consumers with one name the one with the lower id goes first.

    >>> pick_active([(0, "b", 7), (0, "a", 9), (1, "c", 3)], 1, "any")
    7
    """
    if not consumers:
        return -1
    ordered = sorted(consumers)
    candidates = [consumer for consumer in ordered if consumer[0] == ordered[0][0]]
    if partition >= 0:
        return candidates[partition % len(candidates)][2]
    return _next_on_ring(candidates, key_hash(topic.encode()))


def _next_on_ring(candidates: list[tuple[int, str, int]], place: i64) -> int:
    nearest = -1
    distance_min: i64 = _RING_MASK + 1
    for _, name, consumer_id in candidates:
        for j in range(POINTS):
            # Beyond the last point the ring begins again.
            distance = (key_hash(f"{name}{j}".encode()) - place) & _RING_MASK
            if distance < distance_min:
                distance_min = distance
                nearest = consumer_id
    return nearest
