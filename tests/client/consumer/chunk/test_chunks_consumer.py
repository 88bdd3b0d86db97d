"""A consumer of messages in chunks: permits, acks, redelivery, seeks, and what is refused."""

import random

import pytest
from client.chunk_model import (
    EXPIRE_MS,
    KINDS,
    PUBLISHED_MS,
    SHARED,
    SINGLE,
    chunk_entries,
    datas,
    publish,
    redelivered,
    rig_of,
    unacked,
)
from client.consumer_model import LEDGER, Rig, plain_entry
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from magnetar.client.consumer.dead_letter import dead_letter_properties
from magnetar.client.consumer.message import Message
from magnetar.client.option.options import ConsumerDeadLetterPolicy, ConsumerOptions, ReaderOptions
from magnetar.errors import SettingsError
from magnetar.model import ChunkMessageId, ConsumerType, MessageId
from magnetar.model.enums import CompressionType, ValidationError
from magnetar.model.position_key import wide_key
from magnetar.protocol import CommandAck, CommandAckResponse, MessageMetadata, encode_entry

# ---- Whole, and acked whole --------------------------------------------------


@KINDS
@pytest.mark.parametrize("queue", [0, 1, 2, 3, 1000])
def test_a_message_with_more_chunks_than_permits_comes_whole(
    kind: ConsumerType, queue: int
) -> None:
    """testSingleConsumer: chunks give their permits back at once."""
    rig = rig_of(kind, receiver_queue_size=queue)
    publish(rig, *chunk_entries(b"0123456789" * 3, 3), plain_entry(b"behind"))
    got = []
    for _ in range(2):
        if queue == 0:
            rig.core.request(1)
        rig.pump()
        message = rig.core.take()
        assert message is not None
        got.append(message)
        rig.pump()
    assert datas(got) == [b"0123456789" * 3, b"behind"]
    id = got[0].message_id()
    assert isinstance(id, ChunkMessageId)
    assert str(id) == f"({LEDGER},0,-1,-1);({LEDGER},9,-1,-1)"
    assert rig.core.stats.messages_dropped == 0
    assert rig.core.stats.chunks_received == 10


@KINDS
@pytest.mark.parametrize("by", ["message", "id", "bytes", "last chunk"])
def test_an_ack_names_every_chunk_at_once(kind: ConsumerType, by: str) -> None:
    rig = rig_of(kind)
    publish(rig, plain_entry(b"a"), *chunk_entries(b"abcdef", 2), plain_entry(b"b"))
    message = rig.take_all()[1]
    id = message.message_id()
    assert isinstance(id, ChunkMessageId)
    if by == "message":
        rig.core.acknowledge_message(message)
    elif by == "id":
        rig.core.acknowledge([id])
    elif by == "bytes":
        rig.core.acknowledge([MessageId.deserialize(id.serialize())])
    else:
        rig.core.acknowledge([id.last_chunk_message_id()])
    rig.pump()
    assert unacked(rig) == [0, 4]
    assert [[id.entry_id for id in ack.message_ids] for ack in rig.sent()] == [[1, 2, 3]]
    assert rig.core.acks.records.chunks == {}
    assert rig.core.stats.messages_acked == 1


@KINDS
@pytest.mark.parametrize("again", ["id", "last chunk"])
def test_an_ack_that_failed_names_every_chunk_when_it_is_given_again(
    kind: ConsumerType, again: str
) -> None:
    rig = rig_of(kind, ack_receipt_enabled=True)
    publish(rig, *chunk_entries(b"abcdef", 2))
    (message,) = rig.take_all()
    id = message.message_id()
    assert isinstance(id, ChunkMessageId)
    rig.core.acknowledge([id], rig.done)
    rig.core.flush()
    ack = next(command for command in rig.to_broker if isinstance(command, CommandAck))
    rig.to_broker.clear()
    rig.core.ack_response(CommandAckResponse(3, ack.request_id, 2, "the disk is full"))
    rig.core.acknowledge([id if again == "id" else id.last_chunk_message_id()], rig.done)
    rig.core.flush()
    rig.pump()
    assert [str(result) for result in rig.results] == ["the disk is full", "None"]
    assert unacked(rig) == []


