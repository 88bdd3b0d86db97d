"""From the files of a directory to the state of a store.

1. The segments are put in order. Each header names where the log before it ends, so a
   segment between a header and the one it names was given up by a failed write.
2. Index files of sealed ledgers are taken as they are.
3. Every segment is folded, from its heads if it has them and else by a scan. The scan
   stops at the first byte that is not part of a whole group.
4. If anything says that this byte was durable once (a later group or header that carries
   a higher last-fsynced address, or heads and index files, which are written after a sync),
   it is corruption: the store refuses to open. If nothing does, the log is cut there, and
   the report says how many bytes and records went.
5. A segment that the log no longer lists was about to be removed. Where one was read, all
   of this is done once more without it.
6. Segments and entries that must exist are looked for; what nobody claims is dropped.
7. Where the log ends like one that lost its end, that is a doubt: it may be what a crash left,
   and it may be a loss. The report says so.

Nothing is written before all of that went well. `Recovered.repair` then cuts and removes.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import CorruptionError
from magnetar.storage.disk.disk import Disk
from magnetar.storage.ledger.index_file import IndexFiles, MappedIndex
from magnetar.storage.ledger.ledger_index import HeapIndex, index_path, ledger_id_of
from magnetar.storage.log.heads import decode_heads, encode_heads, heads_length
from magnetar.storage.log.record import (
    HEAD_BYTES,
    Record,
    address_of,
    offset_of,
    record_intact,
    segment_of,
)
from magnetar.storage.log.record_kind import SEAL, has_body_in_recovery
from magnetar.storage.log.scan import Scan, Tail
from magnetar.storage.log.segment import (
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    decode_segment_header,
    heads_path,
    segment_id_of,
    segment_path,
)
from magnetar.storage.state import LogState

__all__ = ["Cut", "Recovered", "recover"]

UNKNOWN: Final = -1
# Reading this much costs about as much as reading a single record.
READ_BYTES: Final = 16 * 1024


@final
class Cut:
    """Bytes at the end of the log that were never durable, and are gone now."""

    def __init__(self, path: str, offset: int, bytes_lost: int, records_lost: int) -> None:
        self.path: Final = path
        self.offset: Final = offset
        self.bytes_lost: Final = bytes_lost
        self.records_lost: Final = records_lost

    def __str__(self) -> str:
        return (
            f"{self.path} was cut at byte {self.offset}: {self.bytes_lost} bytes and "
            f"{self.records_lost} records behind it had not reached the disk"
        )


@final
class Recovered:
    """What recovery found, and what it wants changed."""

    def __init__(self, indexes: IndexFiles) -> None:
        self.state: Final = LogState()
        self.indexes: Final = indexes
        self.end: i64 = 0
        self.synced: i64 = 0
        self.segment_id_next: i64 = 1
        # The length of every segment that is part of the log.
        self.lengths: Final[dict[int, int]] = {}
        self.cuts: Final[list[Cut]] = []
        # Why the end of the log may be missing, though nothing proves it.
        self.doubts: Final[list[str]] = []
        self.clean: bool = True
        self._truncate: Final[dict[int, int]] = {}
        self._heads: Final[dict[int, bytes]] = {}
        self._remove: Final[list[str]] = []

    def repair(self, disk: Disk, salt: int) -> None:
        """Cuts, completes and removes, so that the directory is what the state says.

        What was read may be an index file whose name is not durable, since replacing the one
        before had failed. Nothing may go that only that one needs before the name is.
        """
        disk.sync_names()
        for segment_id, length in self._truncate.items():
            disk.truncate(segment_path(segment_id), length)
        for segment_id in self.lengths:
            if segment_id >= segment_of(self.synced) and segment_id not in self._truncate:
                disk.sync(segment_path(segment_id))
        for segment_id, heads in self._heads.items():
            data = encode_heads(heads, self.lengths[segment_id], salt)
            disk.replace(heads_path(segment_id), data)
        for path in self._remove:
            disk.remove(path)


def recover(disk: Disk, salt: int, *, use_heads: bool = True) -> Recovered:
    """Reads the whole directory; raises `CorruptionError`, and changes nothing.

    A segment that the log no longer lists was about to be removed. It must not be read: it can
    tell of objects that were deleted since, and what told of that may be gone before it. Which
    ones are listed is known at the end of the log, so the log is read once more without them.
    """
    recovery = _Recovery(disk, salt, set(), use_heads=use_heads)
    recovery.read()
    forgotten = recovery.forgotten()
    if forgotten:
        recovery = _Recovery(disk, salt, forgotten, use_heads=use_heads)
        recovery.read()
    return recovery.judged()


@final
class _Recovery:
    def __init__(self, disk: Disk, salt: int, leave_out: set[int], *, use_heads: bool) -> None:
        self.disk: Final = disk
        self.salt: Final = salt
        # Segments that are to be removed unread.
        self._leave_out: Final = leave_out
        self.use_heads: Final = use_heads
        self.out: Final = Recovered(IndexFiles(disk, salt))
        self.headers: Final[dict[int, SegmentHeader]] = {}
        self.chain: list[int] = []
        self.indexes: Final[dict[int, MappedIndex]] = {}
        # Segments whose heads say that nothing more came.
        self.closed: Final[set[int]] = set()
        # What was last read of the log, and its address.
        self._read: bytes = b""
        self._read_from: i64 = 0

    def read(self) -> None:
        """Reads indexes and log into the state."""
        self._order_segments()
        self.out.state.recovering = True
        self._adopt_indexes()
        self._fold()

    def forgotten(self) -> set[int]:
        """Returns the segments that were read and are no longer part of the log."""
        listed = self.out.state.listed
        highest = max(listed, default=0)
        return {id for id in self.chain if id <= highest and id not in listed}

    def judged(self) -> Recovered:
        """Returns what was read, if nothing is missing; else raises `CorruptionError`."""
        self._require_indexed()
        self._require_segments()
        self.out.state.drop_unclaimed()
        self._require_entries()
        self._doubt_end()
        self._find_litter()
        return self.out

    # ---- 1. Order ------------------------------------------------------------

    def _order_segments(self) -> None:
        names = self.disk.names("journal")
        found = sorted(id for id in (segment_id_of(name) for name in names) if id > 0)
        for name in names:
            segment_id = segment_id_of(name.replace(".heads", ".log"))
            if segment_id > 0 and segment_id not in found:
                raise self._corrupt(segment_id, 0, "the segment is missing")
        if found:
            self.out.segment_id_next = found[-1] + 1
        for segment_id in sorted(self._leave_out):
            found.remove(segment_id)
            self._remove_segment(segment_id)
        for segment_id in found:
            head = self.disk.read(segment_path(segment_id), 0, SEGMENT_HEADER_BYTES)
            header = decode_segment_header(head, self.salt)
            if header is not None and header.id == segment_id:
                self.headers[segment_id] = header
        chain: list[int] = []
        while found:
            segment_id = found.pop()
            chain.append(segment_id)
            header = self.headers.get(segment_id)
            if header is None:
                self._drop_from(segment_id, chain)
                chain = []
                continue
            while found and found[-1] > segment_of(header.previous_end):
                self._remove_segment(found.pop())
        chain.reverse()
        self.chain = chain

    def _drop_from(self, first: int, segment_ids: list[int]) -> None:
        """A segment has no header: it and all behind it were never durable, or all are lost."""
        tails = [self._tail_of(segment_id) for segment_id in segment_ids]
        evidence = max([tail.evidence for tail in tails])
        for segment_id in segment_ids:
            header = self.headers.get(segment_id)
            if header is not None:
                evidence = max(evidence, header.synced)
            evidence = max(evidence, self._witnessed_by_heads(segment_id))
        if evidence > address_of(first, 0):
            raise self._corrupt(first, 0, "the header of the segment is damaged")
        for segment_id, tail in zip(segment_ids, tails, strict=True):
            if tail.bytes_lost:
                self._note_cut(segment_id, 0, tail)
            self._remove_segment(segment_id)

    def _tail_of(self, segment_id: int) -> Tail:
        """Returns all of a segment, as something that may have to go."""
        return Tail(self._whole(segment_id), 0, segment_id, self.salt)

    def _witnessed_by_heads(self, segment_id: int) -> int:
        """Returns the address up to which the heads of a segment say that it was durable, or -1."""
        path = heads_path(segment_id)
        if self.disk.size(path) < 0:
            return UNKNOWN
        length = heads_length(self.disk.read(path, 0, self.disk.size(path)), self.salt)
        return address_of(segment_id, length) if length >= 0 else UNKNOWN

    def _remove_segment(self, segment_id: int) -> None:
        self.out._remove.append(heads_path(segment_id))
        self.out._remove.append(segment_path(segment_id))
        self.headers.pop(segment_id, None)

    # ---- 2. Indexes ----------------------------------------------------------

    def _adopt_indexes(self) -> None:
        if not self.use_heads:
            return
        for name in self.disk.names("index"):
            ledger_id = ledger_id_of(name)
            if ledger_id < 0:
                continue
            index = self.out.indexes.find(ledger_id)
            if index is not None:
                self.out.state.adopt_index(ledger_id, index)
                self.indexes[ledger_id] = index

    # ---- 3. The fold ---------------------------------------------------------

    def _fold(self) -> None:
        for i, segment_id in enumerate(self.chain):
            self.out.synced = max(self.out.synced, self.headers[segment_id].synced)
            expected = self._expected_end(i)
            if not self._fold_segment(segment_id, expected):
                self._cut_behind(i)
                return

    def _expected_end(self, i: int) -> int:
        """Returns where the segment ends as far as others know, or -1 for the last one."""
        if i + 1 == len(self.chain):
            return UNKNOWN
        previous_end = self.headers[self.chain[i + 1]].previous_end
        if segment_of(previous_end) == self.chain[i]:
            return offset_of(previous_end)
        # The next one was reclaimed, so this one is closed and has its final length.
        return self.disk.size(segment_path(self.chain[i]))

    def _fold_segment(self, segment_id: int, expected: int) -> bool:
        """Folds the segment; False if the log ends in it before `expected`."""
        durable = UNKNOWN
        path = heads_path(segment_id)
        if self.disk.size(path) >= 0:
            heads = self.disk.read(path, 0, self.disk.size(path))
            durable = heads_length(heads, self.salt)
            if durable >= 0:
                self.closed.add(segment_id)
            if durable > self.disk.size(segment_path(segment_id)):
                raise self._corrupt(segment_id, durable, "the segment is shorter than it was")
            if durable >= 0 and self.use_heads and expected in (UNKNOWN, durable):
                scan = decode_heads(heads, segment_id, self.salt)
                self._fold_groups(scan, durable)
                if scan.end != durable:
                    raise CorruptionError(path, 0, "these are not the heads of the segment")
                self._note_end(scan)
                return True
        scan = Scan(self._whole(segment_id), segment_id, self.salt)
        self._fold_groups(scan, expected)
        if scan.end == expected or (expected == UNKNOWN and scan.end == durable):
            self.out._heads[segment_id] = scan.heads_bytes()
            self._note_end(scan)
            return True
        return self._end_of_log(scan, expected, durable)

    def _fold_groups(self, scan: Scan, expected: int) -> None:
        while scan.end != expected:
            records = scan.next_group()
            if records is None:
                return
            for record in records:
                if scan.heads:
                    self._fetch_body(record)
                self.out.state.apply(record)
                self.out.clean = record.kind == SEAL

    def _fetch_body(self, record: Record) -> None:
        if has_body_in_recovery(record.kind):
            data = self._bytes_of(record)
            if len(data) != record.size() or not record_intact(data, self.salt):
                segment_id, offset = segment_of(record.address), offset_of(record.address)
                raise self._corrupt(segment_id, offset, f"{record!r} is damaged")
            record.body = data[HEAD_BYTES:]

    def _bytes_of(self, record: Record) -> bytes:
        """Records of objects mostly follow each other, so some more is read along with one."""
        at = record.address - self._read_from
        size = record.size()
        if at < 0 or at + size > len(self._read):
            path = segment_path(segment_of(record.address))
            offset = offset_of(record.address)
            self._read = self.disk.read(path, offset, max(size, READ_BYTES))
            self._read_from = record.address
            at = 0
        return self._read[at : at + size]

    def _note_end(self, scan: Scan) -> None:
        self.out.lengths[scan.segment_id] = scan.end
        if self.disk.size(segment_path(scan.segment_id)) != scan.end:
            self.out._truncate[scan.segment_id] = scan.end
        self.out.synced = max(self.out.synced, scan.synced)
        self.out.end = address_of(scan.segment_id, scan.end)

    # ---- 4. The end ----------------------------------------------------------

    def _end_of_log(self, scan: Scan, expected: int, durable: int) -> bool:
        """The log stops here: for good reason, or because a byte is bad."""
        segment_id = scan.segment_id
        here = address_of(segment_id, scan.end)
        tail = scan.tail()
        evidence = max(self.out.synced, scan.synced, tail.evidence)
        if durable >= 0:
            evidence = max(evidence, address_of(segment_id, durable))
        for later in self.chain:
            if later > segment_id:
                evidence = max(
                    evidence,
                    self.headers[later].synced,
                    self._tail_of(later).evidence,
                    self._witnessed_by_heads(later),
                )
        if evidence > here:
            raise self._corrupt(
                segment_id, scan.end, "a group that was durable once is damaged or missing"
            )
        if tail.bytes_lost:
            self._note_cut(segment_id, scan.end, tail)
        self.out._heads[segment_id] = scan.heads_bytes()
        self._note_end(scan)
        return expected == UNKNOWN

    def _cut_behind(self, i: int) -> None:
        """The log ended in the i-th segment of the chain; later ones go."""
        for segment_id in self.chain[i + 1 :]:
            tail = self._tail_of(segment_id)
            self._note_cut(segment_id, 0, tail)
            self._remove_segment(segment_id)
        del self.chain[i + 1 :]

    def _note_cut(self, segment_id: int, offset: int, tail: Tail) -> None:
        self.out.clean = False
        cut = Cut(segment_path(segment_id), offset, tail.bytes_lost, tail.records_lost)
        self.out.cuts.append(cut)

    # ---- 5. What must be there -----------------------------------------------

    def _require_indexed(self) -> None:
        """The log reaches as far as the index files do, whether their ledgers exist or not.

        Only an index that names the last segment or a later one can say more than the log.
        """
        last = segment_of(self.out.end)
        for index in self.indexes.values():
            if max(index.usage(), default=UNKNOWN) < last or not index.intact(self.salt):
                continue
            end = index.end()
            if end > self.out.end:
                reason = "an index file knows entries that the log has lost"
                raise self._corrupt(segment_of(end), offset_of(end), reason)

    def _require_segments(self) -> None:
        present = set(self.chain)
        listed = self.out.state.listed
        highest = max(listed, default=0)
        for segment_id in listed:
            if segment_id not in present:
                raise self._corrupt(segment_id, 0, "the segment is missing")
        for segment_id in self.chain:
            previous = segment_of(self.headers[segment_id].previous_end)
            gone = previous == 0 or (previous <= highest and previous not in listed)
            if previous not in present and not gone:
                raise self._corrupt(previous, 0, "the segment is missing")

    def _require_entries(self) -> None:
        for ledger in self.out.state.ledgers.values():
            index = ledger.index
            count = index.count()
            missing = index.missing() if isinstance(index, HeapIndex) else UNKNOWN
            if missing == UNKNOWN and ledger.sealed and count != ledger.entries_sealed:
                missing = count
            if not ledger.sealed and isinstance(index, MappedIndex):
                # The file is written when the seal is durable.
                reason = "the record that sealed the ledger is missing"
                raise CorruptionError(index_path(ledger.id), 0, reason)
            if missing != UNKNOWN:
                raise CorruptionError(
                    index_path(ledger.id), missing, f"entry {ledger.id}:{missing} is missing"
                )
            for segment_id in index.usage():
                if segment_id not in self.out.lengths:
                    raise self._corrupt(segment_id, 0, "the segment is missing")

    def _doubt_end(self) -> None:
        """A log that was not closed has its last segment open, and as long as it was made."""
        if not self.chain:
            self.out.doubts.append("journal has no segment: it never had one, or lost all of them")
            return
        last = self.chain[-1]
        path, made = segment_path(last), self.headers[last].made_bytes
        if last in self.closed:
            if not self.out.clean:
                self.out.doubts.append(
                    f"{path} is the last segment, and it was closed without a stop: the segment "
                    f"{segment_path(last + 1)} was never written, or it is lost"
                )
        elif self.disk.size(path) < made:
            self.out.doubts.append(
                f"{path} is {self.disk.size(path)} bytes long and was made with {made}: it was "
                "being closed, or its end is lost"
            )

    def _find_litter(self) -> None:
        """Files that a crash left behind and that nothing refers to any more."""
        for name in self.disk.names("index"):
            if ledger_id_of(name) not in self.out.state.ledgers:
                self.out._remove.append(f"index/{name}")
        for name in self.disk.names("journal"):
            if name.endswith(".tmp"):
                self.out._remove.append(f"journal/{name}")

    def _whole(self, segment_id: int) -> bytes:
        path = segment_path(segment_id)
        return self.disk.read(path, 0, self.disk.size(path))

    def _corrupt(self, segment_id: int, offset: int, reason: str) -> CorruptionError:
        return CorruptionError(segment_path(segment_id), offset, reason)
