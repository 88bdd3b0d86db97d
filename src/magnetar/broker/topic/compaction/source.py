"""What a compaction reads: the view that there is, and then the topic from where that ends.

Both passes read the same, piece by piece: what is read is up to a position, nothing of it is
trimmed meanwhile, and what a transaction took back is passed over.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.ack import Ledgers
from magnetar.errors import UnknownObjectError
from magnetar.model import Position
from magnetar.storage.compaction.view_log import View
from magnetar.storage.compaction.view_table import ViewTable
from magnetar.storage.ledger.read_plan import ReadPlan, StoredEntry
from magnetar.storage.store import Store

__all__ = ["Source"]

# What one read takes.
PIECE_ENTRIES: Final = 256
PIECE_BYTES: Final = 512 * 1024


@final
class Source:
    """The entries of one pass, in order."""

    def __init__(
        self,
        store: Store,
        topic_id: int,
        ledgers: Ledgers,
        through: Position,
        view: View | None,
        table: ViewTable | None,
    ) -> None:
        self._store: Final = store
        self._topic_id: Final = topic_id
        self._ledgers: Final = ledgers
        self._through: Final = through
        self._view: Final = view
        self._table: Final = table
        self._view_left: i64 = 0 if view is None else view.facts.entries
        self._view_next: i64 = 0
        before = Position(-1, -1) if view is None else view.facts.through
        self._at: Position = Position(before.ledger_id, before.entry_id + 1)

    def next_plan(self) -> ReadPlan | None:
        """The next read, to be run by somebody; None if that was all. Raises StorageError."""
        if self._view_next < self._view_left:
            return self._plan_view()
        if self._at > self._through:
            return None
        plan = self._store.plan_read(
            self._topic_id, self._at, entries_max=PIECE_ENTRIES, bytes_max=PIECE_BYTES
        )
        if not plan.entries:
            self._store.finish_read(plan, keep=False)
            return None
        return plan

    def _plan_view(self) -> ReadPlan:
        assert self._view is not None
        ledger_id = self._view.ledger_id
        end = min(self._view_next + PIECE_ENTRIES, self._view_left)
        wanted = [Position(ledger_id, number) for number in range(self._view_next, end)]
        plan = self._store.plan_entries(wanted, PIECE_BYTES)
        if not plan.entries:
            self._store.finish_read(plan, keep=False)
            raise UnknownObjectError("compacted view", str(ledger_id))
        return plan

    def take(self, plan: ReadPlan) -> list[tuple[StoredEntry, Position]]:
        """What a plan has read, and there is of it for compaction, with where it was published."""
        table = self._table
        if table is not None and self._view_next < self._view_left:
            self._view_next += len(plan.entries)
            return [(entry, table.position(entry.entry_id)) for entry in plan.entries]
        found: list[tuple[StoredEntry, Position]] = []
        for entry in plan.entries:
            position = Position(entry.ledger_id, entry.entry_id)
            self._at = Position(position.ledger_id, position.entry_id + 1)
            if position > self._through:
                break
            if not self._ledgers.is_void(position):
                found.append((entry, position))
        return found
