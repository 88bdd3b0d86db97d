"""Key_Shared: every key belongs to one consumer at a time, and keeps its order.

A key's slot has an owner, whom the selector names. An entry may be sent to the owner only if

1. nobody else holds unacked entries of the slot: the slot is *draining* while the owner
   before still has some, and
2. no earlier entry of the slot waits in replay.

Then the entries of a slot are with one consumer and were sent in order. An entry that may
not be sent, or whose owner has no room, waits in replay; others are read past it, up to a
limit. A subscription that allows delivery out of order has neither rule, but for chunks the
second: out of order nobody could put them together.

A consumer that has got some chunks of a message and not its last is the owner of the slot
until it has, whoever the selector names: nobody else could put the message together, and so
the first consumer would never let go of the slot. If its chunks come to nothing, it owns the
slot until it has acked them, given them back, or left.

Slots that wait are kept by their owner (`_ready`), unless they drain: a slot is put there
when its first entry comes to wait, and when its last holder lets go of it. So a consumer
with room finds its work without looking at everybody else's. When owners change all slots
are looked at again, once for all changes of an event: a connection may have many consumers.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.consumer import Consumer
from magnetar.broker.dispatch.draining import HeldSlots
from magnetar.broker.dispatch.replay import KeyReplay
from magnetar.broker.dispatch.selector import Selector, StickySelector
from magnetar.broker.dispatch.shared import REPLAY, SharedDispatcher
from magnetar.protocol import EntryFacts
from magnetar.storage.read_plan import StoredEntry

if TYPE_CHECKING:
    from magnetar.broker.subscription import Subscription

__all__ = ["KeySharedDispatcher"]

NOBODY: Final = -1


@final
class KeySharedDispatcher(SharedDispatcher):
    """See the module."""

    def __init__(
        self, subscription: "Subscription", selector: Selector, *, out_of_order: bool
    ) -> None:
        self.selector: Final = selector
        self.out_of_order: Final = out_of_order
        self.held: Final = HeldSlots()
        self._waiting: Final = KeyReplay()
        # By consumer: the slots that wait for it and may be sent. A dict, for its order.
        self._ready: Final[dict[int, dict[int, None]]] = {}
        # Whether owners changed since.
        self._moved: bool = False
        self._by_key: Final[dict[int, Consumer]] = {}
        # Slots with messages of which some chunks are out: whose they are, and the messages.
        self._chunk_owner: Final[dict[int, int]] = {}
        self._chunked: Final[dict[int, dict[str, None]]] = {}
        super().__init__(subscription)

    @property
    def type_name(self) -> str:
        return "Key_Shared"

    # ---- Consumers -----------------------------------------------------------

    def add_with_ranges(self, consumer: Consumer, ranges: list[tuple[int, int]]) -> None:
        """Adds a consumer that names its slots. Raises BrokerError if they are taken."""
        assert isinstance(self.selector, StickySelector)
        self.selector.add_ranges(consumer.key, ranges)
        self._join(consumer)

    def add(self, consumer: Consumer) -> None:
        self.selector.add(consumer.key, consumer.name)
        self._join(consumer)

    def _join(self, consumer: Consumer) -> None:
        self._by_key[consumer.key] = consumer
        self._ready[consumer.key] = {}
        self._moved = True
        super().add(consumer)

    def remove(self, consumer: Consumer) -> None:
        if consumer.key not in self._by_key:
            return
        for slot in [slot for slot, key in self._chunk_owner.items() if key == consumer.key]:
            self._forget_chunks(slot)
        del self._by_key[consumer.key]
        del self._ready[consumer.key]
        self.selector.remove(consumer.key)
        self._moved = True
        super().remove(consumer)

    def _reindex(self) -> None:
        """Owners changed: every slot that waits is looked at again."""
        self._moved = False
        for slots in self._ready.values():
            slots.clear()
        for slot in self._waiting.slots():
            self._index(slot)

    def _owner(self, slot: int) -> int:
        """Who gets what is next in a slot, or NOBODY."""
        if self._chunk_owner:
            owner = self._chunk_owner.get(slot, NOBODY)
            if owner != NOBODY:
                return owner
        return self.selector.owner(slot)

    def _index(self, slot: int) -> None:
        owner = self._owner(slot)
        if owner != NOBODY and not self._drains(slot, owner):
            self._ready[owner][slot] = None

    def _drains(self, slot: int, owner: int) -> bool:
        return not self.out_of_order and self.held.blocked(slot, owner)

    # ---- Replay --------------------------------------------------------------

    def _give_back(self, key: int, slot: int, consumer: Consumer) -> None:
        self._wait(key, slot)
        self._let_go(slot, consumer)

    def _wait(self, key: int, slot: int) -> None:
        fresh = not self._waiting.has_slot(slot)
        self._waiting.add(key, slot)
        if fresh:
            self._index(slot)

    def _let_go(self, slot: int, consumer: Consumer) -> None:
        freed = not self.out_of_order and self.held.release(slot, consumer.key)
        if freed and slot in self._chunk_owner:
            self._forget_chunks(slot)
        if freed and self._waiting.has_slot(slot):
            self._index(slot)

    def _leave_replay(self, key: int) -> None:
        slot = self._waiting.slot_of(key)
        if slot < 0:
            return
        self._waiting.discard(key)
        if not self._waiting.has_slot(slot):
            self._unindex(slot)

    def _unindex(self, slot: int) -> None:
        owner = self._owner(slot)
        if owner != NOBODY:
            self._ready[owner].pop(slot, None)

    def _discard_through(self, floor: int) -> None:
        for slot in self._waiting.discard_through(floor):
            self._unindex(slot)

    def replay_count(self) -> int:
        return len(self._waiting)

    def rewind(self) -> None:
        super().rewind()
        self._waiting.clear()
        for slots in self._ready.values():
            slots.clear()
        self._chunk_owner.clear()
        self._chunked.clear()

    def _may_read_on(self) -> bool:
        return len(self._waiting) < self.subscription.look_ahead(len(self.consumers))

    def _replay_candidates(self, entries_max: i64) -> list[int]:
        """Of each consumer with room, the first entries of slots that wait for it."""
        if self._moved:
            self._reindex()
        keys: list[int] = []
        for consumer in self.consumers:
            room: i64 = min(consumer.permits, entries_max)
            if not consumer.available:
                continue
            for slot in self._ready[consumer.key]:
                found = self._waiting.first_of(slot, room)
                keys.extend(found)
                room -= len(found)
                if room <= 0:
                    break
        keys.sort()
        return keys

    # ---- Delivery ------------------------------------------------------------

    def _offer(
        self,
        entry: StoredEntry,
        key: int,
        facts: EntryFacts,
        remaining: int | None,
        now_ms: int,
        source: int,
    ) -> bool:
        slot = self.selector.slot(facts.sticky_key())
        consumer = self._taker(slot, key, chunk=facts.chunk_id >= 0)
        if consumer is None:
            if source != REPLAY:
                self._wait(key, slot)
            return False
        self._leave_replay(key)
        self._send(consumer, entry, key, remaining, slot, now_ms)
        if not self.out_of_order:
            self.held.hold(slot, consumer.key)
        if facts.chunk_id >= 0:
            consumer.chunks += 1
            self._follow_chunk(slot, facts, consumer)
        return True

    def _follow_chunk(self, slot: int, facts: EntryFacts, consumer: Consumer) -> None:
        """A chunk is out: until the last is, the slot stays with its consumer."""
        if facts.chunk_id + 1 < facts.chunk_count:
            if slot not in self._chunk_owner:
                self._chunk_owner[slot] = consumer.key
                self._chunked[slot] = {}
            self._chunked[slot][facts.uuid] = None
        elif slot in self._chunked:
            self._chunked[slot].pop(facts.uuid, None)
            if not self._chunked[slot]:
                self._forget_chunks(slot)
                if self._waiting.has_slot(slot):
                    self._index(slot)

    def _forget_chunks(self, slot: int) -> None:
        """The slot is the selector's to give again."""
        self._unindex(slot)
        del self._chunk_owner[slot]
        del self._chunked[slot]

    def owner_of(self, facts: EntryFacts) -> Consumer | None:
        """Whose key it is, if that consumer has room."""
        owner = self.selector.owner(self.selector.slot(facts.sticky_key()))
        if owner == NOBODY or not self._by_key[owner].available:
            return None
        return self._by_key[owner]

    def _taker(self, slot: int, key: int, *, chunk: bool) -> Consumer | None:
        """Who may be sent the entry now."""
        owner = self._owner(slot)
        if owner == NOBODY:
            return None
        consumer = self._by_key[owner]
        if not consumer.available:
            return None
        if self.out_of_order and not chunk:
            return consumer
        if self._drains(slot, owner):
            return None
        if self._waiting.has_slot(slot) and self._waiting.first_of(slot, 1)[0] < key:
            return None
        return consumer
