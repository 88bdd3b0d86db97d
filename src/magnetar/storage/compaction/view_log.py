"""Compacted views in the log: written entry by entry, sealed at once, replaced or given up.

What is written of a view before it is sealed counts for nothing, and goes when its compaction ends
in any other way. Each call queues records, which count once they are durable; a writer whose
records failed must be given up.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import UnknownObjectError
from magnetar.model import Position
from magnetar.storage.compaction.view_facts import ViewFacts, decode_view_facts
from magnetar.storage.compaction.view_table import ViewTable, piece_count
from magnetar.storage.ids import Ids
from magnetar.storage.ledger.ledger_index import index_path
from magnetar.storage.ledger.read_plan import ReadPlan
from magnetar.storage.log.log import Log
from magnetar.storage.log.record import Record
from magnetar.storage.log.record_kind import DELETE, ENTRY
from magnetar.storage.state_record import ledger_record

__all__ = ["View", "ViewLog", "ViewWriter", "read_table"]


@final
class View:
    """The compacted view of a topic, as the log has it."""

    def __init__(self, ledger_id: int, facts: ViewFacts, size_bytes: int, sealed_ms: int) -> None:
        self.ledger_id: Final = ledger_id
        self.facts: Final = facts
        self.size_bytes: Final = size_bytes
        self.sealed_ms: Final = sealed_ms

    def table_positions(self) -> list[Position]:
        """The entries of its ledger that its table is in."""
        first = self.facts.entries
        return [Position(self.ledger_id, first + i) for i in range(piece_count(first))]


@final
class ViewWriter:
    """A view that is being written."""

    def __init__(self, log: Log, ledger_id: int, topic_id: int) -> None:
        self._log: Final = log
        self._topic_id: Final = topic_id
        self._created_ms: Final[int] = log.clock_ms()
        self._entries: i64 = 0
        self._size_bytes: i64 = 0
        self.ledger_id: Final = ledger_id
        self.table: Final = ViewTable()
        log.add(ledger_record(ledger_id, topic_id, self._created_ms, view=b""))

    @property
    def size_bytes(self) -> int:
        """What was written so far."""
        return self._size_bytes

    def add(
        self, position: Position, data: bytes, *, batch_size: i64, publish_time_ms: i64
    ) -> None:
        """Queues an entry that is kept. Raises StorageFullError if there is no room for it."""
        self._log.require_space()
        self.table.add(position)
        self._put(data, batch_size, publish_time_ms)

    def add_table(self, piece: int) -> None:
        """Queues a piece of the table, when all entries are there."""
        self._put(self.table.encode(piece), 1, self._created_ms)

    def _put(self, data: bytes, batch_size: i64, publish_time_ms: i64) -> None:
        self._log.add(
            Record(
                ENTRY,
                self.ledger_id,
                self._entries,
                time_ms=publish_time_ms,
                batch_size=batch_size,
                body=data,
            )
        )
        self._entries += 1
        self._size_bytes += len(data)

    def seal(self, facts: ViewFacts) -> int:
        """Queues the record by which it is the topic's view, in place of any other; the ticket.

        All of its entries, and those of its table, must be durable. Raises StorageError.
        """
        require_topic(self._log, self._topic_id)
        self._log.add(
            ledger_record(
                self.ledger_id,
                self._topic_id,
                self._created_ms,
                sealed=True,
                entries=self._entries,
                size_bytes=self._size_bytes,
                sealed_ms=self._log.clock_ms(),
                view=facts.encode(),
            )
        )
        before = self._log.state.topics[self._topic_id].view_id
        if before >= 0 and not self._log.deleting(before):
            self._log.add(Record(DELETE, before), tied=True)
        return self._log.journal.ticket_next - 1

    def give_up(self) -> None:
        """Queues the end of what was written, as far as that is durable. Raises StorageError."""
        gone = self._log.deleting(self.ledger_id) or self._log.deleting(self._topic_id)
        if self.ledger_id in self._log.state.ledgers and not gone:
            self._log.add(Record(DELETE, self.ledger_id))


@final
class ViewLog:
    """See the module."""

    def __init__(self, log: Log, ids: Ids) -> None:
        self._log: Final = log
        self._ids: Final = ids

    def begin(self, topic_id: int) -> ViewWriter:
        """A new view of a topic that is durable. Raises StorageError."""
        self._log.require_space()
        require_topic(self._log, topic_id)
        return ViewWriter(self._log, self._ids.take(), topic_id)

    def of(self, topic_id: int) -> View | None:
        """The durable view of a topic; None if it has none."""
        topic = self._log.state.topics.get(topic_id)
        if topic is None or topic.view_id < 0:
            return None
        ledger = self._log.state.ledgers[topic.view_id]
        facts = decode_view_facts(index_path(ledger.id), ledger.view)
        return View(ledger.id, facts, ledger.bytes_sealed, ledger.sealed_ms)

    def drop(self, topic_id: int) -> int:
        """Queues the end of a topic's view; the ticket. The topic has to have one."""
        view_id = self._log.state.topics[topic_id].view_id
        assert view_id >= 0
        return self._log.add(Record(DELETE, view_id))


def require_topic(log: Log, topic_id: int) -> None:
    if topic_id not in log.state.topics or log.deleting(topic_id):
        raise UnknownObjectError("topic", str(topic_id))


def read_table(view: View, plan: ReadPlan) -> ViewTable:
    """Returns the table of a view from a plan of its `table_positions` that was run.

    Raises CorruptionError.
    """
    table = ViewTable()
    for entry in plan.entries:
        assert entry.data is not None
        table.take_in(index_path(view.ledger_id), entry.data)
    return table
