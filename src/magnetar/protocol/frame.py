"""Frames: how commands are cut out of the byte stream, and put into it.

Two lengths stand in front of every command: of all that follows, and of the command
alone. SEND and MESSAGE have an entry behind the command; every other frame ends with it.

`FrameBuffer` takes the stream in whatever pieces it comes. A piece that begins with a
frame is used as it is; others are gathered until a frame is complete. However the stream
is cut, each byte is copied at most three times, and a reader that takes every frame
before it feeds again never holds more than one frame and one piece.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import RemoteProtocolError
from magnetar.protocol.limit import FRAME_OVERHEAD_MAX
from magnetar.wire.writer import BytesWriter, put_u32, put_varint, varint_size

SIZES_SIZE: Final = 8


def read_u32(data: bytes, at: i64) -> i64:
    """Four bytes, big-endian, that are known to be there."""
    high: i64 = data[at]
    middle: i64 = data[at + 1]
    low: i64 = data[at + 2]
    lowest: i64 = data[at + 3]
    return (high << 24) | (middle << 16) | (low << 8) | lowest


@final
class FrameBuffer:
    """Bytes received and not yet consumed, seen as frames.

    After `advance()` returned True the frame is `data[command_first:frame_end]`, its
    command ends at `command_end`, and it stays there until the next call.
    """

    def __init__(self, message_size_max: i64) -> None:
        self.message_size_max: i64 = message_size_max
        self.data: bytes = b""
        self.frame_first: i64 = 0
        self.command_first: i64 = 0
        self.command_end: i64 = 0
        self.frame_end: i64 = 0
        self._pending = bytearray()

    def feed(self, piece: bytes) -> None:
        if self.frame_end == len(self.data) and not self._pending:
            self.data = piece
            self.frame_end = 0
        else:
            self._pending += piece

    @property
    def waiting(self) -> int:
        """How many bytes stand behind the last frame."""
        return len(self.data) - self.frame_end + len(self._pending)

    def advance(self) -> bool:
        """Moves to the next frame if it is all there. Raises RemoteProtocolError."""
        if not self._has(SIZES_SIZE):
            return False
        first = self.frame_end
        frame_size = read_u32(self.data, first)
        command_size = read_u32(self.data, first + 4)
        if frame_size > self.message_size_max + FRAME_OVERHEAD_MAX:
            raise RemoteProtocolError(
                "frame.totalSize",
                0,
                f"{frame_size} bytes, the limit is {self.message_size_max + FRAME_OVERHEAD_MAX}",
            )
        if frame_size < 4 or command_size > frame_size - 4:
            raise RemoteProtocolError(
                "frame.commandSize", 4, f"{command_size} bytes in a frame of {frame_size}"
            )
        if not self._has(4 + frame_size):
            return False
        first = self.frame_end
        self.frame_first = first
        self.command_first = first + SIZES_SIZE
        self.command_end = self.command_first + command_size
        self.frame_end = first + 4 + frame_size
        return True

    def _has(self, size: i64) -> bool:
        """Whether `size` bytes stand behind the last frame, joined in `data` if they do."""
        have: i64 = len(self.data) - self.frame_end
        if have >= size:
            return True
        if have + len(self._pending) < size:
            return False
        self.data = self.data[self.frame_end :] + self._pending
        self.frame_end = 0
        self._pending = bytearray()
        return True


def put_frame_head(out: BytesWriter, command_type: i64, body: bytes, entry_size: i64) -> None:
    """The sizes and the command of a frame; an entry of `entry_size` bytes follows it.

    A BaseCommand is the type in field 1 and the body in the field of that number.
    """
    body_tag = command_type << 3 | 2
    command_size = (
        1 + varint_size(command_type) + varint_size(body_tag) + varint_size(len(body)) + len(body)
    )
    put_u32(out, 4 + command_size + entry_size)
    put_u32(out, command_size)
    out.append(0x08)
    put_varint(out, command_type)
    put_varint(out, body_tag)
    put_varint(out, len(body))
    out.write(body)
