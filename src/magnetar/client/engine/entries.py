"""Entries of one topic or partition, as they are, on the loop.

A consumer without a subscription that stays, and without messages: `EntryRange` decides
what is wanted and how many permits there are, this carries it out. Nothing is read from
the socket while nobody waits in `next_entries` and nobody else runs the loop, so a reader
that is slow keeps the broker waiting, and not its own memory full.
"""

import asyncio
from typing import TYPE_CHECKING

from magnetar.client.consumer.start.entry_range import At, EntryRange, Gap, RawEntry
from magnetar.client.network.connection import ClientConnection
from magnetar.client.network.reconnect import Reconnecting
from magnetar.errors import MagnetarError, Timeout
from magnetar.model import ConsumerType
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAckResponse, CommandMessage, message_id_to_pb, signed
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.protocol.message import CommandFlow

if TYPE_CHECKING:
    from magnetar.client.engine.client import Engine

__all__ = ["EngineEntries"]

# After so long without an entry the broker is asked whether there are more.
SILENCE_S = 0.5


class EngineEntries(Reconnecting):
    """Reads a range of entries, or only asks about the topic if it is not to read any."""

    def __init__(
        self,
        engine: "Engine",
        topic: str,
        start: At,
        end: At | None,
        *,
        reads: bool = True,
        name: str = "entries",
    ) -> None:
        super().__init__(f"reader of {topic}", engine.backoff(), engine.timeout_s, engine.log)
        self.connection: ClientConnection | None = None
        self._engine = engine
        self.topic: str = topic
        self._reads = reads
        self._id = engine.next_consumer_id()
        self._name = f"{name}-{int(engine.random() * (1 << 60)):015x}"
        self.range: EntryRange = EntryRange(start, end)
        self._entries: list[RawEntry] = []
        self._size = 0
        self._size_wanted = 1
        self._waiter: asyncio.Future[None] | None = None

    # ---- Connecting ----------------------------------------------------------

    async def attach(self) -> ClientConnection:
        connection = await self._engine.lookup.broker_of(self.topic)
        await connection.subscribe(self._subscribe(), self, self._close_command)
        if connection.closed or self.was_closed:
            raise self._engine.connection_lost(connection)
        if self._reads:
            self._give(connection, self.range.connected())
        return connection

    def _subscribe(self) -> pb.CommandSubscribe:
        command = pb.CommandSubscribe(
            topic=self.topic,
            subscription=self._name,
            subType=int(ConsumerType.Exclusive),
            consumer_id=self._id,
            request_id=self._engine.next_request_id(),
            durable=False,
            consumer_name=self._name,
            force_topic_creation=False,
        )
        ledger, entry = self.range.next
        # With an index the entry is included, with all brokers.
        start = MessageIdData(-1, -1) if ledger < 0 else MessageIdData(ledger, entry, -1, 0)
        command.start_message_id.CopyFrom(message_id_to_pb(start))
        return command

    def _give(self, connection: ClientConnection, permits: int) -> None:
        if permits > 0:
            connection.send([CommandFlow(self._id, permits)])

    def detached(self) -> None:
        pass

    def gave_up(self, error: Exception) -> None:
        self._wake()

    # ---- What the broker says ------------------------------------------------

    def on_message(self, command: CommandMessage) -> None:
        found = self.range.take(command)
        if found is not None:
            self._entries.append(found)
            self._size += int(found.size)
        if self.range.done or self._size >= self._size_wanted:
            self._wake()
        if self.connection is not None:
            self._give(self.connection, self.range.due())

    def on_ack_response(self, response: CommandAckResponse) -> None:
        pass

    def on_active_change(self, active: bool) -> None:
        pass

    def on_end_of_topic(self) -> None:
        pass

    def on_withdraw(self, command: pb.CommandWithdraw) -> None:
        pass  # it is the only one of its subscription, which nobody skips on

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ---- What is asked -------------------------------------------------------

    async def next_entries(self, size_min: int, timeout_s: float) -> list[RawEntry]:
        """Entries of `size_min` bytes or more if they come at once; none at the end.

        Raises Timeout after a silence that long, though the topic has more.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        self._size_wanted = size_min
        while not self.range.done and self._size < size_min:
            if self.failure is not None:
                raise self.failure
            self._waiter = loop.create_future()
            await asyncio.wait([self._waiter], timeout=SILENCE_S)
            if self._waiter.done():
                continue
            if self._entries:
                break
            await self._look_for_more(loop.time() > deadline, timeout_s)
        found, self._entries, self._size = self._entries, [], 0
        return found

    async def _look_for_more(self, late: bool, timeout_s: float) -> None:
        """Nothing came for a while: is there anything to come?"""
        ledger, entry, _, _ = await self.last_id()
        if not self._entries:
            self.range.nothing_left((ledger, entry))
        if late and not self._entries and not self.range.done:
            at = self.range.next
            raise Timeout(
                f"no entry of {self.topic} came in {timeout_s:g} s from {at[0]}:{at[1]} on, "
                f"though it ends with {ledger}:{entry}"
            )

    async def last_id(self) -> tuple[int, int, int, int]:
        """Ledger, entry, batch index and batch size of the last message; -1 where none."""
        return await self._engine.retrying(self._last_id)

    async def _last_id(self) -> tuple[int, int, int, int]:
        connection = await self.when_connected()
        command = pb.CommandGetLastMessageId(
            consumer_id=self._id, request_id=self._engine.next_request_id()
        )
        try:
            found = await connection.request(command, pb.CommandGetLastMessageIdResponse)
        except MagnetarError as error:
            if self.connection is not connection:
                raise self._engine.connection_lost(connection) from error
            raise
        id = found.last_message_id
        return signed(id.ledgerId), signed(id.entryId), id.batch_index, id.batch_size

    def take_gaps(self) -> list[Gap]:
        """Returns what the broker passed over since the last call."""
        found, self.range.gaps = self.range.gaps, []
        return found

    def _close_command(self) -> pb.CommandCloseConsumer:
        return pb.CommandCloseConsumer(
            consumer_id=self._id, request_id=self._engine.next_request_id()
        )

    async def close(self) -> None:
        connection = self.connection
        await self.stop()
        if connection is not None:
            # Nobody waits for the answer: what is still under way is dropped.
            connection.remove_consumer(self._id)
            if not connection.closed:
                connection.send([self._close_command()])
        self.connection = None
