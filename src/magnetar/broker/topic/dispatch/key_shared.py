"""Key_Shared: every key belongs to one consumer at a time, and keeps its order.

A key's slot has an owner, whom the selector names. An entry may be sent to the owner only if

1. nobody else holds unacked entries of the slot: the slot is *draining* while the owner
   before still has some, and
2. no earlier entry of the slot waits in replay.

Then the entries of a slot are with one consumer and were sent in order. An entry that may
not be sent, or whose owner has no room, waits in replay; others are read past it, up to a
limit.

A consumer that has begun a chunked message, with some chunks and not its last, is the owner
of the slot, whoever the selector names: nobody else could put the message together, and so
the first consumer would never let go of the slot. It is so until the last chunk is out or
the consumer holds none of the others any more, whether they were acked, skipped or given
back (`chunk_owners.py`).

A subscription that allows delivery out of order has neither rule. But chunks need the
second, for out of order nobody could put them together, and they need their owner. So the
chunks of a slot stand beside it there, in a slot of their own (`CHUNK_SLOTS`), and what is
no chunk waits for none.

Slots that wait are kept by their owner (`_ready`), unless they drain. They are looked at
again by whatever could change that: the first entry comes to wait or the last is gone, the
last holder lets go, a chunked message begins or ends. So a consumer with room finds its work
without looking at everybody else's.

When the selector's owners change all slots are looked at again, in a *round* of several
events, and rounds of the loop, if they are many (I10):

| a round is | owners change                      | a plan is made         | becomes           |
|------------|------------------------------------|------------------------|-------------------|
| over       | begins: no slot is ready           | -                      | open, if any wait |
| open       | begins anew about where it was     | some more slots are    | over, after the   |
|            |                                    | looked at              | last              |

A slot that was not looked at is not ready, whoever it is for. So nothing wrong is sent, and
what is sent in between is in order.
"""

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from magnetar.broker.topic.consumer import SLOT_MASK, Consumer
from magnetar.broker.topic.dispatch.draining import HeldSlots
from magnetar.broker.topic.dispatch.due import REPLAY
from magnetar.broker.topic.dispatch.replay import KeyReplay
from magnetar.broker.topic.dispatch.selector import Selector, StickySelector
from magnetar.broker.topic.dispatch.shared import SharedDispatcher
from magnetar.broker.topic.subscribe_request import KeySharedOptions
from magnetar.model import KeySharedMode
from magnetar.model.subscription_type import KEY_SHARED, SubscriptionType
from magnetar.protocol import EntryFacts
from magnetar.protocol.key_hash import SLOTS
from magnetar.storage.ledger.read_plan import StoredEntry

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["KeySharedDispatcher"]

