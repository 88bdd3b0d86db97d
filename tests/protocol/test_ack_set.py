"""What an ack_set without any bit means, which differs from one that is absent."""

import pytest
from support.plain import parsed
from support.strategies import frame

from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAck, CommandMessage, encode
from magnetar.protocol import pulsar_pb2 as pb


def test_words_of_zero_say_that_everything_is_acked() -> None:
    message_id = pb.MessageIdData(ledgerId=1, entryId=2)
    message = pb.CommandMessage(consumer_id=1, message_id=message_id, ack_set=[0, 0])
    command = parsed(frame(9, message.SerializeToString()))
    assert isinstance(command, CommandMessage)
    assert command.ack_set == 0


def test_an_ack_of_all_indexes_is_written_as_one_of_the_entry() -> None:
    whole = CommandAck(1, 0, [MessageIdData(1, 2)])
    all_indexes = CommandAck(1, 0, [MessageIdData(1, 2, ack_set=0)])
    assert encode(all_indexes) == encode(whole)


def test_to_deliver_an_entry_of_which_all_is_acked_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="everything is acked"):
        encode(CommandMessage(1, MessageIdData(1, 2), b"entry", ack_set=0))
