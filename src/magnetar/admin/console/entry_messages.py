"""What an entry carries, message by message, for people to read.

Entries are what producers sent, and producers may send anything. Whatever cannot be read is a
message with a `fault` that says why, and what could be read of it; nothing here raises for what
an entry has in it.

A batch may have a million messages, so they come one at a time, and whoever asks takes breaks.
"""

import asyncio
import base64
from collections.abc import Iterator
from typing import Final

from google.protobuf.message import DecodeError

from magnetar.errors import RemoteProtocolError
from magnetar.model import CompressionType, Position
from magnetar.protocol import MessageMetadata, decompress, split_entry
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["EntryMessages", "Shown", "read_messages"]

COMPRESSIONS: Final = {int(kind): kind.name for kind in CompressionType}
SCHEMA_VERSION_BYTES: Final = 8


class Shown:
    """One message, whole."""

    __slots__ = (
        "batch_index",
        "event_time",
        "fault",
        "key",
        "key_is_base64",
        "null_value",
        "ordering_key",
        "payload",
        "properties",
        "sequence_id",
    )

    def __init__(self, batch_index: int, payload: bytes) -> None:
        self.batch_index = batch_index
        self.payload = payload
        self.key: str | None = None
        self.key_is_base64 = False
        self.ordering_key: bytes | None = None
        self.properties: dict[str, str] = {}
        self.event_time = 0
        self.sequence_id = 0
        self.null_value = False
        self.fault = ""


class EntryMessages:
    """What all messages of an entry share, and the messages."""

    def __init__(self, position: Position, metadata: MessageMetadata | None) -> None:
        self.position = position
        self.metadata = metadata
        self.payload = b""
        self.fault = ""

    @property
    def batch_size(self) -> int:
        """How many messages a batch has; 0 if it is none."""
        count = None if self.metadata is None else self.metadata.num_messages_in_batch
        return 0 if count is None else count

    @property
    def encrypted(self) -> bool:
        return self.metadata is not None and bool(self.metadata.encryption_keys)

    @property
    def is_chunk(self) -> bool:
        return self.metadata is not None and (self.metadata.num_chunks_from_msg or 0) > 1

    def messages(self) -> Iterator[Shown]:
        """Yields them in order, or one that stands for all where they cannot be told apart."""
        if not self.batch_size or self.encrypted or self.fault:
            yield self._whole()
            return
        position = 0
        for index in range(self.batch_size):
            try:
                message, position = _single(self.payload, position, index)
            except (DecodeError, ValueError) as error:
                broken = Shown(index, self.payload[position:])
                broken.fault = f"the batch cannot be read from here on: {error}"
                yield broken
                return
            yield message

    def _whole(self) -> Shown:
        shown = Shown(-1, self.payload)
        shown.fault = self.fault
        if self.metadata is not None:
            shown.key = self.metadata.partition_key
            shown.key_is_base64 = self.metadata.partition_key_b64_encoded
            shown.ordering_key = self.metadata.ordering_key
            shown.properties = dict(self.metadata.properties or [])
            shown.event_time = int(self.metadata.event_time)
            shown.sequence_id = int(self.metadata.sequence_id)
            shown.null_value = self.metadata.null_value
        return shown

    def row(self, shown: Shown, payload_max: int) -> dict[str, object]:
        """Returns a message as JSON has it, with the beginning of its payload."""
        metadata = self.metadata
        version = b"" if metadata is None else metadata.schema_version or b""
        found: dict[str, object] = {
            "ledgerId": int(self.position.ledger_id),
            "entryId": int(self.position.entry_id),
            "batchIndex": shown.batch_index,
            "batchSize": self.batch_size,
            "publishTime": 0 if metadata is None else int(metadata.publish_time),
            "eventTime": shown.event_time,
            "deliverAt": 0 if metadata is None else metadata.deliver_at_time or 0,
            "producerName": "" if metadata is None else metadata.producer_name,
            "sequenceId": str(shown.sequence_id),
            "key": shown.key,
            "keyIsBase64": shown.key_is_base64,
            "orderingKey": None if shown.ordering_key is None else _base64(shown.ordering_key),
            "properties": shown.properties,
            "payload": _base64(shown.payload[:payload_max]),
            "payloadSize": len(shown.payload),
            "nullValue": shown.null_value,
            "schemaVersion": (
                int.from_bytes(version) if len(version) == SCHEMA_VERSION_BYTES else -1
            ),
            "compression": "" if metadata is None else COMPRESSIONS.get(metadata.compression, "?"),
            "encrypted": self.encrypted,
            "fault": shown.fault,
            "chunk": None,
        }
        if metadata is not None and self.is_chunk:
            found["chunk"] = {
                "uuid": metadata.uuid or "",
                "number": metadata.chunk_id or 0,
                "of": metadata.num_chunks_from_msg,
                "size": metadata.total_chunk_msg_size or 0,
            }
        return found


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _single(payload: bytes, position: int, index: int) -> tuple[Shown, int]:
    """Returns the message of a batch that begins at a position, and where the next begins."""
    head = position + 4
    end = head + int.from_bytes(payload[position:head])
    if end > len(payload):
        raise ValueError(f"message {index} begins at its end")
    metadata = pb.SingleMessageMetadata.FromString(payload[head:end])
    following = end + metadata.payload_size
    if metadata.payload_size < 0 or following > len(payload):
        raise ValueError(f"message {index} is longer than the batch")
    shown = Shown(index, payload[end:following])
    if metadata.HasField("partition_key"):
        shown.key = metadata.partition_key
    shown.key_is_base64 = metadata.partition_key_b64_encoded
    if metadata.HasField("ordering_key"):
        shown.ordering_key = metadata.ordering_key
    shown.properties = {one.key: one.value for one in metadata.properties}
    shown.event_time = metadata.event_time
    shown.sequence_id = metadata.sequence_id
    shown.null_value = metadata.null_value
    return shown, following


async def read_messages(position: Position, data: bytes, size_max: int) -> EntryMessages:
    """Takes an entry apart. What is compressed is unpacked on a thread."""
    try:
        parts = split_entry(data)
        found = EntryMessages(position, parts.metadata())
        found.payload = parts.payload()
    except RemoteProtocolError as error:
        broken = EntryMessages(position, None)
        broken.payload = data
        broken.fault = f"the entry cannot be read: {error}"
        return broken
    assert found.metadata is not None
    # A chunk has a part of what was compressed.
    if found.metadata.compression and not found.encrypted and not found.is_chunk:
        await unpack(found, size_max)
    return found


async def unpack(entry: EntryMessages, size_max: int) -> None:
    """Decompresses the payload of an entry."""
    assert entry.metadata is not None
    kind, size = entry.metadata.compression, entry.metadata.uncompressed_size
    try:
        entry.payload = await asyncio.to_thread(decompress, kind, entry.payload, size, size_max)
    except RemoteProtocolError as error:
        entry.fault = f"the payload cannot be decompressed: {error}"
