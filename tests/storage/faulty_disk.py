"""A disk that breaks every promise that a real one may break.

Faults that the store must survive, and how they are made here:

    writes lost, torn or reordered       `crash`: of the writes that no sync covered, each one
                                         survives whole, in part (by 512-byte sectors) or not
                                         at all, in any order
    at every point                       `cut_at`: the power goes in the n-th operation; a
                                         write may have begun by then
    short writes, then no space          `full_from`, `full_until`: operations that take space
                                         fail in between, writes after a part of their data
    no descriptors, or no memory         `short_from`, `short_until`: operations in between do
                                         nothing and say so
    no space in any file but the spares  `capacity`: as on a real disk, preallocated space
                                         stays writable
    EIO on sync                          `sync_error_at`: the n-th sync of a segment fails, and
                                         what it should have made durable is dropped, as Linux
                                         does
    EIO on anything else                 `broken`: what creates, replaces, renames or removes
                                         a file fails
    bit flips                            `flip`

Faults that it does not make, because no store on one disk survives them: loss of what a
sync confirmed (the store must notice it, which `flip` and removed files show), and a torn
rename or directory entry, which the file system's own journal prevents.
"""

from random import Random

from magnetar.storage import DiskError, DiskFullError, DiskShortageError, MemoryDisk
from magnetar.testing.sim.disk import put, put_torn


class PowerCut(Exception):
    """The machine stopped in the middle of an operation."""


class FaultyDisk(MemoryDisk):
    """Files in memory, with a second picture of what a power cut would leave of them."""

    def __init__(self, *, capacity: int = 1 << 40) -> None:
        super().__init__(capacity=capacity)
        self.durable: dict[str, bytearray] = {}
        self.pending: dict[str, list[tuple[int, bytes]]] = {}
        self.operations = 0
        self.syncs = 0
        self.cut_at = -1
        self.full_from = -1
        self.full_until = -1
        self.short_from = -1
        self.short_until = -1
        self.broken = False
        self.sync_error_at = -1
        self.random = Random(0)

    # ---- Operations ----------------------------------------------------------

    def create(self, path: str, size: int) -> None:
        self._begin("create", path)
        super().create(path, size)
        self._settle(path)

    def write(self, path: str, offset: int, data: bytes, *, sync: bool) -> None:
        cut, full = self._next("write to", path)
        if cut or full:
            data = data[: self.random.randrange(len(data) + 1)]
        super().write(path, offset, data, sync=False)
        self.pending.setdefault(path, []).append((offset, data))
        if cut:
            raise PowerCut
        if full:
            raise DiskFullError("write to", path, "No space left on device")
        if sync:
            self._sync_fails(path)
            self.pending[path].pop()
            put(self.durable[path], offset, data)

    def sync(self, path: str) -> None:
        self._begin("sync", path, takes_space=False)
        self._sync_fails(path)
        for offset, data in self.pending.pop(path, []):
            put(self.durable[path], offset, data)

    def truncate(self, path: str, size: int) -> None:
        self._begin("truncate", path, takes_space=False)
        self._sync_fails(path)
        super().truncate(path, size)
        self._settle(path)

    def replace(self, path: str, data: bytes) -> None:
        self._begin("replace", path)
        super().replace(path, data)
        self._settle(path)

    def rename(self, source: str, target: str) -> None:
        self._begin("rename", source, takes_space=False)
        super().rename(source, target)
        self.durable[target] = self.durable.pop(source)
        self.pending[target] = self.pending.pop(source, [])

    def remove(self, path: str) -> None:
        self._begin("remove", path, takes_space=False)
        super().remove(path)
        self.durable.pop(path, None)
        self.pending.pop(path, None)

    # ---- Faults --------------------------------------------------------------

    def crash(self, random: Random) -> "FaultyDisk":
        """The disk as the next process finds it after a power cut."""
        after = FaultyDisk(capacity=self.capacity)
        for path, content in self.durable.items():
            left = bytearray(content)
            writes = list(self.pending.get(path, []))
            random.shuffle(writes)
            for offset, data in writes:
                fate = random.randrange(3)
                if fate == 1:
                    put(left, offset, data)
                elif fate == 2:
                    put_torn(left, offset, data, random)
            after.files[path] = left
            after.durable[path] = bytearray(left)
        return after

    def kill(self) -> "FaultyDisk":
        """The disk as the next process finds it after kill -9: the kernel still has it all."""
        after = FaultyDisk(capacity=self.capacity)
        for path, content in self.files.items():
            after.files[path] = bytearray(content)
            after.durable[path] = bytearray(self.durable[path])
            after.pending[path] = list(self.pending.get(path, []))
        return after

    def flip(self, path: str, offset: int, bit: int = 0) -> None:
        for content in (self.files[path], self.durable[path]):
            if offset < len(content):
                content[offset] ^= 1 << bit

    # ---- When ----------------------------------------------------------------

    def _next(self, operation: str, path: str) -> tuple[bool, bool]:
        self.operations += 1
        if self.short_from <= self.operations < self.short_until:
            raise DiskShortageError(operation, path, "Too many open files")
        cut = self.operations == self.cut_at
        full = self.full_from <= self.operations < self.full_until
        return cut, full

    def _begin(self, operation: str, path: str, *, takes_space: bool = True) -> None:
        cut, full = self._next(operation, path)
        if cut:
            raise PowerCut
        if self.broken and operation in ("create", "replace", "rename", "remove"):
            raise DiskError(operation, path, "Input/output error")
        if full and takes_space:
            raise DiskFullError(operation, path, "No space left on device")

    def _sync_fails(self, path: str) -> None:
        self.syncs += path.endswith(".log")
        if path.endswith(".log") and self.syncs == self.sync_error_at:
            self.pending.pop(path, None)
            raise DiskError("sync", path, "Input/output error")

    def _settle(self, path: str) -> None:
        self.pending.pop(path, None)
        self.durable[path] = bytearray(self.files[path])
