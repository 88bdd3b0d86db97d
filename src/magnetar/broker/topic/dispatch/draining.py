"""Slots of a Key_Shared subscription that a consumer holds, by entries it has not acked.

A key's messages arrive in order, so while a consumer has un-acked entries of a slot no
other consumer gets entries of that slot. When the slot's owner changes meanwhile, the slot
is *draining*: the new owner waits until the old one has acked its entries, given them
back, or left.

    slot       event                            becomes
    free       hold by a consumer               held by it, one entry
    held       hold by the same consumer        held, one entry more
    held       release, not of the last entry   held, one entry less
    held       release of the last entry        free
    held       its consumer is dropped          free

Invariant: at most one consumer holds a slot. Holding another's slot is a mistake of the
dispatcher, which asks `blocked` first, and so is releasing what is not held.
"""

from collections.abc import Callable
from typing import Final, final

__all__ = ["HeldSlots"]


@final
class HeldSlots:
    """Who holds which slot, and by how many entries."""

    def __init__(self) -> None:
        self._holders: Final[dict[int, int]] = {}
        # For every consumer its slots, and the number of entries in each; never 0.
        self._counts: Final[dict[int, dict[int, int]]] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def hold(self, slot: int, consumer_id: int) -> None:
        """Notes that one more entry of a slot was handed to a consumer."""
        assert not self.blocked(slot, consumer_id), "another consumer holds the slot"
        self._holders[slot] = consumer_id
        counts = self._counts.setdefault(consumer_id, {})
        counts[slot] = counts.get(slot, 0) + 1

    def release(self, slot: int, consumer_id: int) -> bool:
        """Notes that an entry was acked or given back; returns whether it was the last of its
        slot."""
        assert self.holder(slot) == consumer_id, "the consumer does not hold the slot"
        counts = self._counts[consumer_id]
        counts[slot] -= 1
        if counts[slot] > 0:
            return False
        del counts[slot]
        del self._holders[slot]
        if not counts:
            del self._counts[consumer_id]
        return True

    def holder(self, slot: int) -> int:
        """Returns the consumer that holds a slot, or -1."""
        return self._holders.get(slot, -1)

    def count(self, slot: int) -> int:
        """Returns how many un-acked entries of a slot its holder has."""
        consumer_id = self._holders.get(slot, -1)
        return self._counts[consumer_id][slot] if consumer_id >= 0 else 0

    def blocked(self, slot: int, consumer_id: int) -> bool:
        """Returns whether another consumer holds a slot, so that this one must wait."""
        return self._holders.get(slot, consumer_id) != consumer_id

    def draining(self, owner: Callable[[int], int]) -> list[tuple[int, int, int]]:
        """Slots whose holder is not their owner: slot, holder and count, in order."""
        found: list[tuple[int, int, int]] = []
        for slot in sorted(self._holders):
            holder = self._holders[slot]
            if owner(slot) != holder:
                found.append((slot, holder, self._counts[holder][slot]))
        return found

    def clear(self) -> None:
        self._holders.clear()
        self._counts.clear()

    def check(self) -> None:
        """Asserts that the parts agree with each other."""
        held: dict[int, int] = {}
        for consumer_id, counts in self._counts.items():
            assert counts, "a consumer without slots"
            for slot, count in counts.items():
                assert count > 0, "a slot held by nothing"
                assert slot not in held, "a slot held twice"
                held[slot] = consumer_id
        assert held == self._holders, "holders and counts differ"
