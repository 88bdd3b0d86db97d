"""Cursors in Apache Pulsar's format, against protobuf, which knows only the field numbers."""

import pickle
from collections.abc import Callable
from typing import Any, cast

import pytest
from ack.topic_model import Topic, ack, ack_through, entry, partly, topic_of
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st
from support.untraced import untraced

from magnetar.ack import BatchSizes, Cursor, Ledgers
from magnetar.ack.cursor_info import CursorInfo, cursor_to_info, info_to_cursor
from magnetar.ack.encoding.cursor_info_codec import (
    decode_managed_cursor_info,
    decode_position_info,
    encode_managed_cursor_info,
    encode_position_info,
    is_managed_cursor_info,
)
from magnetar.errors import BatchIndexError, CorruptAckError, NoSuchEntryError
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position import Position
from magnetar.wire.ack_set import bits_to_words

# ---- Pulsar's schema, for protobuf -------------------------------------------

MESSAGES = {
    "Nested": ["ledgerId int64!", "entryId int64!"],
    "Range": ["lowerEndpoint Nested!", "upperEndpoint Nested!"],
    "LongProperty": ["name string!", "value int64!"],
    "StringProperty": ["name string!", "value string!"],
    "Batch": ["position Nested!", "deleteSet int64*"],
    "LongListMap": ["key int64!", "values int64*"],
    "PositionInfo": [
        "ledgerId int64!",
        "entryId int64!",
        "individualDeletedMessages Range*",
        "properties LongProperty*",
        "batches Batch*",
        "individualDeletedMessageRanges LongListMap*",
    ],
    "ManagedCursorInfo": [
        "cursorsLedgerId int64!",
        "markDeleteLedgerId int64",
        "markDeleteEntryId int64",
        "individualDeletedMessages Range*",
        "properties LongProperty*",
        "lastActive int64",
        "batches Batch*",
        "cursorProperties StringProperty*",
    ],
}


def build_schema(*, packed: bool) -> Callable[[str], Any]:
    """Constructors of the messages by name."""
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="cursor.proto", package="cursor")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, declared in enumerate(fields, 1):
            field_name, kind = declared.split()
            field = message.field.add(name=field_name, number=number)
            field.label = {
                "!": field_type.LABEL_REQUIRED,
                "*": field_type.LABEL_REPEATED,
            }.get(kind[-1], field_type.LABEL_OPTIONAL)
            kind = kind.rstrip("!*")
            if kind == "int64":
                field.type = field_type.TYPE_INT64
                field.options.packed = packed and field.label == field_type.LABEL_REPEATED
            elif kind == "string":
                field.type = field_type.TYPE_STRING
            else:
                field.type = field_type.TYPE_MESSAGE
                field.type_name = f".cursor.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)

    def constructor(name: str) -> Any:
        found = pool.FindMessageTypeByName(f"cursor.{name}")
        return message_factory.GetMessageClass(found)

    return constructor


UNPACKED = build_schema(packed=False)
PACKED = build_schema(packed=True)


def nested(position: Position) -> dict[str, int]:
    return {"ledgerId": position.ledger_id, "entryId": position.entry_id}


def common(info: CursorInfo, *, ranges: bool = True) -> dict[str, object]:
    """The fields that both messages have."""
    return {
        "individualDeletedMessages": [
            {"lowerEndpoint": nested(lower), "upperEndpoint": nested(upper)}
            for lower, upper in info.ranges
            if ranges
        ],
        "properties": [{"name": name, "value": value} for name, value in info.properties],
        "batches": [
            {"position": nested(position), "deleteSet": bits_to_words(remaining)}
            for position, remaining in info.batches
        ],
    }


def position_info(schema: Callable[[str], Any], info: CursorInfo) -> bytes:
    message = schema("PositionInfo")(**nested(info.mark_delete), **common(info))
    return cast("bytes", message.SerializeToString())


