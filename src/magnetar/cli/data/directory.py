"""A data directory, looked at and left as it is.

`open_store` writes before it answers: it takes a block of ids, cuts what was not durable,
begins a segment. Here a directory is only read, by the same `recover` that a start uses, so
what is shown is what a broker would find. The disk underneath refuses every change.

The directory is locked against brokers, not against other readers; the lock is taken on the
file that is there, and nothing is written into it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Final, NoReturn

from pyroaring import BitMap

from magnetar.ack import AckDelta, Cursor, Ledgers, decode_delta, decode_snapshot
from magnetar.errors import (
    CorruptionError,
    DataDirectoryError,
    DirectoryInUseError,
    DiskError,
)
from magnetar.storage import FileDisk
from magnetar.storage.cursor.cursor_load import StoredBatchSizes
from magnetar.storage.data_format import FORMAT, PREFIX, read_salt
from magnetar.storage.disk.disk import LOCK
from magnetar.storage.log.record import HEAD_BYTES, offset_of, record_intact, segment_of
from magnetar.storage.log.segment import segment_path
from magnetar.storage.recovery import Recovered, recover
from magnetar.storage.state import CursorState, LogState, Places, TopicState
from magnetar.storage.state_record import decode_aborted
from magnetar.storage.transaction.transaction_state import OpenTransaction

__all__ = ["DataDirectory", "NoDataDirectoryError", "ReadOnlyDisk", "open_directory", "open_disk"]


class NoDataDirectoryError(DataDirectoryError):
    """There is nothing there that Magnetar wrote."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory = directory
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.directory} is not a data directory: {self.reason}"


