"""What is known of one message in chunks that is not whole.

Its states are those of the table in `assembler.py`, which moves it from one to the next. The
context itself keeps its ids, its bytes and its time, which stands still while the message is
elsewhere.
"""

from bisect import insort
from io import BytesIO
from typing import Final, final

from mypy_extensions import i64

__all__ = ["BROKEN", "DISCARDED", "EVICTED", "GROWING", "TRIES", "ChunkContext"]

GROWING: Final = 0
BROKEN: Final = 1
EVICTED: Final = 2
DISCARDED: Final = 3

# How often chunks of a broken message are asked for before they are given up.
TRIES: Final = 4


@final
class ChunkContext:
    """See the module."""

    def __init__(self, name: str, count: i64, total: i64, before: int) -> None:
        self.name: Final = name
        self.count: Final[i64] = count
        self.total: Final[i64] = total
        self.before: Final = before
        self.state: i64 = GROWING
        self.keys: list[int] = []
        self.data: BytesIO | None = None
        self.size: i64 = 0
        # How often all of it was redelivered, which is what its first chunk says, or less.
        self.redelivery_count: i64 = 0
        # Growing: when its last chunk came, by the clock and by what had been published.
        self.arrived_ms: int = 0
        self.published_ms: int = 0
        # Up to here it came before, and what came then is no news: it has the time it had, once
        # all of that is here again.
        self.known: int = -1
        self.came_ms: int = 0
        # How much of its time was over when it left, by the clock and by what was published, and
        # what was left until it would have been given up, -1 if that was not to be.
        self.had_ms: int = 0
        self.had_published_ms: int = 0
        self.rest_ms: int = -1
        # Set aside: when it is to be asked for again, and when it is given up.
        self.again_ms: int = -1
        self.due_ms: int = -1

    def follow(self, earlier: "ChunkContext", now_ms: int) -> None:
        """Has no more time than an earlier context had, for the same message comes once more."""
        self.known = earlier.known
        self.had_ms = earlier.had_ms
        self.had_published_ms = earlier.had_published_ms
        if earlier.rest_ms >= 0:
            self.due_ms = now_ms + earlier.rest_ms

    def arrive(self, key: int, published_ms: int, now_ms: int) -> None:
        """A chunk came: its time begins, or goes on."""
        self.came_ms = now_ms
        if key > self.known:
            self.had_ms = 0
            self.had_published_ms = 0
        self.arrived_ms = now_ms - self.had_ms
        self.published_ms = published_ms - self.had_published_ms

    def leave(self, published_ms: int, left_ms: int) -> None:
        """Goes back to the broker: its time stands still."""
        if self.keys[-1] >= self.known:
            self.known = self.keys[-1]
            self.had_ms = left_ms - self.arrived_ms
            self.had_published_ms = published_ms - self.published_ms
        if self.due_ms >= 0:
            self.rest_ms = max(self.due_ms - left_ms, 0)

    def spare(self, expire_ms: int) -> None:
        """Gets a share of its time in any case."""
        share_ms = expire_ms // TRIES
        self.had_ms = min(self.had_ms, expire_ms - share_ms)
        if self.rest_ms >= 0:
            self.rest_ms = max(self.rest_ms, share_ms)

    def note(self, key: int) -> None:
        if not self.keys or key > self.keys[-1]:
            self.keys.append(key)
        elif key not in self.keys:
            insort(self.keys, key)
