"""Names, policies, schemas and tokens: few, small, and looked at by people; in SQLite.

A catalog is a set of key spaces, each a map from text to JSON text. It is written rarely,
so every change is a transaction of its own that survives a power cut. What is written
often is in the log, and the two refer to each other by id only.
"""

import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from magnetar.errors import DiskError, DiskFullError, FormatVersionError, StorageError
from magnetar.storage.open_files import FILE_MODE

__all__ = ["Catalog"]

FILE: Final = "catalog.sqlite"
VERSION: Final = 1
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


class Catalog:
    """Key spaces of JSON texts. Without a directory it lives in memory.

    >>> catalog = Catalog()
    >>> catalog.put("policies", "public/default", '{"ttl": 60}')
    >>> catalog.get("policies", "public/default"), catalog.get("policies", "other")
    ('{"ttl": 60}', None)
    >>> catalog.close()
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._path = ":memory:" if directory is None else str(directory / FILE)
        try:
            if directory is not None:
                _touch(directory / FILE)
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
        except ERRORS as error:
            self._database.close()
            raise self._refusal("open", error) from error

    def _prepare(self) -> None:
        found = self._database.execute("PRAGMA user_version").fetchone()[0]
        if found == VERSION:
            return
        if found != 0:
            self._database.close()
            raise FormatVersionError(f"{found} (catalog)", VERSION)
        self._database.execute("BEGIN IMMEDIATE")
        self._database.execute(SCHEMA)
        self._database.execute(f"PRAGMA user_version = {VERSION}")
        self._database.execute("COMMIT")

    def get(self, space: str, key: str) -> str | None:
        """The value, or None if there is none."""
        query = "SELECT value FROM item WHERE space = ? AND key = ?"
        rows = self._rows("read", query, (space, key))
        return str(rows[0][0]) if rows else None

    def put(self, space: str, key: str, value: str) -> None:
        """Sets the value, which is JSON text."""
        query = "INSERT OR REPLACE INTO item VALUES (?, ?, ?)"
        self._run("write to", query, (space, key, value))

    def add(self, space: str, key: str, value: str) -> bool:
        """Sets the value unless the key has one; False if it has."""
        query = "INSERT OR IGNORE INTO item VALUES (?, ?, ?)"
        return self._run("write to", query, (space, key, value)).rowcount == 1

    def delete(self, space: str, key: str) -> bool:
        """Removes the key; False if it was not there."""
        query = "DELETE FROM item WHERE space = ? AND key = ?"
        return self._run("write to", query, (space, key)).rowcount == 1

    def items(self, space: str, prefix: str = "") -> list[tuple[str, str]]:
        """Keys that begin with `prefix` and their values, in order of the keys."""
        query = "SELECT key, value FROM item WHERE space = ? AND substr(key, 1, ?) = ? ORDER BY key"
        rows = self._rows("read", query, (space, len(prefix), prefix))
        return [(str(key), str(value)) for key, value in rows]

    def problems(self) -> list[str]:
        """What SQLite finds wrong with the file; `DiskError` if it cannot even look."""
        rows = self._rows("check", "PRAGMA integrity_check")
        return [str(row[0]) for row in rows if row[0] != "ok"]

    def close(self) -> None:
        self._database.close()

    def _run(self, operation: str, query: str, values: Iterable[str | int]) -> sqlite3.Cursor:
        try:
            return self._database.execute(query, tuple(values))
        except ERRORS as error:
            raise self._refusal(operation, error) from error

    def _rows(
        self, operation: str, query: str, values: Iterable[str | int] = ()
    ) -> list[tuple[object, ...]]:
        """All rows at once: SQLite may find the damage at any of them."""
        try:
            return self._database.execute(query, tuple(values)).fetchall()
        except ERRORS as error:
            raise self._refusal(operation, error) from error

    def _refusal(self, operation: str, error: Exception) -> StorageError:
        if isinstance(error, UnicodeDecodeError):
            return DiskError(operation, self._path, "the catalog is damaged: a text is not UTF-8")
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            return DiskFullError(operation, self._path, str(error))
        return DiskError(operation, self._path, str(error))


def _touch(path: Path) -> None:
    """SQLite would make a file that others can read, and its other files after that one."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE))