def test_a_failover_consumer_gives_up_nothing_of_what_another_one_gets_now() -> None:
    """Else the other could not get the message again, if it does not ack it."""
    rig = rig_of(ConsumerType.Failover)
    entries = chunk_entries(b"abcdef", 2)
    publish(rig, *entries[:2])
    rig.pump()
    rig.core.became_inactive()
    rig.pass_time(2 * EXPIRE_MS)
    assert unacked(rig) == [0, 1]
    publish(rig, entries[2])
    rig.reconnect()
    assert datas(rig.take_all()) == [b"abcdef"]


def from_elsewhere(first: int, last: int) -> ChunkMessageId:
    return ChunkMessageId(MessageId(-1, LEDGER, first), MessageId(-1, LEDGER, last))


@pytest.mark.parametrize("why", ["its ack failed", "it was refused"])
def test_an_id_from_elsewhere_names_the_first_chunk_each_time(why: str) -> None:
    """Seed 84016244: the ends of the message were taken for all of it; the rest stayed (I6)."""
    rig = rig_of(SHARED, ack_receipt_enabled=True, negative_ack_redelivery_delay_ms=0)
    id = from_elsewhere(0, 2)
    if why == "its ack failed":
        rig.core.acknowledge([id], rig.done)
        rig.core.flush()
        (ack,) = [command for command in rig.to_broker if isinstance(command, CommandAck)]
        rig.core.ack_response(CommandAckResponse(3, ack.request_id, 2, "the disk is full"))
    else:
        rig.core.negative_acknowledge(id)
    rig.to_broker.clear()
    rig.core.acknowledge([id], rig.done)
    rig.core.flush()
    (ack,) = [command for command in rig.to_broker if isinstance(command, CommandAck)]
    (first,) = [named.first_chunk for named in ack.message_ids if named.entry_id == 2]
    assert first is not None
    assert first.entry_id == 0


def test_an_id_from_elsewhere_acks_what_it_names() -> None:
    rig = rig_of(SHARED)
    publish(rig, *chunk_entries(b"abcdef", 2))
    rig.core.acknowledge([from_elsewhere(0, 2)])
    assert rig.take_all() == []
    assert unacked(rig) == [1]
    # Whose the rest is cannot be known where consumers share: it goes when its time is up.
    rig.pass_time(EXPIRE_MS)
    assert unacked(rig) == []


def test_one_consumer_acks_what_lies_between_the_ends_of_an_id_from_elsewhere() -> None:
    """And nothing else: of the other message the first chunk came, so it can become whole."""
    rig = rig_of(SINGLE)
    mine = chunk_entries(b"abcdefgh", 2)
    other = chunk_entries(b"1234", 2, name="other")
    publish(rig, other[0], mine[0], plain_entry(b"x"), mine[1], other[1], mine[2], mine[3])
    rig.core.acknowledge([from_elsewhere(1, 6)])
    assert datas(rig.take_all()) == [b"x", b"1234"]
    rig.pump()
    assert unacked(rig) == [0, 2, 4]
    assert rig.core.stats.chunks_given_up == 2


@KINDS
def test_an_id_from_elsewhere_acks_the_chunks_that_are_here_and_those_that_come(
    kind: ConsumerType,
) -> None:
    rig = rig_of(kind)
    publish(rig, *chunk_entries(b"abcdefgh", 2), plain_entry(b"behind"))
    rig.broker_handles()
    for _ in range(2):
        assert rig.broker_delivers()
        assert rig.client_receives()
    assert rig.core.stats.chunks_received == 2
    rig.core.acknowledge([from_elsewhere(0, 3)])
    assert datas(rig.take_all()) == [b"behind"]
    rig.pump()
    assert unacked(rig) == [4]


@KINDS
def test_messages_of_several_producers_interleave(kind: ConsumerType) -> None:
    """testInterleavedChunks."""
    rig = rig_of(kind)
    first, second = chunk_entries(b"aaaa", 2, name="a"), chunk_entries(b"bbbb", 2, name="b")
    publish(rig, first[0], second[0], second[1], first[1])
    messages = rig.take_all()
    assert datas(messages) == [b"bbbb", b"aaaa"]
    rig.core.acknowledge_message(messages[1])
    rig.pump()
    assert unacked(rig) == [1, 2]


