"""Verifying a data directory: every invariant of the format, from every byte of the log.

A directory is read twice, once as a restart would (heads and index files) and once from
the log alone, and both must tell the same story. Nothing is changed, so a directory is
checked as the last run left it. What it costs is a read of the whole directory and about
200 bytes of memory an entry.
"""

from typing import Final, final

from pyroaring import BitMap

from magnetar.errors import CorruptionError, DataDirectoryError
from magnetar.model import Position
from magnetar.storage.compaction.check_view import view_faults
from magnetar.storage.data_format import read_salt
from magnetar.storage.disk.disk import Disk
from magnetar.storage.ids import read_ids
from magnetar.storage.ledger.ledger_index import LedgerIndex, decode_index, index_path
from magnetar.storage.log.job import read_bodies
from magnetar.storage.log.record import Record, address_of
from magnetar.storage.log.record_kind import is_entry
from magnetar.storage.log.scan import Scan
from magnetar.storage.log.segment import segment_path
from magnetar.storage.recovery import Recovered, recover
from magnetar.storage.state import LedgerState, LogState, ObjectState, Places
from magnetar.storage.state_record import decode_aborted
from magnetar.storage.transaction.transaction_state import Transactions
from magnetar.wire.checksum import crc32c

__all__ = ["Violation", "check"]


@final
class Violation:
    """Something about a data directory that must not be."""

    def __init__(self, path: str, reason: str) -> None:
        self.path: Final = path
        self.reason: Final = reason

    def __repr__(self) -> str:
        return f"Violation({self.path}: {self.reason})"


def check(disk: Disk) -> list[Violation]:
    """Returns all violations found; an empty directory has none."""
    try:
        salt = read_salt(disk)
        if salt is None:
            return []
        quick = recover(disk, salt)
        checker = _Checker(disk, salt, quick, recover(disk, salt, use_heads=False))
        out = checker.run()
    except DataDirectoryError as error:
        return [Violation(getattr(error, "path", ""), str(error))]
    try:
        read_ids(disk, salt, quick.state.id_highest)
    except CorruptionError as error:
        out.append(Violation(error.path, str(error)))
    return out


