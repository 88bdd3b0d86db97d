"""Batchers: what they take, when they are full, and what they close into."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.producer.batcher import (
    Batch,
    Batcher,
    DefaultBatch,
    KeyedBatches,
    SequenceIds,
    room_for,
)
from magnetar.client.producer.outgoing import Done, Outgoing
from magnetar.protocol.payload.batch import decode_batch
from magnetar.wire.ack_set import BATCH_SIZE_MAX

KINDS = [DefaultBatch, KeyedBatches]


def batcher(kind: type[Batcher], *, count_max: int = 1000, size_max: int = 10_000) -> Batcher:
    made = kind(SequenceIds(-1), count_max=count_max, size_max=size_max)
    made.payload_size_max = 1 << 20
    return made


def full(batches: Batcher) -> bool:
    return batches.full


def tell(told: list[int], number: int) -> Done:
    return lambda error, message_id: told.append(number)


def payloads(batch: Batch) -> list[bytes]:
    return [message.payload for message in decode_batch(batch.payload, len(batch.senders))]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_open_closes_into_nothing(kind: type[Batcher]) -> None:
    batches = batcher(kind)
    assert batches.close() == []
    assert batches.clear() == []
    assert not full(batches)


@pytest.mark.parametrize("kind", KINDS)
def test_full_by_messages_or_bytes(kind: type[Batcher]) -> None:
    batches = batcher(kind, count_max=2, size_max=10)
    batches.add(Outgoing(b"123"))
    assert not full(batches)
    assert batches.fits(Outgoing(b"1234567"))
    assert not batches.fits(Outgoing(b"12345678"))
    batches.add(Outgoing(b"1"))
    assert full(batches)
    batches.close()
    assert (batches.count, batches.size) == (0, 0)
    assert batches.fits(Outgoing(b"x" * 5000))
    batches.add(Outgoing(b"x" * 5000))
    assert full(batches)


@pytest.mark.parametrize("kind", KINDS)
def test_count_is_bounded_by_what_a_batch_can_have(kind: type[Batcher]) -> None:
    assert batcher(kind, count_max=2**31 - 1).count_max == BATCH_SIZE_MAX


@pytest.mark.parametrize("kind", KINDS)
def test_clear_gives_everybody_back(kind: type[Batcher]) -> None:
    batches = batcher(kind)
    told: list[int] = []
    for i in range(4):
        batches.add(Outgoing(b"x", None if i == 2 else tell(told, i), partition_key=str(i % 2)))
    senders = batches.clear()
    assert len(senders) == 4
    for sender in senders:
        if callable(sender):
            sender(None, None)
    assert sorted(told) == [0, 1, 3]
    assert batches.close() == []


@pytest.mark.parametrize("kind", KINDS)
def test_batch_carries_the_time_of_its_opening(kind: type[Batcher]) -> None:
    batches = batcher(kind)
    batches.opened_ms = 55
    batches.add(Outgoing(b"x", partition_key="a"))
    batches.add(Outgoing(b"y", partition_key="b"))
    assert {batch.taken_ms for batch in batches.close()} == {55}


def test_own_sequence_ids_join_batches_by_key_only_in_a_row() -> None:
    batches = batcher(KeyedBatches)

    def own(sequence_id: int | None, key: str) -> Outgoing:
        return Outgoing(b"x", sequence_id=sequence_id, partition_key=key)

    assert batches.fits(own(5, "a"))
    batches.add(own(5, "a"))
    assert batches.fits(own(6, "a"))
    assert not batches.fits(own(5, "a"))
    assert not batches.fits(own(6, "b"))
    batches.add(own(9, "a"))
    assert not batches.fits(own(8, "a"))
    assert batches.fits(own(None, "b"))
    batches.add(own(None, "b"))
    assert not batches.fits(own(20, "a"))
    first, second = batches.close()
    assert (first.sequence_id, first.highest_sequence_id) == (5, 9)
    assert (second.sequence_id, second.highest_sequence_id) == (10, 10)


MESSAGES = st.lists(
    st.builds(
        Outgoing,
        st.binary(max_size=20),
        partition_key=st.none() | st.text(max_size=3),
        ordering_key=st.none() | st.binary(max_size=3),
        properties=st.none() | st.dictionaries(st.text(max_size=3), st.text(max_size=3)),
        event_timestamp=st.integers(0, 2**62),
        null_value=st.booleans(),
    ),
    max_size=30,
)


@given(MESSAGES, st.sampled_from(KINDS))
def test_batches_have_what_was_added_and_sequence_ids_that_grow(
    messages: list[Outgoing], kind: type[Batcher]
) -> None:
    batches = batcher(kind, size_max=1 << 20)
    for message in messages:
        assert batches.fits(message)
        batches.add(message)
    assert batches.count == len(messages)
    assert batches.size == sum(len(message.payload) for message in messages)
    closed = batches.close()
    assert sorted(payload for batch in closed for payload in payloads(batch)) == sorted(
        message.payload for message in messages
    )
    sequence_ids = [
        message.sequence_id or 0
        for batch in closed
        for message in decode_batch(batch.payload, len(batch.senders))
    ]
    assert sequence_ids == list(range(len(messages)))
    assert all(a.highest_sequence_id < b.sequence_id for a, b in pairwise(closed))
    assert sum(batch.size for batch in closed) == sum(len(m.payload) for m in messages)
    if kind is DefaultBatch and messages:
        assert payloads(closed[0]) == [message.payload for message in messages]
        assert closed[0].first is messages[0]


@given(MESSAGES.filter(bool))
def test_room_is_no_less_than_what_a_message_takes(messages: list[Outgoing]) -> None:
    batches = batcher(DefaultBatch, size_max=1 << 20)
    for message in messages:
        batches.add(message)
    (batch,) = batches.close()
    assert len(batch.payload) <= sum(room_for(message) for message in messages)
