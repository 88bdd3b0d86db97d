"""ACK, and the ACK_RESPONSE that answers it when it asked for an answer."""

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
from magnetar.wire.reader import FIELDS_MAX, Reader, Shape
from magnetar.wire.writer import BytesWriter, put_bytes_field, put_int_field, put_text_field

ACK_SHAPE: Final = Shape(
    "CommandAck",
    {
        1: "consumer_id",
        2: "ack_type",
        3: "message_id",
        4: "validation_error",
        5: "properties",
        6: "txnid_least_bits",
        7: "txnid_most_bits",
        8: "request_id",
    },
)

ACK_RESPONSE_SHAPE: Final = Shape(
    "CommandAckResponse",
    {
        1: "consumer_id",
        2: "txnid_least_bits",
        3: "txnid_most_bits",
        4: "error",
        5: "message",
        6: "request_id",
    },
)

KEY_LONG_VALUE_SHAPE: Final = Shape("KeyLongValue", {1: "key", 2: "value"})


@final
class CommandAck:
    """Acknowledge `message_ids`; `ack_type` and `validation_error` are numbers of model's enums.

    With a `request_id` the broker answers, without one it does not. `in_transaction` says that it
    names a transaction, as with SEND.
    """

    def __init__(
        self,
        consumer_id: i64,
        ack_type: i64,
        message_ids: list[MessageIdData],
        request_id: int | None = None,
        validation_error: int | None = None,
    ) -> None:
        self.consumer_id: i64 = consumer_id
        self.ack_type: i64 = ack_type
        self.message_ids = message_ids
        self.request_id = request_id
        self.validation_error = validation_error
        self.properties: list[tuple[str, int]] = []
        self.in_transaction: bool = False
        self.txnid_least_bits: i64 = 0
        self.txnid_most_bits: i64 = 0

    def join(self, most: i64, least: i64) -> None:
        """It is part of a transaction."""
        self.in_transaction = True
        self.txnid_most_bits = most
        self.txnid_least_bits = least

    def encode_body(self) -> bytes:
        out = BytesWriter()
        put_int_field(out, 0x08, self.consumer_id)
        put_int_field(out, 0x10, self.ack_type)
        for message_id in self.message_ids:
            put_message_id_field(out, 0x1A, message_id)
        if self.validation_error is not None:
            put_int_field(out, 0x20, self.validation_error)
        for key, value in self.properties:
            inner = BytesWriter()
            put_text_field(inner, 0x0A, key)
            put_int_field(inner, 0x10, value)
            put_bytes_field(out, 0x2A, inner.getvalue())
        if self.in_transaction or self.txnid_least_bits != 0:
            put_int_field(out, 0x30, self.txnid_least_bits)
        if self.in_transaction or self.txnid_most_bits != 0:
            put_int_field(out, 0x38, self.txnid_most_bits)
        if self.request_id is not None:
            put_int_field(out, 0x40, self.request_id)
        return out.getvalue()


def decode_ack(reader: Reader) -> CommandAck:
    ack = CommandAck(0, 0, [])
    end_ack(reader, ack, decode_ack_some(reader, ack, 0, FIELDS_MAX))
    return ack


def decode_ack_some(reader: Reader, ack: CommandAck, present: i64, count: i64) -> i64:
    """Decodes so many fields at most; returns which are present, those of before too."""
    while count > 0 and (tag := reader.tag()) != 0:
        count -= 1
        if tag == 0x08:
            ack.consumer_id = reader.varint()
            present |= 2
        elif tag == 0x10:
            ack.ack_type = reader.int32()
            present |= 4
        elif tag == 0x1A:
            ack.message_ids.append(decode_message_id_data(reader.message(MESSAGE_ID_SHAPE)))
        elif tag == 0x20:
            ack.validation_error = reader.int32()
        elif tag == 0x2A:
            ack.properties.append(_decode_key_long_value(reader.message(KEY_LONG_VALUE_SHAPE)))
        elif tag == 0x30:
            ack.txnid_least_bits = reader.varint()
            present |= 64
        elif tag == 0x38:
            ack.txnid_most_bits = reader.varint()
            present |= 128
        elif tag == 0x40:
            ack.request_id = reader.varint()
        else:
            reader.skip()
    return present


def end_ack(reader: Reader, ack: CommandAck, present: i64) -> None:
    """All fields are decoded: those that an ACK needs must be among them."""
    if present != 6:
        ack.in_transaction = present & 192 == 192
        reader.require(present, (1, 2))


def _decode_key_long_value(reader: Reader) -> tuple[str, int]:
    key = ""
    value: i64 = 0
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x0A:
            key = reader.text()
            present |= 2
        elif tag == 0x10:
            value = reader.varint()
            present |= 4
        else:
            reader.skip()
    reader.require(present, (1, 2))
    return (key, value)


@final
class CommandAckResponse:
    """The ack of `request_id` is kept, or `error` says why not."""

    def __init__(
        self,
        consumer_id: i64,
        request_id: int | None = None,
        error: int | None = None,
        message: str | None = None,
    ) -> None:
        self.consumer_id: i64 = consumer_id
        self.request_id = request_id
        self.error = error
        self.message = message
        self.txnid_least_bits: i64 = 0
        self.txnid_most_bits: i64 = 0

    def encode_body(self) -> bytes:
        out = BytesWriter()
        put_int_field(out, 0x08, self.consumer_id)
        if self.txnid_least_bits != 0:
            put_int_field(out, 0x10, self.txnid_least_bits)
        if self.txnid_most_bits != 0:
            put_int_field(out, 0x18, self.txnid_most_bits)
        if self.error is not None:
            put_int_field(out, 0x20, self.error)
        if self.message is not None:
            put_text_field(out, 0x2A, self.message)
        if self.request_id is not None:
            put_int_field(out, 0x30, self.request_id)
        return out.getvalue()


def decode_ack_response(reader: Reader) -> CommandAckResponse:
    response = CommandAckResponse(0)
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x08:
            response.consumer_id = reader.varint()
            present |= 2
        elif tag == 0x10:
            response.txnid_least_bits = reader.varint()
        elif tag == 0x18:
            response.txnid_most_bits = reader.varint()
        elif tag == 0x20:
            response.error = reader.int32()
        elif tag == 0x2A:
            response.message = reader.text()
        elif tag == 0x30:
            response.request_id = reader.varint()
        else:
            reader.skip()
    reader.require(present, (1,))
    return response