@pytest.mark.parametrize("kind", [CompressionType.LZ4, CompressionType.ZSTD])
def test_a_compressed_message_is_put_together_first(kind: CompressionType) -> None:
    rig = rig_of(SINGLE)
    payload = b"".join(b"%d," % number for number in range(3000))
    publish(rig, *chunk_entries(payload, 100, kind=kind))
    assert datas(rig.take_all()) == [payload]


# ---- Redelivery --------------------------------------------------------------


@pytest.mark.parametrize("by", ["message", "id"])
def test_a_refused_message_comes_again_whole(by: str) -> None:
    """#25220, #25229: all its positions are redelivered."""
    rig = rig_of(SHARED, negative_ack_redelivery_delay_ms=100)
    publish(rig, *chunk_entries(b"abcdef", 2), plain_entry(b"x"))
    message = rig.take_all()[0]
    rig.core.negative_acknowledge(message if by == "message" else message.message_id())
    rig.pass_time(100)
    assert redelivered(rig) == [[0, 1, 2]]
    again = rig.take_all()
    assert datas(again) == [b"abcdef"]
    assert again[0].redelivery_count() == 1
    rig.core.acknowledge_message(again[0])
    rig.pump()
    assert unacked(rig) == [3]


@KINDS
def test_the_ack_timeout_covers_all_chunks(kind: ConsumerType) -> None:
    """testLargeMessageAckTimeOut, testTrackChunkedMessageId."""
    rig = rig_of(kind, unacked_messages_timeout_ms=1000)
    publish(rig, *chunk_entries(b"abcdef", 2), *chunk_entries(b"123", 2, sequence_id=1))
    assert datas(rig.take_all()) == [b"abcdef", b"123"]
    rig.pass_time(3000)
    messages = rig.take_all()
    assert datas(messages) == [b"abcdef", b"123"]
    if kind == SINGLE:
        rig.core.acknowledge_cumulative(messages[1])
    else:
        rig.core.acknowledge(messages)
    rig.pump()
    assert unacked(rig) == []
    rig.pass_time(10_000)
    assert rig.take_all() == []


def test_a_dead_message_is_published_and_all_its_chunks_acked() -> None:
    policy = ConsumerDeadLetterPolicy(1)
    rig = rig_of(SHARED, negative_ack_redelivery_delay_ms=100, dead_letter_policy=policy)
    publish(rig, *chunk_entries(b"abcdef", 2))
    for _ in range(2):
        (message,) = rig.take_all()
        rig.core.negative_acknowledge(message)
        rig.pass_time(100)
    (dead,) = rig.core.take_dead()
    assert dead.data() == b"abcdef"
    origin = dead_letter_properties(dead, "billing")["ORIGIN_MESSAGE_ID"]
    assert origin == f"{LEDGER}:0:-1;{LEDGER}:2:-1"
    # It comes again meanwhile, after a lost connection, and is not handed out.
    rig.reconnect()
    assert rig.take_all() == []
    rig.core.dead_published(dead)
    rig.pump()
    assert unacked(rig) == []
    rig.reconnect()
    assert rig.take_all() == []
    assert len(rig.core._assembler) == 0


def test_a_dead_message_that_could_not_be_published_comes_again() -> None:
    policy = ConsumerDeadLetterPolicy(1)
    rig = rig_of(SHARED, negative_ack_redelivery_delay_ms=100, dead_letter_policy=policy)
    publish(rig, *chunk_entries(b"abcdef", 2))
    for _ in range(2):
        rig.core.negative_acknowledge(rig.take_all()[0])
        rig.pass_time(100)
    rig.core.dead_failed(rig.core.take_dead()[0])
    rig.pass_time(100)
    (dead,) = rig.core.take_dead()
    rig.core.dead_published(dead)
    rig.pump()
    assert unacked(rig) == []


