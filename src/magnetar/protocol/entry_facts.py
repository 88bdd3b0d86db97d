"""The few facts of an entry that a broker decides by, read without building its metadata.

A broker passes entries on. What it must know is how many messages there are, when they are
due, which key orders them, and whether the entry is a chunk of something larger. One walk
over the metadata finds that, and leaves names and properties alone.
"""

import base64
import binascii
from typing import Final, final

from mypy_extensions import i64

from magnetar.protocol.entry import Entry
from magnetar.protocol.metadata import SHAPE, chunked_name
from magnetar.wire.reader import Reader

NO_KEY: Final = b"NONE_KEY"


@final
class EntryFacts:
    """See the module. `deliver_at_ms` is 0 and `chunk_id` is -1 where there is none.

    `batch_size` is what the producer says, any number of 32 bits: `batch_fault` judges it.
    """

    def __init__(self) -> None:
        self.batched: bool = False
        self.batch_size: i64 = 1
        self.publish_time_ms: i64 = 0
        self.deliver_at_ms: i64 = 0
        self.sequence_id: i64 = 0
        self.highest_sequence_id: i64 = 0
        self.marker: bool = False
        self.encrypted: bool = False
        self.compression: i64 = 0
        self.uncompressed_size: i64 = 0
        self.chunk_id: i64 = -1
        self.chunk_count: i64 = 0
        self.uuid: str = ""
        self.producer_name: bytes = b""
        self.partition_key: bytes | None = None
        self.key_is_base64: bool = False
        self.ordering_key: bytes | None = None

    def chunked_name(self) -> str:
        """Returns which message this is a chunk of."""
        return chunked_name(self.uuid, self.publish_time_ms, self.chunk_count)

    def sticky_key(self) -> bytes:
        """Returns what Key_Shared orders by: the first message's, where the entry is a batch."""
        if self.ordering_key is not None:
            return self.ordering_key
        if self.partition_key is not None:
            if not self.key_is_base64:
                return self.partition_key
            try:
                return base64.b64decode(self.partition_key, validate=True)
            except binascii.Error:
                return self.partition_key
        if self.producer_name:
            return b"%s-%d" % (self.producer_name, self.sequence_id)
        return NO_KEY


def entry_facts(entry: Entry) -> EntryFacts:
    """Reads the facts of an entry. Raises RemoteProtocolError."""
    facts = EntryFacts()
    reader = Reader(entry.data, entry.body_first + 4, entry.metadata_end, SHAPE)
    present: i64 = 0
    while (tag := reader.tag()) != 0:
        if tag == 0x0A:
            facts.producer_name = reader.raw()
            present |= 2
        elif tag == 0x10:
            facts.sequence_id = reader.varint()
            present |= 4
        elif tag == 0x18:
            facts.publish_time_ms = reader.varint()
            present |= 8
        elif tag == 0x32:
            facts.partition_key = reader.raw()
        elif tag == 0x58:
            facts.batch_size = reader.int32()
            facts.batched = True
        elif tag == 0x48:
            facts.uncompressed_size = reader.uint32()
        else:
            _rare(reader, facts, tag)
    if present != 14:
        reader.require(present, (1, 2, 3))
    return facts


def _rare(reader: Reader, facts: EntryFacts, tag: i64) -> None:
    if tag == 0x40:
        facts.compression = reader.int32()
    elif tag == 0xC0:
        facts.highest_sequence_id = reader.varint()
    elif tag == 0x88:
        facts.key_is_base64 = reader.boolean()
    elif tag == 0x92:
        facts.ordering_key = reader.raw()
    elif tag == 0x98:
        facts.deliver_at_ms = reader.varint()
    elif tag == 0xD2:
        facts.uuid = reader.text()
    elif tag == 0xD8:
        facts.chunk_count = reader.int32()
    elif tag == 0xE8:
        facts.chunk_id = reader.int32()
    elif tag == 0xA0:
        facts.marker = True
        reader.skip()
    elif tag == 0x6A:
        facts.encrypted = True
        reader.skip()
    else:
        reader.skip()
