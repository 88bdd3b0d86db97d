"""Batches as columns: what a table wants of many messages, without an object for each.

A column of bytes is one buffer and the offsets at which its values begin and end; a
column of numbers is one buffer too. All are laid out as Apache Arrow lays them out
(little-endian, int32 offsets), so a reader wraps them as they are. Only the columns that
are asked for are built, and only of the indexes in `keep`: acked ones leave no trace.

Keys and properties are the producer's bytes. They are not checked to be UTF-8, which is
for whoever makes text of them.
"""

from typing import Final, final

from mypy_extensions import i64, u8

from magnetar.errors import LocalProtocolError
from magnetar.protocol.payload.batch import (
    SHAPE,
    check_batch_count,
    check_batch_end,
    metadata_end_at,
    payload_end_at,
)
from magnetar.protocol.payload.key_value import SHAPE as KEY_VALUE_SHAPE
from magnetar.wire.ack_set import all_unacked
from magnetar.wire.integer import INT32_MAX
from magnetar.wire.reader import Reader
from magnetar.wire.writer import BytesWriter, put_i32_le, put_i64_le

# Which columns to build, combined with `|`. Values are always built.
KEYS: Final = 1
ORDERING_KEYS: Final = 2
EVENT_TIMES: Final = 4
SEQUENCE_IDS: Final = 8
PROPERTIES: Final = 16
ALL_COLUMNS: Final = 31


@final
class BitColumn:
    """A bit for each row, the first in the lowest bit of the first byte."""

    def __init__(self) -> None:
        self._data = BytesWriter()
        self._rows: i64 = 0

    def __len__(self) -> int:
        return self._rows

    def append(self, value: bool) -> None:
        at = self._rows >> 3
        bit = self._rows & 7
        if bit == 0:
            self._data.append(1 if value else 0)
        elif value:
            before = i64(self._data[at])
            self._data[at] = u8(before | 1 << bit)
        self._rows += 1

    @property
    def data(self) -> bytes:
        return self._data.getvalue()


@final
class BinaryColumn:
    """Values as slices of one buffer: value i is `data[offsets[i]:offsets[i + 1]]`.

    A row without a value has no bit in `valid`, and its slice is empty.
    """

    def __init__(self, size_max: i64 = INT32_MAX) -> None:
        self.valid: Final = BitColumn()
        self._size_max: Final[i64] = size_max
        self._data = BytesWriter()
        self._offsets = BytesWriter()
        put_i32_le(self._offsets, 0)

    def __len__(self) -> int:
        return len(self.valid)

    def append(self, value: bytes) -> None:
        """Raises LocalProtocolError once the column is as large as its offsets can tell."""
        if len(self._data) + len(value) > self._size_max:
            raise LocalProtocolError(
                f"a column holds at most {self._size_max} bytes: begin another one"
            )
        self._data.write(value)
        put_i32_le(self._offsets, len(self._data))
        self.valid.append(True)

    def append_null(self) -> None:
        put_i32_le(self._offsets, len(self._data))
        self.valid.append(False)

    @property
    def offsets(self) -> bytes:
        """Where values begin, and behind the last of them where it ends, as int32."""
        return self._offsets.getvalue()

    @property
    def data(self) -> bytes:
        """All values, one behind the other."""
        return self._data.getvalue()


@final
class NumberColumn:
    """int64 values, back to back."""

    def __init__(self) -> None:
        self._data = BytesWriter()

    def __len__(self) -> int:
        return len(self._data) // 8

    def append(self, value: i64) -> None:
        put_i64_le(self._data, value)

    def at(self, row: i64) -> i64:
        """Returns a number that was appended and is not negative."""
        value: i64 = 0
        for i in range(8):
            value |= i64(self._data[row * 8 + i]) << (i * 8)
        return value

    @property
    def data(self) -> bytes:
        return self._data.getvalue()


@final
class BatchColumns:
    """The messages of one or more batches, a column for each field.

    A message without a value (a tombstone) is a null in `values`; one without a sequence
    id has -1. A key whose row has a bit in `b64_keys` is base64. Message i has the
    properties `property_offsets[i]` to `property_offsets[i + 1]`.
    """

    def __init__(self) -> None:
        self.indexes: Final = NumberColumn()
        self.values: Final = BinaryColumn()
        self.keys: Final = BinaryColumn()
        self.b64_keys: Final = BitColumn()
        self.ordering_keys: Final = BinaryColumn()
        self.event_times: Final = NumberColumn()
        self.sequence_ids: Final = NumberColumn()
        self.property_offsets: Final = NumberColumn()
        self.property_keys: Final = BinaryColumn()
        self.property_values: Final = BinaryColumn()
        self.property_offsets.append(0)

    def __len__(self) -> int:
        return len(self.indexes)


