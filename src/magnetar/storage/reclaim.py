"""Moving entries: dead segments go, mostly dead ones are emptied, scattered ledgers gathered.

A segment is dead when none of its records matters any more. One old entry of a quiet
topic keeps gigabytes alive only until it is copied to the end of the log. One segment is
worked on at a time:

    state       does                                            then
    IDLE        picks the segment with the least live bytes      SCANNING, or stays
                or some scattered ledgers (see scatter.py)       COPYING
    SCANNING    waits for what it holds to be read, then finds   COPYING, or SEALING
                its live entries, some records a step
    SEALING     waits for ledgers that had no index file yet     SCANNING
    COPYING     copies them sorted by ledger, some bytes a step  SETTLING
                which are read in between
    SETTLING    waits until the copies are on the disk           INDEXING
    INDEXING    has index files written with the new addresses,  FORGETTING, or IDLE
                some bytes a step, and waits for them
    FORGETTING  waits until the log no longer lists the segment  IDLE, file removed

Dead segments come first, then ledgers to gather: emptying a segment writes the index files
of all ledgers in it anew, and gathering them first leaves less to empty.

Only the images of cursors are read on the caller's thread. Entries come by way of chores, and
copying goes on whenever one comes back, without being asked for the next step (`resume`).

Invariants: entries are copied out of sealed ledgers that have an index file, so an open
ledger's entries are in order in the log. A segment's file goes after all that replaces it
is durable, in every fsync mode. A failed group sends the work back to IDLE, and whatever
was copied by then is dead weight and no more.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.storage.cursor_log import SnapshotWriter
from magnetar.storage.job import Job, LetGo, OpenScan, ReadBodies, RemoveFiles, WriteIndex
from magnetar.storage.ledger_index import LedgerIndex, MappedIndex, Moves
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
SCAN_RECORDS: Final = 2048
# A step takes in the addresses of at most this many copies.
SETTLE_RECORDS: Final = 4096
# Index files are encoded ahead of the chores that write them up to this much.
INDEX_BYTES_MAX: Final = 4 << 20
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
        self._opening: OpenScan | None = None
        self._scan: Scan | None = None
        # The live entries of each ledger, the ledgers in order, and the next one to copy.
        self._live: dict[int, list[int]] = {}
        self._order: list[int] = []
        self._ledger_next: int = 0
        self._entry_next: int = 0
        # Entries that are being read, as (ledger, entry).
        self._moving: list[tuple[int, int]] = []
        self._reading: ReadBodies | None = None
        # Copies on their way, and where those went that arrived.
        self._copies: Final[deque[Record]] = deque()
        self._moves: dict[int, Moves] = {}
        self._unsealed: set[int] = set()
        # The indexes that are being replaced, and the bytes of those that replace them.
        self._indexing: dict[int, LedgerIndex] = {}
        self._indexing_bytes: int = 0
        # Wait until this ticket is durable, then until its address is on the disk.
        self._ticket: int = -1
        self._address: i64 = 0
        self._bytes_max: int = 0

    def step(self, bytes_max: int) -> bool:
        """Does a little; True if there is more to do at once."""
        self._bytes_max = bytes_max
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
            return self._index_some(bytes_max)
        return self._await_forgetting()

    def resume(self, job: Job) -> None:
        """A chore is done: if it was the reading that copying waits for, that goes on."""
        # What went wrong is for whoever asks for the next step.
        if job is self._reading and self._reading.error is None:
            self._copied_all(self._bytes_max)

    def abandon(self) -> None:
        """A group failed: what was on its way is lost, so begin again."""
        self._go(IDLE)

    def _go(self, state: str) -> bool:
        self.state = state
        if state == IDLE:
            self._opening = None
            self._scan = None
            self._live = {}
            self._moving = []
            self._reading = None
            self._copies.clear()
            self._moves = {}
            self._indexing = {}
            self._indexing_bytes = 0
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
        live: dict[int, list[int]] = {}
        entries = 0
        while entries < GATHER_ENTRIES:
            ledger_id = self.scattered.next()
            if not ledger_id:
                break
            live[ledger_id] = list(range(self._log.state.ledgers[ledger_id].index.count()))
            entries += len(live[ledger_id])
        if not live:
            return False
        self.segment_id = NO_SEGMENT
        self._live = live
        return self._begin_copying()

    # ---- What lives in it ----------------------------------------------------

    def _begin_scan(self) -> bool:
        self._live = {}
        self._unsealed = set()
        self._scan = None
        use = self._log.state.segments.get(self.segment_id)
        if use is None or use.live_bytes == 0:
            return self._begin_copying()
        length = self._log.lengths[self.segment_id]
        self._opening = OpenScan(self.segment_id, length, self._log.salt)
        self._log.read_later(self._opening)
        return self._go(SCANNING)

    def _opened(self) -> Scan | None:
        """The scan, once what it goes over was read."""
        opening = self._opening
        if self._scan is None and opening is not None:
            if opening.error is not None:
                raise opening.error
            if opening.done:
                self._scan = opening.scan
        return self._scan

    def _scan_some(self) -> bool:
        scan = self._opened()
        if scan is None:
            return False
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
            self._live.setdefault(record.id, []).append(record.sub_id)
        else:
            self._unsealed.add(record.id)

    def _scanned(self) -> bool:
        self._opening = None
        self._scan = None
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
        for entry_ids in self._live.values():
            entry_ids.sort()
        self._order = sorted(self._live)
        self._ledger_next = 0
        self._entry_next = 0
        self._moving = []
        self._reading = None
        self._copies.clear()
        self._moves = {}
        self._ticket = -1
        return self._go(COPYING)

    def _copy_some(self, bytes_max: int) -> bool:
        return self._copied_all(bytes_max) and self._rewrite_objects() and self._go(SETTLING)

    def _copied_all(self, bytes_max: int) -> bool:
        """Copies what was read and has some more read; True if there is no more."""
        if self.segment_id == NO_SEGMENT and not self._log.quiet():
            return False
        self._note_moves()
        if self._reading is not None and not self._copy_read():
            return False
        if self._ledger_next == len(self._order):
            return True
        self._read_some(bytes_max)
        return False

    def _read_some(self, bytes_max: int) -> None:
        budget = bytes_max
        places: list[tuple[int, int]] = []
        while self._ledger_next < len(self._order) and budget > 0:
            ledger_id = self._order[self._ledger_next]
            entry_id = self._next_of(ledger_id)
            ledger = self._log.state.ledgers.get(ledger_id)
            if ledger is not None:
                size = HEAD_BYTES + ledger.index.length(entry_id)
                budget -= size
                self._moving.append((ledger_id, entry_id))
                places.append((ledger.index.address(entry_id), size))
        self._reading = ReadBodies(places, self._log.salt)
        self._log.read_later(self._reading)

    def _copy_read(self) -> bool:
        """Copies what was read; False if it is not there yet."""
        reading = self._reading
        assert reading is not None
        if not reading.done:
            return False
        if reading.error is not None:
            raise reading.error
        for (ledger_id, entry_id), body in zip(self._moving, reading.bodies, strict=True):
            if ledger_id in self._log.state.ledgers:
                self._copy(ledger_id, entry_id, body)
        self._moving = []
        self._reading = None
        return True

    def _next_of(self, ledger_id: int) -> int:
        entry_ids = self._live[ledger_id]
        entry_id = entry_ids[self._entry_next]
        self._entry_next += 1
        if self._entry_next == len(entry_ids):
            self._ledger_next += 1
            self._entry_next = 0
        return entry_id

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
        self._ticket = -1
        self._note_moves()
        if self._copies:
            return True
        return self._go(INDEXING)

    def _note_moves(self) -> None:
        """Takes in where copies went, and lets go of their bodies."""
        for _ in range(min(SETTLE_RECORDS, len(self._copies))):
            if self._copies[0].address < 0:
                return
            record = self._copies.popleft()
            moves = self._moves.get(record.id)
            if moves is None:
                moves = self._moves[record.id] = Moves()
            moves.add(record.sub_id, record.address)

    def _index_some(self, bytes_max: int) -> bool:
        if not self._moves or self._indexing_bytes >= INDEX_BYTES_MAX:
            return self._await_indexes()
        budget = bytes_max
        while self._moves and budget > 0:
            ledger_id, moves = self._moves.popitem()
            budget -= self._write_index(ledger_id, moves)
        return True

    def _write_index(self, ledger_id: int, moves: Moves) -> int:
        """Has the index written; returns its size."""
        ledger = self._log.state.ledgers.get(ledger_id)
        if ledger is None:
            return 0
        index = ledger.index
        assert isinstance(index, MappedIndex)
        data = index.encode_moved(moves, ledger_id, self._log.salt)
        self._log.add_chore(WriteIndex(ledger_id, data))
        self._indexing[ledger_id] = index
        self._indexing_bytes += len(data)
        return len(data)

    def _await_indexes(self) -> bool:
        for ledger_id, before in self._indexing.items():
            ledger = self._log.state.ledgers.get(ledger_id)
            if ledger is not None and ledger.index is before:
                return False
        if self._indexing:
            self._log.add_chore(LetGo(list(self._indexing.values())))
        self._indexing = {}
        self._indexing_bytes = 0
        if self._moves:
            return True
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
