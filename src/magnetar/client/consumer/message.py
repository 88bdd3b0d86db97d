"""A message as an application sees it, built of as little as possible until it asks.

All messages of one entry share a `Delivery`: the entry's metadata, its payload as it was
before compression, and where it stands. A `Message` adds where in that payload it is. Its
own metadata, its id and its bytes are made when they are asked for; most programs ask for
the bytes and acknowledge, so the rest is never made.

Names and results are those of the official Python client, where absent texts are empty.
"""

from collections.abc import Callable
from typing import Final, TypeAlias, final

from mypy_extensions import i64

from magnetar.client.ack.entry_acks import EntryAcks
from magnetar.client.consumer.origin import Origin
from magnetar.client.option.encryption_context import EncryptionContext
from magnetar.model.message_id import ChunkMessageId, MessageId
from magnetar.model.position_key import wide_key, wide_key_entry, wide_key_ledger
from magnetar.protocol.metadata import MessageMetadata
from magnetar.protocol.payload.batch import SingleMessage, decode_batch
from magnetar.wire.ack_set import all_unacked

__all__ = ["Decode", "Delivery", "Message"]

# What makes a value of a message: a schema's. None leaves the bytes as they are.
Decode: TypeAlias = Callable[["Message"], object]


@final
class Delivery:
    """One entry as a broker handed it over. A `batch_size` of 0 says that it is no batch.

    `unacked` has a bit for each index that the broker knows no ack of; an entry that is no
    batch has one. `acks` is the ack tracker's record of the entry, once there is one.

    A message that came in chunks is the delivery of its last one; `chunks` has the keys of
    all of them, in order.

    With `decryption_failed` the payload is still encrypted. `origin` is what it has in common
    with all that its consumer got from the same cluster.
    """

    def __init__(
        self,
        topic: str,
        partition: i64,
        ledger_id: i64,
        entry_id: i64,
        metadata: MessageMetadata,
        payload: bytes,
        batch_size: i64,
        unacked: int,
        redelivery_count: i64,
        decode: Decode | None,
    ) -> None:
        self.topic: Final = topic
        self.partition: Final[i64] = partition
        self.ledger_id: Final[i64] = ledger_id
        self.entry_id: Final[i64] = entry_id
        self.key: Final[int] = wide_key(ledger_id, entry_id)
        self.metadata: Final = metadata
        self.payload: Final = payload
        self.batch_size: Final[i64] = batch_size
        self.unacked: int = unacked
        self.redelivery_count: Final[i64] = redelivery_count
        self.decode: Final[Decode | None] = decode
        self.acks: EntryAcks | None = None
        self.chunks: list[int] | None = None
        self.decryption_failed: bool = False
        self.origin: Origin | None = None
        self.moves: i64 = 0
        self.resets: i64 = 0

    @property
    def gone(self) -> bool:
        """Whether its position names another message now, or none, where it would be acked."""
        return self.origin is not None and self.origin.gone

    @property
    def undone(self) -> bool:
        """Whether others have reset the subscription since it came."""
        return self.origin is not None and self.resets < self.origin.resets

    def unacked_now(self) -> int:
        """What is unacked of the entry, as far as is known: of what was acked before the
        subscription was moved, nothing is."""
        if self.batch_size > 0 and self.origin is not None and self.moves < self.origin.moves:
            return all_unacked(self.batch_size)
        return self.unacked