@KINDS
def test_after_a_lost_connection_chunks_are_gathered_anew(kind: ConsumerType) -> None:
    rig = rig_of(kind)
    entries = chunk_entries(b"abcdef", 2)
    publish(rig, entries[0], entries[1])
    assert rig.take_all() == []
    rig.reconnect()
    publish(rig, entries[2])
    assert datas(rig.take_all()) == [b"abcdef"]
    assert len(rig.core._assembler) == 0


@KINDS
def test_a_message_whose_end_was_sent_twice_is_not_given_up_while_it_comes_again(
    kind: ConsumerType,
) -> None:
    rig = rig_of(kind)
    entries = chunk_entries(b"abcdef", 2)
    publish(rig, *entries, entries[2])
    rig.pump()  # it is whole, and nobody takes it
    rig.reconnect()
    rig.broker_handles()
    for _ in range(3):
        rig.broker_delivers()
        rig.client_receives()
        rig.pass_time(1)
    assert datas(rig.take_all()) == [b"abcdef"]


@KINDS
def test_time_without_a_connection_costs_an_incomplete_message_nothing(
    kind: ConsumerType,
) -> None:
    rig = rig_of(kind)
    entries = chunk_entries(b"abcdef", 2)
    publish(rig, *entries[:2])
    rig.pump()
    rig.disconnect()
    rig.now += 10 * EXPIRE_MS
    rig.connect()
    rig.pump()
    rig.pass_time(EXPIRE_MS - 1)
    assert unacked(rig) == [0, 1]
    publish(rig, entries[2])
    assert datas(rig.take_all()) == [b"abcdef"]


@KINDS
def test_an_ack_of_a_message_that_is_on_its_way_again_drops_it(kind: ConsumerType) -> None:
    rig = rig_of(kind)
    publish(rig, *chunk_entries(b"abcdef", 2))
    (message,) = rig.take_all()
    rig.disconnect()
    rig.connect()
    rig.broker_handles()
    for _ in range(2):  # two of three chunks are here again
        rig.broker_delivers()
        rig.client_receives()
    rig.core.acknowledge_message(message)
    assert len(rig.core._assembler) == 0
    assert rig.take_all() == []
    assert unacked(rig) == []


# ---- Incomplete --------------------------------------------------------------


@KINDS
def test_orphans_are_acked_when_their_time_is_up(kind: ConsumerType) -> None:
    rig = rig_of(kind)
    entries = chunk_entries(b"abcdef", 2)
    publish(rig, entries[0], entries[1], plain_entry(b"x"))
    messages = rig.take_all()
    assert datas(messages) == [b"x"]
    rig.core.acknowledge_message(messages[0])
    rig.pump()
    rig.pass_time(EXPIRE_MS - 1)
    assert unacked(rig) == [0, 1]
    rig.pass_time(EXPIRE_MS)
    assert unacked(rig) == []
    assert rig.core.stats.chunks_given_up == 2
    rig.check_permits()


@KINDS
def test_a_missing_chunk_stalls_nothing(kind: ConsumerType) -> None:
    rig = rig_of(kind, receiver_queue_size=2)
    entries = chunk_entries(b"abcdef", 2)
    publish(rig, entries[0], entries[2], *[plain_entry(b"%d" % n) for n in range(10)])
    messages = rig.take_all()
    assert len(messages) == 10
    rig.core.acknowledge(messages)
    rig.pass_time(2 * EXPIRE_MS)
    assert unacked(rig) == []
    rig.check_permits()


@pytest.mark.parametrize("kind", [SINGLE, SHARED])
def test_too_many_incomplete_messages_come_again(kind: ConsumerType) -> None:
    rig = rig_of(kind, max_pending_chunked_message=1)
    first, second = chunk_entries(b"aaaa", 2, name="a"), chunk_entries(b"bbbb", 2, name="b")
    publish(rig, first[0], second[0], first[1], second[1])
    (message,) = rig.take_all()
    assert message.data() == b"bbbb"
    rig.core.acknowledge_message(message)
    rig.pass_time(EXPIRE_MS)
    (message,) = rig.take_all()
    assert message.data() == b"aaaa"
    rig.core.acknowledge_message(message)
    rig.pump()
    assert unacked(rig) == []


