"""The wire as events: bytes in, commands out.

| state   | receive_data | next_command                                 | receive_eof |
|---------|--------------|----------------------------------------------|-------------|
| reading | buffers      | the next command; None if it is not all here | -> ended    |
| ended   | our mistake  | the next command; None if nothing is left;   | nothing     |
|         |              | a frame cut off is an error                  |             |
| failed  | thrown away  | the same error again                         | nothing     |

Any error of next_command -> failed.

Who serves many peers says how long a command may be that is decoded in one go (`step_bytes`).
Of a longer one next_command decodes a part (`long_command.py`) and returns None, and it is
*unfinished* until that was the last part.

A connection fails at the first bad byte and stays failed: behind it no frame can be
trusted. It knows nothing of who may say what when; that is for the session above.
"""

from typing import final

from mypy_extensions import i64

from magnetar.errors import RemoteProtocolError
from magnetar.protocol.command import Command, UnknownCommand, decode, decode_long
from magnetar.protocol.frame import FrameBuffer
from magnetar.protocol.limit import MESSAGE_SIZE_MAX
from magnetar.protocol.long_command import LongCommand
from magnetar.wire.integer import INT32_MAX
from magnetar.wire.reader import FIELDS_MAX


@final
class Connection:
    """The receiving half of one peer's byte stream.

    >>> from magnetar.protocol import CommandFlow, encode
    >>> connection = Connection()
    >>> connection.receive_data(encode(CommandFlow(consumer_id=1, message_permits=1000)))
    >>> connection.next_command().message_permits
    1000
    >>> connection.next_command() is None
    True
    """

    def __init__(
        self,
        message_size_max: i64 = MESSAGE_SIZE_MAX,
        *,
        step_bytes: i64 = INT32_MAX,
        step_fields: i64 = FIELDS_MAX,
    ) -> None:
        self._buffer = FrameBuffer(message_size_max)
        self._step_bytes: i64 = step_bytes
        self._step_fields: i64 = step_fields
        self._long: LongCommand | None = None
        self._error: tuple[str, int, str] | None = None
        self._ended = False

    @property
    def unfinished(self) -> bool:
        """Whether a long command is here and not decoded yet: next_command goes on with it."""
        return self._long is not None

    @property
    def size(self) -> int:
        """How many bytes are held of what came."""
        return self._buffer.size

    @property
    def message_size_max(self) -> int:
        """What bounds a frame; a client sets it to what CONNECTED says."""
        return self._buffer.message_size_max

    @message_size_max.setter
    def message_size_max(self, value: int) -> None:
        self._buffer.message_size_max = value

    def receive_data(self, data: bytes) -> None:
        """Takes what came from the peer, cut anywhere."""
        if self._error is not None:
            return
        assert not self._ended, "data behind the end of the stream"
        self._buffer.feed(data)

    def forget(self) -> None:
        """Throws away what came and was not taken: nobody will."""
        self._buffer = FrameBuffer(self._buffer.message_size_max)
        self._long = None

    def receive_eof(self) -> None:
        """Takes the end of the stream."""
        self._ended = True

    def next_command(self) -> Command | UnknownCommand | None:
        """Returns the next command, or None until more data comes. Raises RemoteProtocolError."""
        if self._error is not None:
            raise RemoteProtocolError(*self._error)
        try:
            return self._next()
        except RemoteProtocolError as error:
            # Not the exception itself: its traceback would keep the frame alive.
            self._error = (error.field, error.offset, error.reason)
            self._buffer = FrameBuffer(self._buffer.message_size_max)
            self._long = None
            raise

    def _next(self) -> Command | UnknownCommand | None:
        buffer = self._buffer
        if self._long is not None:
            return self._go_on(self._long)
        if not buffer.advance():
            if self._ended and buffer.waiting:
                raise RemoteProtocolError("frame", buffer.waiting, "the stream ends inside a frame")
            return None
        if buffer.command_end - buffer.command_first > self._step_bytes:
            self._long = self._begin_long()
            if self._long is not None:
                return None
        try:
            return decode(
                buffer.data,
                buffer.command_first,
                buffer.command_end,
                buffer.frame_end,
                buffer.entry,
            )
        except RemoteProtocolError as error:
            raise self._placed(error) from None

    def _begin_long(self) -> LongCommand | None:
        buffer = self._buffer
        try:
            return decode_long(
                buffer.data,
                buffer.command_first,
                buffer.command_end,
                buffer.frame_end,
                buffer.entry,
            )
        except RemoteProtocolError as error:
            raise self._placed(error) from None

    def _go_on(self, long: LongCommand) -> Command | None:
        try:
            command = long.step(self._step_fields)
        except RemoteProtocolError as error:
            raise self._placed(error) from None
        if command is not None:
            self._long = None
        return command

    def _placed(self, error: RemoteProtocolError) -> RemoteProtocolError:
        """Returns the error, with its place in the frame."""
        first = self._buffer.frame_first
        return RemoteProtocolError(error.field, error.offset - first, error.reason)
