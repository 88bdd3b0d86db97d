"""Deduplication: what a producer has published already, by sequence id.

Of each producer name the topic knows the highest sequence id that was *pushed* to the
journal and the highest that is *stored*. An id that is not above the stored one is a
duplicate; one that is not above the pushed one may become one, which nobody can say yet. Of
a batch all ids are on one side, or it is *overlapping*: it can be neither stored nor dropped.

It survives a crash exactly: from time to time the numbers are written to a cursor of the
broker's own, whose mark-delete says up to which entry they count. A load takes them from
there and reads the entries behind. That cursor also keeps those entries from being trimmed.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.ack import Cursor, encode_delta, encode_snapshot
from magnetar.broker.topic.properties import pack_numbers, unpack_numbers
from magnetar.errors import StorageError
from magnetar.model import Position
from magnetar.protocol import entry_facts, split_entry
from magnetar.storage.cursor.cursor_load import load_cursor

if TYPE_CHECKING:
    from magnetar.broker.topic.topic import Topic

__all__ = ["DUPLICATE", "FRESH", "NAME", "OVERLAPPING", "UNDECIDED", "Deduplication"]

NAME: Final = "pulsar.dedup"

FRESH: Final = 0
DUPLICATE: Final = 1
UNDECIDED: Final = 2
OVERLAPPING: Final = 3

# A load reads what was stored since the last snapshot, at once: no more of it than this (I10).
SNAPSHOT_BYTES: Final = 8 << 20
READ_ENTRIES: Final = 200
READ_BYTES: Final = 1 << 22


@final
class Deduplication:
    """See the module."""

    def __init__(self, topic: "Topic", cursor: Cursor, cursor_id: int) -> None:
        self._topic: Final = topic
        self.cursor: Final = cursor
        self.cursor_id: int = cursor_id
        self._stored: dict[str, int] = {}
        self._pushed: dict[str, int] = {}
        self._since_snapshot: i64 = 0
        self._bytes_since: i64 = 0
        self._last: Position = cursor.mark_delete
        self._writing: bool = False
        # The cursor could not be written; it is when the disk takes something again.
        self._lost: bool = False

    def created(self) -> None:
        """The cursor is on its way to the disk, as it was when it was new."""
        topic = self._topic

        def settled(error: Exception | None) -> None:
            self._lost = error is not None

        topic.wait_for(topic.store.ticket_last).when_done(settled)
        topic.host.kick()

    def _create_again(self) -> None:
        topic = self._topic
        try:
            self.cursor_id = create_cursor(topic, self.cursor)
        except StorageError as error:
            topic.host.warn(f"deduplication of {topic.name}: {error}")
            return
        self._lost = False
        self.created()

    @property
    def position(self) -> Position:
        """Entries behind this one are needed for the next load."""
        return self.cursor.mark_delete

    def highest(self, producer: str) -> int:
        """The highest sequence id stored, or -1."""
        return self._stored.get(producer, -1)

    def look(self, producer: str, first: i64, last: i64) -> int:
        """What a publish of these sequence ids is."""
        if last <= self._stored.get(producer, -1):
            return DUPLICATE
        pushed: i64 = self._pushed.get(producer, -1)
        if first <= pushed:
            return UNDECIDED if last <= pushed else OVERLAPPING
        return FRESH

    def judge(self, producer: str, first: i64, last: i64) -> int:
        """The same; and a fresh one counts as pushed."""
        verdict = self.look(producer, first, last)
        if verdict == FRESH:
            self._pushed[producer] = last
        return verdict

    def pushed(self, producer: str) -> int:
        """The highest sequence id on its way or stored, or -1."""
        return self._pushed.get(producer, -1)

    def is_settled(self, producer: str) -> bool:
        """Whether nothing of it is on its way, so that `highest` is the last word."""
        return self.pushed(producer) <= self.highest(producer)

    def take_back(self, producer: str, pushed: int) -> None:
        """The last publish was not pushed after all; `pushed` is what was before it."""
        self._pushed[producer] = pushed

    def forget_pushed(self, producer: str) -> None:
        """What was on its way failed."""
        self._pushed[producer] = self._stored.get(producer, -1)

    def stored(self, producer: str, sequence_id: i64, position: Position, size: i64) -> None:
        """An entry of so many bytes is durable."""
        if sequence_id > self._stored.get(producer, -1):
            # The one stored last goes to the end, and the first is forgotten first.
            self._stored.pop(producer, None)
            self._stored[producer] = sequence_id
        self._last = position
        self._since_snapshot += 1
        self._bytes_since += size
        entries_max = self._topic.settings.deduplication_snapshot_entries
        if self._lost:
            self._create_again()
        elif self._since_snapshot >= entries_max or self._bytes_since >= SNAPSHOT_BYTES:
            self.snapshot()

    def snapshot(self) -> None:
        """Writes down what is stored, so that a load need not read entries before here."""
        if self._writing or self._since_snapshot == 0:
            return
        self._limit()
        topic = self._topic
        # The cursor knows no entry that its topic has not grown by yet.
        position = min(self._last, topic.ledgers.last())
        delta = self.cursor.plan_expire(position)
        try:
            topic.store.set_cursor_properties(self.cursor_id, pack_numbers(self._stored))
            ticket = topic.store.append_delta(self.cursor_id, delta.epoch, encode_delta(delta))
        except StorageError as error:
            topic.host.warn(f"deduplication of {topic.name}: {error}")
            return
        self._writing = True
        self._since_snapshot = 0
        self._bytes_since = 0
        topic.host.kick()

        def settled(error: Exception | None) -> None:
            self._writing = False
            if error is None:
                self.cursor.apply(delta)

        topic.wait_for(ticket).when_done(settled)

    def _limit(self) -> None:
        """Forgets the producers that stored nothing for longest, beyond the limit."""
        excess = len(self._stored) - self._topic.settings.deduplication_max_producers
        if excess > 0:
            for producer in list(self._stored)[:excess]:
                del self._stored[producer]
                self._pushed.pop(producer, None)

    def delete(self) -> None:
        """It was switched off."""
        if self._lost:
            return
        self._topic.store.delete_cursor(self.cursor_id)
        self._topic.host.kick()


def load_deduplication(topic: "Topic") -> Deduplication:
    """What the store has of it, or the beginning. Reads the entries behind the last snapshot."""
    store = topic.store
    if topic.storage.stored:
        for cursor_id in store.cursor_ids(topic.id):
            if store.log.deleting(cursor_id):
                continue  # it was switched off a moment ago
            state = store.log.state.cursors[cursor_id]
            if state.name == NAME:
                cursor = load_cursor(store, cursor_id, topic.ledgers)
                found = Deduplication(topic, cursor, cursor_id)
                found._stored = unpack_numbers(state.properties)
                _replay(topic, found)
                found._pushed = dict(found._stored)
                return found
    cursor = Cursor(topic.ledgers, topic.ledgers.last())
    fresh = Deduplication(topic, cursor, create_cursor(topic, cursor))
    fresh.created()
    return fresh


def create_cursor(topic: "Topic", cursor: Cursor) -> int:
    """The id of a cursor that knows no numbers: they are in the entries behind it."""
    return topic.store.create_cursor(
        topic.id, NAME, encode_snapshot(cursor), properties=pack_numbers({})
    )


def _replay(topic: "Topic", found: Deduplication) -> None:
    # All that is stored: what an open transaction hides is published all the same.
    following = Position(found.position.ledger_id, found.position.entry_id + 1)
    while True:
        entries = topic.store.read(
            topic.id, following, entries_max=READ_ENTRIES, bytes_max=READ_BYTES
        )
        if not entries:
            return
        for entry in entries:
            assert entry.data is not None
            facts = entry_facts(split_entry(entry.data))
            last_chunk = facts.chunk_id < 0 or facts.chunk_id + 1 >= facts.chunk_count
            name = facts.producer_name.decode(errors="replace")
            sequence_id = max(facts.highest_sequence_id, facts.sequence_id)
            if last_chunk and sequence_id > found._stored.get(name, -1):
                found._stored[name] = sequence_id
            following = Position(entry.ledger_id, entry.entry_id + 1)
