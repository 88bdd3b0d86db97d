"""A tour of the wire: one batch goes out, comes back, and is acknowledged in part.

    python examples/wire_tour.py

No broker is needed: both ends of the conversation are played here, with the same codec
that a broker and a client use.
"""

from magnetar import MessageId
from magnetar.model import AckType
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    BatchWriter,
    CommandAck,
    CommandMessage,
    CommandSend,
    Connection,
    MessageMetadata,
    decode_batch,
    encode,
    encode_entry,
    split_entry,
)
from magnetar.wire.ack_set import all_unacked, bits_to_words


def show(title: str, frame: bytes) -> None:
    print(f"\n{title}  ({len(frame)} bytes)")
    for first in range(0, len(frame), 24):
        row = frame[first : first + 24]
        text = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        print(f"  {first:4d}  {row.hex(' '):71}  {text}")


def received(frame: bytes) -> object:
    """What the other end makes of a frame that arrives byte by byte."""
    connection = Connection()
    for i in range(len(frame)):
        connection.receive_data(frame[i : i + 1])
    return connection.next_command()


def main() -> None:
    orders = ["3 apples", "5 pears", "1 plum"]

    batch = BatchWriter()
    for number, order in enumerate(orders):
        batch.add(order.encode(), sequence_id=number)
    metadata = MessageMetadata("greengrocer", sequence_id=0, publish_time=1_790_000_000_000)
    metadata.num_messages_in_batch = batch.count
    entry = encode_entry(metadata.encode(), batch.getvalue())
    frame = encode(CommandSend(1, 0, entry, num_messages=len(orders)))
    show("producer -> broker: SEND, a batch of three", frame)

    send = received(frame)
    assert isinstance(send, CommandSend)
    stored = split_entry(send.entry)
    print(
        f"  the broker finds {stored.metadata().num_messages_in_batch} messages, "
        f"checksum {stored.checksum:08x} is right: {stored.intact()}"
    )

    unacked = all_unacked(len(orders)) & ~(1 << 1)
    frame = encode(CommandMessage(1, MessageIdData(12345, 4), send.entry, ack_set=unacked))
    show("broker -> consumer: MESSAGE, of which index 1 was acked before", frame)

    message = received(frame)
    assert isinstance(message, CommandMessage)
    assert message.ack_set is not None
    payload = split_entry(message.entry).payload()
    for index, single in enumerate(decode_batch(payload, len(orders))):
        state = "deliver" if message.ack_set >> index & 1 else "hide   "
        message_id = MessageId(-1, 12345, 4, index, batch_size=len(orders))
        print(f"  {state}  {single.payload.decode():10}  {message_id}  {message_id.to_base64()}")

    left = unacked & ~(1 << 0)
    ack = CommandAck(1, AckType.Individual, [MessageIdData(12345, 4, ack_set=left)], request_id=7)
    show("consumer -> broker: ACK of index 0, with a receipt wanted", encode(ack))
    print(f"  ack_set {bits_to_words(left)}: index 2 is all that is left of the batch")


if __name__ == "__main__":
    main()
