"""Batches: many messages in the payload of one entry.

    u32 n · SingleMessageMetadata(n) · payload     once for each message

How many there are stands in the entry's metadata. `BatchWriter` packs messages as they
come, `decode_batch` unpacks them into objects; columns.py unpacks without objects.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import LocalProtocolError, RemoteProtocolError
from magnetar.protocol.frame import read_u32
from magnetar.protocol.payload.key_value import SHAPE as KEY_VALUE_SHAPE
from magnetar.protocol.payload.key_value import decode_key_value, put_key_values
from magnetar.wire.ack_set import BATCH_SIZE_MAX
from magnetar.wire.reader import Reader, Shape
from magnetar.wire.writer import (
    BytesWriter,
    put_bool_field,
    put_bytes_field,
    put_int_field,
    put_text_field,
    put_u32,
    put_varint,
    set_u32,
)

SHAPE: Final = Shape(
    "SingleMessageMetadata",
    {
        1: "properties",
        2: "partition_key",
        3: "payload_size",
        4: "compacted_out",
        5: "event_time",
        6: "partition_key_b64_encoded",
        7: "ordering_key",
        8: "sequence_id",
        9: "null_value",
        10: "null_partition_key",
    },
)

# The batch itself, for complaints about its frame and not about one message's fields.
BATCH: Final = "batch"


@final
class SingleMessage:
    """One message of a batch: its payload, and its SingleMessageMetadata.

    `sequence_id` is None when absent; the other fields then have their defaults.
    """

    def __init__(self, payload: bytes, sequence_id: int | None = None) -> None:
        self.payload = payload
        self.sequence_id = sequence_id
        self.properties: list[tuple[str, str]] | None = None
        self.partition_key: str | None = None
        self.compacted_out = False
        self.event_time: i64 = 0
        self.partition_key_b64_encoded = False
        self.ordering_key: bytes | None = None
        self.null_value = False
        self.null_partition_key = False


@final
class BatchWriter:
    """A batch in the making. `size` is what its payload takes so far, uncompressed."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self._out = BytesWriter()

    @property
    def size(self) -> int:
        return len(self._out)

    def add(
        self,
        payload: bytes,
        sequence_id: int | None = None,
        properties: list[tuple[str, str]] | None = None,
        partition_key: str | None = None,
        event_time: i64 = 0,
        ordering_key: bytes | None = None,
        partition_key_b64_encoded: bool = False,
        null_value: bool = False,
        null_partition_key: bool = False,
        compacted_out: bool = False,
    ) -> None:
        """Raises LocalProtocolError once the batch has all it may have."""
        if self.count == BATCH_SIZE_MAX:
            raise LocalProtocolError(f"a batch has at most {BATCH_SIZE_MAX} messages")
        out = self._out
        start: i64 = len(out)
        put_u32(out, 0)
        if properties is not None:
            put_key_values(out, 0x0A, properties)
        if partition_key is not None:
            put_text_field(out, 0x12, partition_key)
        out.append(0x18)
        put_varint(out, len(payload))
        if compacted_out:
            put_bool_field(out, 0x20, True)
        if event_time != 0:
            put_int_field(out, 0x28, event_time)
        if partition_key_b64_encoded:
            put_bool_field(out, 0x30, True)
        if ordering_key is not None:
            put_bytes_field(out, 0x3A, ordering_key)
        if sequence_id is not None:
            out.append(0x40)
            put_varint(out, sequence_id)
        if null_value:
            put_bool_field(out, 0x48, True)
        if null_partition_key:
            put_bool_field(out, 0x50, True)
        set_u32(out, start, len(out) - start - 4)
        out.write(payload)
        self.count += 1

    def getvalue(self) -> bytes:
        return self._out.getvalue()


def encode_batch(messages: list[SingleMessage]) -> bytes:
    """Returns the payload of a batch of these messages, in their order."""
    writer = BatchWriter()
    for message in messages:
        writer.add(
            message.payload,
            message.sequence_id,
            message.properties,
            message.partition_key,
            message.event_time,
            message.ordering_key,
            message.partition_key_b64_encoded,
            message.null_value,
            message.null_partition_key,
            message.compacted_out,
        )
    return writer.getvalue()


def decode_batch(payload: bytes, count: i64) -> list[SingleMessage]:
    """Returns the `count` messages of an uncompressed batch. Raises RemoteProtocolError."""
    check_batch_count(count)
    messages: list[SingleMessage] = []
    reader = Reader(payload, 0, 0, SHAPE)
    pos: i64 = 0
    for _ in range(count):
        metadata_end = metadata_end_at(payload, pos)
        reader.rewind(pos + 4, metadata_end)
        message = SingleMessage(b"")
        size = _decode_single(reader, message)
        pos = payload_end_at(payload, metadata_end, size)
        message.payload = payload[metadata_end:pos]
        messages.append(message)
    check_batch_end(payload, pos, count)
    return messages


def _decode_single(reader: Reader, message: SingleMessage) -> i64:
    """Fills the message and returns the size of its payload, -1 if it was not given."""
    size: i64 = -1
    while (tag := reader.tag()) != 0:
        if tag == 0x18:
            size = reader.int32()
            if size < 0:
                reader.fail(f"payload of {size} bytes")
        elif tag == 0x40:
            message.sequence_id = reader.varint()
        elif tag == 0x12:
            message.partition_key = reader.text()
        elif tag == 0x28:
            message.event_time = reader.varint()
        elif tag == 0x0A:
            if message.properties is None:
                message.properties = []
            message.properties.append(decode_key_value(reader.message(KEY_VALUE_SHAPE)))
        elif tag == 0x3A:
            message.ordering_key = reader.raw()
        elif tag == 0x30:
            message.partition_key_b64_encoded = reader.boolean()
        elif tag == 0x48:
            message.null_value = reader.boolean()
        elif tag == 0x50:
            message.null_partition_key = reader.boolean()
        elif tag == 0x20:
            message.compacted_out = reader.boolean()
        else:
            reader.skip()
    if size < 0:
        reader.require(0, (3,))
    return size


def check_batch_count(count: i64) -> None:
    if not 0 <= count <= BATCH_SIZE_MAX:
        raise RemoteProtocolError(
            "MessageMetadata.num_messages_in_batch",
            0,
            f"{count} messages, a batch has at most {BATCH_SIZE_MAX}",
        )


def metadata_end_at(payload: bytes, pos: i64) -> i64:
    """Returns where the metadata of the message that begins at `pos` ends."""
    left: i64 = len(payload) - pos
    if left < 4:
        raise RemoteProtocolError(
            BATCH, pos, f"{left} bytes left where another message should begin"
        )
    size = read_u32(payload, pos)
    if size > left - 4:
        raise RemoteProtocolError(BATCH, pos, f"metadata of {size} bytes where {left - 4} are left")
    return pos + 4 + size


def payload_end_at(payload: bytes, first: i64, size: i64) -> i64:
    left: i64 = len(payload) - first
    if size > left:
        raise RemoteProtocolError(
            "SingleMessageMetadata.payload_size",
            first,
            f"payload of {size} bytes where {left} are left",
        )
    return first + size


def check_batch_end(payload: bytes, pos: i64, count: i64) -> None:
    if pos != len(payload):
        raise RemoteProtocolError(
            BATCH, pos, f"{len(payload) - pos} bytes behind the last of {count} messages"
        )
