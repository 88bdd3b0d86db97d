"""One counter for ledgers, topics and cursors, persisted ahead of use.

No id is given twice, and that holds over all stores there are (I9): a saved message id, an
ack or a Spark offset outlives the store that it was given for, and must not name another
message in the next one. Nobody can ask the other stores, so ids are taken from the time:

    id = (milliseconds since 2024 * IDS_PER_MS + count) * STRIPES + stripe

| when                                   | what keeps ids apart                              |
|----------------------------------------|---------------------------------------------------|
| a store goes on                        | it counts, and IDS is written ahead of use        |
| it is opened again, whatever the clock | it begins at what IDS says, or later              |
| a new store, a copy, a restored backup | each open jumps to its own millisecond, and no    |
|                                        | store uses up 32,000 ids a second in the meantime |
| two are opened in one millisecond      | each open draws a stripe, one of 128                |
| copies are opened by a clock that is   | each open leaves out ids besides, how many it     |
| behind what IDS says                   | draws: up to 262,144                              |

What is left: two stores opened within a millisecond that draw the same stripe (1 in 128), or
a clock that was wrong by just so much; and a running process that is cloned with its memory.

Ids stay below 2**53, which JSON and JavaScript need, as long as the clock is before
September 2093. A clock beyond that, or before 2024, counts as the nearer of the two ends.

The file IDS names the first id that was never reserved. A block of ids is reserved by
writing the file, with a sync whatever the fsync mode, before the first of them is used;
opening a store begins a new block. So no id is given twice even if a power cut took the
records that used it.

    23253891571713
    crc 1a2b3c4d        crc32c of the first line, begun from the store's salt

Without a whole file a store does not open. The log cannot stand in for it: ids whose
records were lost or failed were given away all the same, and no record shows them.
"""

from typing import Final, final

from magnetar.errors import CorruptionError
from magnetar.storage.disk.disk import Disk
from magnetar.wire.checksum import crc32c

__all__ = ["IDS", "STRIPES", "Ids", "encode_ids", "first_id", "read_ids"]

IDS: Final = "IDS"
# A sync for every thousand ledgers; a restart wastes less than this many.
BLOCK: Final = 1024
FIRST: Final = 1
BYTES_MAX: Final = 64

# 2024-01-01, before there was any store.
EPOCH_MS: Final = 1_704_067_200_000
# More than a broker creates: each is a record in the journal and most are requests.
IDS_PER_MS: Final = 32
STRIPES: Final = 128
# Where the clock cannot tell opens apart, luck does: so many ids may be left out.
LEFT_OUT: Final = 1 << 18
# The last millisecond that counts. Behind it there is room for ids below 2**53, with which
# the counter goes on by itself.
AGE_MS_MAX: Final = (1 << 41) - (1 << 24)


@final
class Ids:
    """Hands out the ids of one stripe from `first` on, one block after another.

    `last` is the highest that may have been given: no id above it was, by this store.
    """

    def __init__(self, disk: Disk, salt: int, *, first: int, last: int) -> None:
        self._disk: Final = disk
        self._salt: Final = salt
        self._next: int = first
        self._end: int = first
        self.last: int = last

    def take(self) -> int:
        if self._next == self._end:
            self.reserve()
        self.last = self._next
        self._next += STRIPES
        return self.last

    def reserve(self) -> None:
        end = self._end + BLOCK * STRIPES
        self._disk.replace(IDS, encode_ids(end, self._salt))
        self._end = end


def first_id(reserved: int, now_ms: int, luck: int) -> int:
    """Returns what a store begins with that is opened now; ids below `reserved` were given before.

    `luck` is any number of 32 bits; it decides about the stripe, and about ids that are left out.
    """
    age_ms = min(max(now_ms - EPOCH_MS, 0), AGE_MS_MAX)
    by_clock = age_ms * IDS_PER_MS * STRIPES
    first = max(reserved, by_clock)
    is_behind = reserved > FIRST and by_clock < reserved
    if is_behind and reserved < AGE_MS_MAX * IDS_PER_MS * STRIPES:  # beyond that is little room
        first += luck // STRIPES % LEFT_OUT * STRIPES
    return first + (luck - first) % STRIPES


def encode_ids(first: int, salt: int) -> bytes:
    """Returns the whole file."""
    line = f"{first}\n".encode()
    return line + f"crc {crc32c(line, salt):08x}\n".encode()


def read_ids(disk: Disk, salt: int, id_highest: int) -> int:
    """Returns the first id that was never reserved; `id_highest` is the highest that is in use."""
    data = disk.read(IDS, 0, BYTES_MAX) if disk.size(IDS) >= 0 else b""
    line = data.partition(b"\n")[0]
    if not line.isdigit() or data != encode_ids(int(line), salt):
        raise CorruptionError(IDS, 0, "the file with the next id is missing or damaged")
    first = int(line)
    if first <= id_highest:
        raise CorruptionError(IDS, 0, f"id {id_highest} is in use and was never reserved")
    return first
