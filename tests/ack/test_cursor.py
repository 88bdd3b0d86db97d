"""The cursor's rules, one by one; `test_cursor_machine.py` mixes them."""

import pickle

import pytest
from ack.topic_model import (
    Topic,
    ack,
    ack_through,
    assert_left,
    entry,
    message,
    partly,
    topic_of,
)
from pyroaring import BitMap

from magnetar.ack import (
    AckDelta,
    Cursor,
    Ledgers,
    ResetDelta,
    Run,
    decode_snapshot,
    decode_snapshot_steps,
    encode_snapshot,
    snapshot_slices,
)
from magnetar.ack.ledger_acks import LARGE_BATCH
from magnetar.ack.record import make_record
from magnetar.errors import BatchIndexError, NoSuchEntryError
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position import Position
from magnetar.wire.ack_set import BATCH_SIZE_MAX


def two_ledgers() -> Topic:
    topic = topic_of(1, 1)
    topic.open_ledger(7)
    topic.open_ledger(9, 1, 4)
    return topic


# ---- acks ----------------------------------------------------------------------


def test_acks_of_a_range_are_counted_without_a_walk() -> None:
    topic = topic_of(1, 1, 4, 1, 1)
    topic.open_ledger(9, 1, 1)
    cursor = topic.cursor()
    ack(cursor, entry(5, 0), entry(5, 3), partly(5, 2, 1, 4), entry(9, 1))
    assert cursor.mark_delete == Position(5, 0)
    assert cursor.acked_between(5, 0, 5) == (2, 1)
    assert cursor.acked_between(5, 1, 3) == (0, 1)
    assert cursor.acked_between(5, 3, 4) == (1, 0)
    assert cursor.acked_between(5, 3, 3) == (0, 0)
    assert cursor.acked_between(9, 0, 2) == (1, 0)
    ack_through(cursor, entry(9, 0))
    # What is before mark-delete is acked, in its ledger and in those before it.
    assert cursor.acked_between(5, 0, 5) == (5, 0)
    assert cursor.acked_between(9, 0, 2) == (2, 0)


def test_mark_delete_moves_on_through_ledgers() -> None:
    topic = two_ledgers()
    cursor = topic.cursor()
    ack(cursor, entry(9, 0), entry(5, 1))
    assert cursor.mark_delete == Position(5, -1)
    ack(cursor, entry(5, 0))
    assert cursor.mark_delete == Position(9, 0)


def test_bits_beyond_the_batch_are_masked() -> None:
    topic = topic_of(3, 3)
    cursor = topic.cursor()
    ack(cursor, partly(5, 0, 1, 3, 200), partly(5, 1, 3, 64))
    assert_left(cursor, topic, {(5, 0, 1)})


def test_an_ack_set_that_leaves_everything_changes_nothing() -> None:
    topic = topic_of(3)
    cursor = topic.cursor()
    assert cursor.plan_acks([partly(5, 0, 0, 1, 2, 3)]).empty
    assert cursor.plan_cumulative(partly(5, 0, 0, 1, 2)).empty


def test_the_whole_entry_wins_over_its_indexes_in_one_list() -> None:
    topic = topic_of(3)
    cursor = topic.cursor()
    delta = cursor.plan_acks([partly(5, 0, 1), entry(5, 0), partly(5, 0, 2), entry(5, 0)])
    assert delta == AckDelta(0, None, ((5, (0,), ()),))


def test_indexes_that_complete_a_batch_in_one_list_ack_the_entry() -> None:
    topic = topic_of(2)
    delta = topic.cursor().plan_messages([message(5, 0, 0), message(5, 0, 1)])
    assert delta == AckDelta(0, None, ((5, (0,), ()),))


def test_what_is_durable_is_not_written_again_but_what_is_pending_is() -> None:
    topic = topic_of(1, 1, 3)
    cursor = topic.cursor()
    ids = [entry(5, 1), partly(5, 2, 0)]
    pending = cursor.plan_acks(ids)
    assert cursor.plan_acks(ids) == pending
    cursor.apply(pending)
    assert cursor.plan_acks([*ids, partly(5, 2, 0, 1)]).empty
    assert not cursor.plan_acks([partly(5, 2, 1)]).empty


