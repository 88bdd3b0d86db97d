"""The only file of the house that touches the operating system's files.

`Disk` is the seam: a directory of files with the few operations that a log needs, each
with a promise about what survives a power cut. `FileDisk` keeps it with system calls;
`MemoryDisk` needs no promise; the tests' `FaultyDisk` breaks every one that a real disk
may break.

Paths are relative to the data directory and use slashes. Every operation may be called
from any thread, but no two at once on one file.

What runs out for a while (descriptors, memory) is told from all else: `DiskShortageError`
promises that nothing was done, so that whoever asked may ask again. Whatever a write or a
sync itself says is never that, for nobody knows what it did.
"""

import contextlib
import errno
import fcntl
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

from magnetar.errors import DirectoryInUseError, DiskError, DiskFullError, DiskShortageError
from magnetar.storage.disk.descriptors import DescriptorShares
from magnetar.storage.disk.open_files import (
    DIRECTORY_MODE,
    FILE_MODE,
    OUT_OF_DESCRIPTORS,
    OpenFiles,
)

__all__ = ["Disk", "FileDisk", "descriptor_limit"]

LOCK = "LOCK"
# What the system lacks for a while.
SHORTAGES = (*OUT_OF_DESCRIPTORS, errno.ENOMEM)
# What a process without a limit counts as having.
DESCRIPTORS_UNLIMITED = 1 << 20
# Linux can be told what will be read, and asked for what it has in memory.
CAN_TELL_AHEAD = hasattr(os, "posix_fadvise") and hasattr(os, "RWF_NOWAIT")
# Of places read together one in this many is looked for in memory, before the disk is told of
# the others. A wrong guess costs as many reads one after the other, about a millisecond.
LOOK_EVERY = 16
# Of larger ones the disk is told at once.
LOOK_BYTES_MAX = 16 * 1024
# Linux by default fetches no more than this when it is told of more.
TELL_BYTES_MAX = 128 * 1024
PAGE_BYTES: Final = 4096
# Linux's default is 65,530 for all that a process maps.
MAPS_MAX: Final = 1 << 16


class Disk(ABC):
    """A directory of files, and what survives a power cut.

    Operations raise `DiskError`; `DiskFullError` if there was no space, `DiskShortageError` if
    nothing was done and it may be asked again.
    """

    @abstractmethod
    def lock(self) -> None:
        """Takes the directory for this process, or raises `DirectoryInUseError`."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Returns the names of the files in a folder, sorted; none if there is no such folder."""

    @abstractmethod
    def size(self, path: str) -> int:
        """Returns the length of a file, or -1 if there is none."""

    @abstractmethod
    def create(self, path: str, size: int) -> None:
        """Makes a file of `size` zero bytes whose space is set aside. Survives."""

    @abstractmethod
    def write(self, path: str, offset: int, data: bytes, *, sync: bool) -> None:
        """Writes all of `data`. Survives if `sync`, and otherwise after the next `sync`."""

    @abstractmethod
    def sync(self, path: str) -> None:
        """Whatever was written to the file before survives after this."""

    @abstractmethod
    def truncate(self, path: str, size: int) -> None:
        """Cuts the file. Survives, with all that was written before."""

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """Makes `data` the whole content of the file, all or nothing. Survives."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Survives."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Survives; a file that is not there is removed already."""

    @abstractmethod
    def sync_names(self) -> None:
        """Makes the names of all files durable: a change that failed may have been done."""

    @abstractmethod
    def read(self, path: str, offset: int, size: int) -> bytes:
        """Returns the bytes there, fewer where the file ends."""

    def read_many(self, places: list[tuple[str, int, int]]) -> list[bytes]:
        """Returns the bytes at each (path, offset, size), read as much at once as the disk
        allows."""
        return list(self.stream(places))

    def stream(
        self, places: list[tuple[str, int, int]], ahead: Sequence[tuple[str, int, int]] = ()
    ) -> Iterator[bytes]:
        """Yields what `read_many` returns, one by one, and fetches the next while one is used.

        The places `ahead` will be asked for next; that is a hint.
        """
        for path, offset, size in places:
            yield self.read(path, offset, size)

    @abstractmethod
    def map(self, path: str) -> memoryview:
        """Returns the file's content, mapped and not copied.

        The file is not written to any more.
        """

    def maps_max(self) -> int:
        """Returns how many files may be mapped at a time."""
        return MAPS_MAX

    @abstractmethod
    def free_bytes(self) -> int:
        """Returns how much a process may still write."""

    @abstractmethod
    def random_u32(self) -> int:
        """Returns a number that differs from one data directory to the next."""

    @abstractmethod
    def close(self) -> None:
        """Gives the directory back."""


