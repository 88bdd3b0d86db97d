"""Messages put together from chunks: what becomes whole, what is given up, what it costs."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from magnetar.client.consumer.chunk.assembler import (
    ACKED_MAX,
    AGAIN_MS,
    CHUNK_OVERHEAD,
    COMPLETE_MAX,
    COUNT_MAX,
    KEPT,
    REFUSED,
    SET_ASIDE_MAX,
    WHOLE,
    ChunkAssembler,
)
from magnetar.protocol import MessageMetadata

EXPIRE_MS = 1000


@dataclass
class Chunk:
    """One chunk where it stands in the topic; its payload says what it is."""

    uuid: str
    id: int
    count: int
    total: int
    payload: bytes
    publish_ms: int = 0

    def metadata(self) -> MessageMetadata:
        metadata = MessageMetadata("maker", 0, self.publish_ms)
        metadata.uuid = self.uuid
        metadata.chunk_id = self.id
        metadata.num_chunks_from_msg = self.count
        metadata.total_chunk_msg_size = self.total
        return metadata


def chunks_of(uuid: str, payload: bytes, size: int, publish_ms: int = 0) -> list[Chunk]:
    parts = [payload[first : first + size] for first in range(0, len(payload), size)]
    return [
        Chunk(uuid, number, len(parts), len(payload), part, publish_ms)
        for number, part in enumerate(parts)
    ]


@dataclass
class Rig:
    """An assembler, a clock, and what came of everything."""

    single: bool = True
    count_max: int = 10
    size_max: int = 1 << 20
    ack_oldest: bool = False
    expire_ms: int = EXPIRE_MS
    now_ms: int = 0
    whole: list[bytes] = field(default_factory=list)
    keys: list[list[int]] = field(default_factory=list)
    garbage: list[int] = field(default_factory=list)
    again: list[int] = field(default_factory=list)
    last: int = -1

    def __post_init__(self) -> None:
        self.assembler = ChunkAssembler(
            count_max=self.count_max,
            size_max=self.size_max,
            expire_ms=self.expire_ms,
            ack_oldest=self.ack_oldest,
            single=self.single,
        )

    def add(self, key: int, chunk: Chunk, redelivery_count: int = 0) -> int:
        before = self.last if self.last < key else -1
        outcome = self.assembler.add(
            key,
            before,
            chunk.metadata(),
            b"head" + chunk.payload,
            4,
            redelivery_count,
            self.now_ms,
        )
        self.last = key
        if outcome == WHOLE:
            whole = self.assembler.take_whole()
            self.whole.append(whole.payload)
            self.keys.append(whole.keys)
        self.take()
        return outcome

    def take(self) -> None:
        self.garbage += self.assembler.take_garbage()
        self.again += self.assembler.take_again()

    def pass_ms(self, ms: int, reachable: bool = True) -> None:
        """Time passes, with ticks when they are wanted."""
        end = self.now_ms + ms
        while (at := self.assembler.next_ms()) is not None and at <= end:
            self.now_ms = max(self.now_ms, at)
            self.assembler.tick(self.now_ms, reachable)
            self.take()
        self.now_ms = end

    def idle(self) -> bool:
        return len(self.assembler) == self.assembler.growing == self.assembler.size == 0


ABC = chunks_of("m", b"aabbcc", 2)
XYZ = chunks_of("m", b"xxyyzz", 2)


def test_a_message_is_whole_with_its_last_chunk() -> None:
    rig = Rig()
    assert [rig.add(7 + n, chunk) for n, chunk in enumerate(ABC)] == [KEPT, KEPT, WHOLE]
    assert (rig.whole, rig.keys, rig.garbage) == ([b"aabbcc"], [[7, 8, 9]], [])
    assert rig.idle()


def test_messages_of_several_producers_interleave() -> None:
    rig = Rig()
    other = chunks_of("n", b"1234", 2)
    for key, chunk in enumerate([ABC[0], other[0], ABC[1], other[1], ABC[2]]):
        rig.add(key, chunk)
    assert rig.whole == [b"1234", b"aabbcc"]
    assert rig.keys == [[1, 3], [0, 2, 4]]


def test_a_chunk_that_was_sent_twice_is_garbage() -> None:
    """#21101: duplicates leave no hole in the acks."""
    rig = Rig()
    for key, chunk in enumerate([ABC[0], ABC[1], ABC[1], ABC[0 + 1], ABC[2]]):
        rig.add(key, chunk)
    assert (rig.whole, rig.keys) == ([b"aabbcc"], [[0, 1, 4]])
    assert rig.garbage == [2, 3]


