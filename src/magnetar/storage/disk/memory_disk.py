"""A disk made of bytearrays: the memory store is the file store on top of it."""

import os

from magnetar.errors import DirectoryInUseError, DiskError, DiskFullError
from magnetar.storage.disk.disk import Disk

__all__ = ["MemoryDisk"]

CAPACITY_DEFAULT = 1 << 40


class MemoryDisk(Disk):
    """Files that live as long as this object; closing the disk keeps them.

    `capacity` bounds the sum of all files, as a real disk would. Threads share it: what goes
    through all files goes through a copy of the list of them. `salt` is what `random_u32` says,
    for those who want it the same each time.
    """

    def __init__(self, *, capacity: int = CAPACITY_DEFAULT, salt: int | None = None) -> None:
        self.files: dict[str, bytearray] = {}
        self.capacity = capacity
        self._salt = int.from_bytes(os.urandom(4), "little") if salt is None else salt
        self._locked = False

    def lock(self) -> None:
        if self._locked:
            raise DirectoryInUseError("memory", "this one")
        self._locked = True

    def names(self, folder: str) -> list[str]:
        prefix = f"{folder}/" if folder else ""
        found = (path[len(prefix) :] for path in list(self.files) if path.startswith(prefix))
        return sorted(name for name in found if "/" not in name)

    def size(self, path: str) -> int:
        return len(self.files[path]) if path in self.files else -1

    def create(self, path: str, size: int) -> None:
        self._need("create", path, size - len(self.files.get(path, b"")))
        self.files[path] = bytearray(size)

    def write(self, path: str, offset: int, data: bytes, *, sync: bool) -> None:
        file = self._file("write to", path)
        end = offset + len(data)
        if end > len(file):
            self._need("write to", path, end - len(file))
            file.extend(bytes(end - len(file)))
        file[offset:end] = data

    def sync(self, path: str) -> None:
        self._file("sync", path)

    def truncate(self, path: str, size: int) -> None:
        file = self._file("truncate", path)
        if size > len(file):
            self._need("truncate", path, size - len(file))
            file.extend(bytes(size - len(file)))
        else:
            del file[size:]

    def replace(self, path: str, data: bytes) -> None:
        self._need("replace", path, len(data))
        self.files[path] = bytearray(data)

    def rename(self, source: str, target: str) -> None:
        self.files[target] = self._file("rename", source)
        del self.files[source]

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def sync_names(self) -> None:
        pass  # names are as durable as all else here

    def read(self, path: str, offset: int, size: int) -> bytes:
        return bytes(self._file("read", path)[offset : offset + size])

    def map(self, path: str) -> memoryview:
        return memoryview(bytes(self._file("map", path)))

    def free_bytes(self) -> int:
        return max(self.capacity - self.used_bytes(), 0)

    def used_bytes(self) -> int:
        return sum(len(file) for file in list(self.files.values()))

    def random_u32(self) -> int:
        return self._salt

    def close(self) -> None:
        self._locked = False

    def _file(self, operation: str, path: str) -> bytearray:
        try:
            return self.files[path]
        except KeyError:
            raise DiskError(operation, path, "No such file or directory") from None

    def _need(self, operation: str, path: str, size: int) -> None:
        if size > self.free_bytes():
            raise DiskFullError(operation, path, "No space left on device")
