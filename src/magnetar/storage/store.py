"""The store: topics with their entries, cursors with their acks, on one log.

Everything here happens on one thread and does no writing of its own. Calls that change
something queue records and return at once; what they did counts when their ticket is
durable:

    position = store.append(topic_id, entry, batch_size=1, publish_time_ms=now)
    ticket = store.ticket_last
    ...
    while (job := store.next_write()) is not None:
        outcome = store.finish_write(job, run(job))    # run it here, or on a writer's thread

An `Outcome` covers a range of tickets: all of them durable, or all failed. Reads see what
is durable. `writer.py` has the threads; `flush` does it all in place.

The same store runs on a directory (`FileDisk`) and in memory (`MemoryDisk`).
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import (
    DiskFullError,
    StorageError,
    UnknownObjectError,
)
from magnetar.model import Position
from magnetar.storage.catalog.catalog_mark import CatalogMark
from magnetar.storage.compaction.view_log import ViewLog
from magnetar.storage.cursor.cursor_log import CursorImage, CursorLog, CursorReader, SnapshotWriter
from magnetar.storage.data_format import read_salt, write_format
from magnetar.storage.disk.disk import Disk
from magnetar.storage.ids import FIRST, Ids, first_id, read_ids
from magnetar.storage.ledger.cache import EntryCache
from magnetar.storage.ledger.index_file import IndexFiles
from magnetar.storage.ledger.ledger_index import HeapIndex, LedgerIndex
from magnetar.storage.ledger.ledger_writer import LedgerWriter
from magnetar.storage.ledger.read_plan import ReadPlan, StoredEntry, runs_of
from magnetar.storage.ledger.retention import LedgerInfo, Retention, ledgers_to_trim
from magnetar.storage.log.job import GroupWrite, Job
from magnetar.storage.log.journal import Outcome
from magnetar.storage.log.log import Log
from magnetar.storage.log.record import HEAD_BYTES, Record
from magnetar.storage.log.record_kind import DELETE, ENTRY, SEAL
from magnetar.storage.log.setback import Setbacks
from magnetar.storage.options import StoreOptions
from magnetar.storage.reclaim import Reclaimer
from magnetar.storage.recovery import Cut, Recovered, recover
from magnetar.storage.state import LedgerState, LogState, TopicState
from magnetar.storage.state_record import catalog_record, topic_record
from magnetar.storage.transaction.transaction_log import TransactionLog

__all__ = ["Store", "open_store"]

# One step of reclaiming copies about this much on the caller's thread.
RECLAIM_STEP_BYTES: Final = 256 * 1024
# What a plan reads at most, unless told.
PLAN_BYTES_MAX: Final = 5 << 20
# A plan has no more than this fetched for the one that may follow it.
AHEAD_BYTES_MAX: Final = 2 << 20


def open_store(
    disk: Disk,
    clock_ms: Callable[[], int],
    options: StoreOptions | None = None,
    *,
    ticks_ms: Callable[[], int] | None = None,
) -> "Store":
    """Opens the store on a disk, or begins a new one there.

    `clock_ms` is the time of day, which may jump; `ticks_ms` only goes on, at the same pace, and
    is what intervals go by. Without one the clock must do.

    Raises `DataDirectoryError` if the directory is in use, of another version or damaged;
    then nothing in it was changed.
    """
    salt = read_salt(disk)
    disk.lock()
    try:
        if salt is None:
            salt = read_salt(disk)  # another process may have made one in between
        if salt is None:
            salt = disk.random_u32()
            ids = _open_ids(disk, salt, FIRST, clock_ms())
            recovered = Recovered(IndexFiles(disk, salt))
            ids.reserve()
            write_format(disk, salt)
        else:
            recovered = recover(disk, salt)
            reserved = read_ids(disk, salt, recovered.state.id_highest)
            ids = _open_ids(disk, salt, reserved, clock_ms())
            try:
                ids.reserve()
                recovered.repair(disk, salt)
            except DiskFullError:
                # A restart on a full disk is what the reserve is for, too.
                _give_up_spare(disk)
                ids.reserve()
                recovered.repair(disk, salt)
        log = Log(disk, options or StoreOptions(), salt, recovered, clock_ms, ticks_ms or clock_ms)
        store = Store(log, ids, recovered.cuts, clean=recovered.clean)
        store.doubts += recovered.doubts
        store.begin()
    except BaseException:
        disk.close()
        raise
    return store


def _open_ids(disk: Disk, salt: int, reserved: int, now_ms: int) -> Ids:
    """Ids that neither this store nor another one has given."""
    first = first_id(reserved, now_ms, disk.random_u32())
    return Ids(disk, salt, first=first, last=reserved - 1)


def _give_up_spare(disk: Disk) -> None:
    for name in disk.names("journal"):
        if name.endswith(".spare"):
            disk.remove(f"journal/{name}")
            return


@final
class Store:
    """See the module; made by `open_store`."""

    def __init__(self, log: Log, ids: Ids, cuts: list[Cut], *, clean: bool) -> None:
        self.log: Final = log
        self._ids: Final = ids
        # What recovery cut off, for the operator, and whether the last stop was in order.
        self.cuts: Final = cuts
        # Why the end of the log may have been lost; mostly it was not.
        self.doubts: list[str] = []
        self.clean: Final = clean
        self.cache: Final = EntryCache(log.options.cache_bytes)
        self._writer: Final = LedgerWriter(log, ids)
        self._cursors: Final = CursorLog(log, ids)
        self.transactions: Final = TransactionLog(log, ids)
        self.views: Final = ViewLog(log, ids)
        self.reclaimer: Final = Reclaimer(log, self._writer.open_ledgers)
        # The generation of the catalog that was last queued, or is known.
        self._catalog_noted: int = _generation(log.state)

    def begin(self) -> None:
        """Makes the reserve, and ends what the last run left open."""
        self.log.take_spares()
        state = self.log.state
        for ledger in state.ledgers.values():
            if ledger.sealed and isinstance(ledger.index, HeapIndex):
                self.log.index_later(ledger.id)
        state.take_sealed()
        self.reclaimer.scattered.find_all()
        self._writer.find_orphans()
        self._writer.seal_orphans()
        # The index files of thousands of ledgers would keep everybody waiting. They are chores.
        self._write_all()

    # ---- Topics and entries --------------------------------------------------

    @property
    def last_id(self) -> int:
        """No ledger, topic or cursor has an id above this one, or ever had."""
        return self._ids.last

    def create_topic(self, name: str) -> int:
        """A new topic's id. Whether the name is taken is for the catalog to say."""
        topic_id = self._ids.take()
        self.log.add(topic_record(topic_id, name))
        self._writer.create_topic(topic_id)
        return topic_id

    def delete_topic(self, topic_id: int) -> int:
        """Deletes the topic with its entries and cursors; returns the ticket."""
        self._writer.delete_topic(topic_id)
        return self.log.add(Record(DELETE, topic_id))

    def topics(self) -> dict[int, str]:
        """Id and name of every durable topic."""
        return {topic.id: topic.name for topic in self.log.state.topics.values()}

    def append(
        self, topic_id: int, entry: bytes, *, batch_size: i64, publish_time_ms: i64
    ) -> Position:
        """Queues an entry and returns where it will be; its ticket is `ticket_last`.

        Raises `StorageFullError` if the disk has no room for publishes.
        """
        return self._writer.append(
            topic_id, entry, batch_size=batch_size, publish_time_ms=publish_time_ms
        )

    @property
    def ticket_last(self) -> int:
        """The ticket of the last record that was queued."""
        return self.log.journal.ticket_next - 1

    @property
    def read_only_reason(self) -> str:
        """Why the store takes nothing any more; empty while it does."""
        return self.log.journal.reason

    @property
    def setbacks(self) -> Setbacks:
        """What fails at present and is tried again, and how often anything did."""
        return self.log.setbacks

    @property
    def full(self) -> bool:
        """Whether publishes are refused for lack of space."""
        return self.log.full

    def ledgers(self, topic_id: int) -> list[LedgerInfo]:
        """The topic's ledgers, oldest first, with what is durable of them."""
        state = self.log.state
        return [_info(state.ledgers[id]) for id in self._topic(topic_id).ledger_ids]

    def batch_size(self, ledger_id: int, entry_id: int) -> int:
        """How many messages a durable entry holds."""
        return self._entry(ledger_id, entry_id).index.batch_size(entry_id)

    def publish_time_ms(self, ledger_id: int, entry_id: int) -> int:
        return self._entry(ledger_id, entry_id).index.publish_time_ms(entry_id)

    def seal_topic(self, topic_id: int) -> None:
        """Ends the topic's open ledger: for unloading it, or to trim all of it."""
        self._writer.seal_topic(topic_id)

    # ---- Reading -------------------------------------------------------------

    def read(
        self, topic_id: int, first: Position, *, entries_max: int, bytes_max: int
    ) -> list[StoredEntry]:
        """Durable entries from `first` on: at least one if there is one, in place."""
        plan = self.plan_read(topic_id, first, entries_max=entries_max, bytes_max=bytes_max)
        try:
            plan.run(self.log.disk)
        finally:
            self.finish_read(plan)
        return plan.entries

    def plan_read(
        self, topic_id: int, first: Position, *, entries_max: int, bytes_max: int
    ) -> ReadPlan:
        """What `read` would read. Run it anywhere, then call `finish_read` whatever came."""
        entries = self._entries_from(topic_id, first, entries_max, bytes_max)
        plan = ReadPlan(entries, self.log.salt)
        if not plan.complete:
            plan.ahead = self._ahead(entries)
        return self._pinned(plan)

    def _entries_from(
        self, topic_id: int, first: Position, entries_max: int, bytes_max: int
    ) -> list[StoredEntry]:
        entries: list[StoredEntry] = []
        budget = bytes_max
        entry_id = first.entry_id
        for ledger_id in self._topic(topic_id).ledger_ids:
            if ledger_id < first.ledger_id:
                continue
            if ledger_id > first.ledger_id:
                entry_id = 0
            ledger = self.log.state.ledgers[ledger_id]
            count = ledger.index.count()
            if entry_id >= count:
                continue
            try:
                index = ledger.index.at_hand()
            except StorageError:
                if entries:
                    return entries  # whoever asks for what follows them will hear of it
                raise
            while entry_id < count and len(entries) < entries_max:
                entry = self._stored(ledger_id, index, entry_id)
                budget -= entry.length
                if budget < 0 and entries:
                    return entries
                entries.append(entry)
                entry_id += 1
            if len(entries) >= entries_max:
                break
        return entries

    def _ahead(self, entries: list[StoredEntry]) -> list[tuple[int, int]]:
        """Where as many more entries of their ledger are, if they lie in few runs."""
        last = entries[-1]
        index = self.log.state.ledgers[last.ledger_id].index.at_hand()
        end = min(last.entry_id + 1 + len(entries), index.count())
        if end == last.entry_id + 1:
            return []
        reach = last.address + HEAD_BYTES + last.length
        ahead = index.address(end - 1) + HEAD_BYTES + index.length(end - 1) - reach
        size = sum([HEAD_BYTES + entry.length for entry in entries])
        if 0 < ahead <= min(2 * size, AHEAD_BYTES_MAX):
            return [(reach, ahead)]  # right behind them, so nobody need look at each
        runs = runs_of(index, last.entry_id + 1, end)
        return runs if sum([size for _, size in runs]) <= AHEAD_BYTES_MAX else []

    def plan_entries(self, positions: list[Position], bytes_max: int = PLAN_BYTES_MAX) -> ReadPlan:
        """A plan for single entries, in the order given; those that are gone are left out.

        It ends before `bytes_max`, but with one entry at least.
        """
        entries: list[StoredEntry] = []
        budget = bytes_max
        for position in positions:
            ledger = self.log.state.ledgers.get(position.ledger_id)
            if ledger is not None and 0 <= position.entry_id < ledger.index.count():
                index = ledger.index.at_hand()
                entry = self._stored(position.ledger_id, index, position.entry_id)
                budget -= entry.length
                if budget < 0 and entries:
                    break
                entries.append(entry)
        return self._pinned(ReadPlan(entries, self.log.salt))

    def _pinned(self, plan: ReadPlan) -> ReadPlan:
        plan.pinned = plan.segments()
        self.log.pin(plan.pinned)
        return plan

    def finish_read(self, plan: ReadPlan, *, keep: bool = True) -> None:
        """Lets go of the segments that the plan held, and keeps what it read, unless told."""
        self.log.unpin(plan.pinned)
        plan.pinned = set()
        if not keep:
            return
        for entry in plan.entries:
            if entry.data is not None:
                self.cache.put(entry.ledger_id, entry.entry_id, entry.data)

    def _stored(self, ledger_id: i64, index: LedgerIndex, entry_id: i64) -> StoredEntry:
        return StoredEntry(
            ledger_id,
            entry_id,
            address=index.address(entry_id),
            length=index.length(entry_id),
            batch_size=index.batch_size(entry_id),
            publish_time_ms=index.publish_time_ms(entry_id),
            data=self.cache.get(ledger_id, entry_id),
        )

    # ---- Cursors -------------------------------------------------------------

    def create_cursor(
        self, topic_id: int, name: str, snapshot: bytes, *, properties: bytes = b""
    ) -> int:
        """A new cursor's id; `snapshot` is the state that it begins with."""
        self._writer.require_topic(topic_id)
        return self._cursors.create(topic_id, name, snapshot, properties)

    def delete_cursor(self, cursor_id: int) -> int:
        return self._cursors.delete(cursor_id)

    def set_cursor_properties(self, cursor_id: int, properties: bytes) -> int:
        return self._cursors.set_properties(cursor_id, properties)

    def append_delta(self, cursor_id: int, epoch: int, delta: bytes) -> int:
        """Queues what an operation changes in a cursor; returns the ticket."""
        return self._cursors.append_delta(cursor_id, epoch, delta)

    def append_deltas(self, deltas: list[tuple[int, int, bytes]]) -> int:
        """Queues what one operation changes in several cursors: all of it, or nothing.

        Each is a cursor's id, its epoch and the delta. They are written in one group, so a
        crash leaves all or none. Returns the ticket of the last.
        """
        return self._cursors.append_deltas(deltas)

    def begin_snapshot(self, cursor_id: int) -> SnapshotWriter:
        """A writer for a snapshot that holds exactly what is durable of the cursor now."""
        return self._cursors.begin_snapshot(cursor_id)

    def cursor_ids(self, topic_id: int) -> list[int]:
        return list(self._topic(topic_id).cursor_ids)

    def cursor_image(self, cursor_id: int) -> CursorImage:
        """The durable state of a cursor, read from disk."""
        return self._cursors.image(cursor_id)

    def cursor_reader(self, cursor_id: int) -> CursorReader:
        """The durable state of a cursor, to be read bit by bit."""
        return self._cursors.reader(cursor_id)

    def cursor_name(self, cursor_id: int) -> str:
        return self.log.state.cursors[cursor_id].name

    def topic_mark(self, topic_id: int) -> tuple[int, ...]:
        """Returns a mark that stays the same until a topic, its entries or its cursors change.

        It looks at the end of each only; empty if there is no such topic.
        """
        state = self.log.state
        topic = state.topics.get(topic_id)
        if topic is None:
            return ()
        ledger_ids = topic.ledger_ids
        mark = [len(ledger_ids), topic.address, topic.view_id]
        if ledger_ids:
            mark += [ledger_ids[0], ledger_ids[-1], state.ledgers[ledger_ids[-1]].index.count()]
        for cursor_id in topic.cursor_ids:
            mark += self._cursors.mark(cursor_id)
        return tuple(mark)

    def cursors_due(self) -> list[int]:
        """The cursors that should have a snapshot taken soon."""
        return self._cursors.due()

    def cursors_wanted(self) -> list[int]:
        """Returns those of them whose old snapshot holds up a segment that is to go."""
        return self._cursors.wanted()

    # ---- The catalog ---------------------------------------------------------

    @property
    def catalog_mark(self) -> CatalogMark | None:
        """What the catalog was, as far as that is durable; None if nobody ever said."""
        return self.log.state.catalog

    def note_catalog(self, mark: CatalogMark) -> bool:
        """Queues what the catalog is now, if it is not noted yet; whether it was queued.

        A store that takes nothing leaves the catalog ahead of what is known of it.
        """
        if self.log.journal.state != "open" or mark.generation == self._catalog_noted:
            return False
        self.log.add(catalog_record(mark))
        self._catalog_noted = mark.generation
        return True

    # ---- Freeing space -------------------------------------------------------

    def trim(self, topic_id: int, mark_delete: Position | None, retention: Retention) -> list[int]:
        """Deletes the ledgers that nobody needs; see `ledgers_to_trim`."""
        ledgers = self.ledgers(topic_id)
        trimmed = ledgers_to_trim(ledgers, mark_delete, retention, self.log.clock_ms())
        for ledger_id in trimmed:
            self.log.add(Record(DELETE, ledger_id))
        return trimmed

    def ask_consumed(self, consumed: Callable[[int], Position | None]) -> None:
        """Sets who knows up to where everyone has consumed a topic; None if nobody keeps it.

        What was consumed is not gathered while its ledger is open.
        """
        self.reclaimer.scattered.consumed = consumed

    def maintain(self) -> bool:
        """Seals old ledgers and reclaims a little; True if there is more to do at once."""
        if self.log.journal.state != "open":
            return False
        self._writer.seal_old()
        return self.reclaimer.step(RECLAIM_STEP_BYTES)

    # ---- Jobs ----------------------------------------------------------------

    def next_write(self) -> Job | None:
        """The next job of the write lane, or None if there is none or one is under way."""
        return self.log.next_write()

    def finish_write(self, job: Job, error: Exception | None) -> Outcome | None:
        """Takes every job that `next_write` gave, when it ran; returns what it settled."""
        outcome = self.log.finish_write(job, error)
        if outcome is None:
            return None
        if outcome.error is not None:
            self._abandon()
            return outcome
        assert isinstance(job, GroupWrite)
        cache = self.cache
        for record in job.records:
            if record.kind == ENTRY:
                cache.put(record.id, record.sub_id, record.body)
        self._writer.committed()
        self._cursors.committed()
        self.transactions.committed()
        # Not before a group passes again: on a full disk the next one would fail as well.
        self._writer.seal_orphans()
        return outcome

    def next_chore(self) -> Job | None:
        """The next job of the other lane."""
        return self.log.next_chore()

    def finish_chore(self, job: Job, error: Exception | None) -> Outcome | None:
        """Takes every job that `next_chore` gave, when it ran; returns what it settled."""
        outcome = self.log.finish_chore(job, error)
        if outcome is not None:
            self._abandon()
        elif self.log.journal.state == "open" and not self.log.stopping:
            self.reclaimer.resume(job)
        return outcome

    def fail(self, error: Exception) -> Outcome:
        """Takes nothing any more until a restart, for nothing can be trusted after this error."""
        return self.log.fail(error)

    def _abandon(self) -> None:
        self._writer.abandon()
        self._cursors.abandon()
        self.transactions.abandon()
        self.reclaimer.abandon()
        self._catalog_noted = _generation(self.log.state)

    def flush(self) -> list[Outcome]:
        """Does everything that is to be done, here and now."""
        outcomes: list[Outcome] = []
        while True:
            job = self.next_write()
            if job is not None:
                outcome = self.finish_write(job, attempt(job, self.log.disk))
            else:
                job = self.next_chore()
                if job is None:
                    return outcomes
                outcome = self.finish_chore(job, attempt(job, self.log.disk))
            if outcome is not None:
                outcomes.append(outcome)

    def _write_all(self) -> None:
        while True:
            job = self.next_write()
            if job is None:
                return
            self.finish_write(job, attempt(job, self.log.disk))

    def close(self) -> None:
        """Stops in order: everything queued is written, and the log is sealed."""
        self.log.stopping = True
        if self.log.journal.state == "open":
            for topic_id in self._writer.open_topics():
                self._writer.seal_topic(topic_id)
            self.log.add(Record(SEAL, 0))
            self.flush()
            left = self.log.journal.close_tail()
            if left is not None:
                self.log.add_chore(left)
                self.flush()
            self.log.journal.close()
        self.log.disk.close()

    # ---- Finding things ------------------------------------------------------

    def _topic(self, topic_id: int) -> TopicState:
        topic = self.log.state.topics.get(topic_id)
        if topic is None:
            raise UnknownObjectError("topic", str(topic_id))
        return topic

    def _entry(self, ledger_id: int, entry_id: int) -> LedgerState:
        ledger = self.log.state.ledgers.get(ledger_id)
        if ledger is None or not 0 <= entry_id < ledger.index.count():
            raise UnknownObjectError("entry", f"{ledger_id}:{entry_id}")
        return ledger


def attempt(job: Job, disk: Disk) -> Exception | None:
    """Runs a job; what went wrong, if anything."""
    try:
        job.run(disk)
    except StorageError as error:
        return error
    return None


def _generation(state: LogState) -> int:
    return -1 if state.catalog is None else state.catalog.generation


def _info(ledger: LedgerState) -> LedgerInfo:
    return LedgerInfo(
        ledger.id,
        entries=ledger.index.count(),
        size_bytes=ledger.index.size_bytes(),
        created_ms=ledger.created_ms,
        sealed=ledger.sealed,
        sealed_ms=ledger.sealed_ms,
    )
