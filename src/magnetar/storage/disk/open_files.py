"""Descriptors that stay open between calls: a bounded number, none closed while in use.

The process may have no descriptor left because somebody else has them all. Then files that
are only kept at hand make room for the one that is wanted now.
"""

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

__all__ = ["DIRECTORY_MODE", "FILE_MODE", "OUT_OF_DESCRIPTORS", "OpenFiles"]

# Messages are nobody's business but the broker's.
DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class OpenFiles:
    """See the module."""

    def __init__(self, directory: Path, count_max: int) -> None:
        self._directory = directory
        self._count_max = count_max
        self._guard = threading.Lock()
        self._descriptors: dict[str, int] = {}
        self._users: dict[int, int] = {}
        self._closing: set[int] = set()

    @contextlib.contextmanager
    def use(self, path: str) -> Iterator[int]:
        with self._guard:
            descriptor = self._descriptors.get(path, -1)
            if descriptor < 0:
                descriptor = self._open(path)
            self._users[descriptor] = self._users.get(descriptor, 0) + 1
        try:
            yield descriptor
        finally:
            with self._guard:
                self._users[descriptor] -= 1
                if descriptor in self._closing:
                    self._close(descriptor)

    def forget(self, path: str) -> None:
        """Forgets a name that will mean another file, or none."""
        with self._guard:
            descriptor = self._descriptors.pop(path, -1)
            if descriptor >= 0:
                self._close(descriptor)

    def close(self) -> None:
        with self._guard:
            for descriptor in self._descriptors.values():
                self._close(descriptor)
            self._descriptors.clear()

    def _open(self, path: str) -> int:
        if len(self._descriptors) >= self._count_max:
            self._close_oldest()
        while True:
            try:
                descriptor = self._open_some_way(path)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS or not self._close_idle():
                    raise
            else:
                self._descriptors[path] = descriptor
                return descriptor

    def _open_some_way(self, path: str) -> int:
        # Whoever may only read, or mounted it so, can still look at a directory.
        try:
            return os.open(self._directory / path, os.O_RDWR)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            return os.open(self._directory / path, os.O_RDONLY)

    def _close_oldest(self) -> None:
        self._close(self._descriptors.pop(next(iter(self._descriptors))))

    def _close_idle(self) -> bool:
        """Closes a file that nobody uses at present; False if there is none."""
        for path, descriptor in self._descriptors.items():
            if not self._users.get(descriptor, 0):
                del self._descriptors[path]
                self._close(descriptor)
                return True
        return False

    def make_room(self) -> bool:
        """Gives a descriptor back for something else; False if there is none to give."""
        with self._guard:
            return self._close_idle()

    def _close(self, descriptor: int) -> None:
        if self._users.get(descriptor, 0):
            self._closing.add(descriptor)
            return
        self._closing.discard(descriptor)
        self._users.pop(descriptor, None)
        os.close(descriptor)
