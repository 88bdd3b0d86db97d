"""MessageMetadata: what a producer says about an entry, and the broker and consumers read.

Decoding keeps what protobuf would keep. Fields with a default in Pulsar's schema have it
here; the others are None when absent. `num_messages_in_batch` is of the latter kind,
since its mere presence, with any number, makes an entry a batch.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.protocol.payload.key_value import SHAPE as KEY_VALUE_SHAPE
from magnetar.protocol.payload.key_value import decode_key_value, put_key_values
from magnetar.wire.reader import Reader, Shape
from magnetar.wire.writer import (
    BytesWriter,
    put_bool_field,
    put_bytes_field,
    put_int_field,
    put_text_field,
)

SHAPE: Final = Shape(
    "MessageMetadata",
    {
        1: "producer_name",
        2: "sequence_id",
        3: "publish_time",
        4: "properties",
        5: "replicated_from",
        6: "partition_key",
        7: "replicate_to",
        8: "compression",
        9: "uncompressed_size",
        11: "num_messages_in_batch",
        12: "event_time",
        13: "encryption_keys",
        14: "encryption_algo",
        15: "encryption_param",
        16: "schema_version",
        17: "partition_key_b64_encoded",
        18: "ordering_key",
        19: "deliver_at_time",
        20: "marker_type",
        22: "txnid_least_bits",
        23: "txnid_most_bits",
        24: "highest_sequence_id",
        25: "null_value",
        26: "uuid",
        27: "num_chunks_from_msg",
        28: "total_chunk_msg_size",
        29: "chunk_id",
        30: "null_partition_key",
        31: "compacted_batch_indexes",
        32: "schema_id",
        33: "entry_hash_min",
        34: "entry_hash_max",
    },
)

ENCRYPTION_KEYS_SHAPE: Final = Shape("EncryptionKeys", {1: "key", 2: "value", 3: "metadata"})


@final
class EncryptionKeys:
    """The data key of an encrypted entry, encrypted for one reader."""

    def __init__(self, key: str, value: bytes, metadata: list[tuple[str, str]]) -> None:
        self.key = key
        self.value = value
        self.metadata = metadata


def chunked_name(uuid: str, publish_time_ms: i64, count: i64) -> str:
    """Returns what all chunks of a message, and of copies of it, have in common with no other
    message.

    The uuid alone is not enough: a producer that is started anew under its name counts from 0
    again, and gives it to another message. All clients give the chunks of a message, and what
    they send once more, the time at which it was published first.
    """
    return f"{uuid} {publish_time_ms} {count}"


@final
class MessageMetadata:
    """The fields of MessageMetadata, by their names in Pulsar."""

    def __init__(self, producer_name: str, sequence_id: i64, publish_time: i64) -> None:
        self.producer_name = producer_name
        self.sequence_id: i64 = sequence_id
        self.publish_time: i64 = publish_time
        self.properties: list[tuple[str, str]] | None = None
        self.replicated_from: str | None = None
        self.partition_key: str | None = None
        self.replicate_to: list[str] | None = None
        self.compression: i64 = 0
        self.uncompressed_size: i64 = 0
        self.num_messages_in_batch: int | None = None
        self.event_time: i64 = 0
        self.encryption_keys: list[EncryptionKeys] | None = None
        self.encryption_algo: str | None = None
        self.encryption_param: bytes | None = None
        self.schema_version: bytes | None = None
        self.partition_key_b64_encoded = False
        self.ordering_key: bytes | None = None
        self.deliver_at_time: int | None = None
        self.marker_type: int | None = None
        self.txnid_least_bits: int | None = None
        self.txnid_most_bits: int | None = None
        self.highest_sequence_id: i64 = 0
        self.null_value = False
        self.uuid: str | None = None
        self.num_chunks_from_msg: int | None = None
        self.total_chunk_msg_size: int | None = None
        self.chunk_id: int | None = None
        self.null_partition_key = False
        self.compacted_batch_indexes: list[int] | None = None
        self.schema_id: bytes | None = None
        self.entry_hash_min: int | None = None
        self.entry_hash_max: int | None = None

    def chunked_name(self) -> str:
        """Returns which message this is a chunk of."""
        return chunked_name(self.uuid or "", self.publish_time, self.num_chunks_from_msg or 0)

    def encode(self) -> bytes:
        out = BytesWriter()
        put_text_field(out, 0x0A, self.producer_name)
        put_int_field(out, 0x10, self.sequence_id)
        put_int_field(out, 0x18, self.publish_time)
        self._put_routing(out)
        self._put_payload_form(out)
        self._put_schedule(out)
        self._put_chunk(out)
        return out.getvalue()

    def _put_routing(self, out: BytesWriter) -> None:
        if self.properties is not None:
            put_key_values(out, 0x22, self.properties)
        if self.replicated_from is not None:
            put_text_field(out, 0x2A, self.replicated_from)
        if self.partition_key is not None:
            put_text_field(out, 0x32, self.partition_key)
        if self.replicate_to is not None:
            for cluster in self.replicate_to:
                put_text_field(out, 0x3A, cluster)
        if self.partition_key_b64_encoded:
            put_bool_field(out, 0x88, True)
        if self.ordering_key is not None:
            put_bytes_field(out, 0x92, self.ordering_key)
        if self.null_partition_key:
            put_bool_field(out, 0xF0, True)
        if self.entry_hash_min is not None:
            put_int_field(out, 0x108, self.entry_hash_min)
        if self.entry_hash_max is not None:
            put_int_field(out, 0x110, self.entry_hash_max)

    def _put_payload_form(self, out: BytesWriter) -> None:
        if self.compression != 0:
            put_int_field(out, 0x40, self.compression)
        if self.uncompressed_size != 0:
            put_int_field(out, 0x48, self.uncompressed_size)
        if self.num_messages_in_batch is not None:
            put_int_field(out, 0x58, self.num_messages_in_batch)
        if self.encryption_keys is not None:
            for keys in self.encryption_keys:
                _put_encryption_keys(out, keys)
        if self.encryption_algo is not None:
            put_text_field(out, 0x72, self.encryption_algo)
        if self.encryption_param is not None:
            put_bytes_field(out, 0x7A, self.encryption_param)
        if self.schema_version is not None:
            put_bytes_field(out, 0x82, self.schema_version)
        if self.null_value:
            put_bool_field(out, 0xC8, True)
        if self.compacted_batch_indexes is not None:
            for index in self.compacted_batch_indexes:
                put_int_field(out, 0xF8, index)
        if self.schema_id is not None:
            put_bytes_field(out, 0x102, self.schema_id)

    def _put_schedule(self, out: BytesWriter) -> None:
        if self.event_time != 0:
            put_int_field(out, 0x60, self.event_time)
        if self.deliver_at_time is not None:
            put_int_field(out, 0x98, self.deliver_at_time)
        if self.marker_type is not None:
            put_int_field(out, 0xA0, self.marker_type)
        if self.txnid_least_bits is not None:
            put_int_field(out, 0xB0, self.txnid_least_bits)
        if self.txnid_most_bits is not None:
            put_int_field(out, 0xB8, self.txnid_most_bits)
        if self.highest_sequence_id != 0:
            put_int_field(out, 0xC0, self.highest_sequence_id)

    def _put_chunk(self, out: BytesWriter) -> None:
        if self.uuid is not None:
            put_text_field(out, 0xD2, self.uuid)
        if self.num_chunks_from_msg is not None:
            put_int_field(out, 0xD8, self.num_chunks_from_msg)
        if self.total_chunk_msg_size is not None:
            put_int_field(out, 0xE0, self.total_chunk_msg_size)
        if self.chunk_id is not None:
            put_int_field(out, 0xE8, self.chunk_id)


def decode_metadata(reader: Reader) -> MessageMetadata:
    """Reads to the reader's end. Raises RemoteProtocolError."""
    metadata = MessageMetadata("", 0, 0)
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x0A:
            metadata.producer_name = reader.text()
            present |= 2
        elif tag == 0x10:
            metadata.sequence_id = reader.varint()
            present |= 4
        elif tag == 0x18:
            metadata.publish_time = reader.varint()
            present |= 8
        elif tag == 0x58:
            metadata.num_messages_in_batch = reader.int32()
        elif tag == 0x48:
            metadata.uncompressed_size = reader.uint32()
        elif tag == 0x40:
            metadata.compression = reader.int32()
        elif tag == 0xC0:
            metadata.highest_sequence_id = reader.varint()
        elif tag == 0x32:
            metadata.partition_key = reader.text()
        elif tag == 0x60:
            metadata.event_time = reader.varint()
        elif tag == 0x82:
            metadata.schema_version = reader.raw()
        elif tag == 0x22:
            if metadata.properties is None:
                metadata.properties = []
            metadata.properties.append(decode_key_value(reader.message(KEY_VALUE_SHAPE)))
        else:
            _decode_rare(reader, metadata, tag)
    if present != 14:
        reader.require(present, (1, 2, 3))
    return metadata


