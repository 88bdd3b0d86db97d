"""What SEEK carries: the table of `seek_target.py`, held against the wire."""

import pytest

from magnetar.client.consumer.start.seek_target import seek_target
from magnetar.model import ChunkMessageId, MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import message_id_to_pb

PLAIN = MessageId(2, 7, 5)
CHUNKED = ChunkMessageId(MessageId(2, 7, 3), MessageId(2, 7, 5))


def index(number: int, size: int = 70) -> MessageId:
    return MessageId(2, 7, 5, number, batch_size=size)


def bits(first: int, size: int = 70) -> int:
    return (1 << size) - (1 << first)


@pytest.mark.parametrize(
    ("id", "inclusive", "expected"),
    [
        (PLAIN, True, MessageIdData(7, 5, 2)),
        (PLAIN, False, MessageIdData(7, 6, 2)),
        (index(0), True, MessageIdData(7, 5, 2, 0, None, 70)),
        (index(0), False, MessageIdData(7, 5, 2, 1, bits(1), 70)),
        (index(68), True, MessageIdData(7, 5, 2, 68, bits(68), 70)),
        (index(68), False, MessageIdData(7, 5, 2, 69, bits(69), 70)),
        (index(69), True, MessageIdData(7, 5, 2, 69, bits(69), 70)),
        (index(69), False, MessageIdData(7, 6, 2)),
        (index(3, 0), True, MessageIdData(7, 5, 2, 3)),
        (index(3, 0), False, MessageIdData(7, 5, 2, 4)),
        (MessageId.earliest, False, MessageIdData(-1, -1)),
        (MessageId.latest, False, MessageIdData((1 << 63) - 1, (1 << 63) - 1)),
    ],
)
@pytest.mark.parametrize("exact", [True, False], ids=["ours", "another broker"])
def test_a_seek_names_what_is_to_come_next(
    id: MessageId, inclusive: bool, expected: MessageIdData, exact: bool
) -> None:
    assert seek_target(id, inclusive, exact=exact) == expected


def test_a_seek_to_a_message_in_chunks_names_its_end_where_the_broker_knows_chunks() -> None:
    assert seek_target(CHUNKED, True, exact=True) == MessageIdData(7, 5, 2)
    assert seek_target(CHUNKED, False, exact=True) == MessageIdData(7, 6, 2)
    for inclusive in (True, False):
        assert seek_target(CHUNKED, inclusive, exact=False) == MessageIdData(7, 3, 2)


def test_the_bits_of_a_batch_are_words_of_the_ones_that_are_left() -> None:
    wire = message_id_to_pb(seek_target(index(65), True, exact=False))
    assert list(wire.ack_set) == [0, 0b111110]
    assert (wire.batch_index, wire.batch_size) == (65, 70)
