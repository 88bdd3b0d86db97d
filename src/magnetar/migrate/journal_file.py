"""The file that a move writes down what it has done in: `plan/journal.py` says what."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final

from magnetar.errors import SettingsError
from magnetar.migrate.plan.journal import Progress, event

__all__ = ["JournalFile"]


class JournalFile:
    """One move at a time has it; each line is on the disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        """Raises SettingsError for a file that cannot be used, or is no journal."""
        self.path: Final = path
        self.progress: Final = Progress(str(path))
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SettingsError("--journal", f"cannot use {path}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            whole = self.progress.take_all(path.read_text("ascii", "replace"))
            os.ftruncate(self._file, whole)
            os.lseek(self._file, 0, os.SEEK_END)
        except BlockingIOError:
            os.close(self._file)
            raise SettingsError("--journal", f"{path} is of a move that is under way") from None
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> "JournalFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._file)

    def begin(self, source: str, target: str) -> None:
        """Raises SettingsError if it is the journal of another move."""
        self.progress.require(source, target)
        if not self.progress.begun:
            self.write("begun", source=source, target=target)

    def write(self, what: str, topic: str = "", **fields: object) -> None:
        """Writes an event, and takes it."""
        line = event(what, topic, **fields)
        os.write(self._file, line.encode())
        os.fsync(self._file)
        self.progress.take_all(line)
