"""Faults that Apache Pulsar has, or had, in its cursor. Each test bears the issue's number.

Scenarios marked "read" have no issue: they were found by reading, and are numbered as in
the list of known faults.
"""

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
    unacked,
)

from magnetar.ack import (
    Cursor,
    decode_delta,
    decode_snapshot,
    encode_delta,
    encode_snapshot,
)
from magnetar.errors import BatchIndexError, NoSuchEntryError
from magnetar.model.position import Position


def reopened(cursor: Cursor, topic: Topic) -> Cursor:
    return decode_snapshot(encode_snapshot(cursor), topic.ledgers)


# A cumulative ack inside a batch, then a reconnect: it resumes at the next index.
def test_4931_cumulative_ack_in_a_batch_resumes_at_the_next_index() -> None:
    topic = topic_of(1, 4, 1)
    cursor = topic.cursor()
    ack_through(cursor, partly(5, 1, 2, 3))
    cursor = reopened(cursor, topic)
    assert_left(cursor, topic, {(5, 1, 2), (5, 1, 3), (5, 2, 0)})
    assert cursor.mark_delete == Position(5, 0)
    assert cursor.remaining(Position(5, 1)) == 0b1100


# A cumulative ack of one batch must not use the bits of another: here each is masked to,
# and stored for, its own entry.
def test_8997_cumulative_ack_uses_the_bits_of_its_own_entry() -> None:
    topic = topic_of(8, 3)
    cursor = topic.cursor()
    first = cursor.plan_cumulative(partly(5, 0, 6, 7))
    second = cursor.plan_cumulative(partly(5, 1, 2, 6, 7))
    cursor.apply(second)
    cursor.apply(first)
    assert_left(cursor, topic, {(5, 1, 2)})


# Two partly acked batches are persisted: their sets must not run into each other.
def test_9504_sets_of_two_batches_stay_apart_in_a_snapshot() -> None:
    topic = topic_of(4, 4)
    cursor = topic.cursor()
    ack(cursor, partly(5, 0, 0, 1), partly(5, 1, 2, 3))
    left = {(5, 0, 0), (5, 0, 1), (5, 1, 2), (5, 1, 3)}
    assert_left(cursor, topic, left)
    assert_left(reopened(cursor, topic), topic, left)


# Ack A and B of the batch ABCD, unload, resubscribe: only C and D come.
def test_14982_20585_26475_partly_acked_batch_survives_an_unload() -> None:
    topic = topic_of(4)
    cursor = topic.cursor()
    ack(cursor, partly(5, 0, 1, 2, 3), partly(5, 0, 0, 2, 3))
    assert_left(reopened(cursor, topic), topic, {(5, 0, 2), (5, 0, 3)})


# A lower cumulative ack arrives late: it must not roll the batch's record back.
def test_18042_late_lower_cumulative_ack_changes_nothing() -> None:
    topic = topic_of(6)
    cursor = topic.cursor()
    ack_through(cursor, partly(5, 0, 4, 5))
    assert cursor.plan_cumulative(partly(5, 0, 2, 3, 4, 5)).empty
    assert_left(cursor, topic, {(5, 0, 4), (5, 0, 5)})


# Skip n where more than eight holes lie in between: holes are not counted as skipped.
def test_20262_skip_counts_over_many_holes() -> None:
    topic = topic_of(*[1] * 60)
    cursor = topic.cursor()
    ack(cursor, *[entry(5, e) for e in range(1, 40, 2)])
    cursor.apply(cursor.plan_skip(15))
    assert cursor.mark_delete == Position(5, 29)
    cursor.apply(cursor.plan_skip(1000))
    assert_left(cursor, topic, set())


# Ack 0 and 2, nack 1: exactly index 1 comes back.
def test_23436_only_the_unacked_index_comes_back() -> None:
    topic = topic_of(3)
    cursor = topic.cursor()
    cursor.apply(cursor.plan_messages([message(5, 0, 0), message(5, 0, 2)]))
    assert_left(cursor, topic, {(5, 0, 1)})
    assert list(cursor.unacked()) == [(Position(5, 0), 0b10)]


