"""A disk that forgets what it never promised to keep, and fails when the seed says so.

The files are in memory, and with them what was written since the last sync. `crash` gives
the disk as the next process finds it:

    kill -9      all that was written is there; the kernel had it, and it is still unsynced
    power loss   each write that no sync covered is there, or not, or in part (by sectors of
                 512 bytes); an operation that was under way is done, or not, or half

Faults that a store must survive, drawn from the seed with the shares of `DiskFaults`, or
asked for by name:

    stall        `stall_s`: a job takes very long; it is for `SimWriter` to ask and to wait
    ENOSPC       `fill`: for some operations nothing that takes space succeeds, and a write
                 has begun before it fails; `capacity` is the lasting kind
    EMFILE,      `shorten`: some operations do nothing for want of descriptors or memory, and
    ENFILE,      say so
    ENOMEM
    bit rot      `flip`: a byte that was durable is another one; a store must not survive it in
                 silence, that is all that can be asked
    EIO on sync  `fail_sync`: what the sync should have made durable can still be read by this
                 process, and is gone for the next one, whatever is synced later, as on Linux
    power loss   `lose_power_after`: in the middle of the n-th operation from now

Not here, because no store on one disk survives it: loss of what a sync confirmed. A rename
is all or nothing, and so is a directory entry; the journal of the file system sees to that.

A disk that crashed is dead: whatever a process that does not know it yet asks of it raises
`ProcessKilled`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from magnetar.errors import DiskError, DiskFullError, DiskShortageError
from magnetar.storage.disk.memory_disk import MemoryDisk
from magnetar.testing.sim.process import ProcessKilled

__all__ = ["DiskFaults", "PowerLost", "SimDisk", "put", "put_torn"]

SECTOR: Final = 512
CAPACITY: Final = 1 << 40
# EMFILE, ENFILE, ENOMEM.
SHORTAGES: Final = (
    "Too many open files",
    "Too many open files in system",
    "Cannot allocate memory",
)


class PowerLost(ProcessKilled):
    """The machine stopped in the middle of an operation."""


@dataclass(frozen=True)
class DiskFaults:
    """How often what goes wrong, as shares of operations; nothing by default."""

    stall_share: float = 0.0
    stall_s_max: float = 20.0
    full_share: float = 0.0
    full_operations_max: int = 20
    short_share: float = 0.0
    short_operations_max: int = 20
    sync_error_share: float = 0.0


# What becomes of a write when the power goes.
OPEN: Final = "open"
DURABLE: Final = "durable"
DOOMED: Final = "doomed"  # its sync failed: it can be read, and no later sync confirms it


@dataclass
class _Write:
    """A write since the file was last known to be durable as a whole."""

    offset: int
    data: bytes
    before: bytes
    size_before: int
    fate: str


class SimDisk(MemoryDisk):
    """A disk in memory that loses what was not synced when power fails.

    >>> disk = SimDisk(Random(1))
    >>> disk.replace("kept", b"old")
    >>> disk.write("kept", 0, b"new", sync=False)
    >>> disk.crash(Random(2), power_loss=False).read("kept", 0, 3)
    b'new'
    """

    def __init__(
        self,
        random: Random,
        *,
        faults: DiskFaults | None = None,
        capacity: int = CAPACITY,
        note: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(capacity=capacity, salt=random.getrandbits(32))
        self.faults: DiskFaults = faults or DiskFaults()
        self.operations: int = 0
        self.dead: bool = False
        # Called when the power goes by itself, before the operation is left.
        self.on_power_lost: Callable[[], object] | None = None
        self._random: Final = random
        self._note: Final = note
        self._unsynced: dict[str, list[_Write]] = {}
        self._power_until = -1
        self._full_until = 0
        self._short_until = 0
        self._sync_fails = False
        self._settle_fails = False
        # Files whose new content has its name by chance only: what was there before, if anything.
        self.names_unsynced: dict[str, bytearray | None] = {}

    # ---- Faults --------------------------------------------------------------

    def crash(self, random: Random, *, power_loss: bool = True) -> "SimDisk":
        """Returns the disk as the next process finds it; this one is dead."""
        self.dead = True
        after = type(self)(
            self._random, faults=self.faults, capacity=self.capacity, note=self._note
        )
        after._salt = self._salt
        for path, content in sorted(self.files.items()):
            writes = self._unsynced.get(path, [])
            if power_loss:
                after.files[path] = _what_is_left(content, writes, random)
            else:
                after.files[path] = _without_doomed(content, writes)
                after._unsynced[path] = [w for w in writes if w.fate != DOOMED]
        if power_loss:
            self._forget_names(after, random)
        else:
            after.names_unsynced = dict(self.names_unsynced)
        return after

    def _forget_names(self, after: "SimDisk", random: Random) -> None:
        """What was to take a name may not have it any more."""
        for path, before in sorted(self.names_unsynced.items()):
            if random.random() < 0.5:
                continue
            if before is None:
                after.files.pop(path, None)
            else:
                after.files[path] = bytearray(before)

    def copied(self) -> "SimDisk":
        """Returns another disk with copies of the files; this one goes on."""
        copy = type(self)(self._random, capacity=self.capacity, note=self._note)
        for path, content in sorted(self.files.items()):
            copy.files[path] = bytearray(content)
        return copy

    def fill(self, operations: int) -> None:
        """For so many operations there is no space."""
        self._full_until = self.operations + operations

    def shorten(self, operations: int) -> None:
        """For so many operations there are no descriptors, or there is no memory."""
        self._short_until = self.operations + operations

    def fail_sync(self) -> None:
        """Has the next sync fail."""
        self._sync_fails = True

    def fail_settle(self) -> None:
        """The next file that is replaced is, but a power cut may bring the old one back."""
        self._settle_fails = True

    def lose_power_after(self, operations: int) -> None:
        """Has the power go in the middle of the n-th operation from now."""
        assert operations > 0
        self._power_until = self.operations + operations

    def keep_power(self) -> None:
        """Nothing comes of the power cut that was to be."""
        self._power_until = -1

    def stall_s(self) -> float:
        """Returns how long the next job is held up, in seconds; mostly not at all."""
        if self.faults.stall_share and self._random.random() < self.faults.stall_share:
            seconds = self._random.random() * self.faults.stall_s_max
            self._tell(f"stalls for {seconds:.6f} s")
            return seconds
        return 0.0

    def unsynced_bytes(self) -> int:
        """Returns how much a power cut may take at present."""
        writes = (write for writes in self._unsynced.values() for write in writes)
        return sum(len(write.data) for write in writes if write.fate != DURABLE)

    def flip(self, path: str, offset: int, bit: int = 0) -> None:
        """Damages a byte."""
        self.files[path][offset] ^= 1 << bit

    # ---- Operations ----------------------------------------------------------

    def lock(self) -> None:
        self._require_power()
        super().lock()

    def create(self, path: str, size: int) -> None:
        lost = self._begin("create", path, takes_space=True)
        if not lost or self._half():
            super().create(path, 0 if lost and self._half() else size)
            self._unsynced.pop(path, None)
        self._finish(lost)

    def write(self, path: str, offset: int, data: bytes, *, sync: bool) -> None:
        lost = self._next(
            f"writes {path} at {offset}: {len(data)} bytes{' sync' * sync}", "write to", path
        )
        full = self._is_full()
        if lost or full:
            data = data[: int(self._random.random() * (len(data) + 1))]
        if sync and not (lost or full) and self._is_sync_error():
            # The data were in memory; neither they nor what waited with them ever get out.
            self._apply(path, offset, data, OPEN)
            self._doom(path)
            raise DiskError("sync", path, "Input/output error")
        self._apply(path, offset, data, DURABLE if sync and not (lost or full) else OPEN)
        self._finish(lost)
        if full:
            raise DiskFullError("write to", path, "No space left on device")

    def sync(self, path: str) -> None:
        lost = self._next(f"syncs {path}", "sync", path)
        super().sync(path)
        if lost:
            self._finish(lost)
        if self._is_sync_error():
            self._doom(path)
            raise DiskError("sync", path, "Input/output error")
        self._confirm(path)

    def truncate(self, path: str, size: int) -> None:
        lost = self._next(f"truncates {path} to {size}", "truncate", path)
        if not lost and self._is_sync_error():
            self._doom(path)
            raise DiskError("sync", path, "Input/output error")
        if not lost or self._half():
            super().truncate(path, size)
            self._unsynced.pop(path, None)
        self._finish(lost)

    def replace(self, path: str, data: bytes) -> None:
        lost = self._begin("replace", path, takes_space=True)
        if not lost:
            before = self.files.get(path)
            super().replace(path, data)
            self._unsynced.pop(path, None)
            if self._settle_fails:
                self._settle_fails = False
                self.names_unsynced.setdefault(path, before)
                raise DiskError("replace", path, "Input/output error")
            self.names_unsynced.pop(path, None)
            return
        # It is written beside the old one and then takes its name.
        if self._half():
            super().replace(path, data)
            self._unsynced.pop(path, None)
        elif self._half():
            self.files[path + ".tmp"] = bytearray(data[: int(self._random.random() * len(data))])
        self._finish(lost)

    def rename(self, source: str, target: str) -> None:
        lost = self._begin("rename", source, takes_space=False)
        if not lost or self._half():
            super().rename(source, target)
            self._unsynced.pop(target, None)
            if source in self._unsynced:
                self._unsynced[target] = self._unsynced.pop(source)
        self._finish(lost)

    def remove(self, path: str) -> None:
        lost = self._begin("remove", path, takes_space=False)
        if not lost or self._half():
            super().remove(path)
            self._unsynced.pop(path, None)
        self._finish(lost)

    def sync_names(self) -> None:
        self._require_power()
        self.names_unsynced.clear()

    def read(self, path: str, offset: int, size: int) -> bytes:
        self._require_power()
        return super().read(path, offset, size)

    def map(self, path: str) -> memoryview:
        self._require_power()
        return super().map(path)

    # ---- How it is kept ------------------------------------------------------

    def _apply(self, path: str, offset: int, data: bytes, fate: str) -> None:
        size_before = self.size(path)
        before = bytes(self.files[path][offset : offset + len(data)]) if size_before >= 0 else b""
        super().write(path, offset, data, sync=False)
        writes = self._unsynced.get(path)
        # A durable write matters only to what lies under or over it.
        if fate != DURABLE or writes:
            write = _Write(offset, data, before, size_before, fate)
            self._unsynced.setdefault(path, []).append(write)

    def _confirm(self, path: str) -> None:
        writes = self._unsynced.get(path, [])
        if not any(write.fate == DOOMED for write in writes):
            self._unsynced.pop(path, None)
        for write in writes:
            if write.fate == OPEN:
                write.fate = DURABLE

    def _doom(self, path: str) -> None:
        """After a failed sync the kernel takes the pages for clean, and never writes them."""
        for write in self._unsynced.get(path, []):
            if write.fate == OPEN:
                write.fate = DOOMED

    # ---- When ----------------------------------------------------------------

    def _begin(self, operation: str, path: str, *, takes_space: bool) -> bool:
        lost = self._next(f"{operation} {path}", operation, path)
        if takes_space and not lost and self._is_full():
            raise DiskFullError(operation, path, "No space left on device")
        return lost

    def _next(self, what: str, operation: str, path: str) -> bool:
        """Counts an operation; True if the power goes in it."""
        self._require_power()
        self.operations += 1
        self._tell(what)
        lost = self.operations == self._power_until
        if not lost and self._is_short():
            reason = SHORTAGES[self.operations % len(SHORTAGES)]
            raise DiskShortageError(operation, path, reason)
        return lost

    def _is_short(self) -> bool:
        faults = self.faults
        if faults.short_share and self._random.random() < faults.short_share:
            self.shorten(1 + int(self._random.random() * faults.short_operations_max))
        return self.operations <= self._short_until

    def _finish(self, lost: bool) -> None:
        if lost:
            self.dead = True
            self._tell("power lost")
            if self.on_power_lost is not None:
                self.on_power_lost()
            raise PowerLost

    def _is_full(self) -> bool:
        faults = self.faults
        if faults.full_share and self._random.random() < faults.full_share:
            self.fill(1 + int(self._random.random() * faults.full_operations_max))
        return self.operations <= self._full_until

    def _is_sync_error(self) -> bool:
        share = self.faults.sync_error_share
        if self._sync_fails or (share and self._random.random() < share):
            self._sync_fails = False
            self._tell("sync fails")
            return True
        return False

    def _half(self) -> bool:
        return self._random.random() < 0.5

    def _require_power(self) -> None:
        if self.dead:
            raise PowerLost

    def _tell(self, what: str) -> None:
        if self._note is not None:
            self._note(what)


def _what_is_left(content: bytearray, writes: list[_Write], random: Random) -> bytearray:
    """Returns the file after a power cut: back to what is certain, then chance for each write."""
    left = _before_all(content, writes)
    for write in writes:
        chance = random.randrange(3) if write.fate == OPEN else int(write.fate == DURABLE)
        if chance == 1:
            put(left, write.offset, write.data)
        elif chance == 2:
            put_torn(left, write.offset, write.data, random)
    return left


def _without_doomed(content: bytearray, writes: list[_Write]) -> bytearray:
    left = _before_all(content, writes)
    for write in writes:
        if write.fate != DOOMED:
            put(left, write.offset, write.data)
    return left


def _before_all(content: bytearray, writes: list[_Write]) -> bytearray:
    left = bytearray(content)
    for write in reversed(writes):
        _undo(left, write)
    return left


def _undo(content: bytearray, write: _Write) -> None:
    content[write.offset : write.offset + len(write.before)] = write.before
    del content[max(write.size_before, 0) :]


def put(content: bytearray, offset: int, data: bytes) -> None:
    """Writes into a file, which grows as far as it must."""
    end = offset + len(data)
    if end > len(content):
        content.extend(bytes(end - len(content)))
    content[offset:end] = data


def put_torn(content: bytearray, offset: int, data: bytes, random: Random) -> None:
    """Some sectors of the write made it. Sectors are where they are, not where it began."""
    first = 0
    while first < len(data):
        end = min(first + SECTOR - (offset + first) % SECTOR, len(data))
        if random.random() < 0.5:
            put(content, offset + first, data[first:end])
        first = end
