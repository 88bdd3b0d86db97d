"""A copy of a data directory, made while a broker writes to it.

The log only grows at its end, so any beginning of it is a state that a crash could have left,
and recovery knows what to make of it. What is copied is such a beginning, in this order:

    1. the catalog, through SQLite, which gives a state of its own choosing
    2. all segments are opened, at once: one that is reclaimed from now on stays readable
    3. the last segment is read, up to the last group that is whole; this is the moment of the
       copy, and everything that was durable before it began stands in front of that place
    4. if the catalog changed since 1, the same again, so that the two fit together
    5. the other segments, which nobody writes to any more, however long that takes
    6. IDS, which is never behind the log
    7. heads and index files are left out: they are derived, and made anew
    8. the copy is recovered, as a start would do it, every checksum is looked at, and only
       then it gets its FORMAT

A group that was being written while the last segment was read is not whole and is left out;
what follows it in the file, being younger still, is too. A group that is not whole when it is
looked at again, and others behind it are, is damage, and refused; or its entries are left out
and told of, if the operator says so (see `storage/mend.py`).
"""

import contextlib
import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from magnetar.cli.data.directory import NoDataDirectoryError, ReadOnlyDisk
from magnetar.errors import (
    CorruptionError,
    DirectoryInUseError,
    DiskError,
    DiskFullError,
)
from magnetar.storage import Catalog, FileDisk
from magnetar.storage.catalog.catalog import FILE as CATALOG
from magnetar.storage.data_format import FORMAT, PREFIX, read_salt, write_format
from magnetar.storage.disk.disk import LOCK
from magnetar.storage.disk.open_files import DIRECTORY_MODE, FILE_MODE
from magnetar.storage.ids import IDS, read_ids
from magnetar.storage.log.record import Record, address_of
from magnetar.storage.log.record_kind import LOST_DELTA
from magnetar.storage.log.scan import Scan
from magnetar.storage.log.segment import heads_path, segment_id_of, segment_path
from magnetar.storage.mend import mend
from magnetar.storage.recovery import Recovered, recover
from magnetar.storage.state import LogState

__all__ = ["LogCopy", "copy_file", "copy_others", "storing", "sync_folder"]

PIECE_BYTES: Final = 1 << 20
# Segments come and go while their list is read; the catalog changes now and then.
ATTEMPTS_MAX: Final = 50


