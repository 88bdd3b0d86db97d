"""MessageMetadata with everything in it, and the few fields that need care."""

import pytest
from support.plain import plain, plain_pb

from magnetar.errors import RemoteProtocolError
from magnetar.protocol import EncryptionKeys, MessageMetadata
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.metadata import SHAPE, decode_metadata
from magnetar.wire.reader import Reader

REQUIRED = b"\x0a\x01p\x10\x00\x18\x00"


def decode(data: bytes) -> MessageMetadata:
    return decode_metadata(Reader(data, 0, len(data), SHAPE))


def full() -> MessageMetadata:
    metadata = MessageMetadata("producer", 1, 2)
    metadata.properties = [("a", "b"), ("a", "c")]
    metadata.replicated_from = "west"
    metadata.partition_key = "key"
    metadata.replicate_to = ["east", "north"]
    metadata.compression = 3
    metadata.uncompressed_size = 4
    metadata.num_messages_in_batch = 1
    metadata.event_time = 5
    metadata.encryption_keys = [EncryptionKeys("k", b"v", [("m", "n")])]
    metadata.encryption_algo = "aes"
    metadata.encryption_param = b"param"
    metadata.schema_version = bytes(8)
    metadata.partition_key_b64_encoded = True
    metadata.ordering_key = b"order"
    metadata.deliver_at_time = -6
    metadata.marker_type = 7
    metadata.txnid_least_bits = 8
    metadata.txnid_most_bits = -1
    metadata.highest_sequence_id = 9
    metadata.null_value = True
    metadata.uuid = "producer-1"
    metadata.num_chunks_from_msg = 10
    metadata.total_chunk_msg_size = 11
    metadata.chunk_id = 0
    metadata.null_partition_key = True
    metadata.compacted_batch_indexes = [1, -2]
    metadata.schema_id = b"id"
    metadata.entry_hash_min = 12
    metadata.entry_hash_max = 2**32 - 1
    return metadata


def test_every_field_is_written_and_read() -> None:
    metadata = full()
    values = plain(metadata)
    assert all(value is not None for value in values.values())
    assert plain(decode(metadata.encode())) == values
    assert plain_pb(pb.MessageMetadata.FromString(metadata.encode())) == values


def test_an_entry_is_a_batch_if_it_says_so_even_of_one() -> None:
    assert decode(REQUIRED).num_messages_in_batch is None
    assert decode(REQUIRED + b"\x58\x01").num_messages_in_batch == 1


def test_packed_and_unpacked_indexes_add_up() -> None:
    unpacked = b"\xf8\x01\x05"
    packed = b"\xfa\x01\x02\x06\x07"
    both = REQUIRED + unpacked + packed + unpacked
    assert decode(both).compacted_batch_indexes == [5, 6, 7, 5]
    assert list(pb.MessageMetadata.FromString(both).compacted_batch_indexes) == [5, 6, 7, 5]


def test_keys_without_a_value_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match=r"EncryptionKeys\.value"):
        decode(REQUIRED + b"\x6a\x03\x0a\x01k")


def test_what_a_property_does_not_know_is_skipped() -> None:
    assert decode(REQUIRED + b"\x22\x08\x0a\x01k\x12\x01v\x78\x01").properties == [("k", "v")]


def test_what_encryption_keys_do_not_know_is_skipped() -> None:
    keys = decode(REQUIRED + b"\x6a\x08\x0a\x01k\x12\x01v\x78\x01").encryption_keys
    assert keys is not None
    assert (keys[0].key, keys[0].value, keys[0].metadata) == ("k", b"v", [])