@pytest.mark.parametrize("single", [True, False])
def test_a_first_chunk_that_was_sent_again_begins_anew(single: bool) -> None:
    """#21070: the beginning before it is garbage, and corrupts nothing."""
    rig = Rig(single=single)
    for key, chunk in enumerate([ABC[0], ABC[1], XYZ[0], XYZ[1], XYZ[2]]):
        rig.add(key, chunk)
    assert (rig.whole, rig.keys, rig.garbage) == ([b"xxyyzz"], [[2, 3, 4]], [0, 1])
    assert rig.idle()


def test_a_new_message_may_have_the_name_of_one_that_was_never_finished() -> None:
    """A producer without deduplication counts from 0 again after a restart."""
    rig = Rig()
    longer = chunks_of("m", b"0123456789", 2)
    for key, chunk in enumerate([ABC[0], *longer]):
        rig.add(key, chunk)
    assert (rig.whole, rig.garbage) == ([b"0123456789"], [])
    rig.pass_ms(10 * EXPIRE_MS)
    assert rig.garbage == [0]


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize(
    "other", [chunks_of("m", b"01234567", 2, 5), chunks_of("m", b"012345", 2, 6)]
)
def test_messages_of_a_producer_that_was_started_anew_come_side_by_side(
    single: bool, other: list[Chunk]
) -> None:
    """It counts from 0 again and gives other messages the same uuids: each becomes whole."""
    rig = Rig(single=single)
    old = chunks_of("m", b"aabbcc", 2, 5)
    # The newer one is there first, for the older one was delayed.
    for key, chunk in [(10, other[0]), (0, old[0]), (1, old[1]), (11, other[1]), (2, old[2])]:
        assert rig.add(key, chunk) != REFUSED
    for key, chunk in enumerate(other[2:], 12):
        rig.add(key, chunk)
    assert rig.whole == [b"aabbcc", b"".join(chunk.payload for chunk in other)]
    assert (rig.garbage, rig.again) == ([], [])


@pytest.mark.parametrize("single", [True, False])
def test_chunks_that_are_delivered_again_begin_anew_and_ack_nothing(single: bool) -> None:
    rig = Rig(single=single)
    for key in (0, 1, 0, 1, 2):
        rig.add(key, ABC[key])
    assert (rig.whole, rig.keys, rig.garbage, rig.again) == ([b"aabbcc"], [[0, 1, 2]], [], [])


def test_a_known_chunk_that_comes_again_alone_is_passed_over() -> None:
    rig = Rig(single=False)
    for key in (0, 1, 1, 2):
        rig.add(key, ABC[key])
    assert (rig.whole, rig.garbage, rig.again) == ([b"aabbcc"], [], [])


def test_a_gap_breaks_a_message_until_its_time_is_up() -> None:
    rig = Rig()
    rig.add(0, ABC[0])
    rig.add(2, ABC[2])
    assert rig.assembler.size == 0
    rig.pass_ms(EXPIRE_MS - 1)
    assert rig.garbage == []
    rig.pass_ms(1)
    assert (rig.whole, rig.garbage, rig.again) == ([], [0, 2], [])
    assert rig.idle()


