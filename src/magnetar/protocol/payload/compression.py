"""The four compressions that producers choose from, bounded both ways.

Pulsar compresses the whole payload of an entry, batch or not, and says in the metadata
how large it was before. LZ4 and Snappy are raw blocks, ZLIB and ZSTD their usual streams.
That size is what decompression allocates and all it may produce, so a bomb cannot cost
more than the limit the caller sets.
"""

import cramjam

from magnetar.errors import LocalProtocolError, RemoteProtocolError
from magnetar.model.enums import CompressionType

_FIELD = "MessageMetadata.compression"
_SIZE_FIELD = "MessageMetadata.uncompressed_size"


def compress(kind: int, data: bytes) -> bytes:
    """The payload as `kind` packs it. Raises LocalProtocolError for an unknown kind."""
    if kind == CompressionType.NONE:
        return data
    if kind == CompressionType.LZ4:
        return bytes(cramjam.lz4.compress_block(data, store_size=False))
    if kind == CompressionType.ZLib:
        return bytes(cramjam.zlib.compress(data))
    if kind == CompressionType.ZSTD:
        return bytes(cramjam.zstd.compress(data))
    if kind == CompressionType.SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    raise LocalProtocolError(f"there is no compression type {kind}")


def decompress(kind: int, data: bytes, uncompressed_size: int, size_max: int) -> bytes:
    """The payload as it was, of exactly `uncompressed_size` bytes.

    Raises RemoteProtocolError if the data is damaged, has another size than it says, or
    says more than `size_max`. Uncompressed data is handed back as it is.
    """
    if kind == CompressionType.NONE:
        return data
    if uncompressed_size > size_max:
        raise RemoteProtocolError(
            _SIZE_FIELD, 0, f"{uncompressed_size} bytes, the limit is {size_max}"
        )
    # Some decoders reject an empty buffer, so there is always one byte of room.
    out = bytearray(max(uncompressed_size, 1))
    try:
        size = _decompress_into(kind, data, out)
    except cramjam.DecompressionError as error:
        raise RemoteProtocolError(_FIELD, 0, f"cannot decompress: {error}") from None
    if size != uncompressed_size:
        raise RemoteProtocolError(
            _SIZE_FIELD, 0, f"{uncompressed_size} bytes announced, {size} found"
        )
    return bytes(out[:size])


def _decompress_into(kind: int, data: bytes, out: bytearray) -> int:
    if kind == CompressionType.LZ4:
        return cramjam.lz4.decompress_block_into(data, out, output_len=len(out))
    if kind == CompressionType.ZLib:
        return cramjam.zlib.decompress_into(data, out)
    if kind == CompressionType.ZSTD:
        return cramjam.zstd.decompress_into(data, out)
    if kind == CompressionType.SNAPPY:
        return cramjam.snappy.decompress_raw_into(data, out)
    raise RemoteProtocolError(_FIELD, 0, f"there is no compression type {kind}")