def position_info_with_words(schema: Callable[[str], Any], info: CursorInfo) -> bytes:
    ledgers: dict[int, int] = {}
    for lower, upper in info.ranges:
        for entry_id in range(lower.entry_id + 1, upper.entry_id + 1):
            ledgers[upper.ledger_id] = ledgers.get(upper.ledger_id, 0) | 1 << entry_id
    message = schema("PositionInfo")(
        **nested(info.mark_delete),
        **common(info, ranges=False),
        individualDeletedMessageRanges=[
            {"key": ledger_id, "values": bits_to_words(bits)} for ledger_id, bits in ledgers.items()
        ],
    )
    return cast("bytes", message.SerializeToString())


def managed_cursor_info(
    schema: Callable[[str], Any], info: CursorInfo, cursors_ledger_id: int = -1
) -> bytes:
    message = schema("ManagedCursorInfo")(
        cursorsLedgerId=cursors_ledger_id,
        markDeleteLedgerId=info.mark_delete.ledger_id,
        markDeleteEntryId=info.mark_delete.entry_id,
        **common(info),
        cursorProperties=[{"name": n, "value": v} for n, v in info.cursor_properties],
    )
    if info.last_active_ms:
        message.lastActive = info.last_active_ms
    return cast("bytes", message.SerializeToString())


# ---- Agreement ---------------------------------------------------------------

LEDGER_IDS = st.integers(0, 9) | st.integers(0, 2**63 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=5)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[Position, Position]:
    """Few entries behind each other, of one ledger."""
    ledger_id = draw(LEDGER_IDS)
    first = draw(st.integers(0, 300))
    return Position(ledger_id, first - 1), Position(ledger_id, first + draw(st.integers(0, 99)))


INFOS = st.builds(
    CursorInfo,
    st.builds(Position, LEDGER_IDS | st.just(-1), st.integers(-1, 2**31 - 1)),
    st.lists(ranges(), max_size=4).map(tuple),
    st.lists(
        st.tuples(
            st.builds(Position, LEDGER_IDS, st.integers(0, 2**31 - 1)),
            st.integers(1, 2**10) | st.integers(1, 2**200),
        ),
        max_size=4,
    ).map(tuple),
    st.lists(st.tuples(TEXTS, INT64), max_size=2).map(tuple),
    st.lists(st.tuples(TEXTS, TEXTS), max_size=2).map(tuple),
    INT64,
)


def acked_entries(info: CursorInfo) -> set[tuple[int, int]]:
    return {
        (upper.ledger_id, entry_id)
        for lower, upper in info.ranges
        for entry_id in range(lower.entry_id + 1, upper.entry_id + 1)
    }


def without_managed_fields(info: CursorInfo) -> CursorInfo:
    return CursorInfo(info.mark_delete, info.ranges, info.batches, info.properties)


@given(info=INFOS)
def test_both_messages_are_written_byte_for_byte_as_protobuf_writes_them(info: CursorInfo) -> None:
    assert encode_position_info(info) == position_info(UNPACKED, info)
    words = encode_position_info(info, as_long_array=True)
    assert words == position_info_with_words(UNPACKED, info)
    assert encode_managed_cursor_info(info) == managed_cursor_info(UNPACKED, info)


@pytest.mark.parametrize("schema", [UNPACKED, PACKED], ids=["unpacked", "packed"])
@given(info=INFOS)
def test_what_protobuf_writes_is_read_as_it_was(
    schema: Callable[[str], Any], info: CursorInfo
) -> None:
    plain = without_managed_fields(info)
    assert decode_position_info(position_info(schema, info)) == plain
    assert decode_managed_cursor_info(managed_cursor_info(schema, info)) == info
    words = decode_position_info(position_info_with_words(schema, info))
    assert acked_entries(words) == acked_entries(info)
    assert (words.mark_delete, words.batches, words.properties) == (
        plain.mark_delete,
        plain.batches,
        plain.properties,
    )


