"""How much may be on its way to the disk before nobody reads more of it.

| too much of                     | whose sockets are not read | until                          |
|---------------------------------|----------------------------|--------------------------------|
| publishes of one connection     | its own                    | half of them are settled       |
| bytes of all publishes together | of all that publish        | half of them are free, and its |
|                                 |                            | own publishes are few enough   |
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.broker.peer import Peer
from magnetar.broker.setting.settings import BrokerSettings

__all__ = ["PublishLimit"]


@final
class PublishLimit:
    """See the module."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings: Final = settings
        self._pending_bytes: i64 = 0
        # Peers that are not read from: each has too much on its way, or all together have.
        self._held_up: Final[list[Peer]] = []
        self._choked: bool = False

    def queued(self, peer: Peer, size: i64) -> None:
        """Stops reading from whoever has too much on its way."""
        self._pending_bytes += size
        peer.pending_publishes += 1
        if self._pending_bytes >= self._settings.max_pending_publish_bytes:
            self._choked = True
        own_max = self._settings.max_pending_publishes_per_connection
        if (self._choked or peer.pending_publishes >= own_max) and not peer.paused:
            peer.pause()
            self._held_up.append(peer)

    def settled(self, peer: Peer, size: i64) -> None:
        """Reads again from whoever has room, once half of the limits is free."""
        self._pending_bytes -= size
        peer.pending_publishes -= 1
        if not self._held_up:
            return
        if self._choked:
            if self._pending_bytes * 2 > self._settings.max_pending_publish_bytes:
                return
            self._choked = False
            for other in list(self._held_up):
                self._let_on(other)
        elif peer.paused:
            self._let_on(peer)

    def _let_on(self, peer: Peer) -> None:
        own_max = self._settings.max_pending_publishes_per_connection
        if peer.closed or peer.pending_publishes * 2 <= own_max:
            self._held_up.remove(peer)
            peer.resume()
