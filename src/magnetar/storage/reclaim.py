"""Moving entries: dead segments go, mostly dead ones are emptied, scattered ledgers gathered.

A segment is dead when none of its records matters any more. One old entry of a quiet
topic keeps gigabytes alive only until it is copied to the end of the log. One segment is
worked on at a time:

    state       does                                            then
    IDLE        picks the segment with the least live bytes      SCANNING, or stays
                or some scattered ledgers (see scatter.py)       COPYING
    SCANNING    finds its live entries, some records a step      COPYING, or SEALING
    SEALING     waits for ledgers that had no index file yet     SCANNING
    COPYING     copies them sorted by ledger, some bytes a step  SETTLING
    SETTLING    waits until the copies are on the disk           INDEXING
    INDEXING    waits for the index files with new addresses     FORGETTING, or IDLE
    FORGETTING  waits until the log no longer lists the segment  IDLE, file removed

Dead segments come first, then ledgers to gather: emptying a segment writes the index files
of all ledgers in it anew, and gathering them first leaves less to empty.

Invariants: entries are copied out of sealed ledgers that have an index file, so an open
ledger's entries are in order in the log. A segment's file goes after all that replaces it
is durable, in every fsync mode. A failed group sends the work back to IDLE, and whatever
was copied by then is dead weight and no more.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.storage.cursor_log import SnapshotWriter
from magnetar.storage.heads import decode_heads, heads_length
from magnetar.storage.job import RemoveFiles, WriteIndex
from magnetar.storage.ledger_index import LedgerIndex, MappedIndex
from magnetar.storage.log import Log
from magnetar.storage.record import (
    COPY,
    DELETE,
    DELTA,
    ENTRY,
    HEAD_BYTES,
    Record,
    address_of,
    segment_of,
)
from magnetar.storage.scan import Scan
from magnetar.storage.scatter import Scattered
from magnetar.storage.segment import heads_path, segment_path
from magnetar.storage.state import CursorState, segments_record

__all__ = ["Reclaimer"]

IDLE: Final = "idle"
SCANNING: Final = "scanning"
SEALING: Final = "sealing"
COPYING: Final = "copying"
SETTLING: Final = "settling"
INDEXING: Final = "indexing"
FORGETTING: Final = "forgetting"

# A step of a scan looks at about this many records, in whole groups.
SCAN_RECORDS: Final = 4096
# The segment that is worked on when ledgers are gathered: all of them, so none goes.
NO_SEGMENT: Final = 0
# Small ledgers are gathered together, up to about this many entries.
GATHER_ENTRIES: Final = 4096
# On a full disk copies eat the reserve that acks need, so only what frees much is done.
LIVE_SHARE_WHEN_FULL: Final = 0.05


@final
class Reclaimer:
    """Works off one segment after the other, a small step at a time."""

    def __init__(self, log: Log, seal_topic: Callable[[int], None]) -> None:
        self._log: Final = log
        self._seal_topic: Final = seal_topic
        self.scattered: Final = Scattered(log)
        self.state: str = IDLE
        self.segment_id: int = 0
        self._scan: Scan | None = None
        # Live entries as (ledger, entry, address), and how many of them are copied.
        self._live: list[tuple[int, int, int]] = []
        self._copied: int = 0
        self._copies: list[Record] = []
        self._unsealed: set[int] = set()
        self._indexing: dict[int, LedgerIndex] = {}
        # Wait until this ticket is durable, then until its address is on the disk.
        self._ticket: int = -1
        self._address: i64 = 0

    def step(self, bytes_max: int) -> bool:
        """Does a little; True if there is more to do at once."""
        if self.state == IDLE:
            return self._pick()
        if self.state == SCANNING:
            return self._scan_some()
        if self.state == SEALING:
            return self._await_indexes_of_sealed()
        if self.state == COPYING:
            return self._copy_some(bytes_max)
        if self.state == SETTLING:
            return self._await_copies()
        if self.state == INDEXING:
            return self._await_indexes()
        return self._await_forgetting()

    def abandon(self) -> None:
        """A group failed: what was on its way is lost, so begin again."""
        self._go(IDLE)

    def _go(self, state: str) -> bool:
        self.state = state
        if state == IDLE:
            self._scan = None
            self._live = []
            self._copies = []
            self._indexing = {}
            self._unsealed = set()
            self._address = 0
        return True

    # ---- Which segment -------------------------------------------------------

    def _pick(self) -> bool:
        best = 0
        share_best = self._log.options.live_share_min
        if self._log.full:
            share_best = LIVE_SHARE_WHEN_FULL
        for segment_id, length in self._log.lengths.items():
            # Closing a segment syncs it, in every mode.
            assert address_of(segment_id, length) <= self._log.journal.synced
            if segment_id == segment_of(self._log.journal.end):
                # The list of segments must reach beyond one that goes, or it would be missed.
                continue
            use = self._log.state.segments.get(segment_id)
            share = use.live_bytes / length if use is not None else 0.0
            if share < share_best:
                best, share_best = segment_id, share
        if (not best or share_best > 0) and self._gather():
            return True
        if not best:
            return False
        self.segment_id = best
        return self._begin_scan()

    def _gather(self) -> bool:
        """Begins to copy scattered ledgers together, if there are any."""
        live: list[tuple[int, int, int]] = []
        while len(live) < GATHER_ENTRIES:
            ledger_id = self.scattered.next()
            if not ledger_id:
                break
            index = self._log.state.ledgers[ledger_id].index
            for entry_id in range(index.count()):
                live.append((ledger_id, entry_id, index.address(entry_id)))
        if not live:
            return False
        self.segment_id = NO_SEGMENT
        self._live = live
        return self._begin_copying()

    # ---- What lives in it ----------------------------------------------------

    def _begin_scan(self) -> bool:
        self._live = []
        self._unsealed = set()
        use = self._log.state.segments.get(self.segment_id)
        if use is None or use.live_bytes == 0:
            self._scan = None
            return self._begin_copying()
        self._scan = self._open_scan()
        return self._go(SCANNING)

    def _open_scan(self) -> Scan:
        disk, salt = self._log.disk, self._log.salt
        path = heads_path(self.segment_id)
        if disk.size(path) >= 0:
            heads = disk.read(path, 0, disk.size(path))
            if heads_length(heads, salt) == self._log.lengths[self.segment_id]:
                return decode_heads(heads, self.segment_id, salt)
        path = segment_path(self.segment_id)
        return Scan(disk.read(path, 0, disk.size(path)), self.segment_id, salt)

    def _scan_some(self) -> bool:
        scan = self._scan
        assert scan is not None
        seen = 0
        while seen < SCAN_RECORDS:
            records = scan.next_group()
            if records is None:
                return self._scanned()
            seen += len(records)
            for record in records:
                if record.kind == ENTRY or record.kind == COPY:
                    self._note_entry(record)
        return True

    def _note_entry(self, record: Record) -> None:
        ledger = self._log.state.ledgers.get(record.id)
        if ledger is None or record.sub_id >= ledger.index.count():
            return
        if ledger.index.address(record.sub_id) != record.address:
            return
        if isinstance(ledger.index, MappedIndex):
            self._live.append((record.id, record.sub_id, record.address))
        else:
            self._unsealed.add(record.id)

    def _scanned(self) -> bool:
        if not self._unsealed:
            return self._begin_copying()
        for ledger_id in self._unsealed:
            ledger = self._log.state.ledgers.get(ledger_id)
            if ledger is not None and not ledger.sealed:
                self._seal_topic(ledger.topic_id)
        return self._go(SEALING)

    def _await_indexes_of_sealed(self) -> bool:
        for ledger_id in self._unsealed:
            ledger = self._log.state.ledgers.get(ledger_id)
            if ledger is not None and not isinstance(ledger.index, MappedIndex):
                return False
        return self._begin_scan()

    # ---- Copies --------------------------------------------------------------

    def _begin_copying(self) -> bool:
        self._live.sort()
        self._copied = 0
        self._copies = []
        self._ticket = -1
        return self._go(COPYING)

    def _copy_some(self, bytes_max: int) -> bool:
        if self.segment_id == NO_SEGMENT and not self._log.quiet():
            return False
        budget = bytes_max
        moving: list[tuple[int, int]] = []
        places: list[tuple[int, int]] = []
        while self._copied < len(self._live) and budget > 0:
            ledger_id, entry_id, address = self._live[self._copied]
            self._copied += 1
            ledger = self._log.state.ledgers.get(ledger_id)
            if ledger is not None:
                size = HEAD_BYTES + ledger.index.length(entry_id)
                budget -= size
                moving.append((ledger_id, entry_id))
                places.append((address, size))
        for (ledger_id, entry_id), body in zip(moving, self._log.read_bodies(places), strict=True):
            self._copy(ledger_id, entry_id, body)
        if self._copied < len(self._live):
            return True
        if not self._rewrite_objects():
            return False
        return self._go(SETTLING)

    def _copy(self, ledger_id: int, entry_id: int, body: bytes) -> None:
        index = self._log.state.ledgers[ledger_id].index
        record = Record(
            COPY,
            ledger_id,
            entry_id,
            time_ms=index.publish_time_ms(entry_id),
            batch_size=index.batch_size(entry_id),
            body=body,
        )
        self._ticket = self._log.add(record)
        self._copies.append(record)

    def _rewrite_objects(self) -> bool:
        """Writes the state of topics, ledgers and cursors anew; False if it must wait."""
        state = self._log.state
        use = state.segments.get(self.segment_id)
        ids = sorted(use.ids) if use is not None else []
        for id in ids:
            if self._log.has_pending(id) and self._holds(id):
                # What is on its way would be overtaken by older news: a seal or a cursor's
                # properties by what they were before, deltas by copies of earlier ones.
                return False
        for id in ids:
            self._rewrite_object(id)
        self._rewrite_tombstones()
        return True

    def _rewrite_object(self, id: int) -> None:
        """Nothing is written about what is being deleted: it would come back to life."""
        state, log = self._log.state, self._log
        topic = state.topics.get(id)
        ledger = state.ledgers.get(id)
        cursor = state.cursors.get(id)
        if log.deleting(id):
            return
        if topic is not None and segment_of(topic.address) == self.segment_id:
            self._ticket = log.add(topic.record())
        elif ledger is not None and not log.deleting(ledger.topic_id):
            if segment_of(ledger.address) == self.segment_id:
                self._ticket = log.add(ledger.record())
        elif cursor is not None and not log.deleting(cursor.topic_id):
            if segment_of(cursor.address) == self.segment_id:
                self._ticket = log.add(cursor.record())
            if self._holds_image(cursor):
                self._rewrite_cursor(cursor)

    def _holds(self, id: int) -> bool:
        """Whether the segment has the latest record of a ledger, or of a cursor or its image."""
        ledger = self._log.state.ledgers.get(id)
        if ledger is not None:
            return segment_of(ledger.address) == self.segment_id
        cursor = self._log.state.cursors.get(id)
        return cursor is not None and (
            segment_of(cursor.address) == self.segment_id or self._holds_image(cursor)
        )

    def _holds_image(self, cursor: CursorState) -> bool:
        first = address_of(self.segment_id, 0)
        end = address_of(self.segment_id + 1, 0)
        return (
            cursor.slices.any_between(first, end)
            or cursor.deltas.any_between(first, end)
            or cursor.building.any_between(first, end)
        )

    def _rewrite_cursor(self, cursor: CursorState) -> None:
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
        state = self._log.state
        oldest = min(self._log.lengths, default=0)
        for id, address in list(state.tombstones.items()):
            if segment_of(address) != self.segment_id:
                continue
            if oldest < self.segment_id:
                self._ticket = self._log.add(Record(DELETE, id))
            else:
                del state.tombstones[id]

    # ---- Waiting -------------------------------------------------------------

    def _durable(self) -> bool:
        """Whether the last ticket, and with it all before, is on the disk."""
        if self._ticket >= self._log.ticket_durable:
            return False
        if self._address == 0:
            self._address = self._log.journal.end
        if self._log.journal.synced < self._address:
            return False
        self._address = 0
        return True

    def _await_copies(self) -> bool:
        if self._ticket >= 0 and not self._durable():
            return False
        moves: dict[int, dict[int, int]] = {}
        for record in self._copies:
            moves.setdefault(record.id, {})[record.sub_id] = record.address
        self._copies = []
        for ledger_id, moved in moves.items():
            self._write_index(ledger_id, moved)
        return self._go(INDEXING)

    def _write_index(self, ledger_id: int, moved: dict[int, int]) -> None:
        ledger = self._log.state.ledgers.get(ledger_id)
        if ledger is None:
            return
        index = ledger.index
        assert isinstance(index, MappedIndex)
        data = index.encode_moved(moved, ledger_id, self._log.salt)
        self._log.add_chore(WriteIndex(ledger_id, data))
        self._indexing[ledger_id] = index

    def _await_indexes(self) -> bool:
        for ledger_id, before in self._indexing.items():
            ledger = self._log.state.ledgers.get(ledger_id)
            if ledger is not None and ledger.index is before:
                return False
        if self.segment_id == NO_SEGMENT:
            return self._go(IDLE)
        left = sorted(self._log.alive - {self.segment_id})
        self._ticket = self._log.add(segments_record(left))
        return self._go(FORGETTING)

    def _await_forgetting(self) -> bool:
        if not self._durable() or self._log.pinned(self.segment_id):
            return False
        use = self._log.state.segments.pop(self.segment_id, None)
        assert use is None or use.live_bytes == 0, (self.segment_id, use.live_bytes)
        del self._log.lengths[self.segment_id]
        self._log.alive.remove(self.segment_id)
        # The heads first: heads without a segment tell recovery that one is missing.
        paths = [heads_path(self.segment_id), segment_path(self.segment_id)]
        self._log.add_chore(RemoveFiles(paths))
        return self._go(IDLE)
