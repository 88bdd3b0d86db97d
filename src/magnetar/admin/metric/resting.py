"""The backlogs of topics that nobody uses: of those that are stored, and not loaded.

To load them would change what is looked at: they would take memory, and count as used. So their
cursors are read, one at a time and in steps, and only the numbers are kept. They stay exact as
long as nothing is written about the topic, which its mark in the store tells.

| topic                                | its numbers                                        |
|--------------------------------------|----------------------------------------------------|
| never looked at, or with a new mark  | are read now                                       |
| with the mark of its numbers         | are those                                          |
| loaded, or gone                      | are forgotten: whoever has it loaded has its own   |
| written about while they are read    | are none: it was loaded just now                   |
"""

from typing import Final

from magnetar.ack import Cursor, Ledgers
from magnetar.admin.http.breather import Breather
from magnetar.broker.broker import Broker
from magnetar.broker.topic.topic_storage import bytes_after
from magnetar.model import Position
from magnetar.storage.cursor.cursor_load import load_cursor_steps, load_ledgers
from magnetar.storage.ledger.retention import LedgerInfo

__all__ = ["Resting", "RestingCursor", "RestingTopics"]

# Cursors of the broker's own begin so.
INTERNAL: Final = "pulsar."
# So many entries are counted in one step: a tenth of a millisecond.
COUNT_ENTRIES: Final = 20_000


class RestingCursor:
    """A subscription that nobody uses."""

    def __init__(self, name: str, cursor: Cursor, messages: int, oldest_ms: int) -> None:
        self.name = name
        self.entries = cursor.unacked_entries()
        self.messages = messages
        self.acked_runs = cursor.acked_run_count()
        self.partial = cursor.partial_entries()
        self.mark_delete: Position = cursor.mark_delete
        # When its oldest unacked entry was published; -1 if there is none.
        self.oldest_ms = oldest_ms


class Resting:
    """A topic that nobody uses."""

    def __init__(self, mark: tuple[int, ...], size_bytes: int) -> None:
        self.mark = mark
        self.size_bytes = size_bytes
        self.backlog_bytes = 0
        self.cursors: list[RestingCursor] = []


class RestingTopics:
    """See the module."""

    def __init__(self) -> None:
        self._known: dict[int, Resting] = {}

    def forget(self, topic_id: int) -> None:
        """It is loaded, or gone."""
        self._known.pop(topic_id, None)

    def keep_only(self, topic_ids: set[int]) -> None:
        """All others are gone."""
        for topic_id in [id for id in self._known if id not in topic_ids]:
            del self._known[topic_id]

    async def look(self, broker: Broker, topic_id: int, breather: Breather) -> Resting | None:
        """The numbers of a topic; None if they changed while they were read. Raises
        StorageError."""
        mark = broker.store.topic_mark(topic_id)
        known = self._known.get(topic_id)
        if known is not None and known.mark == mark:
            return known
        found = await _read(broker, topic_id, mark, breather)
        if found is None or broker.store.topic_mark(topic_id) != mark:
            self.forget(topic_id)
            return None
        self._known[topic_id] = found
        return found


async def _read(
    broker: Broker, topic_id: int, mark: tuple[int, ...], breather: Breather
) -> Resting | None:
    store = broker.store
    if not mark:
        return None
    infos = store.ledgers(topic_id)
    ledgers = load_ledgers(store, topic_id)
    found = Resting(mark, sum([info.size_bytes for info in infos]))
    for cursor_id in store.cursor_ids(topic_id):
        await breather.rest()
        if store.topic_mark(topic_id) != mark:
            return None
        name = store.cursor_name(cursor_id)
        if name.startswith(INTERNAL):
            continue
        loading = load_cursor_steps(store, cursor_id, ledgers)
        cursor: Cursor | None = None
        while cursor is None:
            await breather.rest()
            if store.topic_mark(topic_id) != mark:
                return None
            try:
                next(loading)
            except StopIteration as end:
                cursor = end.value
        messages = await _messages_after(infos, ledgers, cursor.mark_delete, breather)
        if store.topic_mark(topic_id) != mark:
            return None
        run = cursor.next_run(cursor.mark_delete, 1)
        oldest = -1 if run is None else store.publish_time_ms(run.ledger_id, run.first)
        messages -= cursor.acked_above()
        found.cursors.append(RestingCursor(name, cursor, messages, oldest))
    if found.cursors:
        slowest = min([one.mark_delete for one in found.cursors])
        found.backlog_bytes = bytes_after(infos, slowest)
    return found


async def _messages_after(
    infos: list[LedgerInfo], ledgers: Ledgers, position: Position, breather: Breather
) -> int:
    """The messages behind a position, of large ledgers counted in steps."""
    messages = 0
    for info in infos:
        if info.id < position.ledger_id:
            continue
        first = position.entry_id + 1 if info.id == position.ledger_id else 0
        while first < info.entries:
            end = min(first + COUNT_ENTRIES, info.entries)
            messages += int(ledgers.sizes.message_count(info.id, first, end))
            first = end
            await breather.rest()
    return messages