def test_a_dropped_delta_leaves_no_trace() -> None:
    topic = topic_of(1, 2)
    cursor = topic.cursor()
    cursor.plan_acks([entry(5, 0), partly(5, 1, 0)])
    assert_left(cursor, topic, topic.messages())


def test_acks_of_trimmed_entries_are_successes_that_change_nothing() -> None:
    topic = two_ledgers()
    cursor = topic.cursor()
    topic.trim(5)
    cursor.trim()
    assert cursor.plan_acks([entry(5, 1), partly(5, 0, 1), entry(4, 7)]).empty
    assert cursor.plan_messages([message(5, 1, 3)]).empty
    assert cursor.plan_cumulative(entry(5, 1)).empty
    assert cursor.plan_cumulative(entry(5, -1)).empty
    topic.trim(7)
    topic.trim(9)
    cursor.trim()
    assert cursor.plan_acks([entry(9, 1)]).empty
    assert_left(cursor, topic, set())


@pytest.mark.parametrize(
    "id", [entry(6, 0), entry(10, 0), entry(-1, 0), entry(9, 2), entry(9, -1), entry(4, -2)]
)
def test_acks_of_what_never_was_are_refused(id: MessageIdData) -> None:
    cursor = two_ledgers().cursor()
    with pytest.raises(NoSuchEntryError):
        cursor.plan_acks([id])
    with pytest.raises(NoSuchEntryError):
        cursor.plan_messages([id])


@pytest.mark.parametrize("id", [entry(6, -1), entry(10, -1), entry(-1, -1), entry(9, 2)])
def test_cumulative_acks_of_what_never_was_are_refused(id: MessageIdData) -> None:
    with pytest.raises(NoSuchEntryError):
        two_ledgers().cursor().plan_cumulative(id)


def test_cumulative_ack_of_entry_minus_one_acks_all_before_the_ledger() -> None:
    topic = two_ledgers()
    cursor = topic.cursor()
    ack_through(cursor, entry(9, -1))
    assert cursor.mark_delete == Position(5, 1)


@pytest.mark.parametrize("index", [4, 2**31 - 1, -2, -(2**31)])
def test_an_index_outside_its_batch_is_refused(index: int) -> None:
    cursor = two_ledgers().cursor()
    with pytest.raises(BatchIndexError):
        cursor.plan_messages([message(9, 1, 0), message(9, 1, index)])


def test_a_message_id_without_an_index_is_the_entry() -> None:
    topic = topic_of(1, 4, 4)
    cursor = topic.cursor()
    cursor.apply(cursor.plan_messages([message(5, 1, 2)]))
    cursor.apply(cursor.plan_messages([message(5, 2, -1)]))
    assert_left(cursor, topic, {(5, 0, 0), (5, 1, 0), (5, 1, 1), (5, 1, 3)})


def test_index_zero_of_a_single_message_is_the_entry() -> None:
    topic = topic_of(1)
    cursor = topic.cursor()
    cursor.apply(cursor.plan_messages([message(5, 0, 0)]))
    assert_left(cursor, topic, set())


def test_a_peer_that_is_mistaken_about_the_batch_size_is_refused() -> None:
    cursor = topic_of(4).cursor()
    with pytest.raises(BatchIndexError, match="a batch of 4 messages, not of 5"):
        cursor.plan_acks([partly(5, 0, 1, batch_size=5)])


def test_an_unknown_batch_size_is_taken_from_the_peer_and_remembered() -> None:
    topic = topic_of(0, 0)
    cursor = topic.cursor()
    assert cursor.unacked_messages() == 2
    ack(cursor, partly(5, 0, 1, 2, batch_size=3))
    assert cursor.unacked_messages() == 3
    cursor.apply(cursor.plan_messages([message(5, 0, 1)]))
    cursor.check()
    assert cursor.remaining(Position(5, 0)) == 0b100
    with pytest.raises(BatchIndexError):
        cursor.plan_acks([partly(5, 0, 1, batch_size=8)])
    with pytest.raises(BatchIndexError, match="no batch has"):
        cursor.plan_acks([partly(5, 1, 1, batch_size=BATCH_SIZE_MAX + 1)])
    ack(cursor, entry(5, 0))
    assert (cursor.unacked_entries(), cursor.unacked_messages()) == (1, 1)
    ack_through(cursor, entry(5, 1))
    assert cursor.unacked_messages() == 0