@given(info=INFOS)
def test_the_two_messages_are_told_apart(info: CursorInfo) -> None:
    assert is_managed_cursor_info(encode_managed_cursor_info(info))
    assert not is_managed_cursor_info(encode_position_info(info))
    assert not is_managed_cursor_info(encode_position_info(info, as_long_array=True))
    elsewhere = UNPACKED("ManagedCursorInfo")(cursorsLedgerId=7, lastActive=1)
    assert is_managed_cursor_info(elsewhere.SerializeToString())


UNKNOWN = [
    b"\x78\x05",  # field 15, a number
    b"\x7a\x02ab",  # field 15, bytes
    b"\x79" + bytes(8),
    b"\x7d" + bytes(4),
    b"\x7b\x7c",  # field 15, an empty group
]


@given(info=INFOS, unknown=st.sampled_from(UNKNOWN))
def test_unknown_fields_are_passed_over_wherever_they_stand(
    info: CursorInfo, unknown: bytes
) -> None:
    plain = without_managed_fields(info)
    assert decode_position_info(unknown + encode_position_info(info) + unknown) == plain
    managed = unknown + encode_managed_cursor_info(info) + unknown
    assert decode_managed_cursor_info(managed) == info
    assert is_managed_cursor_info(managed)

    def field(tag: int, body: bytes) -> bytes:
        return bytes((tag, len(body) + len(unknown))) + body + unknown

    position = field(0x0A, b"\x08\x05\x10\x02")
    whole = (
        b"\x08\x05\x10\x01"
        + field(0x1A, position + field(0x12, b"\x08\x05\x10\x04"))
        + field(0x22, b"\x0a\x01a\x10\x07")
        + field(0x2A, position + b"\x10\x03")
        + field(0x32, b"\x08\x06\x10\x01")
    )
    assert decode_position_info(whole) == CursorInfo(
        Position(5, 1),
        ((Position(5, 2), Position(5, 4)), (Position(6, -1), Position(6, 0))),
        ((Position(5, 2), 3),),
        (("a", 7),),
    )
    texts = b"\x08" + b"\xff" * 9 + b"\x01\x10\x05\x18\x01" + field(0x42, b"\x0a\x01a\x12\x01b")
    assert decode_managed_cursor_info(texts).cursor_properties == (("a", "b"),)


# ---- What is refused ---------------------------------------------------------

DECODERS: list[Callable[[bytes], object]] = [
    decode_position_info,
    decode_managed_cursor_info,
    is_managed_cursor_info,
]


@given(garbage=st.binary(max_size=60))
def test_garbage_is_one_kind_of_error_or_something_that_can_be_written(garbage: bytes) -> None:
    for decode in DECODERS:
        try:
            found = decode(garbage)
        except CorruptAckError:
            continue
        if isinstance(found, CursorInfo):
            again = decode_managed_cursor_info(encode_managed_cursor_info(found))
            assert again == found


@given(info=INFOS, data=st.data())
def test_a_flipped_byte_is_one_kind_of_error_or_another_cursor(
    info: CursorInfo, data: st.DataObject
) -> None:
    for encoded in (encode_position_info(info), encode_managed_cursor_info(info)):
        at = data.draw(st.integers(0, len(encoded) - 1))
        damaged = bytearray(encoded)
        damaged[at] ^= data.draw(st.integers(1, 255))
        for decode in DECODERS:
            try:
                decode(bytes(damaged))
            except CorruptAckError as error:
                assert 0 <= error.offset <= len(encoded)


