"""MESSAGE, which hands an entry to a consumer, and FLOW, which asks for more of them."""

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
from magnetar.wire.ack_set import AckSetReader, put_ack_set_field
from magnetar.wire.reader import Reader, Shape
from magnetar.wire.writer import BytesWriter, put_int_field

MESSAGE_SHAPE: Final = Shape(
    "CommandMessage",
    {
        1: "consumer_id",
        2: "message_id",
        3: "redelivery_count",
        4: "ack_set",
        5: "consumer_epoch",
    },
)

FLOW_SHAPE: Final = Shape("CommandFlow", {1: "consumer_id", 2: "messagePermits"})


@final
class CommandMessage:
    """Deliver `entry`; `ack_set` has a bit for each index still unacked, None means all."""

    def __init__(
        self,
        consumer_id: i64,
        message_id: MessageIdData,
        entry: bytes = b"",
        redelivery_count: i64 = 0,
        ack_set: int | None = None,
        consumer_epoch: int | None = None,
    ) -> None:
        self.consumer_id: i64 = consumer_id
        self.message_id = message_id
        self.entry = entry
        self.redelivery_count: i64 = redelivery_count
        self.ack_set = ack_set
        self.consumer_epoch = consumer_epoch

    def encode_body(self) -> bytes:
        out = BytesWriter()
        put_int_field(out, 0x08, self.consumer_id)
        put_message_id_field(out, 0x12, self.message_id)
        if self.redelivery_count != 0:
            put_int_field(out, 0x18, self.redelivery_count)
        if self.ack_set is not None:
            # An empty set would be written as none, and that means the opposite: all.
            assert self.ack_set != 0, "an entry of which everything is acked is not delivered"
            put_ack_set_field(out, 0x20, self.ack_set)
        if self.consumer_epoch is not None:
            put_int_field(out, 0x28, self.consumer_epoch)
        return out.getvalue()


def decode_message(reader: Reader, entry: bytes) -> CommandMessage:
    consumer_id: i64 = 0
    message_id: MessageIdData | None = None
    redelivery_count: i64 = 0
    ack_set: AckSetReader | None = None
    consumer_epoch: int | None = None
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x08:
            consumer_id = reader.varint()
            present |= 2
        elif tag == 0x12:
            if message_id is not None:
                reader.fail("given twice")
            message_id = decode_message_id_data(reader.message(MESSAGE_ID_SHAPE))
            present |= 4
        elif tag == 0x18:
            redelivery_count = reader.uint32()
        elif tag == 0x20:
            ack_set = ack_set or AckSetReader()
            ack_set.take(reader)
        elif tag == 0x22:
            ack_set = ack_set or AckSetReader()
            ack_set.take_packed(reader)
        elif tag == 0x28:
            consumer_epoch = reader.varint()
        else:
            reader.skip()
    if present != 6:
        reader.require(present, (1, 2))
    assert message_id is not None
    bits = None if ack_set is None else ack_set.bits()
    return CommandMessage(consumer_id, message_id, entry, redelivery_count, bits, consumer_epoch)


@final
class CommandFlow:
    """The consumer has room for `message_permits` more messages."""

    def __init__(self, consumer_id: i64, message_permits: i64) -> None:
        self.consumer_id: i64 = consumer_id
        self.message_permits: i64 = message_permits

    def encode_body(self) -> bytes:
        out = BytesWriter()
        put_int_field(out, 0x08, self.consumer_id)
        put_int_field(out, 0x10, self.message_permits)
        return out.getvalue()


def decode_flow(reader: Reader) -> CommandFlow:
    flow = CommandFlow(0, 0)
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x08:
            flow.consumer_id = reader.varint()
            present |= 2
        elif tag == 0x10:
            flow.message_permits = reader.uint32()
            present |= 4
        else:
            reader.skip()
    if present != 6:
        reader.require(present, (1, 2))
    return flow
