"""Shared: every consumer gets what it has room for, in turn.

Entries come from three places, in this order:

    due     delayed messages whose time has come
    replay  to be delivered again: nacked, or held by a consumer that left
    new     from the read position on

and go to one of these:

    pending  a consumer has it (`owners` says which), until acked or given back
    delayed  not before its time
    replay   nobody could take it now

An entry is in one place at a time, except that one which is delayed may come again as new
after a rewind, and that what its holder lacks a part of is sent to it once more, after what is
due (`lacking.py`). What is pending, due or in replay stands before the read position: when the
time comes for a delayed entry that is still to be read, the reading gets there in turn, and
so chunks cannot come before the one that they follow. Chunks of one message go to one
consumer, in order: as long as one waits in replay, since its consumer has no room or gave it
back, all chunks behind it wait too.

What changes hands by the thousand does so in pieces (`handover.py`).
"""

from functools import partial
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from magnetar.ack.ledgers import KEY_MAX
from magnetar.broker.promise import Promise, kept
from magnetar.broker.topic.chunk.chunk_owners import ChunkOwners
from magnetar.broker.topic.consumer import SLOT_BITS, Consumer, Tally
from magnetar.broker.topic.dispatch.consumer_turns import ConsumerTurns
from magnetar.broker.topic.dispatch.dispatcher import LOOKS_FREE, Dispatcher
from magnetar.broker.topic.dispatch.due import DUE, LACKING, NEW, REPLAY, Due
from magnetar.broker.topic.dispatch.handover import (
    CLEARANCE,
    LEAVE,
    REDELIVERY,
    Handover,
    Handovers,
)
from magnetar.broker.topic.dispatch.overtaken import Overtaken
from magnetar.broker.topic.dispatch.replay import Replay
from magnetar.broker.topic.transaction.held_parts import ENOUGH, LACKED, LOST, HeldParts
from magnetar.model import Position
from magnetar.model.subscription_type import SubscriptionType
from magnetar.protocol import EntryFacts, entry_facts, split_entry
from magnetar.storage.ledger.read_plan import ReadPlan, StoredEntry

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["SharedDispatcher"]

# What it takes of a round to give an entry back, and to look at one that is to be.
GIVEN_BACK_BYTES: Final = 256
LOOKED_AT_BYTES: Final = 64


