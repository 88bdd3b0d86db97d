"""One counter for ledgers, topics and cursors, persisted ahead of use.

The file IDS names the first id that was never reserved. A block of ids is reserved by
writing the file, with a sync whatever the fsync mode, before the first of them is used;
opening a store begins a new block. So no id is ever given twice, even if a power cut took
the records that used it: that is I9.

    2049
    crc 1a2b3c4d        crc32c of the first line, begun from the store's salt

Without a whole file a store does not open. The log cannot stand in for it: ids whose
records were lost or failed were given away all the same, and no record shows them.
"""

from typing import Final, final

from magnetar.errors import CorruptionError
from magnetar.storage.disk import Disk
from magnetar.wire.checksum import crc32c

__all__ = ["IDS", "Ids", "encode_ids", "read_ids"]

IDS: Final = "IDS"
# A sync for every thousand ledgers; a restart wastes less than this many of 2**63.
BLOCK: Final = 1024
FIRST: Final = 1
BYTES_MAX: Final = 64


@final
class Ids:
    """Hands out ids; reserves the next block when one is used up."""

    def __init__(self, disk: Disk, first: int, salt: int) -> None:
        self._disk: Final = disk
        self._salt: Final = salt
        self._next: int = first
        self._end: int = first

    @property
    def last(self) -> int:
        """No id above this one was ever given."""
        return self._next - 1

    def take(self) -> int:
        if self._next == self._end:
            self.reserve()
        self._next += 1
        return self._next - 1

    def reserve(self) -> None:
        end = self._end + BLOCK
        self._disk.replace(IDS, encode_ids(end, self._salt))
        self._end = end


def encode_ids(first: int, salt: int) -> bytes:
    """The whole file."""
    line = f"{first}\n".encode()
    return line + f"crc {crc32c(line, salt):08x}\n".encode()


def read_ids(disk: Disk, salt: int, id_highest: int) -> int:
    """The first id that was never reserved; `id_highest` is the highest that is in use."""
    data = disk.read(IDS, 0, BYTES_MAX) if disk.size(IDS) >= 0 else b""
    line = data.partition(b"\n")[0]
    if not line.isdigit() or data != encode_ids(int(line), salt):
        raise CorruptionError(IDS, 0, "the file with the next id is missing or damaged")
    first = int(line)
    if first <= id_highest:
        raise CorruptionError(IDS, 0, f"id {id_highest} is in use and was never reserved")
    return first
