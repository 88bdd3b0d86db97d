"""A disk that breaks its promises, to see that somebody notices."""

from magnetar.testing import SimDisk


class LyingDisk(SimDisk):
    """Says that writes are durable, and leaves them where they are."""

    def write(self, path: str, offset: int, data: bytes, *, sync: bool) -> None:
        super().write(path, offset, data, sync=False)
