"""Messages too large for one entry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.errors import MessageTooLargeError
from magnetar.protocol import MessageMetadata, encode_entry, plan_chunks
from magnetar.protocol.entry import CHECKSUM_PART_SIZE
from magnetar.protocol.payload.chunk import TOTAL_SIZE_MAX


@given(st.integers(0, 5000), st.integers(100, 400), st.integers(1, 500))
def test_chunks_cover_the_payload_and_fit(total: int, message_max: int, chunk_max: int) -> None:
    metadata = MessageMetadata("producer", 2**40, 1)
    plan = plan_chunks(metadata, total, message_size_max=message_max, chunk_size_max=chunk_max)
    payload = bytes(i % 251 for i in range(total))
    gathered = b""
    for chunk_id in range(plan.count):
        plan.label(metadata, chunk_id)
        part = payload[plan.first(chunk_id) : plan.first(chunk_id + 1)]
        assert len(part) <= chunk_max
        assert len(metadata.encode()) + len(part) <= message_max
        gathered += part
    assert gathered == payload


def test_every_chunk_says_what_it_is_of() -> None:
    metadata = MessageMetadata("producer", 7, 1)
    plan = plan_chunks(metadata, 1000, message_size_max=5 << 20, chunk_size_max=300)
    assert (plan.count, plan.chunk_size, plan.total_size) == (4, 300, 1000)
    for chunk_id in range(4):
        plan.label(metadata, chunk_id)
        assert metadata.uuid == "producer-7"
        assert metadata.chunk_id == chunk_id
        assert (metadata.num_chunks_from_msg, metadata.total_chunk_msg_size) == (4, 1000)


@pytest.mark.parametrize("total", [0, 1, 300])
def test_a_message_that_fits_is_an_ordinary_one(total: int) -> None:
    metadata = MessageMetadata("producer", 7, 1)
    before = metadata.encode()
    plan = plan_chunks(metadata, total, message_size_max=5 << 20, chunk_size_max=300)
    assert plan.count == 1
    plan.label(metadata, 0)
    assert metadata.encode() == before
    assert (plan.first(0), plan.first(1)) == (0, total)


def test_a_message_of_exactly_the_limit_is_not_split() -> None:
    metadata = MessageMetadata("producer", 7, 1)
    size = len(metadata.encode())
    assert plan_chunks(metadata, 1000 - size, message_size_max=1000).count == 1
    assert plan_chunks(metadata, 1001 - size, message_size_max=1000).count == 2


def test_a_chunk_fills_an_entry_that_a_broker_takes() -> None:
    metadata = MessageMetadata("producer", 7, 1)
    plan = plan_chunks(metadata, 3000, message_size_max=1000)
    plan.label(metadata, 0)
    entry = encode_entry(metadata.encode(), bytes(plan.chunk_size))
    assert len(entry) <= 1000 + CHECKSUM_PART_SIZE + 4


def test_metadata_that_leaves_no_room_is_refused() -> None:
    metadata = MessageMetadata("producer", 7, 1)
    metadata.properties = [("key", "x" * 1000)]
    with pytest.raises(MessageTooLargeError, match="properties and keys alone") as caught:
        plan_chunks(metadata, 5000, message_size_max=1000)
    assert caught.value.size_max == 1000
    assert caught.value.size > 1000


def test_a_message_beyond_what_a_chunk_can_say_is_refused() -> None:
    metadata = MessageMetadata("producer", 7, 1)
    with pytest.raises(MessageTooLargeError, match="split it"):
        plan_chunks(metadata, TOTAL_SIZE_MAX + 1, message_size_max=5 << 20)


def test_a_label_beyond_the_plan_is_our_mistake() -> None:
    metadata = MessageMetadata("producer", 7, 1)
    plan = plan_chunks(metadata, 1000, message_size_max=5 << 20, chunk_size_max=300)
    with pytest.raises(AssertionError):
        plan.label(metadata, 4)
