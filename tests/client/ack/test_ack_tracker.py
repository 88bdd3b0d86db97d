"""Acks from the call to the broker's answer."""

from collections.abc import Callable

import pytest
from client.ack_bench import Bench
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.ack import outbox as ack_outbox
from magnetar.client.ack.entry_acks import Cumulative, EntryAcks
from magnetar.client.ack.retry import BREAKS_FREE
from magnetar.errors import (
    BatchIndexError,
    BrokerPersistenceError,
    ConnectError,
    Interrupted,
    NotAllowedError,
    Timeout,
)
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position_key import wide_key
from magnetar.wire.ack_set import all_unacked

# ---- One entry -----------------------------------------------------------------


@given(st.integers(1, 200), st.data())
def test_an_entry_is_a_set_of_unacked_indexes(size: int, draw: st.DataObject) -> None:
    model = set(range(size))
    acks = EntryAcks(7, 1, size, all_unacked(size))
    for index in draw.draw(st.lists(st.integers(0, size - 1), max_size=20)):
        acks.clear(index)
        model.discard(index)
    kept = draw.draw(st.integers(0, (1 << size) - 1))
    acks.keep(kept)
    model &= {index for index in range(size) if kept >> index & 1}
    assert acks.unacked() == sum(1 << index for index in model)
    assert acks.left == len(model)
    assert all(acks.is_acked(index) == (index not in model) for index in range(size))
    acks.clear_all()
    assert acks.is_acked(-1)
    assert (acks.left, acks.unacked()) == (0, 0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=2, max_size=2))
def test_of_two_cumulative_acks_the_later_reaches_the_other(
    places: list[tuple[int, int]],
) -> None:
    one, other = (Cumulative(7, entry_id, index, 5) for entry_id, index in places)
    assert one.reaches(other) == (places[0] >= places[1])
    assert one.reaches(other) or other.reaches(one)


def test_a_cumulative_ack_leaves_what_is_behind_it() -> None:
    inside = Cumulative(7, 5, 1, 4)
    assert inside.unacked(wide_key(7, 4), 0b1111) == 0
    assert inside.unacked(wide_key(7, 5), 0b1111) == 0b1100
    assert inside.unacked(wide_key(7, 6), 0b1111) == 0b1111
    assert Cumulative(7, 5, 3, 4).unacked(wide_key(7, 5), 0b1111) == 0
    assert Cumulative(7, 5, -1, 0).unacked(wide_key(7, 5), 1) == 0
    # A whole entry reaches any of its indexes, and none of them reaches the whole.
    whole = Cumulative(7, 5, -1, 0)
    assert whole.reaches(inside)
    assert not inside.reaches(whole)


# ---- Groups --------------------------------------------------------------------


def test_acks_are_gathered_for_a_while() -> None:
    bench = Bench()
    bench.ack(1)
    bench.now += 60
    bench.ack(2, 0, 3)
    assert bench.acks.next_ms() == 5_100
    bench.acks.tick(5_099)
    assert bench.sent() == []
    bench.acks.tick(5_100)
    assert bench.sent() == [(0, [(1, None), (2, 0b110)])]
    assert bench.acks.next_ms() is None
    assert bench.acks.counts.sent == 2


def test_no_group_time_sends_each_ack_at_once() -> None:
    bench = Bench(group_time_ms=0)
    bench.ack(1, waits=True)
    bench.ack_through(2)
    assert bench.sent() == [(0, [(1, None)]), (1, [(2, None)])]
    assert bench.results == [None]


def test_issue_26594_plain_and_partial_acks_fill_the_group_together() -> None:
    bench = Bench(group_size_max=2)
    bench.ack(1)
    bench.ack(1)
    assert bench.sent() == []
    bench.ack(2, 0, 3)
    assert bench.sent() == [(0, [(1, None), (2, 0b110)])]
    bench.ack_through(9)
    bench.ack(10)
    assert bench.sent() == [(1, [(9, None)]), (0, [(10, None)])]