def _decode_rare(reader: Reader, metadata: MessageMetadata, tag: i64) -> None:
    if tag == 0x88:
        metadata.partition_key_b64_encoded = reader.boolean()
    elif tag == 0x92:
        metadata.ordering_key = reader.raw()
    elif tag == 0x98:
        metadata.deliver_at_time = reader.varint()
    elif tag == 0xC8:
        metadata.null_value = reader.boolean()
    elif tag == 0xF0:
        metadata.null_partition_key = reader.boolean()
    elif tag == 0xD2:
        metadata.uuid = reader.text()
    elif tag == 0xD8:
        metadata.num_chunks_from_msg = reader.int32()
    elif tag == 0xE0:
        metadata.total_chunk_msg_size = reader.int32()
    elif tag == 0xE8:
        metadata.chunk_id = reader.int32()
    elif tag == 0x6A:
        if metadata.encryption_keys is None:
            metadata.encryption_keys = []
        metadata.encryption_keys.append(
            _decode_encryption_keys(reader.message(ENCRYPTION_KEYS_SHAPE))
        )
    elif tag == 0x72:
        metadata.encryption_algo = reader.text()
    elif tag == 0x7A:
        metadata.encryption_param = reader.raw()
    else:
        _decode_rarest(reader, metadata, tag)


