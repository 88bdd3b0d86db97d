"""What is left of a subscription, against a plain set of messages on both sides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import RemoteProtocolError
from magnetar.migrate.plan.acked_ranges import AckedRanges
from magnetar.migrate.plan.acks import Unacked, orders, unacked_of
from magnetar.migrate.plan.entry_map import EntryMap
from magnetar.migrate.plan.journal import runs_of

# The size of each entry's batch, and which of its messages are left.
ENTRIES = st.lists(
    st.integers(1, 4).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, 2**size - 1))),
    max_size=12,
)


def positions_of(count: int, step: int) -> list[tuple[int, int]]:
    """So many positions, in ledgers of `step` entries."""
    return [(10 + number // step, number % step) for number in range(count)]


def left_of(found: Unacked, sizes: list[int]) -> set[tuple[int, int]]:
    left = set()
    for first, end in found.ranges:
        for number in range(first, end):
            bits, _ = found.batches.get(number, (2 ** sizes[number] - 1, sizes[number]))
            left |= {(number, index) for index in range(sizes[number]) if bits >> index & 1}
    return left


@given(ENTRIES, st.integers(1, 5))
def test_what_the_target_acks_leaves_what_the_source_has_left(
    entries: list[tuple[int, int]], step: int
) -> None:
    sizes = [size for size, _ in entries]
    everything = {(n, index) for n, size in enumerate(sizes) for index in range(size)}
    left = {(n, i) for n, (size, bits) in enumerate(entries) for i in range(size) if bits >> i & 1}
    places = positions_of(len(entries), step)
    runs = runs_of([place for place, (_, bits) in zip(places, entries, strict=True) if bits])
    batches = {
        place: (bits, size)
        for place, (size, bits) in zip(places, entries, strict=True)
        if bits and bits != 2**size - 1
    }
    found = unacked_of(EntryMap(runs_of(places)), runs, batches)
    assert left_of(found, sizes) == left
    assert found.entries == sum(bits > 0 for _, bits in entries)
    told = orders(found, len(entries))
    acked = {(n, i) for n, i in everything if n < told.floor}
    for first, end in told.ranges:
        acked |= {(n, i) for n, i in everything if first <= n < end}
    acked |= {(number, index) for number, index, _ in told.indexes}
    assert everything - acked == left


def test_what_is_in_no_entry_does_not_count() -> None:
    entries = EntryMap([(3, 0, 2), (5, 4, 6)])
    found = unacked_of(entries, [(3, 1, 9), (4, 0, 5), (5, 0, 5)], {(4, 2): (1, 2)})
    assert (found.ranges, found.batches) == ([(1, 3)], {})


def test_differences_name_the_entry() -> None:
    one = Unacked([(0, 4)], {2: (1, 3)})
    assert one.difference(Unacked([(0, 4)], {2: (1, 3)})) == ""
    assert "entry 3" in one.difference(Unacked([(0, 3)], {2: (1, 3)}))
    assert "batch that is entry 2" in one.difference(Unacked([(0, 4)], {}))
    assert one != Unacked([(0, 4)], {})
    assert one == Unacked([(0, 4)], {2: (1, 3)})
    assert hash(one) == hash(Unacked([(0, 4)], {2: (1, 3)}))
    assert one != 5


@given(st.sets(st.integers(0, 11)), st.integers(0, 12), st.integers(1, 5))
def test_what_apache_tells_of_acks_is_understood(above: set[int], floor: int, step: int) -> None:
    places = positions_of(12, step)
    acked = set(range(floor)) | above
    mark = f"{places[floor - 1][0]}:{places[floor - 1][1]}" if floor else "10:-1"
    runs = []
    for number in sorted(above):
        ledger, entry = places[number]
        runs.append(f"({ledger}:{entry - 1}..{ledger}:{entry}]")
    rest = AckedRanges(mark, f"[{','.join(runs)}]").rest_of(EntryMap(runs_of(places)))
    numbers = [number for first, end in rest for number in range(first, end)]
    assert numbers == [number for number in range(12) if number not in acked]


def test_a_run_over_several_ledgers() -> None:
    entries = EntryMap([(3, 0, 4), (4, 0, 4), (5, 0, 4)])
    assert AckedRanges("3:0", "[(3:2..5:1]]").rest_of(entries) == [(1, 3), (10, 12)]


def test_what_is_no_list_of_runs_is_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        AckedRanges("3:0", "none")