def test_partial_acks_add_up_and_end_as_a_plain_one() -> None:
    bench = Bench()
    bench.ack(1, 0, 3)
    bench.acks.flush()
    bench.ack(1, 2, 3)
    bench.acks.flush()
    bench.ack(1, 1, 3)
    bench.acks.flush()
    assert bench.sent() == [(0, [(1, 0b110)]), (0, [(1, 0b010)]), (0, [(1, None)])]
    bench.acks.flush()
    assert bench.sent() == []


def test_a_repeated_ack_is_sent_again() -> None:
    bench = Bench()
    for _ in range(2):
        bench.ack(1, 0, 3)
        bench.acks.flush()
    assert bench.sent() == [(0, [(1, 0b110)])] * 2


def test_many_acks_are_several_commands() -> None:
    bench = Bench(group_size_max=100_000, receipts=True)
    bench.acks.disconnected()
    for entry_id in range(ack_outbox.COMMAND_IDS_MAX + 1):
        bench.ack(entry_id, waits=entry_id in (0, ack_outbox.COMMAND_IDS_MAX))
    bench.acks.connected()
    assert [len(c.message_ids) for c in bench.written] == [ack_outbox.COMMAND_IDS_MAX, 1]
    # Each hears of its own ack.
    bench.answer(2, 2)
    assert [type(result) for result in bench.results] == [BrokerPersistenceError]
    bench.answer(1)
    assert bench.results[1:] == [None]


def test_large_sets_are_several_commands() -> None:
    bench = Bench()
    for entry_id in range(12):
        bench.ack(entry_id, 0, 1 << 20)
    bench.acks.flush()
    assert [len(c.message_ids) for c in bench.written] == [5, 5, 2]


# ---- Ids from elsewhere --------------------------------------------------------


def test_ids_are_acked_index_by_index() -> None:
    bench = Bench()
    for index in (2, 0, 1):
        bench.acks.records.check_id(wide_key(7, 1), index, 3)
        bench.acks.acknowledge(bench.acks.records.find_id(wide_key(7, 1), index, 3), index)
        bench.acks.flush()
    assert bench.sent() == [(0, [(1, 0b011)]), (0, [(1, 0b010)]), (0, [(1, None)])]


def test_an_id_without_an_index_is_the_whole_entry() -> None:
    bench = Bench()
    bench.ack(1, 0, 3)
    bench.acks.records.check_id(wide_key(7, 1), -1, 0)
    assert bench.acks.acknowledge(bench.acks.records.find_id(wide_key(7, 1), -1, 0), -1)
    bench.acks.acknowledge(bench.acks.records.find_id(wide_key(7, 2), -1, 0), -1)
    # Then an index of it is acked with it.
    bench.acks.acknowledge(bench.acks.records.find_id(wide_key(7, 2), 1, 3), 1)
    bench.acks.flush()
    assert bench.sent() == [(0, [(1, None), (2, None)])]


@pytest.mark.parametrize(
    ("index", "size", "reason"),
    [
        (1, 0, "not the size of its batch"),
        (3, 3, "no index 3 in a batch of 3"),
        (1, (1 << 20) + 1, "no index 1"),
        (1, 5, "a batch of 3 messages, not of 5"),
    ],
)
def test_an_index_without_its_place_is_refused(index: int, size: int, reason: str) -> None:
    bench = Bench()
    bench.ack(1, 0, 3)
    with pytest.raises(BatchIndexError, match=reason):
        bench.acks.records.check_id(wide_key(7, 1 if size == 5 else 2), index, size)


def test_an_id_with_a_wrong_size_does_not_hide_messages() -> None:
    bench = Bench()
    bench.acks.acknowledge(bench.acks.records.find_id(wide_key(7, 1), 0, 2), 0)
    assert bench.acks.unacked_of(7, 1, 4, 0b1111) == 0b1111
    bench.acks.acknowledge(bench.acks.records.find_id(wide_key(7, 2), 0, 2), 0)
    right = bench.acks.records.find(7, 2, 4, 0b1111)
    assert right.batch_size == 4
    bench.acks.acknowledge(right, 3)
    bench.acks.flush()
    assert bench.sent()[0][1][-1] == (2, 0b0111)


# ---- What came again -----------------------------------------------------------


