"""Commands of a client that are nearly right: each has its fields, and some of them are odd.

They are filled along the schema, so that a field that is added is fuzzed too. Names, ids of
messages and numbers of consumers come from short lists, or no two commands would ever be about
the same thing.
"""

from typing import Any, Final

from fuzz.draw import Draw
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from magnetar.protocol import SingleMessage, compress, encode_batch, encode_entry
from magnetar.protocol import pulsar_pb2 as pb

TOPICS: Final = (
    *("t", "t", "t", "u", "u", "p", "p-partition-0"),
    *("non-persistent://public/default/n", "a/b/c/d"),
)
SUBSCRIPTIONS: Final = ("s", "k", "f", "")
PATTERNS: Final = ("public/default/.*", ".*", "persistent://public/default/(t|u)", "(", "a{1000}")
NAMESPACES: Final = ("public/default", "public/none", "public")
AVRO: Final = b'{"type":"record","name":"R","fields":[{"name":"x","type":%s}]}'
SCHEMAS: Final = (
    b"",
    AVRO % b'"int"',
    AVRO % b'["null","string"]',
    AVRO % b'"R"',
    b"{}",
    b"[" * 60,
)
KEYS: Final = ("", "k1", "k2")
UUIDS: Final = ("u1", "u2")

# What a field of this name mostly is.
NAMED: Final[dict[str, tuple[Any, ...]]] = {
    "topic": TOPICS,
    "subscription": SUBSCRIPTIONS,
    "namespace": NAMESPACES,
    "topics_pattern": PATTERNS,
    "schema_data": SCHEMAS,
    "partition_key": KEYS,
    "uuid": UUIDS,
    "producer_name": ("", "one", "two"),
    "consumer_id": (0, 1, 2),
    "producer_id": (0, 0, 0, 1, 1, 2),
    "watcher_id": (0, 1),
    "subType": (1, 3, 2, 0),
    "messagePermits": (1, 10, 1000, 0),
    "chunk_id": (0, 1, 2),
    "num_chunks_from_msg": (2, 3, 1),
    "force_topic_creation": (True, True, False),
    "durable": (True, True, False),
    "ack_set": (0, 1, 2, 5, (1 << 64) - 1),
    "partitions": TOPICS,
    "tc_id": (0, 0, 0, 1),
    "txn_ttl_millis": (1, 1000, 60_000, 60_000, 0),
    "txn_action": (0, 1),
    "txnid_most_bits": (0,),
}
# Of a transaction that there was, mostly.
NUMBER: Final = "txnid_least_bits"
# Commands that clients send, the frequent ones several times.
SENT: Final = (
    *("subscribe", "producer", "flow", "ack", "subscribe", "flow", "ack", "ack"),
    *("redeliverUnacknowledgedMessages", "seek", "unsubscribe", "close_consumer"),
    *("close_producer", "getLastMessageId", "consumerStats", "getTopicsOfNamespace"),
    *("watchTopicList", "watchTopicListClose", "getSchema", "getOrCreateSchema"),
    *("lookupTopic", "partitionMetadata", "ping", "pong", "withdrawn", "authResponse"),
    *("newTxn", "newTxn", "endTxn", "endTxn", "addPartitionToTxn", "addSubscriptionToTxn"),
    "tcClientConnectRequest",
)
ANY: Final = tuple(field.name for field in pb.BaseCommand.DESCRIPTOR.fields if field.number > 1)
TYPE_OF: Final = {
    field.name: field.number for field in pb.BaseCommand.DESCRIPTOR.fields if field.number > 1
}
# A batch that claims other messages than it has claims no more than these.
CLAIM_MAX: Final = 1000
REPEATED_MAX: Final = 4
DEPTH_MAX: Final = 3
# These may be left out, but a command means little without.
MOSTLY: Final = ("message_id", "message_ids")

INTEGERS: Final = {
    FieldDescriptor.TYPE_INT32: (32, True),
    FieldDescriptor.TYPE_SINT32: (32, True),
    FieldDescriptor.TYPE_UINT32: (32, False),
    FieldDescriptor.TYPE_INT64: (64, True),
    FieldDescriptor.TYPE_SINT64: (64, True),
    FieldDescriptor.TYPE_UINT64: (64, False),
    FieldDescriptor.TYPE_FIXED64: (64, False),
}


