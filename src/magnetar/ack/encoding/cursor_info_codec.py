"""PositionInfo and ManagedCursorInfo, the messages in which Apache Pulsar stores a cursor.

Pulsar appends a PositionInfo to the cursor's own ledger while the cursor is in use, and
puts a ManagedCursorInfo into its metadata store when the cursor is closed. Both say the
same, which here is a `CursorInfo`.

Pulsar may compress a ManagedCursorInfo; that is a wrapping around these bytes, and not
done here. Whatever is no such message raises `CorruptAckError`.
"""

from typing import Final

from mypy_extensions import i64

from magnetar.ack.cursor_info import CursorInfo, range_of
from magnetar.ack.encoding.codec import ENTRY_ID_MAX
from magnetar.errors import CorruptAckError, RemoteProtocolError
from magnetar.model.position import Position
from magnetar.wire.ack_set import AckSetReader, put_ack_set_field
from magnetar.wire.reader import Reader, Shape
from magnetar.wire.writer import (
    BytesWriter,
    put_bytes_field,
    put_i64_le,
    put_int_field,
    put_text_field,
)

# ManagedCursorInfo.cursorsLedgerId, when the state is in the message and not in a ledger.
NO_LEDGER: Final = -1

_POSITION_INFO: Final = Shape(
    "PositionInfo",
    {
        1: "ledgerId",
        2: "entryId",
        3: "individualDeletedMessages",
        4: "properties",
        5: "batchedEntryDeletionIndexInfo",
        6: "individualDeletedMessageRanges",
    },
)
_MANAGED_CURSOR_INFO: Final = Shape(
    "ManagedCursorInfo",
    {
        1: "cursorsLedgerId",
        2: "markDeleteLedgerId",
        3: "markDeleteEntryId",
        4: "individualDeletedMessages",
        5: "properties",
        6: "lastActive",
        7: "batchedEntryDeletionIndexInfo",
        8: "cursorProperties",
    },
)
_POSITION: Final = Shape("NestedPositionInfo", {1: "ledgerId", 2: "entryId"})
_RANGE: Final = Shape("MessageRange", {1: "lowerEndpoint", 2: "upperEndpoint"})
_BATCH: Final = Shape("BatchedEntryDeletionIndexInfo", {1: "position", 2: "deleteSet"})
_LONG_LIST: Final = Shape("LongListMap", {1: "key", 2: "values"})
_LONG_PROPERTY: Final = Shape("LongProperty", {1: "name", 2: "value"})
_STRING_PROPERTY: Final = Shape("StringProperty", {1: "name", 2: "value"})


# ---- Encoding ----------------------------------------------------------------


def encode_position_info(info: CursorInfo, *, as_long_array: bool = False) -> bytes:
    """Returns a PositionInfo; with `as_long_array` the ranges are bitsets, one for each ledger.

    That is what Pulsar 4.1 and later write, and older ones cannot read it. It takes
    ranges that keep to one ledger, as those of `cursor_to_info` do.

    >>> encode_position_info(CursorInfo(Position(5, 3))).hex(" ")
    '08 05 10 03'
    """
    out = BytesWriter()
    put_int_field(out, 0x08, info.mark_delete.ledger_id)
    put_int_field(out, 0x10, info.mark_delete.entry_id)
    if not as_long_array:
        _put_ranges(out, 0x1A, info)
    _put_properties(out, 0x22, info)
    _put_batches(out, 0x2A, info)
    if as_long_array:
        _put_long_lists(out, 0x32, info)
    return out.getvalue()


def encode_managed_cursor_info(info: CursorInfo) -> bytes:
    """Returns a ManagedCursorInfo that holds the state itself."""
    out = BytesWriter()
    put_int_field(out, 0x08, NO_LEDGER)
    put_int_field(out, 0x10, info.mark_delete.ledger_id)
    put_int_field(out, 0x18, info.mark_delete.entry_id)
    _put_ranges(out, 0x22, info)
    _put_properties(out, 0x2A, info)
    if info.last_active_ms != 0:
        put_int_field(out, 0x30, info.last_active_ms)
    _put_batches(out, 0x3A, info)
    for name, value in info.cursor_properties:
        inner = BytesWriter()
        put_text_field(inner, 0x0A, name)
        put_text_field(inner, 0x12, value)
        put_bytes_field(out, 0x42, inner.getvalue())
    return out.getvalue()


def _put_position(out: BytesWriter, tag: i64, position: Position) -> None:
    inner = BytesWriter()
    put_int_field(inner, 0x08, position.ledger_id)
    put_int_field(inner, 0x10, position.entry_id)
    put_bytes_field(out, tag, inner.getvalue())


def _put_ranges(out: BytesWriter, tag: i64, info: CursorInfo) -> None:
    for lower, upper in info.ranges:
        inner = BytesWriter()
        _put_position(inner, 0x0A, lower)
        _put_position(inner, 0x12, upper)
        put_bytes_field(out, tag, inner.getvalue())