START = b"\x08\x05\x10\x01"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ledgerId: required field is missing"),
        (b"\x08\x05", "entryId: required field is missing"),
        (b"\x10\x05", "ledgerId: required"),
        (START + b"\x1a\x00", "a range without an end"),
        (START + b"\x1a\x06\x0a\x04\x08\x05\x10\x01", "a range without an end"),
        (START + b"\x1a\x06\x12\x04\x08\x05\x10\x01", "a range without an end"),
        (START + b"\x1a\x04\x0a\x02\x08\x05", "NestedPositionInfo.entryId: required"),
        (
            START + b"\x1a\x0c\x0a\x04\x08\x05\x10\x03\x12\x04\x08\x05\x10\x02",
            "a range from 5:3 back to 5:2",
        ),
        (START + b"\x2a\x02\x10\x01", "a batch without a position"),
        (
            START + b"\x2a\x11\x0a\x0d\x08\x05\x10" + b"\xff" * 9 + b"\x01\x10\x01",
            "a batch without",
        ),
        (
            START + b"\x2a\x11\x0a\x0d\x08" + b"\xff" * 9 + b"\x01\x10\x05\x10\x01",
            "a batch without",
        ),
        (START + b"\x2a\x06\x0a\x04\x08\x05\x10\x02", "the batch 5:2 has no index left"),
        (START + b"\x2a\x08\x0a\x04\x08\x05\x10\x02\x10\x00", "the batch 5:2 has no index left"),
        (START + b"\x32\x02\x10\x01", "a bitset of no ledger"),
        (START + b"\x22\x03\x0a\x01\xff", "LongProperty.name: text that is not UTF-8"),
        (b"\x08\x05\x10\x80\x80\x80\x80\x08", "there is no position 5:2147483648"),
        (b"\x08\xfe" + b"\xff" * 8 + b"\x01\x10\x00", "there is no position -2:0"),
        (b"\x08\x00\x10\xfe" + b"\xff" * 8 + b"\x01", "there is no position 0:-2"),
        (START + b"\x2a\x7f", "length 127 where 0 bytes are left"),
    ],
)
def test_what_cannot_have_been_written_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptAckError, match=reason):
        decode_position_info(data)


def test_a_cursor_whose_state_is_in_a_ledger_is_refused() -> None:
    info = CursorInfo(Position(5, 1))
    with pytest.raises(CorruptAckError, match="in the cursor's ledger 77"):
        decode_managed_cursor_info(managed_cursor_info(UNPACKED, info, 77))
    with pytest.raises(CorruptAckError, match="cursorsLedgerId: required"):
        decode_managed_cursor_info(b"\x10\x05")
    with pytest.raises(CorruptAckError, match="markDeleteEntryId: required"):
        decode_managed_cursor_info(encode_managed_cursor_info(info)[:13])


@pytest.mark.once
def test_a_million_ranges_are_no_limit_nor_is_a_ledger_of_millions_of_entries() -> None:
    one = encode_position_info(CursorInfo(Position(5, 1), ((Position(5, 2), Position(5, 3)),)))[4:]
    words = b"\x08\x05" + b"\x10\x01" * 300_000
    size = len(words)
    length = bytes((size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14))
    with untraced():
        assert len(decode_position_info(START + one * 300_000).ranges) == 300_000
        found = decode_position_info(START + b"\x32" + length + words).ranges
    assert found[-1] == (Position(5, 64 * 299_999 - 1), Position(5, 64 * 299_999))


def test_runs_of_bits_may_end_with_a_word_and_go_on_in_the_next() -> None:
    through = (Position(5, 62), Position(5, 191))
    for acked in (through, (Position(5, -1), Position(5, 63)), (Position(5, 3), Position(5, 70))):
        info = CursorInfo(Position(5, -1), (acked,))
        assert decode_position_info(encode_position_info(info, as_long_array=True)) == info


def test_a_range_that_spans_ledgers_has_no_bitset() -> None:
    info = CursorInfo(Position(5, 1), ((Position(5, 2), Position(6, 0)),))
    assert decode_position_info(encode_position_info(info)) == info
    with pytest.raises(AssertionError, match="spans ledgers"):
        encode_position_info(info, as_long_array=True)


# ---- Cursors -----------------------------------------------------------------