class FileDisk(Disk):
    """A directory of the file system.

    `open_files_max` bounds the files kept open; untold it is a share of what the process may
    have.
    """

    def __init__(self, directory: Path | str, *, open_files_max: int = 0) -> None:
        self.directory: Path = Path(directory)
        self._files = OpenFiles(self.directory, open_files_max or _open_files_max())
        self._lock_file = -1

    def lock(self) -> None:
        try:
            self.directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            descriptor = os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT, FILE_MODE)
        except OSError as error:
            _refuse("open", str(self.directory), error)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            raise DirectoryInUseError(str(self.directory), holder or "unknown") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._lock_file = descriptor

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self.directory / folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            _refuse("list", folder, error)

    def size(self, path: str) -> int:
        try:
            return os.stat(self.directory / path).st_size
        except FileNotFoundError:
            return -1
        except OSError as error:
            _refuse("look at", path, error)

    def create(self, path: str, size: int) -> None:
        target = self.directory / path
        with self._directory_of("create", path) as folder:
            try:
                with _fresh(target) as descriptor:
                    _allocate(descriptor, size)
                    _sync_file(descriptor)
                os.fsync(folder)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.unlink(target)
                _refuse("create", path, error)

    def write(self, path: str, offset: int, data: bytes, *, sync: bool) -> None:
        with self._use("write to", path) as descriptor:
            written = _write_some(descriptor, data, offset, sync=sync)
            while written < len(data):
                written += _write_some(descriptor, data[written:], offset + written, sync=sync)

    def sync(self, path: str) -> None:
        with self._use("sync", path) as descriptor:
            _sync_file(descriptor)

    def truncate(self, path: str, size: int) -> None:
        with self._use("truncate", path) as descriptor:
            os.ftruncate(descriptor, size)
            _sync_file(descriptor)

    def replace(self, path: str, data: bytes) -> None:
        target = self.directory / path
        scratch = target.with_name(target.name + ".tmp")
        with self._directory_of("replace", path) as folder:
            try:
                with _fresh(scratch) as descriptor:
                    _write_all(descriptor, data)
                    _sync_file(descriptor)
                self._files.forget(path)
                os.rename(scratch, target)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.unlink(scratch)
                _refuse("replace", path, error)
            self._sync_name("replace", path, folder)

    def rename(self, source: str, target: str) -> None:
        with self._directory_of("rename", target) as folder:
            try:
                self._files.forget(source)
                self._files.forget(target)
                os.rename(self.directory / source, self.directory / target)
            except OSError as error:
                _refuse("rename", source, error)
            self._sync_name("rename", source, folder)

    def remove(self, path: str) -> None:
        if not (self.directory / path).parent.is_dir():
            return
        with self._directory_of("remove", path) as folder:
            try:
                self._files.forget(path)
                os.unlink(self.directory / path)
            except FileNotFoundError:
                return
            except OSError as error:
                _refuse("remove", path, error)
            self._sync_name("remove", path, folder)

    def sync_names(self) -> None:
        folders = [entry for entry in self.directory.iterdir() if entry.is_dir()]
        for folder in [self.directory, *sorted(folders)]:
            try:
                _sync_directory(folder)
            except OSError as error:
                _refuse("sync", str(folder), error)

    @contextlib.contextmanager
    def _directory_of(self, operation: str, path: str) -> Iterator[int]:
        """The folder of a file, made if need be, as a descriptor to sync it with.

        It is opened before anything is changed in it, so that no descriptor is wanted after.
        """
        folder = (self.directory / path).parent
        try:
            if not folder.is_dir():
                folder.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
                _sync_directory(folder.parent)
            descriptor = self._open_to_read(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            _refuse(operation, path, error)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_to_read(self, path: Path, flags: int) -> int:
        while True:
            try:
                return os.open(path, flags)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self._files.make_room():
                    raise

    def _sync_name(self, operation: str, path: str, folder: int) -> None:
        """Makes a name durable that was given or taken away. What fails here was done, though."""
        try:
            os.fsync(folder)
        except OSError as error:
            raise DiskError(operation, path, error.strerror or str(error)) from error

    @contextlib.contextmanager
    def _use(self, operation: str, path: str) -> Iterator[int]:
        """An open file to change. Only opening it can be short of something for the moment."""
        with contextlib.ExitStack() as stack:
            try:
                descriptor = stack.enter_context(self._files.use(path))
            except OSError as error:
                _refuse(operation, path, error)
            try:
                yield descriptor
            except OSError as error:
                _refuse_changed(operation, path, error)

    def read(self, path: str, offset: int, size: int) -> bytes:
        try:
            with self._files.use(path) as descriptor:
                return _read_all(descriptor, offset, size)
        except OSError as error:
            _refuse("read", path, error)

    def stream(
        self, places: list[tuple[str, int, int]], ahead: Sequence[tuple[str, int, int]] = ()
    ) -> Iterator[bytes]:
        """Yields the bytes at each place; what the kernel does not have in memory is read ahead."""
        # A single one is mostly the next of many in sequence, which the kernel foresees.
        if len(places) < 2 or not CAN_TELL_AHEAD:
            yield from super().stream(places)
            return
        path = ""
        try:
            with contextlib.ExitStack() as stack:
                files: dict[str, int] = {}
                for path in {place[0] for place in (*places, *ahead)}:
                    files[path] = stack.enter_context(self._files.use(path))
                yield from _stream(
                    [(files[p], offset, size) for p, offset, size in places],
                    [(files[p], offset, size) for p, offset, size in ahead],
                )
        except OSError as error:
            _refuse("read", path, error)

    def map(self, path: str) -> memoryview:
        try:
            descriptor = self._open_to_read(self.directory / path, os.O_RDONLY)
            try:
                # A page in memory is a page, mapped or not; and a map keeps a descriptor.
                size = os.fstat(descriptor).st_size
                if size <= PAGE_BYTES:
                    return memoryview(_read_all(descriptor, 0, size))
                return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
            finally:
                os.close(descriptor)
        except OSError as error:
            _refuse("map", path, error)

    def maps_max(self) -> int:
        """Returns a share of the descriptors, which maps keep, and of the maps that there may
        be."""
        return min(DescriptorShares(descriptor_limit()).maps, _map_count_max() // 4)

    def free_bytes(self) -> int:
        try:
            stats = os.statvfs(self.directory)
        except OSError as error:
            _refuse("measure", str(self.directory), error)
        return stats.f_bavail * stats.f_frsize

    def random_u32(self) -> int:
        return int.from_bytes(os.urandom(4), "little")

    def close(self) -> None:
        self._files.close()
        if self._lock_file >= 0:
            os.close(self._lock_file)
            self._lock_file = -1

    def __del__(self) -> None:
        # Whoever only looked, or gave it up, keeps no descriptors.
        self.close()


def descriptor_limit() -> int:
    """Returns how many files and connections this process may have open at once."""
    try:
        import resource
    except ImportError:
        return DESCRIPTORS_UNLIMITED  # Windows has no such limit
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DESCRIPTORS_UNLIMITED if soft == resource.RLIM_INFINITY else soft


def _map_count_max() -> int:
    """Returns how many maps the system lets a process have."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return MAPS_MAX  # not Linux, or it does not tell


def _open_files_max() -> int:
    return DescriptorShares(descriptor_limit()).files


def _refuse(operation: str, path: str, error: OSError) -> NoReturn:
    """Raises the error as one of ours, of something that did nothing."""
    if error.errno in SHORTAGES:
        raise DiskShortageError(operation, path, error.strerror or str(error)) from error
    _refuse_changed(operation, path, error)


def _refuse_changed(operation: str, path: str, error: OSError) -> NoReturn:
    """Raises the error as one of ours, of something that may have done a part of it."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise DiskFullError(operation, path, reason) from error
    raise DiskError(operation, path, reason) from error


@contextlib.contextmanager
def _fresh(path: Path) -> Iterator[int]:
    """A new and empty file, open for writing."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, FILE_MODE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(descriptor, data[written:], written)


def _allocate(descriptor: int, size: int) -> None:
    if size == 0:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)


def _write_some(descriptor: int, data: bytes, offset: int, *, sync: bool) -> int:
    """Writes, and returns how much; with one call that also syncs where there is one, for that
    gives the GIL up once."""
    if not sync:
        return os.pwrite(descriptor, data, offset)
    if hasattr(os, "RWF_DSYNC"):
        return os.pwritev(descriptor, [data], offset, os.RWF_DSYNC)
    written = os.pwrite(descriptor, data, offset)
    _sync_file(descriptor)
    return written


def _read_all(descriptor: int, offset: int, size: int) -> bytes:
    data = os.pread(descriptor, size, offset)
    while len(data) < size:
        # Linux reads at most 2 GiB at a time, and a read may be cut short.
        more = os.pread(descriptor, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def _stream(
    places: list[tuple[int, int, int]], ahead: list[tuple[int, int, int]]
) -> Iterator[bytes]:
    """Once one is not in memory, the disk is told of all that follow before it is waited for.

    Telling it of what is in memory already costs 0.6 us, looking first 2 us, and 60 us if it
    is not there; so of small places one in a few is looked at, of large ones none.
    """
    told = False
    for i, (descriptor, offset, size) in enumerate(places):
        if not told and i % LOOK_EVERY == 0 and not _known_in_memory(descriptor, offset, size):
            told = True
            for place in places[i:]:
                os.posix_fadvise(*place, os.POSIX_FADV_WILLNEED)
        if i == 0:
            for place in ahead:
                _tell_ahead(*place)
        yield _read_all(descriptor, offset, size)


def _tell_ahead(descriptor: int, offset: int, size: int) -> None:
    end = offset + size
    for first in range(offset, end, TELL_BYTES_MAX):
        count = min(TELL_BYTES_MAX, end - first)
        os.posix_fadvise(descriptor, first, count, os.POSIX_FADV_WILLNEED)


def _known_in_memory(descriptor: int, offset: int, size: int) -> bool:
    """Returns whether the kernel says that it has the first byte there at hand."""
    if size > LOOK_BYTES_MAX:
        return False
    try:
        os.preadv(descriptor, [bytearray(1)], offset, os.RWF_NOWAIT)
    except OSError:
        # It has not, or the file system cannot tell. Reading shows whatever else it may be.
        return False
    return True


def _sync_file(descriptor: int) -> None:
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is not None:
        # On macOS fsync stops at the drive's own cache.
        fcntl.fcntl(descriptor, full_sync)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
