"""Where entries and acks are kept, so that what was receipted is there after any crash."""

from magnetar.errors import (
    CatalogLossError,
    CorruptionError,
    DataDirectoryError,
    DirectoryInUseError,
    DiskError,
    DiskFullError,
    DiskShortageError,
    FormatVersionError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StoreClosedError,
    UnknownObjectError,
)
from magnetar.storage.catalog.catalog import Catalog
from magnetar.storage.catalog.catalog_mark import CatalogMark
from magnetar.storage.check import Violation, check
from magnetar.storage.cursor.cursor_log import CursorImage, SnapshotWriter
from magnetar.storage.disk.disk import Disk, FileDisk
from magnetar.storage.disk.memory_disk import MemoryDisk
from magnetar.storage.ledger.read_plan import ReadPlan, StoredEntry
from magnetar.storage.ledger.retention import LedgerInfo, Retention
from magnetar.storage.log.job import Job
from magnetar.storage.log.journal import Outcome
from magnetar.storage.options import ALWAYS, INTERVAL, NEVER, StoreOptions
from magnetar.storage.recovery import Cut
from magnetar.storage.store import Store, open_store

__all__ = [
    "ALWAYS",
    "INTERVAL",
    "NEVER",
    "Catalog",
    "CatalogLossError",
    "CatalogMark",
    "CorruptionError",
    "CursorImage",
    "Cut",
    "DataDirectoryError",
    "DirectoryInUseError",
    "Disk",
    "DiskError",
    "DiskFullError",
    "DiskShortageError",
    "FileDisk",
    "FormatVersionError",
    "Job",
    "LedgerInfo",
    "MemoryDisk",
    "Outcome",
    "ReadPlan",
    "Retention",
    "SnapshotWriter",
    "StorageError",
    "StorageFullError",
    "StorageReadOnlyError",
    "Store",
    "StoreClosedError",
    "StoreOptions",
    "StoredEntry",
    "UnknownObjectError",
    "Violation",
    "check",
    "open_store",
]
