"""Deltas and snapshots to bytes and back, and bytes that are neither."""

import pytest
from ack.topic_model import Topic, ack, assert_left, entry, partly, topic_of
from hypothesis import given
from hypothesis import strategies as st

from magnetar.ack import (
    AckDelta,
    Cursor,
    Delta,
    Ledgers,
    ResetDelta,
    decode_delta,
    decode_snapshot,
    encode_delta,
    encode_snapshot,
    snapshot_slices,
)
from magnetar.ack.record import make_record
from magnetar.errors import CorruptAckError
from magnetar.model.position import Position
from magnetar.wire.ack_set import BATCH_SIZE_MAX

LEDGER_IDS = st.integers(0, 40) | st.integers(0, 2**63 - 1)
ENTRY_IDS = st.integers(0, 40) | st.integers(0, 2**31 - 1)
POSITIONS = st.builds(Position, LEDGER_IDS, ENTRY_IDS)
EPOCHS = st.integers(0, 2**62)
MARK_DELETES = st.builds(Position, LEDGER_IDS, st.integers(-1, 2**31 - 1)) | st.just(
    Position(-1, -1)
)


@st.composite
def records(draw: st.DrawFn) -> int:
    size = draw(st.integers(2, 10) | st.integers(2, 200))
    return make_record(size, draw(st.integers(1, (1 << size) - 2)))


@st.composite
def ack_deltas(draw: st.DrawFn) -> AckDelta:
    ledger_ids = draw(st.sets(LEDGER_IDS, max_size=4))
    mark_delete = draw(st.none() | MARK_DELETES)
    parts = tuple((id, *draw(ledger_parts())) for id in sorted(ledger_ids))
    return AckDelta(draw(EPOCHS), mark_delete, parts)


