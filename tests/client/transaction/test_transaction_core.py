"""A transaction decides: what it takes, what its commit waits for, and how it ends."""

from pathlib import Path

import pytest
from client.transaction.transaction_model import Bench

from magnetar.client.transaction import transaction_state as state
from magnetar.client.transaction.enlistment import COMMITTED
from magnetar.errors import (
    AuthorizationError,
    InvalidTxnStatusError,
    TransactionConflict,
    TransactionTimeoutError,
)

SOURCE = Path(__file__).parents[3] / "src/magnetar/client/transaction/transaction_state.py"


def test_the_table_has_a_row_for_each_state_and_a_cell_for_each_event() -> None:
    assert [row[0] for row in state.TABLE] == list(range(len(state.NAMES)))
    assert {len(row) for row in state.TABLE} == {state.EVENTS + 1}
    text = SOURCE.read_text()  # a compiled module has no docstring
    for name in state.NAMES:
        assert f"| {name} " in text


def test_an_end_that_is_known_stays() -> None:
    for ended in (state.COMMITTED, state.ABORTED):
        assert set(state.TABLE[ended][1:]) == {state.NO}


def test_only_a_commit_can_follow_a_commit_whose_outcome_is_unknown() -> None:
    cells = state.TABLE[state.UNKNOWN][1:]
    assert [event for event, cell in enumerate(cells) if cell != state.NO] == [state.COMMIT]


def test_nothing_is_aborted_once_the_broker_was_asked_to_commit() -> None:
    assert state.next_state(state.DECIDING, state.ABORT) == state.NO
    assert state.next_state(state.DECIDING, state.LOST) == state.UNKNOWN


def test_a_commit_waits_for_what_is_on_its_way() -> None:
    bench = Bench()
    bench.core.join()
    bench.core.join()
    bench.enlist()
    bench.core.begin_commit()
    assert bench.told == ["flush"]
    quiet: list[bool] = []
    bench.core.when_quiet(lambda: quiet.append(bench.core.become_quiet()))
    bench.core.leave(1, None)
    assert quiet == []
    bench.core.leave(1, None)
    assert quiet == [True]
    assert bench.core.state_name == "deciding"
    bench.core.move(state.DONE)
    bench.core.tell_end(COMMITTED)
    assert bench.told[-1] == f"ended {COMMITTED}"


def test_a_commit_with_nothing_on_its_way_goes_on_at_once() -> None:
    bench = Bench()
    bench.core.begin_commit()
    quiet: list[bool] = []
    bench.core.when_quiet(lambda: quiet.append(bench.core.become_quiet()))
    assert quiet == [True]


def test_a_commit_becomes_an_abort_if_something_failed_and_keeps_the_first_failure() -> None:
    bench = Bench()
    for _ in range(3):
        bench.core.join()
    bench.core.begin_commit()
    first, second = TransactionConflict("a"), TransactionConflict("b")
    bench.core.leave(1, None)
    bench.core.leave(1, first)
    bench.core.leave(1, second)
    assert not bench.core.become_quiet()
    assert bench.core.failure is first
    assert bench.core.aborting


def test_what_failed_can_only_be_aborted() -> None:
    bench = Bench()
    bench.core.join()
    bench.core.leave(1, TransactionConflict("taken"))
    with pytest.raises(InvalidTxnStatusError, match=r"\(3,5\) can only be aborted.*taken"):
        bench.core.join()
    bench.core.begin_abort()
    assert bench.core.state_name == "aborting"


def test_what_does_not_hold_any_more_fails_an_open_transaction_and_no_ended_one() -> None:
    bench = Bench()
    bench.core.begin_commit()
    assert bench.core.become_quiet()
    bench.core.fail(TransactionConflict("late"))
    assert bench.core.failure is None
    other = Bench()
    other.core.fail(TransactionConflict("in time"))
    assert other.core.failure is not None


def test_nothing_joins_when_it_is_over_or_too_late() -> None:
    bench = Bench()
    bench.now += 999
    bench.core.join()
    bench.core.leave(1, None)
    bench.now += 1
    with pytest.raises(TransactionTimeoutError, match="within 1000 ms"):
        bench.core.join()
    bench.core.begin_commit()
    with pytest.raises(InvalidTxnStatusError, match="is committing"):
        bench.core.join()
    with pytest.raises(InvalidTxnStatusError, match="is committing, and cannot be aborted"):
        bench.core.begin_abort()


def test_each_topic_and_subscription_is_asked_for_once() -> None:
    bench = Bench()
    assert bench.enlist("t") is bench.enlist("t")
    other = bench.enlist("t", "s")
    assert bench.wants == 2
    assert [(one.topic, one.subscription) for one in bench.core.take_wanted()] == [
        ("t", ""),
        ("t", "s"),
    ]
    assert bench.core.take_wanted() == []
    assert other.awaited
    other.answered(None)
    assert other.ready
    assert bench.told == ["enlisted"]


def test_what_the_coordinator_refuses_is_not_waited_for() -> None:
    bench = Bench()
    refused = bench.enlist()
    problem = AuthorizationError("not you")
    bench.answer(problem)
    assert not refused.awaited
    assert not refused.ready
    assert refused.reason() is problem


def test_an_abort_ends_the_wait_for_the_coordinator() -> None:
    bench = Bench()
    wanted = bench.enlist()
    before = wanted.awaited
    bench.core.begin_abort()
    assert (before, wanted.awaited) == (True, False)
    assert isinstance(wanted.reason(), InvalidTxnStatusError)
