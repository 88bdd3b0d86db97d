"""Entries that are sent once more to who holds them: it was never sent a part that is free now.

Where order matters, the holder of a part of a batch is at work on a key, and nobody else may have
others of that before it has let go. So what an abort gives back of the batch is not taken from
it, however long its room takes to come: it is *lacked*, and the entry stays held meanwhile.

| an entry is lacked, and       | then it                                                      |
|-------------------------------|--------------------------------------------------------------|
| its holder has room           | is sent to it once more, with all that is free               |
| its key is another's by now   | is lacked no more: the other waits until the holder has      |
|                               | acked or given back what it has, and is sent what is left    |
| its holder acks what it has   | waits for whoever has its key                                |
| of it, gives it back or goes  |                                                              |
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.ack.key_set import KeySet
from magnetar.broker.topic.consumer import Consumer

__all__ = ["Lacking"]


@final
class Lacking:
    """See the module."""

    def __init__(self) -> None:
        self._holder_of: Final[dict[int, Consumer]] = {}
        # By the key of its holder.
        self._keys: Final[dict[int, KeySet]] = {}

    def __len__(self) -> int:
        return len(self._holder_of)

    def __contains__(self, key: int) -> bool:
        return key in self._holder_of

    def add(self, key: int, holder: Consumer) -> None:
        self._holder_of[key] = holder
        keys = self._keys.get(holder.key)
        if keys is None:
            keys = self._keys[holder.key] = KeySet()
        keys.add(key)

    def discard(self, key: int) -> None:
        holder = self._holder_of.pop(key, None)
        if holder is None:
            return
        keys = self._keys[holder.key]
        keys.discard(key)
        if len(keys) == 0:
            del self._keys[holder.key]

    def first(self, count: i64) -> list[int]:
        """Returns entries whose holders have room, so many at most, in order."""
        found: list[int] = []
        for keys in self._keys.values():
            left = count - len(found)
            if left <= 0:
                break
            some = keys.first(left)
            if self._holder_of[some[0]].available:
                found += some
        found.sort()
        return found

    def clear(self) -> None:
        self._holder_of.clear()
        self._keys.clear()

    def check(self, owners: dict[int, Consumer]) -> None:
        """Asserts that what is lacked is held, by those who lack it."""
        known = {key: holder.key for key, holder in self._holder_of.items()}
        there = {
            key: holder for holder, keys in self._keys.items() for key in keys.first(len(keys))
        }
        assert known == there, "holders and what they lack differ"
        for key, holder in self._holder_of.items():
            assert owners.get(key) is holder, "what is lacked is not with who lacks it"