def test_or_are_acked_if_that_is_wanted() -> None:
    """testMaxPendingChunkMessages."""
    rig = rig_of(
        SINGLE,
        max_pending_chunked_message=1,
        auto_ack_oldest_chunked_message_on_queue_full=True,
    )
    first, second = chunk_entries(b"aaaa", 2, name="a"), chunk_entries(b"bbbb", 2, name="b")
    publish(rig, first[0], second[0], first[1], second[1])
    (message,) = rig.take_all()
    assert message.data() == b"bbbb"
    assert unacked(rig) == [1, 3]
    rig.core.acknowledge_message(message)
    rig.pump()
    assert unacked(rig) == []
    rig.reconnect()
    assert rig.take_all() == []


# ---- What is refused ---------------------------------------------------------


def damaged(**fields: object) -> bytes:
    metadata = MessageMetadata("maker", 0, PUBLISHED_MS)
    metadata.uuid = "maker-0"
    metadata.num_chunks_from_msg, metadata.chunk_id = 3, 1
    metadata.total_chunk_msg_size = 6
    for name, value in fields.items():
        setattr(metadata, name, value)
    return encode_entry(metadata.encode(), b"bb")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"chunk_id": 3}, "chunk 3 of maker-0, which has 3"),
        ({"chunk_id": None}, "chunk -1 of maker-0"),
        ({"total_chunk_msg_size": 7}, "says 7 bytes in all, others 6"),
        ({"total_chunk_msg_size": 2**31 - 1}, "raise max_message_size_total"),
        ({"uuid": None}, "does not say of which message"),
        ({"num_chunks_from_msg": 0, "chunk_id": 0}, "which has 0"),
    ],
)
def test_bad_chunks_are_refused_and_others_are_not_harmed(
    fields: dict[str, object], says: str
) -> None:
    rig = rig_of(SHARED, max_message_size_total=1000, receiver_queue_size=2)
    warnings: list[str] = []
    rig.core.unread.warn = warnings.append
    entries = chunk_entries(b"aabbcc", 2)
    publish(rig, entries[0], damaged(**fields), entries[1], entries[2])
    messages = rig.take_all()
    assert datas(messages) == [b"aabbcc"]
    assert len(warnings) == 1
    assert says in warnings[0]
    assert unacked(rig) == [0, 2, 3]
    (refusal,) = rig.sent()
    assert refusal.validation_error == ValidationError.UncompressedSizeCorruption
    assert rig.core.stats.entries_refused == 1
    rig.check_permits()


def test_a_message_that_cannot_be_decompressed_is_refused_whole() -> None:
    rig = rig_of(SINGLE)
    warnings: list[str] = []
    rig.core.unread.warn = warnings.append
    metadata = MessageMetadata("maker", 0, 1_000)
    metadata.uuid, metadata.num_chunks_from_msg = "maker-0", 2
    metadata.total_chunk_msg_size, metadata.uncompressed_size = 4, 100
    metadata.compression = CompressionType.ZSTD
    for number in range(2):
        metadata.chunk_id = number
        publish(rig, encode_entry(metadata.encode(), b"xx"))
    publish(rig, plain_entry(b"next"))
    assert datas(rig.take_all()) == [b"next"]
    assert unacked(rig) == [2]
    assert warnings == [
        f"a message of {rig.core.topic} is refused: maker-0 in 2 chunks cannot be decompressed"
    ]
    rig.check_permits()


def test_a_bomb_is_refused_before_it_takes_memory() -> None:
    """Few bytes that say that they become many."""
    rig = rig_of(SINGLE, max_message_size_total=10_000)
    payload = bytes(1_000_000)
    publish(rig, *chunk_entries(payload, 10, kind=CompressionType.ZSTD))
    assert rig.take_all() == []
    assert unacked(rig) == []
    assert rig.core.stats.entries_refused == 1


