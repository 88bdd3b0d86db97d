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
later chunks of the message wait too, or they would overtake it. These counts have the same
limit. Unparking what is not parked does nothing: chunks that a consumer gave back wait in
the queue as well, and were never parked.
"""

from typing import Final, final

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
        self._parked: Final[dict[str, int]] = {}

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

    def park(self, uuid: str) -> None:
        """One more chunk of a message waits."""
        self._parked[uuid] = self._parked.get(uuid, 0) + 1
        if len(self._parked) > self._uuids_max:
            del self._parked[next(iter(self._parked))]

    def unpark(self, uuid: str) -> None:
        """One chunk less of a message waits."""
        count = self._parked.get(uuid, 0)
        if count > 1:
            self._parked[uuid] = count - 1
        else:
            self._parked.pop(uuid, 0)

    def parked(self, uuid: str) -> bool:
        """Whether any chunk of a message waits."""
        return uuid in self._parked

    def clear(self) -> None:
        self._owners.clear()
        self._parked.clear()
