"""Appending to topics: every topic has at most one open ledger, and its entries are a row.

A ledger is opened by the first entry that needs one and sealed when it has enough entries,
bytes or age. What is opened here is only a promise until its group is durable. When a
group fails, `abandon` forgets all of them: ids that were given to entries on their way are
never given again, because each topic goes on in a new ledger.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import UnknownObjectError
from magnetar.model import Position
from magnetar.storage.ids import Ids
from magnetar.storage.log.log import Log
from magnetar.storage.log.record import Record
from magnetar.storage.log.record_kind import DELETE, ENTRY
from magnetar.storage.state import LedgerState
from magnetar.storage.state_record import ledger_record

__all__ = ["LedgerWriter"]


@final
class OpenLedger:
    """The end of a topic, with what is on its way."""

    def __init__(self, id: int, topic_id: int, created_ms: int, created_ticks: int) -> None:
        self.id: Final = id
        self.topic_id: Final = topic_id
        self.created_ms: Final = created_ms
        # Its age goes by these, for the time of day may be set.
        self.created_ticks: Final = created_ticks
        self.entries: i64 = 0
        self.size_bytes: i64 = 0


@final
class LedgerWriter:
    """Gives entries their positions."""

    def __init__(self, log: Log, ids: Ids) -> None:
        self._log: Final = log
        self._ids: Final = ids
        self._open: Final[dict[int, OpenLedger]] = {}
        # Topics whose creation is on its way.
        self._creating: Final[set[int]] = set()
        # Ledgers that are open in the durable log, but that nobody writes to any more.
        self._orphans: list[int] = []

    def append(
        self, topic_id: int, entry: bytes, *, batch_size: i64, publish_time_ms: i64
    ) -> Position:
        self._log.require_space()
        ledger = self._open.get(topic_id)
        if ledger is None or self._full(ledger):
            ledger = self._roll(topic_id, ledger)
        entry_id = ledger.entries
        self._log.add(
            Record(
                ENTRY,
                ledger.id,
                entry_id,
                time_ms=publish_time_ms,
                batch_size=batch_size,
                body=entry,
            )
        )
        ledger.entries = entry_id + 1
        ledger.size_bytes += len(entry)
        return Position(ledger.id, entry_id)

    def _full(self, ledger: OpenLedger) -> bool:
        options = self._log.options
        return (
            ledger.entries >= options.ledger_entries_max
            or ledger.size_bytes >= options.ledger_bytes_max
        )

    def _roll(self, topic_id: int, ledger: OpenLedger | None) -> OpenLedger:
        self.require_topic(topic_id)
        # The id first: a full disk may refuse it, and then nothing has changed.
        ledger_id = self._ids.take()
        if ledger is not None:
            self._seal(ledger)
        ledger = OpenLedger(ledger_id, topic_id, self._log.clock_ms(), self._log.ticks_ms())
        self._log.add(ledger_record(ledger.id, topic_id, ledger.created_ms))
        self._open[topic_id] = ledger
        return ledger

    def seal_old(self) -> None:
        """Seals the ledgers that are open for too long, so that their topics can be trimmed."""
        born_last = self._log.ticks_ms() - self._log.options.ledger_age_ms_max
        for ledger in list(self._open.values()):
            if ledger.created_ticks <= born_last:
                self.seal_topic(ledger.topic_id)

    def seal_topic(self, topic_id: int) -> None:
        """Ends the topic's open ledger, if it has one; the next entry opens another."""
        ledger = self._open.pop(topic_id, None)
        if ledger is not None:
            self._seal(ledger)

    def _seal(self, ledger: OpenLedger) -> None:
        self._log.add(
            ledger_record(
                ledger.id,
                ledger.topic_id,
                ledger.created_ms,
                sealed=True,
                entries=ledger.entries,
                size_bytes=ledger.size_bytes,
                sealed_ms=self._log.clock_ms(),
            )
        )

    def open_topics(self) -> list[int]:
        return list(self._open)

    def open_ledgers(self) -> list[int]:
        return [ledger.id for ledger in self._open.values()]

    def create_topic(self, topic_id: int) -> None:
        self._creating.add(topic_id)

    def delete_topic(self, topic_id: int) -> None:
        self.require_topic(topic_id)
        self._open.pop(topic_id, None)
        self._creating.discard(topic_id)

    def require_topic(self, topic_id: int) -> None:
        known = topic_id in self._log.state.topics or topic_id in self._creating
        if not known or self._log.deleting(topic_id):
            raise UnknownObjectError("topic", str(topic_id))

    def committed(self) -> None:
        """A group became durable."""
        topics = self._log.state.topics
        for topic_id in [id for id in self._creating if id in topics]:
            self._creating.remove(topic_id)

    def abandon(self) -> None:
        """A group failed, and with it everything on its way."""
        self._open.clear()
        self._creating.clear()
        self.find_orphans()

    def find_orphans(self) -> None:
        """Nothing is on its way, so whatever is open in the log now will not grow any more."""
        assert not self._open
        state = self._log.state
        self._orphans = [
            id for id, ledger in state.ledgers.items() if not (ledger.sealed or ledger.is_view)
        ]

    def seal_orphans(self) -> None:
        for ledger_id in self._orphans:
            ledger = self._log.state.ledgers.get(ledger_id)
            if ledger is not None and not self._log.deleting(ledger.topic_id):
                self._log.add(self._end_of(ledger))
        self._orphans = []

    def _end_of(self, ledger: LedgerState) -> Record:
        if ledger.index.count() == 0:
            return Record(DELETE, ledger.id)
        return ledger_record(
            ledger.id,
            ledger.topic_id,
            ledger.created_ms,
            sealed=True,
            entries=ledger.index.count(),
            size_bytes=ledger.index.size_bytes(),
            sealed_ms=self._log.clock_ms(),
        )
