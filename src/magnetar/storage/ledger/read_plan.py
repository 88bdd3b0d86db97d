"""Reading entries: planned on the caller's thread, read on any, finished on the caller's.

A plan knows the address of every entry it wants, and has those that the cache holds
already. The others are read in runs: records that lie close together come with one call,
and what lies between them is thrown away. A long run is cut into several calls, so that the
disk fetches the next piece while the entries of this one are checked.
"""

import struct
from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import CorruptionError
from magnetar.storage.disk.disk import Disk
from magnetar.storage.ledger.ledger_index import LedgerIndex
from magnetar.storage.log.job import Job
from magnetar.storage.log.record import (
    HEAD_BYTES,
    HEAD_FRONT_BYTES,
    offset_of,
    record_crc,
    segment_of,
)
from magnetar.storage.log.record_kind import LOST_ENTRY
from magnetar.storage.log.segment import segment_path

__all__ = ["ReadPlan", "StoredEntry", "runs_of"]

# Reading this much for nothing is cheaper than another call.
GAP_BYTES_MAX: Final = 16 * 1024
# Beyond this a run is cut: what is checked first need not wait for what comes last. Linux's
# read-ahead has the same default, and fetches no more than that for a file it is told of.
RUN_BYTES_MAX: Final = 128 * 1024

# More runs than this for one plan are too short to be worth a hint each.
AHEAD_RUNS_MAX: Final = 64

# What a record's head says of itself: checksum, length, kind, which ledger and entry.
CLAIM: Final = struct.Struct("<III4xqq")


@final
class StoredEntry:
    """An entry as it was published, and the few facts that storage keeps beside it."""

    __slots__ = (
        "address",
        "batch_size",
        "data",
        "entry_id",
        "ledger_id",
        "length",
        "publish_time_ms",
    )

    def __init__(
        self,
        ledger_id: i64,
        entry_id: i64,
        *,
        address: i64,
        length: i64,
        batch_size: i64,
        publish_time_ms: i64,
        data: bytes | None,
    ) -> None:
        self.ledger_id: Final[i64] = ledger_id
        self.entry_id: Final[i64] = entry_id
        self.address: Final[i64] = address
        self.length: Final[i64] = length
        self.batch_size: Final[i64] = batch_size
        self.publish_time_ms: Final[i64] = publish_time_ms
        self.data: bytes | None = data

    def __repr__(self) -> str:
        return f"<entry {self.ledger_id}:{self.entry_id} of {self.length} bytes>"


@final
class ReadPlan(Job):
    """The entries to read, in the order of the topic."""

    def __init__(self, entries: list[StoredEntry], salt: int) -> None:
        self.entries: Final = entries
        # The segments that the store keeps for this plan.
        self.pinned: set[int] = set()
        # What the next plan will want: addresses and lengths, as far as that is known.
        self.ahead: list[tuple[int, int]] = []
        # What is to be done with the entries on the same thread, for whoever asked for them.
        self.behind: Job | None = None
        self._salt: Final = salt

    @property
    def complete(self) -> bool:
        """Whether there is nothing to read, for the cache had everything."""
        for entry in self.entries:
            if entry.data is None:
                return False
        return True

    @property
    def missing_bytes(self) -> int:
        """How many bytes of entries are to be read."""
        return sum([int(entry.length) for entry in self.entries if entry.data is None])

    def whole(self) -> list[StoredEntry]:
        """Returns the entries in front of the first that is not at hand: after damage, those
        before it."""
        for i, entry in enumerate(self.entries):
            if entry.data is None:
                return self.entries[:i]
        return self.entries

    def segments(self) -> set[int]:
        """Returns the segments that must stay until this has run."""
        here = {int(segment_of(e.address)) for e in self.entries if e.data is None}
        return here | {int(segment_of(address)) for address, _ in self.ahead}

    def run(self, disk: Disk) -> None:
        wanted = [entry for entry in self.entries if entry.data is None]
        ends: list[int] = []
        places: list[tuple[str, int, int]] = []
        path = ""
        segment_id: i64 = -1
        first = 0
        while first < len(wanted):
            end = self._run_end(wanted, first)
            start, last = wanted[first].address, wanted[end - 1]
            size = last.address + HEAD_BYTES + last.length - start
            if segment_of(start) != segment_id:
                segment_id = segment_of(start)
                path = segment_path(segment_id)
            places.append((path, offset_of(start), size))
            ends.append(end)
            first = end
        first = 0
        ahead = [(segment_path(segment_of(a)), int(offset_of(a)), size) for a, size in self.ahead]
        for i, data in enumerate(disk.stream(places, ahead)):
            self._split(data, wanted, first, ends[i])
            first = ends[i]
        if self.behind is not None:
            self.behind.run(disk)

    def _run_end(self, wanted: list[StoredEntry], first: int) -> int:
        start = wanted[first].address
        reach = start + HEAD_BYTES + wanted[first].length
        end = first + 1
        while end < len(wanted):
            entry = wanted[end]
            # Addresses of different segments are further apart than any gap.
            if entry.address < reach or entry.address - reach > GAP_BYTES_MAX:
                break
            if entry.address + HEAD_BYTES + entry.length - start > RUN_BYTES_MAX:
                break
            reach = entry.address + HEAD_BYTES + entry.length
            end += 1
        return end

    def _split(self, data: bytes, wanted: list[StoredEntry], first: int, end: int) -> None:
        start = wanted[first].address
        for i in range(first, end):
            entry = wanted[i]
            body = self._body(data, entry.address - start, entry)
            if body is None:
                path = segment_path(segment_of(entry.address))
                raise CorruptionError(path, offset_of(entry.address), f"{entry!r} is damaged")
            entry.data = body

    def _body(self, data: bytes, at: i64, entry: StoredEntry) -> bytes | None:
        """Returns the entry's bytes, or None unless its record and no other stands there,
        undamaged."""
        size = HEAD_BYTES + entry.length
        if len(data) < at + size:
            return None
        crc, length, kind, ledger_id, entry_id = CLAIM.unpack_from(data, at)
        if (
            kind == LOST_ENTRY
            or length != entry.length
            or ledger_id != entry.ledger_id
            or entry_id != entry.entry_id
        ):
            return None
        checked = data[at + HEAD_FRONT_BYTES : at + size]
        if crc != record_crc(checked, self._salt):
            return None
        return checked[HEAD_BYTES - HEAD_FRONT_BYTES :]


def runs_of(index: LedgerIndex, first: int, end: int) -> list[tuple[int, int]]:
    """Address and length of the runs that the entries `first` to `end` - 1 lie in.

    None at all if there are too many.
    """
    runs: list[tuple[int, int]] = []
    start: i64 = -1
    reach: i64 = -1
    for entry_id in range(first, end):
        address: i64 = index.address(entry_id)
        if address < reach or address - reach > GAP_BYTES_MAX:
            if len(runs) == AHEAD_RUNS_MAX:
                return []
            if reach >= 0:
                runs.append((start, reach - start))
            start = address
        reach = address + HEAD_BYTES + index.length(entry_id)
    runs.append((start, reach - start))
    return runs
