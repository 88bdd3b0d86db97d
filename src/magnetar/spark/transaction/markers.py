"""Markers: what a broker remembers of the last micro-batch that a query has committed.

A topic of the query's own has, on one subscription, exactly one message that is not acked: the
marker of the last micro-batch. The transaction of a micro-batch acks that and publishes its own, so
marker and rows are there together or not at all. Of two transactions that would follow the same
marker one cannot be committed: what is acked in one transaction cannot be acked in another. So a
driver that was thought to be dead commits nothing that another has done.

| markers    | means                                    | left by                                  |
|------------|------------------------------------------|------------------------------------------|
| none       | no micro-batch was ever committed        | the first is published, with the number  |
|            |                                          | -1; all that earlier tries of this left  |
|            |                                          | are acked, then the checkpoint says so   |
| there      | the one that is not acked has the number | a transaction that acks it and publishes |
|            | of the last micro-batch                  | the next                                 |
| gone       | the checkpoint says that there are, and  | an operator: this is refused             |
|            | the broker has none                      |                                          |
"""

import asyncio

from magnetar.client.consumer.message import Message
from magnetar.client.door import aio
from magnetar.client.door.bulk import BulkClient
from magnetar.client.door.transaction import Transaction
from magnetar.errors import ConsumerBusy, MagnetarError, Timeout
from magnetar.model import InitialPosition
from magnetar.spark.checkpoint_files import CheckpointFiles

__all__ = ["Markers", "MarkersGoneError"]

SUBSCRIPTION = "magnetar-sink"
FIRST = -1
# The consumer of a driver that was killed is there until the broker has noticed.
BUSY_S = 60.0
BUSY_POLL_S = 0.5


class MarkersGoneError(MagnetarError):
    """Nobody can tell which micro-batches of a query were committed."""


class Markers:
    """Those of one query; see the module."""

    def __init__(
        self, client: BulkClient, topic: str, files: CheckpointFiles, query: str, timeout_s: float
    ) -> None:
        self._client = client
        self._topic = topic
        self._files = files
        self._begun = f"markers-{query}"
        self._timeout_ms = int(timeout_s * 1000)
        self._consumer: aio.Consumer | None = None
        self._producer: aio.Producer | None = None
        self._marker: Message | None = None

    @property
    def last(self) -> int:
        """The number of the last micro-batch that was committed, -1 if none was."""
        assert self._marker is not None, "markers are opened first"
        return int(self._marker.data())

    async def open(self) -> None:
        """Finds the marker. Raises MarkersGoneError, and what keeps it from the broker."""
        self._consumer = await self._subscribe()
        self._producer = await self._client.aio.create_producer(self._topic)
        if self._files.has(self._begun):
            self._marker = await self._receive(self._consumer)
            return
        self._marker = await self._begin(self._consumer, self._producer)
        self._files.write(self._begun, self._topic)

    async def _subscribe(self) -> aio.Consumer:
        """Waits while an earlier driver is there still."""
        give_up = asyncio.get_running_loop().time() + BUSY_S
        while True:
            try:
                return await self._client.aio.subscribe(
                    self._topic,
                    SUBSCRIPTION,
                    initial_position=InitialPosition.Earliest,
                    ack_receipt_enabled=True,
                    receiver_queue_size=10,
                )
            except ConsumerBusy:
                if asyncio.get_running_loop().time() > give_up:
                    raise
                await asyncio.sleep(BUSY_POLL_S)

    async def _begin(self, consumer: aio.Consumer, producer: aio.Producer) -> Message:
        """Publishes the first marker; others that are there are as old, and of no use."""
        id = await producer.send(b"%d" % FIRST)
        while True:
            marker = await self._receive(consumer)
            if marker.message_id() == id:
                return marker
            await consumer.acknowledge(marker)

    async def _receive(self, consumer: aio.Consumer) -> Message:
        try:
            return await consumer.receive(self._timeout_ms)
        except Timeout as error:
            raise MarkersGoneError(
                f"{self._topic} has no marker of the last micro-batch, so nobody can tell whether "
                "this one was committed: it was deleted or has expired, or another transaction "
                "holds it. See docs/spark-guarantees.md for what to do"
            ) from error

    async def replace(self, batch_id: int, transaction: Transaction) -> None:
        """Has the marker name another micro-batch when a transaction is committed.

        Raises TransactionConflict if another driver's has done so.
        """
        assert self._consumer is not None
        assert self._producer is not None
        assert self._marker is not None
        await self._consumer.acknowledge(self._marker, transaction=transaction)
        await self._producer.send(b"%d" % batch_id, transaction=transaction)

    async def close(self) -> None:
        for one in (self._consumer, self._producer):
            if one is not None:
                await one.close()
