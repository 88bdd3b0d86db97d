"""Objects on the move: what a segment that is to go says of topics, ledgers and cursors.

The latest record of an object wins, so it can be written again at the end of the log. Two
things must not happen: older news overtaking newer that is on its way, and anything being
written about what is being deleted, which would bring it back to life.

The image of a cursor can be tens of megabytes, if large batches are partly acked. To read it here
and queue it in one go would hold everybody up twice. So of such a cursor a new snapshot is wanted
(`Log.wanted`), which its owner writes bit by bit, and the segment stays until then; for a while,
for there may be nobody who does that.
"""

from typing import Final, final

from magnetar.storage.cursor.cursor_log import SnapshotWriter
from magnetar.storage.log.log import Log
from magnetar.storage.log.record import Record, address_of, segment_of
from magnetar.storage.log.record_kind import ABORTED_ENTRIES, DELETE, DELTA
from magnetar.storage.state import CursorState, ObjectState
from magnetar.storage.state_record import CATALOG_ID, catalog_record

__all__ = ["ObjectRewriter"]

NONE: Final = -1
# The image of a cursor that has more bytes is not written again here.
IMAGE_BYTES_MAX: Final = 1 << 20
# But after so many requests for a snapshot, one in a second, it is all the same.
ASKS_MAX: Final = 30


@final
class ObjectRewriter:
    """Writes again what one segment has the latest records of."""

    def __init__(self, log: Log) -> None:
        self._log: Final = log
        self._segment_id: int = 0
        self._ticket: int = NONE
        # How often snapshots were asked for, so that this segment may go.
        self._asks: int = 0

    def ready(self, segment_id: int) -> bool:
        """Whether no news is on its way of an object that the segment has the latest of.

        A seal or a cursor's properties would be overtaken by what they were before, deltas by
        copies of earlier ones. Nor is it if a large image of a cursor is to be moved.
        """
        if segment_id != self._segment_id:
            self._asks = 0
        self._segment_id = segment_id
        self._log.wanted.clear()
        for id in self._ids():
            if self._log.has_pending(id) and self._holds(id):
                return False
            if self._asks < ASKS_MAX and self._has_large_image(id):
                self._log.wanted[id] = segment_id
        if self._log.wanted:
            self._asks += 1
            return False
        return True

    def _has_large_image(self, id: int) -> bool:
        cursor = self._log.state.cursors.get(id)
        if cursor is None or self._log.deleting(id) or self._log.deleting(cursor.topic_id):
            return False
        size = sum(cursor.slices.sizes) + sum(cursor.deltas.sizes)
        return size > IMAGE_BYTES_MAX and self._has_image(cursor)

    def rewrite(self, segment_id: int) -> int:
        """Queues the records, and returns the ticket of the last, or -1 if there are none."""
        self._segment_id = segment_id
        self._ticket = NONE
        for id in self._ids():
            if not self._log.deleting(id):
                self._rewrite(id)
        for ended in self._log.state.transactions.ended_in(segment_id):
            self._ticket = self._log.add(ended.record())
        self._rewrite_tombstones()
        return self._ticket

    def _ids(self) -> list[int]:
        use = self._log.state.segments.get(self._segment_id)
        return sorted(use.ids) if use is not None else []

    def _rewrite(self, id: int) -> None:
        state, log = self._log.state, self._log
        if id == CATALOG_ID and state.catalog is not None and self._has(state.catalog_address):
            self._ticket = log.add(catalog_record(state.catalog))
            return
        topic = state.topics.get(id)
        ledger = state.ledgers.get(id)
        cursor = state.cursors.get(id)
        if topic is not None:
            self._add(topic)
        elif ledger is not None and not log.deleting(ledger.topic_id):
            self._add(ledger)
            if self._has(ledger.aborted_address):
                body = log.read_body(ledger.aborted_address, ledger.aborted_size)
                self._ticket = log.add(Record(ABORTED_ENTRIES, id, body=body))
        elif cursor is not None and not log.deleting(cursor.topic_id):
            self._add(cursor)
            if self._has_image(cursor):
                self._rewrite_image(cursor)

    def _add(self, object: ObjectState) -> None:
        for record in object.records_in(self._segment_id):
            self._ticket = self._log.add(record)

    def _has(self, address: int) -> bool:
        return segment_of(address) == self._segment_id

    def _holds(self, id: int) -> bool:
        """Whether the segment has the latest record of a ledger, of a cursor or its image, or of
        the catalog.
        """
        if id == CATALOG_ID:
            return self._has(self._log.state.catalog_address)
        ledger = self._log.state.ledgers.get(id)
        if ledger is not None:
            return self._has(ledger.address) or self._has(ledger.aborted_address)
        cursor = self._log.state.cursors.get(id)
        return cursor is not None and (self._has(cursor.address) or self._has_image(cursor))

    def _has_image(self, cursor: CursorState) -> bool:
        first = address_of(self._segment_id, 0)
        end = address_of(self._segment_id + 1, 0)
        return (
            cursor.slices.any_between(first, end)
            or cursor.deltas.any_between(first, end)
            or cursor.building.any_between(first, end)
        )

    def _rewrite_image(self, cursor: CursorState) -> None:
        """Deltas first: the snapshot's last slice is what makes the older ones superfluous."""
        log, slices, deltas = self._log, cursor.slices, cursor.deltas
        writer = SnapshotWriter(log, cursor.id, log.journal.end)
        for i in range(deltas.count()):
            body = log.read_body(deltas.addresses[i], deltas.sizes[i])
            log.add(Record(DELTA, cursor.id, body=body))
        for i in range(slices.count()):
            body = log.read_body(slices.addresses[i], slices.sizes[i])
            self._ticket = writer.add(body, last=i == slices.count() - 1)

    def _rewrite_tombstones(self) -> None:
        """A deletion is needed as long as an older segment may hold what it deletes."""
        tombstones = self._log.state.tombstones
        oldest = min(self._log.lengths, default=0)
        for id in [id for id, address in tombstones.items() if self._has(address)]:
            if oldest < self._segment_id:
                self._ticket = self._log.add(Record(DELETE, id))
            else:
                del tombstones[id]
