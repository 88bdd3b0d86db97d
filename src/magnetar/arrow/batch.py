"""Columns of entries as Arrow record batches, without looking at a single row.

| column                                 | comes from                                         |
|----------------------------------------|----------------------------------------------------|
| value, key, ordering_key, event_time,  | a buffer of its own, wrapped as it is              |
| sequence_id, batch_index, properties,  |                                                    |
| message_id                             |                                                    |
| ledger_id, entry_id, publish_time,     | one value for each entry, repeated by Arrow        |
| producer, schema_version, ...          |                                                    |
| topic, partition                       | one value for all                                  |
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from magnetar.protocol.payload.columns import (
    EVENT_TIMES,
    KEYS,
    ORDERING_KEYS,
    PROPERTIES,
    SEQUENCE_IDS,
    BinaryColumn,
    BitColumn,
    NumberColumn,
)
from magnetar.protocol.payload.entry_columns import MESSAGE_IDS, EntryColumns

__all__ = ["COLUMNS", "TYPES", "batch_of", "wanted_of"]

_WANTED = {
    "key": KEYS,
    "ordering_key": ORDERING_KEYS,
    "event_time": EVENT_TIMES,
    "sequence_id": SEQUENCE_IDS,
    "properties": PROPERTIES,
    "message_id": MESSAGE_IDS,
}

_MS = pa.timestamp("ms", tz="UTC")
_TIME = pa.timestamp("us", tz="UTC")
# The columns besides `value`, whose type depends on what is asked for, and `bad_record`.
TYPES: dict[str, "pa.DataType"] = {
    "key": pa.binary(),
    "ordering_key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "message_id": pa.binary(),
    "ledger_id": pa.int64(),
    "entry_id": pa.int64(),
    "batch_index": pa.int32(),
    "publish_time": _TIME,
    "event_time": _TIME,
    "sequence_id": pa.int64(),
    "producer": pa.string(),
    "properties": pa.map_(pa.string(), pa.string()),
    "schema_version": pa.int64(),
    "redelivery_count": pa.int32(),
    "deliver_at": _TIME,
}


def wanted_of(names: list[str]) -> int:
    """Returns what the decoder is to build for these columns."""
    wanted = 0
    for name in names:
        wanted |= _WANTED.get(name, 0)
    return wanted


def batch_of(
    columns: EntryColumns,
    schema: "pa.Schema",
    topic: str,
    partition: int,
    values: "pa.Array",
    problems: dict[int, str],
) -> "pa.RecordBatch":
    """Returns a record batch of exactly this schema; `values` is the value column, decoded.

    `problems` says of rows why they have no value.
    """
    rows = _Rows(columns, topic, partition, values, problems)
    arrays = []
    for field in schema:
        array = COLUMNS[field.name](rows)
        if not array.type.equals(field.type):
            array = array.cast(field.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Rows:
    """What the columns are made of."""

    def __init__(
        self,
        columns: EntryColumns,
        topic: str,
        partition: int,
        values: "pa.Array",
        problems: dict[int, str],
    ) -> None:
        self.columns = columns
        self.messages = columns.messages
        self.topic = topic
        self.partition = partition
        self.values = values
        self.problems = problems
        self.count = len(columns)
        self._run_ends: pa.Array | None = None

    def all(self, value: "pa.Array") -> "pa.Array":
        """Returns one value for every row. `pa.repeat` took 1 us for each text, this takes 3 ns."""
        end = pa.array([self.count], pa.int64())
        return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(end, value))

    def each(self, runs: "pa.Array") -> "pa.Array":
        """Returns what is there once for each entry, for each row."""
        if self._run_ends is None:
            self._run_ends = numbers(self.columns.run_ends, pa.int64())
        return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(self._run_ends, runs))


def numbers(column: NumberColumn, kind: "pa.DataType") -> "pa.Array":
    return pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(column.data)])


def binary(column: BinaryColumn, kind: "pa.DataType | None" = None) -> "pa.Array":
    buffers = [
        pa.py_buffer(column.valid.data),
        pa.py_buffer(column.offsets),
        pa.py_buffer(column.data),
    ]
    return pa.Array.from_buffers(kind or pa.binary(), len(column), buffers)


def _bits(column: BitColumn) -> "pa.Array":
    return pa.Array.from_buffers(pa.bool_(), len(column), [None, pa.py_buffer(column.data)])


def _keys(rows: _Rows) -> "pa.Array":
    keys = binary(rows.messages.keys)
    encoded = _bits(rows.messages.b64_keys)
    if not pc.any(encoded).as_py():
        return keys
    # Keys that were bytes to their producer are base64 on the wire.
    decoded = [
        _unbase64(key) if coded and key is not None else key
        for key, coded in zip(keys.to_pylist(), encoded.to_pylist(), strict=True)
    ]
    return pa.array(decoded, pa.binary())


def _unbase64(key: bytes) -> bytes:
    try:
        return base64.b64decode(key, validate=True)
    except binascii.Error:
        return key


def _event_times(rows: _Rows) -> "pa.Array":
    return _given_times(rows.messages.event_times)


def _given_times(column: NumberColumn) -> "pa.Array":
    times = numbers(column, pa.int64())
    given = pc.if_else(pc.equal(times, 0), pa.scalar(None, pa.int64()), times)
    return _micros(given)


def _sequence_ids(rows: _Rows) -> "pa.Array":
    own = numbers(rows.messages.sequence_ids, pa.int64())
    lacks = pc.equal(own, -1)
    if not pc.any(lacks).as_py():
        return own
    return pc.if_else(lacks, rows.each(numbers(rows.columns.sequence_ids, pa.int64())), own)


def _properties(rows: _Rows) -> "pa.Array":
    messages = rows.messages
    offsets = numbers(messages.property_offsets, pa.int64()).cast(pa.int32())
    # The producer's bytes: what is not UTF-8 is an error here and not in the JVM.
    keys = binary(messages.property_keys).cast(pa.string())
    values = binary(messages.property_values).cast(pa.string())
    owners = pc.list_parent_indices(pa.ListArray.from_arrays(offsets, keys))
    pairs = pa.table({"owner": owners, "key": keys}).group_by(["owner", "key"])
    if pairs.aggregate([]).num_rows != len(keys):
        return _last_of_each(offsets, keys, values)
    return pa.MapArray.from_arrays(offsets, keys, values)


def _last_of_each(offsets: "pa.Array", keys: "pa.Array", values: "pa.Array") -> "pa.Array":
    """Returns the properties with one value for each key: the last that a message has of it, as for
    clients."""
    bounds, names, texts = offsets.to_pylist(), keys.to_pylist(), values.to_pylist()
    maps = []
    for row in range(len(bounds) - 1):
        part = slice(bounds[row], bounds[row + 1])
        maps.append(list(dict(zip(names[part], texts[part], strict=True)).items()))
    return pa.array(maps, pa.map_(pa.string(), pa.string()))


def _schema_versions(rows: _Rows) -> "pa.Array":
    versions = [
        None if version is None else int.from_bytes(version, "big", signed=True)
        for version in binary(rows.columns.schema_versions).to_pylist()
    ]
    return rows.each(pa.array(versions, pa.int64()))


def _bad_records(rows: _Rows) -> "pa.Array":
    if not rows.problems:
        return pa.nulls(rows.count, pa.string())
    return pa.array([rows.problems.get(row) for row in range(rows.count)], pa.string())


def _micros(times: "pa.Array") -> "pa.Array":
    return times.cast(_MS).cast(_TIME)


COLUMNS: dict[str, Callable[[_Rows], Any]] = {
    "value": lambda rows: rows.values,
    "key": _keys,
    "ordering_key": lambda rows: binary(rows.messages.ordering_keys),
    "topic": lambda rows: rows.all(pa.array([rows.topic])),
    "partition": lambda rows: rows.all(pa.array([rows.partition], pa.int32())),
    "message_id": lambda rows: binary(rows.columns.message_ids),
    "ledger_id": lambda rows: rows.each(numbers(rows.columns.ledger_ids, pa.int64())),
    "entry_id": lambda rows: rows.each(numbers(rows.columns.entry_ids, pa.int64())),
    "batch_index": lambda rows: numbers(rows.messages.indexes, pa.int64()).cast(pa.int32()),
    "publish_time": lambda rows: _micros(
        rows.each(numbers(rows.columns.publish_times, pa.int64()))
    ),
    "event_time": _event_times,
    "sequence_id": _sequence_ids,
    "producer": lambda rows: rows.each(binary(rows.columns.producers).cast(pa.string())),
    "properties": _properties,
    "schema_version": _schema_versions,
    "redelivery_count": lambda rows: rows.each(
        numbers(rows.columns.redelivery_counts, pa.int64())
    ).cast(pa.int32()),
    "deliver_at": lambda rows: rows.each(_given_times(rows.columns.deliver_times)),
    "bad_record": _bad_records,
}
