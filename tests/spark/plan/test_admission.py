"""Admission: a model counts messages one by one, and must agree."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.arrow.plan.range_end import Place
from magnetar.spark.plan.admission import Limits, Quota, shares

ENTRIES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 100)), max_size=12)
LIMIT = st.integers(0, 40)


def admit(limits: Limits, entries: list[tuple[int, int]], start: Place, end: Place) -> Place:
    quota = Quota(limits)
    window = quota.window(start, end, 1.0)
    for number, (rows, size) in enumerate(entries):
        if window.full:
            break
        if (7, number) >= start[:2]:
            window.add(7, number, rows, size)
    window.close()
    return window.at


@given(ENTRIES, st.integers(1, 60))
def test_rows_are_admitted_to_the_message(entries: list[tuple[int, int]], rows_max: int) -> None:
    messages = [(7, n, i) for n, (rows, _) in enumerate(entries) for i in range(rows)]
    end = (7, len(entries), 0)
    at = admit(Limits(rows_max=rows_max), entries, (7, 0, 0), end)
    assert [m for m in messages if m < at] == messages[:rows_max]


@given(ENTRIES, st.integers(1, 60))
def test_batch_after_batch_everything_comes_once(
    entries: list[tuple[int, int]], rows_max: int
) -> None:
    messages = [(7, n, i) for n, (rows, _) in enumerate(entries) for i in range(rows)]
    at: Place = (7, 0, 0)
    end = (7, len(entries), 0)
    seen: list[Place] = []
    while at < end:
        following = admit(Limits(rows_max=rows_max), entries, at, end)
        assert following > at
        seen += [m for m in messages if at <= m < following]
        at = following
    assert seen == messages


@given(ENTRIES, LIMIT, LIMIT, st.integers(0, 300))
def test_no_limit_is_passed_but_by_the_first_entry(
    entries: list[tuple[int, int]], rows_max: int, entries_max: int, bytes_max: int
) -> None:
    quota = Quota(Limits(rows_max, bytes_max, entries_max))
    window = quota.window((7, 0, 0), (7, len(entries), 0), 1.0)
    for number, (rows, size) in enumerate(entries):
        if not window.full:
            window.add(7, number, rows, size)
    assert rows_max == 0 or window.rows <= rows_max
    assert entries_max == 0 or window.entries <= entries_max
    assert bytes_max == 0 or window.size_bytes <= bytes_max or window.entries == 1
    assert bool(entries) == (window.entries > 0)


def test_an_end_inside_of_a_batch_is_kept() -> None:
    assert admit(Limits(rows_max=100), [(5, 10), (5, 10)], (7, 0, 2), (7, 1, 3)) == (7, 1, 3)
    assert admit(Limits(rows_max=100), [(5, 10)], (7, 0, 0), (7, 0, 0)) == (7, 0, 0)


def test_the_size_of_a_batch_that_is_divided_is_told() -> None:
    window = Quota(Limits(rows_max=3)).window((7, 0, 0), (7, 9, 0), 1.0)
    window.add(7, 0, 5, 10)
    assert (window.at, window.batch_size, window.full) == ((7, 0, 3), 5, True)


def test_an_entry_behind_the_end_is_not_admitted() -> None:
    window = Quota(Limits(rows_max=3)).window((7, 0, 0), (7, 2, 0), 1.0)
    window.add(9, 0, 5, 10)
    assert (window.at, window.rows, window.full) == ((7, 0, 0), 0, True)


def test_partitions_share_by_lag_and_pass_on_what_they_leave() -> None:
    quota = Quota(Limits(rows_max=100))
    first, second = shares([10, 30])
    window = quota.window((1, 0, 0), (1, 10, 0), first)
    window.add(1, 0, 5, 1)
    window.add(1, 1, 60, 1)
    window.close()
    assert window.rows == 25
    window = quota.window((2, 0, 0), (2, 10, 0), second)
    window.add(2, 0, 200, 1)
    window.close()
    assert window.rows == 75
    assert quota.window((3, 0, 0), (3, 1, 0), 1.0).full is False


def test_what_is_used_up_admits_nothing() -> None:
    quota = Quota(Limits(rows_max=1))
    window = quota.window((1, 0, 0), (1, 10, 0), 1.0)
    window.add(1, 0, 1, 1)
    window.close()
    window = quota.window((2, 0, 0), (2, 10, 0), 1.0)
    window.add(2, 0, 1, 1)
    assert (window.rows, window.full) == (0, True)


def test_too_few_rows_wait_until_they_are_late() -> None:
    limits = Limits(rows_min=10, delay_max_ms=1000)
    assert limits.bounded
    assert limits.waits(9, 999)
    assert not limits.waits(10, 0)
    assert not limits.waits(0, 1000)
    assert not Limits().waits(0, 0)
    assert not Limits().bounded