def test_an_index_of_an_acked_entry_needs_no_batch_size() -> None:
    cursor = topic_of(0, 0, 0).cursor()
    ack(cursor, entry(5, 0), entry(5, 2))
    assert cursor.plan_acks([partly(5, 0, 1), partly(5, 2, 1)]).empty
    assert cursor.plan_messages([message(5, 0, 1), message(5, 2, 1)]).empty


@pytest.mark.parametrize("turn", [1, -1])
def test_two_claims_about_an_unknown_size_lose_nothing_in_either_order(turn: int) -> None:
    cursor = topic_of(0).cursor()
    short = cursor.plan_acks([partly(5, 0, 1, batch_size=2)])
    long = cursor.plan_acks([partly(5, 0, 0, 1, 2, batch_size=4)])
    for delta in [short, long][::turn]:
        cursor.apply(delta)
        cursor.check()
    assert cursor.remaining(Position(5, 0)) == 0b110


def test_indexes_that_come_after_the_entry_was_acked_change_nothing() -> None:
    topic = topic_of(1, 3)
    cursor = topic.cursor()
    late = cursor.plan_acks([partly(5, 1, 0)])
    ack(cursor, entry(5, 1))
    cursor.apply(late)
    assert_left(cursor, topic, {(5, 0, 0)})


# ---- moves ---------------------------------------------------------------------


def test_skip_of_nothing_and_in_an_empty_topic_changes_nothing() -> None:
    assert topic_of(1).cursor().plan_skip(0).empty
    assert Topic().cursor().plan_skip(3).empty
    assert Topic().cursor().plan_clear().empty


def test_a_move_that_another_has_overtaken_changes_nothing() -> None:
    topic = two_ledgers()
    cursor = topic.cursor()
    ack(cursor, entry(5, 1), partly(9, 1, 2))
    late = cursor.plan_skip(1)
    cursor.apply(cursor.plan_expire(Position(9, 0)))
    assert cursor.apply(late)
    assert_left(cursor, topic, {(9, 1, 2)})


def test_empty_ledgers_come_and_go_unnoticed() -> None:
    topic = two_ledgers()
    cursor = topic.cursor()
    topic.trim(7)
    cursor.trim()
    assert_left(cursor, topic, topic.messages())


def test_a_partly_acked_batch_is_one_entry_to_skip() -> None:
    topic = topic_of(3, 1, 1)
    cursor = topic.cursor()
    ack(cursor, partly(5, 0, 2))
    cursor.apply(cursor.plan_skip(2))
    assert_left(cursor, topic, {(5, 2, 0)})


def test_expire_goes_no_further_than_the_end() -> None:
    topic = two_ledgers()
    cursor = topic.cursor()
    assert cursor.plan_expire(Position(4, 9)).empty
    assert cursor.plan_expire(Position(5, 99)).mark_delete == Position(5, 1)
    assert cursor.plan_expire(Position(99, 0)).mark_delete == Position(9, 1)
    assert cursor.plan_expire(Position(6, 2**40)).mark_delete == Position(5, 1)
    assert cursor.plan_skip(2**70).mark_delete == Position(9, 1)


def test_moves_forward_keep_acks_beyond_them_and_commute_with_acks() -> None:
    topic = topic_of(1, 1, 1, 1, 1)
    cursor = topic.cursor()
    late = cursor.plan_acks([entry(5, 3), entry(5, 0)])
    cursor.apply(cursor.plan_skip(2))
    assert cursor.apply(late)
    assert_left(cursor, topic, {(5, 2, 0), (5, 4, 0)})


def test_reset_unacks_what_is_beyond_and_acks_what_is_before() -> None:
    topic = two_ledgers()
    cursor = topic.cursor()
    ack(cursor, entry(9, 1), entry(5, 0))
    cursor.apply(cursor.plan_reset(Position(5, 1)))
    assert_left(cursor, topic, topic.messages() - {(5, 0, 0)})
    assert cursor.epoch == 1


