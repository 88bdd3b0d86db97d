"""Who is in the middle of which chunked message, on a Shared or Key_Shared subscription.

A consumer can put a message together only if it gets all chunks. So a message is *begun* by
the consumer that has some of its chunks and not its last, and the others are for nobody
else. That is so as long as it has them: the entries that it holds are kept by message, and
with the last of them the message is free. Nothing else must be told of acks, skips, expiry,
trimming, negative acks or a consumer that leaves, and nothing is kept of messages that never
end but the entries that are held anyway.

    message  event                                          becomes
    free     take: a consumer gets a chunk, not the last    begun by the consumer
    begun    take                                           begun by it, one chunk more
    begun    let_go, not of the only chunk that it has      begun, one chunk less
    begun    let_go of the only one                         free
    begun    finish: the last chunk is out                  free
    begun    take by another consumer, or in another slot   begun by that: it is another
                                                            message, of a producer that
                                                            counts anew

On Key_Shared a message has a slot, and a slot with begun messages belongs to the consumer
that has begun them; without any it is *free*. Where only messages count the slot is 0.

Beside that, a chunk is *parked* while it waits in the replay queue of a Shared subscription,
and as long as one is, later chunks of the message wait too, or they would overtake it.

Entries are position keys (see `ack/delta.py`). A chunk is *known* from when it is first
offered until `forget`; what is said of entries that are not known does nothing.
"""

from typing import Final, final

from magnetar.ack.key_set import KeySet

__all__ = ["ChunkOwners"]


@final
class _Begun:
    """A message that a consumer has some chunks of: those that it holds."""

    def __init__(self, consumer_id: int, slot: int) -> None:
        self.consumer_id: Final = consumer_id
        self.slot: Final = slot
        self.keys: Final[dict[int, None]] = {}


@final
class ChunkOwners:
    """See the module."""

    def __init__(self) -> None:
        self._uuids: Final[dict[int, str]] = {}
        # The same by message; never none. A dict, for its order.
        self._keys: Final[dict[str, dict[int, None]]] = {}
        self._begun: Final[dict[str, _Begun]] = {}
        # The begun messages of a slot; never none.
        self._slots: Final[dict[int, dict[str, None]]] = {}
        self._parked: Final[dict[str, KeySet]] = {}

    def __len__(self) -> int:
        """How many chunks are known."""
        return len(self._uuids)

    def know(self, uuid: str, key: int) -> None:
        """An entry is a chunk of this message."""
        if self._uuids.get(key) != uuid:
            self._forget_uuid(key)
            self._uuids[key] = uuid
            self._keys.setdefault(uuid, {})[key] = None

    def forget(self, key: int) -> int:
        """An entry is acked or gone. The slot that is free by that, or -1."""
        freed = self.let_go(key)
        self.unpark(key)
        self._forget_uuid(key)
        return freed

    def _forget_uuid(self, key: int) -> None:
        uuid = self._uuids.pop(key, None)
        if uuid is not None:
            keys = self._keys[uuid]
            del keys[key]
            if not keys:
                del self._keys[uuid]

    def uuid(self, key: int) -> str | None:
        """The message that an entry is a chunk of; None if it is not known as one."""
        return self._uuids.get(key)

    def held_of(self, uuid: str, held: dict[int, int]) -> list[int]:
        """The chunks of a message that are among those that a consumer has, in any order."""
        return [key for key in self._keys.get(uuid, ()) if key in held]

    def known(self) -> list[int]:
        """The chunks, in any order."""
        return list(self._uuids)

    # ---- Begun messages ------------------------------------------------------

    def owner(self, uuid: str) -> int:
        """The consumer that has begun a message, or -1."""
        begun = self._begun.get(uuid)
        return -1 if begun is None else begun.consumer_id

    def slot_owner(self, slot: int) -> int:
        """The consumer that has begun messages of a slot, or -1."""
        uuids = self._slots.get(slot)
        return -1 if uuids is None else self._begun[next(iter(uuids))].consumer_id

    def take(self, key: int, consumer_id: int, slot: int = 0) -> int:
        """A consumer got a chunk, not the last. Another slot that is free by that, or -1."""
        uuid = self._uuids[key]
        begun = self._begun.get(uuid)
        freed = -1
        if begun is not None and (begun.consumer_id != consumer_id or begun.slot != slot):
            freed = self.finish(uuid)
            begun = None
        if begun is None:
            begun = self._begun[uuid] = _Begun(consumer_id, slot)
            self._slots.setdefault(slot, {})[uuid] = None
        begun.keys[key] = None
        return freed

    def let_go(self, key: int) -> int:
        """A consumer holds a chunk no more. The slot that is free by that, or -1."""
        begun = self._begun.get(self._uuids.get(key, ""))
        if begun is None or key not in begun.keys:
            return -1
        del begun.keys[key]
        return -1 if begun.keys else self.finish(self._uuids[key])

    def finish(self, uuid: str) -> int:
        """The last chunk of a message is out. The slot that is free by that, or -1."""
        begun = self._begun.pop(uuid, None)
        if begun is None:
            return -1
        uuids = self._slots[begun.slot]
        del uuids[uuid]
        if uuids:
            return -1
        del self._slots[begun.slot]
        return begun.slot

    # ---- Parked chunks -------------------------------------------------------

    def park(self, key: int) -> None:
        """A chunk waits."""
        uuid = self._uuids.get(key)
        if uuid is None:
            return
        parked = self._parked.get(uuid)
        if parked is None:
            parked = self._parked[uuid] = KeySet()
        parked.add(key)

    def unpark(self, key: int) -> None:
        """A chunk waits no more."""
        uuid = self._uuids.get(key, "")
        parked = self._parked.get(uuid)
        if parked is not None:
            parked.discard(key)
            if len(parked) == 0:
                del self._parked[uuid]

    def waits_before(self, uuid: str, key: int) -> bool:
        """Whether a chunk of a message waits that comes before this one."""
        parked = self._parked.get(uuid)
        return parked is not None and parked.min() < key

    def clear(self) -> None:
        self._uuids.clear()
        self._keys.clear()
        self._begun.clear()
        self._slots.clear()
        self._parked.clear()

    # ---- Check ---------------------------------------------------------------

    def held(self) -> dict[int, int]:
        """By chunk, the consumer that has it, of messages that are begun."""
        return {key: begun.consumer_id for begun in self._begun.values() for key in begun.keys}

    def check(self) -> None:
        """Asserts that the parts agree with each other."""
        by_uuid: dict[str, set[int]] = {}
        for key, uuid in self._uuids.items():
            by_uuid.setdefault(uuid, set()).add(key)
        assert by_uuid == {uuid: set(keys) for uuid, keys in self._keys.items()}, "chunks differ"
        for uuid, begun in self._begun.items():
            assert begun.keys, "a message is begun without chunks"
            assert uuid in self._slots[begun.slot], "a slot does not know of its message"
            for key in begun.keys:
                assert self._uuids.get(key) == uuid, "a chunk that nobody knows is held"
        for uuids in self._slots.values():
            assert uuids, "a slot without messages"
            assert all(uuid in self._begun for uuid in uuids), "a slot has a message of before"
        for uuid, parked in self._parked.items():
            assert len(parked) > 0, "a message waits without chunks"
            for key in parked.first(len(parked)):
                assert self._uuids.get(key) == uuid, "a chunk that nobody knows waits"
