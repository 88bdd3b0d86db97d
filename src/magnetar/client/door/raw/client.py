"""A client for those who copy topics: what is stored, byte for byte, and not as messages.

async with EntryClient("pulsar://localhost:6650") as client:
    entries = await client.read("orders", (-1, -1), (7, 100))
    writer = await client.write("copy", "copier")
"""

from types import TracebackType
from typing import Final, Unpack

from magnetar.client.consumer.start.entry_range import At
from magnetar.client.door import aio
from magnetar.client.engine.entries import EngineEntries
from magnetar.client.engine.entry_writer import EntryWriter
from magnetar.client.engine.unacked_entries import UnackedEntries
from magnetar.client.option.keywords import ClientKeywords

__all__ = ["EntryClient"]


class EntryClient:
    """See the module. Topics are such as have no partitions, or single partitions."""

    def __init__(self, service_url: str, **options: Unpack[ClientKeywords]) -> None:
        """Options are those of `magnetar.Client`."""
        # For what is not by the entry.
        self.aio: Final = aio.Client(service_url, **options)
        self._engine = self.aio._engine

    async def __aenter__(self) -> "EntryClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aio.close()

    async def read(self, topic: str, start: At, end: At | None) -> EngineEntries:
        """Returns the entries from `start` on, up to `end`, which is not included; close it."""
        self._engine.bind()
        entries = EngineEntries(self._engine, topic, start, end)
        await entries.start()
        return entries

    async def last(self, topic: str) -> At:
        """Returns the last entry of a topic; (-1, -1) if there is none."""
        self._engine.bind()
        watch = EngineEntries(self._engine, topic, (-1, -1), None, reads=False, name="watch")
        await watch.start()
        try:
            ledger, entry, _, _ = await watch.last_id()
        finally:
            await watch.close()
        return (ledger, entry) if entry >= 0 else (-1, -1)

    async def write(self, topic: str, name: str) -> EntryWriter:
        """Returns a writer that has the topic for itself; close it.

        Raises ProducerFenced or ProducerBusy if others write there.
        """
        writer = EntryWriter(self._engine, topic, name)
        await writer.open()
        return writer

    async def join(self, topic: str, subscription: str) -> UnackedEntries:
        """Returns what a subscription has not acked; close it. Raises ConsumerBusy."""
        found = UnackedEntries(self._engine, topic, subscription)
        await found.join()
        return found
