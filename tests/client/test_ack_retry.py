"""Acks that fail and are sent again: the schedule by itself, and the tracker with it."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client import ack_retry
from magnetar.client.ack_counts import TIME_BOUNDS_MS, AckCounts
from magnetar.client.ack_retry import (
    BREAKS_FREE,
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
from magnetar.client.ack_tracker import AckTracker, Cumulative, GivenUp, entry_key
from magnetar.client.backoff import MultiplierRedeliveryBackoff
from magnetar.client.errors import error_of
from magnetar.client.options import ConsumerOptions
from magnetar.errors import (
    AlreadyClosed,
    BrokerPersistenceError,
    ConnectError,
    Interrupted,
    MemoryBufferIsFull,
    NotAllowedError,
    PulsarException,
    ServiceUnitNotReady,
    SettingsError,
    Timeout,
    UnknownError,
)
from magnetar.model import ServerError
from magnetar.protocol import Command, CommandAck, CommandAckResponse
from magnetar.wire.ack_set import all_unacked

NOT_READY = int(ServerError.ServiceNotReady)
NOT_WRITTEN = int(ServerError.PersistenceError)
NOT_ALLOWED = int(ServerError.NotAllowedError)
UNKNOWN = int(ServerError.UnknownError)

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
    retries.failed(7, 900, 1000)
    assert (state_of(retries, 7), retries.next_ms(), retries.waiting) == (WAITING, 1100, 1)
    assert retries.take_due(1099) == []
    assert retries.take_due(1100) == [7]
    assert (state_of(retries, 7), retries.next_ms()) == (PENDING, None)
    assert retries.sent(7)
    assert state_of(retries, 7) == IN_FLIGHT
    retries.failed(7, 1100, 1110)
    assert retries.next_ms() == 1310
    assert retries.take_due(5000) == [7]
    retries.sent(7)
    ended = retries.kept(7)
    assert ended is not None
    assert (ended.state, ended.failures, ended.since_ms) == (DONE, 2, 900)
    assert len(retries) == 0


def test_a_lost_connection_ends_every_wait_and_costs_nothing() -> None:
    retries = new_retries(max_retries=1)
    retries.failed(1, 0, 0)
    for _ in range(50):
        retries.lost(2, 0)
        retries.sent(2)
    assert retries.may_retry(2, READY_ERROR)
    assert retries.lose_all() == [1]
    assert (state_of(retries, 1), retries.next_ms()) == (PENDING, None)
    retries.lost(1, 0)
    assert state_of(retries, 1) == PENDING
    assert not retries.may_retry(1, READY_ERROR), "the failure itself did cost one"


def test_attempts_end_and_some_errors_end_them_at_once() -> None:
    retries = new_retries(max_retries=2)
    for now_ms in (0, 1000):
        assert retries.may_retry(1, READY_ERROR)
        retries.failed(1, 0, now_ms)
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
        retries.failed(1, 0, 0)
        prepare(retries)
        retry = retries.get(1)
        retries.superseded(1)
        assert retry is not None
        assert (retry.state, len(retries), retries.next_ms()) == (SUPERSEDED, 0, None)
        retries.superseded(1)
    retries = new_retries()
    retries.failed(1, 0, 0)
    retries.clear()
    assert (len(retries), retries.waiting, retries.waiting_keys()) == (0, 0, [])


def test_an_event_that_cannot_be_is_a_mistake() -> None:
    retries = new_retries()
    retries.failed(1, 0, 0)
    with pytest.raises(AssertionError):
        retries.failed(1, 0, 0)
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
    source = Path(__file__).parents[2] / "src/magnetar/client/ack_retry.py"
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
    assert "no number of milliseconds" in str(problem)
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


# ---- The tracker -----------------------------------------------------------------


class Bench:
    """A tracker that retries, with its clock and its wire."""

    def __init__(
        self,
        *,
        max_retries: int = 16,
        receipts: bool = True,
        pending_max: int = 100_000,
        idle_max: int = 10_000,
        group_time_ms: int = 100,
    ) -> None:
        self.now = 5_000
        self.written: list[CommandAck] = []
        self.results: list[Exception | None] = []
        policy = RetryPolicy(max_retries, MultiplierRedeliveryBackoff(100, 1600, 2.0))
        self.retries = AckRetries(policy)
        self.acks = AckTracker(
            3,
            group_time_ms=group_time_ms,
            group_size_max=1000,
            receipts=receipts,
            now_ms=lambda: self.now,
            write=self.write,
            idle_max=idle_max,
            retries=self.retries,
            pending_max=pending_max,
        )
        self.acks.connected()

    def write(self, commands: list[Command]) -> None:
        for command in commands:
            assert isinstance(command, CommandAck)
            assert command.request_id is not None
            self.written.append(command)

    def ack(self, entry_id: int, index: int = -1, size: int = 0, waits: bool = False) -> None:
        unacked = all_unacked(size) if size else 1
        self.acks.acknowledge(self.acks.find(7, entry_id, size, unacked), index)
        self.acks.joined(self.results.append if waits else None)

    def ack_through(
        self, entry_id: int, index: int = -1, size: int = 0, waits: bool = False
    ) -> None:
        self.acks.acknowledge_cumulative(Cumulative(7, entry_id, index, size))
        self.acks.joined(self.results.append if waits else None, cumulative=True)

    def sent(self) -> list[tuple[int, list[tuple[int, int | None]]]]:
        """Type, and entries with their bits, of each ACK since the last call."""
        written, self.written = self.written, []
        return [(c.ack_type, [(i.entry_id, i.ack_set) for i in c.message_ids]) for c in written]

    def answer(self, request_id: int, error: int | None = None, text: str = "no") -> None:
        response = CommandAckResponse(3, request_id, error, text if error is not None else None)
        self.acks.answered(response)

    def answer_all(self, error: int | None = None) -> None:
        for request_id in list(self.acks._flights):
            self.answer(request_id, error)

    def pass_time(self, ms: int) -> None:
        end = self.now + ms
        while (due := self.acks.next_ms()) is not None and due <= end:
            self.now = max(self.now, due)
            self.acks.tick(self.now)
        self.now = end

    def reconnect(self) -> None:
        self.acks.disconnected()
        self.acks.connected()

    def given_up(self) -> list[GivenUp]:
        return self.acks.take_given_up()

    def at_rest(self) -> bool:
        return self.acks.unconfirmed == 0 and len(self.retries) == 0


def test_every_ack_asks_for_an_answer_and_callers_wait_only_with_receipts() -> None:
    quiet = Bench(receipts=False)
    quiet.ack(1, waits=True)
    quiet.ack_through(2, waits=True)
    assert quiet.results == [None, None]
    quiet.acks.flush()
    assert [command.request_id for command in quiet.written] == [1, 2]
    assert quiet.acks.unconfirmed == 2
    quiet.answer_all()
    assert quiet.at_rest()
    waiting = Bench()
    waiting.ack(1, waits=True)
    waiting.acks.flush()
    assert waiting.results == []
    waiting.answer(1)
    assert waiting.results == [None]


def test_an_ack_that_fails_is_sent_again_after_its_backoff() -> None:
    bench = Bench()
    bench.ack(1, waits=True)
    bench.acks.flush()
    first = bench.sent()
    for delay_ms in (100, 200, 400):
        bench.answer_all(NOT_READY)
        assert (bench.results, bench.acks.waiting, bench.acks.unconfirmed) == ([], 1, 1)
        bench.pass_time(delay_ms - 1)
        assert bench.sent() == []
        bench.pass_time(1)
        assert bench.sent() == first == [(0, [(1, None)])]
    bench.answer_all()
    assert bench.results == [None]
    assert bench.at_rest()
    counts = bench.acks.counts
    assert (counts.sent, counts.failed, counts.retried) == (4, 3, 3)
    assert (counts.kept, counts.kept_after_retry, counts.exhausted) == (1, 1, 0)
    assert counts.time_ms_sum == 700


def test_an_ack_without_an_answer_is_sent_again() -> None:
    bench = Bench()
    bench.ack(1, waits=True)
    bench.ack_through(0, waits=True)
    bench.acks.flush()
    first = bench.sent()
    bench.pass_time(30_000)
    assert bench.sent() == []
    bench.pass_time(100)
    assert sorted(bench.sent()) == sorted(first)
    # The answers to the first come late, and say nothing new.
    bench.answer(1)
    bench.answer(2)
    assert bench.results == []
    bench.answer_all()
    assert bench.results == [None, None]
    assert bench.at_rest()


def test_the_last_retry_ends_with_what_went_wrong() -> None:
    bench = Bench(max_retries=2)
    bench.ack(1, waits=True)
    bench.ack(2, 1, 3, waits=True)
    bench.acks.flush()
    for _ in range(3):
        assert bench.results == []
        bench.answer_all(NOT_WRITTEN)
        bench.pass_time(5_000)
    assert [type(result) for result in bench.results] == [BrokerPersistenceError] * 2
    (given_up,) = bench.given_up()
    assert isinstance(given_up.error, BrokerPersistenceError)
    assert given_up.entries == [(entry_key(7, 1), 0, 1), (entry_key(7, 2), 3, 0b010)]
    assert given_up.cumulative is None
    assert bench.acks.counts.exhausted == 2
    assert bench.at_rest()
    assert len(bench.sent()) == 3
    # It can be acked anew, with tries of its own.
    bench.ack(1, waits=True)
    bench.acks.flush()
    bench.answer_all(NOT_WRITTEN)
    bench.pass_time(100)
    bench.answer_all()
    assert bench.results[2:] == [None]


def test_no_retries_at_all_still_survive_a_lost_connection() -> None:
    bench = Bench(max_retries=0)
    bench.ack(1, waits=True)
    bench.acks.flush()
    bench.reconnect()
    bench.answer_all(NOT_READY)
    assert [type(result) for result in bench.results] == [ServiceUnitNotReady]


def test_a_refusal_for_good_is_not_retried() -> None:
    bench = Bench()
    bench.ack(1, waits=True)
    bench.acks.flush()
    bench.answer_all(NOT_ALLOWED)
    assert [type(result) for result in bench.results] == [NotAllowedError]
    assert bench.at_rest()
    assert bench.acks.counts.retried == 0
    assert len(bench.given_up()) == 1
    assert bench.given_up() == []


@pytest.mark.parametrize("code", [NOT_ALLOWED, UNKNOWN])
@pytest.mark.parametrize("bad", [{0}, {3, 4}, {6}, set(range(7))])
def test_of_a_list_that_is_refused_only_the_guilty_are_given_up(bad: set[int], code: int) -> None:
    bench = Bench(max_retries=1)
    for entry_id in range(7):
        bench.ack(entry_id, waits=True)
    bench.acks.flush()
    for _ in range(40):
        for request_id, flight in list(bench.acks._flights.items()):
            refused = any(acks.entry_id in bad for acks in flight.acks)
            bench.answer(request_id, code if refused else None)
        bench.pass_time(500)
    failed = [result for result in bench.results if result is not None]
    assert (len(bench.results), len(failed)) == (7, len(bad))
    told = [entry for given_up in bench.given_up() for entry in given_up.entries]
    assert sorted(key for key, _, _ in told) == [entry_key(7, entry_id) for entry_id in sorted(bad)]
    assert bench.at_rest()


# ---- Connections ------------------------------------------------------------------


def test_a_lost_connection_costs_no_attempt_and_the_next_one_gets_everything() -> None:
    bench = Bench(max_retries=1)
    bench.ack(1, waits=True)
    bench.acks.flush()
    bench.answer_all(NOT_READY)  # this one waits
    bench.ack(2, waits=True)
    bench.acks.flush()  # this one is in flight
    bench.ack(3, waits=True)  # and this one is pending
    bench.sent()
    for _ in range(BREAKS_FREE):
        bench.reconnect()
        ((kind, entries),) = bench.sent()
        assert (kind, sorted(entries)) == (0, [(1, None), (2, None), (3, None)])
    bench.answer_all()
    assert bench.results == [None, None, None]
    assert bench.at_rest()
    assert bench.acks.counts.kept_after_retry == 3


@pytest.mark.parametrize("cumulative", [False, True])
def test_an_ack_that_breaks_every_connection_is_given_up_and_holds_up_no_other(
    cumulative: bool,
) -> None:
    bench = Bench(max_retries=3)
    if cumulative:
        bench.ack_through(1, waits=True)
    else:
        bench.ack(1, waits=True)
    bench.acks.flush()
    for _ in range(BREAKS_FREE):
        bench.sent()
        bench.reconnect()
        assert len(bench.sent()) == 1
    for delay_ms in (100, 200, 400):
        bench.sent()
        bench.reconnect()
        assert bench.sent() == [], "it waits, and others go before it"
        bench.ack(9)
        bench.acks.flush()
        bench.answer_all()
        assert bench.acks.unconfirmed == 1
        bench.sent()
        bench.pass_time(delay_ms)
        assert len(bench.sent()) == 1
    assert bench.results == []
    bench.reconnect()
    (error,) = bench.results
    assert isinstance(error, ConnectError)
    (given_up,) = bench.given_up()
    assert given_up.error is error
    assert (given_up.cumulative is not None, len(given_up.entries)) == (cumulative, not cumulative)
    assert bench.acks.counts.exhausted == 1
    assert bench.at_rest()


def test_an_answer_in_between_ends_a_row_of_broken_connections() -> None:
    bench = Bench(max_retries=2)
    bench.ack(1, waits=True)
    bench.acks.flush()
    for _ in range(2):
        for _ in range(BREAKS_FREE):
            bench.reconnect()
        bench.answer_all(NOT_READY)
        bench.pass_time(200)
    assert bench.results == []
    bench.reconnect()
    bench.answer_all()
    assert bench.results == [None]


def test_no_time_without_a_connection_costs_an_attempt() -> None:
    bench = Bench(max_retries=0)
    bench.ack(1, waits=True)
    for _ in range(5 * BREAKS_FREE):
        bench.acks.disconnected()
        bench.now += 3_600_000
    bench.acks.connected()
    bench.answer_all()
    assert bench.results == [None]


def test_nothing_is_due_while_there_is_no_connection() -> None:
    bench = Bench()
    bench.ack(1)
    bench.acks.flush()
    bench.answer_all(NOT_READY)
    bench.acks.disconnected()
    assert bench.acks.next_ms() is None
    assert bench.acks.unconfirmed == 1
    bench.now += 3_600_000
    bench.sent()
    bench.acks.connected()
    assert bench.sent() == [(0, [(1, None)])]


# ---- Newer acks -------------------------------------------------------------------


def test_a_retry_and_newer_acks_of_its_batch_are_one() -> None:
    bench = Bench()
    bench.ack(1, 0, 4, waits=True)
    bench.acks.flush()
    bench.ack(1, 1, 4, waits=True)  # while it is in flight
    bench.acks.flush()
    assert bench.sent() == [(0, [(1, 0b1110)])]
    bench.answer_all(NOT_READY)
    bench.ack(1, 2, 4, waits=True)  # while it waits
    bench.acks.flush()
    assert bench.sent() == []
    bench.pass_time(100)
    assert bench.sent() == [(0, [(1, 0b1000)])]
    assert bench.results == []
    bench.answer_all()
    assert bench.results == [None, None, None]
    bench.ack(1, 3, 4)
    bench.acks.flush()
    assert bench.sent() == [(0, [(1, None)])]


def test_the_whole_entry_wins() -> None:
    bench = Bench()
    bench.ack(1, 0, 4)
    bench.acks.flush()
    bench.sent()
    bench.answer_all(NOT_READY)
    bench.acks.acknowledge(bench.acks.find_id(entry_key(7, 1), -1, 0), -1)
    bench.acks.joined(None)
    bench.pass_time(100)
    assert bench.sent() == [(0, [(1, None)])]
    bench.answer_all()
    assert bench.at_rest()
    assert not bench.acks.is_acked(entry_key(7, 1), -1), "it is forgotten once it is kept"


def test_what_was_acked_while_in_flight_follows_by_itself() -> None:
    bench = Bench()
    bench.ack(1, 0, 3, waits=True)
    bench.acks.flush()
    bench.ack(1, 1, 3, waits=True)
    bench.acks.flush()
    bench.sent()
    bench.answer_all()
    assert bench.results == [None]
    bench.pass_time(100)
    assert bench.sent() == [(0, [(1, 0b100)])]
    bench.answer_all()
    assert bench.results == [None, None]


def test_an_ack_given_up_takes_no_newer_one_with_it() -> None:
    bench = Bench(max_retries=0)
    bench.ack(1, 0, 3, waits=True)
    bench.acks.flush()
    bench.ack(1, 1, 3, waits=True)
    bench.answer_all(NOT_READY)
    assert [type(result) for result in bench.results] == [ServiceUnitNotReady]
    (given_up,) = bench.given_up()
    assert given_up.entries == [(entry_key(7, 1), 3, 0b001)]
    bench.pass_time(100)
    bench.answer_all()
    assert bench.results[1:] == [None]
    assert bench.sent()[-1] == (0, [(1, 0b100)])


# ---- Cumulative acks ----------------------------------------------------------------


def test_a_cumulative_ack_that_fails_is_not_lost() -> None:
    bench = Bench()
    bench.ack_through(5, waits=True)
    bench.acks.flush()
    bench.sent()
    bench.answer_all(NOT_READY)
    assert bench.acks.unconfirmed == 1
    bench.pass_time(99)
    assert bench.sent() == []
    bench.pass_time(1)
    assert bench.sent() == [(1, [(5, None)])]
    bench.reconnect()
    assert bench.sent() == [(1, [(5, None)])]
    bench.answer_all()
    assert bench.results == [None]
    assert bench.at_rest()


def test_of_cumulative_acks_only_the_newest_is_tried_again() -> None:
    bench = Bench()
    bench.ack_through(5, waits=True)
    bench.acks.flush()
    bench.ack_through(7, waits=True)
    bench.acks.flush()
    assert bench.sent() == [(1, [(5, None)])], "one at a time"
    bench.answer_all(NOT_READY)
    bench.ack_through(9, 2, 4, waits=True)
    bench.ack_through(8, waits=True)
    bench.pass_time(100)
    assert bench.sent() == [(1, [(9, 0b1000)])]
    assert bench.acks.unconfirmed == 1
    bench.answer_all()
    assert bench.results == [None] * 4
    assert bench.at_rest()


def test_a_cumulative_ack_behind_one_in_flight_follows_it() -> None:
    bench = Bench()
    bench.ack_through(5, waits=True)
    bench.acks.flush()
    bench.ack_through(7, waits=True)
    bench.answer_all()
    assert bench.results == [None]
    bench.pass_time(100)
    assert bench.sent() == [(1, [(5, None)]), (1, [(7, None)])]
    bench.answer_all()
    assert bench.results == [None, None]


def test_a_cumulative_ack_given_up_is_named_and_the_next_goes_on() -> None:
    bench = Bench(max_retries=0)
    bench.ack_through(5, 1, 3, waits=True)
    bench.acks.flush()
    bench.ack_through(7, waits=True)
    bench.answer_all(NOT_WRITTEN)
    (given_up,) = bench.given_up()
    assert given_up.cumulative is not None
    assert (given_up.cumulative.entry_id, given_up.cumulative.index) == (5, 1)
    assert [type(result) for result in bench.results] == [BrokerPersistenceError]
    bench.pass_time(100)
    bench.answer_all()
    assert bench.results[1:] == [None]


def test_a_stale_cumulative_ack_counts_as_kept() -> None:
    bench = Bench()
    bench.ack_through(5, waits=True)
    bench.acks.flush()
    bench.answer(1, UNKNOWN, "Mark deleting an already mark-deleted position.")
    assert bench.results == [None]
    assert bench.at_rest()


def test_a_cumulative_ack_takes_over_what_it_covers() -> None:
    bench = Bench()
    bench.ack(3, waits=True)
    bench.ack(4, 0, 3, waits=True)
    bench.ack(9, waits=True)
    bench.acks.flush()
    bench.answer_all(NOT_READY)
    bench.sent()
    bench.ack_through(5, waits=True)
    assert bench.acks.waiting == 1
    bench.acks.flush()
    assert bench.sent() == [(1, [(5, None)])]
    bench.answer_all()
    assert bench.results == [None, None, None]
    bench.pass_time(100)
    assert bench.sent() == [(0, [(9, None)])]
    bench.answer_all()
    assert bench.at_rest()


def test_a_cumulative_ack_in_flight_takes_over_what_fails_after_it() -> None:
    bench = Bench()
    bench.ack(3, waits=True)
    bench.acks.flush()
    bench.ack_through(5, waits=True)
    bench.acks.flush()
    bench.answer(1, NOT_READY)
    assert bench.acks.waiting == 0
    bench.answer(2)
    assert bench.results == [None, None]
    assert bench.at_rest()


def test_a_cumulative_ack_inside_a_batch_covers_only_its_own_part() -> None:
    bench = Bench()
    bench.ack(4, 2, 3)
    bench.acks.flush()
    bench.answer_all(NOT_READY)
    bench.ack_through(4, 0, 3)
    assert bench.acks.waiting == 1
    bench.acks.flush()
    bench.pass_time(100)
    assert bench.sent()[1:] == [(1, [(4, 0b010)]), (0, [(4, 0b010)])]


# ---- What came again, and what is pointless -----------------------------------------


def test_a_message_that_comes_again_is_held_back_until_its_ack_has_ended() -> None:
    bench = Bench(max_retries=1)
    bench.ack(1, 0, 2)
    bench.ack_through(0)
    bench.acks.flush()

    def held_back() -> bool:
        inside = bench.acks.unacked_of(7, 1, 2, 0b11) == 0b10
        return inside and bench.acks.unacked_of(7, 0, 0, 1) == 0

    assert held_back()  # in flight
    bench.answer_all(NOT_READY)
    assert held_back()  # waiting
    bench.reconnect()
    assert held_back()  # on its way again
    assert bench.acks.take_held_back() == []
    bench.answer_all(NOT_READY)
    # That was the last time: what was held back must come once more.
    assert sorted(bench.acks.take_held_back()) == [entry_key(7, 0), entry_key(7, 1)]
    assert bench.acks.unacked_of(7, 1, 2, 0b11) == 0b11
    assert bench.acks.unacked_of(7, 0, 0, 1) == 1


def test_what_was_held_back_for_an_ack_is_held_back_for_what_took_it_over() -> None:
    for taken_over_in_flight in (False, True):
        bench = Bench(max_retries=1)
        bench.ack(3)
        bench.acks.flush()
        assert bench.acks.unacked_of(7, 3, 0, 1) == 0
        if taken_over_in_flight:
            bench.ack_through(5)
            bench.acks.flush()
            bench.answer(1, NOT_READY)
        else:
            bench.answer(1, NOT_READY)
            bench.ack_through(5)
            bench.acks.flush()
        bench.answer(2, NOT_ALLOWED)
        assert bench.acks.take_held_back() == [entry_key(7, 5)]


def test_what_waits_is_not_forgotten_by_a_redelivery() -> None:
    bench = Bench(idle_max=1)
    for entry_id in range(5):
        bench.ack(entry_id, 0, 2)
    bench.acks.flush()
    bench.answer_all(NOT_READY)
    bench.acks.forget(entry_key(7, 1))
    bench.acks.forget_idle()
    for entry_id in range(5, 10):
        bench.ack(entry_id, 0, 2)
    assert all(bench.acks.is_acked(entry_key(7, entry_id), 0) for entry_id in range(10))


def test_what_the_broker_knows_is_not_reported_as_failed() -> None:
    bench = Bench(max_retries=0)
    bench.ack(1, 0, 4)
    bench.acks.flush()
    bench.answer_all()
    bench.ack(1, 1, 4)
    bench.acks.flush()
    bench.acks.unacked_of(7, 1, 4, 0b0110)
    bench.answer_all(NOT_READY)
    (given_up,) = bench.given_up()
    assert given_up.entries == [(entry_key(7, 1), 4, 0b0010)]


def test_a_seek_drops_retries_and_tells_who_waits() -> None:
    bench = Bench()
    bench.ack(1, waits=True)
    bench.ack_through(0, waits=True)
    bench.acks.flush()
    bench.answer_all(NOT_READY)
    bench.ack(2, waits=True)
    bench.acks.flush()
    bench.ack(3, waits=True)
    bench.acks.clear()
    assert {type(result) for result in bench.results} == {Interrupted}
    assert len(bench.results) == 4
    assert bench.at_rest()
    assert bench.given_up() == []
    bench.sent()
    bench.reconnect()
    bench.pass_time(100_000)
    assert bench.sent() == []
    bench.answer(3)


# ---- The end -------------------------------------------------------------------------


def test_at_the_end_everything_is_sent_once_more_and_what_is_left_is_given_up() -> None:
    bench = Bench()
    bench.ack(1, waits=True)
    bench.ack_through(0)
    bench.acks.flush()
    bench.answer_all(NOT_READY)  # waiting
    bench.ack(2, 0, 3)
    bench.acks.flush()
    bench.ack(2, 1, 3)  # more of what is in flight
    bench.ack(3)  # pending
    bench.sent()
    bench.acks.flush_all()
    sent = {entry for _, entries in bench.sent() for entry in entries}
    assert sent == {(0, None), (1, None), (2, 0b100), (3, None)}
    bench.answer_all(NOT_READY)
    bench.acks.give_up_all(AlreadyClosed("closed"))
    (given_up,) = bench.given_up()
    assert sorted(given_up.entries) == [
        (entry_key(7, 1), 0, 1),
        (entry_key(7, 2), 3, 0b011),
        (entry_key(7, 3), 0, 1),
    ]
    assert given_up.cumulative is not None
    assert given_up.cumulative.entry_id == 0
    assert [type(result) for result in bench.results] == [AlreadyClosed]
    assert bench.at_rest()


def test_nothing_is_given_up_where_nothing_is_left() -> None:
    bench = Bench()
    bench.ack(1)
    bench.acks.flush()
    bench.answer_all()
    bench.acks.flush_all()
    bench.acks.give_up_all(AlreadyClosed("closed"))
    assert bench.given_up() == []
    assert bench.acks.counts.exhausted == 0


def test_a_cumulative_ack_in_flight_is_given_up_at_the_end_too() -> None:
    bench = Bench()
    bench.ack_through(5)
    bench.acks.flush()
    bench.ack_through(3, waits=True)
    bench.acks.give_up_all(AlreadyClosed("closed"))
    (given_up,) = bench.given_up()
    assert given_up.entries == []
    assert given_up.cumulative is not None
    assert given_up.cumulative.entry_id == 5
    assert [type(result) for result in bench.results] == [AlreadyClosed]


@pytest.mark.parametrize("lost", [False, True])
def test_an_ack_by_an_id_with_a_wrong_size_is_not_tried_again(lost: bool) -> None:
    bench = Bench()
    bench.acks.acknowledge(bench.acks.find_id(entry_key(7, 1), 0, 2), 0)
    bench.acks.joined(bench.results.append)
    bench.acks.flush()
    bench.ack(1, 3, 4, waits=True)  # the message itself knows better
    if lost:
        bench.reconnect()
    else:
        bench.answer_all(NOT_READY)
    assert [type(result) for result in bench.results] == [
        ConnectError if lost else ServiceUnitNotReady
    ]
    bench.pass_time(100)
    bench.answer_all()
    assert bench.results[1:] == [None]
    assert bench.sent()[-1] == (0, [(1, 0b0111)])
    assert bench.at_rest()


def test_a_call_that_acks_nothing_waits_for_nothing() -> None:
    bench = Bench()
    bench.acks.joined(bench.results.append)
    assert bench.results == [None]


def test_a_call_that_acks_several_entries_waits_for_all_of_them() -> None:
    bench = Bench(max_retries=0)
    for entry_id in (1, 2, 2):
        bench.acks.acknowledge(bench.acks.find(7, entry_id, 0, 1), -1)
    bench.acks.joined(bench.results.append)
    bench.ack(3, waits=True)
    bench.acks.flush()
    bench.answer_all(NOT_ALLOWED)  # which parts them
    while bench.acks.in_flight:
        for request_id, flight in list(bench.acks._flights.items()):
            alone = [acks.entry_id for acks in flight.acks] == [3]
            bench.answer(request_id, None if alone else NOT_ALLOWED)
    assert [result is None for result in bench.results] in ([True, False], [False, True])


def test_a_record_of_a_whole_entry_knows_every_index() -> None:
    bench = Bench()
    bench.acks.acknowledge(bench.acks.find_id(entry_key(7, 1), -1, 0), -1)
    assert bench.acks.is_acked(entry_key(7, 1), 70)
    assert bench.acks.unacked_of(7, 1, 100, all_unacked(100)) == 0


# ---- Memory ------------------------------------------------------------------------


def test_too_many_unconfirmed_acks_are_a_crowd_until_half_have_ended() -> None:
    bench = Bench(pending_max=10)
    for entry_id in range(10):
        assert not bench.acks.crowded
        bench.ack(entry_id)
        bench.acks.flush()
    assert bench.acks.crowded
    for request_id in range(1, 6):
        assert not bench.acks.roomy
        bench.answer(request_id)
    assert bench.acks.roomy


def test_acks_of_what_never_came_end_at_a_limit() -> None:
    bench = Bench(pending_max=10, idle_max=5)
    bench.acks.disconnected()
    for entry_id in range(110):
        bench.acks.check_room(1)
        bench.ack(entry_id)
    with pytest.raises(MemoryBufferIsFull, match="110 acks wait for the broker's word"):
        bench.acks.check_room(1)
    bench.acks.connected()
    bench.answer_all()
    bench.acks.check_room(110)


def test_each_error_is_a_client_s() -> None:
    assert all(issubclass(error, PulsarException) for error in ack_retry.RETRIABLE)
