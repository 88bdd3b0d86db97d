"""Bytes computed from Pulsar's own rules, independently of this code."""

import pytest
from support.plain import parsed

from magnetar.model import MessageId
from magnetar.model.message_id import ChunkMessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    CommandAck,
    CommandSend,
    MessageMetadata,
    auto_split_slot,
    consistent_slot,
    crc32c,
    encode,
    encode_entry,
    split_entry,
    topics_hash,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.key_hash import murmur3_32
from magnetar.wire.ack_set import bits_to_words, words_to_bits

PING = bytes.fromhex("00000009 00000005 0812920100")
ACK = bytes.fromhex("00000017 00000013 080a520f080310001a070805100928f6074007")
SEND = bytes.fromhex(
    "0000001f 00000008 0806320408011000 0e01 7ed8df46 00000007 0a017010001801 6869"
)


def test_crc32c_of_the_customary_digits() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"456789", crc32c(b"123")) == 0xE3069283


def test_ping_frame() -> None:
    assert encode(pb.CommandPing()) == PING
    assert isinstance(parsed(PING), pb.CommandPing)


def test_ack_frame_of_two_indexes_in_a_batch_of_ten() -> None:
    unacked = 0b1111110110
    message_id = MessageIdData(5, 9, ack_set=unacked)
    assert encode(CommandAck(3, 0, [message_id], request_id=7)) == ACK
    ack = parsed(ACK)
    assert isinstance(ack, CommandAck)
    assert (ack.consumer_id, ack.ack_type, ack.request_id) == (3, 0, 7)
    assert ack.message_ids == [message_id]


def test_send_frame() -> None:
    entry = encode_entry(MessageMetadata("p", 0, 1).encode(), b"hi")
    assert encode(CommandSend(1, 0, entry)) == SEND
    send = parsed(SEND)
    assert isinstance(send, CommandSend)
    parts = split_entry(send.entry)
    assert (send.producer_id, send.sequence_id) == (1, 0)
    assert (parts.checksum, parts.intact(), parts.payload()) == (0x7ED8DF46, True, b"hi")
    assert parts.metadata().producer_name == "p"


@pytest.mark.parametrize(
    ("message_id", "base64"),
    [
        (MessageId(ledger_id=12345, entry_id=4), "CLlgEAQwAA=="),
        (MessageId(ledger_id=12345, entry_id=4, batch_index=2, batch_size=10), "CLlgEAQgAjAK"),
        (
            ChunkMessageId(
                MessageId(ledger_id=7, entry_id=10), MessageId(ledger_id=7, entry_id=12)
            ),
            "CAcQDDAAOgYIBxAKMAA=",
        ),
    ],
)
def test_bytes_of_message_ids(message_id: MessageId, base64: str) -> None:
    assert message_id.to_base64() == base64
    back = MessageId.from_base64(base64)
    assert (back, str(back), back.batch_size()) == (
        message_id,
        str(message_id),
        message_id.batch_size(),
    )


@pytest.mark.parametrize(
    ("size", "acked", "words"),
    [(64, [], [-1]), (70, list(range(64)), [0, 63]), (3, [0], [6]), (65, list(range(64)), [0, 1])],
)
def test_ack_set_words(size: int, acked: list[int], words: list[int]) -> None:
    bits = (1 << size) - 1 - sum(1 << i for i in acked)
    assert bits_to_words(bits) == words
    assert words_to_bits(words) == bits


@pytest.mark.parametrize(
    ("key", "hashed", "consistent", "auto_split"),
    [(b"hello", 0x248BFA47, 7892, 64071), (b"key-1", 0x98B115A0, 11858, 5536)],
)
def test_slots_of_keys(key: bytes, hashed: int, consistent: int, auto_split: int) -> None:
    assert murmur3_32(key) == hashed
    assert (consistent_slot(key), auto_split_slot(key)) == (consistent, auto_split)


def test_hash_of_a_list_of_topics() -> None:
    names = ["persistent://public/default/b", "persistent://public/default/a"]
    assert topics_hash(names) == "c7559e98"
