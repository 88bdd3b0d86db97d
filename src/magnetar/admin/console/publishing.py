"""Publishing from inside the broker: a producer whose peer is whoever waits for its receipts.

It publishes as clients do, by the same checks, limits and writes. Those who wait for a receipt
wait until the message is durable.
"""

from types import TracebackType
from typing import Final

from magnetar.admin.http.bridge import wait_for
from magnetar.broker.peer import Peer, Port
from magnetar.broker.promise import Promise, kept
from magnetar.broker.rate.throttle import Throttle
from magnetar.broker.topic.producer import Producer
from magnetar.broker.topic.topic import Topic
from magnetar.errors import BrokerError
from magnetar.model import ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    Command,
    CommandSend,
    CommandSendReceipt,
    MessageMetadata,
    encode_entry,
)
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["Publisher"]


class _NoPort(Port):
    """There is no socket: nothing waits to be written, and nothing is read."""

    def wake(self) -> None:
        """Nothing is ever put into the outbox."""

    def pause(self) -> None:
        """Whoever publishes waits for each receipt, and so for its turn."""

    def resume(self) -> None:
        """See `pause`."""

    def hang_up(self) -> None:
        """Nobody is there to be told."""


class _Receipts(Peer):
    """Takes receipts and refusals, by sequence id."""

    def __init__(self, topic: Topic, address: str) -> None:
        super().__init__(_NoPort(), address, topic.broker.outbound)
        self.waiting: Final[dict[int, Promise[MessageIdData]]] = {}
        # Kept when there is something left of a rate that was published beyond.
        self.may_go_on: Promise[None] = kept(None)

    def hold_up(self, throttle: Throttle) -> None:
        if self.held_up is None:
            self.may_go_on = Promise()
        super().hold_up(throttle)

    def tokens_came(self) -> None:
        super().tokens_came()
        self.may_go_on.keep(None)

    def send(self, command: Command) -> None:
        if isinstance(command, CommandSendReceipt):
            assert command.message_id is not None
            self.waiting.pop(command.sequence_id).keep(command.message_id)
        elif isinstance(command, pb.CommandSendError):
            error = BrokerError(command.error, command.message)
            self.waiting.pop(command.sequence_id).fail(error)

    def close_producer(self, producer: Producer) -> None:
        """The topic goes: what has no receipt may be stored or not."""
        for promise in list(self.waiting.values()):
            promise.fail(_closed())
        self.waiting.clear()


def _closed() -> BrokerError:
    reason = "the topic was closed, and the message may be stored or not: look, then try again"
    return BrokerError(ServerError.ServiceNotReady, reason)


class Publisher:
    """A producer of one topic, as long as the `with` lasts. Entering raises BrokerError."""

    def __init__(self, topic: Topic, address: str) -> None:
        self._topic = topic
        self._peer = _Receipts(topic, address)
        self._producer = Producer(
            self._peer,
            0,
            topic.broker.new_producer_name(),
            connected_ms=topic.host.now_ms(),
        )
        self._sequence_id = 0

    def __enter__(self) -> "Publisher":
        self._topic.admission.add(self._producer, None)
        if not self._producer.ready:
            self._topic.admission.remove(self._producer)
            raise BrokerError(
                ServerError.ServiceNotReady,
                f"a producer has {self._topic.name} for itself: try again later",
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._topic.admission.remove(self._producer)
        self._peer.closed = True
        if self._peer.held_up is not None:
            self._peer.held_up.forget(self._peer)

    def metadata(self) -> MessageMetadata:
        """Metadata of the next message, to be filled in."""
        return MessageMetadata(self._producer.name, self._sequence_id, self._topic.host.now_ms())

    async def publish(self, metadata: MessageMetadata, payload: bytes) -> MessageIdData:
        """Returns the id of a message that is durable. Raises BrokerError."""
        if self._producer.closed:
            raise _closed()
        sequence_id = self._sequence_id
        self._sequence_id += 1
        promise: Promise[MessageIdData] = Promise()
        self._peer.waiting[sequence_id] = promise
        if not metadata.compression:
            metadata.uncompressed_size = len(payload)
        entry = encode_entry(metadata.encode(), payload)
        self._topic.publish(self._producer, CommandSend(0, sequence_id, entry))
        id = await wait_for(promise)
        # Beyond a rate the answer is late, as the receipts of all other producers are.
        await wait_for(self._peer.may_go_on)
        return id
