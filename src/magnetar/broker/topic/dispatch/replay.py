"""Entries to be delivered again, and how often they were.

An entry is *to be replayed* when it was read but could not be handed over, when a consumer
gave it back, or when its consumer is gone. It leaves this state when it is handed to a
consumer, or acked. `Replay` holds these entries for a Shared subscription. `KeyReplay`
holds them for Key_Shared, where an entry must not overtake an earlier one of its slot, and
where a slot that nobody may have now is passed over as a whole.

`Redeliveries` counts per entry how often a consumer gave it back. A count lives until its
entry is acked or skipped, whether there are consumers or not.

Entries are position keys (see `ack/ledgers.py`), which are never negative. All operations
take a time that grows at most with the logarithm of the number of entries, and with the
number of entries that they return; `most`, for operators, looks at all.
"""

from collections.abc import Iterator
from heapq import nsmallest
from typing import Final, final

from magnetar.ack.key_set import KeySet

__all__ = ["KeyReplay", "Redeliveries", "Replay"]


@final
class Replay:
    """A set of entries, in order of their positions."""

    def __init__(self) -> None:
        self._keys: Final = KeySet()

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: int) -> bool:
        return key in self._keys

    def add(self, key: int) -> None:
        self._keys.add(key)

    def discard(self, key: int) -> None:
        self._keys.discard(key)

    def first(self, n: int, start: int = 0) -> list[int]:
        """Returns the first `n` entries, of those from `start` on; they stay."""
        return self._keys.first(n, start)

    def take(self, n: int) -> list[int]:
        """Removes and returns the first `n` entries."""
        keys = self.first(n)
        if keys:
            self._keys.remove_through(keys[-1])
        return keys

    def discard_through(self, key: int) -> None:
        """Removes all entries up to `key`, and it too: mark-delete covers them."""
        self._keys.remove_through(key)

    def clear(self) -> None:
        self._keys.clear()


@final
class KeyReplay:
    """A set of entries that each belong to a slot.

    Most slots have one entry or a few: the first stands by itself, and only further ones
    are in a set, which takes half a kilobyte however little is in it.
    """

    def __init__(self) -> None:
        self._keys: Final = KeySet()
        self._slot_of: Final[dict[int, int]] = {}
        self._first: Final[dict[int, int]] = {}
        self._others: Final[dict[int, KeySet]] = {}

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, key: int) -> bool:
        return key in self._slot_of

    def add(self, key: int, slot: int) -> None:
        """Adds an entry; one that is there already moves if its slot is another one."""
        before = self._slot_of.get(key, -1)
        if before == slot:
            return
        if before >= 0:
            self._leave(key, before)
        self._keys.add(key)
        self._slot_of[key] = slot
        self._join(key, slot)

    def discard(self, key: int) -> None:
        slot = self._slot_of.pop(key, -1)
        if slot >= 0:
            self._keys.discard(key)
            self._leave(key, slot)

    def slot_of(self, key: int) -> int:
        """Returns the slot of an entry, or -1 if the entry is not here."""
        return self._slot_of.get(key, -1)

    def has_slot(self, slot: int) -> bool:
        return slot in self._first

    def slots(self) -> Iterator[int]:
        """Returns all slots that have entries, the one that got its first earliest at the front.

        Nothing may be added or removed while this is iterated.
        """
        return iter(self._first)

    def first_of(self, slot: int, n: int) -> list[int]:
        """Returns the first `n` entries of a slot; they stay."""
        first = self._first.get(slot, -1)
        if first < 0 or n <= 0:
            return []
        keys = [first]
        others = self._others.get(slot)
        if others is not None and n > 1:
            keys.extend(others.first(n - 1))
        return keys

    def first(self, n: int) -> list[int]:
        """Returns the first `n` entries of all slots; they stay."""
        return self._keys.first(n)

    def keys(self) -> list[int]:
        """Returns all entries, in any order."""
        return list(self._slot_of)

    def clear(self) -> None:
        self._keys.clear()
        self._slot_of.clear()
        self._first.clear()
        self._others.clear()

    def check(self) -> None:
        """Asserts that the parts agree with each other."""
        keys_all = self._keys.first(len(self._keys) + 1)
        assert keys_all == sorted(self._slot_of), "keys and slots differ"
        slots: dict[int, list[int]] = {}
        for key in keys_all:
            slots.setdefault(self._slot_of[key], []).append(key)
        assert set(slots) == set(self._first), "slots without entries, or the reverse"
        for slot, keys in slots.items():
            assert self.first_of(slot, len(keys) + 1) == keys, "a slot's entries differ"
        assert set(self._others) == {s for s, keys in slots.items() if len(keys) > 1}

    def _join(self, key: int, slot: int) -> None:
        first = self._first.get(slot, -1)
        if first < 0:
            self._first[slot] = key
            return
        others = self._others.get(slot)
        if others is None:
            others = KeySet()
            self._others[slot] = others
        others.add(max(first, key))
        self._first[slot] = min(first, key)

    def _leave(self, key: int, slot: int) -> None:
        others = self._others.get(slot)
        if others is None:
            del self._first[slot]
            return
        if self._first[slot] == key:
            self._first[slot] = others.min()
            others.discard(self._first[slot])
        else:
            others.discard(key)
        if len(others) == 0:
            del self._others[slot]


@final
class Redeliveries:
    """How often each entry was given back. Entries that never were take no room."""

    def __init__(self) -> None:
        self._counts: Final[dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def count(self, key: int) -> int:
        return self._counts.get(key, 0)

    def most(self, limit: int) -> list[tuple[int, int]]:
        """Returns the entries that were given back most often, with their counts; older ones
        first."""
        return nsmallest(limit, self._counts.items(), key=lambda pair: (-pair[1], pair[0]))

    def bump(self, key: int) -> int:
        """Counts one more, and returns how many there are now."""
        count = self._counts.get(key, 0) + 1
        self._counts[key] = count
        return count

    def forget(self, key: int) -> None:
        self._counts.pop(key, None)

    def known(self) -> list[int]:
        """Returns the entries that were given back, in any order."""
        return list(self._counts)

    def clear(self) -> None:
        self._counts.clear()