@st.composite
def cursors(draw: st.DrawFn) -> tuple[Topic, Cursor]:
    """A topic of a few ledgers, and a cursor that was acked at random."""
    topic = Topic()
    for ledger_id in draw(st.lists(st.integers(0, 2**40), max_size=3, unique=True).map(sorted)):
        sizes = draw(st.lists(st.sampled_from([1, 1, 2, 3, 64, 65, 130]), max_size=12))
        topic.open_ledger(ledger_id, *sizes)
    cursor = topic.cursor()
    entries = topic.entries()
    if draw(st.booleans()) and entries:
        first = draw(st.sampled_from(entries))
        ack_through(cursor, entry(first.ledger_id, first.entry_id))
    chosen = st.lists(st.sampled_from(entries), max_size=12) if entries else st.just([])
    for position in draw(chosen):
        size = topic.size(position)
        bits = draw(st.none() | st.integers(0, (1 << size) - 1))
        cursor.apply(
            cursor.plan_acks([MessageIdData(position.ledger_id, position.entry_id, ack_set=bits)])
        )
    return topic, cursor


@given(made=cursors(), form=st.sampled_from(["ranges", "words", "managed"]))
def test_a_cursor_comes_back_as_it_was(made: tuple[Topic, Cursor], form: str) -> None:
    topic, cursor = made
    info = cursor_to_info(cursor)
    if form == "managed":
        decoded = decode_managed_cursor_info(encode_managed_cursor_info(info))
    else:
        decoded = decode_position_info(encode_position_info(info, as_long_array=form == "words"))
    assert decoded == info
    again = info_to_cursor(decoded, topic.ledgers)
    again.check()
    assert again.mark_delete == cursor.mark_delete
    assert list(again.acked_runs()) == list(cursor.acked_runs())
    assert list(again.partly_acked()) == list(cursor.partly_acked())
    assert again.unacked_entries() == cursor.unacked_entries()
    assert again.unacked_messages() == cursor.unacked_messages()


@given(made=cursors())
def test_what_was_trimmed_meanwhile_is_passed_over(made: tuple[Topic, Cursor]) -> None:
    topic, cursor = made
    info = cursor_to_info(cursor)
    for ledger_id in sorted(topic.sizes.ledgers):
        topic.trim(ledger_id)
        cursor.trim()
        again = info_to_cursor(info, topic.ledgers)
        again.check()
        assert list(again.unacked()) == list(cursor.unacked())
    # Nobody who opens a topic without ledgers can know which ones it had.
    assert list(info_to_cursor(info, Ledgers()).unacked()) == []


def test_a_range_may_span_ledgers_and_begin_below_mark_delete() -> None:
    topic = topic_of(1, 1, 1, 1)
    topic.open_ledger(7, 1, 1)
    topic.open_ledger(9, 1, 1, 1)
    info = CursorInfo(
        Position(5, 0),
        ((Position(-1, -1), Position(5, -1)), (Position(5, 1), Position(9, 1))),
        ((Position(5, 0), 1),),
    )
    cursor = info_to_cursor(info, topic.ledgers)
    cursor.check()
    assert [position for position, _ in cursor.unacked()] == [Position(5, 1), Position(9, 2)]
    overlapping = CursorInfo(Position(5, 2), ((Position(5, 0), Position(5, 3)),))
    assert info_to_cursor(overlapping, topic.ledgers).mark_delete == Position(5, 3)


@pytest.mark.parametrize(
    ("position", "reason"),
    [
        (Position(5, 4), "the ledger has 4 entries"),
        (Position(6, 0), "it never had this ledger"),
        (Position(8, 0), "it never had this ledger"),
    ],
)
def test_acks_of_what_the_topic_never_had_are_refused(position: Position, reason: str) -> None:
    topic = topic_of(2, 2, 2, 2)
    topic.open_ledger(7, 2)
    with pytest.raises(NoSuchEntryError, match=reason):
        info_to_cursor(CursorInfo(Position(5, 0), ((Position(5, 1), position),)), topic.ledgers)
    with pytest.raises(NoSuchEntryError, match=reason):
        info_to_cursor(CursorInfo(Position(5, 0), (), ((position, 1),)), topic.ledgers)