class LogCopy:
    """Copies the directory `source`, which may be in use, to `target`, which is empty."""

    def __init__(self, source: Path, target: Path, *, skip_damaged: bool = False) -> None:
        self.source = source
        self.target = target
        self.skip_damaged = skip_damaged
        # The records that were damaged and left out, and what that means, once it has run.
        self.lost: list[Record] = []
        self.losses: list[str] = []
        self.salt = 0
        # Whether a broker has the source open.
        self.live = False
        self.bytes_total = 0
        self.attempts = 0
        # Names in the source that are links, and were left out.
        self.links: list[str] = []

    def run(self, advance: Callable[[int, int], None]) -> Recovered:
        """Makes the copy; `advance(done, total)` is told of the bytes.

        Raises DataDirectoryError, DiskError. What is in the target then is of no use.
        """
        with contextlib.ExitStack() as stack:
            self.salt = self._open(stack)
            self.target.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
            (self.target / "journal").mkdir(DIRECTORY_MODE)
            segments, last_id, last = self._moment(stack)
            with storing(self.target):
                _write(self.target / segment_path(last_id), last)
                older = sorted(id for id in segments if id < last_id)
                self.bytes_total = sum(os.fstat(segments[id]).st_size for id in older)
                done = 0
                for id in older:
                    for size in self._copy_segment(segments[id], id):
                        done += size
                        advance(done, self.bytes_total)
                sync_folder(self.target / "journal")
                copy_file(self.source / IDS, self.target / IDS)
                self.links = copy_others(self.source, self.target)
        return self._finish()

    def _open(self, stack: contextlib.ExitStack) -> int:
        """Returns the salt. Keeps brokers from starting, unless one runs already."""
        if not self.source.is_dir():
            raise NoDataDirectoryError(str(self.source), "there is no such directory")
        disk = ReadOnlyDisk(self.source)
        stack.callback(disk.close)
        if disk.size(FORMAT) < 0 or not disk.read(FORMAT, 0, 64).startswith(PREFIX.encode()):
            raise NoDataDirectoryError(str(self.source), f"it has no file {FORMAT} of magnetar")
        salt = read_salt(disk)
        assert salt is not None
        try:
            disk.lock()
        except DirectoryInUseError:
            self.live = True
        return salt

    # ---- The moment ----------------------------------------------------------

    def _moment(self, stack: contextlib.ExitStack) -> tuple[dict[int, int], int, bytes]:
        """Returns all segments, opened; the id of the last one, and its bytes."""
        while True:
            self.attempts += 1
            with contextlib.ExitStack() as attempt:
                catalog = _CatalogCopy(self.source, self.target, live=self.live)
                attempt.callback(catalog.close)
                segments = self._open_segments(attempt)
                if segments is None:
                    continue
                last_id, last = self._read_last(segments)
                if catalog.changed():
                    if self.attempts < ATTEMPTS_MAX:
                        continue
                    # It may be ahead of the log, but never behind.
                    _CatalogCopy(self.source, self.target, live=self.live).close()
                stack.push(attempt.pop_all())
                return segments, last_id, last

    def _open_segments(self, stack: contextlib.ExitStack) -> dict[int, int] | None:
        """Descriptors by id; None if one went away meanwhile."""
        segments: dict[int, int] = {}
        try:
            for name in os.listdir(self.source / "journal"):
                id = segment_id_of(name)
                if id > 0:
                    descriptor = _open(self.source / "journal" / name)
                    stack.callback(os.close, descriptor)
                    segments[id] = descriptor
        except FileNotFoundError:
            if self.attempts < ATTEMPTS_MAX and (self.source / "journal").is_dir():
                return None
            if not (self.source / "journal").is_dir():
                return {}
            raise
        except OSError as error:
            raise DiskError("read", "journal", error.strerror or str(error)) from error
        return segments

    def _read_last(self, segments: dict[int, int]) -> tuple[int, bytes]:
        """Returns the last segment that has something, up to its last whole group."""
        for id in sorted(segments, reverse=True):
            scan = self._whole_groups(segments[id], id)
            if scan.end:
                return id, scan.data[: scan.end]
        raise CorruptionError("journal", 0, "there is no segment with a header")

    def _whole_groups(self, descriptor: int, id: int) -> Scan:
        """Returns a scan that has come to the last whole group of a segment."""
        if self.skip_damaged and self._heads(id):  # nobody writes to it any more
            return self._scanned(self._mended(_read_all(descriptor), id), id)
        scan = self._scanned(_read_all(descriptor), id)
        if scan.tail().evidence <= address_of(id, scan.end):
            return scan
        # It was being written just now, or it is damaged: then it still is.
        again = self._scanned(_read_all(descriptor), id)
        if again.end > scan.end:
            return scan
        if self.skip_damaged:
            again = self._scanned(self._mended(again.data, id), id)
        if again.tail().evidence > address_of(id, again.end):
            reason = "a group that was durable once is damaged or missing"
            raise CorruptionError(segment_path(id), again.end, reason)
        return again

    def _scanned(self, data: bytes, id: int) -> Scan:
        scan = Scan(data, id, self.salt)
        while scan.next_group() is not None:
            pass
        return scan

    # ---- The others ----------------------------------------------------------

    def _copy_segment(self, descriptor: int, id: int) -> Iterator[int]:
        """Copies a segment that nobody writes to any more; says piece by piece how much."""
        target = self.target / segment_path(id)
        if not self.skip_damaged:
            yield from _copy(descriptor, target)
            return
        data = _read_all(descriptor)
        _write(target, self._mended(data, id, durable=address_of(id + 1, 0)))
        yield len(data)

    def _mended(self, data: bytes, id: int, *, durable: int = 0) -> bytes:
        mended = mend(data, self._heads(id), id, self.salt, durable=durable)
        self.lost += mended.lost
        return mended.data()

    def _heads(self, id: int) -> bytes:
        """Returns what the file of a segment's heads has; nothing if there is none."""
        try:
            descriptor = _open(self.source / heads_path(id))
        except OSError:
            return b""
        try:
            return _read_all(descriptor)
        finally:
            os.close(descriptor)

    # ---- The end -------------------------------------------------------------

    def _finish(self) -> Recovered:
        """Recovers the copy, and makes it a data directory. Raises CorruptionError."""
        disk = FileDisk(self.target)
        try:
            recovered = recover(disk, self.salt)
            read_ids(disk, self.salt, recovered.state.id_highest)
            self.losses = [text for one in self.lost if (text := _loss(recovered.state, one))]
            recovered.repair(disk, self.salt)
            write_format(disk, self.salt)
        finally:
            disk.close()
        return recovered


