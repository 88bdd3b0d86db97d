"""Frames: how commands are cut out of the byte stream, and put into it.

Two lengths stand in front of every command: of all that follows, and of the command
alone. SEND and MESSAGE have an entry behind the command; every other frame ends with it.

`FrameBuffer` takes the stream in whatever pieces it comes. A piece that begins with a
frame is used as it is; others are gathered until a frame is complete, and joined once: the
small ones as they come, the large ones then. An entry that is larger than a piece is joined
by itself, since it is handed on by itself. However the stream is cut, each byte is copied at
most three times, and a reader that takes every frame before it feeds again never holds more
than one frame and one piece.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import RemoteProtocolError
from magnetar.protocol.limit import FRAME_OVERHEAD_MAX
from magnetar.wire.writer import BytesWriter, put_int_field, put_u32, varint_size

SIZES_SIZE: Final = 8
# Pieces of this size are kept as they are; of many that are smaller, objects would take more
# memory than bytes.
PIECE_MIN: Final = 16 * 1024


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
    command ends at `command_end`, and it stays there until the next call. What is behind the
    command is `entry` instead, if that is not None.
    """

    def __init__(self, message_size_max: i64) -> None:
        self.message_size_max: i64 = message_size_max
        self.data: bytes = b""
        self.frame_first: i64 = 0
        self.command_first: i64 = 0
        self.command_end: i64 = 0
        self.frame_end: i64 = 0
        self.entry: bytes | None = None
        # What stands behind `data`: large pieces, then small ones in a row.
        self._pieces: list[bytes] = []
        self._row = bytearray()
        self._pending: i64 = 0

    def feed(self, piece: bytes) -> None:
        if self.frame_end == len(self.data) and self._pending == 0:
            self.data = piece
            self.frame_end = 0
            return
        self._pending += len(piece)
        if len(piece) < PIECE_MIN:
            self._row += piece
            return
        if self._row:
            self._pieces.append(bytes(self._row))
            self._row = bytearray()
        self._pieces.append(piece)

    @property
    def waiting(self) -> int:
        """How many bytes stand behind the last frame."""
        return len(self.data) - self.frame_end + self._pending

    @property
    def size(self) -> int:
        """How many bytes are held, those of the last frame too."""
        entry = self.entry
        return len(self.data) + self._pending + (0 if entry is None else len(entry))

    def advance(self) -> bool:
        """Moves to the next frame if it is all there. Raises RemoteProtocolError."""
        if not self._has(SIZES_SIZE):
            self._let_go()
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
        if not self._has_frame(4 + frame_size, SIZES_SIZE + command_size):
            self._let_go()
            return False
        first = self.frame_end
        self.frame_first = first
        self.command_first = first + SIZES_SIZE
        self.command_end = self.command_first + command_size
        self.frame_end = first + 4 + frame_size if self.entry is None else self.command_end
        return True

    def _let_go(self) -> None:
        """Keeps nothing of frames that were there: it may be long until the next one comes."""
        self.entry = None
        if self.frame_end > len(self.data) // 2:
            self.data = self.data[self.frame_end :]
            self.frame_end = 0

    def _has_frame(self, size: i64, head_size: i64) -> bool:
        """Returns what `_has` does; of a frame in large pieces, what is behind its head becomes
        `entry`."""
        self.entry = None
        have: i64 = len(self.data) - self.frame_end
        if have >= size or have < head_size or not self._pieces:
            return self._has(size)
        if have + self._pending < size:
            return False
        head_end = self.frame_end + head_size
        if self._row:
            self._pieces.append(bytes(self._row))
            self._row = bytearray()
        parts: list[bytes | memoryview] = [memoryview(self.data)[head_end:]]
        left: i64 = size - have
        following = b""
        rest: list[bytes] = []
        for piece in self._pieces:
            if left >= len(piece):
                parts.append(piece)
                left -= len(piece)
            elif left > 0:
                parts.append(memoryview(piece)[:left])
                following = piece[left:]
                left = 0
            else:
                rest.append(piece)
        self.entry = b"".join(parts)
        self.data = self.data[self.frame_end : head_end] + following
        self.frame_end = 0
        self._pieces = rest
        self._pending = sum([len(piece) for piece in rest])
        return True

    def _has(self, size: i64) -> bool:
        """Returns whether `size` bytes stand behind the last frame, joined in `data` if they do."""
        have: i64 = len(self.data) - self.frame_end
        if have >= size:
            return True
        if have + self._pending < size:
            return False
        self.data = b"".join([self.data[self.frame_end :], *self._pieces, self._row])
        self.frame_end = 0
        self._pieces = []
        self._row = bytearray()
        self._pending = 0
        return True


def put_frame_head(out: BytesWriter, command_type: i64, body: bytes, entry_size: i64) -> None:
    """Writes the sizes and the command of a frame; an entry of `entry_size` bytes follows it.

    A BaseCommand is the type in field 1 and the body in the field of that number.
    """
    put_frame_sizes(out, command_type, len(body), entry_size)
    out.write(body)


def put_frame_sizes(out: BytesWriter, command_type: i64, body_size: i64, entry_size: i64) -> None:
    """Writes the sizes of a frame, up to the body of its command."""
    body_tag = command_type << 3 | 2
    command_size = (
        1 + varint_size(command_type) + varint_size(body_tag) + varint_size(body_size) + body_size
    )
    put_u32(out, 4 + command_size + entry_size)
    put_u32(out, command_size)
    put_int_field(out, 0x08, command_type)
    put_int_field(out, body_tag, body_size)
