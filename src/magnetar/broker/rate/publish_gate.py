"""The gate of a topic: what is published there counts for the rates that hold for it.

What is over a rate is stored and answered like all else: it is there already. Its connection is
not read any more until tokens come (`Peer.hold_up`), so that receipts of what follows are late, and
nothing is refused. Whatever else comes by that connection waits too, as with Apache Pulsar; other
connections do not.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.broker.peer import Peer
from magnetar.broker.rate.throttle import Throttle

__all__ = ["PublishGate"]


@final
class PublishGate:
    """See the module. It is there only while some rate holds for the topic."""

    def __init__(self, throttles: list[Throttle]) -> None:
        self.throttles: Final = throttles

    def take(self, peer: Peer, messages: i64, size: int) -> bool:
        """Counts an entry of a peer, which waits if that was too much; returns whether it does."""
        longest, worst = 0, self.throttles[0]
        for throttle in self.throttles:
            throttle.take(int(messages), size)
            wait_ms = throttle.wait_ms()
            if wait_ms > longest:
                longest, worst = wait_ms, throttle
        if longest > 0:
            peer.hold_up(worst)
        return longest > 0
