"""The sending half of a connection, as the deciding rooms see it.

    port      what the shell offers: wake it when there is something to send, stop or go on
              reading, hang up
    writable  False while the peer reads too slowly; whoever feeds it stops then

Frames wait in the outbox until the shell takes them, once per event, so that many small
answers leave in one write. What the socket does not take then is `unwritten`. Both count for
the budget that all peers share (`outbound.py`).

What is read from the disk for the consumers of a peer counts as if it was in the outbox: a
peer that does not read costs the same however many consumers it has.
"""

from typing import TYPE_CHECKING, Final

from google.protobuf.message import Message
from mypy_extensions import i64, mypyc_attr

from magnetar.broker.auth.roles import Principal
from magnetar.broker.promise import Promise, kept
from magnetar.broker.rate.throttle import Throttle, Waiter
from magnetar.broker.turn.long_answer import LongAnswer
from magnetar.broker.turn.outbound import Outbound
from magnetar.broker.wire_error import wire_error
from magnetar.protocol import Command, encode, encode_head, encode_with_fields
from magnetar.protocol import pulsar_pb2 as pb

if TYPE_CHECKING:
    from magnetar.broker.topic.producer import Producer

__all__ = ["Peer", "Port", "unsigned"]

# More than this is not put on top of what waits: about what a socket takes at once.
OUTBOX_BYTES_MAX: Final = 1 << 20
# A message is two frames; so many small ones are made in less than 10 ms.
OUTBOX_FRAMES_MAX: Final = 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class Port:
    """The shell's side of a connection."""

    def wake(self) -> None:
        """Tells the shell that the outbox has something."""
        raise NotImplementedError

    def pause(self) -> None:
        """Read no more for now."""
        raise NotImplementedError

    def resume(self) -> None:
        raise NotImplementedError

    def hang_up(self) -> None:
        """Send what is in the outbox, then close."""
        raise NotImplementedError

    def unwritten(self) -> int:
        """Returns how many bytes it took from the outbox and could not write yet."""
        return 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Peer(Waiter):
    """Who is at the other end, and what is on its way there."""

    def __init__(self, port: Port, address: str, outbound: Outbound) -> None:
        self.port: Final = port
        self.address: Final = address
        self.outbound: Final = outbound
        # Who it is, once that was proved.
        self.principal: Principal | None = None
        self.client_version: str = ""
        self.protocol_version: int = 0
        # Whether it understands what is ours alone: numbers from 1001 on in pulsar.proto.
        self.knows_magnetar: bool = False
        self.writable: bool = True
        self.closed: bool = False
        self.outbox: list[bytes] = []
        self.outbox_max: i64 = OUTBOX_BYTES_MAX
        self.outbox_bytes: i64 = 0
        self.unwritten: i64 = 0
        # What is being read from the disk for it.
        self.reading_bytes: i64 = 0
        # What acks of parts of batches take that are on their way to the disk, of this peer.
        self.ack_bytes: i64 = 0
        # Publishes of this peer that are on their way to the disk.
        self.pending_publishes: i64 = 0
        # Why nothing is read from it: too many of its publishes are under way, or it has said
        # more than was handled.
        self.paused: bool = False
        self.has_unhandled: bool = False
        # The rate that it waits for, for something was published beyond it.
        self.held_up: Throttle | None = None
        # What is held of what it has said, and whether it is not read for that (`inbound.py`).
        self.inbound_bytes: i64 = 0
        self.is_held: bool = False
        self._reads: bool = True

    def pause(self) -> None:
        """Takes no more publishes from the peer, until it is resumed."""
        self.paused = True
        self._set_reading()

    def resume(self) -> None:
        self.paused = False
        self._set_reading()

    def hold_up(self, throttle: Throttle) -> None:
        """Takes nothing more from the peer until there is something left of a rate."""
        if self.held_up is None:
            self.held_up = throttle
            throttle.wait(self)

    def tokens_came(self) -> None:
        self.held_up = None

    def hold_input(self, *, held: bool) -> None:
        """Reads no more of it, for others have said too much; or goes on."""
        self.is_held = held
        self._set_reading()

    def _set_reading(self) -> None:
        wanted = not self.paused and not self.has_unhandled and not self.is_held
        if wanted != self._reads:
            self._reads = wanted
            if wanted:
                self.port.resume()
            else:
                self.port.pause()

    def take_turn(self, cost: int, ms: int) -> int:
        """Handles what the peer has said, as far as that costs and takes no more; returns what it
        has cost.
        """
        return 0

    def charge(self, cost: i64) -> None:
        """Counts what the peer has said as so much more of its turn."""

    def have_room(self) -> None:
        """Tells the peer that it may be fed again, as far as others are concerned."""

    def acks_began(self, size: i64) -> None:
        """Acks of parts of batches, of so many bytes, are on their way to the disk."""
        self.ack_bytes += size

    def acks_ended(self, size: i64) -> None:
        """Acks that took so much are on the disk, or will never be."""
        self.ack_bytes -= size

    def begin(self, answer: LongAnswer) -> None:
        """Makes a long answer."""
        while not answer.done:
            answer.step()

    def close_producer(self, producer: "Producer") -> None:
        """The broker closes a producer of this peer."""

    def producer_ready(self, producer_id: int, topic_epoch: int) -> None:
        """A producer of this peer that waited has its topic now."""

    def probe(self) -> Promise[bool]:
        """Finds out whether it is still there."""
        return kept(not self.closed)

    def has_read(self) -> Promise[None]:
        """Kept once the peer has read all that was sent to it so far, as its PONG tells.

        Of very many that wait for it those that came last are told nothing.
        """
        return kept(None)

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
            head = encode_head(command, len(entry))
            if not self.outbox:
                self.port.wake()
            self.outbox.append(head)
            self.outbox.append(entry)
            size = len(head) + len(entry)
            self.outbox_bytes += size
            self.outbound.bytes += size

    def send_with_fields(self, command: Message, fields: list[bytes]) -> None:
        """Queues a command with fields that are encoded already, without copying them."""
        if not self.closed:
            self._put(encode_with_fields(command, sum([len(part) for part in fields])))
            for part in fields:
                self.outbox.append(part)
                self.outbox_bytes += len(part)
                self.outbound.bytes += len(part)

    def _put(self, frame: bytes) -> None:
        if not self.outbox:
            self.port.wake()
        self.outbox.append(frame)
        self.outbox_bytes += len(frame)
        self.outbound.bytes += len(frame)

    def take_outbox(self) -> list[bytes]:
        """Returns what the shell is to write now; it tells by `have_written` what it could not."""
        frames = self.outbox
        self.outbox = []
        self.outbound.bytes -= self.outbox_bytes
        self.outbox_bytes = 0
        return frames

    def have_written(self, unwritten: i64) -> None:
        """Notes that the socket has taken all but so many bytes of what it was given."""
        if unwritten != self.unwritten:
            self.outbound.have_unwritten(self, unwritten)

    def read_began(self, size: i64) -> None:
        """Notes that so much is being read from the disk for the peer's consumers."""
        self.reading_bytes += size

    def read_ended(self, size: i64) -> bool:
        """Gives back what was held for a read; returns whether others found no room meanwhile.

        Then `have_room` is to be called.
        """
        full = self.reading_bytes >= self.outbox_max
        self.reading_bytes -= size
        return full

    @property
    def waiting_bytes(self) -> i64:
        """What waits for it, here and in its socket."""
        return self.outbox_bytes + self.unwritten

    @property
    def ready(self) -> bool:
        """Whether it may be fed more. If others are why it may not, `have_room` will be called."""
        if (
            not self.writable
            or self.closed
            or self.outbox_bytes + self.reading_bytes >= self.outbox_max
            or len(self.outbox) >= OUTBOX_FRAMES_MAX
        ):
            return False
        outbound = self.outbound
        if outbound.bytes < outbound.bytes_max or self.outbox_bytes + self.unwritten == 0:
            return True
        outbound.wait(self)
        return False


def unsigned(id: int) -> int:
    """Returns an id as protobuf's classes want it."""
    return id & 0xFFFFFFFFFFFFFFFF