class ReadOnlyDisk(FileDisk):
    """The files of a directory; whatever would change one is refused."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._open_path = ""
        self._open_file: BufferedReader | None = None
        self._lock_shared = -1

    def lock(self) -> None:
        """Keeps brokers out while this disk is open, and raises if one is in."""
        try:
            self._lock_shared = os.open(self.directory / LOCK, os.O_RDONLY)
        except FileNotFoundError:
            return  # a copy of a directory need not have one
        except OSError as error:
            raise DiskError("open", LOCK, error.strerror or str(error)) from error
        try:
            fcntl.flock(self._lock_shared, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._lock_shared, 32).decode(errors="replace").strip()
            raise DirectoryInUseError(str(self.directory), holder or "unknown") from None

    def read(self, path: str, offset: int, size: int) -> bytes:
        try:
            if self._open_file is None or self._open_path != path:
                self._forget()
                # Kept for the next read, which is mostly of the same file.
                self._open_file = open(self.directory / path, "rb")  # noqa: SIM115
                self._open_path = path
            self._open_file.seek(offset)
            return self._open_file.read(size)
        except OSError as error:
            raise DiskError("read", path, error.strerror or str(error)) from error

    def read_many(self, places: list[tuple[str, int, int]]) -> list[bytes]:
        return [self.read(path, offset, size) for path, offset, size in places]

    def close(self) -> None:
        self._forget()
        if self._lock_shared >= 0:
            os.close(self._lock_shared)
            self._lock_shared = -1
        super().close()

    def _forget(self) -> None:
        if self._open_file is not None:
            self._open_file.close()
            self._open_file = None

    def create(self, path: str, size: int) -> None:
        _forbid("create", path)

    def write(self, path: str, offset: int, data: bytes, *, sync: bool) -> None:
        _forbid("write to", path)

    def sync(self, path: str) -> None:
        _forbid("sync", path)

    def truncate(self, path: str, size: int) -> None:
        _forbid("truncate", path)

    def replace(self, path: str, data: bytes) -> None:
        _forbid("replace", path)

    def rename(self, source: str, target: str) -> None:
        _forbid("rename", source)

    def remove(self, path: str) -> None:
        _forbid("remove", path)


def _forbid(operation: str, path: str) -> NoReturn:
    raise DiskError(operation, path, "it is open for reading only")


class DataDirectory:
    """What a start would find in a directory."""

    def __init__(self, disk: ReadOnlyDisk, salt: int, recovered: Recovered) -> None:
        self.disk: Final = disk
        self.salt: Final = salt
        self.recovered: Final = recovered
        self.sizes: Final = StoredBatchSizes(recovered.state)

    @property
    def state(self) -> LogState:
        return self.recovered.state

    def topics(self) -> list[TopicState]:
        """Returns all topics, by name."""
        return sorted(self.state.topics.values(), key=lambda topic: (topic.name, topic.id))

    def ledgers(self, topic: TopicState) -> Ledgers:
        """Returns what the topic's cursors must know of it."""
        ledgers = Ledgers(self.sizes)
        first = self.state.transactions.first_open(topic.ledger_ids)
        for ledger_id in topic.ledger_ids:
            count = self.state.ledgers[ledger_id].index.count()
            if first is not None and ledger_id >= first.ledger_id:
                # From there on nothing may be seen: it is of an open transaction, or behind it.
                count = first.entry_id if ledger_id == first.ledger_id else 0
            ledgers.add(ledger_id, count)
            ledgers.void(ledger_id, self.aborted(ledger_id))
        return ledgers

    def aborted(self, ledger_id: int) -> BitMap:
        """Returns the entries of a ledger whose transactions were aborted."""
        ledger = self.state.ledgers[ledger_id]
        if ledger.aborted_address < 0:
            return BitMap()
        return decode_aborted(self.body(ledger.aborted_address, ledger.aborted_size))

    def transactions(self) -> list[OpenTransaction]:
        """Returns the transactions that are open, oldest first."""
        return list(self.state.transactions.open.values())

    def owner(self, transaction: OpenTransaction) -> str:
        """Returns the role that opened a transaction. Raises CorruptionError."""
        return self.body(transaction.address, transaction.size).decode(errors="replace")

    def pending(self, transaction: OpenTransaction) -> Iterator[tuple[int, AckDelta]]:
        """Returns what a transaction acks, each with its cursor.

        Raises CorruptionError, CorruptAckError.
        """
        for cursor_id, places in transaction.acks.items():
            for address, size in places:
                delta = decode_delta(self.body(address, size))
                if not isinstance(delta, AckDelta):
                    path, offset = segment_path(segment_of(address)), offset_of(address)
                    raise CorruptionError(path, offset, "an ack of a transaction is no ack")
                yield cursor_id, delta

    def cursor(self, cursor_id: int, ledgers: Ledgers) -> Cursor:
        """Returns a cursor as its last snapshot and the deltas behind it make it.

        Raises CorruptionError, CorruptAckError.
        """
        stored: CursorState = self.state.cursors[cursor_id]
        cursor = decode_snapshot(b"".join(self._bodies(stored.slices)), ledgers)
        for delta in self._bodies(stored.deltas):
            cursor.apply(decode_delta(delta))
        return cursor

    def _bodies(self, places: Places) -> Iterator[bytes]:
        for address, size in zip(places.addresses, places.sizes, strict=True):
            yield self.body(address, size, "a record of a cursor is damaged")

    def body(self, address: int, size: int, reason: str = "a record is damaged") -> bytes:
        """Returns what stands in a record. Raises CorruptionError."""
        path, offset = segment_path(segment_of(address)), offset_of(address)
        data = self.disk.read(path, offset, size)
        if len(data) != size or not record_intact(data, self.salt):
            raise CorruptionError(path, offset, reason)
        return data[HEAD_BYTES:]


@contextmanager
def open_disk(path: Path) -> Iterator[tuple[ReadOnlyDisk, int]]:
    """The disk of a data directory of this version that nobody writes to, and its salt."""
    if not path.is_dir():
        raise NoDataDirectoryError(str(path), "there is no such directory")
    disk = ReadOnlyDisk(path)
    try:
        if disk.size(FORMAT) < 0:
            raise NoDataDirectoryError(str(path), f"it has no file {FORMAT}")
        if not disk.read(FORMAT, 0, len(PREFIX)).startswith(PREFIX.encode()):
            raise NoDataDirectoryError(str(path), f"its file {FORMAT} is not of magnetar")
        salt = read_salt(disk)
        assert salt is not None
        disk.lock()
        yield disk, salt
    finally:
        disk.close()


@contextmanager
def open_directory(path: Path) -> Iterator[DataDirectory]:
    """Looks at a data directory; raises `DataDirectoryError` and never changes anything."""
    with open_disk(path) as (disk, salt):
        yield DataDirectory(disk, salt, recover(disk, salt))