def test_options_are_checked_and_reach_the_consumer_of_a_reader() -> None:
    """testReaderChunkingConfiguration."""
    with pytest.raises(SettingsError, match="max_message_size_total"):
        ConsumerOptions("s", max_message_size_total=0)
    with pytest.raises(SettingsError, match="max_pending_chunked_message"):
        ReaderOptions(MessageId.earliest, max_pending_chunked_message=-1)
    options = ReaderOptions(
        MessageId.earliest,
        max_pending_chunked_message=3,
        auto_ack_oldest_chunked_message_on_queue_full=True,
        expire_time_of_incomplete_chunked_message_ms=5,
        max_message_size_total=1000,
    ).consumer_options("r")
    assert options.max_pending_chunked_message == 3
    assert options.auto_ack_oldest_chunked_message_on_queue_full
    assert options.expire_time_of_incomplete_chunked_message_ms == 5
    assert options.max_message_size_total == 1000


# ---- Where to begin ----------------------------------------------------------


def reader(rig: Rig) -> None:
    """The broker begins with the entry that SUBSCRIBE names, or with all that it has."""
    start = rig.core.subscribe_from()
    rig.broker.read_next = 0
    if start is not None and start.ledger_id >= 0:
        rig.broker.read_next = start.entry_id


@pytest.mark.parametrize("inclusive", [True, False])
def test_a_reader_begins_at_a_message_in_chunks_or_behind_it(inclusive: bool) -> None:
    """#23713."""
    start = ChunkMessageId(MessageId(-1, LEDGER, 1), MessageId(-1, LEDGER, 3))
    rig = Rig(SINGLE, durable=False, start_message_id=start, start_message_id_inclusive=inclusive)
    publish(rig, plain_entry(b"0"), *chunk_entries(b"abcdef", 2), plain_entry(b"4"))
    rig.connect()
    reader(rig)
    assert datas(rig.take_all()) == ([b"abcdef", b"4"] if inclusive else [b"4"])


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("closes", [True, False])
def test_a_seek_lands_on_the_whole_message(inclusive: bool, closes: bool) -> None:
    rig = rig_of(SINGLE)
    large = chunk_entries(b"abcdef", 2)
    publish(rig, plain_entry(b"0"), *large, plain_entry(b"4"))
    messages = rig.take_all()
    rig.core.prepare_seek()
    rig.pump()
    rig.broker.read_next = 1
    rig.core.sought(messages[1].message_id(), inclusive)
    if closes:
        rig.disconnect()
        rig.online = True
        rig.broker.permits = 0
        rig.core.connected()
    assert datas(rig.take_all()) == ([b"abcdef", b"4"] if inclusive else [b"4"])
    assert len(rig.core._assembler) == 0


def test_an_id_of_an_old_version_seeks_as_before() -> None:
    rig = rig_of(SINGLE)
    publish(rig, *chunk_entries(b"abcdef", 2), plain_entry(b"3"))
    (message, _) = rig.take_all()
    id = message.message_id()
    assert isinstance(id, ChunkMessageId)
    old = id.last_chunk_message_id()
    rig.broker.read_next = 2
    rig.core.sought(MessageId.deserialize(old.serialize()), False)
    assert datas(rig.take_all()) == [b"3"]


def test_a_reader_that_connects_again_misses_no_chunk_of_what_it_did_not_take() -> None:
    rig = Rig(SINGLE, durable=False, start_message_id=MessageId.earliest)
    rig.connect()
    reader(rig)
    large, small = chunk_entries(b"abcdef", 2), chunk_entries(b"1234", 2, name="other")
    publish(rig, plain_entry(b"0"), large[0], small[0], plain_entry(b"3"), small[1], large[1])
    rig.pump()
    taken = [rig.core.take(), rig.core.take()]
    assert [m.data() for m in taken if m is not None] == [b"0", b"3"]
    for _ in range(2):  # the second time before anything has come
        rig.disconnect()
        start = rig.core.subscribe_from()
        assert start is not None
        assert start.entry_id == 1
        rig.connect()
    rig.broker.read_next = 1
    rig.pump()
    message = rig.core.take()
    assert message is not None
    assert message.data() == b"1234"
    rig.disconnect()
    rig.connect()
    reader(rig)
    publish(rig, large[2], plain_entry(b"end"))
    assert datas(rig.take_all()) == [b"abcdef", b"end"]
    rig.disconnect()
    start = rig.core.subscribe_from()
    assert start is not None
    assert start.entry_id == 7


# ---- Everything at once ------------------------------------------------------


