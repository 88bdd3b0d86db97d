"""From entries to messages: what is split, dropped and refused, and what it costs."""

import pytest
from client.ack_bench import tracker
from client.consumer_model import LEDGER, TOPIC, batch_entry, command, plain_entry
from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.ack.entry_acks import Cumulative
from magnetar.client.ack.tracker import AckTracker
from magnetar.client.consumer.arrival.incoming import (
    UNCOMPRESSED_SIZE_MAX,
    Arrival,
    Incoming,
    Start,
)
from magnetar.client.consumer.chunk.assembler import ChunkAssembler
from magnetar.client.consumer.dead_letter import DeadLetters
from magnetar.client.consumer.message import Message
from magnetar.client.option.options import ConsumerCryptoFailureAction, ConsumerDeadLetterPolicy
from magnetar.model import ChunkMessageId, MessageId
from magnetar.model.enums import CompressionType, ValidationError
from magnetar.protocol import (
    BatchWriter,
    BrokerEntryMetadata,
    EncryptionKeys,
    MessageMetadata,
    encode_entry,
    with_broker_metadata,
)


def incoming(
    acks: AckTracker | None = None,
    crypto: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
) -> Incoming:
    return incoming_of(DeadLetters(ConsumerDeadLetterPolicy(5)), acks, crypto)


def incoming_of(
    letters: DeadLetters,
    acks: AckTracker | None = None,
    crypto: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
) -> Incoming:
    assembler = ChunkAssembler(
        count_max=10, size_max=1 << 20, expire_ms=1000, ack_oldest=False, single=False
    )
    return Incoming(
        TOPIC, -1, acks or tracker(), letters, crypto, None, assembler, lambda: 0, 1 << 20
    )


def batch(size: int) -> bytes:
    return batch_entry([b"%d" % index for index in range(size)])


def metadata_of(**fields: object) -> MessageMetadata:
    metadata = MessageMetadata("maker", 0, 0)
    for name, value in fields.items():
        setattr(metadata, name, value)
    return metadata


def data(arrival: Arrival) -> list[bytes]:
    return [message.data() for message in arrival.messages]


def refused(arrival: Arrival, reason: ValidationError, charged: int) -> bool:
    assert arrival.messages == []
    assert arrival.dropped == charged
    return arrival.refusal == reason.value


@pytest.mark.parametrize("compression", list(CompressionType))
def test_entries_are_uncompressed_and_split(compression: CompressionType) -> None:
    arrival = incoming().read(command(batch_entry([b"a" * 99, b"", b"c"], compression)), 10)
    assert data(arrival) == [b"a" * 99, b"", b"c"]
    assert [message._index for message in arrival.messages] == [0, 1, 2]
    assert arrival.charged == 3
    assert arrival.dropped == 0
    assert {message.redelivery_count() for message in arrival.messages} == {2}
    alone = incoming().read(command(plain_entry(b"hello" * 20, compression)), 10)
    assert data(alone) == [b"hello" * 20]
    assert alone.charged == 1


def test_a_broker_s_own_metadata_is_passed_over() -> None:
    entry = with_broker_metadata(plain_entry(b"x"), BrokerEntryMetadata(1, 2))
    assert data(incoming().read(command(entry), 1)) == [b"x"]


@given(st.integers(1, 80), st.data())
def test_acked_indexes_are_left_out_and_cost_nothing(size: int, draw: st.DataObject) -> None:
    ack_set = draw.draw(st.integers(1, (1 << size) - 1))
    arrival = incoming().read(command(batch(size), ack_set), size)
    expected = [index for index in range(size) if ack_set >> index & 1]
    assert [message._index for message in arrival.messages] == expected
    assert data(arrival) == [b"%d" % index for index in expected]
    assert arrival.charged == len(expected)


def test_bits_beyond_the_batch_mean_nothing() -> None:
    arrival = incoming().read(command(batch(2), 0b11110), 9)
    assert data(arrival) == [b"1"]
    assert arrival.charged == 1