@st.composite
def ledger_parts(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    entries = draw(st.sets(ENTRY_IDS, max_size=8))
    partial = draw(st.dictionaries(ENTRY_IDS, records(), max_size=4))
    return tuple(sorted(entries)), tuple(sorted(partial.items()))


RESET_DELTAS = st.builds(ResetDelta, EPOCHS, MARK_DELETES) | st.builds(
    ResetDelta, EPOCHS, MARK_DELETES, POSITIONS, records()
)
DELTAS = ack_deltas() | RESET_DELTAS


@given(delta=DELTAS)
def test_a_delta_comes_back_as_it_was(delta: Delta) -> None:
    assert decode_delta(encode_delta(delta)) == delta


@given(delta=DELTAS, data=st.data())
def test_a_delta_that_is_cut_or_longer_is_refused(delta: Delta, data: st.DataObject) -> None:
    encoded = encode_delta(delta)
    with pytest.raises(CorruptAckError):
        decode_delta(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(CorruptAckError, match="more bytes than were written"):
        decode_delta(encoded + b"\0")


@given(
    garbage=st.builds(
        bytes.__add__, st.sampled_from([b"", b"\x11", b"\x12", b"\x21"]), st.binary(max_size=60)
    )
)
def test_garbage_is_refused_or_is_something_that_can_be_used(garbage: bytes) -> None:
    topic = topic_of(3, 1, 3, 1)
    cursor = topic.cursor()
    try:
        delta = decode_delta(garbage)
    except CorruptAckError:
        pass
    else:
        assert decode_delta(encode_delta(delta)) == delta
        cursor.apply(delta)
    try:
        cursor = decode_snapshot(garbage, topic.ledgers)
    except CorruptAckError:
        pass
    else:
        list(cursor.unacked())


def busy_cursor() -> tuple[Topic, Cursor]:
    topic = topic_of(*[3] * 200)
    topic.open_ledger(2**40, *[100] * 20)
    cursor = topic.cursor()
    ack(cursor, *[entry(5, e) for e in range(3, 200, 3)])
    ack(cursor, *[partly(5, e, 1) for e in range(4, 200, 3)])
    ack(cursor, *[partly(2**40, e, *range(e + 1)) for e in range(7)], entry(2**40, 9))
    cursor.apply(cursor.plan_cumulative(partly(5, 0, 0, 1)))
    return topic, cursor


BUSY_TOPIC, BUSY_CURSOR = busy_cursor()
BUSY_SNAPSHOT = encode_snapshot(BUSY_CURSOR)


@given(at=st.integers(0, len(BUSY_SNAPSHOT) - 1), byte=st.integers(0, 255))
def test_a_snapshot_with_a_bad_byte_is_refused_or_can_be_used(at: int, byte: int) -> None:
    damaged = BUSY_SNAPSHOT[:at] + bytes([byte]) + BUSY_SNAPSHOT[at + 1 :]
    try:
        cursor = decode_snapshot(damaged, BUSY_TOPIC.ledgers)
    except CorruptAckError:
        return
    again = decode_snapshot(encode_snapshot(cursor), BUSY_TOPIC.ledgers)
    assert list(again.unacked()) == list(cursor.unacked())
    assert encode_snapshot(again) == encode_snapshot(cursor)


@given(end=st.integers(0, len(BUSY_SNAPSHOT) - 1))
def test_a_snapshot_that_is_cut_is_refused(end: int) -> None:
    with pytest.raises(CorruptAckError):
        decode_snapshot(BUSY_SNAPSHOT[:end], BUSY_TOPIC.ledgers)


def test_a_snapshot_that_is_longer_is_refused() -> None:
    with pytest.raises(CorruptAckError):
        decode_snapshot(BUSY_SNAPSHOT + b"\0", BUSY_TOPIC.ledgers)


@given(slice_bytes=st.integers(1, 2000))
def test_slices_are_bounded_and_join_to_the_snapshot(slice_bytes: int) -> None:
    slices = list(snapshot_slices(BUSY_CURSOR, slice_bytes))
    assert b"".join(slices) == BUSY_SNAPSHOT
    # One bitmap and one record more than asked for, at most.
    assert max(map(len, slices)) < slice_bytes + 400


def test_a_snapshot_holds_the_whole_state() -> None:
    again = decode_snapshot(BUSY_SNAPSHOT, BUSY_TOPIC.ledgers)
    left = {
        (position.ledger_id, position.entry_id, index)
        for position, remaining in BUSY_CURSOR.unacked()
        for index in range(BUSY_TOPIC.size(position))
        if remaining is None or remaining >> index & 1
    }
    assert_left(again, BUSY_TOPIC, left)
    assert encode_snapshot(again) == BUSY_SNAPSHOT
    assert again.mark_delete == BUSY_CURSOR.mark_delete


# ---- what no writer writes -----------------------------------------------------

NO_BITMAP = "00"
ENTRY_3 = "12" + "3a300000010000000000000010000000" + "0300"
ENTRY_2_TO_31 = "12" + "3a300000010000000080000010000000" + "0000"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "truncated varint"),
        ("13", "no delta is of kind 19"),
        ("2100000000", "no delta is of kind 33"),
        ("1100" + "02", "2 where at most 1 can be"),
        ("11" + "ff" * 9 + "01", "-1 where at most"),
        ("1100" + "01" + "fe" + "ff" * 8 + "01" + "00" + "00", "ledger -2"),
        ("1100" + "00" + "01" + "05" + "01" + "8080808008" + "00", "where at most 2147483647"),
        ("1200" + "0500" + "01" + "0500" + "020102", "a record for 5:-1"),
        ("1200" + "0500" + "01" + "ff" * 9 + "01" + "01" + "0201", "a record for -1:0"),
        ("1200" + "0500" + "01" + "0501" + "0203", "partly acked batch of 2"),
        ("1200" + "0500" + "01" + "0501" + "0200", "partly acked batch of 2"),
        ("1200" + "0500" + "01" + "0501" + "0205", "partly acked batch of 2"),
        ("1200" + "0500" + "01" + "0501" + "00", "partly acked batch of 0"),
        ("1200" + "0500" + "01" + "0501" + "818040", "where at most 1048576"),
        ("1200" + "0500" + "01" + "0501" + "0901", "2 bytes wanted, 1 left"),
    ],
)
def test_bytes_that_are_no_delta(data: str, reason: str) -> None:
    with pytest.raises(CorruptAckError, match=reason) as caught:
        decode_delta(bytes.fromhex(data))
    assert str(caught.value) == f"corrupt ack state at byte {caught.value.offset}: " + str(
        caught.value.reason
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("11000000", "no snapshot is of kind 17"),
        ("2100050001" + "0500" + NO_BITMAP + "00", "no bitmap"),
        ("2100050001" + "0500" + "08" + "3a30000000000000" + "00", "a ledger without acks"),
        ("2100050001" + "0500" + "09" + "3a3000000000000000" + "00", "more bytes than were"),
        ("2100050001" + "0501" + ENTRY_3 + "01" + "03" + "0201", "partly acked too"),
        ("2100050001" + "0501" + ENTRY_2_TO_31 + "00", "entry 2147483648"),
    ],
)
def test_bytes_that_are_no_snapshot(data: str, reason: str) -> None:
    with pytest.raises(CorruptAckError, match=reason):
        decode_snapshot(bytes.fromhex(data), topic_of(1, 1, 1, 1).ledgers)


def test_the_largest_batch_fits() -> None:
    delta = ResetDelta(1, Position(5, 0), Position(5, 1), make_record(BATCH_SIZE_MAX, 1))
    assert decode_delta(encode_delta(delta)) == delta


def test_a_cursor_before_everything_fits() -> None:
    cursor = Topic().cursor()
    assert cursor.mark_delete == Position(-1, -1)
    assert decode_snapshot(encode_snapshot(cursor), Ledgers()).mark_delete == Position(-1, -1)