class Commands:
    """Makes commands. `ids` are of messages that there are: ledger and entry. `numbers` are those
    of transactions."""

    def __init__(self, draw: Draw, ids: list[tuple[int, int]], numbers: list[int]) -> None:
        self._draw: Final = draw
        self._ids: Final = ids
        self._numbers: Final = numbers

    def one(self) -> bytes:
        """The frame of a command: one that clients send, a SEND, or any."""
        draw = self._draw
        kind = draw.below(16)
        if kind < 4:
            return self.send()
        name = draw.pick(ANY) if kind == 15 else draw.pick(SENT)
        command = pb.BaseCommand(type=TYPE_OF[name])
        self._fill(getattr(command, name))
        getattr(command, name).SetInParent()
        if draw.rarely(64):
            command.type = TYPE_OF[draw.pick(ANY)]
        return frame(command.SerializePartialToString())

    def send(self) -> bytes:
        draw = self._draw
        command = pb.BaseCommand(type=TYPE_OF["send"])
        self._fill(command.send)
        metadata = pb.MessageMetadata()
        self._fill(metadata)
        payload = self._payload(metadata, command.send)
        entry = encode_entry(
            metadata.SerializePartialToString(), payload, checksum=not draw.rarely()
        )
        if draw.rarely():
            entry = entry[: draw.below(len(entry) + 1)]
        return frame(command.SerializePartialToString(), entry)

    def _payload(self, metadata: pb.MessageMetadata, send: pb.CommandSend) -> bytes:
        draw = self._draw
        kind = draw.below(4)
        if kind == 0:
            metadata.ClearField("num_messages_in_batch")
            payload = draw.some()
        elif kind == 1:
            payload = draw.some()
            metadata.num_messages_in_batch = min(draw.integer(), CLAIM_MAX)
        else:
            count = draw.below(8)
            payload = encode_batch([SingleMessage(b"%d" % i, i) for i in range(count)])
            metadata.num_messages_in_batch = count
            send.num_messages = count
        if draw.rarely(4):
            metadata.uncompressed_size = len(payload)
            metadata.compression = draw.below(5)
            payload = compress(metadata.compression, payload)
        elif not draw.rarely():
            metadata.ClearField("compression")
        return payload

    def _fill(self, message: Message, depth: int = 0) -> None:
        """Gives fields values: required ones nearly always, others if a bit says so."""
        draw = self._draw
        if isinstance(message, pb.MessageIdData):
            self._fill_id(message)
            return
        optional = self._optional()
        fields: Any = message.DESCRIPTOR.fields
        for i, field in enumerate(fields):
            if field.is_required:
                if not draw.rarely(256):
                    self._fill_field(message, field, depth)
            elif (optional >> i % 16 & 1 and depth < DEPTH_MAX) or (
                field.name in MOSTLY and not draw.rarely(4)
            ):
                self._fill_field(message, field, depth)

    def _optional(self) -> int:
        """A bit for each field that may be left out: none in half the cases, else a quarter."""
        draw = self._draw
        if not draw.below(2):
            return 0
        return int.from_bytes(draw.take(2), "big") & int.from_bytes(draw.take(2), "big")

    def _fill_field(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        count = 1 + self._draw.below(REPEATED_MAX) if field.is_repeated else 1
        held = getattr(message, field.name)
        for _ in range(count):
            if field.message_type is not None:
                inner = held.add() if field.is_repeated else held
                inner.SetInParent()
                self._fill(inner, depth + 1)
            elif field.is_repeated:
                held.append(self._value(field))
            else:
                setattr(message, field.name, self._value(field))

    def _fill_id(self, id: pb.MessageIdData) -> None:
        """One that there is, one that is near it, or none at all."""
        draw = self._draw
        ledger, entry = draw.pick(self._ids) if self._ids else (0, 0)
        kind = draw.below(8)
        if kind == 5:
            entry += draw.below(8)
        elif kind == 6:
            ledger, entry = draw.integer(), draw.integer()
        elif kind == 7:
            ledger = entry = (1 << 64) - 1
        id.ledgerId, id.entryId = ledger, entry & ((1 << 64) - 1)
        parts = draw.byte()
        if parts & 1:
            id.batch_index = draw.below(10) - 1
        if parts & 2:
            id.batch_size = draw.below(10)
        if parts & 4:
            id.ack_set.extend(draw.pick(NAMED["ack_set"]) & (1 << 63) - 1 for _ in range(2))
        if parts & 8 and draw.rarely(4):
            id.partition = draw.below(4) - 1
        if parts & 16 and self._ids:
            ledger, entry = draw.pick(self._ids)
            id.first_chunk_message_id.ledgerId = ledger
            id.first_chunk_message_id.entryId = entry

    def _value(self, field: FieldDescriptor) -> Any:
        draw = self._draw
        kind = field.type
        if field.name == NUMBER and self._numbers and not draw.rarely():
            return draw.pick(self._numbers)
        known = NAMED.get(field.name)
        if known is not None and not draw.rarely():
            return fitted(kind, draw.pick(known))
        if kind == FieldDescriptor.TYPE_STRING:
            return draw.text()
        if kind == FieldDescriptor.TYPE_BYTES:
            return draw.some()
        if kind == FieldDescriptor.TYPE_BOOL:
            return draw.below(2) == 1
        if kind == FieldDescriptor.TYPE_ENUM:
            return draw.below(6)
        if kind in INTEGERS:
            return fitted(kind, draw.integer())
        return float(draw.integer())


def fitted(kind: int, value: Any) -> Any:
    """A number as a field of this kind can hold it."""
    if kind not in INTEGERS:
        return value
    bits, is_signed = INTEGERS[kind]
    value &= (1 << bits) - 1
    return value - (1 << bits) if is_signed and value >> bits - 1 else value


def frame(command: bytes, entry: bytes = b"") -> bytes:
    size = 4 + len(command) + len(entry)
    return size.to_bytes(4, "big") + len(command).to_bytes(4, "big") + command + entry
