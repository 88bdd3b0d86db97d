"""SEND, which publishes an entry, and SEND_RECEIPT, which says that it is safe."""

from typing import Final, final

from mypy_extensions import i64

from magnetar.model.message_id_data import (
    SHAPE as MESSAGE_ID_SHAPE,
)
from magnetar.model.message_id_data import (
    MessageIdData,
    decode_message_id_data,
    put_message_id_field,
)
from magnetar.wire.reader import Reader, Shape
from magnetar.wire.writer import BytesWriter, put_bool_field, put_int_field

SEND_SHAPE: Final = Shape(
    "CommandSend",
    {
        1: "producer_id",
        2: "sequence_id",
        3: "num_messages",
        4: "txnid_least_bits",
        5: "txnid_most_bits",
        6: "highest_sequence_id",
        7: "is_chunk",
        8: "marker",
        9: "message_id",
    },
)

RECEIPT_SHAPE: Final = Shape(
    "CommandSendReceipt",
    {1: "producer_id", 2: "sequence_id", 3: "message_id", 4: "highest_sequence_id"},
)


@final
class CommandSend:
    """Publish `entry`; the receipt will repeat the sequence ids.

    `in_transaction` says that it names a transaction. The bits do not tell: Apache Pulsar's first
    transaction is (0,0), and it is by the fields being there that a broker knows.
    """

    def __init__(
        self,
        producer_id: i64,
        sequence_id: i64,
        entry: bytes = b"",
        num_messages: i64 = 1,
        highest_sequence_id: i64 = 0,
        is_chunk: bool = False,
    ) -> None:
        self.producer_id: i64 = producer_id
        self.sequence_id: i64 = sequence_id
        self.entry = entry
        self.num_messages: i64 = num_messages
        self.highest_sequence_id: i64 = highest_sequence_id
        self.is_chunk = is_chunk
        self.marker = False
        self.in_transaction: bool = False
        self.txnid_least_bits: i64 = 0
        self.txnid_most_bits: i64 = 0
        self.message_id: MessageIdData | None = None

    def join(self, most: i64, least: i64) -> None:
        """It is part of a transaction."""
        self.in_transaction = True
        self.txnid_most_bits = most
        self.txnid_least_bits = least

    def encode_body(self) -> bytes:
        out = BytesWriter()
        put_int_field(out, 0x08, self.producer_id)
        put_int_field(out, 0x10, self.sequence_id)
        if self.num_messages != 1:
            put_int_field(out, 0x18, self.num_messages)
        if self.in_transaction or self.txnid_least_bits != 0:
            put_int_field(out, 0x20, self.txnid_least_bits)
        if self.in_transaction or self.txnid_most_bits != 0:
            put_int_field(out, 0x28, self.txnid_most_bits)
        if self.highest_sequence_id != 0:
            put_int_field(out, 0x30, self.highest_sequence_id)
        if self.is_chunk:
            put_bool_field(out, 0x38, True)
        if self.marker:
            put_bool_field(out, 0x40, True)
        if self.message_id is not None:
            put_message_id_field(out, 0x4A, self.message_id)
        return out.getvalue()


def decode_send(reader: Reader, entry: bytes) -> CommandSend:
    send = CommandSend(0, 0, entry)
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x08:
            send.producer_id = reader.varint()
            present |= 2
        elif tag == 0x10:
            send.sequence_id = reader.varint()
            present |= 4
        elif tag == 0x18:
            send.num_messages = reader.int32()
        elif tag == 0x20:
            send.txnid_least_bits = reader.varint()
            present |= 16
        elif tag == 0x28:
            send.txnid_most_bits = reader.varint()
            present |= 32
        elif tag == 0x30:
            send.highest_sequence_id = reader.varint()
        elif tag == 0x38:
            send.is_chunk = reader.boolean()
        elif tag == 0x40:
            send.marker = reader.boolean()
        elif tag == 0x4A:
            if send.message_id is not None:
                reader.fail("given twice")
            send.message_id = decode_message_id_data(reader.message(MESSAGE_ID_SHAPE))
        else:
            reader.skip()
    if present != 6:
        send.in_transaction = present & 48 == 48
        reader.require(present, (1, 2))
    return send


@final
class CommandSendReceipt:
    """The entry of these sequence ids is stored, and this is its id."""

    def __init__(
        self,
        producer_id: i64,
        sequence_id: i64,
        message_id: MessageIdData | None = None,
        highest_sequence_id: i64 = 0,
    ) -> None:
        self.producer_id: i64 = producer_id
        self.sequence_id: i64 = sequence_id
        self.message_id = message_id
        self.highest_sequence_id: i64 = highest_sequence_id

    def encode_body(self) -> bytes:
        out = BytesWriter()
        put_int_field(out, 0x08, self.producer_id)
        put_int_field(out, 0x10, self.sequence_id)
        if self.message_id is not None:
            put_message_id_field(out, 0x1A, self.message_id)
        if self.highest_sequence_id != 0:
            put_int_field(out, 0x20, self.highest_sequence_id)
        return out.getvalue()


def decode_send_receipt(reader: Reader) -> CommandSendReceipt:
    receipt = CommandSendReceipt(0, 0)
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x08:
            receipt.producer_id = reader.varint()
            present |= 2
        elif tag == 0x10:
            receipt.sequence_id = reader.varint()
            present |= 4
        elif tag == 0x1A:
            if receipt.message_id is not None:
                reader.fail("given twice")
            receipt.message_id = decode_message_id_data(reader.message(MESSAGE_ID_SHAPE))
        elif tag == 0x20:
            receipt.highest_sequence_id = reader.varint()
        else:
            reader.skip()
    if present != 6:
        reader.require(present, (1, 2))
    return receipt