def topic_of(rng: random.Random) -> tuple[list[bytes], list[bytes]]:
    """Entries of producers that interleave, connect again and die; the messages in them."""
    entries: list[bytes] = []
    complete: list[bytes] = []
    running: list[tuple[list[bytes], int, bytes]] = []
    for number in range(rng.randint(1, 7)):
        size = rng.choice([1, 2, rng.randint(2, 50), rng.randint(50, 5000)])
        content = bytes([number + 1]) * size
        part = rng.randint(max(1, size // 6), size)
        if part == size:
            running.append(([plain_entry(content)], 0, content))
        else:
            made = chunk_entries(content, part, name=f"p{number}")
            running.append((made, 0, content))
    while running:
        at = rng.randrange(len(running))
        made, sent, content = running[at]
        step = rng.random()
        if step < 0.06:
            del running[at]
            continue
        if step < 0.12:
            sent = 0
        elif step < 0.18 and sent > 0:
            sent -= 1
        entries.append(made[sent])
        if sent + 1 == len(made):
            complete.append(content)
            if rng.random() < 0.3:  # receipts were lost: its end is sent again
                running[at] = (made, rng.randrange(len(made)), content)
            else:
                del running[at]
        else:
            running[at] = (made, sent + 1, content)
    return entries, complete


@given(st.integers(0, 2**32), st.sampled_from([SINGLE, SHARED]), st.sampled_from([1, 2, 5, 1000]))
@settings(max_examples=examples(400), deadline=None)
def test_whatever_happens_every_whole_message_comes_and_everything_is_acked(
    seed: int, kind: ConsumerType, queue: int
) -> None:
    """I6. The model is the list of messages that are whole in the topic."""
    rng = random.Random(seed)
    entries, complete = topic_of(rng)
    rig = Rig(
        kind,
        receiver_queue_size=queue,
        ack_receipt_enabled=rng.random() < 0.5,
        negative_ack_redelivery_delay_ms=500,
        max_pending_chunked_message=rng.choice([0, 2, 10]),
    )
    rig.connect()
    got: list[bytes] = []
    acked: list[bytes] = []
    held: list[Message] = []
    while entries or rig.broker.left():
        step = rng.randrange(12)
        if step < 3 and entries:
            publish(rig, entries.pop(0))
        elif step == 3:
            rig.broker_delivers()
        elif step == 4:
            rig.client_receives()
        elif step == 5:
            rig.broker_handles()
        elif step < 8:
            message = rig.core.take()
            if message is not None:
                got.append(message.data())
                held.append(message)
        elif step == 8 and held:
            rig.core.negative_acknowledge(held.pop(rng.randrange(len(held))))
        elif step == 9 and rng.random() < 0.2:
            rig.disconnect()
            rig.now += rng.choice([0, 100_000])
            rig.connect()
        elif step == 10 and kind == SINGLE and held:
            held.sort(key=lambda message: message._delivery.key)
            last = held[rng.randrange(len(held))]
            rig.core.acknowledge_cumulative(last)
            held = [m for m in held if m._delivery.key > last._delivery.key]
            acked.append(last.data())
        elif step == 11 and held:
            message = held.pop(rng.randrange(len(held)))
            rig.core.acknowledge([message.message_id()])
            acked.append(message.data())
        elif not entries:
            rig.pump()
            rig.pass_time(rng.choice([1, 1000, 100_000]))
        if (due := rig.core.next_ms()) is not None and due <= rig.now:
            rig.core.tick(rig.now)
        rig.check_permits()
    assert set(got) == set(complete)
    assert set(acked) <= set(complete)
    assert rig.core.queue_length() + rig.core.available_permits >= 0
    assert wide_key(LEDGER, 0) not in rig.core.acks.records.chunks


def test_a_message_of_many_chunks_is_acked_by_one_command() -> None:
    rig = rig_of(SHARED, receiver_queue_size=4)
    publish(rig, *chunk_entries(bytes(10_001), 1))
    (message,) = rig.take_all()
    rig.core.acknowledge_message(message)
    rig.pump()
    assert unacked(rig) == []
    assert [len(ack.message_ids) for ack in rig.sent()] == [10_001]
    assert sum(rig.flows()) >= 10_001
