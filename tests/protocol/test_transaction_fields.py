"""SEND and ACK say that they are part of a transaction by naming it, whatever its bits are."""

import pytest

from magnetar.protocol import CommandAck, CommandSend
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.ack import ACK_SHAPE, decode_ack
from magnetar.protocol.send import SEND_SHAPE, decode_send
from magnetar.wire.reader import Reader

IDS = [(0, 0), (0, 1), (1, 0), (3, -1)]


@pytest.mark.parametrize(("most", "least"), IDS)
def test_a_send_in_a_transaction_has_both_fields(most: int, least: int) -> None:
    send = CommandSend(1, 2)
    send.join(most, least)
    data = send.encode_body()
    parsed = pb.CommandSend.FromString(data)
    assert parsed.HasField("txnid_most_bits")
    assert parsed.HasField("txnid_least_bits")
    read = decode_send(Reader(data, 0, len(data), SEND_SHAPE), b"")
    assert read.in_transaction
    assert (read.txnid_most_bits, read.txnid_least_bits) == (most, least)


@pytest.mark.parametrize(("most", "least"), IDS)
def test_an_ack_in_a_transaction_has_both_fields(most: int, least: int) -> None:
    ack = CommandAck(1, 0, [], 9)
    ack.join(most, least)
    data = ack.encode_body()
    parsed = pb.CommandAck.FromString(data)
    assert parsed.HasField("txnid_most_bits")
    assert parsed.HasField("txnid_least_bits")
    read = decode_ack(Reader(data, 0, len(data), ACK_SHAPE))
    assert read.in_transaction
    assert (read.txnid_most_bits, read.txnid_least_bits) == (most, least)


def test_without_a_transaction_there_are_no_such_fields() -> None:
    send, ack = CommandSend(1, 2).encode_body(), CommandAck(1, 0, []).encode_body()
    assert not pb.CommandSend.FromString(send).HasField("txnid_least_bits")
    assert not pb.CommandAck.FromString(ack).HasField("txnid_least_bits")
    assert not decode_send(Reader(send, 0, len(send), SEND_SHAPE), b"").in_transaction
    assert not decode_ack(Reader(ack, 0, len(ack), ACK_SHAPE)).in_transaction
