"""Acks that fail: when each is sent again, for which errors, after how long; what is counted."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar import errors
from magnetar.client.ack import retry as ack_retry
from magnetar.client.ack.counts import TIME_BOUNDS_MS, AckCounts
from magnetar.client.ack.retry import (
    DONE,
    EXHAUSTED,
    IN_FLIGHT,
    PENDING,
    SUPERSEDED,
    WAITING,
    AckRetries,
    RetryPolicy,
    default_backoff,
    is_kept_already,
    is_retriable,
    may_be_one_of_many,
)
from magnetar.client.errors import error_of
from magnetar.client.option.backoff import MultiplierRedeliveryBackoff
from magnetar.client.option.options import ConsumerOptions
from magnetar.errors import (
    AlreadyClosed,
    BrokerPersistenceError,
    ConnectError,
    NotAllowedError,
    NotConnected,
    PulsarException,
    ReadError,
    ServiceUnitNotReady,
    SettingsError,
    Timeout,
    UnknownError,
)
from magnetar.model import ServerError

WRITE_ERROR = BrokerPersistenceError("the disk is full")
READY_ERROR = ServiceUnitNotReady("unloading")


def steps_of(*delays_ms: int) -> Callable[[int], int]:
    """A backoff that is a list."""
    return lambda failures: delays_ms[min(failures, len(delays_ms) - 1)]


# ---- The schedule ----------------------------------------------------------------


def new_retries(max_retries: int = 16) -> AckRetries:
    return AckRetries(RetryPolicy(max_retries, steps_of(100, 200, 400)))


def state_of(retries: AckRetries, key: int) -> int:
    retry = retries.get(key)
    assert retry is not None
    return retry.state


def test_the_life_of_an_ack_that_fails_twice() -> None:
    retries = new_retries()
    assert not retries.sent(7), "one that never failed is not known here"
    assert retries.kept(7) is None
    retries.failed(7, 900, 1000, WRITE_ERROR)
    assert (state_of(retries, 7), retries.next_ms(), retries.waiting) == (WAITING, 1100, 1)
    assert retries.take_due(1099) == []
    assert retries.take_due(1100) == [7]
    assert (state_of(retries, 7), retries.next_ms()) == (PENDING, None)
    assert retries.sent(7)
    assert state_of(retries, 7) == IN_FLIGHT
    retries.failed(7, 1100, 1110, WRITE_ERROR)
    assert retries.next_ms() == 1310
    assert retries.take_due(5000) == [7]
    retries.sent(7)
    ended = retries.kept(7)
    assert ended is not None
    assert (ended.state, ended.failures, ended.since_ms) == (DONE, 2, 900)
    assert len(retries) == 0


def test_a_lost_connection_ends_no_wait_but_of_what_met_the_closing_of_its_consumer() -> None:
    retries = new_retries(max_retries=1)
    retries.failed(1, 0, 0, WRITE_ERROR)
    retries.failed(2, 0, 0, READY_ERROR)
    for _ in range(50):
        retries.lost(3, 0)
        retries.sent(3)
    assert retries.may_retry(3, READY_ERROR)
    assert retries.lose_all() == [2]
    assert (state_of(retries, 1), retries.next_ms(), retries.waiting) == (WAITING, 100, 1)
    assert state_of(retries, 2) == PENDING
    assert retries.may_retry(2, READY_ERROR), "it was the loss of a connection"
    assert not retries.may_retry(1, READY_ERROR), "the failure itself did cost one"


def test_where_there_is_no_later_nothing_waits() -> None:
    retries = new_retries(max_retries=1)
    retries.failed(1, 0, 0, WRITE_ERROR)
    retries.failed(2, 0, 0, READY_ERROR)
    assert retries.end_waits() == [1, 2]
    assert (state_of(retries, 1), state_of(retries, 2)) == (PENDING, PENDING)
    assert (retries.next_ms(), retries.waiting) == (None, 0)


def test_attempts_end_and_some_errors_end_them_at_once() -> None:
    retries = new_retries(max_retries=2)
    for now_ms in (0, 1000):
        assert retries.may_retry(1, READY_ERROR)
        retries.failed(1, 0, now_ms, WRITE_ERROR)
        retries.take_due(now_ms + 999)
        retries.sent(1)
    assert not retries.may_retry(1, READY_ERROR)
    assert retries.may_retry(2, READY_ERROR)
    assert not retries.may_retry(2, NotAllowedError("never"))
    retry = retries.get(1)
    retries.given_up(1)
    assert retry is not None
    assert (retry.state, 1 in retries) == (EXHAUSTED, False)


def test_what_is_superseded_is_forgotten_in_any_state() -> None:
    for prepare in (
        lambda retries: None,
        lambda retries: retries.take_due(100),
        lambda retries: (retries.take_due(100), retries.sent(1)),
    ):
        retries = new_retries()
        retries.failed(1, 0, 0, WRITE_ERROR)
        prepare(retries)
        retry = retries.get(1)
        retries.superseded(1)
        assert retry is not None
        assert (retry.state, len(retries), retries.next_ms()) == (SUPERSEDED, 0, None)
        retries.superseded(1)
    retries = new_retries()
    retries.failed(1, 0, 0, WRITE_ERROR)
    retries.clear()
    assert (len(retries), retries.waiting, retries.waiting_keys()) == (0, 0, [])


def test_an_event_that_cannot_be_is_a_mistake() -> None:
    retries = new_retries()
    retries.failed(1, 0, 0, WRITE_ERROR)
    with pytest.raises(AssertionError):
        retries.failed(1, 0, 0, WRITE_ERROR)
    with pytest.raises(AssertionError):
        retries.sent(1)


def test_the_table_has_the_cells_of_the_docstring() -> None:
    """Every cell of the table in the docstring, and no other, is in the dict."""
    names = ["pending", "in flight", "waiting", "done", "exhausted", "superseded"]
    events = ["sent", "kept", "failed", "lost", "due", "dropped"]
    codes = [
        ack_retry.SENT,
        ack_retry.KEPT,
        ack_retry.FAILED,
        ack_retry.LOST,
        ack_retry.DUE,
        ack_retry.DROPPED,
    ]
    table = ack_retry.NEXT
    # A compiled module has no docstring, so the source is read.
    source = Path(__file__).parents[3] / "src/magnetar/client/ack/retry.py"
    document = ast.get_docstring(ast.parse(source.read_text())) or ""
    rows = [line for line in document.splitlines() if line.startswith("| ")]
    assert [cell.strip() for cell in rows[0].split("|")[2:-1]] == events
    cells = 0
    for row in rows[1:]:
        state, *written = [cell.strip() for cell in row.split("|")[1:-1]]
        for event, text in zip(codes, written, strict=True):
            found = table.get((names.index(state), event))
            assert text == ("-" if found is None else text)
            if found is not None:
                cells += 1
                assert names[found] in text
    ends = [key for key in table if key[1] == ack_retry.GIVEN_UP]
    assert cells + len(ends) == len(table)


# ---- Which errors ----------------------------------------------------------------


RETRIABLE = {
    ServerError.UnknownError,
    ServerError.MetadataError,
    ServerError.PersistenceError,
    ServerError.ServiceNotReady,
    ServerError.ConsumerNotFound,
    ServerError.TooManyRequests,
}


@pytest.mark.parametrize("code", list(ServerError))
def test_the_broker_s_errors_that_are_retried(code: ServerError) -> None:
    assert is_retriable(error_of(int(code), "no")) == (code in RETRIABLE)


def test_our_own_errors_that_are_retried() -> None:
    assert is_retriable(Timeout("no answer"))
    assert is_retriable(ConnectError("gone"))
    assert not is_retriable(AlreadyClosed("closed"))


def test_which_errors_may_be_about_one_of_many() -> None:
    assert may_be_one_of_many(NotAllowedError("no entry 9"))
    assert may_be_one_of_many(UnknownError("invalid position"))
    assert not may_be_one_of_many(BrokerPersistenceError("disk full"))


def test_what_is_already_mark_deleted_is_kept() -> None:
    text = "Mark deleting an already mark-deleted position. Current mark-delete: 3:9"
    assert is_kept_already(UnknownError(text))
    assert not is_kept_already(UnknownError("the cursor is closed"))
    assert not is_kept_already(BrokerPersistenceError(text))


def test_each_error_is_a_client_s() -> None:
    kinds = [getattr(errors, name) for name in errors.__all__]
    retried = {kind for kind in kinds if kind.retry_ack}
    assert all(issubclass(kind, PulsarException) for kind in retried)
    of_brokers = {type(error_of(int(code), "")) for code in RETRIABLE}
    assert retried == of_brokers | {Timeout, ConnectError, NotConnected, ReadError}


# ---- How long --------------------------------------------------------------------


def test_the_default_doubles_from_100_ms_to_10_s_less_up_to_a_tenth() -> None:
    exact = RetryPolicy(16, default_backoff())
    assert [exact.delay_ms(n) for n in range(9)] == [
        100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000,
    ]  # fmt: skip
    least = RetryPolicy(16, default_backoff(), lambda: 0.999_999)
    assert [least.delay_ms(n) for n in (0, 7, 900)] == [91, 9001, 9001]


@given(st.integers(0, 40), st.floats(0, 1, exclude_max=True))
def test_jitter_takes_off_a_tenth_at_most(failures: int, chance: float) -> None:
    exact = RetryPolicy(16, default_backoff()).delay_ms(failures)
    delay = RetryPolicy(16, default_backoff(), lambda: chance).delay_ms(failures)
    assert 0.9 * exact <= delay <= exact


def test_a_function_is_taken_at_its_word() -> None:
    policy = RetryPolicy(3, lambda failures: 7.5 * failures, lambda: 0.5)
    assert [policy.delay_ms(n) for n in range(3)] == [0, 7, 15]
    assert policy.take_problem() is None


@pytest.mark.parametrize("answer", [-1, None, "soon", float("nan"), float("inf")])
def test_a_function_that_is_no_good_is_told_of_and_replaced(answer: object) -> None:
    policy = RetryPolicy(3, lambda failures: answer)
    assert policy.delay_ms(1) == 200
    problem = policy.take_problem()
    assert "is not a number of milliseconds" in str(problem)
    assert policy.take_problem() is None


def test_a_function_that_raises_is_told_of_and_replaced() -> None:
    def broken(failures: int) -> int:
        raise KeyError(failures)

    policy = RetryPolicy(3, broken)
    assert policy.delay_ms(2) == 400
    assert isinstance(policy.take_problem(), KeyError)


# ---- The options -----------------------------------------------------------------


def test_it_is_off_unless_asked_for_and_the_defaults_are_the_proposal_s() -> None:
    options = ConsumerOptions("billing")
    assert not options.auto_retry_acknowledgement
    assert options.max_acknowledgement_retries == 16
    assert options.auto_retry_acknowledgement_backoff is None
    assert options.on_acknowledgement_failed is None
    assert options.max_pending_acknowledgements == 100_000
    assert not options.ack_receipt_enabled


def test_a_backoff_is_that_of_negative_acks_or_any_function() -> None:
    backoff = MultiplierRedeliveryBackoff(1, 2, 3.0)
    for choice in (backoff, backoff.next_ms, steps_of(5)):
        options = ConsumerOptions("billing", auto_retry_acknowledgement_backoff=choice)
        assert options.auto_retry_acknowledgement_backoff == choice


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("auto_retry_acknowledgement", 1, "expected True or False"),
        ("max_acknowledgement_retries", -1, "too little"),
        ("max_acknowledgement_retries", 1.5, "whole number"),
        ("auto_retry_acknowledgement_backoff", 100, "MultiplierRedeliveryBackoff or a function"),
        ("on_acknowledgement_failed", "print", "expected a function"),
        ("max_pending_acknowledgements", 0, "too little"),
    ],
)
def test_a_bad_option_is_named(option: str, value: object, reason: str) -> None:
    options: dict[str, object] = {option: value}
    with pytest.raises(SettingsError, match=reason) as caught:
        ConsumerOptions("billing", **options)
    assert option in str(caught.value)


# ---- Counting --------------------------------------------------------------------


def test_times_are_summed_and_put_in_buckets() -> None:
    counts = AckCounts()
    for time_ms in (0, 10, 11, 60_000, 60_001):
        counts.keep(2, time_ms)
    counts.keep(1, -5)  # a clock that went back
    assert (counts.kept, counts.time_ms_sum) == (11, 2 * (10 + 11 + 60_000 + 60_001))
    assert (counts.time_buckets[0], counts.time_buckets[1]) == (5, 2)
    assert counts.time_buckets[-2:] == [2, 2]
    assert len(counts.time_buckets) == len(TIME_BOUNDS_MS) + 1
    assert sum(counts.time_buckets) == counts.kept