def test_a_damaged_entry_is_refused_for_its_checksum() -> None:
    entry = batch(3)
    for at in (len(entry) - 1, 7, 3):
        broken = bytearray(entry)
        broken[at] ^= 0x40
        arrival = incoming().read(command(bytes(broken)), 10)
        assert refused(arrival, ValidationError.ChecksumMismatch, arrival.charged)
        assert 1 <= arrival.charged <= 10
    assert refused(incoming().read(command(b"\x00"), 5), ValidationError.ChecksumMismatch, 1)
    alone = plain_entry(b"x")[:-1] + b"y"
    assert refused(incoming().read(command(alone), 5), ValidationError.ChecksumMismatch, 1)
    # A count that the damage made up gives back no more than there was.
    metadata = metadata_of(num_messages_in_batch=1000)
    lying = encode_entry(metadata.encode(), b"")[:-1] + b"\x00"
    assert incoming().read(command(lying), 4).charged <= 4
    assert incoming().read(command(lying), -90).charged == 1


def test_what_cannot_be_uncompressed_is_refused() -> None:
    metadata = metadata_of(compression=2, uncompressed_size=3, num_messages_in_batch=2)
    entry = encode_entry(metadata.encode(), b"rubbish")
    assert refused(incoming().read(command(entry), 9), ValidationError.DecompressionError, 2)
    alone = encode_entry(metadata_of(compression=9, uncompressed_size=3).encode(), b"rubbish")
    assert refused(incoming().read(command(alone), 9), ValidationError.DecompressionError, 1)
    bomb = metadata_of(compression=2, uncompressed_size=UNCOMPRESSED_SIZE_MAX + 1)
    arrival = incoming().read(command(encode_entry(bomb.encode(), b"")), 9)
    assert refused(arrival, ValidationError.UncompressedSizeCorruption, 1)


@pytest.mark.parametrize(
    ("count", "payload"),
    [
        (2, b"\x00\x00\x00\x02\x18\x01a"),
        (1, b"\x00\x00\x00\x02\x18\x01ab"),
        (1, b"\x00\x00\x00\x00"),
        (1, b"\x00\x00\x00\x02\x18\x09a"),
        (1, b"\x00\x00\x00\x0b\x18" + b"\xff" * 9 + b"\x01"),
        (0, b""),
        (-1, b""),
        (1 << 21, b""),
    ],
)
def test_a_batch_that_is_none_is_refused(count: int, payload: bytes) -> None:
    metadata = metadata_of(num_messages_in_batch=count)
    arrival = incoming().read(command(encode_entry(metadata.encode(), payload)), 9)
    charged = count if 1 <= count <= 2 else 1
    assert refused(arrival, ValidationError.BatchDeSerializeError, charged)


def test_what_compaction_took_is_not_there_and_counts_as_acked() -> None:
    writer = BatchWriter()
    for index in range(3):
        writer.add(b"%d" % index, index, compacted_out=index == 1)
    metadata = metadata_of(num_messages_in_batch=3)
    arrival = incoming().read(command(encode_entry(metadata.encode(), writer.getvalue())), 9)
    assert data(arrival) == [b"0", b"2"]
    assert arrival.dropped == 1
    assert arrival.messages[0]._delivery.unacked == 0b101
    assert arrival.empty is None


def test_duplicates_of_pending_acks_are_dropped_and_paid_for() -> None:
    acks = tracker()
    acks.acknowledge(acks.records.find(LEDGER, 0, 4, 0b1111), 1)
    acks.acknowledge(acks.records.find(LEDGER, 1, 0, 1), -1)
    reader = incoming(acks)
    arrival = reader.read(command(batch(4)), 9)
    assert data(arrival) == [b"0", b"2", b"3"]
    assert (arrival.charged, arrival.dropped) == (4, 1)
    arrival = reader.read(command(plain_entry(b"x"), entry_id=1), 9)
    assert (arrival.messages, arrival.charged) == ([], 1)
    acks.acknowledge_cumulative(Cumulative(LEDGER, 2, 1, 4))
    arrival = reader.read(command(batch(4), 0b1110, entry_id=2), 9)
    assert data(arrival) == [b"2", b"3"]
    assert (arrival.charged, arrival.dropped) == (3, 1)
    assert reader.read(command(plain_entry(b"x"), entry_id=0), 9).messages == []