# An empty ack_set means the whole entry.
def test_24406_empty_ack_set_is_the_whole_entry() -> None:
    topic = topic_of(3, 3)
    cursor = topic.cursor()
    ack(cursor, partly(5, 0))
    ack_through(cursor, partly(5, 1))
    assert_left(cursor, topic, set())


# Individual acks, then a cumulative one over them: the backlog is exact and 0 at the end.
def test_24938_25047_25089_mixed_acks_keep_the_backlog_exact() -> None:
    topic = topic_of(2, 3, 1, 5)
    topic.open_ledger(9, 4, 1)
    cursor = topic.cursor()
    ack(cursor, entry(5, 1), partly(5, 3, 0), partly(9, 0, 1, 2))
    assert (cursor.unacked_entries(), cursor.unacked_messages()) == (5, 7)
    ack_through(cursor, entry(5, 2))
    assert (cursor.unacked_entries(), cursor.unacked_messages()) == (3, 4)
    ack_through(cursor, partly(5, 3, 0, 4))
    assert (cursor.unacked_entries(), cursor.unacked_messages()) == (3, 4)
    ack(cursor, entry(5, 3), entry(5, 2))
    ack_through(cursor, entry(9, 1))
    assert (cursor.unacked_entries(), cursor.unacked_messages()) == (0, 0)


# A reset is under way while an ack comes: the reset holds, and the ack learns that it
# was dropped.
def test_26304_reset_with_a_concurrent_ack_is_not_lost() -> None:
    topic = topic_of(1, 1, 1, 1)
    cursor = topic.cursor()
    ack_through(cursor, entry(5, 1))
    reset = cursor.plan_reset(Position(5, 0))
    late = cursor.plan_cumulative(entry(5, 3))
    assert cursor.apply(reset)
    assert not cursor.apply(late)
    assert_left(cursor, topic, topic.messages())
    assert cursor.apply(cursor.plan_cumulative(entry(5, 3)))
    assert_left(cursor, topic, set())


# Two resets are under way at once: both happen, in the order they were written.
def test_26304_the_later_of_two_resets_holds() -> None:
    topic = topic_of(1, 1, 1, 1)
    cursor = topic.cursor()
    first, second = cursor.plan_reset(Position(5, 3)), cursor.plan_reset(Position(5, 2))
    assert cursor.apply(first)
    assert cursor.apply(second)
    assert not cursor.apply(first)
    assert cursor.mark_delete == Position(5, 1)


# A reset whose write failed leaves nothing behind, and its epoch is not used again.
def test_26304_an_ack_planned_for_a_failed_reset_cannot_slip_into_the_next() -> None:
    topic = topic_of(1, 1)
    cursor = topic.cursor()
    failed = cursor.plan_reset(Position(5, 1))
    after = cursor.plan_reset(Position(5, 0))
    assert failed.epoch != after.epoch
    assert cursor.apply(after)
    assert not cursor.apply(failed)


# Mark-delete at E0; ack A of E1 = (A, B), no other hole; kill -9: only B comes. The delta
# alone carries it.
def test_26498_index_ack_without_any_hole_is_in_delta_and_snapshot() -> None:
    topic = topic_of(1, 2)
    cursor = topic.cursor()
    ack_through(cursor, entry(5, 0))
    before = encode_snapshot(cursor)
    written = encode_delta(ack(cursor, partly(5, 1, 1)))
    assert_left(reopened(cursor, topic), topic, {(5, 1, 1)})
    replayed = decode_snapshot(before, topic.ledgers)
    replayed.apply(decode_delta(written))
    assert_left(replayed, topic, {(5, 1, 1)})


