"""What peers have said that is not handled yet: frames that are half said, of all peers together.

A frame may have five megabytes, and nobody knows when the rest of one comes. All connections
share one budget of bytes (`max_inbound_bytes`) for that. While it is spent

- a peer that holds little is read: most frames are small;
- of those that hold more the first in line is read, and the others wait until there is room;
- if the first one does not get on for a while, and nothing but itself keeps it from that, it is
  hung up on, and the next one is first;
- who holds more all the same when the budget is spent twice is hung up on at once.

| a peer holds | the budget is | it                                                       |
|--------------|---------------|----------------------------------------------------------|
| little       | -             | is read                                                  |
| more         | free          | is read, and is in line                                  |
| more         | spent         | waits in line, unless it is the first: that one is read  |
| more         | spent twice   | is hung up on                                            |

So what waits is two budgets, and a little for each connection at most.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.host import Host

if TYPE_CHECKING:
    from magnetar.broker.peer import Peer

__all__ = ["LITTLE_BYTES", "PATIENCE_MS", "Inbound"]

LITTLE_BYTES: Final = 16 * 1024
# So much of its frame, or the end of it, the first in line must say in so long, while others wait.
PATIENCE_MS: Final = 1000
PROGRESS_BYTES: Final = 64 * 1024


@final
class Inbound:
    """See the module. `bytes` is what is held now."""

    def __init__(self, host: Host, bytes_max: int) -> None:
        self._host: Final = host
        self._bytes_max: Final[i64] = bytes_max
        self.bytes: i64 = 0
        # Those that hold more than a little, the one that came first at the front; and who of
        # them is not read.
        self._line: Final[dict[Peer, None]] = {}
        self._waiting: Final[dict[Peer, None]] = {}
        self._watches: bool = False
        # Whether the first in line has completed a frame since it is watched.
        self._completed: bool = False

    def holds(self, peer: "Peer", size: i64) -> None:
        """Notes how many bytes of what a peer has said are held now."""
        if size == peer.inbound_bytes:
            return
        if size < peer.inbound_bytes and peer in self._line and peer is self._first():
            self._completed = True
        self.bytes += size - peer.inbound_bytes
        peer.inbound_bytes = size
        if size <= LITTLE_BYTES:
            if peer in self._line:
                del self._line[peer]
                self._release(peer)
        else:
            self._line[peer] = None
            self._judge(peer)
        if self._waiting:
            self._let_on()

    def _judge(self, peer: "Peer") -> None:
        """Whether a peer that holds more than a little is still read."""
        if self.bytes >= 2 * self._bytes_max:
            peer.fail("frames that are not complete take more memory than all peers may have")
        elif self.bytes >= self._bytes_max and peer is not self._first():
            self._waiting[peer] = None
            peer.hold_input(held=True)
            self._watch()

    def _first(self) -> "Peer":
        return next(iter(self._line))

    def _release(self, peer: "Peer") -> None:
        if peer in self._waiting:
            del self._waiting[peer]
            peer.hold_input(held=False)

    def _let_on(self) -> None:
        """Reads whoever may be read again: the first in line, and all if there is room."""
        if self._line:
            self._release(self._first())
        while self._waiting and self.bytes < self._bytes_max:
            self._release(next(iter(self._waiting)))

    def forget(self, peer: "Peer") -> None:
        """The connection is gone, and what it has said too."""
        self.bytes -= peer.inbound_bytes
        peer.inbound_bytes = 0
        self._line.pop(peer, None)
        self._waiting.pop(peer, None)
        if self._waiting:
            self._let_on()

    def _watch(self) -> None:
        """Sees to it that the first in line gets on, as long as others wait for it."""
        if not self._watches and self._waiting:
            self._watches = True
            self._completed = False
            first = self._first()
            enough = int(first.inbound_bytes) + PROGRESS_BYTES
            self._host.call_later(PATIENCE_MS, lambda: self._look(first, enough))

    def _look(self, first: "Peer", enough: int) -> None:
        self._watches = False
        stuck = self._waiting and first is self._first() and first.inbound_bytes < enough
        if stuck and not self._completed and not first.paused and not first.has_unhandled:
            first.fail(
                f"a frame of which less than {PROGRESS_BYTES} bytes came in {PATIENCE_MS} ms, "
                "while others wait for its memory"
            )
        self._watch()
