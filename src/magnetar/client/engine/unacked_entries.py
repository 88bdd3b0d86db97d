"""What a subscription would be handed, entry by entry, with the indexes that are left of each.

For brokers that tell of acks no other way than by what they deliver: a consumer that joins the
subscription alone, is handed all that is not acked, acks nothing, and leaves. It must be the only
one, so that nobody acks meanwhile; as it is Exclusive, delayed messages come too.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from magnetar.client.consumer.start.entry_range import At
from magnetar.client.network.connection import ClientConnection
from magnetar.errors import NotConnected, Timeout
from magnetar.model import ConsumerType
from magnetar.protocol import CommandAckResponse, CommandMessage, split_entry
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.message import CommandFlow

if TYPE_CHECKING:
    from magnetar.client.engine.client import Engine

__all__ = ["UnackedEntries"]

PERMITS: Final = 1000


class UnackedEntries:
    """See the module. `batches` has what is left of each entry that is a batch."""

    def __init__(self, engine: "Engine", topic: str, subscription: str) -> None:
        self._engine = engine
        self.topic: Final = topic
        self.subscription: Final = subscription
        self._id = engine.next_consumer_id()
        self._connection: ClientConnection | None = None
        self._failure: Exception | None = None
        self._heard = asyncio.Event()
        self._permits = 0
        self.entries: Final[list[At]] = []
        # Of batches, the indexes that are left as bits, and how many there are.
        self.batches: Final[dict[At, tuple[int, int]]] = {}

    async def join(self) -> None:
        """Raises ConsumerBusy if the subscription has a consumer."""
        self._engine.bind()
        await self._engine.retrying(self._join)

    async def _join(self) -> None:
        connection = await self._engine.lookup.broker_of(self.topic)
        command = pb.CommandSubscribe(
            topic=self.topic,
            subscription=self.subscription,
            subType=int(ConsumerType.Exclusive),
            consumer_id=self._id,
            request_id=self._engine.next_request_id(),
            durable=True,
            force_topic_creation=False,
        )
        await connection.subscribe(command, self, self._close_command)
        self._connection = connection

    def _close_command(self) -> pb.CommandCloseConsumer:
        return pb.CommandCloseConsumer(
            consumer_id=self._id, request_id=self._engine.next_request_id()
        )

    async def read(self, last: At, timeout_s: float) -> None:
        """Returns when the entry `last`, or one behind it, has come. Raises Timeout."""
        while not self.entries or self.entries[-1] < last:
            if self._failure is not None:
                raise self._failure
            self._give()
            self._heard.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._heard.wait()
            except TimeoutError:
                raise Timeout(
                    f"{self.subscription} of {self.topic} was handed nothing for {timeout_s:g} s, "
                    f"though it has not acked {last[0]}:{last[1]}"
                ) from None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            if not connection.closed:
                await connection.request(self._close_command(), pb.CommandSuccess)
        finally:
            connection.remove_consumer(self._id)

    def _give(self) -> None:
        if self._connection is not None and self._permits * 2 <= PERMITS:
            self._connection.send([CommandFlow(self._id, PERMITS - self._permits)])
            self._permits = PERMITS

    # ---- What the broker says ------------------------------------------------

    def on_message(self, command: CommandMessage) -> None:
        metadata = split_entry(command.entry).metadata()
        size = metadata.num_messages_in_batch
        self._permits -= max(size or 1, 1)
        at = (int(command.message_id.ledger_id), int(command.message_id.entry_id))
        self.entries.append(at)
        if size is not None and command.ack_set is not None:
            self.batches[at] = (command.ack_set & ((1 << size) - 1), size)
        self._give()
        self._heard.set()

    def on_ack_response(self, response: CommandAckResponse) -> None:
        pass

    def on_active_change(self, active: bool) -> None:
        pass

    def on_end_of_topic(self) -> None:
        pass

    def on_withdraw(self, command: pb.CommandWithdraw) -> None:
        pass  # what was skipped meanwhile is handed out no more, and that is looked at afterwards

    def on_closed(self, connection: ClientConnection) -> None:
        self._failure = NotConnected(f"the connection to the broker of {self.topic} ended")
        self._heard.set()
