"""Entries: what a SEND publishes, a ledger stores and a MESSAGE delivers, byte for byte.

    [0e02 · u32 n · BrokerEntryMetadata(n)]   put in front by a broker, if it does so
    [0e01 · u32 crc32c]                       of all that follows
    u32 n · MessageMetadata(n)
    payload

Both bracketed parts are optional. `split_entry` finds the parts and decodes none of
them: the broker mostly passes entries on, and looks at a few facts only.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import RemoteProtocolError
from magnetar.protocol.frame import read_u32
from magnetar.protocol.metadata import SHAPE as METADATA_SHAPE
from magnetar.protocol.metadata import MessageMetadata, decode_metadata
from magnetar.wire.checksum import crc32c, crc32c_part
from magnetar.wire.reader import Reader, Shape
from magnetar.wire.writer import BytesWriter, put_int_field, put_u32

BROKER_METADATA_MAGIC: Final = 0x0E02
CHECKSUM_MAGIC: Final = 0x0E01
CHECKSUM_PART_SIZE: Final = 6

BROKER_METADATA_SHAPE: Final = Shape("BrokerEntryMetadata", {1: "broker_timestamp", 2: "index"})


@final
class BrokerEntryMetadata:
    """What a broker adds to an entry: when it came, and how many messages came before."""

    def __init__(self, broker_timestamp: int | None = None, index: int | None = None) -> None:
        self.broker_timestamp = broker_timestamp
        self.index = index

    def encode(self) -> bytes:
        out = BytesWriter()
        if self.broker_timestamp is not None:
            put_int_field(out, 0x08, self.broker_timestamp)
        if self.index is not None:
            put_int_field(out, 0x10, self.index)
        return out.getvalue()


@final
class Entry:
    """An entry's parts, as offsets into its bytes. A checksum of -1 says it has none."""

    def __init__(
        self,
        data: bytes,
        broker_metadata_first: i64,
        broker_metadata_end: i64,
        checksum: i64,
        body_first: i64,
        metadata_end: i64,
    ) -> None:
        self.data = data
        self.broker_metadata_first: i64 = broker_metadata_first
        self.broker_metadata_end: i64 = broker_metadata_end
        self.checksum: i64 = checksum
        self.body_first: i64 = body_first
        self.metadata_end: i64 = metadata_end

    def intact(self) -> bool:
        """Returns whether the bytes are those that the checksum, if there is one, was made of."""
        if self.checksum < 0:
            return True
        return crc32c_part(self.data, self.body_first, len(self.data)) == self.checksum

    def broker_metadata(self) -> BrokerEntryMetadata | None:
        """Raises RemoteProtocolError."""
        if self.broker_metadata_end == 0:
            return None
        return decode_broker_metadata(
            Reader(
                self.data,
                self.broker_metadata_first,
                self.broker_metadata_end,
                BROKER_METADATA_SHAPE,
            )
        )

    def metadata(self) -> MessageMetadata:
        """Raises RemoteProtocolError."""
        return decode_metadata(
            Reader(self.data, self.body_first + 4, self.metadata_end, METADATA_SHAPE)
        )

    def payload(self) -> bytes:
        return self.data[self.metadata_end :]

    def without_broker_metadata(self) -> bytes:
        """Returns the entry as the producer sent it, for peers that know no more."""
        if self.broker_metadata_end == 0:
            return self.data
        return self.data[self.broker_metadata_end :]


def split_entry(data: bytes) -> Entry:
    """Finds the parts of an entry. Raises RemoteProtocolError."""
    end: i64 = len(data)
    pos: i64 = 0
    broker_first: i64 = 0
    broker_end: i64 = 0
    magic = _magic(data, pos)
    if magic == BROKER_METADATA_MAGIC:
        size = _size(data, 2, end, "entry.brokerEntryMetadataSize")
        broker_first = 6
        broker_end = 6 + size
        pos = broker_end
        magic = _magic(data, pos)
    checksum: i64 = -1
    if magic == CHECKSUM_MAGIC:
        if end - pos < CHECKSUM_PART_SIZE:
            raise RemoteProtocolError("entry.checksum", pos, "truncated")
        checksum = read_u32(data, pos + 2)
        pos += CHECKSUM_PART_SIZE
    size = _size(data, pos, end, "entry.metadataSize")
    return Entry(data, broker_first, broker_end, checksum, pos, pos + 4 + size)


def encode_entry(metadata: bytes, payload: bytes, *, checksum: bool = True) -> bytes:
    """Returns an entry as a producer sends it, from encoded metadata and finished payload."""
    sized = _with_size(metadata)
    if not checksum:
        return sized + payload
    return b"".join([_checksum_part(crc32c(payload, crc32c(sized))), sized, payload])


def encode_entry_head(metadata: bytes, payload: bytes, first: i64, end: i64) -> bytes:
    """Returns an entry up to its payload, which is `payload[first:end]` and need not be copied."""
    sized = _with_size(metadata)
    return _checksum_part(crc32c_part(payload, first, end, crc32c(sized))) + sized


def with_broker_metadata(entry: bytes, metadata: BrokerEntryMetadata) -> bytes:
    """Returns the entry with a broker's part in front, replacing none."""
    return b"".join([b"\x0e\x02", _with_size(metadata.encode()), entry])


def decode_broker_metadata(reader: Reader) -> BrokerEntryMetadata:
    metadata = BrokerEntryMetadata()
    while (tag := reader.tag()) != 0:
        if tag == 0x08:
            metadata.broker_timestamp = reader.varint()
        elif tag == 0x10:
            metadata.index = reader.varint()
        else:
            reader.skip()
    return metadata


def _with_size(metadata: bytes) -> bytes:
    out = BytesWriter()
    put_u32(out, len(metadata))
    out.write(metadata)
    return out.getvalue()


def _checksum_part(checksum: i64) -> bytes:
    out = BytesWriter()
    out.append(0x0E)
    out.append(0x01)
    put_u32(out, checksum)
    return out.getvalue()


def _magic(data: bytes, pos: i64) -> i64:
    if len(data) - pos < 2:
        return 0
    high: i64 = data[pos]
    low: i64 = data[pos + 1]
    return high << 8 | low


def _size(data: bytes, pos: i64, end: i64, field: str) -> i64:
    if end - pos < 4:
        raise RemoteProtocolError(field, pos, "truncated")
    size = read_u32(data, pos)
    if size > end - pos - 4:
        raise RemoteProtocolError(field, pos, f"{size} bytes where {end - pos - 4} are left")
    return size
