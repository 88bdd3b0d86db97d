"""The compressions that producers choose from, one row each, bounded both ways.

Pulsar compresses the whole payload of an entry, batch or not, and says in the metadata
how large it was before. LZ4 and Snappy are raw blocks, ZLIB and ZSTD their usual streams.
That size is what decompression allocates and all it may produce, so a bomb cannot cost
more than the limit the caller sets.
"""

from collections.abc import Callable
from typing import Final, final

import cramjam
from mypy_extensions import i64

from magnetar.errors import LocalProtocolError, RemoteProtocolError
from magnetar.model.enums import CompressionType

__all__ = ["compress", "decompress", "expansion_max"]

_FIELD: Final = "MessageMetadata.compression"
_SIZE_FIELD: Final = "MessageMetadata.uncompressed_size"


@final
class Compression:
    """How one kind packs bytes, and unpacks them into a buffer, of which it returns the size.

    One packed byte stands for `ratio` bytes at most.
    """

    def __init__(
        self,
        pack: Callable[[bytes], bytes],
        unpack_into: Callable[[bytes, bytearray], int],
        ratio: int,
    ) -> None:
        self.pack: Final = pack
        self.unpack_into: Final = unpack_into
        self.ratio: Final[i64] = ratio


def _pack_lz4(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress_block(data, store_size=False))


def _unpack_lz4(data: bytes, out: bytearray) -> int:
    return int(cramjam.lz4.decompress_block_into(data, out, output_len=len(out)))


def _pack_zlib(data: bytes) -> bytes:
    return bytes(cramjam.zlib.compress(data))


def _unpack_zlib(data: bytes, out: bytearray) -> int:
    return int(cramjam.zlib.decompress_into(data, out))


def _pack_zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


def _unpack_zstd(data: bytes, out: bytearray) -> int:
    return int(cramjam.zstd.decompress_into(data, out))


def _pack_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def _unpack_snappy(data: bytes, out: bytearray) -> int:
    return int(cramjam.snappy.decompress_raw_into(data, out))


# LZ4: a byte of a match's length is 255. DEFLATE: two bits can be a match of 258. Zstandard: a
# block has a head of three bytes and at most 128 KiB. Snappy: three bytes are a copy of 64.
_COMPRESSIONS: Final[dict[int, Compression]] = {
    CompressionType.LZ4.value: Compression(_pack_lz4, _unpack_lz4, 255),
    CompressionType.ZLib.value: Compression(_pack_zlib, _unpack_zlib, 1032),
    CompressionType.ZSTD.value: Compression(_pack_zstd, _unpack_zstd, (128 << 10) // 3 + 1),
    CompressionType.SNAPPY.value: Compression(_pack_snappy, _unpack_snappy, 22),
}
_RATIO_MAX: Final = max([row.ratio for row in _COMPRESSIONS.values()])


def compress(kind: int, data: bytes) -> bytes:
    """Returns the payload as `kind` packs it. Raises LocalProtocolError for an unknown kind."""
    if kind == CompressionType.NONE:
        return data
    row = _COMPRESSIONS.get(kind)
    if row is None:
        raise LocalProtocolError(f"there is no compression type {kind}")
    return row.pack(data)


def decompress(kind: int, data: bytes, uncompressed_size: int, size_max: int) -> bytes:
    """Returns the payload as it was, of exactly `uncompressed_size` bytes.

    Raises RemoteProtocolError if the data is damaged, has another size than it says, or
    says more than `size_max`. Uncompressed data is handed back as it is.
    """
    if kind == CompressionType.NONE:
        return data
    if uncompressed_size > size_max:
        raise RemoteProtocolError(
            _SIZE_FIELD, 0, f"{uncompressed_size} bytes, the limit is {size_max}"
        )
    row = _COMPRESSIONS.get(kind)
    if row is None:
        raise RemoteProtocolError(_FIELD, 0, f"there is no compression type {kind}")
    # Some decoders reject an empty buffer, so there is always one byte of room.
    out = bytearray(max(uncompressed_size, 1))
    try:
        size = row.unpack_into(data, out)
    except cramjam.DecompressionError as error:
        raise RemoteProtocolError(_FIELD, 0, f"cannot decompress: {error}") from None
    if size != uncompressed_size:
        raise RemoteProtocolError(
            _SIZE_FIELD, 0, f"{uncompressed_size} bytes announced, {size} found"
        )
    return bytes(out[:size])


def expansion_max(kind: i64) -> i64:
    """Returns how many bytes one packed byte can stand for; of an unknown kind, what any can."""
    row = _COMPRESSIONS.get(kind)
    return _RATIO_MAX if row is None else row.ratio
