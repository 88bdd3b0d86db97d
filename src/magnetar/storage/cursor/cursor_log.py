"""Cursors in the log: what changed, and from time to time the whole.

Storage does not know what a cursor is. It keeps the bytes that the ack room encoded: a
snapshot in slices, and the deltas behind it. `CursorImage` is both, which is all that it
takes to have the cursor again.

A snapshot counts when its last slice is durable; until then the one before it does. It
covers what was durable when it was begun, so deltas must be applied to the cursor when,
and only when, their ticket is durable.
"""

from typing import Final, final

from magnetar.errors import UnknownObjectError
from magnetar.storage.ids import Ids
from magnetar.storage.log.log import Log
from magnetar.storage.log.record import Record, address_of
from magnetar.storage.log.record_kind import DELETE, DELTA, SLICE, SLICE_LAST
from magnetar.storage.state import CursorState, Places
from magnetar.storage.state_record import cursor_record

__all__ = ["CursorImage", "CursorLog", "CursorReader", "SnapshotWriter"]

# A snapshot is due when so much has come behind the last one: replaying it on a restart
# takes about 10 ms a cursor then.
DELTAS_MAX: Final = 10_000
DELTA_BYTES_MIN: Final = 1 << 20


@final
class CursorImage:
    """A cursor as the log has it."""

    def __init__(
        self,
        id: int,
        topic_id: int,
        name: str,
        *,
        properties: bytes,
        snapshot: bytes,
        deltas: list[bytes],
    ) -> None:
        self.id: Final = id
        self.topic_id: Final = topic_id
        self.name: Final = name
        self.properties: Final = properties
        self.snapshot: Final = snapshot
        self.deltas: Final = deltas


@final
class SnapshotWriter:
    """Takes the slices of one snapshot, over as many ticks as it likes."""

    def __init__(self, log: Log, cursor_id: int, covers: int) -> None:
        self._log: Final = log
        self._cursor_id: Final = cursor_id
        self._covers: Final = covers
        self._number: Final = log.next_snapshot_number(cursor_id)
        self._count: int = 0

    def add(self, data: bytes, *, last: bool) -> int:
        """Queues a slice and returns its ticket; the snapshot counts from the last one's."""
        record = Record(
            SLICE_LAST if last else SLICE,
            self._cursor_id,
            self._covers,
            time_ms=self._number,
            batch_size=self._count,
            body=data,
        )
        self._count += 1
        return self._log.add(record)


@final
class CursorReader:
    """Reads what a cursor is made of bit by bit, as long as nothing else replaces it in the log."""

    def __init__(self, log: Log, cursor: CursorState) -> None:
        self._log: Final = log
        self._cursor: Final = cursor
        self._slices: Final = cursor.slices
        self.deltas: Final[int] = cursor.deltas.count()

    @property
    def current(self) -> bool:
        """Whether it is what the log has of the cursor. Else it may be gone: begin anew."""
        cursor = self._cursor
        return cursor.slices is self._slices and cursor.deltas.count() == self.deltas

    def snapshot(self) -> bytes:
        return b"".join(read_places(self._log, self._slices))

    def delta(self, number: int) -> bytes:
        """The delta of this number, from 0 on."""
        deltas = self._cursor.deltas
        return self._log.read_body(deltas.addresses[number], deltas.sizes[number])