def test_reset_to_what_is_not_there_takes_what_comes_next() -> None:
    topic = two_ledgers()
    cursor = topic.cursor()
    assert cursor.plan_reset(Position(7, 3)).mark_delete == Position(5, 1)
    assert cursor.plan_reset(Position(-1, -1)).mark_delete == Position(5, -1)
    assert cursor.plan_reset(Position(2**63 - 1, 2**63 - 2)).mark_delete == Position(9, 1)
    # An index of an entry that is not there says nothing about the one that follows.
    assert cursor.plan_reset(Position(7, 3), batch_index=2).record == 0
    assert cursor.plan_reset(Position(99, 0), batch_index=2).mark_delete == Position(9, 1)


def test_reset_into_a_batch() -> None:
    topic = two_ledgers()
    cursor = topic.cursor()
    place = Position(9, 1)
    before = Position(9, 0)
    plan = cursor.plan_reset
    assert plan(place, batch_index=2) == ResetDelta(1, before, place, make_record(4, 0b1100))
    assert plan(place, ack_set=0b1010) == ResetDelta(2, before, place, make_record(4, 0b1010))
    assert plan(place, batch_index=0) == ResetDelta(3, before)
    assert plan(place, ack_set=0) == ResetDelta(4, before)
    assert plan(place, ack_set=0b11111) == ResetDelta(5, before)
    assert plan(place, batch_index=2**31 - 1) == ResetDelta(6, place)
    with pytest.raises(BatchIndexError):
        plan(place, batch_index=1, batch_size=9)
    cursor.apply(plan(place, batch_index=3))
    assert_left(cursor, topic, {(9, 1, 3)})


def test_reset_into_a_batch_of_unknown_size_is_refused_unless_the_size_is_given() -> None:
    cursor = topic_of(0).cursor()
    with pytest.raises(BatchIndexError):
        cursor.plan_reset(Position(5, 0), batch_index=1)
    delta = cursor.plan_reset(Position(5, 0), batch_index=1, batch_size=3)
    assert delta.record == make_record(3, 0b110)


# ---- ledgers come and go -------------------------------------------------------


def test_trimming_forgets_acks_and_lets_mark_delete_move_on() -> None:
    topic = two_ledgers()
    cursor = topic.cursor()
    ack(cursor, entry(5, 1), entry(9, 0))
    topic.trim(5)
    cursor.trim()
    assert_left(cursor, topic, topic.messages_of(Position(9, 1)))


def test_deltas_of_what_is_gone_or_not_there_are_passed_over() -> None:
    topic = two_ledgers()
    cursor = topic.cursor()
    record = make_record(4, 1)
    places = [(4, 0), (5, 7), (9, 2), (12, 0)]
    parts = tuple((ledger, (entry,), ((entry, record),)) for ledger, entry in places)
    delta = AckDelta(0, None, parts)
    assert cursor.apply(delta)
    assert_left(cursor, topic, topic.messages())
    assert cursor.apply(AckDelta(0, Position(12, 5)))
    assert cursor.mark_delete == Position(9, 1)
    topic.publish(9, 1)
    assert_left(cursor, topic, {(9, 2, 0)})


def test_a_snapshot_that_knows_more_than_the_ledgers_is_clipped() -> None:
    topic = topic_of(1, 1, 4, 1, 4, 1)
    topic.open_ledger(9, 4)
    cursor = topic.cursor()
    ack(cursor, entry(5, 1), partly(5, 2, 1), entry(5, 3), partly(5, 4, 1), partly(9, 0, 1))
    data = encode_snapshot(cursor)
    shorter = topic_of(1, 1, 4)
    assert_left(decode_snapshot(data, shorter.ledgers), shorter, {(5, 0, 0), (5, 2, 1)})
    assert_left(decode_snapshot(data, topic_of(1).ledgers), topic_of(1), {(5, 0, 0)})


@pytest.mark.parametrize("entry_id", [-(2**63), 2**63 - 1])
def test_a_cursor_may_be_begun_anywhere(entry_id: int) -> None:
    topic = two_ledgers()
    for ledger_id in (0, 5, 6, 9, 2**63 - 1):
        cursor = Cursor(topic.ledgers, Position(ledger_id, entry_id))
        again = decode_snapshot(encode_snapshot(cursor), topic.ledgers)
        assert again.mark_delete == cursor.mark_delete
        again.check()


