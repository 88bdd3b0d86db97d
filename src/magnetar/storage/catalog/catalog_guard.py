"""The catalog of a directory, held against what the journal knows of it.

`open_catalog` refuses a catalog that is missing, older or damaged, and says what can be done.
The last copy that was found in order is kept beside it (`copy_catalog`), to be copied back by
hand, or taken where an operator accepts a loss.

| told to accept a loss, and | is taken                                              |
|----------------------------|-------------------------------------------------------|
| the catalog can be read    | that one, though older                                |
| it cannot, the copy can    | the copy                                              |
| neither can                | a new one: tenants, policies and permissions are gone |

What cannot be read stays under another name. The next generation follows the one that was lost,
so that an old catalog cannot come back later.
"""

import contextlib
import logging
import os
import sqlite3
from pathlib import Path
from typing import Final

from magnetar.errors import CatalogLossError, DiskError
from magnetar.storage.catalog.catalog import FILE, Catalog
from magnetar.storage.catalog.catalog_mark import CatalogMark
from magnetar.storage.disk.open_files import FILE_MODE

__all__ = ["COPY", "copy_catalog", "open_catalog"]

log: logging.Logger = logging.getLogger("magnetar.storage")

COPY: Final = FILE + ".good"
DAMAGED: Final = FILE + ".damaged"
# What belongs to a database besides its file.
SUFFIXES: Final = ("", "-wal", "-shm")


def open_catalog(
    directory: Path, known: CatalogMark | None, *, accept_loss: bool = False
) -> Catalog:
    """Returns the catalog; `known` is what the journal says. Raises CatalogLossError, DiskError."""
    try:
        return _require(directory, known)
    except CatalogLossError as lost:
        if not accept_loss:
            raise CatalogLossError(lost.reason, _advice(directory, known)) from lost
        log.warning("going on after a loss, as told: %s", lost.reason)
        return _what_is_left(directory, known or CatalogMark())


def _require(directory: Path, known: CatalogMark | None) -> Catalog:
    if known is not None and not (directory / FILE).exists():
        raise CatalogLossError(f"{FILE} is missing, and the journal knows one")
    catalog = _readable(directory, FILE)
    reason = "" if known is None else catalog.mark.follows(known)
    if reason:
        catalog.close()
        raise CatalogLossError(f"{FILE} is not the last one: {reason}")
    return catalog


def _readable(directory: Path, file: str) -> Catalog:
    """Returns a catalog whose entries are those that were written, of whatever generation."""
    try:
        return Catalog(directory, file=file)
    except DiskError as error:
        raise CatalogLossError(f"{file} cannot be read: {error.reason}") from error


def _advice(directory: Path, known: CatalogMark | None) -> str:
    mark = _mark_of_copy(directory)
    if mark is None:
        return ""
    behind = 0 if known is None else known.generation - mark.generation
    loses = "nothing" if behind <= 0 else f"the last {behind} changes"
    return f"or copy {COPY} over {FILE} and remove {FILE}-wal, which loses {loses},"


def _mark_of_copy(directory: Path) -> CatalogMark | None:
    if not (directory / COPY).exists():
        return None
    try:
        with contextlib.closing(_readable(directory, COPY)) as copy:
            return copy.mark
    except CatalogLossError:
        return None


def _what_is_left(directory: Path, known: CatalogMark) -> Catalog:
    try:
        catalog = _readable(directory, FILE)
    except CatalogLossError:
        _rename(directory / FILE, directory / DAMAGED)
        if _mark_of_copy(directory) is not None:
            _rename(directory / COPY, directory / FILE)
        catalog = Catalog(directory)
    catalog.advance(known)
    return catalog


def _rename(source: Path, target: Path) -> None:
    """Renames a database, over another if need be."""
    for suffix in SUFFIXES:
        target.with_name(target.name + suffix).unlink(missing_ok=True)
    for suffix in SUFFIXES:
        with contextlib.suppress(FileNotFoundError):
            os.rename(
                source.with_name(source.name + suffix), target.with_name(target.name + suffix)
            )


def copy_catalog(file: Path) -> None:
    """Keeps a copy of the catalog that is in use, if it is in order. For any thread.

    Raises CatalogLossError, DiskError.
    """
    scratch = file.with_name(COPY + ".tmp")
    try:
        for suffix in SUFFIXES:
            scratch.with_name(scratch.name + suffix).unlink(missing_ok=True)
        os.close(os.open(scratch, os.O_RDWR | os.O_CREAT, FILE_MODE))
        with (
            contextlib.closing(
                sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
            ) as db,
            contextlib.closing(sqlite3.connect(scratch)) as copy,
        ):
            db.backup(copy)
        Catalog(file.parent, file=scratch.name).close()  # which looks at every entry
        with scratch.open("rb") as copied:
            os.fsync(copied.fileno())
        _rename(scratch, file.with_name(COPY))
    except (sqlite3.Error, OSError) as error:
        raise DiskError("copy", str(file), str(error)) from error
