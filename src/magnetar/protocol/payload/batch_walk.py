"""Walking over the messages of a batch without reading them: where does the last one end?

A broker must know whether a batch has as many messages as it says, and nothing else of them.
So of each message only the size of its metadata and the field `payload_size` are looked at.
What a producer usually writes is walked byte by byte, a few nanoseconds for each message;
a message with anything else in its metadata (a tag or a length of two bytes, a fixed number,
a group) is read by a `Reader`, which knows all of protobuf and complains precisely.
"""

from typing import Final

from mypy_extensions import i64

from magnetar.protocol.payload.batch import SHAPE, metadata_end_at, payload_end_at
from magnetar.wire.reader import Reader

__all__ = ["walk_batch"]

PAYLOAD_SIZE: Final = 0x18
UNUSUAL: Final = -1


def walk_batch(data: bytes, first: i64, count: i64) -> i64:
    """Returns where the `count` messages that begin at `first` end. Raises RemoteProtocolError."""
    end: i64 = len(data)
    pos = first
    left = count
    while left > 0:
        left -= 1
        metadata_end = metadata_end_at(data, pos)
        size = _usual_payload_size(data, pos + 4, metadata_end)
        if size == UNUSUAL:
            size = _payload_size(data, pos + 4, metadata_end)
        if size > end - metadata_end:
            payload_end_at(data, metadata_end, size)  # which raises
        pos = metadata_end + size
    return pos


def _usual_payload_size(data: bytes, pos: i64, end: i64) -> i64:
    """Returns the payload's size as metadata of one-byte tags and lengths gives it, or UNUSUAL."""
    size: i64 = UNUSUAL
    while pos < end:
        tag: i64 = data[pos]
        kind = tag & 7
        if tag < 8 or tag >= 0x80 or (kind != 0 and kind != 2):
            return UNUSUAL
        value: i64 = 0
        shift: i64 = 0
        byte: i64 = 0x80
        while byte >= 0x80:
            pos += 1
            if pos >= end or shift > 56:
                return UNUSUAL
            byte = data[pos]
            value |= (byte & 0x7F) << shift
            shift += 7
        pos += 1
        if kind == 2:
            if value > end - pos:
                return UNUSUAL
            pos += value
        elif tag == PAYLOAD_SIZE:
            if value > 0x7FFFFFFF:
                return UNUSUAL
            size = value
    return size


def _payload_size(data: bytes, pos: i64, end: i64) -> i64:
    """Returns the payload's size as metadata of any form gives it. Raises RemoteProtocolError."""
    reader = Reader(data, pos, end, SHAPE)
    size: i64 = -1
    while (tag := reader.tag()) != 0:
        if tag == PAYLOAD_SIZE:
            size = reader.int32()
            if size < 0:
                reader.fail(f"payload of {size} bytes")
        else:
            reader.skip()
    if size < 0:
        reader.require(0, (3,))
    return size
