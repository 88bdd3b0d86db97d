"""Entries: found, checked, and refused in parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import UINT64

from magnetar.errors import RemoteProtocolError
from magnetar.protocol import (
    BrokerEntryMetadata,
    MessageMetadata,
    encode_entry,
    split_entry,
    with_broker_metadata,
)
from magnetar.protocol.entry import encode_entry_head

METADATA = MessageMetadata("p", 1, 2).encode()


@given(st.binary(max_size=200), st.booleans(), st.booleans())
def test_the_parts_of_an_entry_are_found(payload: bytes, checksum: bool, broker: bool) -> None:
    sent = encode_entry(METADATA, payload, checksum=checksum)
    stored = with_broker_metadata(sent, BrokerEntryMetadata(77, 5)) if broker else sent
    entry = split_entry(stored)
    assert entry.intact()
    assert (entry.checksum >= 0) == checksum
    assert entry.payload() == payload
    assert entry.metadata().encode() == METADATA
    assert entry.without_broker_metadata() == sent
    added = entry.broker_metadata()
    if broker:
        assert added is not None
        assert (added.broker_timestamp, added.index) == (77, 5)
    else:
        assert added is None


@given(st.binary(max_size=50), st.binary(max_size=200), st.binary(max_size=50))
def test_the_head_of_an_entry_can_be_made_of_a_part_of_something(
    before: bytes, payload: bytes, behind: bytes
) -> None:
    first, end = len(before), len(before) + len(payload)
    head = encode_entry_head(METADATA, before + payload + behind, first, end)
    assert head + payload == encode_entry(METADATA, payload)


def test_empty_broker_metadata_is_not_the_same_as_none() -> None:
    sent = encode_entry(METADATA, b"x")
    entry = split_entry(with_broker_metadata(sent, BrokerEntryMetadata()))
    added = entry.broker_metadata()
    assert added is not None
    assert (added.broker_timestamp, added.index) == (None, None)
    assert entry.without_broker_metadata() == sent


@given(st.binary(min_size=1, max_size=50), st.data())
def test_a_flipped_bit_behind_the_checksum_shows(payload: bytes, data: st.DataObject) -> None:
    sent = encode_entry(METADATA, payload)
    first_payload_byte = len(sent) - len(payload)
    at = data.draw(st.integers(first_payload_byte, len(sent) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = sent[:at] + bytes([sent[at] ^ 1 << bit]) + sent[at + 1 :]
    assert not split_entry(damaged).intact()
    assert split_entry(sent).intact()


def test_a_broker_part_is_not_covered_by_the_checksum() -> None:
    sent = encode_entry(METADATA, b"payload")
    for broker_metadata in (BrokerEntryMetadata(1, 2), BrokerEntryMetadata(3, 4)):
        assert split_entry(with_broker_metadata(sent, broker_metadata)).intact()


@pytest.mark.parametrize(
    ("data", "field", "offset"),
    [
        (b"", "entry.metadataSize", 0),
        (b"\x00\x00\x00", "entry.metadataSize", 0),
        (b"\x00\x00\x00\x09ab", "entry.metadataSize", 0),
        (b"\xff\xff\xff\xffab", "entry.metadataSize", 0),
        (b"\x0e\x01\x00\x00\x00", "entry.checksum", 0),
        (b"\x0e\x01\x00\x00\x00\x00", "entry.metadataSize", 6),
        (b"\x0e\x02\x00\x00", "entry.brokerEntryMetadataSize", 2),
        (b"\x0e\x02\x00\x00\x00\x02a", "entry.brokerEntryMetadataSize", 2),
        (b"\x0e\x02\x00\x00\x00\x01a\x0e\x01", "entry.checksum", 7),
        (b"\x0e\x02\x00\x00\x00\x00", "entry.metadataSize", 6),
    ],
)
def test_entries_that_end_too_soon_say_where(data: bytes, field: str, offset: int) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        split_entry(data)
    assert (caught.value.field, caught.value.offset) == (field, offset)


def test_damaged_metadata_says_which_field() -> None:
    entry = split_entry(encode_entry(b"\x0a\x01\xff", b""))
    with pytest.raises(RemoteProtocolError, match=r"MessageMetadata\.producer_name at byte 11"):
        entry.metadata()
    entry = split_entry(b"\x0e\x02\x00\x00\x00\x01\x08" + encode_entry(METADATA, b""))
    with pytest.raises(RemoteProtocolError, match=r"BrokerEntryMetadata\.broker_timestamp"):
        entry.broker_metadata()


@given(UINT64)
def test_numbers_of_all_sizes_survive(value: int) -> None:
    folded = value - 2**64 if value >= 2**63 else value
    metadata = MessageMetadata("p", folded, folded)
    metadata.highest_sequence_id = folded
    back = split_entry(encode_entry(metadata.encode(), b"")).metadata()
    assert (back.sequence_id, back.publish_time, back.highest_sequence_id) == (folded,) * 3
