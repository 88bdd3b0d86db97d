"""Messages that go out in chunks: how they are cut, confirmed, sent again, and given up."""

import tracemalloc
from dataclasses import dataclass, field

import pytest
from client.producer_model import take_send
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from magnetar.client.option.options import ProducerOptions
from magnetar.client.producer.chunks import COUNT_MAX, WINDOW_BYTES, Part
from magnetar.client.producer.core import ProducerCore
from magnetar.client.producer.outgoing import Outgoing
from magnetar.errors import AlreadyClosed, MessageTooLargeError, NotAllowedError, Timeout
from magnetar.model import ChunkMessageId, MessageId
from magnetar.model.enums import CompressionType, ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    CommandSend,
    CommandSendReceipt,
    MessageMetadata,
    decompress,
    split_entry,
)

TOPIC = "persistent://public/default/large"
LEDGER = 4


@dataclass
class Sent:
    send: CommandSend
    metadata: MessageMetadata
    payload: bytes


@dataclass
class Rig:
    """A core, and a broker that stores what it is told to."""

    options: dict[str, object] = field(default_factory=dict)
    topic: str = TOPIC
    limit: int = 1000
    now_ms: int = 1000
    inbox: bytearray = field(default_factory=bytearray)
    stored: list[Sent] = field(default_factory=list)
    done: list[tuple[Exception | None, MessageId | None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        options = {"chunking_enabled": True, **self.options}
        self.core = ProducerCore(
            ProducerOptions(**options),  # type: ignore[arg-type]
            self.topic,
            1,
            now_ms=lambda: self.now_ms,
            write=self.write,
        )

    def write(self, parts: list[Part], hurried: bool) -> None:
        self.inbox += b"".join(parts)

    def connect(self, last_sequence_id: int = -1, limit: int | None = None) -> "Rig":
        self.limit = limit or self.limit
        self.core.connected("p", last_sequence_id, b"", self.limit)
        return self

    def send(self, payload: bytes, **fields: object) -> None:
        def done(error: Exception | None, id: MessageId | None) -> None:
            self.done.append((error, id))

        self.core.send(Outgoing(payload, done, **fields))  # type: ignore[arg-type]

    def store(self) -> Sent | None:
        """Stores one entry, and says nothing about it yet."""
        send = take_send(self.inbox)
        if send is None:
            return None
        entry = split_entry(send.entry)
        assert entry.intact()
        metadata = entry.metadata()
        assert metadata.sequence_id == send.sequence_id
        assert len(metadata.encode()) + len(entry.payload()) <= self.limit
        sent = Sent(send, metadata, entry.payload())
        self.stored.append(sent)
        return sent

    def confirm(self, at: int | None = None, sequence_id: int | None = None) -> bool:
        number = len(self.stored) - 1 if at is None else at
        if sequence_id is None:
            sequence_id = self.stored[number].send.sequence_id
        return self.core.receipt(CommandSendReceipt(1, sequence_id, MessageIdData(LEDGER, number)))

    def run(self) -> None:
        """Stores and confirms everything."""
        while self.store() is not None:
            assert self.confirm()

    def whole(self, entries: list[Sent] | None = None) -> bytes:
        entries = self.stored if entries is None else entries
        return b"".join(sent.payload for sent in entries)


def test_a_message_that_fits_is_no_chunk() -> None:
    rig = Rig().connect()
    rig.send(b"x" * 900)
    rig.run()
    assert rig.stored[0].metadata.uuid is None
    assert not rig.stored[0].send.is_chunk
    assert rig.done == [(None, MessageId(-1, LEDGER, 0))]
    assert not isinstance(rig.done[0][1], ChunkMessageId)


def test_a_larger_one_is_split_and_has_the_ids_of_both_ends() -> None:
    rig = Rig().connect()
    payload = bytes(range(256)) * 20
    rig.send(payload, partition_key="k", properties={"a": "b"}, event_timestamp=7)
    rig.run()
    count = len(rig.stored)
    assert count > 5
    assert rig.whole() == payload
    for number, sent in enumerate(rig.stored):
        metadata = sent.metadata
        assert sent.send.is_chunk
        assert sent.send.num_messages == 1
        assert (metadata.uuid, metadata.chunk_id) == ("p-0", number)
        assert (metadata.num_chunks_from_msg, metadata.total_chunk_msg_size) == (count, 5120)
        assert (metadata.partition_key, metadata.properties) == ("k", [("a", "b")])
        assert (metadata.sequence_id, metadata.event_time) == (0, 7)
    id = rig.done[0][1]
    assert isinstance(id, ChunkMessageId)
    assert str(id) == f"(4,0,-1,-1);(4,{count - 1},-1,-1)"
    assert id.first_chunk_message_id() == MessageId(-1, LEDGER, 0)
    assert id == id.last_chunk_message_id() == MessageId(-1, LEDGER, count - 1)
    assert MessageId.deserialize(id.serialize()) == id
    assert rig.core.pending_messages == rig.core.pending_bytes == 0
    assert (rig.core.messages_stored, rig.core.entries_written) == (1, count)
    assert rig.core.last_sequence_id == 0


def test_the_size_of_chunks_can_be_chosen() -> None:
    rig = Rig({"chunk_max_message_size": 10}).connect()
    rig.send(b"x" * 25)
    rig.run()
    assert [len(sent.payload) for sent in rig.stored] == [10, 10, 5]


@pytest.mark.parametrize("compression", [CompressionType.LZ4, CompressionType.ZSTD])
def test_the_whole_is_compressed_before_it_is_split(compression: CompressionType) -> None:
    rig = Rig({"compression_type": compression, "chunk_max_message_size": 50}).connect()
    payload = b"".join(b"%d," % number for number in range(5000))
    rig.send(payload)
    rig.run()
    assert len(rig.stored) > 2
    metadata = rig.stored[0].metadata
    assert metadata.total_chunk_msg_size == len(rig.whole()) < len(payload)
    assert metadata.uncompressed_size == len(payload)
    assert decompress(compression, rig.whole(), len(payload), len(payload)) == payload


def test_a_partition_is_named_in_both_ids() -> None:
    rig = Rig(topic=f"{TOPIC}-partition-3").connect()
    rig.send(b"x" * 5000)
    rig.run()
    id = rig.done[0][1]
    assert isinstance(id, ChunkMessageId)
    assert id.partition() == id.first_chunk_message_id().partition() == 3


def test_what_is_not_stored_is_not_split() -> None:
    rig = Rig(topic="non-persistent://public/default/large").connect()
    with pytest.raises(MessageTooLargeError):
        rig.send(b"x" * 20_000)


def test_chunks_are_one_message_among_those_that_wait() -> None:
    """testBlockIfQueueFullWhenChunking: it is no more than one, whatever its chunks."""
    rig = Rig({"max_pending_messages": 1}).connect()
    rig.send(b"x" * 50_000)
    assert rig.core.pending_messages == 1
    rig.run()
    assert rig.core.pending_messages == 0
    assert len(rig.done) == 1


def test_messages_before_and_behind_keep_their_order() -> None:
    rig = Rig({"chunk_max_message_size": WINDOW_BYTES // 2}, limit=WINDOW_BYTES).connect()
    rig.send(b"before")
    large = bytes(3 * WINDOW_BYTES)
    rig.send(large)
    rig.send(b"behind")
    rig.run()
    ids = [sent.send.sequence_id for sent in rig.stored]
    assert ids == [0, 1, 1, 1, 1, 1, 1, 2]
    assert rig.stored[-1].payload == b"behind"
    assert len(rig.done) == 3


def test_there_is_a_window_of_chunks_without_receipts() -> None:
    rig = Rig({"chunk_max_message_size": WINDOW_BYTES // 4}, limit=WINDOW_BYTES).connect()
    rig.send(bytes(3 * WINDOW_BYTES))
    rig.send(b"behind")
    assert len(rig.inbox) < WINDOW_BYTES + 10_000
    for _ in range(4):
        rig.store()
    assert not rig.inbox
    rig.confirm(0)
    assert rig.store() is not None
    assert not rig.inbox


def test_before_the_first_connection_messages_wait_as_they_are() -> None:
    rig = Rig()
    rig.send(b"x" * 5000)
    rig.send(b"y")
    rig.connect()
    rig.run()
    assert len(rig.done) == 2
    assert rig.whole(rig.stored[:-1]) == b"x" * 5000


# ---- Again -------------------------------------------------------------------


@pytest.mark.parametrize("confirmed", [0, 1, 3])
def test_after_a_lost_connection_what_is_not_confirmed_is_sent_again(confirmed: int) -> None:
    rig = Rig({"chunk_max_message_size": 10}).connect()
    rig.send(b"0123456789" * 5)
    rig.send(b"behind")
    frames = bytes(rig.inbox)
    for _ in range(confirmed):
        rig.store()
        rig.confirm()
    lost = bytes(rig.inbox)
    rig.inbox.clear()
    rig.core.disconnected()
    rig.connect()
    assert bytes(rig.inbox) == lost
    assert lost in frames
    rig.run()
    assert [sent.metadata.chunk_id for sent in rig.stored[:5]] == [0, 1, 2, 3, 4]
    assert [error for error, _ in rig.done] == [None, None]
    id = rig.done[0][1]
    assert isinstance(id, ChunkMessageId)
    assert id.first_chunk_message_id() == MessageId(-1, LEDGER, 0)


def test_what_the_broker_has_is_not_sent_again() -> None:
    rig = Rig({"chunk_max_message_size": 10}).connect()
    rig.send(b"0123456789" * 2)
    rig.inbox.clear()
    rig.core.disconnected()
    rig.connect(last_sequence_id=0)
    assert not rig.inbox
    assert rig.done == [(None, MessageId(-1, -1, -1))]


def test_a_duplicate_has_no_place() -> None:
    """testSendChunkMessageWithSameSequenceID: the second is swallowed."""
    rig = Rig({"chunk_max_message_size": 10}).connect()
    rig.send(b"0123456789" * 2)
    for _ in range(2):
        rig.store()
        assert rig.core.receipt(CommandSendReceipt(1, 0, MessageIdData(-1, -1)))
    assert rig.done == [(None, MessageId(-1, -1, -1))]


def test_a_duplicate_is_one_even_if_other_chunks_are_confirmed_later() -> None:
    """Apache's answers at once for the last chunk, and for the others when they are stored."""
    rig = Rig({"chunk_max_message_size": 10}).connect()
    rig.send(b"0123456789" * 3)
    for place in (MessageIdData(-1, -1), MessageIdData(4, 7), MessageIdData(4, 8)):
        rig.store()
        assert rig.core.receipt(CommandSendReceipt(1, 0, place))
    assert rig.done == [(None, MessageId(-1, -1, -1))]


def test_receipts_out_of_step_are_told() -> None:
    rig = Rig({"chunk_max_message_size": WINDOW_BYTES // 2}, limit=WINDOW_BYTES).connect()
    rig.send(bytes(2 * WINDOW_BYTES))
    assert rig.confirm(0, sequence_id=0)
    assert rig.confirm(0, sequence_id=0)
    assert rig.confirm(0, sequence_id=0)
    assert not rig.confirm(0, sequence_id=1)
    assert rig.done == []
    rig.core.disconnected()
    waiting = Rig({"chunk_max_message_size": 10}).connect()
    waiting.core.disconnected()
    waiting.send(b"0123456789" * 2)
    # Nothing is written, so nothing can be confirmed.
    assert not waiting.confirm(0, sequence_id=0)


# ---- Given up ----------------------------------------------------------------


def test_a_message_that_takes_too_long_is_given_up_whole() -> None:
    """testPublishWithFailure."""
    rig = Rig({"chunk_max_message_size": WINDOW_BYTES // 2}, limit=WINDOW_BYTES).connect()
    rig.send(bytes(3 * WINDOW_BYTES))
    rig.now_ms += 100
    rig.send(b"behind")
    rig.store()
    rig.confirm()
    rig.now_ms += 30_000 - 100
    rig.core.tick(rig.now_ms)
    assert [type(error) for error, _ in rig.done] == [Timeout, Timeout]
    assert rig.core.pending_messages == 0
    # What is sent then goes on; receipts of what was given up mean nothing.
    rig.send(b"later")
    stored = []
    while (sent := rig.store()) is not None:
        stored.append(sent)
        assert rig.confirm()
    assert stored[-1].payload == b"later"
    assert rig.done[2][0] is None


def test_a_refusal_gives_up_the_message_and_not_its_followers() -> None:
    rig = Rig({"chunk_max_message_size": WINDOW_BYTES}, limit=2 * WINDOW_BYTES).connect()
    rig.send(bytes(3 * WINDOW_BYTES))
    rig.send(b"behind")
    assert rig.core.send_error(ServerError.NotAllowedError, "no", 0)
    assert isinstance(rig.done[0][0], NotAllowedError)
    rig.run()
    assert rig.stored[-1].payload == b"behind"
    assert rig.done[1][0] is None


def test_a_message_of_which_each_chunk_is_refused_costs_no_connection() -> None:
    """Seed 11402859: each message of a transaction that was over took a reconnection."""
    rig = Rig({"chunk_max_message_size": 10}).connect()
    rig.send(b"0123456789" * 3)
    rig.send(b"behind")
    for _ in range(3):
        assert rig.core.send_error(ServerError.NotAllowedError, "no", 0)
    assert isinstance(rig.done[0][0], NotAllowedError)
    rig.run()
    assert rig.stored[-1].payload == b"behind"
    assert rig.done[1][0] is None
    # Of nothing that is under way, and nothing that was.
    assert rig.core.send_error(ServerError.NotAllowedError, "no", 1)
    assert not rig.core.send_error(ServerError.NotAllowedError, "no", 2)


def test_a_checksum_error_is_tried_again() -> None:
    rig = Rig({"chunk_max_message_size": 10}).connect()
    rig.send(b"0123456789" * 2)
    assert not rig.core.send_error(ServerError.ChecksumError, "mismatch", 0)
    assert rig.done == []


def test_closing_gives_up_what_is_left() -> None:
    rig = Rig().connect()
    rig.send(b"x" * 5000)
    rig.store()
    rig.confirm()
    rig.core.close(AlreadyClosed("closed"))
    assert isinstance(rig.done[0][0], AlreadyClosed)
    assert rig.core.pending_bytes == 0


def test_chunks_that_another_broker_would_not_take_are_given_up() -> None:
    rig = Rig(limit=100_000).connect()
    rig.send(b"x" * 300_000)
    rig.send(b"behind")
    rig.inbox.clear()
    rig.core.disconnected()
    rig.connect(limit=1000)
    assert isinstance(rig.done[0][0], MessageTooLargeError)
    rig.run()
    assert rig.whole() == b"behind"


def test_properties_that_leave_no_room_are_refused() -> None:
    rig = Rig().connect()
    with pytest.raises(MessageTooLargeError, match="properties and keys alone"):
        rig.send(b"x" * 5000, properties={"a": "b" * 1000})
    assert rig.core.pending_messages == 0
    rig.send(b"x")
    rig.run()
    assert rig.stored[0].send.sequence_id == 0


def test_far_too_many_chunks_are_refused() -> None:
    rig = Rig({"chunk_max_message_size": 1}).connect()
    with pytest.raises(MessageTooLargeError, match="raise chunk_max_message_size"):
        rig.send(bytes(COUNT_MAX + 1))
    assert rig.core.pending_messages == 0


# ---- Memory ------------------------------------------------------------------


def test_a_producer_holds_the_message_and_one_chunk() -> None:
    chunk = 1 << 20
    options = ProducerOptions(chunking_enabled=True, chunk_max_message_size=chunk)
    held: list[list[Part]] = []
    core = ProducerCore(
        options, TOPIC, 1, now_ms=lambda: 0, write=lambda parts, _: held.append(parts)
    )
    core.connected("p", -1, b"", 5 << 20)
    payload = bytes(64 << 20)
    tracemalloc.start()
    try:
        core.send(Outgoing(payload))
        while core.pending_messages:
            core.receipt(CommandSendReceipt(1, 0, MessageIdData(LEDGER, 0)))
        # Even if nothing that was written is let go of.
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(len(part) for parts in held for part in parts) > len(payload)
    assert peak < chunk


@given(
    st.integers(0, 2000),
    st.integers(10, 600),
    st.lists(st.sampled_from(["store", "confirm", "cut"]), max_size=60),
)
@settings(max_examples=examples(80), deadline=None)
def test_every_message_is_stored_whole_whatever_happens(
    size: int, chunk: int, steps: list[str]
) -> None:
    rig = Rig({"chunk_max_message_size": chunk}).connect()
    contents = [bytes([number]) * (size + number) for number in range(3)]
    for content in contents:
        rig.send(content)
    unconfirmed: list[int] = []
    for step in steps:
        if step == "store":
            if rig.store() is not None:
                unconfirmed.append(len(rig.stored) - 1)
        elif step == "confirm":
            if unconfirmed:
                assert rig.confirm(unconfirmed.pop(0))
        else:
            rig.inbox.clear()
            unconfirmed.clear()
            rig.core.disconnected()
            rig.connect()
    for number in unconfirmed:
        assert rig.confirm(number)
    rig.run()
    assert [error for error, _ in rig.done] == [None, None, None]
    for number, content in enumerate(contents):
        # The last copy of each chunk, in order, is the message.
        parts: dict[int, bytes] = {}
        for sent in rig.stored:
            if sent.send.sequence_id == number:
                parts[sent.metadata.chunk_id or 0] = sent.payload
        assert b"".join(parts[key] for key in sorted(parts)) == content
