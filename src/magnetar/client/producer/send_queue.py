"""Entries that a producer has published and that the broker has not confirmed.

They leave in the order in which they came. A broker confirms in that order too, so that a
receipt concerns the oldest entry, or else:

| receipt's sequence id | means                                                            |
|-----------------------|------------------------------------------------------------------|
| of the oldest         | it is stored                                                     |
| lower                 | an entry that was given up, after a timeout: ignored             |
| higher                | receipts were lost: connect again and send all of them again     |

An entry keeps its bytes, and with them its sequence ids, until it leaves, so that what is
sent again is what was sent. A message in chunks is one `Publish` of several entries, which
share a sequence id and are confirmed one by one; it leaves with its last.

What was written and is part of a transaction is not sent again: it may be stored, and would be
there twice. Only a broker that says what it has gets it again: one that removes duplicates, and
one of ours that closes the producer, as an unload does, for it answers all that it stored first.

Everything is written at once but for chunks, of which there is a window. What is behind a
message that waits for it is `unwritten` too, so that the order stays.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.producer.chunks import WINDOW_BYTES, Chunks, Part
from magnetar.client.producer.outgoing import Sender
from magnetar.client.transaction.core import TransactionCore

__all__ = ["IGNORED", "OUT_OF_STEP", "STORED", "Publish", "SendQueue"]

# What a receipt means.
STORED: Final = 0
IGNORED: Final = 1
OUT_OF_STEP: Final = 2


@final
class Publish:
    """One entry under way: `frame` is its SEND, in parts, `senders` who wants to know.

    `size` is what the application gave, `payload_size` what an entry carries of it. A batch
    of `count` messages has ids with a batch index, even if it has one message. Of `chunks`
    frames are made when they are written.
    """

    def __init__(
        self,
        sequence_id: i64,
        highest_sequence_id: i64,
        frame: list[Part],
        senders: list[Sender | None],
        *,
        size: i64,
        payload_size: i64,
        metadata_size: i64,
        batched: bool,
        taken_ms: i64,
        chunks: Chunks | None = None,
        transaction: TransactionCore | None = None,
    ) -> None:
        self.transaction: Final[TransactionCore | None] = transaction
        self.sequence_id: Final[i64] = sequence_id
        self.highest_sequence_id: Final[i64] = highest_sequence_id
        self.frame: Final[list[Part]] = frame
        self.chunks: Final[Chunks | None] = chunks
        self.senders: Final[list[Sender | None]] = senders
        self.count: Final[i64] = len(senders)
        self.size: Final[i64] = size
        self.payload_size: Final[i64] = payload_size
        self.metadata_size: Final[i64] = metadata_size
        self.batched: Final[bool] = batched
        # When the first of its messages was taken, which is when its timeout begins.
        self.taken_ms: Final[i64] = taken_ms
        # Counts up along the queue.
        self.ordinal: i64 = -1
        # Whether the broker may have it, or a part of it.
        self.written: bool = False
        # Whether it has left the queue.
        self.gone: bool = False

    @property
    def entry(self) -> bytes | None:
        """What the broker is to store, unless it is several entries."""
        return None if self.chunks is not None else bytes(self.frame[-1])


@final
class SendQueue:
    """See the module."""

    def __init__(self) -> None:
        self._entries: Final[deque[Publish]] = deque()
        # From the first on that is not all written; those that have left may be among them.
        self._unwritten: Final[deque[Publish]] = deque()
        # How many bytes of chunks are written and wait for their receipts.
        self._in_flight: i64 = 0
        # The ordinal of the last entry that was added.
        self.last_ordinal: i64 = -1

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, publish: Publish) -> None:
        self.last_ordinal += 1
        publish.ordinal = self.last_ordinal
        self._entries.append(publish)

    def add_written(self, publish: Publish) -> bool:
        """As `add`. False: it is to be written in its turn, which has not come yet."""
        self.add(publish)
        if publish.chunks is None and not self._unwritten:
            publish.written = True
            return True
        self._unwritten.append(publish)
        return False

    def rewind(self) -> None:
        """On another connection: everything is to be written again."""
        self._unwritten.clear()
        self._in_flight = 0
        for publish in self._entries:
            if publish.chunks is not None:
                publish.chunks.rewind()
            self._unwritten.append(publish)

    def none_stored(self) -> None:
        """Of what waits for a receipt nothing is stored: the broker said so."""
        for publish in self._entries:
            publish.written = False

    def write_on(self) -> list[list[Part]]:
        """The frames that may be written now, in order; they count as written."""
        frames: list[list[Part]] = []
        while self._unwritten:
            publish = self._unwritten[0]
            chunks = publish.chunks
            if not publish.gone and chunks is None:
                publish.written = True
                frames.append(publish.frame)
            elif not publish.gone and chunks is not None:
                while chunks.written < chunks.count and self._in_flight < WINDOW_BYTES:
                    self._in_flight += chunks.size(chunks.written)
                    publish.written = True
                    frames.append(chunks.write_next())
                if chunks.written < chunks.count:
                    break
            self._unwritten.popleft()
        return frames

    def confirm(self, chunks: Chunks, ledger_id: i64, entry_id: i64) -> bool:
        """A chunk of the oldest is stored. Says whether it was the last."""
        self._in_flight -= chunks.size(chunks.confirmed)
        return chunks.confirm(ledger_id, entry_id)

    @property
    def oldest(self) -> Publish | None:
        return self._entries[0] if self._entries else None

    def pop(self) -> Publish:
        """Takes the oldest out."""
        publish = self._entries.popleft()
        self._leave(publish)
        return publish

    def _leave(self, publish: Publish) -> None:
        publish.gone = True
        if publish.chunks is not None:
            self._in_flight -= publish.chunks.in_flight()

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
            taken.append(self.pop())
        return taken

    def take_all(self) -> list[Publish]:
        taken = list(self._entries)
        self._entries.clear()
        self._unwritten.clear()
        self._in_flight = 0
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
                self._leave(publish)
                taken.append(publish)
            else:
                self._entries.append(publish)
        return taken

    def take_doubtful(self) -> list[Publish]:
        """Takes out what was written in transactions: the broker may have it, or not."""
        taken: list[Publish] = []
        for _ in range(len(self._entries)):
            publish = self._entries.popleft()
            if publish.written and publish.transaction is not None:
                self._leave(publish)
                taken.append(publish)
            else:
                self._entries.append(publish)
        return taken
