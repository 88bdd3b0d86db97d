"""Which consumer of a Failover subscription is served."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.topic.dispatch.failover import pick_active, ring_distance
from magnetar.protocol.key_hash import key_hash

Consumer = tuple[int, str, int]

CONSUMERS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", "c", "é"]), st.integers(0, 99)),
    max_size=8,
    unique_by=lambda consumer: consumer[2],
)


def by_ring(consumers: list[Consumer], topic: str) -> int:
    """The rule as it is written: a sorted ring, and the ceiling of the topic's hash."""
    ring: dict[int, int] = {}
    level = min(consumer[0] for consumer in consumers)
    for priority, name, consumer_id in sorted(consumers):
        if priority == level:
            for j in range(100):
                ring.setdefault(key_hash(f"{name}{j}".encode()), consumer_id)
    place = key_hash(topic.encode())
    return ring[min((point for point in ring if point >= place), default=min(ring))]


def test_nobody_is_active_without_consumers() -> None:
    assert pick_active([], 3, "t") == -1
    assert pick_active([], -1, "t") == -1


@given(CONSUMERS.filter(bool), st.text(max_size=10))
def test_a_topic_without_partitions_follows_the_ring(consumers: list[Consumer], topic: str) -> None:
    assert pick_active(consumers, -1, topic) == by_ring(consumers, topic)


@given(CONSUMERS.filter(bool), st.integers(0, 100))
def test_partitions_go_round_among_the_best_priority(
    consumers: list[Consumer], partition: int
) -> None:
    level = min(consumer[0] for consumer in consumers)
    best = sorted((name, consumer_id) for p, name, consumer_id in consumers if p == level)
    assert pick_active(consumers, partition, "any") == best[partition % len(best)][1]


@given(CONSUMERS, st.integers(-1, 3))
def test_the_order_of_consumers_does_not_matter(consumers: list[Consumer], partition: int) -> None:
    expected = pick_active(consumers, partition, "t")
    assert pick_active(consumers[::-1], partition, "t") == expected
    assert pick_active(sorted(consumers, key=lambda c: c[2]), partition, "t") == expected


def test_topics_spread_over_consumers_and_wrap_round_the_ring() -> None:
    consumers = [(0, "a", 1), (0, "b", 2), (0, "c", 3)]
    topics = [f"persistent://public/default/t{i}" for i in range(40)]
    picked = [pick_active(consumers, -1, topic) for topic in topics]
    assert set(picked) == {1, 2, 3}
    assert picked == [by_ring(consumers, topic) for topic in topics]
    # Beyond the last point of all.
    last = max(key_hash(f"{name}{j}".encode()) for _, name, _ in consumers for j in range(100))
    beyond = next(t for t in map(str, range(10**6)) if key_hash(t.encode()) > last)
    assert pick_active(consumers, -1, beyond) == by_ring(consumers, beyond)


@given(CONSUMERS.filter(bool), st.text(max_size=10))
def test_distances_that_are_known_change_nothing(consumers: list[Consumer], topic: str) -> None:
    distances = {id: ring_distance(name, topic) for _, name, id in consumers}
    assert pick_active(consumers, -1, topic, distances) == by_ring(consumers, topic)


def test_distances_that_are_known_are_not_reckoned_again() -> None:
    """A hundred hashes for every consumer, whenever one comes or goes, would take seconds."""
    assert pick_active([(0, "a", 1), (0, "b", 2)], -1, "t", {1: 5, 2: 4}) == 2
    assert pick_active([(0, "a", 1), (0, "b", 2)], -1, "t", {1: 4, 2: 4}) == 1
