"""The send queue: what receipts mean, and what leaves when."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.producer.send_queue import IGNORED, OUT_OF_STEP, STORED, Publish, SendQueue


def publish(sequence_id: int, *, count: int = 1, taken_ms: int = 0, size: int = 10) -> Publish:
    return Publish(
        sequence_id,
        sequence_id + count - 1,
        [b"head %d;" % sequence_id, b"entry %d;" % sequence_id],
        [None] * count,
        size=size,
        payload_size=size,
        metadata_size=5,
        batched=count > 1,
        taken_ms=taken_ms,
    )


def queue_of(*publishes: Publish) -> SendQueue:
    queue = SendQueue()
    for each in publishes:
        queue.add(each)
    return queue


def sequence_ids(publishes: list[Publish]) -> list[int]:
    return [each.sequence_id for each in publishes]


def test_receipts_concern_the_oldest() -> None:
    queue = queue_of(publish(5, count=3), publish(8))
    assert queue.judge(5) == STORED
    assert queue.judge(4) == IGNORED
    # Receipts name the lowest sequence id of an entry.
    assert queue.judge(7) == OUT_OF_STEP
    assert queue.judge(8) == OUT_OF_STEP
    assert queue.pop().count == 3
    assert queue.judge(5) == IGNORED
    assert queue.judge(8) == STORED
    queue.pop()
    assert queue.judge(8) == IGNORED
    assert queue.oldest is None


def test_entries_of_one_sequence_id_are_confirmed_one_by_one() -> None:
    queue = queue_of(publish(3), publish(3), publish(4))
    for _ in range(2):
        assert queue.judge(3) == STORED
        queue.pop()
    assert queue.judge(3) == IGNORED
    assert queue.judge(4) == STORED


def test_frames_are_those_of_all_entries_in_order() -> None:
    queue = queue_of(publish(0), publish(1))
    queue.rewind()
    parts = [part for frame in queue.write_on() for part in frame]
    assert b"".join(parts) == b"head 0;entry 0;head 1;entry 1;"
    assert queue.write_on() == []
    oldest = queue.oldest
    assert oldest is not None
    assert oldest.entry == b"entry 0;"


def test_what_the_broker_has_leaves_up_to_the_first_that_it_lacks() -> None:
    queue = queue_of(publish(0, count=3), publish(3, count=3), publish(6))
    assert queue.take_stored(-1) == []
    # The second is there in part, which cannot be: it is left to the broker.
    assert sequence_ids(queue.take_stored(4)) == [0]
    assert sequence_ids(queue.take_stored(99)) == [3, 6]
    assert len(queue) == 0


def test_large_entries_leave_and_the_others_keep_their_order() -> None:
    queue = queue_of(publish(0, size=10), publish(1, size=99), publish(2, size=20))
    assert sequence_ids(queue.take_larger(50, 1000)) == [1]
    # With their metadata.
    assert sequence_ids(queue.take_larger(50, 24)) == [2]
    assert sequence_ids(queue.take_all()) == [0]


@given(st.lists(st.booleans(), max_size=40))
def test_ordinals_tell_who_has_left(adds: list[bool]) -> None:
    queue = SendQueue()
    added = left = 0
    for add in adds:
        if add:
            queue.add(publish(added))
            added += 1
        elif len(queue):
            queue.pop()
            left += 1
        assert queue.last_ordinal == added - 1
        assert all(queue.have_left(ordinal) == (ordinal < left) for ordinal in range(added))