# There is no limit beyond which holes or partly acked batches are not kept.
def test_26499_all_holes_and_partly_acked_batches_are_kept() -> None:
    topic = topic_of(*[2] * 30_000)
    cursor = topic.cursor()
    ack(cursor, *[entry(5, e) for e in range(1, 30_000, 3)])
    ack(cursor, *[partly(5, e, 1) for e in range(2, 30_000, 3)])
    cursor = reopened(cursor, topic)
    cursor.check()
    assert cursor.partial_entries() == 10_000
    assert cursor.unacked_entries() == 20_000
    assert cursor.unacked_messages() == 30_000


# A hole left of mark-delete made every later ack fail: here nothing stays left of it.
def test_13788_16237_nothing_stays_left_of_mark_delete() -> None:
    topic = topic_of(1, 3, 1, 1, 1)
    cursor = topic.cursor()
    hole, batch = cursor.plan_acks([entry(5, 2)]), cursor.plan_acks([partly(5, 1, 0)])
    ack_through(cursor, entry(5, 3))
    cursor.apply(hole)
    cursor.apply(batch)
    cursor.check()
    assert not ack(cursor, entry(5, 4)).empty
    assert_left(cursor, topic, set())


# read (1): a cumulative ack in a batch after individual acks of higher indexes.
def test_read_1_cumulative_ack_keeps_individual_acks_of_higher_indexes() -> None:
    topic = topic_of(8)
    cursor = topic.cursor()
    cursor.apply(cursor.plan_messages([message(5, 0, 5), message(5, 0, 7)]))
    ack_through(cursor, partly(5, 0, 3, 4, 5, 6, 7))
    assert_left(cursor, topic, {(5, 0, 3), (5, 0, 4), (5, 0, 6)})


# read (3): a list with one bad id was applied up to that id.
@pytest.mark.parametrize("bad", [entry(5, 4), entry(6, 0), entry(9, 0), entry(5, -1)])
def test_read_3_list_with_a_bad_id_changes_nothing(bad: object) -> None:
    topic = topic_of(1, 1, 2, 1)
    topic.open_ledger(8, 1)
    cursor = topic.cursor()
    ids = [entry(5, 0), partly(5, 2, 1), bad, entry(5, 1)]
    with pytest.raises(NoSuchEntryError):
        cursor.plan_acks(ids)  # type: ignore[arg-type]
    assert_left(cursor, topic, topic.messages())


# read (8): a stale cumulative ack with an ack_set below mark-delete left a batch record.
def test_read_8_stale_cumulative_ack_leaves_no_record() -> None:
    topic = topic_of(4, 1, 1)
    cursor = topic.cursor()
    ack_through(cursor, entry(5, 1))
    assert ack_through(cursor, partly(5, 0, 2, 3)).empty
    assert cursor.partial_entries() == 0
    assert_left(cursor, topic, {(5, 2, 0)})


# 2.2: an id beyond the last entry fails the whole request.
def test_individual_ack_beyond_the_end_is_refused() -> None:
    topic = topic_of(1)
    with pytest.raises(NoSuchEntryError, match="no entry 5:1 in this topic: the ledger has 1"):
        topic.cursor().plan_acks([entry(5, 1)])


# 2.3: below mark-delete a cumulative ack is a success that changes nothing, so a retry is.
def test_stale_cumulative_ack_is_a_success() -> None:
    topic = topic_of(1, 1, 1)
    cursor = topic.cursor()
    ack_through(cursor, entry(5, 2))
    assert cursor.plan_cumulative(entry(5, 0)).empty
    assert cursor.plan_cumulative(entry(5, 2)).empty


# 3.1: an index is never widened to the entry.
def test_index_of_a_batch_of_unknown_size_is_refused() -> None:
    topic = topic_of(0)
    cursor = topic.cursor()
    with pytest.raises(BatchIndexError, match="entry 5:0: the size of its batch is not known"):
        cursor.plan_messages([message(5, 0, 1)])
    with pytest.raises(BatchIndexError):
        cursor.plan_acks([partly(5, 0, 1)])
    assert unacked(cursor, topic_of(1)) == {(5, 0, 0)}
