"""Where topic partitions begin and end, and where a time is between."""

from magnetar.arrow.plan.range_end import BEGINNING, Place, behind_entry
from magnetar.client.door.bulk import BulkClient
from magnetar.errors import Timeout, TopicNotFound
from magnetar.model import MessageId

__all__ = ["Bounds"]


class Bounds:
    """Asks a broker. `timeout_s` is how long one may have more and send nothing."""

    def __init__(self, client: BulkClient, timeout_s: float) -> None:
        self._client = client
        self._timeout_s = timeout_s

    def ends(self, topics: list[str], *, may_be_gone: bool = False) -> dict[str, Place]:
        """Returns the place behind the last message of each topic partition.

        One that is gone is left out if it may be. Raises TopicNotFound if not.
        """
        found = self._client.last_ids(topics)
        gone = [topic for topic, last in found.items() if last is None]
        if gone and not may_be_gone:
            raise TopicNotFound(f"there is no topic {', '.join(gone)}: create it first")
        return {
            topic: BEGINNING if last[1] < 0 else behind_entry(last[0], last[1])
            for topic, last in found.items()
            if last is not None
        }

    def first(self, topic: str, end: Place) -> Place:
        """Returns the first entry that is there. An empty topic begins where it begins."""
        if end == BEGINNING:
            return BEGINNING
        with self._client.entries(topic, (-1, -1), end[:2], timeout_s=self._timeout_s) as entries:
            found = entries.next(1)
        return (int(found[0].ledger_id), int(found[0].entry_id), 0) if found else end

    def at_time(self, topic: str, time_ms: int, end: Place) -> Place:
        """Returns the first entry that was not published before, as the broker finds it."""
        if end == BEGINNING:
            return BEGINNING
        return self._client.call(self._seek(topic, time_ms, end))

    async def _seek(self, topic: str, time_ms: int, end: Place) -> Place:
        async with await self._client.aio.create_reader(
            topic, MessageId.earliest, receiver_queue_size=1
        ) as reader:
            await reader.seek(time_ms)
            if not await reader.has_message_available():
                return end
            try:
                id = (await reader.read_next(int(self._timeout_s * 1000))).message_id()
            except Timeout:
                return end
            return min((id.ledger_id(), id.entry_id(), 0), end)