def test_a_batch_whose_size_nobody_knows_is_refused_and_never_widened() -> None:
    ledgers = Ledgers(BatchSizes())
    ledgers.add(5, 10)
    with pytest.raises(BatchIndexError, match="the size of this batch is not known") as caught:
        info_to_cursor(CursorInfo(Position(5, 0), (), ((Position(5, 3), 2),)), ledgers)
    assert (caught.value.ledger_id, caught.value.entry_id) == (5, 3)
    # What is acked anyway needs no size.
    info = CursorInfo(Position(5, 3), (), ((Position(5, 3), 2),))
    assert info_to_cursor(info, ledgers).unacked_entries() == 6


def test_indexes_that_do_not_fit_the_batch_are_refused_and_others_masked() -> None:
    topic = topic_of(1, 3, 3)
    info = CursorInfo(Position(5, 0), (), ((Position(5, 1), 0b11000),))
    with pytest.raises(BatchIndexError, match="no index below 3 is left"):
        info_to_cursor(info, topic.ledgers)
    twice = CursorInfo(Position(5, 0), (), ((Position(5, 1), 1), (Position(5, 1), 2)))
    with pytest.raises(BatchIndexError, match="given twice"):
        info_to_cursor(twice, topic.ledgers)
    info = CursorInfo(Position(5, 0), (), ((Position(5, 1), 0b1001), (Position(5, 2), 0b1111)))
    cursor = info_to_cursor(info, topic.ledgers)
    cursor.check()
    assert list(cursor.partly_acked()) == [(Position(5, 1), 0b001, 3)]


def test_a_batch_that_a_range_covers_is_acked() -> None:
    topic = topic_of(1, 3, 3)
    info = CursorInfo(Position(5, -1), ((Position(5, 0), Position(5, 1)),), ((Position(5, 1), 2),))
    cursor = info_to_cursor(info, topic.ledgers)
    cursor.check()
    assert [position for position, _ in cursor.unacked()] == [Position(5, 0), Position(5, 2)]


def test_an_info_is_a_value() -> None:
    topic = topic_of(3, 3, 1)
    cursor = topic.cursor()
    ack(cursor, partly(5, 1, 0, 2), entry(5, 2))
    info = cursor_to_info(cursor)
    assert pickle.loads(pickle.dumps(info)) == info
    assert hash(info) == hash(cursor_to_info(cursor))
    assert info != CursorInfo(Position(5, -1))
    assert info != "info"
    assert repr(info) == (
        "CursorInfo(Position(5, -1), ((Position(5, 1), Position(5, 2)),), "
        "((Position(5, 1), 5),), (), (), 0)"
    )


def test_the_bytes_of_a_small_cursor_are_known() -> None:
    """Computed by hand from the field numbers."""
    topic = topic_of(1, 3, 1)
    cursor = topic.cursor()
    ack_through(cursor, entry(5, 0))
    ack(cursor, partly(5, 1, 2), entry(5, 2))
    info = cursor_to_info(cursor)
    minus_one = "ff ff ff ff ff ff ff ff ff 01"
    ranges = "0c 0a 04 08 05 10 01 12 04 08 05 10 02"
    batches = "08 0a 04 08 05 10 01 10 04"
    assert encode_position_info(info).hex(" ") == f"08 05 10 00 1a {ranges} 2a {batches}"
    words = encode_position_info(info, as_long_array=True)
    assert words.hex(" ") == f"08 05 10 00 2a {batches} 32 04 08 05 10 04"
    managed = encode_managed_cursor_info(info)
    assert managed.hex(" ") == f"08 {minus_one} 10 05 18 00 22 {ranges} 3a {batches}"
