"""Chunked messages of a split: put together, wherever their chunks lie.

A message belongs to the split that has its last chunk. Its other chunks may lie before the
split, in another one or in an earlier micro-batch: then the split looks back for them, in
ranges that grow. Chunks whose last one lies behind the split are the business of another.
So every message is read once, and no task needs to know of another.
"""

from typing import TypeAlias

from magnetar.client.consumer.start.entry_range import RawEntry
from magnetar.client.door.bulk import BulkClient
from magnetar.errors import InvalidMessage
from magnetar.model import MessageId, TopicName
from magnetar.protocol.metadata import MessageMetadata
from magnetar.protocol.payload.compression import decompress

__all__ = ["Chunks", "Whole", "is_chunk"]

# Chunks of a message by their numbers, with their payloads.
_Parts: TypeAlias = dict[int, tuple[RawEntry, bytes]]

LOOK_BACK_FIRST = 64
WHOLE_SIZE_MAX = 1 << 30


def is_chunk(metadata: MessageMetadata) -> bool:
    return metadata.num_chunks_from_msg is not None and metadata.num_chunks_from_msg > 1


class Whole:
    """A message that was put together, and the id of its first chunk."""

    def __init__(self, payload: bytes, first: MessageId) -> None:
        self.payload = payload
        self.first = first


class Chunks:
    """The chunks that one split has met, by message."""

    def __init__(self, client: BulkClient, topic: str, timeout_s: float) -> None:
        self._client = client
        self._topic = topic
        self._timeout_s = timeout_s
        self._partition = TopicName.parse(topic).partition
        self._met: dict[str, _Parts] = {}

    def add(self, raw: RawEntry) -> Whole | None:
        """Returns the message, its payload uncompressed, if this is the last chunk of one.

        Raises InvalidMessage if the message cannot be put together.
        """
        metadata, entry = raw.metadata, raw.entry
        assert metadata is not None
        assert entry is not None
        name, count = metadata.chunked_name(), metadata.num_chunks_from_msg or 0
        number = metadata.chunk_id or 0
        parts = self._met.setdefault(name, {})
        if number == 0:
            # A producer that sends again begins again.
            parts.clear()
        parts[number] = (raw, entry.payload())
        if number != count - 1:
            return None
        del self._met[name]
        if len(parts) < count:
            self._look_back(raw, name, count, parts)
        whole = b"".join(parts[i][1] for i in range(count) if i in parts)
        if len(parts) < count or len(whole) != metadata.total_chunk_msg_size:
            raise InvalidMessage(
                f"{self._topic}: the message in chunks that ends with {raw.ledger_id}:"
                f"{raw.entry_id} has {len(parts)} of its {count} chunks"
            )
        payload = decompress(
            int(metadata.compression), whole, int(metadata.uncompressed_size), WHOLE_SIZE_MAX
        )
        first = parts[0][0]
        return Whole(payload, MessageId(self._partition, int(first.ledger_id), int(first.entry_id)))

    def _look_back(self, last: RawEntry, name: str, count: int, parts: _Parts) -> None:
        """Looks for the chunks before this one, further and further back."""
        ledger, end = int(last.ledger_id), int(last.entry_id)
        reach = LOOK_BACK_FIRST
        while len(parts) < count:
            first = end - reach
            start = (ledger, first) if first >= 0 else (-1, -1)
            self._collect(start, (ledger, end), name, parts)
            if first < 0:
                return
            reach *= 4

    def _collect(
        self, start: tuple[int, int], end: tuple[int, int], name: str, parts: _Parts
    ) -> None:
        with self._client.entries(self._topic, start, end, timeout_s=self._timeout_s) as entries:
            while chunk := entries.next():
                for raw in chunk:
                    metadata, entry = raw.metadata, raw.entry
                    if metadata is None or entry is None or metadata.chunked_name() != name:
                        continue
                    parts[metadata.chunk_id or 0] = (raw, entry.payload())
