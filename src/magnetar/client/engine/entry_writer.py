"""Writes entries as they are to a topic of which nobody else writes, and sends nothing twice.

A producer sends again what has no receipt when it comes back, so a message may be there twice.
This is for those who can find out what arrived, and would rather stop:

| state   | becomes                                                                            |
|---------|------------------------------------------------------------------------------------|
| opening | open, if nobody else has the topic; else it raises                                 |
| open    | failed: the connection ended, or the broker refused, dropped or mixed up an entry  |
| failed  | -; what was sent without a receipt may be stored or not                            |

It has the topic for itself (Exclusive), so others cannot write between its entries.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from magnetar.client.network.connection import ClientConnection
from magnetar.errors import (
    AlreadyClosed,
    BrokerMetadataError,
    MagnetarError,
    MessageTooBig,
    NotConnected,
)
from magnetar.model import ProducerAccessMode
from magnetar.protocol import CommandSend, CommandSendReceipt, encode, signed
from magnetar.protocol import pulsar_pb2 as pb

if TYPE_CHECKING:
    from magnetar.client.engine.client import Engine

__all__ = ["EntryWriter"]

# On their way at a time: enough for any round trip, and little memory.
ENTRIES_MAX: Final = 1000
BYTES_MAX: Final = 8 << 20
# Frames may be larger than messages by so much, at all brokers.
PADDING: Final = 10 << 10


class EntryWriter:
    """See the module."""

    def __init__(self, engine: "Engine", topic: str, name: str) -> None:
        self._engine = engine
        self.topic: Final = topic
        self._name = name
        self._id = engine.next_producer_id()
        self._connection: ClientConnection | None = None
        self._failure: Exception | None = None
        self._sizes: deque[int] = deque()
        self._in_flight = 0
        self._sent = 0
        self.stored: int = 0
        self._waiter: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Raises ProducerFenced or ProducerBusy if somebody else has the topic."""
        self._engine.bind()
        await self._engine.retrying(self._open)

    async def _open(self) -> None:
        connection = await self._engine.lookup.broker_of(self.topic)
        connection.add_producer(self._id, self)
        command = pb.CommandProducer(
            topic=self.topic,
            producer_id=self._id,
            request_id=self._engine.next_request_id(),
            producer_name=self._name,
            user_provided_producer_name=True,
            producer_access_mode=int(ProducerAccessMode.Exclusive),
        )
        try:
            await connection.request(command, pb.CommandProducerSuccess)
        except BaseException:
            connection.remove_producer(self._id)
            raise
        self._connection = connection

    # ---- What is asked -------------------------------------------------------

    async def write(self, entry: bytes, messages: int) -> None:
        """Sends an entry, when there is room. Raises why the writer is of no use any more."""
        while self._full():
            await self._wait()
        connection = self._usable()
        if len(entry) > connection.max_message_size + PADDING:
            raise MessageTooBig(
                f"{self.topic} takes entries of {connection.max_message_size} bytes, and there is "
                f"one of {len(entry)}: raise max_message_size there"
            )
        connection.write([encode(CommandSend(self._id, self._sent, entry, messages))])
        self._sent += 1
        self._sizes.append(len(entry))
        self._in_flight += len(entry)

    async def flush(self) -> None:
        """Returns when all that was written is stored. Raises as `write`."""
        while self.stored < self._sent:
            await self._wait()
        self._usable()

    async def close(self) -> None:
        """Gives the topic back; what has no receipt may be stored or not."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        command = pb.CommandCloseProducer(
            producer_id=self._id, request_id=self._engine.next_request_id()
        )
        try:
            if not connection.closed:
                await connection.request(command, pb.CommandSuccess)
        except MagnetarError as error:
            self._engine.log_problem(f"closing the writer of {self.topic}", error)
        finally:
            connection.remove_producer(self._id)

    def _full(self) -> bool:
        connection = self._usable()
        waiting = self._sent - self.stored
        return waiting >= ENTRIES_MAX or self._in_flight >= BYTES_MAX or not connection.writable

    def _usable(self) -> ClientConnection:
        if self._failure is not None:
            raise self._failure
        if self._connection is None:
            raise AlreadyClosed(f"the writer of {self.topic} is closed")
        return self._connection

    async def _wait(self) -> None:
        self._usable()
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._failure is None:
            self._failure = error
        self._wake()

    # ---- What the broker says ------------------------------------------------

    def on_receipt(self, receipt: CommandSendReceipt) -> None:
        place = receipt.message_id
        if receipt.sequence_id != self.stored or place is None or place.ledger_id < 0:
            self._fail(
                BrokerMetadataError(
                    f"{self.topic}: entry {self.stored} has no receipt, and {receipt.sequence_id} "
                    "has: is deduplication on there?"
                )
            )
            return
        self._in_flight -= self._sizes.popleft()
        self.stored += 1
        self._wake()

    def on_send_error(self, error: pb.CommandSendError) -> None:
        number = signed(error.sequence_id)
        self._fail(BrokerMetadataError(f"{self.topic} refused entry {number}: {error.message}"))

    def on_ready(self, success: pb.CommandProducerSuccess) -> None:
        pass  # only who waits for the topic is told later

    def on_closed(self, connection: ClientConnection) -> None:
        self._fail(NotConnected(f"the connection to the broker of {self.topic} ended"))

    def on_writable(self) -> None:
        self._wake()
