"""A valid example of each thing on the wire, for the fuzzer to begin with."""

from magnetar.model import MessageId
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    BrokerEntryMetadata,
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandMessage,
    CommandSend,
    CommandSendReceipt,
    MessageMetadata,
    SingleMessage,
    compress,
    encode,
    encode_batch,
    encode_entry,
    with_broker_metadata,
)
from magnetar.protocol import pulsar_pb2 as pb

_ID = MessageIdData(5, 9, 1, 2, 0b110, 3, MessageIdData(5, 8))
_METADATA = MessageMetadata("producer", 7, 1_790_000_000_000)
_METADATA.properties = [("k", "v")]
_METADATA.num_messages_in_batch = 2
_ENTRY = encode_entry(_METADATA.encode(), b"payload")

SEEDS: dict[str, bytes] = {
    "send": encode(CommandSend(1, 2, _ENTRY)),
    "receipt": encode(CommandSendReceipt(1, 2, _ID)),
    "message": encode(CommandMessage(1, _ID, _ENTRY, 1, 0b1001)),
    "ack": encode(CommandAck(1, 0, [_ID, _ID], request_id=3)),
    "ack_response": encode(CommandAckResponse(1, 3, 6, "later")),
    "flow": encode(CommandFlow(1, 1000)),
    "ping": encode(pb.CommandPing()),
    "subscribe": encode(
        pb.CommandSubscribe(
            topic="t",
            subscription="s",
            subType=3,
            consumer_id=1,
            request_id=2,
            metadata=[pb.KeyValue(key="a", value="b")],
            keySharedMeta=pb.KeySharedMeta(
                keySharedMode=1, hashRanges=[pb.IntRange(start=0, end=9)]
            ),
            start_message_id=pb.MessageIdData(ledgerId=1, entryId=2),
        )
    ),
    "entry": with_broker_metadata(_ENTRY, BrokerEntryMetadata(1, 2)),
    "batch": encode_batch([SingleMessage(b"one", 1), SingleMessage(b"two", 2)]),
    "id": MessageId(1, 2, 3, 4).serialize(),
    **{f"compressed_{kind}": compress(kind, b"abc" * 50) for kind in range(1, 5)},
}
