"""The few facts that a broker reads from an entry, against the metadata that it was made of."""

import pytest

from magnetar.errors import RemoteProtocolError
from magnetar.protocol import (
    EncryptionKeys,
    EntryFacts,
    MessageMetadata,
    encode_entry,
    entry_facts,
    split_entry,
)


def facts_of(metadata: MessageMetadata) -> EntryFacts:
    return entry_facts(split_entry(encode_entry(metadata.encode(), b"payload")))


def test_everything_that_is_asked_for() -> None:
    metadata = MessageMetadata("p", 5, 1000)
    metadata.num_messages_in_batch = 10
    metadata.highest_sequence_id = 14
    metadata.deliver_at_time = 2000
    metadata.uuid = "p-5"
    metadata.num_chunks_from_msg = 3
    metadata.chunk_id = 1
    metadata.marker_type = 1
    metadata.encryption_keys = [EncryptionKeys("k", b"v", [])]
    metadata.null_value = True
    metadata.compression = 3
    metadata.uncompressed_size = 2**32 - 1
    facts = facts_of(metadata)
    assert (facts.batched, facts.batch_size, facts.publish_time_ms) == (True, 10, 1000)
    assert (facts.sequence_id, facts.highest_sequence_id, facts.deliver_at_ms) == (5, 14, 2000)
    assert (facts.uuid, facts.chunk_count, facts.chunk_id) == ("p-5", 3, 1)
    assert (facts.compression, facts.uncompressed_size) == (3, 2**32 - 1)
    assert facts.marker
    assert facts.encrypted


@pytest.mark.parametrize(
    ("partition_key", "b64", "ordering_key", "expected"),
    [
        (None, False, None, b"p-5"),
        ("key", False, None, b"key"),
        ("a2V5", True, None, b"key"),
        ("no base64!", True, None, b"no base64!"),
        ("key", False, b"order", b"order"),
    ],
)
def test_the_key_that_orders(
    partition_key: str | None, b64: bool, ordering_key: bytes | None, expected: bytes
) -> None:
    metadata = MessageMetadata("p", 5, 1000)
    metadata.partition_key = partition_key
    metadata.partition_key_b64_encoded = b64
    metadata.ordering_key = ordering_key
    assert facts_of(metadata).sticky_key() == expected


def test_without_a_producer_name_there_is_one_key_for_all() -> None:
    assert facts_of(MessageMetadata("", 5, 1000)).sticky_key() == b"NONE_KEY"


@pytest.mark.parametrize("count", [0, -1, 2**31 - 1])
def test_a_number_that_no_batch_has_is_read_as_it_is(count: int) -> None:
    metadata = MessageMetadata("p", 5, 1000)
    metadata.num_messages_in_batch = count
    facts = facts_of(metadata)
    assert (facts.batched, facts.batch_size) == (True, count)


def test_missing_fields_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="required"):
        entry_facts(split_entry(encode_entry(b"\x10\x05", b"")))
