"""A message that is too large for one entry, on its way out in chunks (PIP-107).

The payload stays as it is: a chunk is cut when it is written, and what is written refers to
the payload instead of copying it. So a producer holds the message and no second one, whatever
the number of chunks, and what is sent again is byte for byte what was sent. Encrypted chunks are
the exception: each is encrypted when it is written, and differently when it is written again.

| count     | means                                                                       |
|-----------|-----------------------------------------------------------------------------|
| confirmed | chunks that the broker has stored, from the first on                         |
| written   | chunks that went out on this connection or are confirmed; never less         |
| count     | all of them: the message is stored when so many are confirmed                |

A lost connection takes `written` back to `confirmed`. All chunks have the sequence id of the
message, and are confirmed one by one, in order.
"""

from typing import Final, TypeAlias, final

from mypy_extensions import i64

from magnetar.client.option.encryption import DataKey
from magnetar.errors import MessageTooLargeError
from magnetar.protocol.command import encode_head
from magnetar.protocol.entry import encode_entry_head
from magnetar.protocol.metadata import MessageMetadata
from magnetar.protocol.payload.chunk import ChunkPlan, plan_chunks
from magnetar.protocol.send import CommandSend

__all__ = ["COUNT_MAX", "WINDOW_BYTES", "Chunks", "Part", "plan"]

# A part of a frame; a view is of the payload of a message.
Part: TypeAlias = bytes | memoryview

# How many chunks one message may have: each costs the broker an entry, and consumers an id.
COUNT_MAX: Final = 80_000
# Chunks go out until so many bytes wait for their receipts, so that sockets and brokers do
# not have to hold a whole message. Three chunks of the usual 5 MiB keep a connection busy.
WINDOW_BYTES: Final = 12 << 20


@final
class Chunks:
    """See the module. `metadata` is that of the message, and belongs to this object now."""

    def __init__(
        self,
        producer_id: i64,
        metadata: MessageMetadata,
        payload: bytes,
        plan: ChunkPlan,
        key: DataKey | None = None,
    ) -> None:
        self._producer_id: Final[i64] = producer_id
        self._metadata: Final[MessageMetadata] = metadata
        self._payload: Final[bytes] = payload
        self._view: Final[memoryview] = memoryview(payload)
        self._plan: Final[ChunkPlan] = plan
        self._key: Final[DataKey | None] = key
        self.count: Final[i64] = plan.count
        self.chunk_size: Final[i64] = plan.chunk_size
        self.confirmed: i64 = 0
        self.written: i64 = 0
        # The broker said of one that it has it already: then it has all of them. It may say so
        # before it confirms those that were in front.
        self.duplicate: bool = False
        # Where the first one is stored.
        self.ledger_id: i64 = -1
        self.entry_id: i64 = -1

    def size(self, chunk_id: i64) -> i64:
        """The payload of a chunk, in bytes."""
        return self._plan.first(chunk_id + 1) - self._plan.first(chunk_id)

    def write_next(self) -> list[Part]:
        """The SEND of the next chunk, in parts; it counts as written."""
        parts = self.frame(self.written)
        self.written += 1
        return parts

    def frame(self, chunk_id: i64) -> list[Part]:
        first = self._plan.first(chunk_id)
        end = self._plan.first(chunk_id + 1)
        metadata = self._metadata
        self._plan.label(metadata, chunk_id)
        send = CommandSend(self._producer_id, metadata.sequence_id, is_chunk=True)
        if metadata.txnid_most_bits is not None and metadata.txnid_least_bits is not None:
            send.join(metadata.txnid_most_bits, metadata.txnid_least_bits)
        if self._key is not None:
            sealed = self._key.seal(metadata, self._view[first:end])
            head = encode_entry_head(metadata.encode(), sealed, 0, len(sealed))
            return [encode_head(send, len(head) + len(sealed)) + head, sealed]
        head = encode_entry_head(metadata.encode(), self._payload, first, end)
        return [encode_head(send, len(head) + end - first) + head, self._view[first:end]]

    def confirm(self, ledger_id: i64, entry_id: i64) -> bool:
        """The broker has one chunk more. Says whether it has all of them."""
        if ledger_id < 0:
            self.duplicate = True
        if self.confirmed == 0:
            self.ledger_id = ledger_id
            self.entry_id = entry_id
        self.confirmed += 1
        return self.confirmed == self.count

    def rewind(self) -> None:
        """The connection is another one: what is not confirmed is written again."""
        self.written = self.confirmed

    def in_flight(self) -> i64:
        """How many bytes are written and not confirmed."""
        return self._plan.first(self.written) - self._plan.first(self.confirmed)


def plan(
    metadata: MessageMetadata, size: i64, *, message_size_max: i64, chunk_size_max: i64
) -> ChunkPlan:
    """How a payload of `size` bytes is cut. Raises MessageTooLargeError."""
    found = plan_chunks(
        metadata, size, message_size_max=message_size_max, chunk_size_max=chunk_size_max
    )
    if found.count > COUNT_MAX:
        raise MessageTooLargeError(
            size,
            COUNT_MAX * found.chunk_size,
            f"it would be {found.count} chunks: raise chunk_max_message_size, or send less",
        )
    return found
