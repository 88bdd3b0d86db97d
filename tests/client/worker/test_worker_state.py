"""What decides about workers: states, lanes, the record and its health, settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.worker.health import WorkerRecord
from magnetar.client.worker.lanes import Lanes
from magnetar.client.worker.settings import WorkerSettings, consumer_defaults
from magnetar.client.worker.state import (
    ENDED,
    TABLE,
    WorkerEvent,
    WorkerState,
    may_pass,
    next_state,
)
from magnetar.errors import (
    AuthorizationError,
    ConnectError,
    ConsumerBusy,
    SettingsError,
    Timeout,
    TopicNotFound,
)


def test_a_worker_that_nobody_runs_can_be_stopped_in_vain() -> None:
    for state in ENDED:
        assert next_state(state, WorkerEvent.STOP) is state


def test_a_stop_ends_every_run_once_nothing_is_in_hand() -> None:
    for state in set(WorkerState) - ENDED - {WorkerState.FAILING}:
        draining = next_state(state, WorkerEvent.STOP)
        assert draining is WorkerState.DRAINING
        assert next_state(draining, WorkerEvent.DRAINED) is WorkerState.STOPPED


def test_an_error_that_does_not_pass_fails_the_worker_even_if_it_is_stopped_then() -> None:
    failing = next_state(WorkerState.RUNNING, WorkerEvent.BREAK)
    assert next_state(failing, WorkerEvent.STOP) is WorkerState.FAILING
    assert next_state(failing, WorkerEvent.DRAINED) is WorkerState.FAILED


def test_every_state_can_be_reached_and_every_run_can_end() -> None:
    reached = {WorkerState.IDLE} | set(TABLE.values())
    assert reached == set(WorkerState)
    for state in set(WorkerState) - ENDED:
        seen = {state}
        while not seen & ENDED:
            more = {after for (before, _), after in TABLE.items() if before in seen}
            assert not more <= seen
            seen |= more


def test_an_event_that_cannot_be_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="IDLE had event DRAINED"):
        next_state(WorkerState.IDLE, WorkerEvent.DRAINED)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (ConnectError("refused"), True),
        (Timeout("late"), True),
        (ConsumerBusy("the old process is still there"), True),
        (AuthorizationError("not you"), False),
        (TopicNotFound("deleted"), False),
        (RuntimeError("not ours"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_an_absent_broker_is_tried_again(error: Exception, passes: bool) -> None:
    assert may_pass(error) is passes


# ---- Lanes -------------------------------------------------------------------


def test_messages_without_a_lane_wait_for_nobody() -> None:
    lanes: Lanes[int] = Lanes()
    assert [lanes.enter(None, number) for number in range(3)] == [True, True, True]
    assert lanes.leave(None) is None


def test_what_waits_can_be_taken_out_and_its_lane_goes_on() -> None:
    lanes: Lanes[int] = Lanes()
    assert [lanes.enter("a", number) for number in range(3)] == [True, False, False]
    assert lanes.clear() == [1, 2]
    assert lanes.leave("a") is None
    assert lanes.enter("a", 3)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60))
def test_a_lane_has_one_message_at_a_time_and_all_in_order(
    steps: list[tuple[str, bool]],
) -> None:
    lanes: Lanes[int] = Lanes()
    active: dict[str, int] = {}
    came: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    handled: dict[str, list[int]] = {"a": [], "b": [], "c": []}
    for number, (lane, finishes) in enumerate(steps):
        if finishes and lane in active:
            following = lanes.leave(lane)
            del active[lane]
            if following is not None:
                active[lane] = following
                handled[lane].append(following)
        elif not finishes:
            came[lane].append(number)
            if lanes.enter(lane, number):
                assert lane not in active
                active[lane] = number
                handled[lane].append(number)
        assert handled[lane] == came[lane][: len(handled[lane])]
        assert (lane in active) or handled[lane] == came[lane]


# ---- The record --------------------------------------------------------------


def test_health_counts_what_became_of_messages() -> None:
    record = WorkerRecord()
    record.move(WorkerEvent.START)
    record.move(WorkerEvent.SUBSCRIBED)
    for at in (1.0, 2.0, 3.0, 4.0):
        record.took(at)
    record.handled()
    record.failed(5.0, ValueError("no width"))
    record.gave_up()
    health = record.health(connected=True)
    assert (health.handled, health.failed, health.given_up, health.in_hand) == (1, 1, 1, 1)
    assert (health.last_message_at, health.last_failure_at) == (4.0, 5.0)
    assert health.last_failure == "ValueError: no width"
    assert (health.running, health.alive, health.failures_in_a_row) == (True, True, 1)
    record.handled()
    assert record.health(connected=True).failures_in_a_row == 0


def test_a_worker_without_a_connection_is_alive_and_does_not_run() -> None:
    record = WorkerRecord()
    assert not record.health(connected=False).alive
    record.move(WorkerEvent.START)
    record.lost(1.0, ConnectError("refused"))
    health = record.health(connected=False)
    assert (health.running, health.alive, health.attempts) == (False, True, 1)
    assert health.as_dict()["state"] == "waiting"
    assert "attempts=1" in repr(health)
    record.move(WorkerEvent.DUE)
    record.move(WorkerEvent.SUBSCRIBED)
    assert record.health(connected=True).attempts == 0


def test_a_broken_worker_says_why() -> None:
    record = WorkerRecord()
    record.move(WorkerEvent.START)
    record.broke(1.0, AuthorizationError("not you"))
    record.move(WorkerEvent.DRAINED)
    health = record.health(connected=False)
    assert health.state is WorkerState.FAILED
    assert health.last_failure == "AuthorizationError: not you"


# ---- Settings ----------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, True, "4", 10_001])
def test_a_concurrency_that_makes_no_sense_is_refused(concurrency: object) -> None:
    with pytest.raises(SettingsError, match="concurrency"):
        WorkerSettings(concurrency, 1)


@pytest.mark.parametrize("grace", [-1, float("nan"), "1", True])
def test_a_grace_period_that_makes_no_sense_is_refused(grace: object) -> None:
    with pytest.raises(SettingsError, match="grace_s"):
        WorkerSettings(1, grace)


def test_a_worker_keeps_few_messages_from_others() -> None:
    assert consumer_defaults(1)["receiver_queue_size"] == 16
    assert consumer_defaults(100)["receiver_queue_size"] == 400