def test_pending_acks_hold_their_duplicates_back() -> None:
    bench = Bench()
    bench.ack(1)
    bench.ack(2, 1, 3)
    assert bench.acks.unacked_of(7, 1, 0, 1) == 0
    assert bench.acks.unacked_of(7, 2, 3, 0b111) == 0b101
    assert bench.acks.unacked_of(7, 3, 3, 0b111) == 0b111
    assert bench.acks.records.is_acked(wide_key(7, 2), 1)
    assert not bench.acks.records.is_acked(wide_key(7, 2), 0)
    assert not bench.acks.records.is_acked(wide_key(7, 9), 0)


def test_what_the_broker_knows_adds_to_what_is_pending() -> None:
    bench = Bench()
    bench.ack(2, 1, 3)
    assert bench.acks.unacked_of(7, 2, 3, 0b110) == 0b100
    bench.ack(2, 2, 3)
    bench.acks.flush()
    assert bench.sent() == [(0, [(2, None)])]


def test_of_acks_that_were_sent_the_broker_s_word_counts() -> None:
    bench = Bench()
    bench.ack(2, 1, 3)
    record = bench.acks.records.find(7, 2, 3, 0b111)
    bench.acks.flush()
    assert bench.acks.unacked_of(7, 2, 3, 0b111) == 0b111
    assert not record.live
    bench.ack_through(5)
    bench.acks.flush()
    assert bench.acks.unacked_of(7, 4, 0, 1) == 1


def test_acks_without_an_answer_hold_back_too() -> None:
    bench = Bench(receipts=True)
    bench.ack(2, 1, 3)
    bench.ack_through(1)
    bench.acks.flush()
    assert bench.acks.unacked_of(7, 2, 3, 0b111) == 0b101
    assert bench.acks.unacked_of(7, 1, 0, 1) == 0
    bench.answer(1)
    bench.answer(2)
    assert bench.acks.unacked_of(7, 2, 3, 0b111) == 0b111
    assert bench.acks.unacked_of(7, 1, 0, 1) == 1


def test_what_was_held_back_for_a_failed_ack_is_named() -> None:
    bench = Bench(receipts=True)
    bench.ack(2, 1, 3)
    bench.ack(3)
    bench.ack_through(1)
    bench.acks.flush()
    bench.acks.unacked_of(7, 2, 3, 0b111)
    bench.acks.unacked_of(7, 1, 0, 1)
    assert bench.acks.take_held_back() == []
    bench.answer(2, 2)
    assert bench.acks.take_held_back() == [wide_key(7, 2)]
    bench.answer(1, 2)
    assert bench.acks.take_held_back() == [wide_key(7, 1)]
    assert bench.acks.take_held_back() == []


def test_redelivery_forgets_what_is_idle_only() -> None:
    bench = Bench()
    bench.ack(1, 0, 3)
    bench.ack(2, 0, 3)
    bench.acks.flush()
    bench.ack(2, 1, 3)
    for entry_id in (1, 2, 9):
        bench.acks.records.forget(wide_key(7, entry_id))
    bench.ack(1, 1, 3)
    bench.acks.records.forget_idle()
    bench.acks.flush()
    assert bench.sent()[1:] == [(0, [(2, 0b100), (1, 0b101)])]
    bench.acks.records.forget_idle()
    assert not bench.acks.records.is_acked(wide_key(7, 1), 1)


def test_idle_records_are_bounded() -> None:
    bench = Bench(idle_max=3)
    records = []
    for entry_id in range(20):
        bench.ack(entry_id, 0, 3)
        records.append(bench.acks.records.find(7, entry_id, 3, 0b111))
        bench.acks.flush()
    assert sum(record.live for record in records) <= 7
    assert records[-1].live
    # A batch whose record is gone is still acked, index by index.
    bench.sent()
    bench.ack(0, 1, 3)
    bench.acks.flush()
    assert bench.sent() == [(0, [(0, 0b101)])]


