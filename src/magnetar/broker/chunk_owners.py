"""Which consumer of a Shared subscription gets the chunks of a large message.

A consumer can put a message together only if it gets all chunks. So the first chunk that
is handed out binds the message's uuid to its consumer, until the last chunk is out or the
consumer has left.

    uuid     event                       becomes
    free     assign                      bound to the consumer
    bound    assign                      bound to the new consumer
    bound    finish, drop_consumer       free
    bound    too many uuids came after   free

A message whose last chunk never comes would stay bound for ever: only so many uuids are
kept, and the one that was assigned longest ago is forgotten first.

Beside that, a chunk is *parked* while it waits in the replay queue, and as long as one is,
later chunks of the message wait too, or they would overtake it. The messages that have
parked chunks have the same limit. Unparking what is not parked does nothing.
"""

from typing import Final, final

from pyroaring import BitMap64

__all__ = ["ChunkOwners"]

# Messages in the middle of delivery on one subscription. A consumer puts ten together at
# a time by default, so this is a thousand busy consumers.
UUIDS_MAX: Final = 10_000


@final
class ChunkOwners:
    """The consumer of every chunked message that is partly delivered."""

    def __init__(self, uuids_max: int = UUIDS_MAX) -> None:
        self._uuids_max: Final = uuids_max
        # Both in order, the oldest first.
        self._owners: Final[dict[str, int]] = {}
        # Entries that are parked are position keys (see `ack/delta.py`).
        self._parked: Final[dict[str, BitMap64]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, uuid: str) -> int:
        """The consumer that gets the chunks of a message, or -1."""
        return self._owners.get(uuid, -1)

    def assign(self, uuid: str, consumer_id: int) -> None:
        """Binds a message to a consumer; forgets the oldest one if there are too many."""
        self._owners.pop(uuid, -1)
        self._owners[uuid] = consumer_id
        if len(self._owners) > self._uuids_max:
            del self._owners[next(iter(self._owners))]

    def finish(self, uuid: str) -> None:
        """The last chunk is out: the message is bound to nobody any more."""
        self._owners.pop(uuid, -1)

    def drop_consumer(self, consumer_id: int) -> list[str]:
        """Frees and returns the messages of a consumer that left, the oldest first."""
        freed = [uuid for uuid, owner in self._owners.items() if owner == consumer_id]
        for uuid in freed:
            del self._owners[uuid]
        return freed

    def park(self, uuid: str, key: int) -> None:
        """A chunk of a message waits."""
        parked = self._parked.get(uuid)
        if parked is None:
            parked = BitMap64()
            self._parked[uuid] = parked
            if len(self._parked) > self._uuids_max:
                del self._parked[next(iter(self._parked))]
        parked.add(key)

    def unpark(self, uuid: str, key: int) -> None:
        """A chunk of a message waits no more."""
        parked = self._parked.get(uuid)
        if parked is not None:
            parked.discard(key)
            if not parked:
                del self._parked[uuid]

    def waits_before(self, uuid: str, key: int) -> bool:
        """Whether a chunk of a message waits that comes before this one."""
        parked = self._parked.get(uuid)
        return parked is not None and parked.min() < key

    def clear(self) -> None:
        self._owners.clear()
        self._parked.clear()