def test_a_snapshot_of_many_partly_acked_batches_is_decoded_in_steps() -> None:
    """I10: a broker may have other things to do in between."""
    topic = topic_of(*[2] * 1000)
    cursor = topic.cursor()
    ack(cursor, *[partly(5, number, number % 2) for number in range(1000)])
    steps = decode_snapshot_steps(encode_snapshot(cursor), topic.ledgers)
    costs: list[int] = []
    while True:
        try:
            costs.append(next(steps))
        except StopIteration as end:
            again = end.value
            break
    assert len(costs) > 5
    left = {(5, number, number % 2) for number in range(1000)}
    assert_left(again, topic, left)


def test_a_cursor_without_ledgers_keeps_its_place() -> None:
    ledgers = Ledgers()
    cursor = Cursor(ledgers, Position(5, 1))
    assert cursor.mark_delete == Position(5, 1)
    assert (cursor.unacked_entries(), cursor.unacked_messages()) == (0, 0)
    assert cursor.next_run(Position(0, 0), 10) is None
    ledgers.add(5, 4)
    assert cursor.unacked_entries() == 2


# ---- reading -------------------------------------------------------------------


def test_unacked_may_be_read_while_acks_are_applied() -> None:
    topic = topic_of(*[1] * 3000)
    cursor = topic.cursor()
    seen = []
    for position, _ in cursor.unacked(Position(5, 500)):
        seen.append(position.entry_id)
        if position.entry_id == 600:
            ack_through(cursor, entry(5, 2000))
    assert seen == [*range(500, 1524), *range(2001, 3000)]


def test_runs_skip_what_is_acked() -> None:
    topic = topic_of(*[1] * 100)
    topic.open_ledger(9, *[1] * 10)
    cursor = topic.cursor()
    ack(cursor, *[entry(5, e) for e in range(10, 90)], *[entry(5, e) for e in range(95, 100)])
    assert cursor.next_run(Position(5, 0), 1000) == Run(5, 0, 10)
    assert cursor.next_run(Position(5, 10), 1000) == Run(5, 90, 95)
    assert cursor.next_run(Position(5, 92), 2) == Run(5, 92, 94)
    assert cursor.next_run(Position(5, 95), 1000) == Run(9, 0, 10)
    assert cursor.next_run(Position(9, 10), 1000) is None


def test_holes_and_partly_acked_batches_are_listed_in_order() -> None:
    topic = topic_of(*[4] * 9)
    topic.open_ledger(9, 4, 4)
    cursor = topic.cursor()
    ack(cursor, partly(9, 1, 3), *[entry(5, e) for e in (8, 2, 3, 4)], entry(9, 0), partly(5, 1, 0))
    assert list(cursor.acked_runs()) == [Run(5, 2, 5), Run(5, 8, 9), Run(9, 0, 1)]
    assert cursor.acked_run_count() == 3
    assert list(cursor.partly_acked()) == [(Position(5, 1), 1, 4), (Position(9, 1), 8, 4)]


def test_partly_acked_batches_are_listed_from_a_position_on() -> None:
    ledgers = Ledgers()
    for ledger_id in (5, 7, 9):
        ledgers.add(ledger_id, 10)
    cursor = Cursor(ledgers, Position(5, -1))
    assert cursor.last_touched() is None
    inside = [(5, 2), (5, 4), (9, 0), (9, 3)]
    ids = [message(ledger, entry_id, 0, 2) for ledger, entry_id in inside]
    ids.append(entry(7, 1))
    cursor.apply(cursor.plan_messages(ids))

    def from_on(start: Position | None) -> list[tuple[int, int]]:
        return [(p.ledger_id, p.entry_id) for p, left, size in cursor.partly_acked(start)]

    assert from_on(None) == from_on(Position(-1, -1)) == from_on(Position(5, 2)) == inside
    assert from_on(Position(5, 3)) == inside[1:]
    assert from_on(Position(5, 5)) == from_on(Position(7, 0)) == inside[2:]
    assert from_on(Position(9, 1)) == inside[3:]
    assert from_on(Position(9, 4)) == []
    assert cursor.last_touched() == Position(9, 3)
    cursor.apply(cursor.plan_messages([entry(9, 8)]))
    assert cursor.last_touched() == Position(9, 8)
    cursor.apply(cursor.plan_clear())
    assert cursor.last_touched() is None