def _put_properties(out: BytesWriter, tag: i64, info: CursorInfo) -> None:
    for name, value in info.properties:
        inner = BytesWriter()
        put_text_field(inner, 0x0A, name)
        put_int_field(inner, 0x10, value)
        put_bytes_field(out, tag, inner.getvalue())


def _put_batches(out: BytesWriter, tag: i64, info: CursorInfo) -> None:
    for position, remaining in info.batches:
        inner = BytesWriter()
        _put_position(inner, 0x0A, position)
        put_ack_set_field(inner, 0x10, remaining)
        put_bytes_field(out, tag, inner.getvalue())


def _put_long_lists(out: BytesWriter, tag: i64, info: CursorInfo) -> None:
    ledgers: dict[int, int] = {}
    for lower, upper in info.ranges:
        ledger_id = upper.ledger_id
        assert lower.ledger_id == ledger_id, "a range that spans ledgers has no bitset"
        count: int = upper.entry_id - lower.entry_id
        first: int = lower.entry_id + 1
        ledgers[ledger_id] = ledgers.get(ledger_id, 0) | ((1 << count) - 1) << first
    for ledger_id, entries in ledgers.items():
        inner = BytesWriter()
        put_int_field(inner, 0x08, ledger_id)
        put_ack_set_field(inner, 0x10, entries)
        put_bytes_field(out, tag, inner.getvalue())


# ---- Decoding ----------------------------------------------------------------


def is_managed_cursor_info(data: bytes) -> bool:
    """Returns whether this is a ManagedCursorInfo, and not a PositionInfo.

    The first has numbers (the entry of mark-delete, the time it was last active) in fields
    where the second has messages. Raises CorruptAckError for what is neither.
    """
    reader = Reader(data, 0, len(data), _MANAGED_CURSOR_INFO)
    try:
        while (tag := _next_tag(reader)) != 0:
            if tag == 0x18 or tag == 0x30:
                return True
            reader.skip()
    except RemoteProtocolError as error:
        raise _corrupt(error) from None
    return False


def decode_position_info(data: bytes) -> CursorInfo:
    """Returns what a PositionInfo says, in either form of ranges. Raises CorruptAckError."""
    try:
        return _read_position_info(Reader(data, 0, len(data), _POSITION_INFO))
    except RemoteProtocolError as error:
        raise _corrupt(error) from None


def decode_managed_cursor_info(data: bytes) -> CursorInfo:
    """Returns what a ManagedCursorInfo says. Raises CorruptAckError.

    Also if it says that the state is elsewhere, in a ledger of the cursor.
    """
    try:
        return _read_managed_cursor_info(Reader(data, 0, len(data), _MANAGED_CURSOR_INFO))
    except RemoteProtocolError as error:
        raise _corrupt(error) from None


def _corrupt(error: RemoteProtocolError) -> CorruptAckError:
    return CorruptAckError(error.offset, f"{error.field}: {error.reason}")


def _next_tag(reader: Reader) -> i64:
    """Returns the next tag.

    A reader counts fields because peers are not trusted with memory; a cursor may have a million
    ranges, and whoever hands us a file knows its size.
    """
    reader.rewind(reader.pos, reader.end)
    return reader.tag()


def _read_position_info(reader: Reader) -> CursorInfo:
    ledger_id: i64 = 0
    entry_id: i64 = 0
    ranges: list[tuple[Position, Position]] = []
    properties: list[tuple[str, int]] = []
    batches: list[tuple[Position, int]] = []
    present: i64 = 0
    while (tag := _next_tag(reader)) != 0:
        if tag == 0x08:
            ledger_id = reader.varint()
            present |= 2
        elif tag == 0x10:
            entry_id = reader.varint()
            present |= 4
        elif tag == 0x1A:
            _read_range(reader.message(_RANGE), ranges)
        elif tag == 0x22:
            properties.append(_read_long_property(reader.message(_LONG_PROPERTY)))
        elif tag == 0x2A:
            batches.append(_read_batch(reader.message(_BATCH)))
        elif tag == 0x32:
            _read_long_list(reader.message(_LONG_LIST), ranges)
        else:
            reader.skip()
    reader.require(present, (1, 2))
    return CursorInfo(
        _place(reader, ledger_id, entry_id), tuple(ranges), tuple(batches), tuple(properties)
    )


