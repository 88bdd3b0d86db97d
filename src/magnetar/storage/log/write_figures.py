"""What groups were like: how large, and how long the disk took to make them durable."""

from typing import Final, final

from magnetar.storage.histogram import Histogram
from magnetar.storage.log.job import GroupWrite, SyncTail

__all__ = ["WriteFigures"]

# From an SSD with a cache of its own to a disk that is lost to others.
SYNC_BOUNDS_US: Final = (
    *(100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000),
    *(100_000, 200_000, 500_000, 1_000_000, 5_000_000),
)
# A group holds thousands of records at most, and 4 MiB or one entry.
RECORDS_BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
BYTES_BOUNDS: Final = (1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22)


@final
class WriteFigures:
    """Of groups that succeeded; see the module."""

    def __init__(self) -> None:
        # Syncs, with the write before them where both are one.
        self.sync_us: Final = Histogram(SYNC_BOUNDS_US)
        self.records: Final = Histogram(RECORDS_BOUNDS)
        self.bytes: Final = Histogram(BYTES_BOUNDS)

    def wrote(self, job: GroupWrite) -> None:
        self.records.add(len(job.records), 1)
        self.bytes.add(job.length, 1)
        if job.sync or job.sync_all:
            self.sync_us.add(job.took_us, 1)

    def synced(self, job: SyncTail) -> None:
        self.sync_us.add(job.took_us, 1)