def test_many_acks_in_a_ledger_are_kept_as_runs() -> None:
    topic = topic_of(*[1] * 20_000)
    cursor = topic.cursor()
    for first in range(1, 20_000, 1000):
        ack(cursor, *[entry(5, e) for e in range(first, min(first + 1000, 20_000))])
    assert len(encode_snapshot(cursor)) < 100
    assert cursor.unacked_entries() == 1


# ---- snapshots while the state moves on ----------------------------------------


def test_slices_speak_of_one_moment_while_everything_changes() -> None:
    topic = topic_of(*[2] * 50)
    topic.open_ledger(9, *[2] * 50)
    cursor = topic.cursor()
    ack(cursor, *[partly(5, e, 1) for e in range(50)], entry(9, 7))
    left = topic.messages() - {(5, e, 0) for e in range(50)} - topic.messages_of(Position(9, 7))
    slices = snapshot_slices(cursor, 16)
    abandoned = snapshot_slices(cursor, 16)
    data = next(slices) + next(slices)
    next(abandoned)
    ack(cursor, partly(5, 40, 0), entry(9, 8))
    ack_through(cursor, entry(5, 20))
    data += next(slices)
    cursor.apply(cursor.plan_reset(Position(5, 10)))
    cursor.apply(cursor.plan_clear())
    data += b"".join(slices)
    assert_left(decode_snapshot(data, topic.ledgers), topic, left)
    assert_left(cursor, topic, set())


# ---- values --------------------------------------------------------------------

