"""How a message that is too large for one entry is split over several (PIP-107).

Each chunk is an entry of its own. All of them share the message's metadata and sequence
id, and say in four more fields which message they are of, which chunk, of how many, and
how large the whole is. A message that fits into one entry gets none of these fields.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import MessageTooLargeError
from magnetar.protocol.metadata import MessageMetadata
from magnetar.wire.writer import varint_size

# total_chunk_msg_size is an int32.
TOTAL_SIZE_MAX: Final = 0x7FFFFFFF
_TAG_SIZE: Final = 2


@final
class ChunkPlan:
    """Where a payload of `total_size` bytes is cut: `count` chunks of `chunk_size` or less."""

    def __init__(self, total_size: i64, chunk_size: i64) -> None:
        assert chunk_size > 0
        self.total_size: i64 = total_size
        self.chunk_size: i64 = chunk_size
        self.count: i64 = max(1, -(-total_size // chunk_size))

    def first(self, chunk_id: i64) -> i64:
        """Returns where the payload of a chunk begins; it ends where the next begins."""
        return min(chunk_id * self.chunk_size, self.total_size)

    def label(self, metadata: MessageMetadata, chunk_id: i64) -> None:
        """Makes the message's metadata that of one chunk."""
        assert 0 <= chunk_id < self.count
        if self.count == 1:
            return
        metadata.uuid = _uuid(metadata)
        metadata.num_chunks_from_msg = self.count
        metadata.total_chunk_msg_size = self.total_size
        metadata.chunk_id = chunk_id


def plan_chunks(
    metadata: MessageMetadata,
    total_size: i64,
    *,
    message_size_max: i64,
    chunk_size_max: i64 = TOTAL_SIZE_MAX,
) -> ChunkPlan:
    """Cuts a (compressed) payload so that metadata and payload of each chunk fit.

    Raises MessageTooLargeError if the metadata leaves no room or the whole is beyond
    what the protocol can say.
    """
    if total_size > TOTAL_SIZE_MAX:
        raise MessageTooLargeError(total_size, TOTAL_SIZE_MAX, "split it before sending")
    metadata_size: i64 = len(metadata.encode())
    if metadata_size + total_size <= message_size_max and total_size <= chunk_size_max:
        return ChunkPlan(total_size, max(1, total_size))
    metadata_size += _label_size_max(metadata)
    room = min(chunk_size_max, message_size_max - metadata_size)
    if room <= 0:
        raise MessageTooLargeError(
            metadata_size, message_size_max, "the properties and keys alone fill a message"
        )
    return ChunkPlan(total_size, room)


def _uuid(metadata: MessageMetadata) -> str:
    return f"{metadata.producer_name}-{metadata.sequence_id}"


def _label_size_max(metadata: MessageMetadata) -> i64:
    """Returns what the four fields of a chunk can take: the uuid, and numbers of five bytes."""
    uuid_size: i64 = len(_uuid(metadata).encode())
    return _TAG_SIZE + varint_size(uuid_size) + uuid_size + 3 * (_TAG_SIZE + 5)
