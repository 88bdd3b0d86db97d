"""From messages to entries: metadata, compression, encryption, and the SEND that carries them.

| what          | becomes                                                                    |
|---------------|----------------------------------------------------------------------------|
| a batch       | one entry; the batcher has seen to it that it is not too large             |
| a message     | one entry, with all that it carries in the entry's metadata                |
| one too large | several, where there is chunking (`chunks.py`); else it is refused         |

Payloads are compressed, and with a `sealer` encrypted then. What the broker says when it
accepts the producer, its name, schema version and limits, holds for what is packed after it.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.client.option.encryption import TAG_SIZE, Sealer
from magnetar.client.option.options import ProducerOptions
from magnetar.client.producer.batcher import Batch, SequenceIds
from magnetar.client.producer.chunks import Chunks
from magnetar.client.producer.chunks import plan as plan_chunks
from magnetar.client.producer.outgoing import Outgoing
from magnetar.client.producer.send_queue import Publish
from magnetar.client.transaction.core import TransactionCore
from magnetar.errors import MessageTooLargeError
from magnetar.model.topic_name import TopicName
from magnetar.protocol.command import encode_head
from magnetar.protocol.entry import encode_entry
from magnetar.protocol.limit import FRAME_OVERHEAD_MAX, MESSAGE_SIZE_MAX
from magnetar.protocol.metadata import MessageMetadata
from magnetar.protocol.payload.chunk import TOTAL_SIZE_MAX
from magnetar.protocol.payload.compression import compress
from magnetar.protocol.send import CommandSend

__all__ = ["Packer"]

# What the sizes and the command of a SEND take of a frame's overhead, and some more.
_COMMAND_MAX: Final = 128


@final
class Packer:
    """See the module."""

    def __init__(
        self,
        options: ProducerOptions,
        topic: str,
        producer_id: i64,
        sequence_ids: SequenceIds,
        sealer: Sealer | None,
    ) -> None:
        self._producer_id: Final[i64] = producer_id
        self._sequence_ids: Final[SequenceIds] = sequence_ids
        self._sealer: Final[Sealer | None] = sealer
        self._tag_size: Final[i64] = 0 if sealer is None else TAG_SIZE
        self._compression: Final[int] = int(options.compression_type)
        # What is not stored cannot be put together: such topics have no chunks.
        self._chunking: Final[bool] = options.chunking_enabled and TopicName.parse(topic).persistent
        self._chunk_size_max: Final[i64] = options.chunk_max_message_size or TOTAL_SIZE_MAX
        self._name: str = options.producer_name or ""
        self._schema_version: bytes | None = None
        self.message_size_max: i64 = MESSAGE_SIZE_MAX

    def connected(self, name: str, schema_version: bytes, max_message_size: int) -> None:
        """The broker has accepted the producer, under this name."""
        self._name = name
        self._schema_version = schema_version or None
        self.message_size_max = max_message_size

    @property
    def total_size_max(self) -> i64:
        """What payload and metadata of an entry may have together."""
        return self.message_size_max + FRAME_OVERHEAD_MAX - _COMMAND_MAX

    def pack_batch(self, batch: Batch, publish_ms: i64) -> Publish:
        metadata = MessageMetadata(self._name, batch.sequence_id, publish_ms)
        first = batch.first
        metadata.partition_key = first.partition_key
        metadata.ordering_key = first.ordering_key
        metadata.num_messages_in_batch = len(batch.senders)
        metadata.highest_sequence_id = batch.highest_sequence_id
        transaction = first.transaction
        if transaction is not None:
            _name(transaction, metadata)
        payload = self._seal(metadata, self._finish(metadata, batch.payload))
        encoded = metadata.encode()
        send = CommandSend(
            self._producer_id,
            batch.sequence_id,
            encode_entry(encoded, payload),
            len(batch.senders),
            batch.highest_sequence_id,
        )
        if transaction is not None:
            send.join(transaction.id.most, transaction.id.least)
        return Publish(
            batch.sequence_id,
            batch.highest_sequence_id,
            [encode_head(send, len(send.entry)), send.entry],
            batch.senders,
            size=batch.size,
            payload_size=len(payload),
            metadata_size=len(encoded),
            batched=True,
            taken_ms=batch.taken_ms,
            transaction=transaction,
        )

    def pack(self, message: Outgoing, publish_ms: i64) -> Publish:
        """A message by itself. Raises MessageTooLargeError, and has then used no sequence id."""
        sequence_id = self._sequence_ids.next_of(message)
        metadata = MessageMetadata(self._name, sequence_id, publish_ms)
        metadata.properties = message.property_list()
        metadata.partition_key = message.partition_key
        metadata.ordering_key = message.ordering_key
        metadata.event_time = message.event_timestamp
        metadata.deliver_at_time = message.deliver_at
        metadata.replicate_to = message.replication_clusters
        metadata.null_value = message.null_value
        transaction = message.transaction
        if transaction is not None:
            _name(transaction, metadata)
        payload = self._finish(metadata, message.payload)
        if self._chunking and self._needs_chunks(metadata, len(payload)):
            return self._pack_chunks(message, metadata, payload)
        payload = self._seal(metadata, payload)
        encoded = metadata.encode()
        size: i64 = len(payload)
        if size > self.message_size_max or size + len(encoded) > self.total_size_max:
            raise self.too_large(size + len(encoded))
        self._sequence_ids.use(sequence_id)
        send = CommandSend(self._producer_id, sequence_id, encode_entry(encoded, payload))
        if transaction is not None:
            send.join(transaction.id.most, transaction.id.least)
        return Publish(
            sequence_id,
            sequence_id,
            [encode_head(send, len(send.entry)), send.entry],
            [message.sender],
            size=len(message.payload),
            payload_size=len(payload),
            metadata_size=len(encoded),
            batched=False,
            taken_ms=message.taken_ms,
            transaction=transaction,
        )

    def _needs_chunks(self, metadata: MessageMetadata, size: i64) -> bool:
        if self._sealer is not None:
            self._sealer.key.label(metadata)
        room = self.message_size_max - self._tag_size
        return size > self._chunk_size_max or size + len(metadata.encode()) > room

    def _pack_chunks(self, message: Outgoing, metadata: MessageMetadata, payload: bytes) -> Publish:
        metadata_size = len(metadata.encode())
        plan = plan_chunks(
            metadata,
            len(payload),
            message_size_max=self.message_size_max - self._tag_size,
            chunk_size_max=self._chunk_size_max,
        )
        key = None if self._sealer is None else self._sealer.key
        chunks = Chunks(self._producer_id, metadata, payload, plan, key)
        self._sequence_ids.use(metadata.sequence_id)
        return Publish(
            metadata.sequence_id,
            metadata.sequence_id,
            [],
            [message.sender],
            size=len(message.payload),
            payload_size=chunks.chunk_size + self._tag_size,
            metadata_size=metadata_size,
            batched=False,
            taken_ms=message.taken_ms,
            chunks=chunks,
            transaction=message.transaction,
        )

    def _finish(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        """The payload as it is sent, and what the metadata says about it."""
        metadata.uncompressed_size = len(payload)
        metadata.schema_version = self._schema_version
        if self._compression == 0:
            return payload
        metadata.compression = self._compression
        return compress(self._compression, payload)

    def _seal(self, metadata: MessageMetadata, payload: bytes) -> bytes:
        return payload if self._sealer is None else self._sealer.key.seal(metadata, payload)

    def too_large(self, size: i64) -> MessageTooLargeError:
        advice = "send less, compress it, set chunking_enabled, or raise the broker's limit"
        if self._chunking:
            advice = "chunks were made for a broker that took more: send it again"
        return MessageTooLargeError(size, self.message_size_max, advice)


def _name(transaction: TransactionCore, metadata: MessageMetadata) -> None:
    metadata.txnid_least_bits = transaction.id.least
    metadata.txnid_most_bits = transaction.id.most
