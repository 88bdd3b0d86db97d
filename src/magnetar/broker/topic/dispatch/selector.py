"""Who owns a key on a Key_Shared subscription: slots, and the consumers that have them.

Every key falls into one of the slots 1 to 65535, and at any time a slot belongs to one
consumer or to nobody. What a consumer gets and loses when others come and go is the
business of three selectors:

    ConsistentHashSelector  every consumer has many points on a ring of slots, and owns
                            the slots up to each of its points; a newcomer takes a little
                            from everybody, and one that leaves gives it back
    AutoSplitSelector       every consumer has one range; a newcomer takes half of the
                            biggest, and one that leaves gives its range to a neighbour
    StickySelector          consumers say which ranges are theirs; what nobody asked for
                            belongs to nobody

They differ in how they hash keys too, as Pulsar's do, so `slot` is theirs to answer. The
owner depends on nothing but the consumers and the order in which they came and went.

Looking up an owner is a bisection of at most 100 points per consumer. A table of all
slots would save some 0.2 us of that and take half a megabyte per subscription.
"""

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right, insort
from typing import Final, final

from magnetar.errors import BrokerError
from magnetar.model.enums import ServerError
from magnetar.protocol.key_hash import SLOTS, auto_split_slot, consistent_slot

__all__ = ["AutoSplitSelector", "ConsistentHashSelector", "Selector", "StickySelector"]

SLOT_FIRST: Final = 1
SLOT_LAST: Final = SLOTS - 1

# Points that a consumer has on the ring: with 100, shares of a few consumers differ by
# about a tenth. Pulsar's default too.
POINTS: Final = 100
NO_POINTS: Final = array("I")

# A range smaller than this is not split any more, so there is an end to how many
# consumers one subscription takes: 2,047 of them have 32 slots each.
SPLIT_SIZE_MIN: Final = 64


class Selector(ABC):
    """What all selectors do. Consumers are numbers that nobody else in the broker has."""

    @abstractmethod
    def add(self, consumer_id: int, name: str) -> None:
        """Gives a new consumer its share."""

    @abstractmethod
    def remove(self, consumer_id: int) -> None:
        """Gives the share of a consumer to others; nothing if it has none."""

    @abstractmethod
    def owner(self, slot: int) -> int:
        """Returns the consumer that a slot belongs to, or -1."""

    @abstractmethod
    def slot(self, key: bytes) -> int:
        """Returns the slot that a key falls into."""

    @abstractmethod
    def ranges(self, consumer_id: int) -> list[tuple[int, int]]:
        """Returns the slots of a consumer as ranges, first and last, in order."""

    def take_apart(self, count: int) -> bool:
        """Frees some of what it has, when nobody needs it any more; False if there is no more."""
        return False


@final
class ConsistentHashSelector(Selector):
    """A ring of slots with points on it. A slot belongs to the next point at or after it.

    Two consumers may hash to one point. The first to come owns it, the others queue
    behind, and the next in the queue takes over when it leaves.

    Consumers of one name would have the same points; a number tells them apart, the
    lowest that is free, so one that comes back finds its old points.
    """

    def __init__(self, points: int = POINTS) -> None:
        self._points_each: Final = points
        self._points: Final[list[int]] = []
        self._queues: Final[dict[int, list[int]]] = {}
        # As arrays: thousands of consumers have a hundred points each, which are freed at once.
        self._points_of: Final[dict[int, array[int]]] = {}
        self._name_of: Final[dict[int, tuple[str, int]]] = {}
        self._indexes: Final[dict[str, set[int]]] = {}

    def add(self, consumer_id: int, name: str) -> None:
        assert consumer_id not in self._name_of, "a consumer is added once"
        index = self._take_index(name)
        self._name_of[consumer_id] = (name, index)
        points = _ring_points(name, index, self._points_each)
        self._points_of[consumer_id] = array("I", points)
        for point in points:
            queue = self._queues.get(point)
            if queue is None:
                self._queues[point] = [consumer_id]
                insort(self._points, point)
            else:
                queue.append(consumer_id)

    def remove(self, consumer_id: int) -> None:
        if consumer_id not in self._name_of:
            return
        name, index = self._name_of.pop(consumer_id)
        self._return_index(name, index)
        for point in self._points_of.pop(consumer_id):
            queue = self._queues[point]
            queue.remove(consumer_id)
            if not queue:
                del self._queues[point]
                del self._points[bisect_left(self._points, point)]

    def owner(self, slot: int) -> int:
        points = self._points
        if not points:
            return -1
        at = bisect_left(points, slot)
        point = points[at] if at < len(points) else points[0]
        return self._queues[point][0]

    def slot(self, key: bytes) -> int:
        return consistent_slot(key)

    def ranges(self, consumer_id: int) -> list[tuple[int, int]]:
        points = self._points
        found: list[tuple[int, int]] = []
        for point in self._points_of.get(consumer_id, NO_POINTS):
            if self._queues[point][0] != consumer_id:
                continue
            at = bisect_left(points, point)
            if at > 0:
                found.append((points[at - 1] + 1, point))
                continue
            found.append((SLOT_FIRST, point))
            if points[-1] < SLOT_LAST:
                found.append((points[-1] + 1, SLOT_LAST))
        return _joined(found)

    def take_apart(self, count: int) -> bool:
        for _ in range(min(count, len(self._queues))):
            self._queues.popitem()
        return len(self._queues) > 0

    def _take_index(self, name: str) -> int:
        used = self._indexes.setdefault(name, set())
        index = 0
        while index in used:
            index += 1
        used.add(index)
        return index

    def _return_index(self, name: str, index: int) -> None:
        used = self._indexes[name]
        used.remove(index)
        if not used:
            del self._indexes[name]