def test_pending_records_and_those_in_flight_are_never_dropped() -> None:
    bench = Bench(idle_max=1, receipts=True)
    for entry_id in range(9):
        bench.ack(entry_id, 0, 2)
    bench.acks.flush()
    for entry_id in range(9, 18):
        bench.ack(entry_id, 0, 2)
    assert all(bench.acks.records.is_acked(wide_key(7, entry_id), 0) for entry_id in range(18))


# ---- Cumulative acks -----------------------------------------------------------


def test_only_the_newest_cumulative_ack_is_sent() -> None:
    bench = Bench()
    bench.ack_through(4)
    bench.ack_through(9)
    bench.ack_through(6)
    bench.acks.flush()
    assert bench.sent() == [(1, [(9, None)])]


def test_issue_8997_a_cumulative_ack_carries_the_bits_of_its_own_id() -> None:
    bench = Bench()
    bench.ack_through(4, 1, 5)
    bench.ack_through(4, 0, 5)
    bench.acks.flush()
    bench.ack_through(4, 4, 5)
    bench.acks.flush()
    assert bench.sent() == [(1, [(4, 0b11100)]), (1, [(4, None)])]


def test_a_cumulative_ack_of_an_entry_that_came_again_is_the_same() -> None:
    bench = Bench()
    bench.ack_through(4, 1, 5)
    assert bench.acks.unacked_of(7, 4, 5, 0b11111) == 0b11100
    bench.acks.flush()
    assert bench.sent() == [(1, [(4, 0b11100)])]


def test_a_cumulative_ack_keeps_what_was_acked_behind_it() -> None:
    bench = Bench()
    bench.ack(4, 3, 5)
    bench.acks.flush()
    bench.ack_through(4, 1, 5)
    bench.acks.flush()
    assert bench.sent()[1:] == [(1, [(4, 0b10100)])]
    bench.ack(4, 4, 5)
    bench.acks.flush()
    assert bench.sent() == [(0, [(4, 0b00100)])]
    # It ends the batch if nothing is left behind it.
    bench.ack_through(4, 2, 5)
    bench.acks.flush()
    assert bench.sent() == [(1, [(4, None)])]


def test_cumulative_and_single_acks_end_a_batch_together() -> None:
    bench = Bench()
    bench.ack_through(4, 1, 3)
    bench.ack(4, 2, 3)
    bench.acks.flush()
    assert bench.sent() == [(1, [(4, None)]), (0, [(4, None)])]


# ---- Receipts and connections --------------------------------------------------


def test_without_receipts_nobody_waits() -> None:
    bench = Bench()
    bench.acks.disconnected()
    bench.ack(1, waits=True)
    bench.ack_through(1, waits=True)
    assert bench.results == [None, None]
    assert bench.acks.in_flight == 0


def test_receipts_answer_each_group_by_itself() -> None:
    bench = Bench(receipts=True)
    bench.ack(1, waits=True)
    bench.ack(2, waits=True)
    bench.ack_through(1, waits=True)
    bench.acks.flush()
    bench.ack(3, waits=True)
    bench.acks.flush()
    assert [c.request_id for c in bench.written] == [1, 2, 3]
    bench.answer(3)
    bench.answer(99)
    assert bench.results == [None]
    bench.answer(2, 22)
    assert [type(result) for result in bench.results[1:]] == [NotAllowedError] * 2
    bench.answer(1)
    assert bench.results[3:] == [None]
    assert bench.acks.counts.failed == 2
    assert bench.acks.in_flight == 0


# A repeated cumulative ack is answered like the first.
def test_a_repeated_cumulative_ack_gets_an_answer_of_its_own() -> None:
    bench = Bench(receipts=True)
    for request_id in (1, 2):
        bench.ack_through(4, waits=True)
        bench.acks.flush()
        bench.answer(request_id)
    assert bench.results == [None, None]


def test_a_refused_batch_index_ends_plainly_when_it_is_acked_again() -> None:
    bench = Bench(receipts=True)
    for request_id, index in enumerate((0, 1, 2, 0, 1), 1):
        bench.ack(1, index, 3, waits=True)
        bench.acks.flush()
        bench.answer(request_id, 22 if request_id <= 2 else None)
    assert [ids[0] for _, ids in bench.sent()] == [
        (1, 0b110),
        (1, 0b101),
        (1, 0b011),
        (1, 0b010),
        (1, None),
    ]
    assert [result is None for result in bench.results] == [False, False, True, True, True]
    assert not bench.acks.records.is_acked(wide_key(7, 1), 0)


