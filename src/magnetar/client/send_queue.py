"""Entries that a producer has published and that the broker has not confirmed.

They leave in the order in which they came. A broker confirms in that order too, so that a
receipt concerns the oldest entry, or else:

| receipt's sequence id | means                                                            |
|-----------------------|------------------------------------------------------------------|
| of the oldest         | it is stored                                                     |
| lower                 | an entry that was given up, after a timeout: ignored             |
| higher                | receipts were lost: connect again and send all of them again     |

An entry keeps its bytes, and with them its sequence ids, until it leaves, so that what is
sent again is what was sent. Chunks of one message share a sequence id, and are confirmed
one by one.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.outgoing import Done

__all__ = ["IGNORED", "OUT_OF_STEP", "STORED", "Publish", "SendQueue"]

# What a receipt means.
STORED: Final = 0
IGNORED: Final = 1
OUT_OF_STEP: Final = 2


@final
class Publish:
    """One entry under way: `frame` is its SEND, in parts, `dones` who wants to know.

    `size` is what the application gave, `entry_size` what the wire carries. A batch of
    `count` messages has ids with a batch index, even if it has one message.
    """

    def __init__(
        self,
        sequence_id: i64,
        highest_sequence_id: i64,
        frame: list[bytes],
        dones: list[Done | None],
        *,
        size: i64,
        payload_size: i64,
        metadata_size: i64,
        batched: bool,
        taken_ms: i64,
    ) -> None:
        self.sequence_id: Final[i64] = sequence_id
        self.highest_sequence_id: Final[i64] = highest_sequence_id
        self.frame: Final[list[bytes]] = frame
        self.dones: Final[list[Done | None]] = dones
        self.count: Final[i64] = len(dones)
        self.size: Final[i64] = size
        self.payload_size: Final[i64] = payload_size
        self.metadata_size: Final[i64] = metadata_size
        self.batched: Final[bool] = batched
        # When the first of its messages was taken, which is when its timeout begins.
        self.taken_ms: Final[i64] = taken_ms
        # Counts up along the queue.
        self.ordinal: i64 = -1

    @property
    def entry(self) -> bytes:
        """What the broker is to store."""
        return self.frame[-1]


@final
class SendQueue:
    """See the module."""

    def __init__(self) -> None:
        self._entries: Final[deque[Publish]] = deque()
        # The ordinal of the last entry that was added.
        self.last_ordinal: i64 = -1

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, publish: Publish) -> None:
        self.last_ordinal += 1
        publish.ordinal = self.last_ordinal
        self._entries.append(publish)

    @property
    def oldest(self) -> Publish | None:
        return self._entries[0] if self._entries else None

    def pop(self) -> Publish:
        """Takes the oldest out."""
        return self._entries.popleft()

    def judge(self, sequence_id: i64) -> i64:
        """What a receipt with this sequence id means."""
        if not self._entries:
            return IGNORED
        oldest = self._entries[0].sequence_id
        if sequence_id == oldest:
            return STORED
        return IGNORED if sequence_id < oldest else OUT_OF_STEP

    def have_left(self, ordinal: i64) -> bool:
        """Whether the entry with this ordinal and all before it have left."""
        return not self._entries or self._entries[0].ordinal > ordinal

    def take_stored(self, last_sequence_id: i64) -> list[Publish]:
        """Takes out the oldest entries as far as the broker says that it has them.

        It says so only where it removes duplicates.
        """
        taken: list[Publish] = []
        while self._entries and self._entries[0].highest_sequence_id <= last_sequence_id:
            taken.append(self._entries.popleft())
        return taken

    def take_before(self, taken_ms: i64) -> list[Publish]:
        """Takes out the oldest entries that were taken at this time or earlier."""
        taken: list[Publish] = []
        while self._entries and self._entries[0].taken_ms <= taken_ms:
            taken.append(self._entries.popleft())
        return taken

    def take_all(self) -> list[Publish]:
        taken = list(self._entries)
        self._entries.clear()
        return taken

    def take_larger(self, payload_size_max: i64, total_size_max: i64) -> list[Publish]:
        """Takes out the entries that a broker with these limits would not take."""
        taken: list[Publish] = []
        for _ in range(len(self._entries)):
            publish = self._entries.popleft()
            if (
                publish.payload_size > payload_size_max
                or publish.payload_size + publish.metadata_size > total_size_max
            ):
                taken.append(publish)
            else:
                self._entries.append(publish)
        return taken

    def frames(self) -> list[bytes]:
        """Everything to be sent again, in order."""
        frames: list[bytes] = []
        for publish in self._entries:
            frames.extend(publish.frame)
        return frames