class SharedDispatcher(Dispatcher):
    """See the module; Key_Shared builds on it."""

    def __init__(self, subscription: "Subscription", type: SubscriptionType) -> None:
        super().__init__(subscription, type)
        self._ledgers: Final = subscription.topic.ledgers
        self.overtaken: Final = Overtaken(subscription.have_lost)
        self._due: Final = Due(self.delayed, self.host, self._was_read, self.pump)
        self._replay: Final = Replay()
        self._parts: Final = HeldParts(subscription, self.owners)
        self._lacking: Final = self._parts.lacking
        self._chunks: Final = ChunkOwners()
        self._handovers: Final = Handovers()
        # Consumers that give back what they hold before they go.
        self._leaving: Final[dict[int, Promise[None]]] = {}
        # When the last plan was made: what was due by then was taken before all else.
        self._planned_ms: int = 0
        self._source: int = NEW
        self._turns: Final = ConsumerTurns(subscription.topic.settings)
        self._full: bool = False
        self._unacked: Final = Tally()  # of all consumers together
        # Up to here replay was offered to everybody since the last change; nobody took it.
        self._offered: int = 0
        self._changed: bool = False  # since the last plan was made
        self.rewind()

    # ---- Consumers -----------------------------------------------------------

    def add(self, consumer: Consumer) -> None:
        if not self.consumers:
            self.rewind()
        consumer.limit(self.subscription.unacked_per_consumer)
        consumer.tally = self._unacked
        self._put(consumer)
        self.changed()

    def remove(self, consumer: Consumer) -> Promise[None]:
        if not self.has(consumer):
            return kept(None)
        leaving = self._leaving.get(consumer.key)
        if leaving is None:
            leaving = self._leaving[consumer.key] = Promise()
            self._begin_leave(consumer)
            self._hand_over(Handover(LEAVE, list(consumer.pending), consumer))
        return leaving

    def _begin_leave(self, consumer: Consumer) -> None:
        """It gets nothing new from here on."""

    def _end_leave(self, consumer: Consumer) -> None:
        self._take_out(consumer)
        self._turns.end()
        if len(self.overtaken) > 0:
            self.overtaken.leave(consumer, self.host.now_ms())
        if not self.consumers:
            self.rewind()
        self._leaving.pop(consumer.key).keep(None)

    def flow(self, consumer: Consumer, permits: i64) -> None:
        # Clients empty their queue after SUBSCRIBE is answered, and before they ask for messages.
        if consumer.last_flow_ms == 0 and consumer.is_first and len(self.overtaken) > 0:
            self.overtaken.came_back(consumer)
        super().flow(consumer, permits)

    def changed(self) -> None:
        self._have_changed()
        self.pump()

    def _have_changed(self) -> None:
        self._offered = 0
        self._changed = True
        self._judge()

    def redeliver(self, consumer: Consumer, keys: list[int] | None, epoch: int | None) -> None:
        named = list(consumer.pending) if keys is None else keys
        chunks = None if keys is None or len(self._chunks) == 0 else self._chunks
        consumer.giving_back += 1
        everything = keys is None
        self._hand_over(Handover(REDELIVERY, named, consumer, chunks=chunks, everything=everything))

    # ---- Handovers -----------------------------------------------------------

    def _hand_over(self, handover: Handover) -> None:
        if self._handovers.add(handover):
            if self._rounds.full:
                self.pump_later()
            else:
                self._hand_over_some()

    def work_on(self) -> None:
        self._scheduled = False
        try:
            if len(self._handovers) > 0:
                self._hand_over_some()
        except Exception as error:
            self._give_up(error)
        self.pump()

    def _hand_over_some(self) -> None:
        """A piece of what is in line; the rest in later rounds."""
        pieces = self.subscription.topic.broker.pieces
        left, looks = pieces.entries, pieces.looks
        while len(self._handovers) > 0 and left > 0:
            handover = self._handovers.first()
            looks -= handover.look(looks)
            if not handover.ready:
                break
            keys = handover.take(left)
            left -= len(keys)
            self._hand_over_keys(keys, handover)
            if handover.done:
                self._handovers.end_first()
                self._end_handover(handover)
        self._rounds.spend(
            (pieces.entries - left) * GIVEN_BACK_BYTES + (pieces.looks - looks) * LOOKED_AT_BYTES
        )
        self._have_changed()
        self.pump_later()  # others may leave with it

    def _hand_over_keys(self, keys: list[int], handover: Handover) -> None:
        consumer = handover.consumer
        if consumer is None:
            for key in keys:
                self._forget(key)
            return
        if handover.kind == LEAVE and consumer.keeps_queue:
            self.overtaken.went_away(consumer, keys, self.host.now_ms())
        for key in keys:
            if key in consumer.pending:
                if handover.kind == REDELIVERY:
                    self.redeliveries.bump(key)
                    if self._leaves_behind(key, consumer, everything=handover.everything):
                        self.overtaken.add(key, consumer)
                self._give_back(key, consumer)

    def _leaves_behind(self, key: int, consumer: Consumer, *, everything: bool) -> bool:
        """Whether a client may have something in its queue of an entry that it gives back: not
        ours; and of an entry that is named, what was refused was handed out."""
        if consumer.peer.knows_magnetar:
            return False
        return everything or self.subscription.batch_size(self._ledgers.position(key)) > 1

    def _end_handover(self, handover: Handover) -> None:
        consumer = handover.consumer
        if handover.kind == LEAVE:
            assert consumer is not None
            self._end_leave(consumer)
        elif consumer is not None:
            consumer.giving_back -= 1

    def _give_back(self, key: int, consumer: Consumer) -> None:
        """The entry is nobody's; it waits for its next delivery."""
        slot = consumer.drop(key)
        del self.owners[key]
        self._parts.forget(key)
        self._wait(key, slot)
        self._let_go(key, slot, consumer)

    def _wait(self, key: int, slot: int) -> None:
        self._replay.add(key)
        if len(self._chunks) > 0:
            self._chunks.park(key)

    # ---- Acks ----------------------------------------------------------------

    def acked(self, keys: list[int], by: Consumer | None) -> None:
        subscription, ledgers = self.subscription, self._ledgers
        delayed, letting_go = len(self.delayed), subscription.letting_go > 0
        for key in keys:
            remaining = subscription.pending.deliverable(ledgers.position(key))
            if remaining is None:
                continue
            came_again = self.redeliveries.count(key) > 0
            if remaining == 0:
                holder = self._forget(key)
            else:
                holder = self.owners.get(key)
                if holder is not None and not self._parts.keep(key, holder, remaining):
                    self._give_back(key, holder)
            if holder is not by:
                self._overtake(key, holder, by)
            elif holder is not None and remaining == 0 and (came_again or letting_go):
                # What came again may be on its way still; a skip asks who has the rest of a batch.
                self.overtaken.add(key, holder)
        if len(self.delayed) < delayed:
            self._due.set_alarm()
        self.changed()

    def _overtake(self, key: int, holder: Consumer | None, by: Consumer | None) -> None:
        """A consumer acked what another one holds, or what the other acked before it."""
        if by is None:
            return  # An operator's skip asks holders itself.
        if holder is not None:
            self.overtaken.add(key, holder)
        elif len(self.overtaken) > 0:
            self.overtaken.is_done_with(key, by)

    def acked_again(self, keys: list[int], by: Consumer) -> None:
        if len(self.overtaken) > 0:
            for key in keys:
                self.overtaken.is_done_with(key, by)

    def released(self, keys: list[int]) -> None:
        """They are offered before all else: nothing is known of them, as of those that are due."""
        for key in keys:
            if not self._was_read(key) or self.cursor.remaining(self._ledgers.position(key)) == 0:
                continue  # the reading gets there in turn, or somebody acked it
            holder = self.owners.get(key)
            freed = LOST if holder is None else self._parts.freed(key, holder)
            if holder is None:
                self._leave_replay(key)
                self._due.free(key)
            elif freed == LOST or (freed == LACKED and not self._keeps_order()):
                self._give_back(key, holder)
            elif freed == LACKED:
                self._lacking.add(key, holder)
            if freed != ENOUGH:
                self.redeliveries.bump(key)
        self.changed()

    def refused(self, keys: list[int]) -> None:
        """Who has all of an entry keeps it; of others nobody has some of it."""
        self.released([key for key in keys if key not in self.owners or key in self._parts])

    def _keeps_order(self) -> bool:
        """Whether nobody else may have what a consumer is at work on."""
        return False

    def _moves(self, key: int, holder: Consumer) -> bool:
        """Whether somebody else would have an entry next, who must wait for its holder."""
        return False

    def pending(self, key: int, indexes: int, by: Consumer) -> None:
        self._parts.acked(key, indexes, by)

    def holder(self, key: int) -> Consumer | None:
        """Who has an entry and may hand it out, acked or not."""
        owner = self.owners.get(key)
        return self.take_overtaken(key) if owner is None else owner

    def take_overtaken(self, key: int) -> Consumer | None:
        return self.overtaken.take(key, self.host.now_ms())

    def has_still(self, key: int, holder: Consumer) -> None:
        if self.has(holder) and holder.peer.knows_magnetar:
            self.overtaken.add(key, holder)

    @property
    def has_overtaken(self) -> bool:
        return len(self.overtaken) > 0

    def _forget(self, key: int) -> Consumer | None:
        """An entry is acked or gone: nobody has it, and nothing of it waits anywhere.

        Returns who had it.
        """
        owner = self.owners.pop(key, None)
        if owner is not None:
            self._let_go(key, owner.keep_unacked(key, 0), owner)
        # Most of these are empty most of the time.
        self._parts.forget(key)
        if len(self.redeliveries) > 0:
            self.redeliveries.forget(key)
        if len(self.delayed) > 0:
            self.delayed.discard(key)
        self._due.discard(key)
        chunks = len(self._chunks) > 0
        if chunks or self.replay_count() > 0:
            self._leave_replay(key)
        if chunks:
            self._chunks.forget(key)
        return owner

    def _let_go(self, key: int, slot: int, consumer: Consumer) -> None:
        """A consumer does not hold an entry of this slot any more."""
        if len(self._chunks) > 0:
            self._chunks.let_go(key)

    def _leave_replay(self, key: int) -> None:
        self._replay.discard(key)
        if len(self._chunks) > 0:
            self._chunks.unpark(key)

    def passed(self) -> None:
        floor = self._floor()
        self._replay.discard_through(floor)
        self.delayed.discard_through(floor)
        self._due.discard_through(floor)
        self._due.set_alarm()
        self._hand_over(Handover(CLEARANCE, self._known(), floor=floor))

    def _known(self) -> list[int]:
        """Returns all entries of which something is known, some of them more than once."""
        known = list(self.owners)
        known += self._chunks.known()
        known += self.redeliveries.known()
        known += self._waiting_keys()
        return known

    def _floor(self) -> int:
        """The last entry before the first that is unacked: of all up to it nothing is left."""
        first = self.cursor.next_run(self.cursor.mark_delete, 1)
        return KEY_MAX if first is None else self._ledgers.key(first.ledger_id, first.first) - 1

    def _waiting_keys(self) -> list[int]:
        """Returns those entries that wait and are not let go of at once."""
        return []

    # ---- Limits --------------------------------------------------------------

    def _judge(self) -> None:
        """Too many unacked messages stop the subscription, until half of them are acked."""
        limit = self.subscription.unacked_max
        unacked = self.unacked_count()
        if limit <= 0 or unacked < max(limit // 2, 1):
            self._full = False
        elif unacked >= limit:
            self._full = True

    @property
    def full(self) -> bool:
        """Whether the limit on unacked messages holds everything up."""
        return self._full

    def unacked_count(self) -> int:
        return self._unacked.messages

    def delayed_count(self) -> int:
        return len(self.delayed)

    def delayed_bytes(self) -> int:
        return self.delayed.memory_bytes()

    def most_redelivered(self, limit: int) -> list[tuple[int, int]]:
        return self.redeliveries.most(limit)

    def replay_count(self) -> int:
        return len(self._replay)

    # ---- Check ---------------------------------------------------------------

    def check(self) -> None:
        """Asserts that all that is known of entries agrees, between two events."""
        held = {key: consumer for consumer in self.consumers for key in consumer.pending}
        assert held == self.owners, "owners and what consumers have differ"
        for key in held:
            self._check_there(key)
        for key in self._leaving:
            assert key in self.by_key, "who is gone leaves"
        for consumer in self.consumers:
            unacked: i64 = sum([packed >> SLOT_BITS for packed in consumer.pending.values()])
            assert consumer.unacked == unacked, "a consumer's unacked messages are miscounted"
        total = sum([int(consumer.unacked) for consumer in self.consumers])
        assert self._unacked.messages == total, "unacked messages are miscounted"
        self._chunks.check()
        for key, consumer_id in self._chunks.held().items():
            assert key in held, "a chunk that nobody has binds its message"
            assert held[key].key == consumer_id, "a chunk is another's"
        for key in self._due.first(len(self._due)):
            self._check_waits(key)
        self._lacking.check(self.owners)
        self._check_waiting()
        busy = self._is_waiting() or self._due.is_any(self.host.now_ms())
        if not (busy or self._closed or self.subscription.fenced):
            assert self._plan() is None, "there is something to do, and nobody does it"
            if not self._full and self._any_available():
                self._check_idle()

    def _check_idle(self) -> None:
        """Asserts that whatever waits, while there is room, waits for somebody else."""
        for key in self._replay.first(len(self._replay)):
            name = self._chunks.name(key)
            waits = name is not None and (
                self._chunks.owner(name) >= 0 or self._chunks.waits_before(name, key)
            )
            assert waits, "what anybody could have waits"

    def _check_waiting(self) -> None:
        for key in self._replay.first(len(self._replay)):
            self._check_waits(key)

    def _check_waits(self, key: int) -> None:
        assert key not in self.owners, "what a consumer has waits"
        self._check_there(key)

    def _check_there(self, key: int) -> None:
        if key <= self._handovers.floor:
            return
        assert self._was_read(key), "what is to be read is with somebody, or waits"
        position = self._ledgers.position(key)
        assert self.cursor.remaining(position) != 0, "what is acked is not let go of"
        there = self.subscription.topic.ledgers.entry_count(position.ledger_id)
        assert position.entry_id < there, "what is deleted is not let go of"

    # ---- Rewinding -----------------------------------------------------------

    def rewind(self) -> None:
        super().rewind()
        self._due.clear()
        self._replay.clear()
        self._parts.clear()
        self._chunks.clear()

    def close(self) -> None:
        super().close()
        self.overtaken.end()
        self._handovers.clear()
        for leaving in self._leaving.values():
            # In a moment, for whoever waits may close this too.
            self.host.call_soon(partial(leaving.keep, None))
        self._leaving.clear()
        self._due.close()

    # ---- The pump ------------------------------------------------------------

    def _anything(self) -> bool:
        """Whether there is something to deliver, if somebody has room for it."""
        if len(self._due) > 0 or len(self._lacking) > 0 or self.replay_count() > 0:
            return True
        return self.cursor.next_run(self.read_position, 1) is not None

    def _room(self, enough: i64) -> i64:
        """How many messages could be delivered now, as far as that is not enough."""
        room: i64 = 0
        for consumer in self.consumers:
            if consumer.available:
                room += consumer.permits
                if room >= enough:
                    return enough
        return room

    def _plan(self) -> ReadPlan | None:
        if len(self.consumers) > LOOKS_FREE and not self._anything():
            return None
        entries = self._room(self._entries_max())
        if entries <= 0 or self._full:
            return None
        self._changed = self._due.freed = False
        self._planned_ms = self.host.now_ms()
        if not self._due.take(self._planned_ms):
            self.pump_later()
            return None
        if len(self._due) > 0:
            plan = self._plan_keys(self._due.first(entries), DUE)
            if plan is not None:
                return plan
        if len(self._lacking) > 0:
            keys = self._lacking.first(entries)
            plan = self._plan_keys(keys, LACKING) if keys else None
            if plan is not None:
                return plan
        keys = self._replay_candidates(entries)
        if keys:
            plan = self._plan_keys(keys, REPLAY)
            if plan is not None:
                return plan
        if not self._may_read_on():
            return None
        self._source = NEW
        return self._plan_run(entries, self.subscription.topic.settings.dispatch_read_bytes)

    def _replay_candidates(self, entries_max: i64) -> list[int]:
        return self._replay.first(entries_max, self._offered)

    def _may_read_on(self) -> bool:
        """Whether new entries may be read while others wait in replay."""
        return len(self._replay) < self.subscription.look_ahead(len(self.consumers))

    def _plan_keys(self, keys: list[int], source: int) -> ReadPlan | None:
        """A plan for the first of them, which are in order; those that are gone are forgotten."""
        bytes_max = self.subscription.topic.settings.dispatch_read_bytes
        positions = [self._ledgers.position(key) for key in keys]
        plan = self.store.plan_entries(positions, bytes_max)
        if len(plan.entries) < len(keys):
            there = [self._ledgers.key(e.ledger_id, e.entry_id) for e in plan.entries]
            for gone in set(keys).difference(there):
                # What comes behind the last is for another plan.
                if not there or gone < there[-1]:
                    self._forget(gone)
            if not there:
                return None
        self._source = source
        return plan

    def _deliver(self, entries: list[StoredEntry]) -> bool:
        source = self._source
        if self._due.freed and source in (NEW, REPLAY):
            return True
        # Had it read the clock again, a chunk could be due whose beginning was put off before.
        now_ms = self._planned_ms
        for entry in entries:
            if self._full or not self._any_available() or self._is_shut():
                return False
            key = self._ledgers.key(entry.ledger_id, entry.entry_id)
            position = Position(entry.ledger_id, entry.entry_id)
            if source == NEW:
                self.read_position = Position(entry.ledger_id, entry.entry_id + 1)
            elif source == DUE:
                self._due.discard(key)
            remaining = self.subscription.pending.deliverable(position)
            if remaining == 0:
                self._forget(key)
                continue
            if source == LACKING:
                self._supply(entry, key, remaining, now_ms)
                continue
            if key in self.owners:
                self._leave_replay(key)
                continue
            data = entry.data
            assert data is not None
            facts = entry_facts(split_entry(data))
            if self._delay(key, facts, now_ms):
                continue
            taken = self._offer(entry, key, facts, remaining, now_ms, source)
            if not taken and source == REPLAY and not self._changed:
                self._offered = key + 1
        return True

    def _delay(self, key: int, facts: EntryFacts, now_ms: int) -> bool:
        """Whether it is too early for the entry, which then waits for its time."""
        due_ms = facts.deliver_at_ms
        if due_ms <= now_ms or not self.subscription.delayed_delivery:
            return False
        self.delayed.add(key, due_ms)
        self._leave_replay(key)
        self._due.set_alarm()
        return True

    def _offer(
        self,
        entry: StoredEntry,
        key: int,
        facts: EntryFacts,
        remaining: int | None,
        now_ms: int,
        source: int,
    ) -> bool:
        """Gives the entry to a consumer, or lets it wait."""
        if facts.chunk_id >= 0:
            self._chunks.know(facts.chunked_name(), key)
        consumer = self._choose(facts, key)
        if consumer is None:
            if source != REPLAY:
                self._wait(key, 0)
            return False
        if source == REPLAY:
            self._leave_replay(key)
        self._send(consumer, entry, key, remaining, 0, now_ms)
        if facts.chunk_id >= 0:
            consumer.chunks += 1
            if facts.chunk_id + 1 >= facts.chunk_count:
                self._chunks.finish(facts.chunked_name())
            else:
                self._chunks.take(key, consumer.key)
        return True

    def _send(
        self,
        consumer: Consumer,
        entry: StoredEntry,
        key: int,
        remaining: int | None,
        slot: int,
        now_ms: int,
    ) -> None:
        count = self.redeliveries.count(key)
        messages = consumer.deliver(
            entry, self.partition, remaining=remaining, redelivery_count=count, now_ms=now_ms
        )
        self._has_sent(messages, entry.length)
        if key in self.owners:
            consumer.have_again(key, messages)  # it lacked a part
        else:
            self.owners[key] = consumer
            consumer.hold(key, messages, slot)
        if len(self.subscription.pending) > 0:
            self._parts.sent(key, consumer, remaining)
        if len(self.overtaken) > 0:
            self.overtaken.is_done_with(key, consumer)
        if self.subscription.unacked_max > 0:
            self._judge()

    def _supply(self, entry: StoredEntry, key: int, remaining: int | None, now_ms: int) -> None:
        """Sends an entry once more to who holds it and lacks a part of it."""
        holder = self.owners[key] if key in self._lacking else None  # it was given back
        if holder is not None and self._moves(key, holder):
            self._lacking.discard(key)
        elif holder is not None and holder.available:
            self._parts.forget(key)
            self._send(holder, entry, key, remaining, 0, now_ms)

    # ---- Who is next ---------------------------------------------------------

    def _choose(self, facts: EntryFacts, key: int) -> Consumer | None:
        if facts.chunk_id >= 0:
            if self._chunks.waits_before(facts.chunked_name(), key):
                return None
            owner = self._chunks.owner(facts.chunked_name())
            if owner >= 0 and owner in self.by_key:
                consumer = self.by_key[owner]
                return consumer if consumer.available else None
        return self._turns.next(self.consumers)

    def taker(self, facts: EntryFacts) -> Consumer | None:
        return self._turns.next(self.consumers)

    # ---- Delayed -------------------------------------------------------------

    def _was_read(self, key: int) -> bool:
        """Whether an entry stands before the read position."""
        return self._ledgers.position(key) < self.read_position
