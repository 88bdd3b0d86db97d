"""The rows of a sink, as its producers take them.

Rows that are nothing but a value stay a column all the way, `Values`; others are tuples, `Row`.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from magnetar.client.option.options import ProducerOptions
from magnetar.client.producer.core import ProducerCore
from magnetar.client.producer.outgoing import Done
from magnetar.client.producer.router import hash_of_key
from magnetar.client.transaction.enlistment import Enlistment
from magnetar.errors import SettingsError, UsageError
from magnetar.protocol import MESSAGE_SIZE_MAX
from magnetar.spark.plan.rows import Row, digest_of_values
from magnetar.spark.plan.sending import send_values

__all__ = ["COLUMNS", "Values", "by_target", "is_large", "rows_of", "turns", "values_of"]

COLUMNS = ("value", "key", "ordering_key", "topic", "event_time", "deliver_at", "properties")
# How many are handed to a producer at a time.
TURN = 2000


def rows_of(batch: "pa.RecordBatch", topic: str) -> list[Row]:
    """Returns the rows of a record batch. Raises UsageError for those that cannot be sent."""
    count = batch.num_rows
    columns: dict[str, list[Any]] = {name: [None] * count for name in COLUMNS}
    for name in batch.schema.names:
        column = batch.column(name)
        if name in ("event_time", "deliver_at"):
            column = column.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
        elif name in ("value", "ordering_key"):
            column = column.cast(pa.binary())
        elif name in ("key", "topic"):
            column = _text(column, name)
        columns[name] = column.to_pylist()
    topics = [one or topic for one in columns["topic"]]
    if "" in topics:
        raise SettingsError("topic", "a row has none: give the option, or fill the column")
    properties = [
        None if one is None else tuple(sorted((k, v or "") for k, v in one))
        for one in columns["properties"]
    ]
    return list(
        zip(
            topics,
            columns["value"],
            columns["key"],
            columns["ordering_key"],
            columns["event_time"],
            columns["deliver_at"],
            properties,
            strict=True,
        )
    )


def _text(column: "pa.Array", name: str) -> "pa.Array":
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        raise UsageError(f"a {name} is not UTF-8, as messages have it") from None


class Values:
    """Rows that are nothing but a value, as a column."""

    def __init__(self, column: "pa.Array") -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def part(self, first: int, end: int, step: int = 1) -> "Values":
        if step == 1:
            return Values(self._column.slice(first, end - first))
        return Values(self._column.take(pa.array(range(first, end, step))))

    def in_order(self) -> "Values":
        return Values(self._column.take(pc.sort_indices(self._column)))

    def digest(self, targets: list[str]) -> str:
        data, ends = self._buffers()
        return digest_of_values(data, ends, targets)

    @property
    def size_max(self) -> int:
        return pc.max(pc.binary_length(self._column)).as_py() or 0

    def send(self, core: ProducerCore, done: Done, enlistment: Enlistment | None) -> None:
        data, ends = self._buffers()
        send_values(core, data, ends, done, enlistment)

    def _buffers(self) -> tuple[bytes, bytes]:
        """Returns all values, and where each ends."""
        column = self._column
        if not len(column):
            return b"", b""
        _, offsets, data = column.buffers()
        bounds = pa.Array.from_buffers(
            pa.int64(), len(column) + 1, [None, offsets], offset=column.offset
        )
        first, end = bounds[0].as_py(), bounds[-1].as_py()
        ends = pc.subtract(bounds.slice(1), first)
        whole = ends.buffers()[1].slice(0, len(column) * 8).to_pybytes()
        return data.slice(first, end - first).to_pybytes(), whole


def values_of(batches: "list[pa.RecordBatch]", topic: str) -> Values | None:
    """Returns the rows as a column, if they are nothing but values and go to one topic."""
    if not topic or any(batch.schema.names != ["value"] for batch in batches):
        return None
    columns = [batch.column(0).cast(pa.large_binary()) for batch in batches]
    if not columns or any(column.null_count for column in columns):
        return None
    return Values(columns[0] if len(columns) == 1 else pa.concat_arrays(columns))


def _target_of(row: Row, index: int, targets: list[str]) -> str:
    """Returns where a row goes: by its key, as clients do, or in turn."""
    if len(targets) == 1:
        return targets[0]
    key = row[2]
    if key is not None:
        index = hash_of_key(ProducerOptions().hashing_scheme.value, key)
    return targets[index % len(targets)]


def by_target(
    rows: "Values | list[Row]", targets: dict[str, list[str]]
) -> "dict[str, Values | list[Row]]":
    """Returns rows by the topic partition that they go to, in their order."""
    found: dict[str, Values | list[Row]] = {}
    if isinstance(rows, Values):
        (names,) = targets.values()
        for number, name in enumerate(names):
            found[name] = rows.part(number, len(rows), len(names))
        return found
    parts: dict[str, list[Row]] = {}
    for index, row in enumerate(rows):
        parts.setdefault(_target_of(row, index, targets[row[0]]), []).append(row)
    found.update(parts)
    return found


def is_large(rows: "Values | list[Row]") -> bool:
    """Returns whether any value may be too large for a message that is not chunked."""
    if isinstance(rows, Values):
        size = rows.size_max
    else:
        size = max((len(row[1]) for row in rows if row[1] is not None), default=0)
    return size > MESSAGE_SIZE_MAX * 9 // 10


def turns(
    rows: "Values | list[Row]", first: int = 0, count: int | None = None
) -> "Iterator[Values | list[Row]]":
    count = count or TURN
    for at in range(first, len(rows), count):
        end = min(at + count, len(rows))
        yield rows.part(at, end) if isinstance(rows, Values) else rows[at:end]
