"""A producer: someone who may publish to a topic.

| state   | SEND              | becomes                                                     |
|---------|-------------------|-------------------------------------------------------------|
| waiting | refused           | ready, when the topic is its own (WaitForExclusive)         |
| ready   | published         | broken, when a publish fails; closed                        |
| broken  | refused, same way | closed: it must be created anew, so that order is kept      |
| closed  | -                 |                                                             |

After a publish that failed nothing behind it may succeed: the client sends all of it again
in order, and what had passed would be there twice and too early.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.broker.peer import Peer, unsigned
from magnetar.broker.topic.counters import Traffic
from magnetar.model import ProducerAccessMode
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandSendReceipt
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["Producer"]

NOWHERE: Final = MessageIdData(-1, -1)


@final
class Producer:
    """See the module."""

    def __init__(
        self,
        peer: Peer,
        id: int,
        name: str,
        *,
        epoch: int = 0,
        access_mode: int = ProducerAccessMode.Shared,
        metadata: dict[str, str] | None = None,
        schema_version: bytes = b"",
        connected_ms: int = 0,
    ) -> None:
        self.peer: Final = peer
        self.id: Final[i64] = id
        self.name: Final = name
        self.epoch: Final = epoch
        self.access_mode: Final = access_mode
        self.metadata: Final[dict[str, str]] = metadata or {}
        self.schema_version: bytes = schema_version
        self.connected_ms: Final = connected_ms
        self.ready: bool = True
        # What it sends now is passed over, until its client hears that it is closed.
        self.leaving: bool = False
        self.closed: bool = False
        self.broken: str = ""
        # Publishes on their way to the disk.
        self.pending: i64 = 0
        self.traffic: Final = Traffic()
        self.chunks: i64 = 0

    def receipt(self, sequence_id: i64, highest: i64, message_id: MessageIdData) -> None:
        """Tells the client that a publish is safe."""
        if not self.closed:
            self.peer.send(CommandSendReceipt(self.id, sequence_id, message_id, highest))

    def refuse(self, sequence_id: i64, code: int, reason: str) -> None:
        """Tells the client that a publish failed."""
        if not self.closed:
            self.peer.send(
                pb.CommandSendError(
                    producer_id=unsigned(self.id),
                    sequence_id=unsigned(sequence_id),
                    error=code,
                    message=reason,
                )
            )

    def stop(self) -> None:
        """Takes nothing more of it; `dismiss` follows, after the receipts of what it published."""
        self.ready = False
        self.leaving = True

    def dismiss(self) -> None:
        """Closes it from this side; its client will come back."""
        if not self.closed:
            self.closed = True
            self.peer.close_producer(self)

    def break_off(self, reason: str) -> None:
        """A publish failed: what comes behind it fails too."""
        if not self.broken:
            self.broken = reason

    def duplicate(self, sequence_id: i64, highest: i64) -> None:
        """Answers a publish that the broker had already."""
        self.receipt(sequence_id, highest, NOWHERE)
