"""The sending half of a connection, as the deciding rooms see it.

    port      what the shell offers: wake it when there is something to send, stop or go on
              reading, hang up
    writable  False while the peer reads too slowly; whoever feeds it stops then

Frames wait in the outbox until the shell takes them, once per event, so that many small
answers leave in one write.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

from magnetar.broker.auth.roles import Principal
from magnetar.broker.wire_error import wire_error
from magnetar.protocol import Command, encode, encode_head
from magnetar.protocol import pulsar_pb2 as pb

if TYPE_CHECKING:
    from magnetar.broker.producer import Producer

__all__ = ["Peer", "Port", "unsigned"]

# More than this is not put on top of what waits: about what a socket takes at once.
OUTBOX_BYTES_MAX: Final = 1 << 20


@mypyc_attr(allow_interpreted_subclasses=True)
class Port:
    """The shell's side of a connection."""

    def wake(self) -> None:
        """The outbox has something."""
        raise NotImplementedError

    def pause(self) -> None:
        """Read no more for now."""
        raise NotImplementedError

    def resume(self) -> None:
        raise NotImplementedError

    def hang_up(self) -> None:
        """Send what is in the outbox, then close."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Peer:
    """Who is at the other end, and what is on its way there."""

    def __init__(self, port: Port, address: str) -> None:
        self.port: Final = port
        self.address: Final = address
        # Who it is, once that was proved.
        self.principal: Principal | None = None
        self.client_version: str = ""
        self.protocol_version: int = 0
        # Whether it understands what is ours alone: numbers from 1001 on in pulsar.proto.
        self.knows_magnetar: bool = False
        self.writable: bool = True
        self.closed: bool = False
        self.outbox: list[bytes] = []
        self.outbox_bytes: i64 = 0
        # Publishes of this peer that are on their way to the disk.
        self.pending_publishes: i64 = 0
        self.paused: bool = False

    def pause(self) -> None:
        """Takes no more from the peer, until it is resumed."""
        if not self.paused:
            self.paused = True
            self.port.pause()

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            self.port.resume()

    def close_producer(self, producer: "Producer") -> None:
        """The broker closes a producer of this peer."""

    def producer_ready(self, producer_id: int, topic_epoch: int) -> None:
        """A producer of this peer that waited has its topic now."""

    def probe(self, answer: Callable[[bool], None]) -> None:
        """Finds out whether it is still there."""
        answer(not self.closed)

    def fail(self, reason: str) -> None:
        """Ends the connection, and says why in the log."""

    def succeed(self, request_id: int) -> None:
        """Answers a request that is done."""
        self.send(pb.CommandSuccess(request_id=request_id))

    def refuse(self, request_id: int, error: Exception) -> None:
        """Answers a request that cannot be done."""
        code, reason = wire_error(error)
        self.send(pb.CommandError(request_id=request_id, error=code, message=reason))

    def send(self, command: Command) -> None:
        """Queues a command; a closed peer gets nothing."""
        if not self.closed:
            self._put(encode(command))

    def send_with_entry(self, command: Command, entry: bytes) -> None:
        """Queues a command and its entry, without copying the entry."""
        if not self.closed:
            self._put(encode_head(command, len(entry)))
            self.outbox.append(entry)
            self.outbox_bytes += len(entry)

    def _put(self, frame: bytes) -> None:
        if not self.outbox:
            self.port.wake()
        self.outbox.append(frame)
        self.outbox_bytes += len(frame)

    def take_outbox(self) -> list[bytes]:
        """What the shell is to write now."""
        frames = self.outbox
        self.outbox = []
        self.outbox_bytes = 0
        return frames

    @property
    def ready(self) -> bool:
        """Whether it may be fed more."""
        return self.writable and not self.closed and self.outbox_bytes < OUTBOX_BYTES_MAX


def unsigned(id: int) -> int:
    """An id as protobuf's classes want it."""
    return id & 0xFFFFFFFFFFFFFFFF