VALUES = [
    AckDelta(1, Position(5, 0), ((5, (3,), ((4, 0b1010),)),)),
    AckDelta(1, None),
    ResetDelta(2, Position(5, -1)),
    ResetDelta(2, Position(5, -1), Position(5, 0), 0b1010),
    Run(5, 0, 3),
    Run(5, 0, 4),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_compare_hash_and_pickle(value: object) -> None:
    twin = pickle.loads(pickle.dumps(value))
    assert twin == value
    assert hash(twin) == hash(value)
    assert [other for other in VALUES if other == value] == [value]
    assert value != "another type"
    namespace = {"AckDelta": AckDelta, "ResetDelta": ResetDelta, "Run": Run, "Position": Position}
    assert eval(repr(value), namespace) == value


def test_only_acks_can_be_empty() -> None:
    assert VALUES[1].empty  # type: ignore[attr-defined]
    assert not VALUES[2].empty  # type: ignore[attr-defined]


# ---- acks by name --------------------------------------------------------------


@pytest.mark.parametrize("partly_first", [False, True])
def test_many_single_messages_are_acked_at_once_as_they_are_one_by_one(partly_first: bool) -> None:
    topic = topic_of(1, 1, 1, 3, 1)
    cursor, twin = topic.cursor(), topic.cursor()
    for one in (cursor, twin):
        ack(one, entry(5, 1))
        if partly_first:
            ack(one, partly(5, 3, 0))
    delta = cursor.plan_messages([message(5, 4, -1), message(5, 2, -1), message(5, 0, -1)])
    assert cursor.are_single(delta)
    assert cursor.apply_named(delta, single=True) == 3
    assert twin.apply_named(delta, single=False) == 3
    assert cursor.mark_delete == twin.mark_delete == Position(5, 2)
    assert cursor.unacked_messages() == twin.unacked_messages() == (1 if partly_first else 3)
    assert cursor.apply_named(delta, single=True) == 0
    cursor.check()


def test_acks_by_name_count_what_was_not_acked_before() -> None:
    topic = topic_of(4, 1)
    cursor = topic.cursor()
    ack(cursor, partly(5, 0, 0, 2, 3))
    delta = cursor.plan_messages([message(5, 0, 1), message(5, 0, 2), message(5, 1, -1)])
    whole = cursor.plan_messages([message(5, 0, -1)])
    assert not cursor.are_single(whole)
    assert cursor.apply_named(delta, single=False) == 2
    assert cursor.apply_named(whole, single=False) == 2
    assert cursor.mark_delete == Position(5, 1)


def test_acks_by_name_of_another_epoch_change_nothing() -> None:
    topic = topic_of(1, 1)
    cursor = topic.cursor()
    delta = cursor.plan_messages([message(5, 1, -1)])
    cursor.apply(cursor.plan_reset(Position(5, 0)))
    assert cursor.apply_named(delta, single=True) == 0
    assert_left(cursor, topic, topic.messages())


def test_acks_by_name_of_what_is_trimmed_change_nothing() -> None:
    topic = two_ledgers()
    cursor = topic.cursor()
    delta = cursor.plan_messages([message(5, 0, -1)])
    topic.trim(5)
    cursor.trim()
    assert cursor.apply_named(delta, single=True) == 0


# ---- Large batches -------------------------------------------------------------


def all_but(ledger_id: int, entry_id: int, index: int) -> MessageIdData:
    """An ack of one message of a large batch: all others stay."""
    left = (1 << LARGE_BATCH) - 1 - (1 << index)
    return MessageIdData(ledger_id, entry_id, ack_set=left, batch_size=LARGE_BATCH)


def test_what_is_left_of_large_batches_is_counted_through_all_that_happens_to_them() -> None:
    topic = topic_of(LARGE_BATCH, LARGE_BATCH, 3, LARGE_BATCH, LARGE_BATCH)
    total = 4 * LARGE_BATCH + 3
    cursor = topic.cursor()
    for entry_id in (0, 1, 3, 4):
        ack(cursor, all_but(5, entry_id, 5))
        ack(cursor, all_but(5, entry_id, 6))
        cursor.check()
    assert cursor.unacked_messages() == total - 8
    frozen = cursor.freeze()
    ack(cursor, all_but(5, 1, 9))
    ack(cursor, entry(5, 3))
    cursor.check()
    assert cursor.unacked_messages() == 3 * LARGE_BATCH + 3 - 7
    assert len(frozen[0][1].records) == 4, "a snapshot sees what was"
    twin = decode_snapshot(encode_snapshot(cursor), topic.ledgers)
    twin.check()
    assert twin.unacked_messages() == cursor.unacked_messages()
    ack_through(cursor, entry(5, 1))
    cursor.check()
    assert cursor.unacked_messages() == LARGE_BATCH + 3 - 2


def test_records_that_end_are_handed_over_to_be_freed_at_leisure() -> None:
    topic = topic_of(LARGE_BATCH, 3, LARGE_BATCH)
    topic.open_ledger(9, LARGE_BATCH, LARGE_BATCH)
    cursor = topic.cursor()
    discarded: list[int] = []
    cursor.discard_to(discarded)
    for place in (entry(5, 0), entry(5, 2), entry(9, 0), entry(9, 1)):
        ack(cursor, all_but(int(place.ledger_id), int(place.entry_id), 1))
    assert discarded == []
    ack(cursor, entry(5, 0))
    assert discarded == [make_record(LARGE_BATCH, (1 << LARGE_BATCH) - 1 - 2)]
    ack_through(cursor, entry(9, 0))
    assert len(discarded) == 3, "of the ledger that was passed, too"
    cursor.discard()
    assert len(discarded) == 4
    cursor.apply(cursor.plan_reset(Position(5, 0)))
    assert len(discarded) == 5
    cursor.check()


# ---- voids ---------------------------------------------------------------------


def test_what_is_void_is_acked_for_every_cursor_whatever_it_had_acked_of_it() -> None:
    topic = topic_of(1, 3, 2, 3, 1, 4)
    cursors = [topic.cursor() for _ in range(3)]
    ack(cursors[1], partly(5, 1, 1, 2), entry(5, 3))
    assert cursors[1].acked_above() == 4
    ack_through(cursors[2], entry(5, 2))
    topic.ledgers.void(5, BitMap([1, 2, 3, 5]))
    for cursor in cursors:
        cursor.pass_over(Position(5, 0))
        cursor.check()
    assert [cursor.unacked_messages() for cursor in cursors] == [2, 2, 1]
    assert [cursor.mark_delete for cursor in cursors[1:]] == [Position(5, -1), Position(5, 3)]
    assert not cursors[1].record_bytes()
    topic.ledgers.void(5, BitMap([4]))
    for cursor in cursors:
        cursor.pass_over(Position(5, 0))
        cursor.check()
    assert [cursor.unacked_messages() for cursor in cursors] == [1, 1, 0]