def _decode_rarest(reader: Reader, metadata: MessageMetadata, tag: i64) -> None:
    if tag == 0x2A:
        metadata.replicated_from = reader.text()
    elif tag == 0x3A:
        if metadata.replicate_to is None:
            metadata.replicate_to = []
        metadata.replicate_to.append(reader.text())
    elif tag == 0xA0:
        metadata.marker_type = reader.int32()
    elif tag == 0xB0:
        metadata.txnid_least_bits = reader.varint()
    elif tag == 0xB8:
        metadata.txnid_most_bits = reader.varint()
    elif tag == 0xF8 or tag == 0xFA:
        if metadata.compacted_batch_indexes is None:
            metadata.compacted_batch_indexes = []
        _add_indexes(reader, metadata.compacted_batch_indexes, packed=tag == 0xFA)
    elif tag == 0x102:
        metadata.schema_id = reader.raw()
    elif tag == 0x108:
        metadata.entry_hash_min = reader.uint32()
    elif tag == 0x110:
        metadata.entry_hash_max = reader.uint32()
    else:
        reader.skip()


def _add_indexes(reader: Reader, indexes: list[int], *, packed: bool) -> None:
    if not packed:
        indexes.append(reader.int32())
        return
    inner = reader.packed()
    while inner.more():
        indexes.append(inner.int32())


def _put_encryption_keys(out: BytesWriter, keys: EncryptionKeys) -> None:
    inner = BytesWriter()
    put_text_field(inner, 0x0A, keys.key)
    put_bytes_field(inner, 0x12, keys.value)
    put_key_values(inner, 0x1A, keys.metadata)
    put_bytes_field(out, 0x6A, inner.getvalue())


def _decode_encryption_keys(reader: Reader) -> EncryptionKeys:
    keys = EncryptionKeys("", b"", [])
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x0A:
            keys.key = reader.text()
            present |= 2
        elif tag == 0x12:
            keys.value = reader.raw()
            present |= 4
        elif tag == 0x1A:
            keys.metadata.append(decode_key_value(reader.message(KEY_VALUE_SHAPE)))
        else:
            reader.skip()
    reader.require(present, (1, 2))
    return keys
