"""Batches as columns: what a table wants of many messages, without an object for each.

A column of bytes is one buffer and the offsets at which its values begin and end, a
column of numbers is an array; both are laid out as Apache Arrow lays them out, so a
reader wraps them and copies nothing. Only the columns that are asked for are built, and
only of the indexes in `keep`: acked ones leave no trace.
"""

from array import array
from typing import Final, final

from mypy_extensions import i64

from magnetar.protocol.batch import (
    SHAPE,
    check_batch_count,
    check_batch_end,
    metadata_end_at,
    payload_end_at,
)
from magnetar.protocol.key_value import SHAPE as KEY_VALUE_SHAPE
from magnetar.protocol.key_value import decode_key_value
from magnetar.wire.ack_set import all_unacked
from magnetar.wire.reader import Reader

# Which columns to build, combined with `|`. Values are always built.
KEYS: Final = 1
ORDERING_KEYS: Final = 2
EVENT_TIMES: Final = 4
SEQUENCE_IDS: Final = 8
PROPERTIES: Final = 16
ALL_COLUMNS: Final = 31


@final
class BinaryColumn:
    """Values as slices of one buffer: value i is `data[offsets[i]:offsets[i + 1]]`.

    The rows without a value are listed in `null_rows`; their slices are empty.
    """

    def __init__(self) -> None:
        self._ends: Final[list[int]] = []
        self.null_rows: Final[list[int]] = []
        self._pieces: list[bytes] = []
        self._size: i64 = 0
        self._data: bytes | None = None

    def __len__(self) -> int:
        return len(self._ends)

    def append(self, value: bytes) -> None:
        self._pieces.append(value)
        self._size += len(value)
        self._ends.append(self._size)

    def append_null(self) -> None:
        self.null_rows.append(len(self._ends))
        self._ends.append(self._size)

    @property
    def offsets(self) -> "array[int]":
        """Where values begin, and behind the last of them where it ends."""
        offsets = array("i", [0])
        offsets.extend(self._ends)
        return offsets

    @property
    def data(self) -> bytes:
        """All values, one behind the other."""
        if self._data is None or len(self._data) != self._size:
            self._data = b"".join(self._pieces)
            self._pieces = [self._data]
        return self._data

    def value(self, index: int) -> bytes | None:
        """One value, for tests and for people."""
        if index in self.null_rows:
            return None
        first = self._ends[index - 1] if index else 0
        return self.data[first : self._ends[index]]


@final
class BatchColumns:
    """The messages of one or more batches, a list or column for each field.

    A message without a value (a tombstone) is a null in `values`. Keys are as the
    producer gave them: UTF-8, or base64 in the rows that `b64_key_rows` lists.
    Properties of message i are pairs `property_offsets[i]` to `property_offsets[i + 1]`.
    Columns of numbers are lists; `array(...)` packs them.
    """

    def __init__(self) -> None:
        self.indexes: Final[list[int]] = []
        self.values: Final = BinaryColumn()
        self.keys: Final = BinaryColumn()
        self.b64_key_rows: Final[list[int]] = []
        self.ordering_keys: Final = BinaryColumn()
        self.event_times: Final[list[int]] = []
        self.sequence_ids: Final[list[int]] = []
        self.property_offsets: Final[list[int]] = [0]
        self.properties: Final[list[tuple[str, str]]] = []

    def __len__(self) -> int:
        return len(self.indexes)


@final
class _Fields:
    """The metadata of the message being read; one object serves the whole batch."""

    def __init__(self) -> None:
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
    # As bytes, for to shift a long int once for every index would be quadratic.
    kept_bits = (
        b"" if keep is None else (keep & all_unacked(count)).to_bytes(count // 8 + 1, "little")
    )
    reader = Reader(payload, 0, 0, SHAPE)
    pos: i64 = 0
    for index in range(count):
        metadata_end = metadata_end_at(payload, pos)
        reader.rewind(pos + 4, metadata_end)
        kept = keep is None or kept_bits[index >> 3] >> (index & 7) & 1 == 1
        fields.clear()
        properties = into.properties if kept and wanted & PROPERTIES else None
        _read_fields(reader, fields, properties)
        pos = payload_end_at(payload, metadata_end, fields.size)
        if kept and not fields.compacted_out:
            _append(payload, metadata_end, pos, index, fields, into, wanted)
        elif properties is not None:
            del properties[into.property_offsets[-1] :]
    check_batch_end(payload, pos, count)


def _read_fields(reader: Reader, fields: _Fields, properties: list[tuple[str, str]] | None) -> None:
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
        elif tag == 0x0A and properties is not None:
            properties.append(decode_key_value(reader.message(KEY_VALUE_SHAPE)))
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


def _append(
    payload: bytes,
    first: i64,
    end: i64,
    index: i64,
    fields: _Fields,
    into: BatchColumns,
    wanted: i64,
) -> None:
    row = len(into.indexes)
    into.indexes.append(index)
    if fields.null_value:
        into.values.append_null()
    else:
        into.values.append(payload[first:end])
    if wanted & KEYS:
        if fields.key_end < 0 or fields.null_key:
            into.keys.append_null()
        else:
            into.keys.append(payload[fields.key_first : fields.key_end])
            if fields.b64_key:
                into.b64_key_rows.append(row)
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
        into.property_offsets.append(len(into.properties))