NOBODY: Final = -1
# Where order does not matter, the chunks of a slot are in the one that is so much higher.
CHUNK_SLOTS: Final = SLOTS


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
        # By consumer: the slots that wait for it and may be sent, if there are any. A dict, for
        # its order.
        self._ready: dict[int, dict[int, None]] = {}
        # The same by slot: whom it is ready for.
        self._ready_for: dict[int, int] = {}
        # The slots of the open round, which one is next, and where among all it began; and
        # whether it is to begin anew.
        self._round: list[int] = []
        self._next: int = 0
        self._begun_at: int = 0
        self._moved: bool = False
        super().__init__(subscription, KEY_SHARED)

    # ---- Consumers -----------------------------------------------------------

    def suits(self, type: SubscriptionType, options: KeySharedOptions) -> bool:
        return (
            type is self.type
            and self.is_sticky == (options.mode == KeySharedMode.Sticky)
            and self.out_of_order == options.out_of_order
        )

    @property
    def is_sticky(self) -> bool:
        return isinstance(self.selector, StickySelector)

    @property
    def allows_disorder(self) -> bool:
        return self.out_of_order

    def ranges(self, consumer: Consumer) -> list[tuple[int, int]]:
        return self.selector.ranges(consumer.key)

    def draining(self) -> list[tuple[int, int, int]]:
        return self.held.draining(self.selector.owner)

    def join(self, consumer: Consumer, options: KeySharedOptions) -> None:
        if options.mode == KeySharedMode.Sticky:
            self.add_with_ranges(consumer, options.ranges)
        else:
            self.add(consumer)

    def add_with_ranges(self, consumer: Consumer, ranges: list[tuple[int, int]]) -> None:
        """Adds a consumer that names its slots. Raises BrokerError if they are taken."""
        assert isinstance(self.selector, StickySelector)
        self.selector.add_ranges(consumer.key, ranges)
        self._join(consumer)

    def add(self, consumer: Consumer) -> None:
        self.selector.add(consumer.key, consumer.name)
        self._join(consumer)

    def _join(self, consumer: Consumer) -> None:
        self._moved = True
        super().add(consumer)

    def _begin_leave(self, consumer: Consumer) -> None:
        self.selector.remove(consumer.key)
        self._moved = True

    def retire(self) -> list[Consumer]:
        consumers = super().retire()
        self._take_apart()
        return consumers

    def _take_apart(self) -> None:
        """Nobody needs the selector any more. To free a ring of thousands of consumers with
        the last reference to it would take long, so it goes in pieces."""
        if self.selector.take_apart(self.subscription.topic.broker.pieces.looks):
            self.host.call_soon(self._take_apart)

    def _owner(self, slot: int) -> int:
        """Returns who gets what is next in a slot, or NOBODY."""
        owner = self._chunks.slot_owner(slot) if len(self._chunks) > 0 else NOBODY
        return owner if owner != NOBODY else self.selector.owner(slot % CHUNK_SLOTS)

    def _drains(self, slot: int, owner: int) -> bool:
        return not self.out_of_order and self.held.blocked(slot, owner)

    def _keeps_order(self) -> bool:
        return not self.out_of_order

    def _moves(self, key: int, holder: Consumer) -> bool:
        return self._owner(holder.pending[key] & SLOT_MASK) != holder.key

    # ---- Slots that are ready ------------------------------------------------

    def _look_at(self, slot: int) -> None:
        """Whom a slot is ready for may have changed."""
        if self._moved:
            return  # All of them are looked at from the next plan on.
        before = self._ready_for.pop(slot, NOBODY)
        if before != NOBODY:
            del self._ready[before][slot]
            if not self._ready[before]:
                del self._ready[before]
        owner = self._owner(slot)
        if self._waiting.has_slot(slot) and owner != NOBODY and not self._drains(slot, owner):
            self._ready.setdefault(owner, {})[slot] = None
            self._ready_for[slot] = owner

    def _begin_round(self) -> None:
        self._moved = False
        slots = list(self._waiting.slots())
        # Else those at the end would never be looked at, if consumers come and come.
        self._begun_at = (self._begun_at + self._next) % max(len(slots), 1)
        self._round = slots[self._begun_at :] + slots[: self._begun_at]
        self._next = 0
        self._ready_for = {}
        self._ready = {}

    def _go_round(self) -> None:
        """Looks at some slots, and at others later, if there are more."""
        if self._moved:
            self._begin_round()
        if not self._round:
            return
        looks = self.subscription.topic.broker.pieces.looks
        end = min(self._next + looks, len(self._round))
        for index in range(self._next, end):
            self._look_at(self._round[index])
        self._next = end
        if end < len(self._round):
            # One piece in each round, besides what it finds to hand out.
            self.pump_later()
            self._rounds.fill()
        else:
            self._end_round()

    def _end_round(self) -> None:
        self._round = []
        self._next = 0
        self._begun_at = 0

    # ---- Replay --------------------------------------------------------------

    def _wait(self, key: int, slot: int) -> None:
        fresh = not self._waiting.has_slot(slot)
        self._waiting.add(key, slot)
        if fresh:
            self._look_at(slot)

    def _let_go(self, key: int, slot: int, consumer: Consumer) -> None:
        freed = not self.out_of_order and self.held.release(slot, consumer.key)
        if len(self._chunks) > 0 and self._chunks.let_go(key) >= 0:
            freed = True
        if freed and self._waiting.has_slot(slot):
            self._look_at(slot)

    def _leave_replay(self, key: int) -> None:
        slot = self._waiting.slot_of(key)
        if slot < 0:
            return
        self._waiting.discard(key)
        if not self._waiting.has_slot(slot):
            self._look_at(slot)

    def _waiting_keys(self) -> list[int]:
        return self._waiting.keys()

    def replay_count(self) -> int:
        return len(self._waiting)

    def rewind(self) -> None:
        super().rewind()
        self._waiting.clear()
        self._end_round()
        self._begin_round()

    def _may_read_on(self) -> bool:
        return not self._round and len(self._waiting) < self.subscription.look_ahead(
            len(self.consumers)
        )

    def _replay_candidates(self, entries_max: i64) -> list[int]:
        """Returns, for each consumer with room, the first entries of slots that wait for it."""
        self._go_round()
        keys: list[int] = []
        for owner, slots in self._ready.items():
            consumer = self.by_key[owner]
            room: i64 = min(consumer.permits, entries_max)
            if not consumer.available:
                continue
            for slot in slots:
                found = self._waiting.first_of(slot, room)
                keys.extend(found)
                room -= len(found)
                if room <= 0:
                    break
        keys.sort()
        return keys

    # ---- Check ---------------------------------------------------------------

    def _check_waiting(self) -> None:
        self.held.check()
        self._waiting.check()
        counts: dict[tuple[int, int], int] = {}
        for consumer in self.consumers:
            for packed in consumer.pending.values():
                slot = (packed & SLOT_MASK, consumer.key)
                counts[slot] = counts.get(slot, 0) + 1
        if not self.out_of_order:
            assert len(self.held) == len(counts), "slots are held by nobody, or by two"
            for (number, holder), count in counts.items():
                assert self.held.holder(number) == holder, "a slot is held by another"
                assert self.held.count(number) == count, "the entries of a slot are miscounted"
        for key in self._waiting.first(len(self._waiting)):
            self._check_waits(key)
        self._check_ready()

    def _check_ready(self) -> None:
        if self._moved:
            return
        ready: dict[int, int] = {}
        later = self._round[self._next :]
        for slot in self._waiting.slots():
            if slot in later and slot not in self._ready_for:
                continue
            owner = self._owner(slot)
            if owner != NOBODY and not self._drains(slot, owner):
                ready[slot] = owner
        assert ready == self._ready_for, "slots are ready for others"
        for consumer_id, slots in self._ready.items():
            mine = [slot for slot, owner in ready.items() if owner == consumer_id]
            assert mine, "a consumer of no slots"
            assert sorted(mine) == sorted(slots), "the slots of a consumer differ"

    def _check_idle(self) -> None:
        for owner in self._ready:
            assert not self.by_key[owner].available, "a key is stuck"

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
        slot = self._slot(facts)
        chunk = facts.chunk_id >= 0
        if chunk:
            self._chunks.know(facts.chunked_name(), key)
        consumer = self._taker(slot, key, chunk=chunk)
        if consumer is None:
            if source != REPLAY:
                self._wait(key, slot)
            return False
        self._leave_replay(key)
        self._send(consumer, entry, key, remaining, slot, now_ms)
        if not self.out_of_order:
            self.held.hold(slot, consumer.key)
        if chunk:
            self._follow_chunk(slot, key, facts, consumer)
        return True

    def _slot(self, facts: EntryFacts) -> int:
        """Returns what must stay in order with the entry."""
        slot = self.selector.slot(facts.sticky_key())
        return slot + CHUNK_SLOTS if self.out_of_order and facts.chunk_id >= 0 else slot

    def _follow_chunk(self, slot: int, key: int, facts: EntryFacts, consumer: Consumer) -> None:
        """A chunk is out: until the last is, the slot stays with its consumer."""
        consumer.chunks += 1
        if facts.chunk_id + 1 < facts.chunk_count:
            freed = self._chunks.take(key, consumer.key, slot)
        else:
            freed = self._chunks.finish(facts.chunked_name())
        if freed >= 0:
            self._look_at(freed)

    def taker(self, facts: EntryFacts) -> Consumer | None:
        """Whose key it is, if that consumer has room."""
        owner = self.selector.owner(self.selector.slot(facts.sticky_key()))
        if owner == NOBODY or not self.by_key[owner].available:
            return None
        return self.by_key[owner]

    def _taker(self, slot: int, key: int, *, chunk: bool) -> Consumer | None:
        """Returns who may be sent the entry now."""
        owner = self._owner(slot)
        if owner == NOBODY:
            return None
        consumer = self.by_key[owner]
        if not consumer.available:
            return None
        if self.out_of_order and not chunk:
            return consumer
        if self._drains(slot, owner):
            return None
        if self._waiting.has_slot(slot) and self._waiting.first_of(slot, 1)[0] < key:
            return None
        return consumer