class _CatalogCopy:
    """The catalog, copied to the target; knows whether the source has changed since."""

    def __init__(self, source: Path, target: Path, *, live: bool) -> None:
        self._database: sqlite3.Connection | None = None
        self._version = 0
        for file in target.glob(f"{CATALOG}*"):
            file.unlink()  # of an earlier attempt
        if not (source / CATALOG).exists():
            return
        if (source / CATALOG).is_symlink():
            raise DiskError("copy", CATALOG, "it is a symbolic link")
        try:
            if live:
                self._copy_live(source / CATALOG, target / CATALOG)
            else:
                self._copy_files(source, target)
        except sqlite3.Error as error:
            raise DiskError("copy", CATALOG, str(error)) from error
        with storing(target), (target / CATALOG).open("rb") as copied:
            os.fsync(copied.fileno())

    def _copy_live(self, source: Path, target: Path) -> None:
        self._database = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)
        self._version = self._data_version()
        _fresh(target).close()
        with contextlib.closing(sqlite3.connect(target)) as copy:
            self._database.backup(copy)

    def _copy_files(self, source: Path, target: Path) -> None:
        """Nobody has it open: the files are all of it, and opening them here would write."""
        with storing(target):
            for file in source.glob(f"{CATALOG}*"):
                if not file.name.endswith("-shm"):
                    copy_file(file, target / file.name)
        Catalog(target).close()  # moves what is in its log into the file

    def changed(self) -> bool:
        return self._database is not None and self._data_version() != self._version

    def _data_version(self) -> int:
        assert self._database is not None
        return int(self._database.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        if self._database is not None:
            self._database.close()


def _loss(state: LogState, record: Record) -> str:
    """Returns what is missing without a damaged record; empty if nobody misses it."""
    if record.kind == LOST_DELTA:
        cursor = state.cursors.get(record.id)
        if cursor is None:
            return ""
        topic = state.topics[cursor.topic_id].name
        return f"acks of {cursor.name} of {topic}: messages will be delivered again"
    ledger = state.ledgers.get(record.id)
    if ledger is None or ledger.index.address(record.sub_id) != record.address:
        return ""
    return f"entry {record.id}:{record.sub_id} of {state.topics[ledger.topic_id].name}"


def copy_others(source: Path, target: Path) -> list[str]:
    """Files that are not the store's, such as keys; returns the links, which are left out.

    A link may lead to a file that whoever put it there cannot read.
    """
    ours = (FORMAT, LOCK, IDS)
    links: list[str] = []
    for file in sorted(source.iterdir()):
        if file.is_symlink():
            links.append(file.name)
        elif file.is_file() and file.name not in ours and not file.name.startswith(CATALOG):
            copy_file(file, target / file.name)
    return links


def copy_file(source: Path, target: Path) -> None:
    """Copies a file that is one and no link, for the eyes of the owner alone."""
    descriptor = _open(source)
    try:
        for _ in _copy(descriptor, target):
            pass
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Opens a file for reading. Raises OSError if it is a link."""
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)


def _fresh(path: Path) -> BinaryIO:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, FILE_MODE)
    return os.fdopen(descriptor, "wb")


@contextlib.contextmanager
def storing(target: Path) -> Iterator[None]:
    """Turns what the system says of files of the target into errors of ours."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        path = str(error.filename or target)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFullError("write to", path, reason) from error
        raise DiskError("copy", path, reason) from error


def sync_folder(folder: Path) -> None:
    """Syncs a folder, so that the names in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int) -> bytes:
    return _read(descriptor, os.fstat(descriptor).st_size)


def _read(descriptor: int, size: int) -> bytes:
    pieces: list[bytes] = []
    at = 0
    while at < size:
        piece = os.pread(descriptor, min(PIECE_BYTES, size - at), at)
        if not piece:
            break
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)


def _write(target: Path, data: bytes) -> None:
    with _fresh(target) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _copy(descriptor: int, target: Path) -> Iterator[int]:
    """Copies a file, and says piece by piece how much."""
    at = 0
    with _fresh(target) as file:
        while piece := os.pread(descriptor, PIECE_BYTES, at):
            file.write(piece)
            at += len(piece)
            yield len(piece)
        file.flush()
        os.fsync(file.fileno())
