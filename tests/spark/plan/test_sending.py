"""Rows that are sent many at a time are the messages that they would be one by one."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.option.options import ProducerOptions
from magnetar.client.producer.chunks import Part
from magnetar.client.producer.core import ProducerCore
from magnetar.errors import AlreadyClosed
from magnetar.model import MessageId
from magnetar.protocol.entry import split_entry
from magnetar.protocol.payload.columns import BatchColumns, decode_batch_columns
from magnetar.spark.plan.rows import Row
from magnetar.spark.plan.sending import MARKED, send_rows, send_values


class Sent:
    """A producer without a connection, and what it would write."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.told: list[Exception | None] = []
        options = ProducerOptions(batching_enabled=True, initial_sequence_id=9)
        self.core = ProducerCore(
            options,
            "persistent://a/b/c",
            1,
            now_ms=lambda: 0,
            write=lambda parts, _: self.parts.extend(parts),
        )
        self.core.connected("p", -1, b"", 1 << 20)

    def done(self, error: Exception | None, id: MessageId | None) -> None:
        self.told.append(error)

    def columns(self) -> BatchColumns:
        self.core.flush()
        found = BatchColumns()
        for part in self.parts[1::2]:
            entry = split_entry(bytes(part))
            metadata = entry.metadata()
            decode_batch_columns(entry.payload(), metadata.num_messages_in_batch or 0, found)
        return found


def bytes_of(values: list[bytes]) -> bytes:
    return b"".join(values)


@given(st.lists(st.binary(max_size=5), max_size=MARKED * 3))
def test_values(values: list[bytes]) -> None:
    sent = Sent()
    ends = [sum(map(len, values[: i + 1])) for i in range(len(values))]
    send_values(sent.core, bytes_of(values), struct.pack(f"<{len(ends)}q", *ends), sent.done)
    columns = sent.columns()
    assert columns.values.data == bytes_of(values)
    assert struct.unpack(f"<{len(values) + 1}i", columns.values.offsets) == (0, *ends)
    numbers = [columns.sequence_ids.at(row) for row in range(len(columns))]
    assert numbers == list(range(10, 10 + len(values)))
    sent.core.close(AlreadyClosed("over"))
    assert len(sent.told) == len({*range(0, len(values), MARKED), len(values) - 1} - {-1})
    assert all(isinstance(error, AlreadyClosed) for error in sent.told)


def test_rows() -> None:
    sent = Sent()
    rows: list[Row] = [
        ("t", b"plain", None, None, None, None, None),
        ("t", None, "k", b"o", 5, None, (("a", "1"),)),
        ("t", b"", None, None, None, None, ()),
    ]
    send_rows(sent.core, rows, sent.done)
    columns = sent.columns()
    assert columns.values.data == b"plain"
    assert columns.values.valid.data == bytes([0b101])
    assert columns.keys.data == b"k"
    assert columns.ordering_keys.data == b"o"
    assert [columns.event_times.at(row) for row in range(3)] == [0, 5, 0]
    assert columns.property_keys.data + columns.property_values.data == b"a1"
    sent.core.close(AlreadyClosed("over"))
    assert len(sent.told) == 2