@final
class _Fields:
    """The metadata of the message being read; one object serves the whole batch."""

    def __init__(self) -> None:
        self.properties: list[Reader] = []
        self.clear()

    def clear(self) -> None:
        self.size: i64 = -1
        self.key_first: i64 = 0
        self.key_end: i64 = -1
        self.b64_key = False
        self.null_key = False
        self.ordering_first: i64 = 0
        self.ordering_end: i64 = -1
        self.event_time: i64 = 0
        self.sequence_id: i64 = -1
        self.null_value = False
        self.compacted_out = False
        if self.properties:
            self.properties = []


def decode_batch_columns(
    payload: bytes,
    count: i64,
    into: BatchColumns,
    wanted: i64 = ALL_COLUMNS,
    keep: int | None = None,
) -> None:
    """Appends the messages of an uncompressed batch to `into`. Raises RemoteProtocolError.

    Messages that compaction removed, and indexes whose bit is not in `keep`, are left
    out. After an error `into` may hold a part of the batch: it is to be thrown away.
    """
    check_batch_count(count)
    fields = _Fields()
    kept_bits = _bits_of(keep, count)
    reader = Reader(payload, 0, 0, SHAPE)
    pos: i64 = 0
    for index in range(count):
        metadata_end = metadata_end_at(payload, pos)
        reader.rewind(pos + 4, metadata_end)
        fields.clear()
        _read_fields(reader, fields)
        pos = payload_end_at(payload, metadata_end, fields.size)
        kept = keep is None or kept_bits[index >> 3] >> (index & 7) & 1 == 1
        if kept and not fields.compacted_out:
            into.indexes.append(index)
            _append_value(payload, metadata_end, pos, fields, into.values)
            _append_wanted(payload, fields, into, wanted)
    check_batch_end(payload, pos, count)


def _bits_of(keep: int | None, count: i64) -> bytes:
    """Returns the set as bytes, for to shift a long int once for every index would be quadratic."""
    if keep is None:
        return b""
    return (keep & all_unacked(count)).to_bytes(count // 8 + 1, "little")


def _read_fields(reader: Reader, fields: _Fields) -> None:
    while (tag := reader.tag()) != 0:
        if tag == 0x18:
            fields.size = reader.int32()
            if fields.size < 0:
                reader.fail(f"payload of {fields.size} bytes")
        elif tag == 0x40:
            fields.sequence_id = reader.varint()
        elif tag == 0x12:
            size = reader.length()
            fields.key_first = reader.pos
            reader.pos += size
            fields.key_end = reader.pos
        elif tag == 0x28:
            fields.event_time = reader.varint()
        elif tag == 0x0A:
            fields.properties.append(reader.message(KEY_VALUE_SHAPE))
        elif tag == 0x3A:
            size = reader.length()
            fields.ordering_first = reader.pos
            reader.pos += size
            fields.ordering_end = reader.pos
        elif tag == 0x30:
            fields.b64_key = reader.boolean()
        elif tag == 0x48:
            fields.null_value = reader.boolean()
        elif tag == 0x50:
            fields.null_key = reader.boolean()
        elif tag == 0x20:
            fields.compacted_out = reader.boolean()
        else:
            reader.skip()
    if fields.size < 0:
        reader.require(0, (3,))


def _append_value(
    payload: bytes, first: i64, end: i64, fields: _Fields, values: BinaryColumn
) -> None:
    if fields.null_value:
        values.append_null()
    else:
        values.append(payload[first:end])


def _append_wanted(payload: bytes, fields: _Fields, into: BatchColumns, wanted: i64) -> None:
    if wanted & KEYS:
        into.b64_keys.append(fields.b64_key)
        if fields.key_end < 0 or fields.null_key:
            into.keys.append_null()
        else:
            into.keys.append(payload[fields.key_first : fields.key_end])
    if wanted & ORDERING_KEYS:
        if fields.ordering_end < 0:
            into.ordering_keys.append_null()
        else:
            into.ordering_keys.append(payload[fields.ordering_first : fields.ordering_end])
    if wanted & EVENT_TIMES:
        into.event_times.append(fields.event_time)
    if wanted & SEQUENCE_IDS:
        into.sequence_ids.append(fields.sequence_id)
    if wanted & PROPERTIES:
        for reader in fields.properties:
            _append_property(reader, into)
        into.property_offsets.append(len(into.property_keys))


def _append_property(reader: Reader, into: BatchColumns) -> None:
    key = b""
    value = b""
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x0A:
            key = reader.raw()
            present |= 2
        elif tag == 0x12:
            value = reader.raw()
            present |= 4
        else:
            reader.skip()
    reader.require(present, (1, 2))
    into.property_keys.append(key)
    into.property_values.append(value)