# The message may have come again, to somebody else, since the subscription was moved.
@pytest.mark.parametrize("index", [0, -1])
def test_an_ack_that_repeats_a_kept_one_is_told_what_became_of_itself(index: int) -> None:
    bench = Bench(receipts=True)
    bench.ack(1, 0, 3, waits=True)
    bench.acks.flush()
    bench.answer(1)
    for end in (lose_the_connection, let_the_time_run_out):
        bench.ack(1, index, 3, waits=True)
        bench.acks.flush()
        end(bench)
    bench.ack(1, index, 3, waits=True)
    bench.acks.flush()
    bench.answer(4)
    kinds = [type(result) for result in bench.results]
    assert kinds == [type(None), ConnectError, Timeout, type(None)]


@pytest.mark.parametrize(("index", "size"), [(0, 3), (-1, 3), (-1, 0)])
def test_an_ack_that_repeats_one_in_flight_has_an_answer_of_its_own(index: int, size: int) -> None:
    bench = Bench(receipts=True)
    bench.ack(1, index, size, waits=True)
    bench.acks.flush()
    first = bench.sent()
    bench.ack(1, index, size, waits=True)
    bench.answer(1)
    assert bench.results == []
    bench.acks.flush()
    assert bench.sent() == first
    bench.answer(2)
    assert bench.results == [None, None]
    bench.acks.flush()
    assert bench.sent() == []
    assert bench.acks.unconfirmed == 0


def test_acks_go_on_while_their_entry_is_in_flight() -> None:
    bench = Bench(receipts=True)
    bench.ack(1, 0, 2, waits=True)
    bench.acks.flush()
    bench.ack(1, 1, 2, waits=True)
    bench.answer(1)
    bench.acks.flush()
    bench.answer(2)
    assert bench.sent() == [(0, [(1, 0b10)]), (0, [(1, None)])]
    assert bench.results == [None, None]


def lose_the_connection(bench: Bench) -> None:
    bench.acks.disconnected()
    bench.acks.connected()


def let_the_time_run_out(bench: Bench) -> None:
    due = bench.acks.next_ms()
    assert due is not None
    bench.now = due
    bench.acks.tick(due)
    bench.acks.flush()


@pytest.mark.parametrize(
    ("end", "error"), [(lose_the_connection, ConnectError), (let_the_time_run_out, Timeout)]
)
def test_what_gets_no_answer_fails_or_goes_again(
    end: Callable[[Bench], None], error: type[Exception]
) -> None:
    bench = Bench(receipts=True)
    bench.ack(1, waits=True)
    bench.ack_through(2, waits=True)
    bench.acks.flush()
    bench.sent()
    end(bench)
    assert [type(result) for result in bench.results] == [error] * 2
    assert bench.sent() == []
    bench.ack(3)
    bench.ack(4, 0, 2)
    bench.ack_through(5)
    bench.acks.flush()
    first = bench.sent()
    end(bench)
    assert bench.sent() == first == [(1, [(5, None)]), (0, [(3, None), (4, 0b10)])]
    bench.answer(5)
    bench.answer(6)
    assert bench.acks.in_flight == 0


@pytest.mark.parametrize("end", [lose_the_connection, let_the_time_run_out])
def test_what_never_gets_an_answer_does_not_go_again_for_ever(
    end: Callable[[Bench], None],
) -> None:
    """It may be what breaks the connections."""
    bench = Bench(receipts=True)
    bench.ack(1)
    bench.ack_through(5)
    bench.acks.flush()
    for _ in range(BREAKS_FREE):
        bench.sent()
        end(bench)
    assert len(bench.sent()) == 2
    end(bench)
    assert bench.sent() == []
    assert bench.acks.unacked_of(7, 1, 0, 1) == 1  # what comes again is delivered again
    bench.ack(1)
    bench.ack_through(5)
    bench.acks.flush()
    bench.sent()
    end(bench)
    assert len(bench.sent()) == 2


