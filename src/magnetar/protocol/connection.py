"""The wire as events: bytes in, commands out.

| state   | receive_data | next_command                                 | receive_eof |
|---------|--------------|----------------------------------------------|-------------|
| reading | buffers      | the next command; None if it is not all here | -> ended    |
| ended   | our mistake  | the next command; None if nothing is left;   | nothing     |
|         |              | a frame cut off is an error                  |             |
| failed  | thrown away  | the same error again                         | nothing     |

Any error of next_command -> failed.

A connection fails at the first bad byte and stays failed: behind it no frame can be
trusted. It knows nothing of who may say what when; that is for the session above.
"""

from typing import final

from mypy_extensions import i64

from magnetar.errors import RemoteProtocolError
from magnetar.protocol.command import Command, UnknownCommand, decode
from magnetar.protocol.frame import FrameBuffer
from magnetar.protocol.limit import MESSAGE_SIZE_MAX


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

    def __init__(self, message_size_max: i64 = MESSAGE_SIZE_MAX) -> None:
        self._buffer = FrameBuffer(message_size_max)
        self._error: tuple[str, int, str] | None = None
        self._ended = False

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

    def receive_eof(self) -> None:
        """Takes the end of the stream."""
        self._ended = True

    def next_command(self) -> Command | UnknownCommand | None:
        """The next command, or None until more data comes. Raises RemoteProtocolError."""
        if self._error is not None:
            raise RemoteProtocolError(*self._error)
        try:
            return self._next()
        except RemoteProtocolError as error:
            # Not the exception itself: its traceback would keep the frame alive.
            self._error = (error.field, error.offset, error.reason)
            self._buffer = FrameBuffer(self._buffer.message_size_max)
            raise

    def _next(self) -> Command | UnknownCommand | None:
        buffer = self._buffer
        if not buffer.advance():
            if self._ended and buffer.waiting:
                raise RemoteProtocolError("frame", buffer.waiting, "the stream ends inside a frame")
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
            raise RemoteProtocolError(
                error.field, error.offset - buffer.frame_first, error.reason
            ) from None
