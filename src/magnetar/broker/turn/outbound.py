"""What waits for all peers together: outboxes, and what sockets have not taken yet.

All connections share one budget of bytes (`max_outbound_bytes`). While it is spent

- a peer for whom nothing waits is served: one that reads its answers is never held up by
  others that do not;
- a peer for whom something waits gets nothing more, neither messages nor answers;
- long answers (a schema, a list of topics) are refused, and the client asks again.

So what waits is the budget and one small answer, or one entry, for each connection at most.

Whoever finds the budget spent waits here. A socket does not say when it has taken what it was
given, so as long as somebody waits, sockets are asked from time to time. Then those who wait
try again, one in each round of the loop.
"""

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.host import Host
from magnetar.errors import BrokerError
from magnetar.model import ServerError

if TYPE_CHECKING:
    from magnetar.broker.peer import Peer

__all__ = ["Outbound"]

# As long as somebody waits, sockets are asked so often how much they have taken.
LOOK_MS: Final = 10


@final
class Outbound:
    """See the module. `bytes` is what waits now."""

    def __init__(self, host: Host, bytes_max: int) -> None:
        self._host: Final = host
        self.bytes_max: Final[i64] = bytes_max
        self.bytes: i64 = 0
        # Peers whose sockets have not taken everything.
        self._holders: Final[dict[Peer, None]] = {}
        # Peers that found the budget spent, and those of them that try again now.
        self._waiting: Final[dict[Peer, None]] = {}
        self._trying: Final[deque[Peer]] = deque()
        self._looks: bool = False

    @property
    def spent(self) -> bool:
        return self.bytes >= self.bytes_max

    def require_room(self, size: int) -> None:
        """Raises BrokerError if so long an answer cannot wait beside what waits already."""
        if self.bytes > 0 and self.bytes + size > self.bytes_max:
            raise BrokerError(
                ServerError.ServiceNotReady,
                f"{self.bytes} bytes wait for clients that do not read them, and there is no "
                f"room for an answer of {size} bytes: try again later",
            )

    def wait(self, peer: "Peer") -> None:
        """Has a peer wait that found the budget spent: its `have_room` is called when it may try
        again."""
        self._waiting[peer] = None
        if not self._looks:
            self._looks = True
            self._host.call_later(LOOK_MS, self._look)

    def have_unwritten(self, peer: "Peer", size: i64) -> None:
        """Notes how much of what was handed to the peer's socket is not taken yet."""
        self.bytes += size - peer.unwritten
        peer.unwritten = size
        if size > 0:
            self._holders[peer] = None
        else:
            self._holders.pop(peer, None)

    def forget(self, peer: "Peer") -> None:
        """The connection is gone, and with it all that waited."""
        self.bytes -= peer.outbox_bytes + peer.unwritten
        peer.outbox = []
        peer.outbox_bytes = 0
        peer.unwritten = 0
        self._holders.pop(peer, None)
        self._waiting.pop(peer, None)

    def _look(self) -> None:
        """Asks sockets what they have taken, and lets those who wait try again."""
        for peer in list(self._holders):
            self.have_unwritten(peer, peer.port.unwritten())
        self._trying.extend(self._waiting)
        self._waiting.clear()
        self._try_next()

    def _try_next(self) -> None:
        if self._trying:
            # First, or one that fails would be the last of all.
            self._host.call_soon(self._try_next)
            self._trying.popleft().have_room()
            return
        self._looks = False
        if self._waiting:
            self.wait(next(iter(self._waiting)))
