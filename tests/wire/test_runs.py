"""Runs of numbers, against plain sets."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.wire.runs import run_numbers, runs_of

NUMBERS = st.sets(st.integers(-5, 40) | st.integers(2**70, 2**70 + 5))


@given(NUMBERS)
def test_runs_are_read_as_the_numbers_that_they_were_made_of(numbers: set[int]) -> None:
    runs = runs_of(sorted(numbers))
    assert run_numbers(runs, len(numbers)) == sorted(numbers)
    assert all(first + count not in numbers for first, count in runs)


@given(NUMBERS, st.integers(0, 10))
def test_no_more_numbers_are_read_than_are_wanted(numbers: set[int], limit: int) -> None:
    assert run_numbers(runs_of(sorted(numbers)), limit) == sorted(numbers)[:limit]


def test_runs_that_a_peer_made_up_harm_nobody() -> None:
    assert run_numbers([(3, -7), (5, 2**62), (9, 1)], 2) == [5, 6]
