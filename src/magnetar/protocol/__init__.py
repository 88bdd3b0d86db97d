"""Pulsar's wire protocol without I/O: bytes in, commands out, and the way back.

`Connection` turns a stream into commands, `encode` a command into a frame. Entries,
batches, columns, chunks and compression are what travels inside.
"""

from magnetar.protocol.ack import CommandAck, CommandAckResponse
from magnetar.protocol.cold import message_id_from_pb, message_id_to_pb
from magnetar.protocol.command import (
    Command,
    HotCommand,
    UnknownCommand,
    encode,
    encode_head,
    encode_with_fields,
)
from magnetar.protocol.connection import Connection
from magnetar.protocol.entry import (
    BrokerEntryMetadata,
    Entry,
    encode_entry,
    split_entry,
    with_broker_metadata,
)
from magnetar.protocol.entry_facts import EntryFacts, entry_facts
from magnetar.protocol.key_hash import auto_split_slot, consistent_slot, key_hash
from magnetar.protocol.limit import MESSAGE_SIZE_MAX, PROTOCOL_VERSION
from magnetar.protocol.message import CommandFlow, CommandMessage
from magnetar.protocol.metadata import EncryptionKeys, MessageMetadata
from magnetar.protocol.payload.batch import BatchWriter, SingleMessage, decode_batch, encode_batch
from magnetar.protocol.payload.batch_claim import batch_fault, messages_charged, unpacked_size
from magnetar.protocol.payload.chunk import ChunkPlan, plan_chunks
from magnetar.protocol.payload.columns import (
    BatchColumns,
    BinaryColumn,
    BitColumn,
    NumberColumn,
    decode_batch_columns,
)
from magnetar.protocol.payload.compression import compress, decompress
from magnetar.protocol.send import CommandSend, CommandSendReceipt
from magnetar.protocol.topics_hash import topics_hash
from magnetar.wire.checksum import crc32c
from magnetar.wire.integer import signed

__all__ = [
    "MESSAGE_SIZE_MAX",
    "PROTOCOL_VERSION",
    "BatchColumns",
    "BatchWriter",
    "BinaryColumn",
    "BitColumn",
    "BrokerEntryMetadata",
    "ChunkPlan",
    "Command",
    "CommandAck",
    "CommandAckResponse",
    "CommandFlow",
    "CommandMessage",
    "CommandSend",
    "CommandSendReceipt",
    "Connection",
    "EncryptionKeys",
    "Entry",
    "EntryFacts",
    "HotCommand",
    "MessageMetadata",
    "NumberColumn",
    "SingleMessage",
    "UnknownCommand",
    "auto_split_slot",
    "batch_fault",
    "compress",
    "consistent_slot",
    "crc32c",
    "decode_batch",
    "decode_batch_columns",
    "decompress",
    "encode",
    "encode_batch",
    "encode_entry",
    "encode_head",
    "encode_with_fields",
    "entry_facts",
    "key_hash",
    "message_id_from_pb",
    "message_id_to_pb",
    "messages_charged",
    "plan_chunks",
    "signed",
    "split_entry",
    "topics_hash",
    "unpacked_size",
    "with_broker_metadata",
]
