"""A tracker that sends again what failed: what goes when, who is told, and what is given up."""

import random

import pytest
from client.ack_bench import RetryBench

from magnetar.client.ack.outbox import COMMAND_IDS_MAX
from magnetar.client.ack.retry import BREAKS_FREE
from magnetar.errors import (
    AlreadyClosed,
    BatchIndexError,
    BrokerPersistenceError,
    ConnectError,
    ConsumerNotFound,
    Interrupted,
    MemoryBufferIsFull,
    NotAllowedError,
    ServiceUnitNotReady,
)
from magnetar.model import ServerError
from magnetar.model.position_key import wide_key, wide_key_entry
from magnetar.wire.ack_set import all_unacked

NOT_READY = int(ServerError.ServiceNotReady)
NOT_WRITTEN = int(ServerError.PersistenceError)
NOT_ALLOWED = int(ServerError.NotAllowedError)
UNKNOWN = int(ServerError.UnknownError)


def test_every_ack_asks_for_an_answer_and_callers_wait_only_with_receipts() -> None:
    quiet = RetryBench(receipts=False)
    quiet.ack(1, waits=True)
    quiet.ack_through(2, waits=True)
    assert quiet.results == [None, None]
    quiet.acks.flush()
    assert [command.request_id for command in quiet.written] == [1, 2]
    assert quiet.acks.unconfirmed == 2
    quiet.answer_all()
    assert quiet.at_rest()
    waiting = RetryBench()
    waiting.ack(1, waits=True)
    waiting.acks.flush()
    assert waiting.results == []
    waiting.answer(1)
    assert waiting.results == [None]


def test_an_ack_that_fails_is_sent_again_after_its_backoff() -> None:
    bench = RetryBench()
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
    bench = RetryBench()
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
    bench = RetryBench(max_retries=2)
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
    assert given_up.entries == [(wide_key(7, 1), 0, 1), (wide_key(7, 2), 3, 0b010)]
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
    bench = RetryBench(max_retries=0)
    bench.ack(1, waits=True)
    bench.acks.flush()
    bench.reconnect()
    bench.answer_all(NOT_READY)
    assert [type(result) for result in bench.results] == [ServiceUnitNotReady]


def test_a_refusal_for_good_is_not_retried() -> None:
    bench = RetryBench()
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
    bench = RetryBench(max_retries=1)
    for entry_id in range(7):
        bench.ack(entry_id, waits=True)
    bench.acks.flush()
    for _ in range(40):
        for request_id, flight in list(bench.acks._outbox.flights._flights.items()):
            refused = any(acks.entry_id in bad for acks in flight.acks)
            bench.answer(request_id, code if refused else None)
        bench.pass_time(500)
    failed = [result for result in bench.results if result is not None]
    assert (len(bench.results), len(failed)) == (7, len(bad))
    told = [entry for given_up in bench.given_up() for entry in given_up.entries]
    assert sorted(key for key, _, _ in told) == [wide_key(7, entry_id) for entry_id in sorted(bad)]
    assert bench.at_rest()


# ---- Connections ------------------------------------------------------------------


def test_a_lost_connection_costs_no_attempt_and_the_next_one_gets_everything() -> None:
    bench = RetryBench(max_retries=1)
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
    bench = RetryBench(max_retries=3)
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
    bench = RetryBench(max_retries=2)
    bench.ack(1, waits=True)
    bench.acks.flush()
    for _ in range(2):
        for _ in range(BREAKS_FREE):
            bench.reconnect()
        bench.answer_all(NOT_WRITTEN)
        bench.pass_time(200)
    assert bench.results == []
    bench.reconnect()
    bench.answer_all()
    assert bench.results == [None]


def test_a_refused_ack_waits_for_its_time_whatever_becomes_of_connections() -> None:
    bench = RetryBench(max_retries=3)
    bench.ack(1, waits=True)
    bench.ack_through(0, waits=True)
    bench.acks.flush()
    first = sorted(bench.sent())
    for delay_ms in (100, 200, 400):
        bench.answer_all(NOT_WRITTEN)
        for _ in range(5):
            bench.reconnect()
            assert bench.sent() == []
            assert (bench.acks.waiting, bench.acks.unconfirmed) == (2, 2)
        bench.pass_time(delay_ms - 1)
        assert bench.sent() == []
        bench.pass_time(1)
        assert sorted(bench.sent()) == first
    bench.answer_all()
    assert bench.results == [None, None]
    assert bench.at_rest()


