"""Names, policies, schemas and tokens: few, small, and looked at by people; in SQLite.

A catalog is a set of key spaces, each a map from text to JSON text. It is written rarely,
so every change is a transaction of its own that survives a power cut. What is written
often is in the log, and the two refer to each other by id only.

Each change also moves the catalog's mark (see `catalog_mark.py`), in the same transaction.
Opening a catalog goes through all entries and compares.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from magnetar.errors import (
    CatalogLossError,
    DiskError,
    DiskFullError,
    FormatVersionError,
    StorageError,
)
from magnetar.storage.catalog.catalog_mark import DIGEST_MASK, CatalogMark, item_digest
from magnetar.storage.disk.open_files import FILE_MODE

__all__ = ["Catalog"]

FILE: Final = "catalog.sqlite"
# The second version has the mark.
VERSION: Final = 2
# A damaged file may hand out texts that are none, in its rows and in its messages.
ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
SCHEMA: Final = """
CREATE TABLE item (
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL CHECK (json_valid(value)),
    PRIMARY KEY (space, key)
) WITHOUT ROWID
"""
MARK_SCHEMA: Final = """
CREATE TABLE mark (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    generation INTEGER NOT NULL,
    digest TEXT NOT NULL
)
"""


class Catalog:
    """Key spaces of JSON texts. Without a directory it lives in memory.

    >>> catalog = Catalog()
    >>> catalog.put("policies", "public/default", '{"ttl": 60}')
    >>> catalog.get("policies", "public/default"), catalog.get("policies", "other")
    ('{"ttl": 60}', None)
    >>> catalog.close()
    """

    def __init__(self, directory: Path | None = None, *, file: str = FILE) -> None:
        self.file: Path | None = None if directory is None else directory / file
        self._path = str(self.file or ":memory:")
        self.mark: CatalogMark = CatalogMark()
        # Called after every change that was made.
        self.on_change: Callable[[], None] | None = None
        try:
            if self.file is not None:
                _touch(self.file)
        except OSError as error:
            raise DiskError("open", self._path, error.strerror or str(error)) from error
        try:
            self._database = sqlite3.connect(self._path, isolation_level=None)
        except ERRORS as error:
            raise self._refusal("open", error) from error
        try:
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._prepare()
        except BaseException as error:
            self._database.close()
            if isinstance(error, ERRORS):
                raise self._refusal("open", error) from error
            raise

    # ---- Opening -------------------------------------------------------------

    def _prepare(self) -> None:
        found = self._database.execute("PRAGMA user_version").fetchone()[0]
        if found == VERSION:
            self._verify()
        elif found == 1:
            self._begin(self._sum())
        elif found == 0:
            self._begin(0, SCHEMA)
        else:
            raise FormatVersionError(f"{found} (catalog)", VERSION)

    def _begin(self, digest: int, *schema: str) -> None:
        """Makes the tables that are missing, with a mark for what is there."""
        self.mark = CatalogMark(0, digest)
        self._database.execute("BEGIN IMMEDIATE")
        for table in (*schema, MARK_SCHEMA):
            self._database.execute(table)
        self._database.execute("INSERT INTO mark VALUES (1, 0, ?)", (f"{digest:032x}",))
        self._database.execute(f"PRAGMA user_version = {VERSION}")
        self._database.execute("COMMIT")

    def _verify(self) -> None:
        rows = self._database.execute("SELECT generation, digest FROM mark").fetchall()
        if len(rows) != 1:
            raise CatalogLossError(f"{self._path} has no mark")
        try:
            self.mark = CatalogMark(int(rows[0][0]), int(rows[0][1], 16))
        except (TypeError, ValueError) as error:
            raise CatalogLossError(f"the mark in {self._path} is damaged") from error
        if self._sum() != self.mark.digest:
            raise CatalogLossError(f"entries in {self._path} are not what was written")

    def _sum(self) -> int:
        """Returns the digest of all entries, from all entries."""
        rows = self._database.execute("SELECT space, key, value FROM item")
        return sum(item_digest(str(s), str(k), str(v)) for s, k, v in rows) & DIGEST_MASK

    def advance(self, known: CatalogMark) -> None:
        """Takes the catalog as it is for the next one after `known`, whatever was lost."""
        self._write(CatalogMark(max(self.mark.generation, known.generation) + 1, self.mark.digest))

    # ---- Entries -------------------------------------------------------------

    def get(self, space: str, key: str) -> str | None:
        """Returns the value, or None if there is none."""
        query = "SELECT value FROM item WHERE space = ? AND key = ?"
        rows = self._rows("read", query, (space, key))
        return str(rows[0][0]) if rows else None

    def put(self, space: str, key: str, value: str) -> None:
        """Sets the value, which is JSON text."""
        self._change(space, key, value, self.get(space, key))

    def add(self, space: str, key: str, value: str) -> bool:
        """Sets the value unless the key has one; False if it has."""
        if self.get(space, key) is not None:
            return False
        self._change(space, key, value, None)
        return True

    def delete(self, space: str, key: str) -> bool:
        """Removes the key; False if it was not there."""
        before = self.get(space, key)
        if before is not None:
            self._change(space, key, None, before)
        return before is not None

    def _change(self, space: str, key: str, value: str | None, before: str | None) -> None:
        removed = 0 if before is None else item_digest(space, key, before)
        added = 0 if value is None else item_digest(space, key, value)
        if value is None:
            query, values = "DELETE FROM item WHERE space = ? AND key = ?", [space, key]
        else:
            query, values = "INSERT OR REPLACE INTO item VALUES (?, ?, ?)", [space, key, value]
        self._write(self.mark.changed(removed=removed, added=added), query, values)

    def _write(self, mark: CatalogMark, query: str = "", values: Iterable[str] = ()) -> None:
        """Writes one change and the mark that it makes, both or neither."""
        try:
            self._database.execute("BEGIN IMMEDIATE")
            if query:
                self._database.execute(query, tuple(values))
            moved = (mark.generation, f"{mark.digest:032x}")
            self._database.execute("UPDATE mark SET generation = ?, digest = ?", moved)
            self._database.execute("COMMIT")
        except ERRORS as error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise self._refusal("write to", error) from error
        self.mark = mark
        if self.on_change is not None:
            self.on_change()

    def items(self, space: str, prefix: str = "") -> list[tuple[str, str]]:
        """Keys that begin with `prefix` and their values, in order of the keys."""
        query = "SELECT key, value FROM item WHERE space = ? AND substr(key, 1, ?) = ? ORDER BY key"
        rows = self._rows("read", query, (space, len(prefix), prefix))
        return [(str(key), str(value)) for key, value in rows]

    def problems(self) -> list[str]:
        """Returns what SQLite finds wrong with the file; `DiskError` if it cannot even look."""
        rows = self._rows("check", "PRAGMA integrity_check")
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def close(self) -> None:
        self._database.close()

    def _rows(
        self, operation: str, query: str, values: Iterable[str | int] = ()
    ) -> list[tuple[object, ...]]:
        """Returns all rows at once: SQLite may find the damage at any of them."""
        try:
            return self._database.execute(query, tuple(values)).fetchall()
        except ERRORS as error:
            raise self._refusal(operation, error) from error

    def _refusal(self, operation: str, error: BaseException) -> StorageError:
        if isinstance(error, UnicodeDecodeError):
            return DiskError(operation, self._path, "the catalog is damaged: a text is not UTF-8")
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            return DiskFullError(operation, self._path, str(error))
        return DiskError(operation, self._path, str(error))


def _touch(path: Path) -> None:
    """SQLite would make a file that others can read, and its other files after that one."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE))