@final
class _Checker:
    def __init__(self, disk: Disk, salt: int, quick: Recovered, full: Recovered) -> None:
        self.disk: Final = disk
        self.salt: Final = salt
        self.quick: Final = quick
        self.full: Final = full
        self.out: Final[list[Violation]] = []
        # What each entry says, as a checksum, and what stands at each address.
        self.entries: Final[dict[Position, int]] = {}
        self.places: Final[dict[int, tuple[int, int, int]]] = {}

    def run(self) -> list[Violation]:
        self._scan()
        self._compare_objects()
        self._check_ledgers()
        self._check_cursors()
        self._check_transactions()
        self._check_live_bytes()
        return self.out

    def _say(self, path: str, reason: str) -> None:
        self.out.append(Violation(path, reason))

    def _scan(self) -> None:
        for segment_id, length in self.full.lengths.items():
            path = segment_path(segment_id)
            scan = Scan(self.disk.read(path, 0, length), segment_id, self.salt)
            while True:
                records = scan.next_group(bodies=True)
                if records is None:
                    break
                for record in records:
                    if is_entry(record.kind):
                        self._note_entry(path, record)
            assert scan.end == length  # or recovery would not have come this far

    def _note_entry(self, path: str, record: Record) -> None:
        position = Position(record.id, record.sub_id)
        says = crc32c(f"{record.batch_size} {record.time_ms} ".encode() + record.body)
        if self.entries.setdefault(position, says) != says:
            self._say(path, f"{position} names two messages")
        self.places[record.address] = (record.id, record.sub_id, record.length)

    def _compare_objects(self) -> None:
        quick, full = self.quick.state, self.full.state
        if self.quick.end != self.full.end:
            self._say("journal", "heads and log end at different places")
        if sorted(quick.topics) != sorted(full.topics):
            self._say("journal", "heads and log know different topics")
        if sorted(quick.ledgers) != sorted(full.ledgers):
            self._say("journal", "heads and log know different ledgers")
        if sorted(quick.cursors) != sorted(full.cursors):
            self._say("journal", "heads and log know different cursors")
        if quick.catalog_address != full.catalog_address:
            self._say("journal", "heads and log know different catalogs")

    def _check_ledgers(self) -> None:
        for ledger_id, ledger in self.quick.state.ledgers.items():
            path = index_path(ledger_id)
            other = self.full.state.ledgers.get(ledger_id)
            if self._damaged_columns(path, ledger_id):
                self._say(path, "the columns are damaged")
            elif other is not None:
                self._compare_indexes(path, ledger_id, ledger.index, other.index)
            if ledger.sealed and ledger.bytes_sealed != ledger.index.size_bytes():
                self._say(path, "seal and index disagree about the ledger's size")
            if ledger.is_view and ledger.sealed:
                for fault in view_faults(self.disk, self.salt, ledger):
                    self._say(f"view {ledger_id}", fault)

    def _damaged_columns(self, path: str, ledger_id: int) -> bool:
        """Whether there is an index file that a start makes anew for its columns."""
        if self.disk.size(path) < 0:
            return False
        columns = decode_index(self.disk.map(path), ledger_id, self.salt)
        return columns is not None and not columns.intact(self.salt)

    def _compare_indexes(
        self, path: str, ledger_id: int, index: LedgerIndex, other: LedgerIndex
    ) -> None:
        if index.count() != other.count():
            self._say(path, f"{index.count()} entries, but {other.count()} in the log")
            return
        for i in range(index.count()):
            facts = (ledger_id, i, index.length(i))
            if self.places.get(index.address(i)) != facts:
                self._say(path, f"entry {ledger_id}:{i} is not where the index says")
            if index.batch_size(i) != other.batch_size(i) or (
                index.publish_time_ms(i) != other.publish_time_ms(i)
            ):
                self._say(path, f"entry {ledger_id}:{i} differs from the log")

    def _check_cursors(self) -> None:
        full = self.full.state.cursors
        for cursor_id, cursor in self.quick.state.cursors.items():
            name = f"cursor {cursor_id}"
            if not cursor.slices.count():
                self._say(name, "it has no snapshot")
            other = full.get(cursor_id)
            if other is not None and other.deltas.addresses != cursor.deltas.addresses:
                self._say(name, "heads and log know different deltas")

    def _check_transactions(self) -> None:
        quick, full = self.quick.state.transactions, self.full.state.transactions
        if sorted(quick.open) != sorted(full.open):
            self._say("journal", "heads and log know different open transactions")
        if _outcomes(quick) != _outcomes(full):
            self._say("journal", "heads and log know different ends of transactions")
        for number, transaction in quick.open.items():
            other = full.open.get(number)
            name = f"transaction {number}"
            if other is not None and (
                other.sent != transaction.sent or other.acks != transaction.acks
            ):
                self._say(name, "heads and log know different entries or acks of it")
            for ledger_id, entries in transaction.sent.items():
                ledger = self.quick.state.ledgers.get(ledger_id)
                if ledger is not None and max(entries) >= ledger.index.count():
                    self._say(name, f"it has an entry beyond the end of ledger {ledger_id}")
        for ledger_id, ledger in self.quick.state.ledgers.items():
            aborted = self._aborted(ledger)
            if aborted and aborted.max() >= ledger.index.count():
                self._say(f"ledger {ledger_id}", "an entry beyond its end has aborted")
            for number in quick.by_ledger.get(ledger_id, ()):
                if aborted.intersect(BitMap(quick.open[number].sent[ledger_id])):
                    self._say(f"transaction {number}", f"open and aborted in ledger {ledger_id}")

    def _aborted(self, ledger: LedgerState) -> BitMap:
        """What a ledger's latest record says that has aborted, from its bytes."""
        if ledger.aborted_address < 0:
            return BitMap()
        place = (int(ledger.aborted_address), int(ledger.aborted_size))
        return decode_aborted(read_bodies(self.disk, [place], self.salt)[0])

    def _check_live_bytes(self) -> None:
        counted = _count_live_bytes(self.quick.state)
        for segment_id, use in self.quick.state.segments.items():
            live = counted.pop(segment_id, 0)
            if use.live_bytes != live:
                self._say(
                    segment_path(segment_id), f"{use.live_bytes} live bytes, but {live} counted"
                )
        assert not counted


def _outcomes(transactions: Transactions) -> list[tuple[int, int]]:
    return sorted([(int(n), int(ended.outcome)) for n, ended in transactions.ended.items()])


def _count_live_bytes(state: LogState) -> dict[int, int]:
    """Live bytes by segment, from the objects alone."""
    out: dict[int, int] = {}

    def add(address: int, size: int) -> None:
        segment_id = address // address_of(1, 0)
        out[segment_id] = out.get(segment_id, 0) + size

    def add_all(places: Places) -> None:
        for address, size in zip(places.addresses, places.sizes, strict=True):
            add(address, size)

    def add_object(object: ObjectState) -> None:
        for address, size in object.places():
            add(address, size)

    if state.catalog is not None:
        add(state.catalog_address, state.catalog_size)
    for transaction in state.transactions.open.values():
        for segment_id, size in transaction.usage.items():
            add(address_of(segment_id, 0), size)
    for ended in state.transactions.ended.values():
        add(ended.address, ended.size)
    for topic in state.topics.values():
        add_object(topic)
    for ledger in state.ledgers.values():
        add_object(ledger)
        for segment_id, size in ledger.index.usage().items():
            add(address_of(segment_id, 0), size)
    for cursor in state.cursors.values():
        add_object(cursor)
        add_all(cursor.slices)
        add_all(cursor.deltas)
        add_all(cursor.building)
    return out