@final
class AutoSplitSelector(Selector):
    """Ranges that lie side by side and cover all slots, one for each consumer."""

    def __init__(self) -> None:
        # The last slot of every range, in order, and whose range it is.
        self._lasts: Final[list[int]] = []
        self._owners: Final[list[int]] = []

    def add(self, consumer_id: int, name: str) -> None:
        assert consumer_id not in self._owners, "a consumer is added once"
        if not self._owners:
            self._lasts.append(SLOT_LAST)
            self._owners.append(consumer_id)
            return
        at = self._biggest()
        first = self._first(at)
        size = self._lasts[at] + 1 - first
        if size < SPLIT_SIZE_MIN:
            raise BrokerError(
                ServerError.ConsumerAssignError,
                f"no range of slots is left to split for one more than {len(self._owners)} "
                "consumers: close some, or subscribe with fewer",
            )
        self._lasts.insert(at, first + size // 2 - 1)
        self._owners.insert(at, consumer_id)

    def remove(self, consumer_id: int) -> None:
        if consumer_id not in self._owners:
            return
        at = self._owners.index(consumer_id)
        is_last = at == len(self._owners) - 1
        del self._owners[at]
        # The next range begins earlier; if there is none, the one before ends later.
        del self._lasts[at - 1 if is_last and at > 0 else at]

    def owner(self, slot: int) -> int:
        return self._owners[bisect_left(self._lasts, slot)] if self._owners else -1

    def slot(self, key: bytes) -> int:
        return auto_split_slot(key)

    def ranges(self, consumer_id: int) -> list[tuple[int, int]]:
        if consumer_id not in self._owners:
            return []
        at = self._owners.index(consumer_id)
        return [(self._first(at), self._lasts[at])]

    def _first(self, at: int) -> int:
        return self._lasts[at - 1] + 1 if at > 0 else SLOT_FIRST

    def _biggest(self) -> int:
        """Returns where the biggest range is, the first one if several are."""
        biggest = 0
        size_max = 0
        end = SLOT_FIRST
        for at, last in enumerate(self._lasts):
            if last + 1 - end > size_max:
                biggest = at
                size_max = last + 1 - end
            end = last + 1
        return biggest


@final
class StickySelector(Selector):
    """Ranges that consumers chose: no two overlap, and gaps belong to nobody."""

    def __init__(self) -> None:
        # First and last slot and owner of every range, in order.
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._owners: list[int] = []

    def add(self, consumer_id: int, name: str) -> None:
        """Refuses the consumer: without ranges it could have nothing."""
        self.add_ranges(consumer_id, [])

    def add_ranges(self, consumer_id: int, ranges: list[tuple[int, int]]) -> None:
        """Gives a new consumer the ranges it asked for, all of them or none."""
        assert consumer_id not in self._owners, "a consumer is added once"
        if not ranges:
            raise _refusal("a sticky consumer has no ranges: give at least one")
        ordered = sorted(ranges)
        end = 0
        for first, last in ordered:
            self._check_range(first, last)
            if first < end:
                raise _refusal(f"the range {first}-{last} overlaps another of this consumer")
            end = last + 1
        for first, last in ordered:
            at = bisect_left(self._firsts, first)
            self._firsts.insert(at, first)
            self._lasts.insert(at, last)
            self._owners.insert(at, consumer_id)

    def remove(self, consumer_id: int) -> None:
        kept = [at for at in range(len(self._owners)) if self._owners[at] != consumer_id]
        self._firsts = [self._firsts[at] for at in kept]
        self._lasts = [self._lasts[at] for at in kept]
        self._owners = [self._owners[at] for at in kept]

    def owner(self, slot: int) -> int:
        at = bisect_right(self._firsts, slot) - 1
        return self._owners[at] if at >= 0 and slot <= self._lasts[at] else -1

    def slot(self, key: bytes) -> int:
        return auto_split_slot(key)

    def ranges(self, consumer_id: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for at in range(len(self._owners)):
            if self._owners[at] == consumer_id:
                found.append((self._firsts[at], self._lasts[at]))
        return found

    def _check_range(self, first: int, last: int) -> None:
        if not 0 <= first <= last < SLOTS:
            raise _refusal(
                f"{first}-{last} is not a range of slots: give a first and a last one "
                f"from 0 to {SLOT_LAST}, in this order"
            )
        # The nearest range that does not begin after this one's end.
        at = bisect_right(self._firsts, last) - 1
        if at >= 0 and self._lasts[at] >= first:
            raise _refusal(
                f"the range {first}-{last} overlaps {self._firsts[at]}-{self._lasts[at]}, "
                "which another consumer has: choose other slots, or close that consumer"
            )


def _refusal(reason: str) -> BrokerError:
    return BrokerError(ServerError.ConsumerAssignError, reason)


def _ring_points(name: str, index: int, count: int) -> list[int]:
    """Returns the points of a consumer, in order; fewer than `count` if some coincide."""
    points: set[int] = set()
    for i in range(count):
        points.add(consistent_slot(f"{name}\0{index}\0{i}".encode()))
    return sorted(points)


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the same slots in as few ranges as possible."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined
