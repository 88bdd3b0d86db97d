"""All four compressions, and the bombs that they could be."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import mutations

from magnetar.errors import LocalProtocolError, RemoteProtocolError
from magnetar.model import CompressionType
from magnetar.protocol import MESSAGE_SIZE_MAX, compress, decompress

KINDS = [kind for kind in CompressionType if kind != CompressionType.NONE]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)


@pytest.mark.parametrize("kind", CompressionType, ids=lambda k: k.name)
@given(st.binary(max_size=500) | st.binary(max_size=5).map(lambda b: b * 1000))
def test_payloads_come_out_as_they_went_in(kind: CompressionType, data: bytes) -> None:
    packed = compress(kind, data)
    assert decompress(kind, packed, len(data), MESSAGE_SIZE_MAX) == data


def test_zlib_is_the_one_everybody_means() -> None:
    assert zlib.decompress(compress(CompressionType.ZLib, b"abc" * 50)) == b"abc" * 50
    packed = zlib.compress(b"abc" * 50)
    assert decompress(CompressionType.ZLib, packed, 150, 1000) == b"abc" * 50


def test_lz4_and_snappy_are_raw_blocks() -> None:
    # A block of one literal run: token or tag, then the bytes; Snappy has its length first.
    assert decompress(CompressionType.LZ4, b"\x30abc", 3, 100) == b"abc"
    assert decompress(CompressionType.SNAPPY, b"\x03\x08abc", 3, 100) == b"abc"


@every_kind
@pytest.mark.parametrize("wrong", [-1, 1, -99, 10_000])
def test_a_size_other_than_announced_is_refused(kind: CompressionType, wrong: int) -> None:
    packed = compress(kind, bytes(100))
    with pytest.raises(RemoteProtocolError, match="MessageMetadata"):
        decompress(kind, packed, 100 + wrong, MESSAGE_SIZE_MAX)


@every_kind
def test_a_bomb_is_refused(kind: CompressionType) -> None:
    bomb = compress(kind, bytes(50_000_000))
    with pytest.raises(RemoteProtocolError):
        decompress(kind, bomb, 1000, MESSAGE_SIZE_MAX)
    with pytest.raises(RemoteProtocolError, match="the limit is"):
        decompress(kind, bomb, 50_000_000, MESSAGE_SIZE_MAX)


@every_kind
@given(st.data())
def test_damaged_data_gives_the_payload_or_an_error(
    kind: CompressionType, data: st.DataObject
) -> None:
    original = b"some text that repeats, some text that repeats" * 3
    packed = data.draw(mutations(compress(kind, original)) | st.binary(max_size=60))
    try:
        result = decompress(kind, packed, len(original), MESSAGE_SIZE_MAX)
    except RemoteProtocolError as error:
        assert error.field.startswith("MessageMetadata.")
    else:
        assert len(result) == len(original)


def test_kinds_that_do_not_exist_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="no compression type 9"):
        decompress(9, b"abc", 3, 100)
    with pytest.raises(LocalProtocolError, match="no compression type 9"):
        compress(9, b"abc")
