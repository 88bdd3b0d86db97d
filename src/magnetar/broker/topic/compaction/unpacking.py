"""What a compaction takes an entry as.

| an entry is                               | it is taken as                                     |
|-------------------------------------------|----------------------------------------------------|
| a batch, plain or compressed              | its messages, each with a key of its own           |
| a batch that cannot be unpacked, or is    | *opaque*: nobody knows its keys, so it stays whole |
| too large for that                        |                                                    |
| an encrypted batch                        | the same                                           |
| any other message, encrypted or not       | one message; its key is in its metadata            |
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import RemoteProtocolError
from magnetar.model import Position
from magnetar.protocol import Entry, EntryFacts, decompress, entry_facts, split_entry
from magnetar.protocol.payload.compression import expansion_max
from magnetar.storage.disk.disk import Disk
from magnetar.storage.ledger.read_plan import StoredEntry
from magnetar.storage.log.job import Job

__all__ = ["Unpacked", "Unpacking"]

# A larger batch stays whole. Pulsar's clients make them up to the size of a message, 5 MiB.
BATCH_BYTES_MAX: Final = 32 << 20
# What encryption adds to nothing: the tag of AES-GCM.
ENCRYPTED_NOTHING: Final = 16


@final
class Unpacked:
    """An entry, and what it is taken as."""

    def __init__(self, stored: StoredEntry, position: Position) -> None:
        """Raises RemoteProtocolError."""
        data = stored.data
        assert data is not None
        self.stored: Final = stored
        self.data: Final[bytes] = data
        # Where it was published, which is not where a view has it.
        self.position: Final = position
        self.entry: Final[Entry] = split_entry(data)
        self.facts: Final[EntryFacts] = entry_facts(self.entry)
        # A batch's messages, where they begin in that; and whether nobody can tell.
        self.payload: bytes = data
        self.payload_first: i64 = self.entry.metadata_end
        self.opaque: bool = self.facts.batched and self.facts.encrypted

    @property
    def count(self) -> int:
        """How many messages it is counted as."""
        return int(self.facts.batch_size) if self.facts.batched else 1

    @property
    def packed_size(self) -> int:
        """What it will take unpacked, beside itself; 0 if it is not to be unpacked."""
        facts = self.facts
        if not facts.batched or facts.compression == 0 or self.opaque:
            return 0
        return facts.uncompressed_size

    @property
    def is_empty(self) -> bool:
        """Whether it is a message without a payload, which takes its key away."""
        facts = self.facts
        size: i64 = len(self.data) - self.entry.metadata_end
        if facts.encrypted:
            return facts.uncompressed_size == 0 and size <= ENCRYPTED_NOTHING
        return size == 0 or (facts.compression != 0 and facts.uncompressed_size == 0)

    def unpack(self) -> None:
        """Decompresses a batch, or finds that it cannot be."""
        facts = self.facts
        packed: i64 = len(self.data) - self.entry.metadata_end
        size = facts.uncompressed_size
        if size > packed * expansion_max(facts.compression):
            self.opaque = True
            return
        try:
            self.payload = decompress(
                facts.compression, self.entry.payload(), size, BATCH_BYTES_MAX
            )
        except RemoteProtocolError:
            self.opaque = True
            return
        self.payload_first = 0


@final
class Unpacking(Job):
    """Unpacks batches that are compressed, on another thread: that takes its time."""

    def __init__(self, entries: list[Unpacked]) -> None:
        self._entries: Final = entries

    def run(self, disk: Disk) -> None:
        for unpacked in self._entries:
            if unpacked.packed_size > 0:
                unpacked.unpack()
