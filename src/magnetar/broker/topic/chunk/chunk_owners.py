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
        self._names: Final[dict[int, str]] = {}
        # The same by message; never none. A dict, for its order.
        self._keys: Final[dict[str, dict[int, None]]] = {}
        self._begun: Final[dict[str, _Begun]] = {}
        # The begun messages of a slot; never none.
        self._slots: Final[dict[int, dict[str, None]]] = {}
        self._parked: Final[dict[str, KeySet]] = {}

    def __len__(self) -> int:
        """Returns how many chunks are known."""
        return len(self._names)

    def know(self, name: str, key: int) -> None:
        """An entry is a chunk of this message."""
        if self._names.get(key) != name:
            self._forget_name(key)
            self._names[key] = name
            self._keys.setdefault(name, {})[key] = None

    def forget(self, key: int) -> int:
        """Forgets an entry that is acked or gone; returns the slot that is free by that, or -1."""
        freed = self.let_go(key)
        self.unpark(key)
        self._forget_name(key)
        return freed

    def _forget_name(self, key: int) -> None:
        name = self._names.pop(key, None)
        if name is not None:
            keys = self._keys[name]
            del keys[key]
            if not keys:
                del self._keys[name]

    def name(self, key: int) -> str | None:
        """Returns the message that an entry is a chunk of; None if it is not known as one."""
        return self._names.get(key)

    def held_of(self, name: str, held: dict[int, int]) -> list[int]:
        """Returns the chunks of a message that are among those that a consumer has, in any
        order."""
        return [key for key in self._keys.get(name, ()) if key in held]

    def known(self) -> list[int]:
        """Returns the chunks, in any order."""
        return list(self._names)

    # ---- Begun messages ------------------------------------------------------

    def owner(self, name: str) -> int:
        """Returns the consumer that has begun a message, or -1."""
        begun = self._begun.get(name)
        return -1 if begun is None else begun.consumer_id

    def slot_owner(self, slot: int) -> int:
        """Returns the consumer that has begun messages of a slot, or -1."""
        names = self._slots.get(slot)
        return -1 if names is None else self._begun[next(iter(names))].consumer_id

    def take(self, key: int, consumer_id: int, slot: int = 0) -> int:
        """Notes that a consumer got a chunk, not the last; returns another slot that is free by
        that, or -1."""
        name = self._names[key]
        begun = self._begun.get(name)
        freed = -1
        if begun is not None and (begun.consumer_id != consumer_id or begun.slot != slot):
            freed = self.finish(name)
            begun = None
        if begun is None:
            begun = self._begun[name] = _Begun(consumer_id, slot)
            self._slots.setdefault(slot, {})[name] = None
        begun.keys[key] = None
        return freed

    def let_go(self, key: int) -> int:
        """Notes that a consumer holds a chunk no more; returns the slot that is free by that, or
        -1."""
        begun = self._begun.get(self._names.get(key, ""))
        if begun is None or key not in begun.keys:
            return -1
        del begun.keys[key]
        return -1 if begun.keys else self.finish(self._names[key])

    def finish(self, name: str) -> int:
        """Notes that the last chunk of a message is out; returns the slot that is free by that, or
        -1."""
        begun = self._begun.pop(name, None)
        if begun is None:
            return -1
        names = self._slots[begun.slot]
        del names[name]
        if names:
            return -1
        del self._slots[begun.slot]
        return begun.slot

    # ---- Parked chunks -------------------------------------------------------

    def park(self, key: int) -> None:
        """A chunk waits."""
        name = self._names.get(key)
        if name is None:
            return
        parked = self._parked.get(name)
        if parked is None:
            parked = self._parked[name] = KeySet()
        parked.add(key)

    def unpark(self, key: int) -> None:
        """A chunk waits no more."""
        name = self._names.get(key, "")
        parked = self._parked.get(name)
        if parked is not None:
            parked.discard(key)
            if len(parked) == 0:
                del self._parked[name]

    def waits_before(self, name: str, key: int) -> bool:
        """Returns whether a chunk of a message waits that comes before this one."""
        parked = self._parked.get(name)
        return parked is not None and parked.min() < key

    def clear(self) -> None:
        self._names.clear()
        self._keys.clear()
        self._begun.clear()
        self._slots.clear()
        self._parked.clear()

    # ---- Check ---------------------------------------------------------------

    def held(self) -> dict[int, int]:
        """Returns who has each chunk of the messages that are begun."""
        return {key: begun.consumer_id for begun in self._begun.values() for key in begun.keys}

    def check(self) -> None:
        """Asserts that the parts agree with each other."""
        by_name: dict[str, set[int]] = {}
        for key, name in self._names.items():
            by_name.setdefault(name, set()).add(key)
        assert by_name == {name: set(keys) for name, keys in self._keys.items()}, "chunks differ"
        for name, begun in self._begun.items():
            assert begun.keys, "a message is begun without chunks"
            assert name in self._slots[begun.slot], "a slot does not know of its message"
            for key in begun.keys:
                assert self._names.get(key) == name, "a chunk that nobody knows is held"
        for names in self._slots.values():
            assert names, "a slot without messages"
            assert all(name in self._begun for name in names), "a slot has a message of before"
        for name, parked in self._parked.items():
            assert len(parked) > 0, "a message waits without chunks"
            for key in parked.first(len(parked)):
                assert self._names.get(key) == name, "a chunk that nobody knows waits"
