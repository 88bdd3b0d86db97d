"""Commands that are long, decoded in steps: others have their turn in between (I10).

A frame has room for lists of a hundred thousand ids, and to walk along one takes tens of
milliseconds. So whoever serves many peers decodes what is long a few fields at a time:

| a long command is | step                                   | becomes                        |
|-------------------|----------------------------------------|--------------------------------|
| begun             | some fields more are sound             | begun; decoded, with the last  |
|                   | one is not: RemoteProtocolError        | -                              |
| decoded           | our mistake                            | -                              |

What is decoded is the same as in one go, and so are the errors.
"""

from typing import Final, final

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from mypy_extensions import i64

from magnetar.protocol.ack import CommandAck, decode_ack_some, end_ack
from magnetar.protocol.cold import ColdShape, parse_cold, shape_of
from magnetar.protocol.limit import MESSAGE_NESTING_MAX
from magnetar.wire.reader import Reader

__all__ = ["LongAckCommand", "LongColdCommand", "LongCommand"]


class LongCommand:
    """Base of both kinds; see the module."""

    def step(self, fields: i64) -> CommandAck | Message | None:
        """Decodes so many fields more; the command, with the last one."""
        raise NotImplementedError


@final
class LongAckCommand(LongCommand):
    """An ACK of many messages."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Final = reader
        self._ack: Final = CommandAck(0, 0, [])
        self._present: i64 = 0

    def step(self, fields: i64) -> CommandAck | Message | None:
        reader = self._reader
        self._present = decode_ack_some(reader, self._ack, self._present, fields)
        if reader.pos < reader.end:
            return None
        end_ack(reader, self._ack, self._present)
        return self._ack


@final
class _Level:
    """A message that is being walked along, inside others perhaps."""

    def __init__(self, reader: Reader, cold: ColdShape) -> None:
        self.reader: Final = reader
        self.cold: Final = cold
        self.present: i64 = 0


@final
class LongColdCommand(LongCommand):
    """A command that is protobuf's, walked along the schema as `cold.py` does."""

    def __init__(self, descriptor: Descriptor, data: bytes, first: i64, end: i64) -> None:
        self._descriptor: Final = descriptor
        self._data: Final = data
        self._first: Final[i64] = first
        self._end: Final[i64] = end
        cold = shape_of(descriptor)
        # The innermost is the last.
        self._levels: Final = [_Level(Reader(data, first, end, cold.shape), cold)]

    def step(self, fields: i64) -> CommandAck | Message | None:
        levels = self._levels
        while fields > 0:
            level = levels[-1]
            tag = level.reader.tag()
            if tag != 0:
                fields -= 1
                self._walk(level, tag)
                continue
            level.reader.require(level.present, tuple(level.cold.required.values()))
            levels.pop()
            if not levels:
                return parse_cold(self._descriptor, self._data[self._first : self._end])
        return None

    def _walk(self, level: _Level, tag: i64) -> None:
        reader, cold = level.reader, level.cold
        if tag in cold.required:
            level.present |= 1 << cold.required[tag]
        if tag in cold.texts:
            reader.text()
        elif tag in cold.messages:
            inner = shape_of(cold.messages[tag])
            self._levels.append(_Level(reader.message(inner.shape), inner))
            if len(self._levels) > MESSAGE_NESTING_MAX:
                self._levels[-1].reader.fail(f"messages nested deeper than {MESSAGE_NESTING_MAX}")
        elif tag in cold.packed:
            numbers = reader.packed()
            while numbers.more():
                numbers.varint()
        else:
            reader.skip()