def test_a_refused_ack_whose_time_comes_without_a_connection_is_sent_with_the_next() -> None:
    bench = RetryBench()
    bench.ack(1)
    bench.ack(2, 1, 3)
    bench.acks.flush()
    first = bench.sent()
    bench.answer_all(NOT_WRITTEN)
    bench.acks.disconnected()
    bench.now += 100
    bench.acks.connected()
    assert bench.sent() == first


def test_an_ack_that_was_lost_after_it_was_refused_goes_at_once_and_then_waits_longer() -> None:
    bench = RetryBench()
    bench.ack(1)
    bench.acks.flush()
    bench.answer_all(NOT_WRITTEN)
    bench.pass_time(100)
    bench.sent()
    bench.reconnect()  # it was in flight
    assert bench.sent() == [(0, [(1, None)])]
    bench.answer_all(NOT_WRITTEN)
    bench.reconnect()
    bench.pass_time(199)
    assert bench.sent() == []
    bench.pass_time(1)
    assert bench.sent() == [(0, [(1, None)])]


@pytest.mark.parametrize("code", [NOT_READY, int(ServerError.ConsumerNotFound)])
@pytest.mark.parametrize("cumulative", [False, True])
def test_an_ack_that_met_the_closing_of_its_consumer_goes_at_once_and_for_nothing(
    code: int, cumulative: bool
) -> None:
    bench = RetryBench(max_retries=1)
    ack = bench.ack_through if cumulative else bench.ack
    ack(1, waits=True)
    bench.acks.flush()
    first = bench.sent()
    for _ in range(BREAKS_FREE):
        bench.answer_all(code)
        bench.reconnect()
        assert bench.sent() == first
    # It may be what closes it: from now on that is a failure like any other.
    bench.answer_all(code)
    bench.reconnect()
    assert bench.sent() == []
    bench.pass_time(100)
    assert bench.sent() == first
    bench.answer_all(code)
    assert [type(result) for result in bench.results] == [
        ServiceUnitNotReady if code == NOT_READY else ConsumerNotFound
    ]


def test_no_time_without_a_connection_costs_an_attempt() -> None:
    bench = RetryBench(max_retries=0)
    bench.ack(1, waits=True)
    for _ in range(5 * BREAKS_FREE):
        bench.acks.disconnected()
        bench.now += 3_600_000
    bench.acks.connected()
    bench.answer_all()
    assert bench.results == [None]


def test_nothing_is_due_while_there_is_no_connection() -> None:
    bench = RetryBench()
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
    bench = RetryBench()
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
    bench = RetryBench()
    bench.ack(1, 0, 4)
    bench.acks.flush()
    bench.sent()
    bench.answer_all(NOT_READY)
    bench.acks.acknowledge(bench.acks.records.find_id(wide_key(7, 1), -1, 0), -1)
    bench.acks.joined(None)
    bench.pass_time(100)
    assert bench.sent() == [(0, [(1, None)])]
    bench.answer_all()
    assert bench.at_rest()
    assert not bench.acks.records.is_acked(wide_key(7, 1), -1), "it is forgotten once it is kept"


def test_what_was_acked_while_in_flight_follows_by_itself() -> None:
    bench = RetryBench()
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
    bench = RetryBench(max_retries=0)
    bench.ack(1, 0, 3, waits=True)
    bench.acks.flush()
    bench.ack(1, 1, 3, waits=True)
    bench.answer_all(NOT_READY)
    assert [type(result) for result in bench.results] == [ServiceUnitNotReady]
    (given_up,) = bench.given_up()
    assert given_up.entries == [(wide_key(7, 1), 3, 0b001)]
    bench.pass_time(100)
    bench.answer_all()
    assert bench.results[1:] == [None]
    assert bench.sent()[-1] == (0, [(1, 0b101)])


# ---- Cumulative acks ----------------------------------------------------------------


def test_a_cumulative_ack_that_fails_is_not_lost() -> None:
    bench = RetryBench()
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
    bench = RetryBench()
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
    bench = RetryBench()
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
    bench = RetryBench(max_retries=0)
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


@pytest.mark.parametrize("under_way", [False, True])
def test_a_cumulative_ack_that_takes_over_a_failed_one_has_tries_of_its_own(
    under_way: bool,
) -> None:
    bench = RetryBench(max_retries=2)
    bench.ack_through(1)
    bench.acks.flush()
    bench.answer_all(NOT_WRITTEN)
    if under_way:
        bench.pass_time(5_000)
    bench.ack_through(2, waits=True)
    bench.acks.flush()
    if under_way:
        bench.answer_all(NOT_WRITTEN)  # to the older one
    bench.pass_time(5_000)
    for _ in range(3):
        assert bench.results == []
        bench.answer_all(NOT_WRITTEN)
        bench.pass_time(5_000)
    assert [type(result) for result in bench.results] == [BrokerPersistenceError]


