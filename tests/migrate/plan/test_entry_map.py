"""Numbers and positions of entries, against a plain list of positions."""

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.migrate.plan.entry_map import EntryMap, Run
from magnetar.migrate.plan.journal import runs_of

At: TypeAlias = tuple[int, int]

POSITIONS = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 8))).map(sorted)
PLACES = st.tuples(st.integers(-1, 4), st.integers(-1, 9))


def map_of(positions: list[At]) -> EntryMap:
    return EntryMap(runs_of(positions))


@given(POSITIONS, PLACES)
def test_it_is_a_list_of_positions(positions: list[At], place: tuple[int, int]) -> None:
    entries = map_of(positions)
    assert entries.count == len(positions)
    assert [entries.position(number) for number in range(len(positions))] == positions
    expected = positions.index(place) if place in positions else -1
    assert entries.number(*place) == expected
    last = positions[-1] if positions else (-1, -2)
    assert entries.behind() == (last[0], last[1] + 1)


@given(POSITIONS, st.integers(0, 40))
def test_cut_leaves_the_first(positions: list[At], count: int) -> None:
    entries = map_of(positions)
    entries.cut(count)
    left = positions[:count]
    assert (entries.count, entries.runs) == (len(left), runs_of(left))
    assert [entries.position(number) for number in range(len(left))] == left


@given(POSITIONS, st.integers(0, 3), st.integers(0, 8), st.integers(0, 9))
def test_numbers_of_a_run(positions: list[At], ledger: int, first: int, end: int) -> None:
    found = map_of(positions).numbers((ledger, first, end))
    numbers = [number for low, high in found for number in range(low, high)]
    expected = [
        n for n, (led, entry) in enumerate(positions) if led == ledger and first <= entry < end
    ]
    assert numbers == expected


@pytest.mark.parametrize("run", [(3, 4, 6), (2, 0, 1), (3, 0, 9)])
def test_a_run_that_is_not_the_next_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="does not come after"):
        EntryMap([(3, 2, 5)]).add(run)


@pytest.mark.parametrize("number", [-1, 3])
def test_no_entry_has_such_a_number(number: int) -> None:
    with pytest.raises(IndexError, match=f"there is no entry {number} of 3"):
        EntryMap([(3, 2, 5)]).position(number)