def test_an_answer_ends_the_count_of_those_that_did_not_come() -> None:
    bench = Bench(receipts=True)
    for index in range(3):
        bench.ack(1, index, 9)
        bench.acks.flush()
        for _ in range(BREAKS_FREE):
            lose_the_connection(bench)
        bench.sent()
        bench.answer((index + 1) * (BREAKS_FREE + 1))
    assert bench.acks.in_flight == 0
    bench.ack(1, 3, 9)
    bench.acks.flush()
    bench.sent()
    lose_the_connection(bench)
    assert len(bench.sent()) == 1


def test_what_goes_again_joins_what_came_meanwhile() -> None:
    bench = Bench(receipts=True)
    bench.ack(1, 0, 3)
    bench.ack_through(5)
    bench.acks.flush()
    bench.ack(1, 1, 3)
    bench.ack_through(6)
    bench.sent()
    lose_the_connection(bench)
    assert bench.sent() == [(1, [(6, None)]), (0, [(1, 0b100)])]


def test_of_a_group_what_somebody_waits_for_fails_and_the_rest_goes_again() -> None:
    bench = Bench(receipts=True)
    bench.ack(1, waits=True)
    bench.ack(2)
    bench.acks.flush()
    bench.sent()
    lose_the_connection(bench)
    assert len(bench.results) == 1
    assert bench.sent() == [(0, [(2, None)])]


def test_nothing_is_written_or_due_without_a_connection() -> None:
    bench = Bench(group_size_max=2)
    bench.acks.disconnected()
    for entry_id in range(5):
        bench.ack(entry_id)
    bench.acks.flush()
    assert bench.acks.next_ms() is None
    assert bench.sent() == []
    bench.acks.connected()
    assert bench.sent() == [(0, [(entry_id, None) for entry_id in range(5)])]


# SEMANTICS 3.3, the sixth found by reading.
def test_a_seek_forgets_batch_indexes_too_connected_or_not() -> None:
    for connected in (True, False):
        bench = Bench(receipts=True)
        bench.ack(1, waits=True)
        bench.acks.flush()
        if not connected:
            bench.acks.disconnected()
        bench.ack(2, 0, 3, waits=True)
        bench.ack_through(0, waits=True)
        bench.sent()
        bench.acks.clear()
        assert {type(result) for result in bench.results[-2:]} == {Interrupted}
        assert len(bench.results) == 3
        bench.acks.connected()
        assert bench.sent() == []
        assert bench.acks.unacked_of(7, 2, 3, 0b111) == 0b111
        bench.answer(1)


def test_ids_on_the_wire_tell_the_size_of_a_partial_batch() -> None:
    bench = Bench()
    bench.ack(1, 0, 3)
    bench.ack(2)
    bench.ack_through(0, 0, 2)
    bench.acks.flush()
    ids = [id for command in bench.written for id in command.message_ids]
    assert ids == [
        MessageIdData(7, 0, ack_set=0b10, batch_size=2),
        MessageIdData(7, 1, ack_set=0b110, batch_size=3),
        MessageIdData(7, 2),
    ]


def test_a_cumulative_ack_inside_a_batch_of_more_than_64() -> None:
    cumulative = Cumulative(1, 0, 70, 200)
    assert cumulative.unacked(cumulative.key, (1 << 200) - 1) == (1 << 200) - (1 << 71)


def test_who_is_told_that_an_answer_is_late_may_end_all_others() -> None:
    bench = Bench(receipts=True)
    results: list[Exception | None] = []

    def done(error: Exception | None) -> None:
        results.append(error)
        bench.acks.clear()

    for entry_id in range(2):
        bench.acks.acknowledge(bench.acks.records.find(7, entry_id, 0, 1), -1)
        bench.acks.joined(done)
        bench.acks.flush()
    bench.acks.tick(bench.now + 30_000)
    assert [type(result) for result in results] == [Timeout, Interrupted]
    assert (bench.acks.in_flight, bench.acks.unconfirmed) == (0, 0)