def test_where_consumers_share_what_is_missed_is_asked_for_again() -> None:
    rig = Rig(single=False)
    rig.add(1, ABC[1])
    rig.add(2, ABC[2])
    rig.pass_ms(EXPIRE_MS // 4)
    assert (rig.again, rig.garbage) == ([1, 2], [])
    for key in (0, 1, 2):
        rig.add(key, ABC[key])
    assert (rig.whole, rig.garbage) == ([b"aabbcc"], [])
    rig.pass_ms(2 * EXPIRE_MS)
    assert (rig.again, rig.garbage) == ([1, 2], [])
    assert rig.idle()


def test_late_chunks_come_again_each_in_its_time() -> None:
    rig = Rig(single=False)
    rig.add(10, XYZ[0])
    rig.add(0, ABC[0])
    rig.pass_ms(EXPIRE_MS // 8)
    rig.add(2, ABC[1])
    rig.add(11, XYZ[1])
    rig.pass_ms(EXPIRE_MS // 8)
    assert rig.again == [0]
    rig.pass_ms(EXPIRE_MS // 8)
    assert rig.again == [0, 2]


def test_one_consumer_gives_up_what_stands_before_what_it_has() -> None:
    rig = Rig()
    rig.add(10, XYZ[0])
    rig.add(2, ABC[1])
    rig.pass_ms(EXPIRE_MS)
    assert rig.garbage == [10, 2]


def test_chunks_of_a_broken_message_are_known_in_order() -> None:
    rig = Rig(single=False)
    rig.add(5, ABC[2])
    rig.add(3, ABC[1])
    rig.add(3, ABC[1])
    rig.pass_ms(EXPIRE_MS // 4)
    assert rig.again == [3, 5]


def test_a_beginning_that_comes_late_brings_the_rest_back_at_once() -> None:
    rig = Rig(single=False)
    rig.add(1, ABC[1])
    rig.add(0, ABC[0])
    assert rig.again == [1]
    rig.add(1, ABC[1])
    rig.add(2, ABC[2])
    assert rig.whole == [b"aabbcc"]


def test_orphans_are_asked_for_a_few_times_and_then_given_up() -> None:
    """Go client #1397: they do not stay in the backlog for ever."""
    rig = Rig(single=False)
    rig.add(2, ABC[2])
    for _ in range(8):
        rig.pass_ms(EXPIRE_MS // 4)
        for key in rig.again:
            rig.add(key, ABC[key])
        if rig.garbage:
            break
        assert rig.again == [2]
        rig.again.clear()
    assert rig.garbage == [2]
    assert rig.now_ms == EXPIRE_MS
    assert rig.idle()


def test_a_beginning_without_its_middle_is_given_up_too() -> None:
    rig = Rig(single=False)
    for key in (0, 2):
        rig.add(key, ABC[key])
    while not rig.garbage:
        rig.pass_ms(EXPIRE_MS // 4)
        for key in rig.again:
            rig.add(key, ABC[key])
        rig.again.clear()
        assert rig.now_ms <= EXPIRE_MS
    assert rig.garbage == [0, 2]
    assert rig.idle()


def test_an_older_copy_waits_until_the_newer_one_is_whole() -> None:
    rig = Rig(single=False)
    rig.add(10, XYZ[0])
    rig.add(0, ABC[0])  # delivered again, and older
    rig.add(1, ABC[1])
    assert (rig.garbage, rig.again) == ([], [])
    rig.add(11, XYZ[1])
    rig.add(12, XYZ[2])
    assert rig.whole == [b"xxyyzz"]
    rig.pass_ms(EXPIRE_MS // 4)
    assert rig.again == [0, 1]
    for key in (0, 1, 2):
        rig.add(key, ABC[key])
    assert rig.whole == [b"xxyyzz", b"aabbcc"]
    assert rig.garbage == []


def test_one_consumer_that_goes_back_begins_with_the_older_copy() -> None:
    rig = Rig()
    rig.add(10, XYZ[0])
    for key in (0, 1, 2):
        rig.add(key, ABC[key])
    assert (rig.whole, rig.garbage) == ([b"aabbcc"], [])


# ---- Limits ------------------------------------------------------------------


def test_the_oldest_makes_room_and_comes_again() -> None:
    rig = Rig(count_max=2)
    for key, name in enumerate(["a", "b", "c"]):
        rig.add(key, chunks_of(name, b"12345678", 4)[0])
    assert rig.assembler.growing == 2
    rig.add(3, chunks_of("a", b"12345678", 4)[1])
    assert (rig.whole, rig.garbage) == ([], [])
    rig.add(4, chunks_of("b", b"12345678", 4)[1])
    rig.add(5, chunks_of("c", b"12345678", 4)[1])
    assert len(rig.whole) == 2
    rig.pass_ms(EXPIRE_MS)
    assert (rig.again, rig.garbage) == ([0, 3], [])
    # Everything comes again; until then it is known where it stands.
    rig.assembler.expect_all(rig.now_ms)
    assert rig.assembler.pending_keys(100) == [0, 3]
    for key, number in ((0, 0), (3, 1)):
        rig.add(key, chunks_of("a", b"12345678", 4)[number])
    assert rig.keys[-1] == [0, 3]
    assert rig.idle()
    assert not rig.assembler.active


def test_the_oldest_is_acked_where_that_is_wanted_and_never_returns() -> None:
    """testMaxPendingChunkMessages."""
    rig = Rig(count_max=1, ack_oldest=True)
    first, second = chunks_of("a", b"123456", 2), chunks_of("b", b"1234", 2)
    rig.add(0, first[0])
    rig.add(1, first[1])
    rig.add(2, second[0])
    assert rig.garbage == [0, 1]
    rig.add(3, first[2])
    rig.add(4, second[1])
    assert (rig.whole, rig.garbage) == ([b"1234"], [0, 1, 3])
    assert rig.idle()
    rig.pass_ms(5 * EXPIRE_MS)
    assert (rig.garbage, rig.again) == ([0, 1, 3], [])


def test_bytes_are_limited_too() -> None:
    size = 10_000
    rig = Rig(size_max=2 * (size + CHUNK_OVERHEAD), count_max=0)
    for key in range(5):
        rig.add(key, Chunk(f"m{key}", 0, 2, size + 1, bytes(size)))
        assert rig.assembler.size <= rig.size_max
    assert rig.assembler.growing == 2


def test_there_is_no_limit_where_none_is_wanted() -> None:
    rig = Rig(count_max=0)
    for key in range(50):
        rig.add(key, Chunk(f"m{key}", 0, 2, 2, b"x"))
    assert rig.assembler.growing == 50


def test_what_is_set_aside_is_limited() -> None:
    rig = Rig()
    for key in range(SET_ASIDE_MAX + 10):
        rig.add(key, Chunk(f"m{key}", 1, 2, 2, b"x"))
    assert len(rig.assembler) == SET_ASIDE_MAX
    assert rig.add(10**9, ABC[0]) == KEPT
    assert rig.add(10**9 + 1, Chunk("last", 1, 2, 2, b"x")) == KEPT
    assert rig.assembler.growing == 1
    stray = Rig(single=False)
    stray.add(10**9, ABC[0])
    for key in range(SET_ASIDE_MAX + 10):
        stray.add(key, ABC[1])
    stray.pass_ms(EXPIRE_MS)
    assert len(stray.again) == SET_ASIDE_MAX


def test_what_is_expected_is_limited_too() -> None:
    rig = Rig(count_max=0)
    for key in range(SET_ASIDE_MAX + 10):
        rig.add(key, Chunk(f"m{key}", 0, 2, 2, b"x"))
    rig.assembler.expect_all(rig.now_ms)
    assert len(rig.assembler.pending_keys(10**9)) == SET_ASIDE_MAX
    assert rig.idle()


def test_what_was_discarded_is_not_expected() -> None:
    rig = Rig(count_max=1, ack_oldest=True)
    long = chunks_of("a", b"12345678", 2)
    rig.add(0, long[0])
    rig.add(1, chunks_of("b", b"1234", 2)[0])
    rig.add(2, long[1])
    assert rig.garbage == [0, 2]
    rig.assembler.expect_all(rig.now_ms)
    assert rig.assembler.pending_keys(100) == [1]


@pytest.mark.parametrize("expected", [False, True])
def test_of_a_message_that_was_acked_elsewhere_nothing_is_kept(expected: bool) -> None:
    rig = Rig()
    rig.add(3, ABC[0])
    rig.add(5, ABC[1])
    if expected:
        rig.assembler.expect_all(rig.now_ms)
    assert rig.assembler.acked_elsewhere(3, 9) == [5]
    assert rig.assembler.growing == rig.assembler.size == 0
    assert rig.assembler.pending_keys(100) == []
    rig.pass_ms(2 * EXPIRE_MS)
    assert (rig.garbage, rig.again) == ([], [])
    assert rig.idle()


def test_messages_that_were_acked_elsewhere_are_remembered_up_to_a_limit() -> None:
    rig = Rig()
    for number in range(ACKED_MAX + 1):
        rig.assembler.acked_elsewhere(10 * number, 10 * number + 9)
    rig.add(5, Chunk("forgotten", 1, 3, 6, b"bb"))
    rig.add(15, Chunk("known", 1, 3, 6, b"bb"))
    assert rig.garbage == [15]
    rig.assembler.clear()
    rig.add(25, Chunk("elsewhere", 1, 3, 6, b"bb"))
    assert rig.garbage == [15]


def test_an_acked_message_is_not_expected() -> None:
    rig = Rig()
    rig.add(0, ABC[0])
    rig.add(3, Chunk("n", 0, 2, 4, b"xx"))
    rig.assembler.expect_all(rig.now_ms)
    assert rig.assembler.forget_from(0) == []
    assert rig.assembler.pending_keys(100) == [3]


def test_another_copy_than_the_expected_one_has_all_its_time() -> None:
    rig = Rig()
    rig.add(0, ABC[0])
    rig.pass_ms(EXPIRE_MS - 1)
    rig.assembler.expect_all(rig.now_ms)
    rig.add(10, XYZ[0])
    rig.pass_ms(EXPIRE_MS - 1)
    assert rig.garbage == []
    rig.pass_ms(1)
    assert rig.garbage == [10]


@pytest.mark.parametrize("single", [True, False])
def test_the_copy_of_its_end_costs_a_message_no_time(single: bool) -> None:
    """The copy came before the message came again, which has all its time nonetheless."""
    rig = Rig(single=single)
    rig.pass_ms(10 * EXPIRE_MS)
    message = chunks_of("m", b"aabbcc", 2, rig.now_ms)
    for key, chunk in enumerate([*message, message[2]]):
        rig.add(key, chunk)
    rig.pass_ms(EXPIRE_MS // 8)
    rig.assembler.expect_all(rig.now_ms)
    for key in range(3):
        rig.add(key, message[key])
        rig.pass_ms(EXPIRE_MS - 1)
    assert (rig.whole, rig.garbage) == ([b"aabbcc", b"aabbcc"], [3])


@pytest.mark.parametrize("single", [True, False])
def test_a_copy_of_the_end_of_a_message_that_is_here_is_acked_and_not_asked_for(
    single: bool,
) -> None:
    """Seed 52000323: where consumers share, the message came again every few seconds with it."""
    rig = Rig(single=single)
    message = chunks_of("m", b"aabbcc", 2, 5)
    for key, chunk in enumerate([*message, message[1], message[2]]):
        rig.add(key, chunk)
    rig.pass_ms(10 * EXPIRE_MS)
    assert (rig.whole, rig.garbage, rig.again) == ([b"aabbcc"], [3, 4], [])
    # It stays so when the message is gone and the copy comes again.
    rig.assembler.expect_all(rig.now_ms)
    rig.add(4, message[2])
    assert (rig.garbage, rig.again) == ([3, 4, 4], [])


def test_a_message_of_the_same_uuid_is_not_taken_for_a_copy() -> None:
    """A producer that starts anew counts from 0 again."""
    for other in (chunks_of("m", b"aabbcc", 2, 6), chunks_of("m", b"aabbccdd", 2, 5)):
        rig = Rig(single=False)
        for key, chunk in enumerate(chunks_of("m", b"aabbcc", 2, 5)):
            rig.add(key, chunk)
        rig.add(10, other[1])
        assert rig.garbage == []
        rig.assembler.expect_all(rig.now_ms)
        for key, chunk in enumerate(other, 9):
            rig.add(key, chunk)
        assert rig.whole[1:] == [b"".join(chunk.payload for chunk in other)]
        assert rig.garbage == []


def test_what_comes_before_the_end_of_a_whole_message_is_not_taken_for_a_copy() -> None:
    """After a reset everything may come again, the end first."""
    rig = Rig(single=False)
    message = chunks_of("m", b"aabbcc", 2, 5)
    for key, chunk in enumerate(message):
        rig.add(key, chunk)
    rig.add(2, message[2])
    assert rig.garbage == []


def test_what_is_remembered_of_whole_messages_is_bounded_and_ends_with_a_seek() -> None:
    rig = Rig()
    for number in range(COMPLETE_MAX + 1):
        for place, chunk in enumerate(chunks_of(f"m{number}", b"aabb", 2)):
            rig.add(2 * number + place, chunk)
    key = 2 * COMPLETE_MAX + 2
    rig.add(key, chunks_of("m0", b"aabb", 2)[1])
    assert rig.garbage == []
    rig.add(key + 1, chunks_of("m1", b"aabb", 2)[1])
    assert rig.garbage == [key + 1]
    rig.assembler.clear()
    rig.add(key + 1, chunks_of("m1", b"aabb", 2)[1])
    assert rig.garbage == [key + 1]


def test_a_beginning_that_comes_last_has_all_its_time() -> None:
    rig = Rig(single=False)
    rig.pass_ms(10 * EXPIRE_MS)
    message = chunks_of("m", b"aabbcc", 2, rig.now_ms)
    rig.add(1, message[1])
    rig.add(2, message[2])
    rig.pass_ms(EXPIRE_MS // 4)
    assert rig.again == [1, 2]
    for key in range(3):
        rig.add(key, message[key])
        rig.pass_ms(EXPIRE_MS - 1)
    assert (rig.whole, rig.garbage) == ([b"aabbcc"], [])


def test_an_evicted_message_has_its_time_while_it_comes_again() -> None:
    """Nothing new came for long, but what is known of it is on its way."""
    rig = Rig(count_max=1)
    rig.pass_ms(10 * EXPIRE_MS)
    message, other = chunks_of("m", b"aabbcc", 2, rig.now_ms), chunks_of("n", b"xy", 1, rig.now_ms)
    for key, chunk in enumerate([message[0], *other, message[1], message[2]]):
        rig.add(key, chunk)
    rig.pass_ms(EXPIRE_MS)
    assert (rig.whole, rig.again) == ([b"xy"], [0, 3, 4])
    rig.assembler.expect_all(rig.now_ms)
    for key, chunk in zip([0, 3, 4], message, strict=True):
        rig.add(key, chunk)
        rig.pass_ms(EXPIRE_MS - 1)
    assert (rig.whole, rig.garbage) == ([b"xy", b"aabbcc"], [])


def test_an_evicted_message_is_not_given_up_for_a_copy_that_only_begins() -> None:
    rig = Rig(count_max=1)
    other = chunks_of("n", b"xy", 1)
    for key, chunk in enumerate([ABC[0], *other, ABC[1], ABC[2], ABC[0]]):
        rig.add(key, chunk)
    rig.pass_ms(EXPIRE_MS)
    assert (rig.garbage, rig.again) == ([], [0, 3, 4, 5])
    rig.assembler.expect_all(rig.now_ms)
    for key, chunk in zip([0, 3, 4, 5], [*ABC, ABC[0]], strict=True):
        rig.add(key, chunk)
    assert rig.whole == [b"xy", b"aabbcc"]
    rig.pass_ms(2 * EXPIRE_MS)
    assert rig.garbage == [5]


def test_evicted_messages_come_again_where_nothing_expires() -> None:
    rig = Rig(count_max=1, expire_ms=0, single=False)
    rig.add(0, ABC[0])
    rig.add(1, Chunk("n", 0, 2, 4, b"xx"))
    rig.pass_ms(AGAIN_MS)
    assert (rig.again, rig.garbage) == ([0], [])


# ---- Time --------------------------------------------------------------------


def test_an_incomplete_message_is_given_up_when_nothing_comes() -> None:
    """testExpireIncompleteChunkMessage."""
    rig = Rig()
    rig.add(0, ABC[0])
    rig.pass_ms(EXPIRE_MS - 1)
    rig.add(1, ABC[1])
    rig.pass_ms(EXPIRE_MS - 1)
    assert rig.garbage == []
    rig.pass_ms(1)
    assert rig.garbage == [0, 1]
    assert rig.idle()
    assert rig.assembler.next_ms() is None


def test_a_message_that_never_expires_is_kept() -> None:
    rig = Rig(expire_ms=0)
    rig.add(0, ABC[0])
    rig.add(5, Chunk("n", 1, 2, 4, b"xx"))
    rig.pass_ms(10**9)
    assert (rig.garbage, rig.again) == ([], [])
    rig.add(6, ABC[1])
    rig.add(7, ABC[2])
    assert rig.whole == [b"aabbcc"]


def test_a_message_is_not_given_up_while_its_rest_cannot_come() -> None:
    """The consumer has no room: that is no reason to lose what waits for it."""
    rig = Rig()
    rig.add(0, ABC[0])
    rig.pass_ms(20 * EXPIRE_MS, reachable=False)
    assert rig.garbage == []
    rig.add(1, ABC[1])
    rig.add(2, ABC[2])
    assert rig.whole == [b"aabbcc"]


def test_a_message_is_not_given_up_behind_a_backlog_of_the_same_time() -> None:
    rig = Rig()
    rig.add(0, ABC[0])
    for key in range(1, 101):
        rig.pass_ms(EXPIRE_MS // 10)
        rig.assembler.saw(key, 1, rig.now_ms)
    assert rig.garbage == []
    # What came was published so much later that its rest would have been before it.
    rig.assembler.saw(101, EXPIRE_MS + 1, rig.now_ms)
    rig.pass_ms(EXPIRE_MS // 4)
    assert rig.garbage == [0]


def test_what_only_comes_again_keeps_nothing_alive() -> None:
    rig = Rig(single=False, count_max=2)
    orphans = {key: chunks_of(f"m{key}", b"12", 1)[0] for key in range(3)}
    for key, chunk in orphans.items():
        rig.add(key, chunk)
    while len(rig.garbage) < 3:
        rig.pass_ms(EXPIRE_MS // 4)
        for key in rig.again:
            rig.add(key, orphans[key])
        rig.again.clear()
        assert rig.now_ms <= 3 * EXPIRE_MS
    assert sorted(rig.garbage) == [0, 1, 2]
    rig.pass_ms(EXPIRE_MS)
    assert rig.idle()


@dataclass
class Away:
    """Two chunks of a message came here and left, and another consumer has all of it."""

    single: bool
    here_ms: int

    def __post_init__(self) -> None:
        self.rig = Rig(single=self.single)
        self.rig.add(0, ABC[0])
        self.rig.add(1, ABC[1])
        self.rig.pass_ms(self.here_ms)
        self.rig.assembler.went_elsewhere(self.rig.now_ms)
        self.rig.pass_ms(10 * EXPIRE_MS)

    def come_back(self, *keys: int) -> Rig:
        for key in keys:
            self.rig.add(key, ABC[key])
        return self.rig


SINGLE_OR_SHARED = pytest.mark.parametrize("single", [True, False])


@SINGLE_OR_SHARED
def test_what_another_consumer_held_meanwhile_is_not_given_up_when_it_comes_back(
    single: bool,
) -> None:
    """Seed 5006339: the first chunk was acked, and the rest could never be a message again."""
    rig = Away(single, here_ms=0).come_back(0, 1)
    rig.pass_ms(EXPIRE_MS - 1)
    rig.add(2, ABC[2])
    assert (rig.whole, rig.garbage) == ([b"aabbcc"], [])


@SINGLE_OR_SHARED
def test_what_comes_back_with_its_time_nearly_over_can_still_become_whole(single: bool) -> None:
    """Each known chunk may take a while, and the next one must be given time to come."""
    away = Away(single, here_ms=EXPIRE_MS - 1)
    away.come_back(0).pass_ms(EXPIRE_MS // 2)
    away.come_back(1).pass_ms(EXPIRE_MS // 4 - 1)
    rig = away.come_back(2)
    assert (rig.whole, rig.garbage) == ([b"aabbcc"], [])


@SINGLE_OR_SHARED
def test_what_comes_back_and_never_becomes_whole_has_the_time_that_it_had(single: bool) -> None:
    rig = Away(single, here_ms=EXPIRE_MS // 2).come_back(0, 1)
    rig.pass_ms(EXPIRE_MS // 2 - 1)
    assert rig.garbage == []
    rig.pass_ms(1)
    assert rig.garbage == [0, 1]
    assert rig.idle()


def test_what_was_published_while_a_message_was_away_is_no_proof_that_its_rest_is_gone() -> None:
    away = Away(False, here_ms=EXPIRE_MS // 2)
    away.rig.assembler.saw(9, 100 * EXPIRE_MS, away.rig.now_ms)
    rig = away.come_back(0, 1)
    rig.pass_ms(EXPIRE_MS - 1)  # and something new came, so the consumer is not idle
    assert rig.garbage == []
    rig.assembler.saw(10, 101 * EXPIRE_MS, rig.now_ms)
    rig.pass_ms(EXPIRE_MS // 4)
    assert rig.garbage == [0, 1]


def test_the_end_of_a_message_that_another_consumer_held_is_not_given_up_when_it_comes_back() -> (
    None
):
    rig = Rig(single=False)
    rig.add(1, ABC[1])
    rig.pass_ms(EXPIRE_MS // 4)
    assert rig.again == [1]
    rig.pass_ms(10 * EXPIRE_MS)
    rig.add(1, ABC[1])
    rig.pass_ms(EXPIRE_MS // 8)
    assert rig.garbage == []
    for key in range(3):
        rig.add(key, ABC[key])
    assert (rig.whole, rig.garbage) == ([b"aabbcc"], [])


def test_a_call_for_everything_without_a_connection_takes_no_time_either() -> None:
    rig = Rig()
    rig.add(0, ABC[0])
    rig.pass_ms(EXPIRE_MS // 4)
    rig.assembler.disconnected(rig.now_ms)
    rig.pass_ms(EXPIRE_MS // 2)
    rig.assembler.expect_all(rig.now_ms)
    rig.assembler.connected(rig.now_ms)
    rig.add(0, ABC[0])
    rig.pass_ms(3 * EXPIRE_MS // 4 - 1)
    assert rig.garbage == []
    rig.pass_ms(1)
    assert rig.garbage == [0]


def test_whoever_calls_for_everything_all_the_time_still_gives_up_what_is_incomplete() -> None:
    rig = Rig()
    for _ in range(4):
        rig.add(0, ABC[0])
        rig.pass_ms(EXPIRE_MS // 4)
        rig.assembler.expect_all(rig.now_ms)
    rig.add(0, ABC[0])
    rig.pass_ms(0)
    assert rig.garbage == [0]


# ---- What does not fit together ----------------------------------------------

BAD = [
    (Chunk("", 0, 2, 4, b"xx"), "does not say of which message"),
    (Chunk("m", -1, 2, 4, b"xx"), "chunk -1 of m, which has 2"),
    (Chunk("m", 2, 2, 4, b"xx"), "chunk 2 of m, which has 2"),
    (Chunk("m", 0, 0, 4, b"xx"), "chunk 0 of m, which has 0"),
    (Chunk("m", 0, -3, 4, b"xx"), "which has -3"),
    (Chunk("m", 0, COUNT_MAX + 1, 2**31 - 1, b"xx"), f"the limit is {COUNT_MAX}"),
    (Chunk("m", 0, 3, 2, b"x"), "2 bytes in all"),
    (Chunk("m", 0, 3, -5, b"x"), "-5 bytes in all"),
    (Chunk("m", 0, 2, 4, b""), "this one with 0"),
    (Chunk("m", 0, 2, (1 << 20) + 1, b"x"), "raise max_message_size_total"),
    (Chunk("m", 0, 2, 3, b"xxxx"), "announced 3 in all"),
]


@pytest.mark.parametrize(("chunk", "says"), BAD, ids=[says for _, says in BAD])
def test_impossible_chunks_are_refused(chunk: Chunk, says: str) -> None:
    rig = Rig()
    assert rig.add(0, chunk) == REFUSED
    assert says in rig.assembler.problem
    assert rig.idle()
    assert rig.garbage == []


@pytest.mark.parametrize("count", [2, 4])
def test_a_chunk_of_another_count_is_of_another_message(count: int) -> None:
    rig = Rig()
    rig.add(0, ABC[0])
    rig.add(1, Chunk("m", 1, count, 6, b"bb"))
    rig.add(2, ABC[1])
    rig.add(3, ABC[2])
    assert (rig.whole, rig.keys, rig.garbage) == ([b"aabbcc"], [[0, 2, 3]], [])
    rig.pass_ms(10 * EXPIRE_MS)
    assert rig.garbage == [1]


def test_a_changed_total_is_refused() -> None:
    rig = Rig()
    rig.add(0, ABC[0])
    assert rig.add(1, Chunk("m", 1, 3, 7, b"bb")) == REFUSED


@pytest.mark.parametrize("last", [b"c", b"ccc"])
def test_a_message_of_another_size_than_announced_is_refused_whole(last: bytes) -> None:
    rig = Rig()
    rig.add(0, ABC[0])
    rig.add(1, ABC[1])
    assert rig.add(2, Chunk("m", 2, 3, 6, last)) == REFUSED
    assert "announced 6 in all" in rig.assembler.problem
    assert (rig.whole, rig.garbage) == ([], [0, 1])
    assert rig.idle()


def test_what_lies_before_is_known_of_messages_that_can_become_whole() -> None:
    rig = Rig(count_max=1)
    rig.last = 3
    rig.add(5, chunks_of("a", b"12345678", 4)[0])
    rig.last = 8
    rig.add(9, chunks_of("b", b"12345678", 4)[0])  # evicts a
    rig.add(10, chunks_of("c", b"12345678", 4)[1])  # broken
    assert rig.assembler.pending_keys(100) == [5, 9] or rig.assembler.pending_keys(100) == [9, 5]
    assert rig.assembler.before(100) == 3
    assert rig.assembler.before(5) is None
    assert rig.assembler.forget_from(9) == [9]
    assert rig.assembler.forget_from(9) == []
    rig.assembler.drop(chunks_of("a", b"12345678", 4)[1].metadata())
    rig.assembler.drop(chunks_of("nobody", b"12345678", 4)[1].metadata())
    assert rig.assembler.before(100) is None
    rig.assembler.clear()
    assert rig.idle()


def test_the_redelivery_count_is_that_of_the_whole_message() -> None:
    rig = Rig(single=False)
    counts = [2, 5, 3]
    for key, chunk in enumerate(ABC):
        rig.assembler.add(key, key - 1, chunk.metadata(), chunk.payload, 0, counts[key], 0)
    assert rig.assembler.take_whole().redelivery_count == 2


# ---- Everything at once ------------------------------------------------------


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_whatever_happens_only_whole_messages_come_out_and_nothing_is_left(
    data: st.DataObject,
) -> None:
    """Producers that interleave, connect again and die; one consumer that may go back.

    The model is the set of messages all chunks of which are in the topic, in order.
    """
    topic: list[Chunk] = []
    complete: list[bytes] = []
    open_messages: list[tuple[list[Chunk], int]] = []
    for number in range(data.draw(st.integers(1, 6), "messages")):
        size = data.draw(st.integers(2, 40))
        payload = bytes([number]) * size
        part = data.draw(st.integers(1, size - 1))
        open_messages.append((chunks_of(f"p-{number}", payload, part), 0))
    while open_messages:
        at = data.draw(st.integers(0, len(open_messages) - 1))
        chunks, sent = open_messages[at]
        step = data.draw(st.sampled_from(["send"] * 8 + ["again", "repeat", "die"]))
        if step == "die":
            del open_messages[at]
            continue
        if step == "again":
            sent = 0
        elif step == "repeat" and sent > 0:
            sent -= 1
        topic.append(chunks[sent])
        if sent + 1 == len(chunks):
            complete.append(b"".join(chunk.payload for chunk in chunks))
            del open_messages[at]
        else:
            open_messages[at] = (chunks, sent + 1)
    rig = Rig()
    acked: set[int] = set()
    position = 0
    rewinds = data.draw(st.integers(0, 2))
    while position < len(topic):
        if position not in acked:
            before = len(rig.garbage)
            outcome = rig.add(position, topic[position])
            assert outcome != REFUSED
            acked.update(rig.garbage[before:])
            if outcome == WHOLE:
                acked.update(rig.keys[-1])
        position += 1
        if rewinds and data.draw(st.booleans()):
            rewinds -= 1
            position = data.draw(st.integers(0, position))
    assert sorted(rig.whole) == sorted(complete)
    rig.pass_ms(10 * EXPIRE_MS)
    acked.update(rig.garbage)
    assert acked == set(range(len(topic)))
    assert rig.idle()
