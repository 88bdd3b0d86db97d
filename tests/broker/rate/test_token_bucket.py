"""What a bucket lets through in any time is no more than comes in it and what was saved."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.rate.token_bucket import TokenBucket

SECOND = 1000


def test_a_new_bucket_has_what_comes_in_one_period() -> None:
    bucket = TokenBucket(10, SECOND, 0)
    assert bucket.tokens(0) == 10
    assert bucket.wait_ms(0) == 0


def test_tokens_come_evenly_and_none_is_lost_by_rounding() -> None:
    bucket = TokenBucket(3, SECOND, 0)
    bucket.take(3, 0)
    assert [bucket.tokens(now) for now in range(0, 1001, 111)] == [0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert bucket.tokens(1000) == 3


def test_no_more_is_saved_than_comes_in_one_period() -> None:
    bucket = TokenBucket(10, 5 * SECOND, 0)
    assert bucket.tokens(3_600_000) == 10


def test_what_is_owed_is_paid_before_anything_else_is_let_through() -> None:
    bucket = TokenBucket(10, SECOND, 0)
    bucket.take(30, 0)
    assert bucket.tokens(0) == -20
    assert bucket.wait_ms(0) == 2100
    assert bucket.tokens(2000) == 0
    assert bucket.tokens(2100) == 1


def test_a_high_rate_is_worth_looking_at_when_some_tokens_are_there() -> None:
    """Or somebody would be called for every single one of them."""
    bucket = TokenBucket(100_000, SECOND, 0)
    bucket.take(100_000, 0)
    assert bucket.wait_ms(0) == 10


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(10, SECOND, 1000)
    bucket.take(10, 1000)
    assert bucket.tokens(500) == 0
    assert bucket.tokens(1000) == 0


def test_another_rate_keeps_what_is_owed() -> None:
    bucket = TokenBucket(10, SECOND, 0)
    bucket.take(20, 0)
    bucket.change(1000, SECOND, 0)
    assert bucket.tokens(0) == -10
    assert bucket.tokens(1000) == 990


def test_a_lower_rate_keeps_no_more_than_it_may_save() -> None:
    bucket = TokenBucket(1000, SECOND, 0)
    bucket.change(10, 30 * SECOND, 0)
    assert bucket.tokens(0) == 10


def test_a_rate_as_high_as_numbers_go_is_reckoned_whole() -> None:
    """Compiled code has 64 bits where a type says so; these must not be of that type."""
    most = (1 << 63) - 1
    bucket = TokenBucket(most, SECOND, 0)
    bucket.take(most, 0)
    assert bucket.tokens(0) == 0
    assert bucket.tokens(1000) == most


steps = st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 40)), max_size=60)


@given(st.integers(1, 50), st.integers(1, 4), steps)
def test_no_more_passes_than_the_rate_allows(
    rate: int, seconds: int, moves: list[tuple[int, int]]
) -> None:
    """Between any two moments, whoever takes only while a token is there."""
    period_ms = seconds * SECOND
    bucket = TokenBucket(rate, period_ms, 0)
    now, taken = 0, [(0, 0)]
    for wait, count in moves:
        now += wait
        if bucket.tokens(now) >= 1:
            bucket.take(count, now)
            taken.append((now, count))
    for first in range(len(taken)):
        passed = 0
        for at, count in taken[first:]:
            # The last one may owe; but it was let through for one token that was there.
            allowed = rate + (at - taken[first][0]) * rate / period_ms
            assert passed + min(count, 1) <= allowed + 1e-9
            passed += count


@given(st.integers(1, 10**6), st.integers(1, 100), st.integers(0, 10**7))
def test_who_waits_as_long_as_it_is_told_finds_a_token(rate: int, seconds: int, owed: int) -> None:
    bucket = TokenBucket(rate, seconds * SECOND, 0)
    bucket.take(rate + owed, 0)
    wait_ms = bucket.wait_ms(0)
    assert wait_ms > 0
    assert bucket.wait_ms(wait_ms) == 0