def test_a_stale_cumulative_ack_counts_as_kept() -> None:
    bench = RetryBench()
    bench.ack_through(5, waits=True)
    bench.acks.flush()
    bench.answer(1, UNKNOWN, "Mark deleting an already mark-deleted position.")
    assert bench.results == [None]
    assert bench.at_rest()


def test_a_cumulative_ack_takes_over_what_it_covers() -> None:
    bench = RetryBench()
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
    bench = RetryBench()
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
    bench = RetryBench()
    bench.ack(4, 2, 3)
    bench.acks.flush()
    bench.answer_all(NOT_READY)
    bench.ack_through(4, 0, 3)
    assert bench.acks.waiting == 1
    bench.acks.flush()
    bench.pass_time(100)
    # What the cumulative ack covers is its own to ack.
    assert bench.sent()[1:] == [(1, [(4, 0b010)]), (0, [(4, 0b011)])]


# ---- What came again, and what is pointless -----------------------------------------


def test_a_message_that_comes_again_is_held_back_until_its_ack_has_ended() -> None:
    bench = RetryBench(max_retries=1)
    bench.ack(1, 0, 2)
    bench.ack_through(0)
    bench.acks.flush()

    def held_back() -> bool:
        inside = bench.acks.unacked_of(7, 1, 2, 0b11) == 0b10
        return inside and bench.acks.unacked_of(7, 0, 0, 1) == 0

    assert held_back()  # in flight
    bench.answer_all(NOT_WRITTEN)
    assert held_back()  # waiting
    bench.reconnect()
    assert held_back()  # waiting still
    bench.pass_time(100)
    assert held_back()  # on its way again
    assert bench.acks.take_held_back() == []
    bench.answer_all(NOT_WRITTEN)
    # That was the last time: what was held back must come once more.
    assert sorted(bench.acks.take_held_back()) == [wide_key(7, 0), wide_key(7, 1)]
    assert bench.acks.unacked_of(7, 1, 2, 0b11) == 0b11
    assert bench.acks.unacked_of(7, 0, 0, 1) == 1


def test_what_was_held_back_for_an_ack_is_held_back_for_what_took_it_over() -> None:
    for taken_over_in_flight in (False, True):
        bench = RetryBench(max_retries=1)
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
        assert bench.acks.take_held_back() == [wide_key(7, 5)]


def test_what_waits_is_not_forgotten_by_a_redelivery() -> None:
    bench = RetryBench(idle_max=1)
    for entry_id in range(5):
        bench.ack(entry_id, 0, 2)
    bench.acks.flush()
    bench.answer_all(NOT_READY)
    bench.acks.records.forget(wide_key(7, 1))
    bench.acks.records.forget_idle()
    for entry_id in range(5, 10):
        bench.ack(entry_id, 0, 2)
    assert all(bench.acks.records.is_acked(wide_key(7, entry_id), 0) for entry_id in range(10))


def test_what_the_broker_knows_is_not_reported_as_failed() -> None:
    bench = RetryBench(max_retries=0)
    bench.ack(1, 0, 4)
    bench.acks.flush()
    bench.answer_all()
    bench.ack(1, 1, 4)
    bench.acks.flush()
    bench.acks.unacked_of(7, 1, 4, 0b0110)
    bench.answer_all(NOT_READY)
    (given_up,) = bench.given_up()
    assert given_up.entries == [(wide_key(7, 1), 4, 0b0010)]


def test_a_seek_drops_retries_and_tells_who_waits() -> None:
    bench = RetryBench()
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
    bench = RetryBench()
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
        (wide_key(7, 1), 0, 1),
        (wide_key(7, 2), 3, 0b011),
        (wide_key(7, 3), 0, 1),
    ]
    assert given_up.cumulative is not None
    assert given_up.cumulative.entry_id == 0
    assert [type(result) for result in bench.results] == [AlreadyClosed]
    assert bench.at_rest()


def test_nothing_is_given_up_where_nothing_is_left() -> None:
    bench = RetryBench()
    bench.ack(1)
    bench.acks.flush()
    bench.answer_all()
    bench.acks.flush_all()
    bench.acks.give_up_all(AlreadyClosed("closed"))
    assert bench.given_up() == []
    assert bench.acks.counts.exhausted == 0


