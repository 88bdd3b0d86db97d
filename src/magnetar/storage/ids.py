"""One counter for ledgers, topics and cursors, persisted ahead of use.

The file IDS names the first id that was never reserved. A block of ids is reserved by
writing the file, with a sync whatever the fsync mode, before the first of them is used;
opening a store begins a new block. So no id is ever given twice, even if a power cut took
the records that used it: that is I9.
"""

from typing import Final, final

from magnetar.errors import CorruptionError
from magnetar.storage.disk import Disk

__all__ = ["IDS", "Ids", "read_ids"]

IDS: Final = "IDS"
# A sync for every thousand ledgers; a restart wastes less than this many of 2**63.
BLOCK: Final = 1024
FIRST: Final = 1


@final
class Ids:
    """Hands out ids; reserves the next block when one is used up."""

    def __init__(self, disk: Disk, first: int) -> None:
        self._disk: Final = disk
        self._next: int = first
        self._end: int = first

    def first(self) -> int:
        """The next id that `take` will give."""
        return self._next

    def take(self) -> int:
        if self._next == self._end:
            self.reserve()
        self._next += 1
        return self._next - 1

    def reserve(self) -> None:
        end = self._end + BLOCK
        self._disk.replace(IDS, f"{end}\n".encode())
        self._end = end


def read_ids(disk: Disk) -> int:
    """The first id that was never reserved."""
    text = disk.read(IDS, 0, 32) if disk.size(IDS) >= 0 else b""
    try:
        first = int(text)
    except ValueError:
        raise CorruptionError(IDS, 0, "the file with the next id is missing or damaged") from None
    return first
