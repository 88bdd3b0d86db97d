"""Acks without a floor, as a client keeps them, and the parts they are made of."""

import pytest
from ack.topic_model import Topic, topic_of
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from magnetar.ack import Acks, BatchSizes, Ledgers
from magnetar.ack.bitmap import clear_count, next_set, nth_clear, run_end
from magnetar.ack.ledger_acks import OPTIMIZE_EVERY, LedgerAcks, Tally
from magnetar.ack.record import make_record, merge_records, record_size, remaining_indexes
from magnetar.model.position import Position


def test_a_client_keeps_acks_without_knowing_the_topic() -> None:
    acks = Acks()
    acks.ack_entry(7, 3)
    acks.ack_indexes(7, 4, make_record(3, 0b101))
    acks.ack_indexes(7, 3, make_record(3, 0b101))
    acks.ack_indexes(7, 5, make_record(3, 0b111))
    acks.ack_entry(2**40, 0)
    acks.ack_entry(2**40, 0)
    assert acks.is_acked(7, 3)
    assert acks.is_acked(7, 3, 1)
    assert [acks.is_acked(7, 4, i) for i in (-1, 0, 1, 2, 3)] == [False, False, True, False, False]
    assert not acks.is_acked(7, 5)
    assert not acks.is_acked(8, 0)
    assert acks.record(7, 4) == make_record(3, 0b101)
    assert (acks.entry_count(), acks.partial_count()) == (2, 1)


def test_what_a_cumulative_ack_covers_can_be_dropped() -> None:
    acks = Acks()
    for entry_id in (1, 2, 3, 8):
        acks.ack_entry(7, entry_id)
    acks.ack_indexes(7, 4, make_record(3, 0b101))
    acks.drop_before(7, 3)
    assert not acks.is_acked(7, 2)
    assert acks.is_acked(7, 3)
    acks.drop_before(7, 5)
    assert (acks.entry_count(), acks.partial_count()) == (1, 0)
    acks.drop_before(7, 9)
    acks.drop_before(7, 9)
    assert acks.ledger_ids() == []


@given(values=st.sets(st.integers(0, 300)), first=st.integers(0, 301))
def test_runs_in_a_bitmap_are_found_as_a_walk_finds_them(values: set[int], first: int) -> None:
    bitmap = BitMap(values)
    assert next_set(bitmap, first, -1) == min([v for v in values if v >= first], default=-1)
    if first in values:
        end = first
        while end in values:
            end += 1
        assert run_end(bitmap, first) == end
    left = [n for n in range(first, 400) if n not in values]
    assert clear_count(bitmap, first, 400) == len(left)
    assert [nth_clear(bitmap, first, 400, n + 1) for n in range(len(left))] == left


@given(
    one=st.integers(2, 9).flatmap(lambda n: st.integers(1 << n, (2 << n) - 1)),
    other=st.integers(2, 9).flatmap(lambda n: st.integers(1 << n, (2 << n) - 1)),
    third=st.integers(2, 9).flatmap(lambda n: st.integers(1 << n, (2 << n) - 1)),
)
def test_records_merge_in_any_order_and_any_number_of_times(
    one: int, other: int, third: int
) -> None:
    merged = merge_records(one, other)
    assert merged == merge_records(other, one) == merge_records(merged, one)
    assert merge_records(merged, third) == merge_records(one, merge_records(other, third))
    for index in range(record_size(merged)):
        left = [
            index >= record_size(record) or remaining_indexes(record) >> index & 1 == 1
            for record in (one, other)
        ]
        assert remaining_indexes(merged) >> index & 1 == all(left)


def test_sizes_are_unknown_unless_someone_knows() -> None:
    sizes = BatchSizes()
    assert sizes.batch_size(5, 0) == 0
    assert sizes.message_count(5, 0, 3) == 3
    assert topic_of(4, 1, 0, 2).sizes.message_count(5, 0, 4) == 8


def test_positions_before_and_after() -> None:
    topic = Topic()
    for ledger_id, sizes in {3: [], 5: [1, 1], 7: [], 9: [1]}.items():
        topic.open_ledger(ledger_id, *sizes)
    ledgers = topic.ledgers
    assert ledgers.last() == Position(9, 0)
    assert ledgers.at_or_after(Position(-1, -1)) == Position(5, 0)
    assert ledgers.next(Position(5, 1)) == Position(9, 0)
    assert ledgers.next(Position(9, 0)) is None
    assert ledgers.previous(Position(9, 0)) == Position(5, 1)
    assert ledgers.previous(Position(5, 99)) == Position(5, 1)
    assert ledgers.previous(Position(8, 4)) == Position(5, 1)
    assert ledgers.previous(Position(5, 0)) == Position(3, -1)
    assert ledgers.entries_after(Position(5, 0)) == 2
    assert ledgers.messages_after(Position(4, 7)) == 3
    assert ledgers.clip(Position(7, 3)) == Position(7, -1)


def test_ledgers_only_grow_and_only_the_oldest_goes() -> None:
    ledgers = Ledgers()
    ledgers.add(5, 2)
    ledgers.add(9, 2)
    with pytest.raises(AssertionError):
        ledgers.add(9)
    with pytest.raises(AssertionError):
        ledgers.grow(9, 1)
    with pytest.raises(AssertionError):
        ledgers.remove(9)
    ledgers.remove(5)
    assert ledgers.entry_count(5) == -1
    assert ledgers.was_trimmed(5)


def test_a_ledger_that_is_older_than_the_topic_never_was_its_own() -> None:
    ledgers = Ledgers(born=4)
    ledgers.add(7, 2)
    assert [ledgers.was_trimmed(id) for id in range(8)] == [False] * 5 + [True] * 2 + [False]
    ledgers.remove(7)
    ledgers.trimmed_through(9)
    assert [ledgers.was_trimmed(id) for id in (3, 4, 5, 9, 10)] == [False, False, True, True, False]


def test_a_topic_without_ledgers_can_be_told_which_ones_it_had() -> None:
    ledgers = Ledgers()
    assert not ledgers.was_trimmed(7)
    ledgers.trimmed_through(7)
    ledgers.trimmed_through(3)
    assert ledgers.was_trimmed(7)
    assert not ledgers.was_trimmed(8)


def test_very_many_single_messages_are_acked_at_once() -> None:
    tally = Tally()
    acks = LedgerAcks(0, tally)
    acks.ack_single(tuple(range(0, 4 * OPTIMIZE_EVERY, 2)))
    assert (acks.messages, tally.bytes) == (2 * OPTIMIZE_EVERY, 0)
    acks.ack_single(tuple(range(4 * OPTIMIZE_EVERY)))
    assert acks.messages == len(acks.entries) == 4 * OPTIMIZE_EVERY