def _read_managed_cursor_info(reader: Reader) -> CursorInfo:
    cursors_ledger_id: i64 = 0
    ledger_id: i64 = 0
    entry_id: i64 = 0
    last_active_ms: i64 = 0
    ranges: list[tuple[Position, Position]] = []
    properties: list[tuple[str, int]] = []
    batches: list[tuple[Position, int]] = []
    cursor_properties: list[tuple[str, str]] = []
    present: i64 = 0
    while (tag := _next_tag(reader)) != 0:
        if tag == 0x08:
            cursors_ledger_id = reader.varint()
            present |= 2
        elif tag == 0x10:
            ledger_id = reader.varint()
            present |= 4
        elif tag == 0x18:
            entry_id = reader.varint()
            present |= 8
        elif tag == 0x22:
            _read_range(reader.message(_RANGE), ranges)
        elif tag == 0x2A:
            properties.append(_read_long_property(reader.message(_LONG_PROPERTY)))
        elif tag == 0x30:
            last_active_ms = reader.varint()
        elif tag == 0x3A:
            batches.append(_read_batch(reader.message(_BATCH)))
        elif tag == 0x42:
            cursor_properties.append(_read_string_property(reader.message(_STRING_PROPERTY)))
        else:
            reader.skip()
    reader.require(present, (1,))
    if cursors_ledger_id != NO_LEDGER:
        reader.fail(f"the state is not in here, but in the cursor's ledger {cursors_ledger_id}")
    reader.require(present, (2, 3))
    return CursorInfo(
        _place(reader, ledger_id, entry_id),
        tuple(ranges),
        tuple(batches),
        tuple(properties),
        tuple(cursor_properties),
        last_active_ms,
    )


def _read_position(reader: Reader) -> Position:
    ledger_id: i64 = 0
    entry_id: i64 = 0
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x08:
            ledger_id = reader.varint()
            present |= 2
        elif tag == 0x10:
            entry_id = reader.varint()
            present |= 4
        else:
            reader.skip()
    reader.require(present, (1, 2))
    return _place(reader, ledger_id, entry_id)


def _place(reader: Reader, ledger_id: i64, entry_id: i64) -> Position:
    if ledger_id < -1 or entry_id < -1 or entry_id > ENTRY_ID_MAX:
        reader.fail(f"there is no position {ledger_id}:{entry_id}")
    return Position(ledger_id, entry_id)


def _read_range(reader: Reader, ranges: list[tuple[Position, Position]]) -> None:
    lower: Position | None = None
    upper: Position | None = None
    while (tag := reader.tag()) != 0:
        if tag == 0x0A:
            lower = _read_position(reader.message(_POSITION))
        elif tag == 0x12:
            upper = _read_position(reader.message(_POSITION))
        else:
            reader.skip()
    if lower is None or upper is None:
        reader.fail("a range without an end")
    if upper < lower:
        reader.fail(f"a range from {lower} back to {upper}")
    ranges.append((lower, upper))


def _read_long_list(reader: Reader, ranges: list[tuple[Position, Position]]) -> None:
    """Reads the acked entries of one ledger, which are words of a bitset."""
    ledger_id: i64 = -1
    words = BytesWriter()
    while (tag := _next_tag(reader)) != 0:
        if tag == 0x08:
            ledger_id = reader.varint()
        elif tag == 0x10:
            put_i64_le(words, reader.varint())
        elif tag == 0x12:
            inner = reader.packed()
            while inner.more():
                put_i64_le(words, inner.varint())
        else:
            reader.skip()
    if ledger_id < 0:
        reader.fail("a bitset of no ledger")
    _add_runs(ranges, ledger_id, words.getvalue())


def _add_runs(ranges: list[tuple[Position, Position]], ledger_id: i64, bits: bytes) -> None:
    """Adds the bits that are set, lowest first, consecutive ones as one range."""
    first: i64 = -1
    i: i64 = 0
    while i < len(bits):
        byte: i64 = bits[i]
        # Most bytes are all of one kind and change nothing.
        if byte != (0xFF if first >= 0 else 0):
            for bit in range(8):
                if byte >> bit & 1:
                    if first < 0:
                        first = 8 * i + bit
                elif first >= 0:
                    ranges.append(range_of(ledger_id, first, 8 * i + bit))
                    first = -1
        i += 1
    if first >= 0:
        ranges.append(range_of(ledger_id, first, 8 * i))


def _read_batch(reader: Reader) -> tuple[Position, int]:
    position: Position | None = None
    words = AckSetReader()
    while (tag := reader.tag()) != 0:
        if tag == 0x0A:
            position = _read_position(reader.message(_POSITION))
        elif tag == 0x10:
            words.take(reader)
        elif tag == 0x12:
            words.take_packed(reader)
        else:
            reader.skip()
    if position is None or position.ledger_id < 0 or position.entry_id < 0:
        reader.fail("a batch without a position")
    remaining = words.bits()
    if not remaining:
        # Pulsar drops the record of a batch when its last index is acked. Whether the
        # whole entry was meant, or nothing, cannot be known.
        reader.fail(f"the batch {position} has no index left")
    return position, remaining


def _read_long_property(reader: Reader) -> tuple[str, int]:
    name = ""
    value: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x0A:
            name = reader.text()
        elif tag == 0x10:
            value = reader.varint()
        else:
            reader.skip()
    return name, value


def _read_string_property(reader: Reader) -> tuple[str, str]:
    name = ""
    value = ""
    while (tag := reader.tag()) != 0:
        if tag == 0x0A:
            name = reader.text()
        elif tag == 0x12:
            value = reader.text()
        else:
            reader.skip()
    return name, value
