"""What was acked here, entry by entry, as far as it is remembered.

Records that are idle are a convenience: they know when a batch is done, so that its last ack
can name the entry and not an index. The oldest of them are forgotten when there are too many.
All others are kept until their ack has ended.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.client.ack.entry_acks import EntryAcks
from magnetar.client.ack.entry_state import IDLE
from magnetar.errors import BatchIndexError
from magnetar.model.position_key import wide_key, wide_key_entry, wide_key_ledger
from magnetar.wire.ack_set import BATCH_SIZE_MAX, all_unacked

__all__ = ["IDLE_MAX", "AckRecords"]

# Without its record, an entry's last ack names an index only, and the broker finds out by
# itself that the batch is done.
IDLE_MAX: Final = 10_000
# Of how many messages in chunks, acked but not confirmed, all chunks are remembered.
ACKED_CHUNKS_MAX: Final = 10_000


@final
class AckRecords:
    """The records of one consumer."""

    def __init__(self, idle_max: i64 = IDLE_MAX) -> None:
        self._idle_max: Final[i64] = idle_max
        self._entries: dict[int, EntryAcks] = {}
        self._evict_at: i64 = 2 * idle_max
        # The keys of the chunks of a message, by the key of its last one.
        self.chunks: Final[dict[int, list[int]]] = {}
        # The same of messages that were acked, until that is confirmed: an ack that failed
        # may be given again by its id, and must name all chunks then too.
        self._acked_chunks: Final[dict[int, list[int]]] = {}
        # Told of a record of a wrong batch size, and the right one, before it is dropped for a
        # new one: acks that it still has to send must not be sent for that.
        self.on_wrong_size: Callable[[EntryAcks, i64], None] | None = None

    @property
    def size(self) -> i64:
        return len(self._entries)

    def get(self, key: int) -> EntryAcks | None:
        return self._entries.get(key)

    def all(self) -> list[EntryAcks]:
        return list(self._entries.values())

    def find(
        self, ledger_id: i64, entry_id: i64, batch_size: i64, unacked: int, hidden: int = 0
    ) -> EntryAcks:
        """The record of an entry; a new one begins with `unacked`, as it was delivered, without
        what is `hidden`."""
        key = wide_key(ledger_id, entry_id)
        acks = self._entries.get(key)
        if acks is not None and not acks.is_outdone_by(batch_size):
            return acks
        if acks is not None:
            self.drop_wrong(acks, batch_size)
        if len(self._entries) >= self._evict_at:
            self._evict()
        acks = EntryAcks(ledger_id, entry_id, batch_size, unacked, hidden)
        acks.owner = self
        self._entries[key] = acks
        return acks

    def find_id(self, key: int, batch_index: i64, batch_size: i64) -> EntryAcks:
        """The record of an entry that a checked id names, perhaps one kept as bytes."""
        acks = self._entries.get(key)
        if acks is not None:
            return acks
        size = batch_size if batch_index >= 0 else i64(0)
        unacked = 1 if size == 0 else all_unacked(size)
        return self.find(wide_key_ledger(key), wide_key_entry(key), size, unacked)

    def check_id(self, key: int, batch_index: i64, batch_size: i64) -> None:
        """Raises BatchIndexError for an index that cannot be placed in its batch."""
        if batch_index < 0:
            return
        reason = ""
        known = self._entries.get(key)
        if batch_size == 0:
            reason = (
                f"the id has index {batch_index} but not the size of its batch, so it cannot be "
                "acked by itself: acknowledge the message, or an id that tells the size"
            )
        elif known is not None and known.contradicts(batch_size):
            reason = f"a batch of {known.batch_size} messages, not of {batch_size}"
        elif batch_index >= batch_size or batch_size > BATCH_SIZE_MAX:
            reason = f"no index {batch_index} in a batch of {batch_size}"
        if reason:
            raise BatchIndexError(wide_key_ledger(key), wide_key_entry(key), reason)

    def is_acked(self, key: int, index: i64) -> bool:
        """Whether the message was acked here, as far as is remembered."""
        acks = self._entries.get(key)
        return acks is not None and acks.is_acked(index)

    def hold_back(self, key: int) -> None:
        """A message of the entry was dropped for its ack, after it had come again."""
        acks = self._entries.get(key)
        if acks is not None:
            acks.held_back = True

    def forget(self, key: int) -> None:
        """The entry goes back to the broker: what it delivers next begins anew."""
        acks = self._entries.get(key)
        if acks is not None and acks.state == IDLE:
            self.drop(acks)

    def forget_idle(self) -> None:
        for acks in self.all():
            if acks.state == IDLE:
                self.drop(acks)

    def chunks_of(self, key: int) -> list[int] | None:
        """The keys of all chunks of a message, by the key of the last, if they are known."""
        known = self.chunks.get(key)
        return known if known is not None else self._acked_chunks.get(key)

    def remember_acked(self, chunks: list[int]) -> None:
        """A message in chunks was acked, and that is not confirmed."""
        while len(self._acked_chunks) >= ACKED_CHUNKS_MAX:
            del self._acked_chunks[next(iter(self._acked_chunks))]
        self._acked_chunks[chunks[-1]] = chunks

    def forget_acked(self, key: int) -> None:
        """An entry, perhaps the last chunk of a message, is acked, and that is confirmed."""
        if self._acked_chunks:
            self._acked_chunks.pop(key, None)

    def clear(self) -> None:
        """Forgets everything."""
        for acks in self._entries.values():
            acks.owner = None
        self._entries.clear()
        self.chunks.clear()
        self._acked_chunks.clear()

    def drop(self, acks: EntryAcks) -> None:
        """Forgets one of them."""
        acks.owner = None
        acks.chunks = None
        del self._entries[acks.key]

    def drop_wrong(self, acks: EntryAcks, batch_size: i64) -> None:
        """Forgets the record of an id that told a wrong size, or none; this is the right one."""
        if self.on_wrong_size is not None:
            self.on_wrong_size(acks, batch_size)
        self.drop(acks)

    def _evict(self) -> None:
        """Forgets the oldest idle records. So rarely that each costs next to nothing."""
        idle = [acks for acks in self._entries.values() if acks.state == IDLE]
        for acks in idle[: max(len(idle) - self._idle_max, 0)]:
            self.drop(acks)
        self._evict_at = len(self._entries) + self._idle_max