@final
class CursorLog:
    """Writes cursors, and gives them back."""

    def __init__(self, log: Log, ids: Ids) -> None:
        self._log: Final = log
        self._ids: Final = ids
        self._pending: Final[set[int]] = set()

    def create(self, topic_id: int, name: str, snapshot: bytes, properties: bytes) -> int:
        cursor_id = self._ids.take()
        self._log.add(cursor_record(cursor_id, topic_id, name, properties))
        self.begin_snapshot(cursor_id).add(snapshot, last=True)
        self._pending.add(cursor_id)
        return cursor_id

    def set_properties(self, cursor_id: int, properties: bytes) -> int:
        self._require(cursor_id)
        cursor = self._log.state.cursors.get(cursor_id)
        if cursor is None:
            raise UnknownObjectError("cursor", str(cursor_id))
        return self._log.add(cursor_record(cursor_id, cursor.topic_id, cursor.name, properties))

    def delete(self, cursor_id: int) -> int:
        self._require(cursor_id)
        self._pending.discard(cursor_id)
        return self._log.add(Record(DELETE, cursor_id))

    def append_delta(self, cursor_id: int, epoch: int, delta: bytes) -> int:
        self._require(cursor_id)
        return self._log.add(Record(DELTA, cursor_id, epoch, body=delta))

    def append_deltas(self, deltas: list[tuple[int, int, bytes]]) -> int:
        """Cursor, epoch and delta of each, all in one group; the ticket of the last."""
        assert deltas
        for cursor_id, _, _ in deltas:
            self._require(cursor_id)
        ticket = -1
        for cursor_id, epoch, delta in deltas:
            record = Record(DELTA, cursor_id, epoch, body=delta)
            ticket = self._log.add(record, tied=ticket >= 0)
        return ticket

    def begin_snapshot(self, cursor_id: int) -> SnapshotWriter:
        """Returns a writer of a snapshot; for the same event in which that is taken."""
        return SnapshotWriter(self._log, cursor_id, self._log.journal.end)

    def image(self, cursor_id: int) -> CursorImage:
        """The durable state of a cursor, read from disk."""
        cursor = self._state(cursor_id)
        return CursorImage(
            cursor_id,
            cursor.topic_id,
            cursor.name,
            properties=cursor.properties,
            snapshot=b"".join(read_places(self._log, cursor.slices)),
            deltas=read_places(self._log, cursor.deltas),
        )

    def reader(self, cursor_id: int) -> CursorReader:
        """The same to be read bit by bit."""
        return CursorReader(self._log, self._state(cursor_id))

    def _state(self, cursor_id: int) -> CursorState:
        cursor = self._log.state.cursors.get(cursor_id)
        if cursor is None:
            raise UnknownObjectError("cursor", str(cursor_id))
        return cursor

    def mark(self, cursor_id: int) -> list[int]:
        """Returns where its image ends: the same until the cursor changes; empty if it is gone."""
        cursor = self._log.state.cursors.get(cursor_id)
        if cursor is None:
            return []
        slices, deltas = cursor.slices, cursor.deltas
        return [cursor.id, cursor.address, slices.last(), deltas.count(), deltas.last()]

    def due(self) -> list[int]:
        """The cursors that should have a snapshot taken: for their own sake, or for a segment's."""
        due = [id for id, cursor in self._log.state.cursors.items() if _due(cursor)]
        return due + [id for id in self.wanted() if id not in due]

    def wanted(self) -> list[int]:
        """The cursors whose image holds up a segment that is to go."""
        cursors = self._log.state.cursors
        return [
            id
            for id, segment_id in self._log.wanted.items()
            if id in cursors and _is_in(cursors[id], segment_id)
        ]

    def committed(self) -> None:
        """A group became durable."""
        for cursor_id in [id for id in self._pending if id in self._log.state.cursors]:
            self._pending.remove(cursor_id)

    def abandon(self) -> None:
        """A group failed, and with it everything on its way."""
        self._pending.clear()

    def _require(self, cursor_id: int) -> None:
        cursor = self._log.state.cursors.get(cursor_id)
        known = cursor is not None or cursor_id in self._pending
        doomed = self._log.deleting(cursor_id) or (
            cursor is not None and self._log.deleting(cursor.topic_id)
        )
        if not known or doomed:
            raise UnknownObjectError("cursor", str(cursor_id))


def read_places(log: Log, places: Places) -> list[bytes]:
    """The bodies of records."""
    addresses, sizes = places.addresses, places.sizes
    return [log.read_body(addresses[i], sizes[i]) for i in range(places.count())]


def _due(cursor: CursorState) -> bool:
    limit = max(DELTA_BYTES_MIN, 2 * cursor.slices.total_bytes)
    return cursor.deltas.count() > DELTAS_MAX or cursor.deltas.total_bytes > limit


def _is_in(cursor: CursorState, segment_id: int) -> bool:
    """Whether a segment has some of what a cursor's present image is made of."""
    first, end = address_of(segment_id, 0), address_of(segment_id + 1, 0)
    return cursor.slices.any_between(first, end) or cursor.deltas.any_between(first, end)
