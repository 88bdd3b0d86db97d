"""Writing to a socket without its loop, from the thread that waits for what is written.

A call of `send` that waits has nothing else to do, so it may as well write: that spares the
wake-up of the loop, which costs as much as all the rest of a send. It may do so only while the
transport has nothing left to write, and the transport may not write meanwhile:

- whoever writes has the lock, the loop too;
- what does not go out at once is left for the loop, which writes it before anything else;
- the socket is a duplicate, so that its number means this connection until it is closed here,
  whatever becomes of the transport.

Where any of that cannot be had (TLS, a transport that is no socket's), nothing is written here.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Sequence

from magnetar.client.producer.chunks import Part

__all__ = ["DirectWriter"]

# More than this is for the loop: a call that is not to block could not write it at once.
SIZE_MAX = 32 * 1024


class DirectWriter:
    """See the module."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._lock = threading.Lock()
        self._socket = _duplicate(transport)
        self._rest = b""

    @property
    def has_rest(self) -> bool:
        """Whether the loop is to write what could not be written here."""
        return bool(self._rest)

    def write(self, frames: Sequence[Part]) -> bool:
        """Writes all of it, or nothing and returns False. Any thread but the loop's."""
        # Before they are joined: chunks are large, and are not to be copied.
        if sum(map(len, frames)) > SIZE_MAX:
            return False
        with self._lock:
            if self._socket is None or self._rest or not self._transport_is_idle():
                return False
            data = b"".join(frames)
            try:
                sent = self._socket.send(data)
            except OSError:
                return False  # it would block, or the connection is gone: the loop will see
            self._rest = data[sent:]
            return True

    def _transport_is_idle(self) -> bool:
        transport = self._transport
        try:
            return not transport.is_closing() and transport.get_write_buffer_size() == 0
        except RuntimeError:  # uvloop's, of a transport that was closed meanwhile
            return False

    def write_on_loop(self, frames: Sequence[Part]) -> None:
        """Writes through the transport, on its loop."""
        with self._lock:
            if self._rest:
                self._transport.write(self._rest)
                self._rest = b""
            if frames:
                self._transport.writelines(frames)

    def close(self) -> None:
        """Writes here no more."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None


def _duplicate(transport: asyncio.Transport) -> socket.socket | None:
    if transport.get_extra_info("sslcontext") is not None:
        return None
    found = transport.get_extra_info("socket")
    if found is None:
        return None
    duplicate = socket.socket(fileno=os.dup(found.fileno()))
    duplicate.setblocking(False)
    return duplicate