@pytest.mark.parametrize(
    ("start", "inclusive", "expected"),
    [
        (MessageId(-1, LEDGER, 1, 1, batch_size=3), True, [b"1", b"2"]),
        (MessageId(-1, LEDGER, 1, 1, batch_size=3), False, [b"2"]),
        (MessageId(-1, LEDGER, 1), True, [b"0", b"1", b"2"]),
        (MessageId(-1, LEDGER, 1), False, []),
        (MessageId(-1, LEDGER, 0, 2), False, [b"0", b"1", b"2"]),
    ],
)
def test_messages_before_the_start_are_dropped(
    start: MessageId, inclusive: bool, expected: list[bytes]
) -> None:
    reader = incoming()
    reader.start = Start(start, inclusive)
    arrival = reader.read(command(batch(3), entry_id=1), 9)
    assert data(arrival) == expected
    assert arrival.charged == 3


def test_right_after_a_seek_older_entries_are_dropped_too() -> None:
    reader = incoming()
    reader.start = Start(MessageId(-1, LEDGER, 5), True)
    older = command(batch(3), entry_id=4)
    assert len(reader.read(older, 9).messages) == 3
    reader.only_from_start = True
    assert reader.read(older, 9).dropped == 3
    assert len(reader.read(command(batch(3), entry_id=6), 9).messages) == 3


def test_a_split_message_begins_with_its_first_chunk() -> None:
    chunked = ChunkMessageId(MessageId(-1, LEDGER, 3), MessageId(-1, LEDGER, 5))
    assert Start(chunked, True).id.entry_id() == 3
    assert Start(chunked, False).id.entry_id() == 5


def test_older_epochs_are_dropped() -> None:
    reader = incoming()
    reader.epoch = 2
    assert reader.read(command(batch(3), epoch=1), 9).dropped == 3
    assert reader.read(command(plain_entry(b"x"), epoch=1), 9).dropped == 1
    assert reader.read(command(batch(3), epoch=2), 9).dropped == 0
    assert reader.read(command(batch(3)), 9).dropped == 0


def test_the_dying_are_not_handed_out_again() -> None:
    letters = DeadLetters(ConsumerDeadLetterPolicy(1))
    reader = incoming_of(letters)
    messages: list[Message] = reader.read(command(batch(3)), 9).messages
    letters.publishing(messages[1])
    assert data(reader.read(command(batch(3)), 9)) == [b"0", b"2"]


def test_a_chunk_is_no_message_before_the_last_has_come() -> None:
    reader = incoming()
    for chunk_id in range(2):
        metadata = metadata_of(
            uuid="maker-0", chunk_id=chunk_id, num_chunks_from_msg=2, total_chunk_msg_size=8
        )
        entry = command(encode_entry(metadata.encode(), b"half"), entry_id=chunk_id)
        arrival = reader.read(entry, 9)
        assert (arrival.charged, arrival.refusal, arrival.chunk) == (1, -1, True)
        assert data(arrival) == ([] if chunk_id == 0 else [b"halfhalf"])
        assert arrival.kept == (chunk_id == 0)


def test_what_is_encrypted_is_kept_back_discarded_or_passed_on() -> None:
    metadata = metadata_of(
        num_messages_in_batch=3, encryption_keys=[EncryptionKeys("key", b"", [])]
    )
    entry = command(encode_entry(metadata.encode(), b"secret"))
    arrival = incoming().read(entry, 9)
    assert (arrival.messages, arrival.dropped, arrival.refusal) == ([], 3, -1)
    discarding = incoming(crypto=ConsumerCryptoFailureAction.DISCARD)
    assert refused(discarding.read(entry, 9), ValidationError.DecryptionError, 3)
    passing = incoming(crypto=ConsumerCryptoFailureAction.CONSUME)
    arrival = passing.read(entry, 9)
    assert data(arrival) == [b"secret"]
    assert arrival.dropped == 2


@pytest.mark.parametrize(("inclusive", "first"), [(True, 70), (False, 71)])
def test_a_start_inside_a_batch_of_more_than_64(inclusive: bool, first: int) -> None:
    start = Start(MessageId(-1, 1, 0, 70, batch_size=200), inclusive)
    assert start.unacked((1 << 200) - 1) == (1 << 200) - (1 << first)