def test_a_cumulative_ack_in_flight_is_given_up_at_the_end_too() -> None:
    bench = RetryBench()
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
    bench = RetryBench()
    bench.acks.acknowledge(bench.acks.records.find_id(wide_key(7, 1), 0, 2), 0)
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
    bench = RetryBench()
    bench.acks.joined(bench.results.append)
    assert bench.results == [None]


def test_a_call_that_acks_several_entries_waits_for_all_of_them() -> None:
    bench = RetryBench(max_retries=0)
    for entry_id in (1, 2, 2):
        bench.acks.acknowledge(bench.acks.records.find(7, entry_id, 0, 1), -1)
    bench.acks.joined(bench.results.append)
    bench.ack(3, waits=True)
    bench.acks.flush()
    bench.answer_all(NOT_ALLOWED)  # which parts them
    while bench.acks.in_flight:
        for request_id, flight in list(bench.acks._outbox.flights._flights.items()):
            alone = [acks.entry_id for acks in flight.acks] == [3]
            bench.answer(request_id, None if alone else NOT_ALLOWED)
    assert [result is None for result in bench.results] in ([True, False], [False, True])


def test_a_record_of_a_whole_entry_knows_every_index() -> None:
    bench = RetryBench()
    bench.acks.acknowledge(bench.acks.records.find_id(wide_key(7, 1), -1, 0), -1)
    assert bench.acks.records.is_acked(wide_key(7, 1), 70)
    assert bench.acks.unacked_of(7, 1, 100, all_unacked(100)) == 0


# ---- Memory ------------------------------------------------------------------------


def test_too_many_unconfirmed_acks_are_a_crowd_until_half_have_ended() -> None:
    bench = RetryBench(pending_max=10)
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
    bench = RetryBench(pending_max=10, idle_max=5)
    bench.acks.disconnected()
    for entry_id in range(110):
        bench.acks.check_room(1)
        bench.ack(entry_id)
    with pytest.raises(MemoryBufferIsFull, match="110 acks wait for the broker to confirm them"):
        bench.acks.check_room(1)
    bench.acks.connected()
    bench.answer_all()
    bench.acks.check_room(110)


# ---- Messages in chunks ------------------------------------------------------


def ack_message(bench: RetryBench, *entries: int) -> None:
    """Acks a message whose chunks are these entries."""
    bench.acks.ack_chunks([wide_key(7, entry) for entry in entries])
    bench.acks.joined(bench.results.append)
    bench.acks.flush()


def chunks(*entries: int) -> tuple[int, list[tuple[int, int | None]]]:
    return (0, [(entry, None) for entry in entries])


@pytest.mark.parametrize("code", [NOT_READY, NOT_WRITTEN, UNKNOWN])
def test_chunks_of_a_message_are_tried_again_together(code: int) -> None:
    bench = RetryBench(random=random.Random(5002082).random)
    ack_message(bench, 1, 2, 4, 5)
    for _ in range(8):
        assert bench.sent() == [chunks(1, 2, 4, 5)]
        bench.answer_all(code)
        bench.pass_time(1600)
    bench.answer_all()
    assert bench.results == [None]
    assert bench.at_rest()


def test_chunks_of_a_message_are_given_up_together() -> None:
    bench = RetryBench(max_retries=2, random=random.Random(7).random)
    bench.ack(2)
    bench.acks.flush()
    bench.answer_all(NOT_WRITTEN)
    ack_message(bench, 1, 2, 4)  # one of them has a try less
    for _ in range(2):
        bench.pass_time(1600)
        bench.answer_all(NOT_WRITTEN)
    (given_up,) = bench.given_up()
    assert [wide_key_entry(key) for key, _, _ in given_up.entries] == [1, 2, 4]
    assert [str(result) for result in bench.results] == ["no"]
    assert bench.at_rest()
    assert not any(bench.acks.records.is_acked(wide_key(7, entry), -1) for entry in (1, 2, 4))


def test_a_list_that_is_refused_is_not_cut_within_a_message() -> None:
    bench = RetryBench(max_retries=0)
    bench.acks.ack_chunks([wide_key(7, entry) for entry in (1, 2, 3)])
    bench.ack(9)
    bench.acks.flush()
    bench.sent()
    bench.answer_all(NOT_ALLOWED)
    assert bench.sent() == [chunks(1, 2, 3), chunks(9)]
    bench.answer_all(NOT_ALLOWED)
    assert bench.sent() == []
    assert [len(given_up.entries) for given_up in bench.given_up()] == [3, 1]


