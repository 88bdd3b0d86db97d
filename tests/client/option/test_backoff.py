"""Waits between tries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.option.backoff import Backoff, MultiplierRedeliveryBackoff
from magnetar.errors import SettingsError


def test_waits_double_up_to_the_limit_and_start_over() -> None:
    backoff = Backoff(lambda: 0.0, initial_ms=100, max_ms=1000)
    assert [backoff.next_ms() for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]
    backoff.reset()
    assert backoff.next_ms() == 100


def test_a_tenth_of_a_wait_is_random() -> None:
    backoff = Backoff(lambda: 0.5, initial_ms=100, max_ms=60_000)
    assert [backoff.next_ms() for _ in range(3)] == [100, 190, 380]


@given(st.lists(st.floats(0, 1, exclude_max=True), max_size=30), st.integers(1, 1000))
def test_waits_stay_between_first_and_limit(draws: list[float], initial_ms: int) -> None:
    left = iter(draws)
    backoff = Backoff(lambda: next(left), initial_ms=initial_ms, max_ms=5000)
    for _ in draws:
        assert initial_ms <= backoff.next_ms() <= 5000


@pytest.mark.parametrize(("initial_ms", "max_ms"), [(0, 10), (-1, 10), (10, 9)])
def test_bad_waits_are_refused(initial_ms: int, max_ms: int) -> None:
    with pytest.raises(SettingsError, match="backoff_ms"):
        Backoff(lambda: 0.0, initial_ms=initial_ms, max_ms=max_ms)


def test_redelivery_grows_with_the_count() -> None:
    backoff = MultiplierRedeliveryBackoff()
    assert [backoff.next_ms(count) for count in (-1, 0, 1, 2, 6, 100)] == [
        10_000,
        10_000,
        20_000,
        40_000,
        600_000,
        600_000,
    ]
    assert MultiplierRedeliveryBackoff(1000, 1500, 1.2).next_ms(1) == 1200


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(1, 1e300), st.integers(0, 2**40))
def test_redelivery_is_bounded_whatever_the_count(
    low: int, more: int, multiplier: float, count: int
) -> None:
    backoff = MultiplierRedeliveryBackoff(low, low + more, multiplier)
    assert low <= backoff.next_ms(count % 1000) <= low + more
    # A wait that does not grow is found out, and not counted to the end.
    MultiplierRedeliveryBackoff(low, low + more, 1.0).next_ms(count)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("min_delay_ms", (-1, 10, 2.0)),
        ("max_delay_ms", (10, 9, 2.0)),
        ("max_delay_ms", (10, 1 << 50, 2.0)),
        ("multiplier", (10, 20, 0.5)),
        ("multiplier", (10, 20, float("nan"))),
        ("multiplier", (10, 20, float("inf"))),
    ],
)
def test_bad_redelivery_is_refused(key: str, values: tuple[int, int, float]) -> None:
    with pytest.raises(SettingsError, match=f"^{key}: "):
        MultiplierRedeliveryBackoff(*values)
