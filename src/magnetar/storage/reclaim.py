"""Moving entries: dead segments go, mostly dead ones are emptied, scattered entries gathered.

A segment is dead when none of its records matters any more. One old entry of a quiet
topic keeps gigabytes alive only until it is copied to the end of the log. One segment is
worked on at a time:

    state       does                                            then
    IDLE        picks the segment with the least live bytes      SCANNING, or stays
                or some scattered entries (see scatter.py)       COPYING
    SCANNING    waits for what it holds to be read, then finds   COPYING
                its live entries, some records a step
    COPYING     copies them sorted by ledger, some bytes a step  SETTLING, or IDLE
                which are read in between
    SETTLING    waits until the copies are on the disk           INDEXING
    INDEXING    has index files written with the new addresses,  FORGETTING, or IDLE
                some bytes a step, and waits for them
    FORGETTING  waits until the log no longer lists the segment  IDLE, file removed

Dead segments come first, then what is to be gathered: emptying a segment writes the index files
of all sealed ledgers in it anew, and gathering first leaves less to empty.

Only the images of cursors are read on the caller's thread. Entries come by way of chores, and
copying goes on whenever one comes back, without being asked for the next step (`resume`).

A copy of an entry of an open ledger is entered in its index when it is durable, by the fold,
as recovery would. A ledger with an index file has that written anew. In between, sealed and
without its file, nothing of a ledger is copied: the file that is being written would not know.

What cannot be read is left alone: one damaged record keeps its segment, and no other one.

Invariants: a segment's file goes after all that replaces it is durable, in every fsync mode.
A failed group sends the work back to IDLE, and whatever was copied by then is dead weight and
no more; but for what an index file names that is on its way to the disk. Nobody can call such a
file back, and a full disk puts it off for long. Until all of them are written no segment goes
that one of them names, and nothing of their ledgers is copied.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import CorruptionError, DiskError
from magnetar.storage.ledger.index_file import MappedIndex
from magnetar.storage.ledger.ledger_index import (
    ENTRY_BYTES,
    HeapIndex,
    IndexRewrite,
    Moves,
)
from magnetar.storage.ledger.scatter import Scattered
from magnetar.storage.log.job import Job, LetGo, OpenScan, ReadBodies, RemoveFiles, WriteIndex
from magnetar.storage.log.log import Log
from magnetar.storage.log.record import HEAD_BYTES, Record, address_of, segment_of
from magnetar.storage.log.record_kind import COPY, is_entry
from magnetar.storage.log.scan import Scan
from magnetar.storage.log.segment import heads_path, segment_path
from magnetar.storage.object_rewriter import ObjectRewriter
from magnetar.storage.state import LedgerState
from magnetar.storage.state_record import segments_record

__all__ = ["Reclaimer"]

KIND: Final = "moving entries"
IDLE: Final = "idle"
SCANNING: Final = "scanning"
COPYING: Final = "copying"
SETTLING: Final = "settling"
INDEXING: Final = "indexing"
FORGETTING: Final = "forgetting"

# A step of a scan looks at about this many records, in whole groups.
SCAN_RECORDS: Final = 1024
# A step takes in the addresses of at most this many copies.
NOTE_RECORDS: Final = 2048
# Index files are made ahead of the chores that write them, up to this many steps' worth.
INDEX_STEPS_MAX: Final = 16
# The segment that is worked on when ledgers are gathered: all of them, so none goes.
NO_SEGMENT: Final = 0
# Small ledgers are gathered together, up to about this many entries.
GATHER_ENTRIES: Final = 4096
# On a full disk copies eat the reserve that acks need, so only what frees much is done.
LIVE_SHARE_WHEN_FULL: Final = 0.05


@final
class Reclaimer:
    """Works off one segment after the other, a small step at a time."""

    def __init__(self, log: Log, open_ledgers: Callable[[], list[int]]) -> None:
        self._log: Final = log
        self.scattered: Final = Scattered(log, open_ledgers)
        self._objects: Final = ObjectRewriter(log)
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
        # Copies on their way that index files have to know of, and where those went that arrived.
        self._copies: Final[deque[Record]] = deque()
        self._moves: dict[int, Moves] = {}
        # The index file at hand; the indexes being replaced, and the size of what replaces them.
        self._rewrite: IndexRewrite | None = None
        self._rewriting: MappedIndex | None = None
        self._indexing: dict[int, MappedIndex] = {}
        self._indexing_bytes: int = 0
        # The same of work that was given up, and the segments that files on their way name.
        self._late: Final[dict[int, MappedIndex]] = {}
        self._named: Final[set[int]] = set()
        # Wait until this ticket is durable, then until its address is on the disk.
        self._ticket: int = -1
        self._address: i64 = 0
        self._bytes_max: int = 0
        # Segments with damage that cannot be copied. They stay as they are in this run.
        self._damaged: Final[set[int]] = set()

    def step(self, bytes_max: int) -> bool:
        """Does a little; True if there is more to do at once."""
        self._bytes_max = bytes_max
        try:
            return self._step(bytes_max)
        except (CorruptionError, DiskError) as error:
            return self._leave(error)

    def _leave(self, error: Exception) -> bool:
        """Leaves a segment that could not be read, for now or, if it is damaged, for good."""
        self._log.setbacks.failed(KIND, error)
        if isinstance(error, CorruptionError) and self.segment_id != NO_SEGMENT:
            self._damaged.add(self.segment_id)
        self._go(IDLE)
        return False

    def _step(self, bytes_max: int) -> bool:
        if self.state == IDLE:
            return self._pick()
        if self.state == SCANNING:
            return self._scan_some()
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
        if job is not self._reading or self._reading.error is not None:
            return
        if self._copied_all(self._bytes_max) and self._nothing_to_write_down() and self._gather():
            self._copied_all(self._bytes_max)

    def abandon(self) -> None:
        """A group failed: what was on its way is lost, so begin again."""
        self.scattered.forget_marks()
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
            self._rewrite = None
            self._rewriting = None
            self._late.update(self._indexing)
            self._indexing = {}
            self._indexing_bytes = 0
            self._address = 0
        return True

    # ---- Which segment -------------------------------------------------------

    def _pick(self) -> bool:
        if self._written(self._late):
            self._named.clear()
        best = 0
        share_best = self._log.options.live_share_min
        if self._log.full:
            share_best = LIVE_SHARE_WHEN_FULL
        held = self._log.state.transactions.segment_held()
        for segment_id, length in self._log.lengths.items():
            if segment_id in self._damaged or segment_id in self._named:
                continue
            if 0 <= held <= segment_id:
                continue  # what an open transaction may need, and the ends of those behind it
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
            return self.scattered.unfinished
        self.segment_id = best
        return self._begin_scan()

    def _gather(self) -> bool:
        """Begins to copy scattered entries together, if there are any."""
        live: dict[int, list[int]] = {}
        entries = 0
        while entries < GATHER_ENTRIES:
            piece = self.scattered.next()
            if piece is None:
                break
            live[piece.ledger_id] = list(range(piece.first, piece.end))
            entries += piece.end - piece.first
        if not live:
            return False
        self.segment_id = NO_SEGMENT
        self._live = live
        return self._begin_copying()

    # ---- What lives in it ----------------------------------------------------

    def _begin_scan(self) -> bool:
        self._live = {}
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
                return self._begin_copying()
            seen += len(records)
            for record in records:
                if is_entry(record.kind):
                    self._note_entry(record)
        return True

    def _note_entry(self, record: Record) -> None:
        ledger = self._log.state.ledgers.get(record.id)
        if ledger is None or record.sub_id >= ledger.index.count():
            return
        if ledger.index.address(record.sub_id) == record.address:
            self._live.setdefault(record.id, []).append(record.sub_id)

    # ---- Copies --------------------------------------------------------------

    def _begin_copying(self) -> bool:
        for entry_ids in self._live.values():
            entry_ids.sort()
        self._opening = None
        self._scan = None
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
        if not self._copied_all(bytes_max):
            return False
        if self._nothing_to_write_down():
            return self._go(IDLE)
        return self._rewrite_objects() and self._go(SETTLING)

    def _nothing_to_write_down(self) -> bool:
        """Whether all that was copied is of open ledgers, and was gathered."""
        return self.segment_id == NO_SEGMENT and not self._copies and not self._moves

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
        """Copies what was read; False if it must wait."""
        reading = self._reading
        assert reading is not None
        if not reading.done:
            return False
        if reading.error is not None:
            raise reading.error
        if self.segment_id != NO_SEGMENT and self._await_files():
            return False
        for (ledger_id, entry_id), body in zip(self._moving, reading.bodies, strict=True):
            ledger = self._log.state.ledgers.get(ledger_id)
            if ledger is not None and not self._awaits_file(ledger):
                self._copy(ledger, entry_id, body)
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

    def _await_files(self) -> bool:
        """Whether a ledger of what was read is to get its index file first."""
        for ledger_id in {ledger_id for ledger_id, _ in self._moving}:
            ledger = self._log.state.ledgers.get(ledger_id)
            if ledger is not None and self._awaits_file(ledger):
                if self._log.full:
                    # The file is not written before there is space, which others may free.
                    self._go(IDLE)
                return True
        return False

    def _awaits_file(self, ledger: LedgerState) -> bool:
        """Whether the ledger is sealed and its index file, or a new one, is not written yet."""
        if isinstance(ledger.index, HeapIndex):
            return ledger.sealed
        return ledger.index is self._late.get(ledger.id)

    def _copy(self, ledger: LedgerState, entry_id: int, body: bytes) -> None:
        index = ledger.index
        record = Record(
            COPY,
            ledger.id,
            entry_id,
            time_ms=index.publish_time_ms(entry_id),
            batch_size=index.batch_size(entry_id),
            body=body,
        )
        self._ticket = self._log.add(record)
        if isinstance(index, MappedIndex):
            self._copies.append(record)

    def _rewrite_objects(self) -> bool:
        """Writes the state of topics, ledgers and cursors anew; False if it must wait."""
        if not self._objects.ready(self.segment_id):
            return False
        self._ticket = max(self._ticket, self._objects.rewrite(self.segment_id))
        return True

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
        for _ in range(min(NOTE_RECORDS, len(self._copies))):
            if self._copies[0].address < 0:
                return
            record = self._copies.popleft()
            moves = self._moves.get(record.id)
            if moves is None:
                moves = self._moves[record.id] = Moves()
            moves.add(record.sub_id, record.address)

    def _index_some(self, bytes_max: int) -> bool:
        nothing = not self._moves and self._rewrite is None
        if nothing or self._indexing_bytes >= INDEX_STEPS_MAX * bytes_max:
            return self._await_indexes()
        budget = bytes_max
        while budget > 0 and (self._moves or self._rewrite is not None):
            budget -= self._index_next(budget)
        return True

    def _index_next(self, bytes_max: int) -> int:
        """Goes on with an index file, or with the next; says how much of files that was."""
        rewrite = self._rewrite
        if rewrite is None:
            ledger_id, moves = self._moves.popitem()
            ledger = self._log.state.ledgers.get(ledger_id)
            if ledger is None:
                return 0
            index = ledger.index
            assert isinstance(index, MappedIndex)
            rewrite = self._rewrite = IndexRewrite(index.columns(), ledger_id, moves)
            self._rewriting = index
        entered = rewrite.enter(bytes_max // ENTRY_BYTES + 1)
        if entered:
            return ENTRY_BYTES * entered
        self._rewrite = None
        data = rewrite.encode(self._log.salt)
        self._log.add_chore(WriteIndex(rewrite.ledger_id, data))
        assert self._rewriting is not None
        self._indexing[rewrite.ledger_id] = self._rewriting
        self._indexing_bytes += len(data)
        self._named.update(rewrite.segments())
        return len(data)

    def _written(self, indexes: dict[int, MappedIndex]) -> bool:
        """Whether all of these were replaced; lets go of them then."""
        for ledger_id, before in indexes.items():
            ledger = self._log.state.ledgers.get(ledger_id)
            if ledger is not None and ledger.index is before:
                return False
        left_over = [index.release() for index in indexes.values()]
        held = [columns for columns in left_over if columns is not None]
        if held:
            self._log.add_chore(LetGo(held))
        indexes.clear()
        return True

    def _await_indexes(self) -> bool:
        if not self._written(self._indexing):
            if self._log.full:
                # They are not written before there is space, which dead segments may give.
                self._go(IDLE)
            return False
        self._indexing_bytes = 0
        if self._moves or self._rewrite is not None:
            return True
        if self.segment_id == NO_SEGMENT:
            return self._go(IDLE)
        left = sorted(self._log.alive - {self.segment_id})
        self._ticket = self._log.add(
            segments_record(left, self._log.state.transactions.over_before())
        )
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
        if not self._damaged:
            self._log.setbacks.passed(KIND)
        return self._go(IDLE)
