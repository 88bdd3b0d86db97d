"""Who owns a slot: every selector against a plain table of all slots."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.topic.dispatch.selector import (
    AutoSplitSelector,
    ConsistentHashSelector,
    Selector,
    StickySelector,
)
from magnetar.errors import BrokerError
from magnetar.model.enums import ServerError
from magnetar.protocol.key_hash import auto_split_slot, consistent_slot

NAMES = st.sampled_from(["a", "b", "consumer-1", "é"])

# Consumers that come, by a name, or go, by a number among those that are there.
STEPS = st.lists(st.one_of(NAMES, st.integers(0, 9)), max_size=30)

# Some slots of everywhere.
SAMPLE = [*range(1, 65535, 61), 65535]


def sample(selector: Selector) -> list[int]:
    return [selector.owner(slot) for slot in SAMPLE]


def shares(selector: Selector, consumers: Iterable[int]) -> dict[int, int]:
    """How many slots everybody has, once it is sure that ranges and owners agree."""
    taken: list[tuple[int, int]] = []
    sizes: dict[int, int] = {}
    for consumer_id in consumers:
        ranges = selector.ranges(consumer_id)
        assert all(first > last + 1 for (_, last), (first, _) in pairwise(ranges))
        for first, last in ranges:
            middle = (first + last) // 2
            assert {selector.owner(slot) for slot in (first, middle, last)} == {consumer_id}
        sizes[consumer_id] = sum(last + 1 - first for first, last in ranges)
        taken += ranges
    assert all(first > last for (_, last), (first, _) in pairwise(sorted(taken)))
    return sizes


def run(selector: "Selector | Ring", steps: list[str | int]) -> dict[int, str]:
    """Lets consumers come and go, and returns who is left, in order of coming."""
    there: dict[int, str] = {}
    for number, step in enumerate(steps):
        if isinstance(step, str):
            selector.add(100 + number, step)
            there[100 + number] = step
        elif there:
            gone = list(there)[step % len(there)]
            selector.remove(gone)
            del there[gone]
    return there


# ---- consistent hashing --------------------------------------------------------


class Ring:
    """The ring by its definition: a queue for every slot, and a walk to the next one."""

    def __init__(self, points: int) -> None:
        self.points = points
        self.queues: dict[int, list[int]] = {}
        self.names: dict[int, tuple[str, int]] = {}

    def add(self, consumer_id: int, name: str) -> None:
        index = min(i for i in range(1000) if (name, i) not in self.names.values())
        self.names[consumer_id] = (name, index)
        for i in range(self.points):
            queue = self.queues.setdefault(consistent_slot(f"{name}\0{index}\0{i}".encode()), [])
            if consumer_id not in queue:
                queue.append(consumer_id)

    def remove(self, consumer_id: int) -> None:
        del self.names[consumer_id]
        for queue in self.queues.values():
            if consumer_id in queue:
                queue.remove(consumer_id)

    def owner(self, slot: int) -> int:
        points = [point for point, queue in self.queues.items() if queue]
        if not points:
            return -1
        return self.queues[min((p for p in points if p >= slot), default=min(points))][0]


def assert_alike(selector: Selector, ring: Ring) -> None:
    edges = {point + off for point in list(ring.queues)[:200] for off in (-1, 0, 1)}
    for slot in sorted(edges & set(range(1, 65536)) | {1, 65535}):
        assert selector.owner(slot) == ring.owner(slot)
    sizes = shares(selector, ring.names)
    assert sum(sizes.values()) == (65535 if sizes else 0)


@given(STEPS, st.integers(1, 20))
def test_consistent_hashing_follows_the_ring(steps: list[str | int], points: int) -> None:
    selector = ConsistentHashSelector(points)
    ring = Ring(points)
    assert run(selector, steps) == run(ring, steps)
    assert_alike(selector, ring)


def test_a_point_of_two_consumers_is_the_firsts_and_then_the_seconds() -> None:
    # So many points that some coincide, of two consumers and of one.
    selector = ConsistentHashSelector(2000)
    selector.add(1, "a")
    alone = sample(selector)
    selector.add(2, "b")
    ring = Ring(2000)
    ring.add(1, "a")
    ring.add(2, "b")
    assert any(len(queue) > 1 for queue in ring.queues.values())
    assert_alike(selector, ring)
    selector.remove(1)
    ring.remove(1)
    assert_alike(selector, ring)
    assert selector.ranges(2) == [(1, 65535)]
    selector.remove(2)
    selector.add(3, "a")
    assert [owner == 3 for owner in sample(selector)] == [owner == 1 for owner in alone]


def test_a_ring_that_has_the_last_slot_does_not_wrap() -> None:
    name = "n101431"
    assert consistent_slot(f"{name}\x000\x000".encode()) == 65535
    selector = ConsistentHashSelector(1)
    selector.add(1, name)
    assert selector.ranges(1) == [(1, 65535)]
    selector.add(2, "other")
    assert sum(shares(selector, [1, 2]).values()) == 65535
    assert selector.owner(65535) == 1


def test_consumers_of_one_name_share_and_a_returning_one_finds_its_slots() -> None:
    selector = ConsistentHashSelector()
    for consumer_id in (1, 2, 3):
        selector.add(consumer_id, "same")
    before = sample(selector)
    assert set(before) == {1, 2, 3}
    selector.remove(2)
    selector.add(4, "same")
    assert sample(selector) == [4 if owner == 2 else owner for owner in before]


def test_shares_are_even_to_a_degree() -> None:
    selector = ConsistentHashSelector()
    for consumer_id in range(3):
        selector.add(consumer_id, f"consumer-{consumer_id}")
    counts = Counter(selector.owner(selector.slot(f"key-{i}".encode())) for i in range(3000))
    assert all(600 < counts[consumer_id] < 1400 for consumer_id in range(3))


def test_a_newcomer_takes_slots_for_itself_only() -> None:
    selector = ConsistentHashSelector()
    selector.add(1, "a")
    selector.add(2, "b")
    before = sample(selector)
    selector.add(3, "c")
    after = sample(selector)
    assert all(new in (old, 3) for old, new in zip(before, after, strict=True))
    selector.remove(3)
    assert sample(selector) == before


# ---- splitting ranges ----------------------------------------------------------


@given(STEPS)
def test_ranges_that_are_split_cover_all_slots(steps: list[str | int]) -> None:
    selector = AutoSplitSelector()
    there = run(selector, steps)
    sizes = shares(selector, there)
    assert sum(sizes.values()) == (65535 if there else 0)
    assert all(len(selector.ranges(consumer_id)) == 1 for consumer_id in there)


@given(STEPS, NAMES)
def test_a_newcomer_takes_half_of_the_biggest_range(steps: list[str | int], name: str) -> None:
    selector = AutoSplitSelector()
    there = run(selector, steps)
    before = shares(selector, there)
    selector.add(1, name)
    after = shares(selector, [*there, 1])
    assert after[1] == max(before.values(), default=2 * 65535) // 2
    assert sum(before[consumer_id] != after[consumer_id] for consumer_id in there) == bool(there)


@given(STEPS, st.integers(0, 9))
def test_a_range_goes_to_one_neighbour(steps: list[str | int], which: int) -> None:
    selector = AutoSplitSelector()
    there = run(selector, [*steps, "one", "more"])
    before = shares(selector, there)
    gone = list(there)[which % len(there)]
    selector.remove(gone)
    del there[gone]
    after = shares(selector, there)
    grown = [after[consumer_id] - before[consumer_id] for consumer_id in there]
    assert sorted(grown) == [0] * (len(there) - 1) + [before[gone]]


def test_ranges_have_an_end() -> None:
    selector = AutoSplitSelector()
    for consumer_id in range(2047):
        selector.add(consumer_id, "any")
    assert set(shares(selector, range(2047)).values()) == {32, 63}
    with pytest.raises(BrokerError, match="2047 consumers: close some") as caught:
        selector.add(2047, "any")
    assert caught.value.code == ServerError.ConsumerAssignError
    assert selector.ranges(2047) == []
    selector.remove(0)
    selector.add(2047, "any")
    assert len(selector.ranges(2047)) == 1


# ---- sticky ranges -------------------------------------------------------------

RANGES = st.lists(st.tuples(st.integers(-2, 40), st.integers(-2, 40)), max_size=4)


@given(st.lists(st.one_of(RANGES, st.integers(0, 9)), max_size=20))
def test_sticky_ranges_belong_to_who_asked_first(
    steps: list[list[tuple[int, int]] | int],
) -> None:
    selector = StickySelector()
    owners = [-1] * 50
    there: list[int] = []
    for number, step in enumerate(steps):
        if isinstance(step, int):
            if there:
                gone = there.pop(step % len(there))
                selector.remove(gone)
                owners = [-1 if owner == gone else owner for owner in owners]
            continue
        wanted = [slot for first, last in step for slot in range(first, last + 1)]
        fits = all(0 <= first <= last for first, last in step)
        unique = len(set(wanted)) == len(wanted)
        if step and fits and unique and all(owners[slot] == -1 for slot in wanted):
            selector.add_ranges(number, step)
            there.append(number)
            for slot in wanted:
                owners[slot] = number
        else:
            with pytest.raises(BrokerError) as caught:
                selector.add_ranges(number, step)
            assert caught.value.code == ServerError.ConsumerAssignError
            assert selector.ranges(number) == []
    assert [selector.owner(slot) for slot in range(50)] == owners
    for consumer_id in there:
        slots = [s for first, last in selector.ranges(consumer_id) for s in range(first, last + 1)]
        assert slots == [slot for slot in range(50) if owners[slot] == consumer_id]


@pytest.mark.parametrize(
    ("ranges", "reason"),
    [
        ([], "has no ranges: give at least one"),
        ([(5, 4)], "5-4 is not a range of slots"),
        ([(-1, 4)], "-1-4 is not a range"),
        ([(4, 65536)], "from 0 to 65535"),
        ([(0, 9), (9, 12)], "9-12 overlaps another of this consumer"),
        ([(0, 9), (50, 100)], "50-100 overlaps 100-200, which another consumer has"),
        ([(150, 150)], "150-150 overlaps 100-200"),
        ([(0, 65535)], "0-65535 overlaps 100-200"),
    ],
)
def test_bad_ranges_are_refused_and_change_nothing(
    ranges: list[tuple[int, int]], reason: str
) -> None:
    selector = StickySelector()
    selector.add_ranges(1, [(100, 200)])
    before = sample(selector)
    assert set(before) == {1, -1}
    with pytest.raises(BrokerError, match=reason) as caught:
        selector.add_ranges(2, ranges)
    assert caught.value.code == ServerError.ConsumerAssignError
    assert sample(selector) == before


def test_a_sticky_consumer_without_ranges_is_refused() -> None:
    with pytest.raises(BrokerError, match="no ranges"):
        StickySelector().add(1, "name")


def test_ranges_are_free_again_when_their_consumer_left() -> None:
    selector = StickySelector()
    selector.add_ranges(1, [(0, 65535)])
    selector.remove(1)
    assert selector.owner(7) == -1
    selector.add_ranges(2, [(300, 65535), (0, 99)])
    assert selector.ranges(2) == [(0, 99), (300, 65535)]
    assert [selector.owner(slot) for slot in (0, 99, 100, 299, 300, 65535)] == [2, 2, -1, -1, 2, 2]


# ---- all of them ---------------------------------------------------------------


@pytest.mark.parametrize("selector", [ConsistentHashSelector(), AutoSplitSelector()])
def test_nobody_owns_anything_without_consumers(selector: Selector) -> None:
    selector.remove(5)
    assert selector.owner(1) == selector.owner(65535) == -1
    assert selector.ranges(5) == []


@given(st.binary(max_size=20))
def test_each_selector_hashes_in_its_way(key: bytes) -> None:
    assert ConsistentHashSelector().slot(key) == consistent_slot(key)
    assert AutoSplitSelector().slot(key) == auto_split_slot(key)
    assert StickySelector().slot(key) == auto_split_slot(key)
