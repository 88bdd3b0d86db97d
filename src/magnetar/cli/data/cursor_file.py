"""Cursors in files, as Apache Pulsar would store them.

A file is the bytes of one PositionInfo or ManagedCursorInfo and nothing else; `load` tells
them apart. Pulsar's setting managedCursorInfoCompressionType wraps the second one:

    u16  0x4778
    u32  size of the metadata, big-endian like the magic number
    metadata, a message: 1 compressionType, 2 uncompressedSize
    the compressed ManagedCursorInfo

With NONE it stands as it is. No message begins with that magic number: its first byte would
be a field of wire type 7, which there is not.
"""

from typing import Final

from magnetar.ack.cursor_info import CursorInfo
from magnetar.ack.encoding.cursor_info_codec import (
    decode_managed_cursor_info,
    decode_position_info,
    encode_managed_cursor_info,
    is_managed_cursor_info,
)
from magnetar.errors import CorruptAckError, ProtocolError, RemoteProtocolError
from magnetar.model import CompressionType
from magnetar.protocol.payload.compression import compress, decompress
from magnetar.wire.reader import Reader, Shape
from magnetar.wire.writer import BytesWriter, put_int_field

__all__ = ["decode_cursor_file", "encode_compressed", "file_name"]

MAGIC: Final = b"\x47\x78"
SIZE_BYTES: Final = 4
METADATA: Final = Shape("ManagedCursorInfoMetadata", {1: "compressionType", 2: "uncompressedSize"})
# What a damaged file can make us allocate. A cursor with ten million ranges takes 250 MB.
UNCOMPRESSED_BYTES_MAX: Final = 1 << 30

NAME_CHARACTERS_MAX: Final = 80
SAFE: Final = frozenset("-._0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def file_name(cursor_id: int, name: str, *, managed: bool) -> str:
    """Returns the file of a cursor: its id makes it unique, its name is for people.

    >>> file_name(7, "my/sub", managed=False), file_name(8, "a", managed=True)
    ('7-my_sub.position-info', '8-a.managed-cursor-info')
    """
    safe = "".join(c if c in SAFE else "_" for c in name[:NAME_CHARACTERS_MAX])
    return f"{cursor_id}-{safe}.{'managed-cursor-info' if managed else 'position-info'}"


def encode_compressed(info: CursorInfo, kind: CompressionType) -> bytes:
    """Returns a ManagedCursorInfo, compressed unless `kind` is NONE."""
    plain = encode_managed_cursor_info(info)
    if kind == CompressionType.NONE:
        return plain
    metadata = BytesWriter()
    put_int_field(metadata, 0x08, kind)
    put_int_field(metadata, 0x10, len(plain))
    head = metadata.getvalue()
    return MAGIC + len(head).to_bytes(SIZE_BYTES, "big") + head + compress(kind, plain)


def decode_cursor_file(data: bytes) -> CursorInfo:
    """Returns what a file says, whichever of the messages it holds. Raises CorruptAckError."""
    if data.startswith(MAGIC):
        try:
            return decode_managed_cursor_info(_unwrap(data))
        except ProtocolError as error:
            raise CorruptAckError(0, str(error)) from None
    if is_managed_cursor_info(data):
        return decode_managed_cursor_info(data)
    return decode_position_info(data)


def _unwrap(data: bytes) -> bytes:
    first = len(MAGIC) + SIZE_BYTES
    end = first + int.from_bytes(data[len(MAGIC) : first], "big")
    if not first <= end <= len(data):
        raise RemoteProtocolError(METADATA.name, first, f"{end - first} bytes are not there")
    reader = Reader(data, first, end, METADATA)
    kind, size, present = 0, 0, 0
    while (tag := reader.tag()) != 0:
        if tag == 0x08:
            kind = reader.varint()
            present |= 2
        elif tag == 0x10:
            size = reader.varint()
            present |= 4
        else:
            reader.skip()
    reader.require(present, (1, 2))
    if size < 0:
        reader.fail(f"{size} bytes")
    return decompress(kind, data[end:], size, UNCOMPRESSED_BYTES_MAX)