def test_a_lost_connection_cuts_no_message_apart() -> None:
    bench = RetryBench(random=random.Random(3).random)
    ack_message(bench, 1, 2, 3)
    bench.sent()
    for _ in range(BREAKS_FREE + 3):
        bench.reconnect()
        bench.pass_time(1600)
        for ack in bench.sent():
            assert ack == chunks(1, 2, 3)
    bench.answer_all()
    assert bench.at_rest()


def test_a_full_ack_is_not_cut_within_a_message() -> None:
    bench = RetryBench()
    for entry in range(COMMAND_IDS_MAX - 1):
        bench.acks.acknowledge(bench.acks.records.find(7, entry, 0, 1), -1)
    last = [20_000, 20_001, 20_002]
    ack_message(bench, *last)
    assert [len(entries) for _, entries in bench.sent()] == [COMMAND_IDS_MAX - 1, 3]


def test_a_cumulative_ack_takes_over_no_message_that_ends_behind_it() -> None:
    bench = RetryBench()
    ack_message(bench, 1, 3)
    bench.answer_all(NOT_WRITTEN)
    bench.sent()
    bench.ack_through(2)
    bench.acks.flush()
    assert bench.sent() == [(1, [(2, None)])]
    bench.pass_time(100)
    assert bench.sent() == [chunks(1, 3)]
    bench.answer_all()
    assert bench.results == [None]
    assert bench.at_rest()


# ---- Ids that tell a wrong size --------------------------------------------------------


def wrong_size_waits(*, waits: bool = False) -> RetryBench:
    """An id says that a batch of 8 has 4 messages; the broker refused it, and it waits."""
    bench = RetryBench()
    bench.ack(0, 1, 4, waits=waits)
    bench.acks.flush()
    bench.answer_all(NOT_WRITTEN)
    assert bench.acks.waiting == 1
    return bench


@pytest.mark.parametrize("again", ["tick", "flush", "reconnect", "close"])
def test_an_ack_with_the_right_size_ends_one_with_a_wrong_one_that_waits(again: str) -> None:
    bench = wrong_size_waits()
    bench.sent()
    bench.ack(0, 2, 8)
    if again == "tick":
        bench.pass_time(10_000)
    elif again == "flush":
        bench.acks.flush()
    elif again == "reconnect":
        bench.reconnect()
    else:
        bench.acks.flush_all()
    assert bench.sent() == [(0, [(0, all_unacked(8) & ~4)])]
    bench.answer_all()
    bench.pass_time(60_000)
    assert bench.at_rest()


def test_who_waits_for_an_ack_of_a_wrong_size_is_told() -> None:
    bench = wrong_size_waits(waits=True)
    assert bench.results == []
    bench.ack(0, 2, 8)
    (error,) = bench.results
    assert isinstance(error, BatchIndexError)
    assert "a batch of 8 messages, not of 4" in str(error)
    (given_up,) = bench.given_up()
    assert (given_up.entries, given_up.error) == ([(wide_key(7, 0), 4, 2)], error)


def test_a_delivery_of_the_right_size_ends_an_ack_of_a_wrong_one_that_waits() -> None:
    bench = wrong_size_waits(waits=True)
    assert bench.acks.unacked_of(7, 0, 8, all_unacked(8)) == all_unacked(8)
    assert len(bench.results) == 1
    bench.pass_time(60_000)
    assert bench.at_rest()


def test_an_ack_of_a_wrong_size_in_the_group_is_not_sent_beside_the_right_one() -> None:
    bench = RetryBench()
    bench.ack(0, 1, 4)
    bench.ack(0, 2, 8)
    bench.acks.flush()
    assert bench.sent() == [(0, [(0, all_unacked(8) & ~4)])]


def test_the_answer_to_an_ack_of_a_wrong_size_says_nothing_of_the_right_one() -> None:
    bench = RetryBench()
    bench.ack(0, 1, 4)
    bench.acks.flush()
    bench.answer_all(NOT_WRITTEN)
    bench.pass_time(150)  # the wrong one is on its way for the second time
    (wrong,) = bench.acks._outbox.flights._flights
    bench.ack(0, 2, 8)
    bench.acks.flush()
    (right,) = set(bench.acks._outbox.flights._flights) - {wrong}
    bench.answer(right, NOT_WRITTEN)
    assert bench.acks.waiting == 1
    bench.answer(wrong)
    assert bench.acks.waiting == 1
    bench.sent()
    bench.pass_time(10_000)
    assert (0, [(0, all_unacked(8) & ~4)]) in bench.sent()
