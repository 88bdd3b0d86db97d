"""Entries keep their bytes, but for transactions and schemas that are called otherwise there."""

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from support.schema import descriptor_of
from support.strategies import messages, unknown_fields

from magnetar.errors import RemoteProtocolError
from magnetar.migrate.plan.rewrite import rewritten
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol import split_entry
from magnetar.protocol.entry import BrokerEntryMetadata, encode_entry, with_broker_metadata

OLD, NEW = b"\0" * 7 + b"\5", b"\0" * 8
METADATA = messages(descriptor_of(pb.MessageMetadata))
SAME: dict[bytes, bytes] = {}


def moved(metadata: bytes, versions: dict[bytes, bytes]) -> bytes:
    entry = split_entry(encode_entry(metadata, b"payload"))
    return rewritten(entry, entry.metadata(), versions)


@given(METADATA, unknown_fields(st.integers(200, 300)))
def test_an_entry_of_no_transaction_keeps_its_bytes(metadata: Message, unknown: bytes) -> None:
    for name in ("txnid_least_bits", "txnid_most_bits"):
        metadata.ClearField(name)
    data = encode_entry(metadata.SerializeToString() + unknown, b"payload")
    entry = split_entry(with_broker_metadata(data, BrokerEntryMetadata(1, 2)))
    assert rewritten(entry, entry.metadata(), SAME) == data


@given(METADATA, unknown_fields(st.integers(200, 300)))
def test_a_transaction_and_a_version_are_all_that_changes(
    metadata: Message, unknown: bytes
) -> None:
    expected = pb.MessageMetadata.FromString(metadata.SerializeToString() + unknown)
    expected.txnid_least_bits, expected.txnid_most_bits = 3, 4
    expected.schema_version = OLD
    found = split_entry(moved(expected.SerializeToString(), {OLD: NEW}))
    assert found.intact()
    assert found.payload() == b"payload"
    expected.schema_version = NEW
    expected.ClearField("txnid_least_bits")
    expected.ClearField("txnid_most_bits")
    data = found.data[found.body_first + 4 : found.metadata_end]
    assert pb.MessageMetadata.FromString(data) == expected


def test_a_version_that_is_called_the_same_there_changes_nothing() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
    metadata.schema_version = OLD
    data = metadata.SerializeToString()
    assert moved(data, {NEW: OLD}) == encode_entry(data, b"payload")


def test_damage_is_said() -> None:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=1, publish_time=2, txnid_least_bits=5
    )
    intact = split_entry(encode_entry(metadata.SerializeToString(), b"")).metadata()
    for tail in (b"\xff", b"\x03"):
        broken = split_entry(encode_entry(metadata.SerializeToString() + tail, b""))
        with pytest.raises(RemoteProtocolError, match="MessageMetadata"):
            rewritten(broken, intact, SAME)
