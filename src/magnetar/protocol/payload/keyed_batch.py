"""A batch as compaction sees it: the key of each message, and the batch that is left of it.

Messages that are left out keep their places, so that a batch index names the same message as
before: each becomes eight bytes that say `compacted_out`. The metadata of the batch lists the
indexes of those that stay (`compacted_batch_indexes`).

A batch may have tens of thousands of messages, so both are done some messages at a time.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.protocol.entry import Entry, encode_entry
from magnetar.protocol.metadata import SHAPE as METADATA_SHAPE
from magnetar.protocol.payload.batch import (
    SHAPE,
    check_batch_end,
    metadata_end_at,
    payload_end_at,
)
from magnetar.protocol.payload.compression import compress
from magnetar.wire.reader import Reader
from magnetar.wire.writer import BytesWriter, put_int_field

__all__ = ["COMPACTED_OUT", "KeyedBatch", "compacted_entry", "staying_indexes"]

# What stands for a message that was left out: no payload, compacted_out.
COMPACTED_OUT: Final = b"\x00\x00\x00\x04\x18\x00\x20\x01"
# Fields of MessageMetadata, as tags.
COMPRESSION: Final = 0x40
UNCOMPRESSED_SIZE: Final = 0x48
STAYING: Final = 0xF8
STAYING_PACKED: Final = 0xFA


@final
class KeyedBatch:
    """The messages of an uncompressed batch, as far as `read` has come."""

    def __init__(self, payload: bytes, first: i64, count: i64) -> None:
        self._payload: Final = payload
        self._pos: i64 = first
        self._reader: Final = Reader(payload, 0, 0, SHAPE)
        self.count: Final[i64] = count
        # Of each message its key, or None; whether it has no payload; whether it was left out
        # before; and where it begins. One more beginning is the end.
        self.keys: Final[list[bytes | None]] = []
        self.empty: Final[list[bool]] = []
        self.gone: Final[list[bool]] = []
        self.starts: Final[list[int]] = [int(first)]

    def read(self, most: i64) -> bool:
        """Reads so many more; whether there are others. Raises RemoteProtocolError."""
        payload, reader = self._payload, self._reader
        pos = self._pos
        left = min(most, self.count - len(self.keys))
        while left > 0:
            left -= 1
            metadata_end = metadata_end_at(payload, pos)
            reader.rewind(pos + 4, metadata_end)
            size = self._read_single(reader)
            pos = payload_end_at(payload, metadata_end, size)
            self.starts.append(int(pos))
        self._pos = pos
        if len(self.keys) < self.count:
            return True
        check_batch_end(payload, pos, self.count)
        return False

    def _read_single(self, reader: Reader) -> i64:
        size: i64 = -1
        key: bytes | None = None
        gone = False
        while (tag := reader.tag()) != 0:
            if tag == 0x18:
                size = reader.int32()
                if size < 0:
                    reader.fail(f"payload of {size} bytes")
            elif tag == 0x12:
                key = reader.raw()
            elif tag == 0x20:
                gone = reader.boolean()
            else:
                reader.skip()
        if size < 0:
            reader.require(0, (3,))
        self.keys.append(key)
        self.empty.append(size == 0)
        self.gone.append(gone)
        return size

    def part(self, index: int) -> bytes:
        """The bytes of a message, as they stay in the batch."""
        return self._payload[self.starts[index] : self.starts[index + 1]]


def compacted_entry(entry: Entry, parts: list[bytes], kept: list[int]) -> bytes:
    """Returns a batch of which the messages `kept` stay; `parts` are the bytes of all.

    What its metadata says beside that stays as the producer wrote it, byte for byte: a broker
    does not read all of it, and a later Pulsar may say more. Raises RemoteProtocolError.
    """
    payload = b"".join(parts)
    out = BytesWriter()
    compression = _put_what_stays(out, entry)
    put_int_field(out, UNCOMPRESSED_SIZE, len(payload))
    for index in kept:
        put_int_field(out, STAYING, index)
    return encode_entry(out.getvalue(), compress(compression, payload))


def _put_what_stays(out: BytesWriter, entry: Entry) -> i64:
    """Writes all of the metadata but what is written anew; the compression that it names."""
    data = entry.data
    reader = Reader(data, entry.body_first + 4, entry.metadata_end, METADATA_SHAPE)
    compression: i64 = 0
    while True:
        start = reader.pos
        tag = reader.tag()
        if tag == 0:
            return compression
        if tag == COMPRESSION:
            compression = reader.int32()
        else:
            reader.skip()
        if tag != UNCOMPRESSED_SIZE and tag != STAYING and tag != STAYING_PACKED:
            out.write(data[start : reader.pos])


def staying_indexes(entry: Entry, count: i64) -> int | None:
    """Returns the indexes of a compacted batch of `count` that stay, as bits; None if all do.

    Others than it has are passed over: a producer may say anything. Raises RemoteProtocolError.
    """
    reader = Reader(entry.data, entry.body_first + 4, entry.metadata_end, METADATA_SHAPE)
    bits = bytearray((count + 7) // 8)
    found = False
    while (tag := reader.tag()) != 0:
        if tag == STAYING:
            found = True
            _stay(bits, reader.int32(), count)
        elif tag == STAYING_PACKED:
            found = True
            inner = reader.packed()
            while inner.more():
                _stay(bits, inner.int32(), count)
        else:
            reader.skip()
    return int.from_bytes(bits, "little") if found else None


def _stay(bits: bytearray, index: i64, count: i64) -> None:
    if 0 <= index < count:
        bits[index >> 3] |= 1 << (index & 7)