@final
class Message:
    """What `receive` returns: a payload, and what its producer and its broker say of it.

    `index` is the place in the batch, -1 if the entry is no batch. The message's own part
    of the payload is `first` to `end`, its bytes begin at `data_first`.
    """

    __slots__ = ("_single", "data_first", "delivery", "end", "first", "index")

    def __init__(
        self, delivery: Delivery, index: i64, first: i64, data_first: i64, end: i64
    ) -> None:
        self.delivery: Final[Delivery] = delivery
        self.index: Final[i64] = index
        self.first: Final[i64] = first
        self.data_first: Final[i64] = data_first
        self.end: Final[i64] = end
        self._single: SingleMessage | None = None

    def data(self) -> bytes:
        """The payload; that of a message without a value is empty."""
        payload = self.delivery.payload
        if self.data_first == 0 and self.end == len(payload):
            return payload  # compiled, a slice of everything would be a copy
        return payload[self.data_first : self.end]

    def value(self) -> object:
        """What the schema makes of the payload, None if there is no value."""
        if self.data_first == self.end and self.has_null_value():
            return None
        decode = self.delivery.decode
        return self.data() if decode is None else decode(self)

    def properties(self) -> dict[str, str]:
        """What the application attached; a name given twice has its last value."""
        metadata = self.delivery.metadata
        pairs = self.single().properties if self.index >= 0 else metadata.properties
        return {} if pairs is None else dict(pairs)

    def partition_key(self) -> str:
        """The key, empty if there is none; base64 if its producer had bytes for a key."""
        if self.index >= 0:
            key = self.single().partition_key
        else:
            key = self.delivery.metadata.partition_key
        return "" if key is None else key

    def ordering_key(self) -> str:
        """The key that orders messages, empty if there is none.

        Bytes that are not UTF-8 become surrogates, as in names of files.
        """
        key = self.ordering_key_bytes()
        return "" if key is None else key.decode("utf-8", "surrogateescape")

    def ordering_key_bytes(self) -> bytes | None:
        """Returns the ordering key as bytes, empty if it has none."""
        if self.index >= 0:
            return self.single().ordering_key
        return self.delivery.metadata.ordering_key

    def publish_timestamp(self) -> int:
        """When it was published, in milliseconds since 1970."""
        return self.delivery.metadata.publish_time

    def event_timestamp(self) -> int:
        """The time that its producer gave it, in milliseconds since 1970; 0 if none."""
        if self.index >= 0:
            return self.single().event_time
        return self.delivery.metadata.event_time

    def message_id(self) -> MessageId:
        """Where it stands, for acks, seeks and storage."""
        delivery = self.delivery
        if delivery.chunks is not None:
            first = delivery.chunks[0]
            return ChunkMessageId(
                self._chunk_id(wide_key_ledger(first), wide_key_entry(first)),
                self._chunk_id(delivery.ledger_id, delivery.entry_id),
            )
        return MessageId(
            delivery.partition,
            delivery.ledger_id,
            delivery.entry_id,
            self.index,
            batch_size=delivery.batch_size,
            topic=delivery.topic,
        )

    def _chunk_id(self, ledger_id: i64, entry_id: i64) -> MessageId:
        delivery = self.delivery
        return MessageId(delivery.partition, ledger_id, entry_id, topic=delivery.topic)

    def topic_name(self) -> str:
        """The topic, with its partition, that the message came from."""
        return self.delivery.topic

    def redelivery_count(self) -> int:
        """How often the broker was asked to deliver it again."""
        return self.delivery.redelivery_count

    def schema_version(self) -> str:
        """The version of the schema, as the characters of its bytes; empty if none."""
        version = self.delivery.metadata.schema_version
        return "" if version is None else version.decode("latin-1")

    def int_schema_version(self) -> int:
        """The version of the schema as a number, -1 if there is none."""
        version = self.delivery.metadata.schema_version
        return int.from_bytes(version, "big") if version else -1

    def producer_name(self) -> str:
        """Returns the name of the producer."""
        return self.delivery.metadata.producer_name

    def sequence_id(self) -> int:
        """The number that its producer gave it."""
        metadata = self.delivery.metadata
        if self.index < 0:
            return metadata.sequence_id
        own = self.single().sequence_id
        # Producers that do not number the messages of a batch number the batch.
        return metadata.sequence_id + self.index if own is None else own

    def has_null_value(self) -> bool:
        """Whether it says that its key has no value any more."""
        if self.index >= 0:
            return self.single().null_value
        return self.delivery.metadata.null_value

    def encryption_context(self) -> EncryptionContext | None:
        """How it was encrypted, and whether it still is; None if it never was."""
        delivery = self.delivery
        if delivery.metadata.encryption_keys is None:
            return None
        return EncryptionContext(delivery.metadata, delivery.decryption_failed)

    def length(self) -> int:
        """The bytes of its payload."""
        return self.end - self.data_first

    def single(self) -> SingleMessage:
        """The metadata of a message in a batch. Raises RemoteProtocolError."""
        single = self._single
        if single is None:
            single = decode_batch(self.delivery.payload[self.first : self.end], 1)[0]
            self._single = single
        return single

    def __repr__(self) -> str:
        return f"Message({self.message_id()}, {self.length()} bytes)"
