"""A message as an application sees it, built of as little as possible until it asks.

All messages of one entry share a `Delivery`: the entry's metadata, its payload as it was
before compression, and where it stands. A `Message` adds where in that payload it is. Its
own metadata, its id and its bytes are made when they are asked for; most programs ask for
the bytes and acknowledge, so the rest is never made.

Names and results are those of the official Python client, where absent texts are empty.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeAlias, final

from mypy_extensions import i64

from magnetar.client.ack.entry_acks import EntryAcks
from magnetar.client.consumer.origin import Origin
from magnetar.client.option.encryption_context import EncryptionContext
from magnetar.client.schema.value import Received
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
        origin: Origin | None = None,
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
        self._delivered: Final[int] = unacked
        self.redelivery_count: Final[i64] = redelivery_count
        self.decode: Final[Decode | None] = decode
        self.acks: EntryAcks | None = None
        self.chunks: list[int] | None = None
        self.decryption_failed: bool = False
        self.origin: Final[Origin | None] = origin
        # How often the subscription had been moved when it came.
        self.moves: Final[i64] = 0 if origin is None else origin.moves
        self.resets: Final[i64] = 0 if origin is None else origin.resets

    @property
    def gone(self) -> bool:
        """Whether its position names another message now, or none, where it would be acked."""
        return self.origin is not None and self.origin.gone

    @property
    def undone(self) -> bool:
        """Whether others have reset the subscription since it came."""
        return self.origin is not None and self.resets < self.origin.resets

    def unacked_now(self) -> int:
        """Returns what is unacked of the entry, as far as is known: of what was acked before the
        subscription was moved, nothing is."""
        if self.batch_size > 0 and self.origin is not None and self.moves < self.origin.moves:
            return all_unacked(self.batch_size)
        return self.unacked

    def hidden_now(self) -> int:
        """Returns what the broker left out of a batch: it may be acked, or not."""
        if self.batch_size == 0:
            return 0
        return all_unacked(self.batch_size) & ~self._delivered & ~self.unacked_now()


@final
class Message(Generic[Received]):
    """What `receive` returns: a payload, and what its producer and its broker say of it.

    `value` is what the schema of its consumer makes of the payload: of a `Message[Order]` an
    Order, of a message without a schema bytes. It does not change, so any thread may read it.
    """

    # `_index` is the place in the batch, -1 if the entry is no batch. The message's own part of
    # the payload is `_first` to `_end`, its bytes begin at `_data_first`. The rest of the
    # client reads `_delivery` and `_index`; they are private because they are not for users.

    __slots__ = ("_data_first", "_delivery", "_end", "_first", "_index", "_own")

    def __init__(
        self, delivery: Delivery, index: i64, first: i64, data_first: i64, end: i64
    ) -> None:
        self._delivery: Final[Delivery] = delivery
        self._index: Final[i64] = index
        self._first: Final[i64] = first
        self._data_first: Final[i64] = data_first
        self._end: Final[i64] = end
        self._own: SingleMessage | None = None

    def data(self) -> bytes:
        """Returns the payload; that of a message without a value is empty."""
        payload = self._delivery.payload
        if self._data_first == 0 and self._end == len(payload):
            return payload  # compiled, a slice of everything would be a copy
        return payload[self._data_first : self._end]

    def value(self) -> Received:
        """Returns what the schema makes of the payload.

        Of a message that says that its key has no value any more (`has_null_value`) it is None,
        whatever the schema; only who sends None has such messages. Raises SchemaDecodeError.
        """
        if self._data_first == self._end and self.has_null_value():
            return None  # type: ignore[return-value]
        decode = self._delivery.decode
        return self.data() if decode is None else decode(self)  # type: ignore[return-value]

    def properties(self) -> dict[str, str]:
        """Returns what the application attached; a name given twice has its last value."""
        metadata = self._delivery.metadata
        pairs = self._single().properties if self._index >= 0 else metadata.properties
        return {} if pairs is None else dict(pairs)

    def partition_key(self) -> str:
        """Returns the key, empty if there is none; base64 if its producer had bytes for a key."""
        if self._index >= 0:
            key = self._single().partition_key
        else:
            key = self._delivery.metadata.partition_key
        return "" if key is None else key

    def ordering_key(self) -> str:
        """Returns the key that orders messages, empty if there is none.

        Bytes that are not UTF-8 become surrogates, as in names of files.
        """
        key = self.ordering_key_bytes()
        return "" if key is None else key.decode("utf-8", "surrogateescape")

    def ordering_key_bytes(self) -> bytes | None:
        """Returns the ordering key as bytes, empty if it has none."""
        if self._index >= 0:
            return self._single().ordering_key
        return self._delivery.metadata.ordering_key

    def publish_timestamp(self) -> int:
        """Returns when it was published, in milliseconds since 1970."""
        return self._delivery.metadata.publish_time

    def event_timestamp(self) -> int:
        """Returns the time that its producer gave it, in milliseconds since 1970; 0 if none."""
        if self._index >= 0:
            return self._single().event_time
        return self._delivery.metadata.event_time

    def message_id(self) -> MessageId:
        """Returns the id of the message, for acks, seeks and storage."""
        delivery = self._delivery
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
            self._index,
            batch_size=delivery.batch_size,
            topic=delivery.topic,
        )

    def _chunk_id(self, ledger_id: i64, entry_id: i64) -> MessageId:
        delivery = self._delivery
        return MessageId(delivery.partition, ledger_id, entry_id, topic=delivery.topic)

    def topic_name(self) -> str:
        """Returns the topic, with its partition, that the message came from."""
        return self._delivery.topic

    def redelivery_count(self) -> int:
        """Returns how often the broker was asked to deliver it again."""
        return self._delivery.redelivery_count

    def schema_version(self) -> str:
        """Returns the version of the schema, as the characters of its bytes; empty if none."""
        version = self._delivery.metadata.schema_version
        return "" if version is None else version.decode("latin-1")

    def int_schema_version(self) -> int:
        """Returns the version of the schema as a number, -1 if there is none."""
        version = self._delivery.metadata.schema_version
        return int.from_bytes(version, "big") if version else -1

    def producer_name(self) -> str:
        """Returns the name of the producer."""
        return self._delivery.metadata.producer_name

    def sequence_id(self) -> int:
        """Returns the number that its producer gave it."""
        metadata = self._delivery.metadata
        if self._index < 0:
            return metadata.sequence_id
        own = self._single().sequence_id
        # Producers that do not number the messages of a batch number the batch.
        return metadata.sequence_id + self._index if own is None else own

    def has_null_value(self) -> bool:
        """Returns whether it says that its key has no value any more."""
        if self._index >= 0:
            return self._single().null_value
        return self._delivery.metadata.null_value

    def encryption_context(self) -> EncryptionContext | None:
        """Returns how it was encrypted, and whether it still is; None if it never was."""
        delivery = self._delivery
        if delivery.metadata.encryption_keys is None:
            return None
        return EncryptionContext(delivery.metadata, delivery.decryption_failed)

    def length(self) -> int:
        """Returns the bytes of its payload."""
        return self._end - self._data_first

    def _single(self) -> SingleMessage:
        """Returns the metadata of a message in a batch. Raises RemoteProtocolError."""
        single = self._own
        if single is None:
            single = decode_batch(self._delivery.payload[self._first : self._end], 1)[0]
            self._own = single
        return single

    def __repr__(self) -> str:
        return f"Message({self.message_id()}, {self.length()} bytes)"
