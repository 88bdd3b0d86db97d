"""Entries as columns: batches, single messages, markers and what stands for chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.columns import cells, numbers
from support.strategies import TEXT

from magnetar.errors import RemoteProtocolError
from magnetar.model import ChunkMessageId, MessageId
from magnetar.protocol import SingleMessage, compress, encode_batch, encode_entry, split_entry
from magnetar.protocol.entry import Entry
from magnetar.protocol.metadata import MessageMetadata
from magnetar.protocol.payload.entry_columns import ALL_ENTRY_COLUMNS, MESSAGE_IDS, EntryColumns


def entry_of(metadata: MessageMetadata, payload: bytes) -> Entry:
    return split_entry(encode_entry(metadata.encode(), payload))


def batch(texts: list[bytes], compression: int = 0) -> tuple[Entry, MessageMetadata]:
    metadata = MessageMetadata("p", 40, 1000)
    metadata.num_messages_in_batch = len(texts)
    payload = encode_batch([SingleMessage(text) for text in texts])
    metadata.compression = compression
    metadata.uncompressed_size = len(payload)
    return entry_of(metadata, compress(compression, payload)), metadata


def test_entries_are_gathered() -> None:
    columns = EntryColumns(partition=3)
    entry, metadata = batch([b"a", b"b", b"c"], compression=1)
    metadata.schema_version = b"\x00\x01"
    assert columns.add(7, 1, 2, entry, metadata) == 3
    single = MessageMetadata("q", 50, 2000)
    single.deliver_at_time = 3000
    assert columns.add(7, 2, 0, entry_of(single, b"alone"), single) == 1
    assert cells(columns.messages.values) == [b"a", b"b", b"c", b"alone"]
    assert numbers(columns.messages.indexes) == [0, 1, 2, -1]
    assert numbers(columns.run_ends) == [3, 4]
    assert numbers(columns.ledger_ids) == [7, 7]
    assert numbers(columns.entry_ids) == [1, 2]
    assert numbers(columns.publish_times) == [1000, 2000]
    assert numbers(columns.sequence_ids) == [40, 50]
    assert numbers(columns.redelivery_counts) == [2, 0]
    assert numbers(columns.deliver_times) == [0, 3000]
    assert cells(columns.producers) == [b"p", b"q"]
    assert cells(columns.schema_versions) == [b"\x00\x01", None]
    ids = [MessageId.deserialize(id or b"") for id in cells(columns.message_ids)]
    assert [(i.partition(), i.entry_id(), i.batch_index(), i.batch_size()) for i in ids] == [
        (3, 1, 0, 3),
        (3, 1, 1, 3),
        (3, 1, 2, 3),
        (3, 2, -1, 0),
    ]
    assert [id.serialize() for id in ids] == cells(columns.message_ids)
    assert len(columns) == 4


def test_ids_of_topics_without_partitions_have_none() -> None:
    columns = EntryColumns()
    columns.add(7, 1, 0, *batch([b"a"]))
    (id,) = cells(columns.message_ids)
    assert MessageId.deserialize(id or b"") == MessageId(-1, 7, 1, 0)


@given(st.integers(1, 12), st.integers(0, 14), st.integers(0, 14))
def test_indexes_are_cut_out(size: int, first: int, end: int) -> None:
    columns = EntryColumns()
    texts = [b"%d" % i for i in range(size)]
    assert columns.add(7, 1, 0, *batch(texts), first, end) == len(texts[first:end])
    assert cells(columns.messages.values) == texts[first:end]
    assert numbers(columns.messages.indexes) == list(range(size))[first:end]
    # An entry of which nothing is wanted leaves no trace.
    assert len(numbers(columns.run_ends)) == (1 if texts[first:end] else 0)


def test_indexes_are_picked() -> None:
    columns = EntryColumns()
    texts = [b"%d" % i for i in range(10)]
    assert columns.add(7, 1, 0, *batch(texts), 0, 10, 0b1010000011) == 4
    assert columns.add(7, 2, 0, *batch(texts), 1, 8, 0b1010000011) == 2
    assert numbers(columns.messages.indexes) == [0, 1, 7, 9, 1, 7]


def test_a_single_message_has_no_second_index() -> None:
    metadata = MessageMetadata("p", 1, 1)
    columns = EntryColumns()
    assert columns.add(7, 1, 0, entry_of(metadata, b"x"), metadata, 1) == 0
    assert len(columns) == 0


def test_markers_hold_nothing() -> None:
    metadata = MessageMetadata("p", 1, 1)
    metadata.marker_type = 20
    columns = EntryColumns()
    assert columns.add(7, 1, 0, entry_of(metadata, b"x"), metadata) == 0
    assert len(columns) == 0


@given(
    st.none() | TEXT,
    st.booleans(),
    st.none() | st.binary(max_size=9),
    st.none() | st.dictionaries(TEXT, TEXT, max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_a_single_message_is_read_whole(
    key: str | None,
    null_key: bool,
    ordering_key: bytes | None,
    properties: dict[str, str] | None,
    null_value: bool,
    pruned: bool,
) -> None:
    metadata = MessageMetadata("p", 5, 1)
    metadata.partition_key = key
    metadata.null_partition_key = null_key
    metadata.partition_key_b64_encoded = True
    metadata.ordering_key = ordering_key
    metadata.properties = None if properties is None else list(properties.items())
    metadata.null_value = null_value
    metadata.event_time = 77
    columns = EntryColumns(wanted=0 if pruned else ALL_ENTRY_COLUMNS)
    columns.add(7, 1, 0, entry_of(metadata, b"x"), metadata)
    messages = columns.messages
    assert cells(messages.values) == [None if null_value else b"x"]
    if pruned:
        built = (messages.keys, messages.ordering_keys, messages.event_times, columns.message_ids)
        assert [len(column) for column in built] == [0, 0, 0, 0]
        return
    assert cells(messages.keys) == [None if key is None or null_key else key.encode()]
    assert messages.b64_keys.data == b"\x01"
    assert cells(messages.ordering_keys) == [ordering_key]
    assert numbers(messages.event_times) == [77]
    assert numbers(messages.sequence_ids) == [5]
    found = zip(cells(messages.property_keys), cells(messages.property_values), strict=True)
    expected = {k.encode(): v.encode() for k, v in (properties or {}).items()}
    assert dict(found) == expected
    assert numbers(messages.property_offsets) == [0, len(expected)]


def test_rows_stand_for_whole_and_for_unreadable_messages() -> None:
    columns = EntryColumns(wanted=MESSAGE_IDS)
    metadata = MessageMetadata("p", 1, 1)
    columns.add_whole(7, 9, 1, metadata, b"from chunks")
    columns.add_whole(7, 10, 0, metadata, None)
    assert cells(columns.messages.values) == [b"from chunks", None]
    assert numbers(columns.run_ends) == [1, 2]


def test_the_id_of_a_whole_message_names_its_first_chunk_too() -> None:
    columns = EntryColumns(wanted=MESSAGE_IDS)
    first = MessageId(-1, 7, 5, -1)
    columns.add_whole(7, 9, 0, MessageMetadata("p", 1, 1), b"from chunks", first.serialize())
    (data,) = cells(columns.message_ids)
    assert data is not None
    id = MessageId.deserialize(data)
    assert isinstance(id, ChunkMessageId)
    assert (id.first_chunk_message_id(), id.last_chunk_message_id()) == (
        first,
        MessageId(-1, 7, 9, -1),
    )


def test_damaged_entries_are_refused() -> None:
    entry, metadata = batch([b"a", b"b"])
    metadata.num_messages_in_batch = 3
    with pytest.raises(RemoteProtocolError, match="another message should begin"):
        EntryColumns().add(7, 1, 0, entry, metadata)
    metadata.num_messages_in_batch = -1
    with pytest.raises(RemoteProtocolError, match="-1 messages"):
        EntryColumns().add(7, 1, 0, entry, metadata)
    metadata.compression = 1
    with pytest.raises(RemoteProtocolError):
        EntryColumns().add(7, 1, 0, entry, metadata)
