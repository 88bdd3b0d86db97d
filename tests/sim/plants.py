"""Bugs that are planted to see that the simulation finds them; docs/simulation.md lists them.

A plant replaces one method or function while a run lasts, and counts how often it was
called: a plant that never ran would prove nothing. `seed` is one that is known to find it.
Compiled code cannot be changed like this, so plants are for the interpreted build.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

# Gives what takes the place of the original, which it is handed.
Make = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Plant:
    """A bug: where it is, what is wrong there, and a seed that finds it."""

    name: str
    where: str  # module:attribute or module:class.method
    make: Make
    seed: int
    # A second place where the same is wrong, if one of them covers for the other.
    also: "tuple[str, Make] | None" = None
    # The life that finds it: `life`, or `homes` in which the broker's directory changes.
    life: str = "life"
    # Whether no seed below 200 finds it; `make test-long` looks further.
    rare: bool = False

    @contextlib.contextmanager
    def planted(self) -> Iterator[list[int]]:
        """Plants it; the list has one item for each call."""
        with contextlib.ExitStack() as stack:
            if self.also is not None:
                stack.enter_context(self._plant(*self.also))
            yield stack.enter_context(self._plant(self.where, self.make))

    @contextlib.contextmanager
    def _plant(self, where: str, make: Make) -> Iterator[list[int]]:
        module_name, _, path = where.partition(":")
        owner: Any = importlib.import_module(module_name)
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        original = getattr(owner, name)
        wrong = make(original)
        calls: list[int] = []

        def counted(*args: Any, **options: Any) -> Any:
            calls.append(1)
            return wrong(*args, **options)

        setattr(owner, name, counted)
        try:
            yield calls
        finally:
            setattr(owner, name, original)


def nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    """It is simply not done."""
    return lambda *args, **options: None


def returns(value: Any) -> Make:
    return lambda original: lambda *args, **options: value


# ---- The broker --------------------------------------------------------------


def _unsynced(original: Callable[..., Any]) -> Callable[..., Any]:
    def write(self: Any, path: str, offset: int, data: bytes, *, sync: bool) -> None:
        original(self, path, offset, data, sync=False)

    return write


def _forgets_files(original: Callable[..., Any]) -> Callable[..., Any]:
    def abandon(self: Any) -> None:
        original(self)
        self._late.clear()
        self._named.clear()

    return abandon


def _answers_first(original: Callable[..., Any]) -> Callable[..., Any]:
    from magnetar.broker.topic.ack.ack_answer import answer_ack

    def ack(self: Any, consumer: Any, command: Any) -> None:
        request_id, command.request_id = command.request_id, None
        answer_ack(consumer, request_id)
        original(self, consumer, command)

    return ack


def _keeps_what_is_due(original: Callable[..., Any]) -> Callable[..., Any]:
    def rewind(self: Any) -> None:
        due = self._due.first(len(self._due)) if hasattr(self, "_due") else []
        original(self)
        for key in due:
            self._due.add(key)

    return rewind


def _forgets_record(original: Callable[..., Any]) -> Callable[..., Any]:
    def ack_indexes(self: Any, entry_id: int, record: int, size: int) -> None:
        if entry_id in self.records:
            self.messages -= size - self._forget(entry_id, size)
        original(self, entry_id, record, size)

    return ack_indexes


def _used_ids(original: Callable[..., Any]) -> Callable[..., Any]:
    from magnetar.storage.ids import BLOCK, STRIPES

    return lambda reserved, now_ms, stripe: max(reserved - BLOCK * STRIPES, 1)


def _counts_from_one(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda reserved, now_ms, stripe: reserved


def _counts_on(original: Callable[..., Any]) -> Callable[..., Any]:
    from magnetar.storage.ids import FIRST

    def first_id(reserved: int, now_ms: int, stripe: int) -> int:
        return int(original(reserved, now_ms, stripe)) if reserved == FIRST else reserved

    return first_id


def _follows_the_clock(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda reserved, now_ms, stripe: original(1, now_ms, stripe)


def _one_lane(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda reserved, now_ms, stripe: original(reserved, now_ms, 0)


def _last_first(original: Callable[..., Any]) -> Callable[..., Any]:
    def first_of(self: Any, slot: int, n: int) -> list[int]:
        found: list[int] = original(self, slot, 1 << 30)
        return found[::-1][:n]

    return first_of


def _fastest(original: Callable[..., Any]) -> Callable[..., Any]:
    def slowest(self: Any, **options: Any) -> Any:
        marks = [s.cursor.mark_delete for s in self._topic.subscriptions.values()]
        return max(marks) if marks else original(self, **options)

    return slowest


def _not_written(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, deltas: self.ticket_last


def _charges_twice(original: Callable[..., Any]) -> Callable[..., Any]:
    def deliver(self: Any, *args: Any, **options: Any) -> int:
        messages: int = original(self, *args, **options)
        if options["redelivery_count"] > 0:
            self.permits -= messages
        return messages

    return deliver


def _whole_entries(original: Callable[..., Any]) -> Callable[..., Any]:
    def keep_unacked(self: Any, key: int, left: int) -> int:
        slot: int = original(self, key, left if left == 0 else self.pending[key] >> 17)
        return slot

    return keep_unacked


def _only_in_memory(original: Callable[..., Any]) -> Callable[..., Any]:
    from magnetar.ack.delta import ResetDelta
    from magnetar.broker.promise import Promise

    def write_all(self: Any, deltas: Any) -> Any:
        if not isinstance(deltas[0], ResetDelta):
            return original(self, deltas)
        written: Promise[None] = Promise()
        self.unsettled_acks.settled().when_done(lambda error: written.keep(None))
        return written

    return write_all


def _does_not_look(original: Callable[..., Any]) -> Callable[..., Any]:
    def let_go(self: Any, *args: Any) -> None:
        self._look_at = lambda slot: None
        try:
            original(self, *args)
        finally:
            del self._look_at

    return let_go


def _keeps_slots(original: Callable[..., Any]) -> Callable[..., Any]:
    def give_back(self: Any, key: int, consumer: Any) -> None:
        slot = consumer.drop(key)
        del self.owners[key]
        self._wait(key, slot)

    return give_back


def _keeps_what_is_skipped(original: Callable[..., Any]) -> Callable[..., Any]:
    def have_moved(self: Any, delta: Any) -> None:
        self.topic.storage.acks_moved()

    return have_moved


def _overtakes(original: Callable[..., Any]) -> Callable[..., Any]:
    def taker(self: Any, slot: int, key: int, *, chunk: bool) -> Any:
        owner = self._owner(slot)
        if owner < 0 or self._drains(slot, owner):
            return None
        consumer = self.by_key[owner]
        return consumer if consumer.available else None

    return taker


def _tells_nobody(original: Callable[..., Any]) -> Callable[..., Any]:
    def flow(self: Any, consumer: Any, permits: int) -> None:
        consumer.permits += permits

    return flow


def _names_last_chunk_only(original: Callable[..., Any]) -> Callable[..., Any]:
    from magnetar.broker.topic.dispatch.handover import REDELIVERY, Handover

    def redeliver(self: Any, consumer: Any, keys: list[int] | None, epoch: int | None) -> None:
        if keys is None:
            original(self, consumer, keys, epoch)
            return
        last = {self._chunks.name(key) or key: key for key in keys}
        consumer.giving_back += 1
        self._hand_over(Handover(REDELIVERY, sorted(last.values()), consumer))

    return redeliver


def _spans_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    from magnetar.broker.promise import kept

    return lambda topic, mark: kept([])


def _last_entry(original: Callable[..., Any]) -> Callable[..., Any]:
    from magnetar.model.message_id_data import MessageIdData

    def next_plan(self: Any) -> None:
        self.id = MessageIdData(self._last.ledger_id, self._last.entry_id, self.id.partition)

    return next_plan


# ---- The client --------------------------------------------------------------


def _leaks(original: Callable[..., Any]) -> Callable[..., Any]:
    def give_back(self: Any, permits: int) -> None:
        original(self, permits - 1 if permits > 0 else permits)

    return give_back


def _acks_all(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, acks, index: original(self, acks, -1)


def _drops_neighbours(original: Callable[..., Any]) -> Callable[..., Any]:
    def drop(self: Any, keys: set[int]) -> int:
        return int(self.clear())

    return drop


def _shows_all(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, ledger_id, entry_id, batch_size, unacked: unacked


def _keeps_permits(original: Callable[..., Any]) -> Callable[..., Any]:
    def withdraw(self: Any, withdrawal: Any) -> None:
        give_back = self._permits.give_back
        self._permits.give_back = lambda permits: None
        try:
            original(self, withdrawal)
        finally:
            self._permits.give_back = give_back

    return withdraw


def _drops_all(original: Callable[..., Any]) -> Callable[..., Any]:
    def withdraw(self: Any, withdrawal: Any) -> int:
        original(self, withdrawal)
        return int(self.clear())

    return withdraw


def _keeps_what_it_held(original: Callable[..., Any]) -> Callable[..., Any]:
    def comes_back(self: Any, link: Any) -> Any:
        link.consumer.over(emptied=True)
        return link

    return comes_back


def _takes_whole_entries(original: Callable[..., Any]) -> Callable[..., Any]:
    def takes(self: Any, message: Any) -> bool:
        self.kept.update(dict.fromkeys(self.kept, 0))
        return bool(original(self, message))

    return takes


def _includes(original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda id, inclusive, *, exact: original(id, True, exact=exact)


def _whole_batches(original: Callable[..., Any]) -> Callable[..., Any]:
    from magnetar.model.message_id_data import MessageIdData

    def seek_target(id: Any, inclusive: bool, *, exact: bool) -> MessageIdData:
        target = original(id, inclusive, exact=exact)
        return MessageIdData(target.ledger_id, target.entry_id, target.partition)

    return seek_target


def _waits_for_nothing(original: Callable[..., Any]) -> Callable[..., Any]:
    async def arrives(self: Any, last: Any) -> bool:
        return True

    return arrives


BROKER = "magnetar.broker"
CLIENT = "magnetar.client"

PLANTS = [
    Plant("data are not synced", "magnetar.testing.sim.disk:SimDisk.write", _unsynced, 1),
    Plant(
        "an ack is answered before it is durable",
        f"{BROKER}.topic.subscription:Subscription.ack",
        _answers_first,
        13,
    ),
    Plant(
        "acks of one batch replace each other: no AND",
        "magnetar.ack.ledger_acks:LedgerAcks.ack_indexes",
        _forgets_record,
        2,
    ),
    Plant("ids are given again after a crash", "magnetar.storage.store:first_id", _used_ids, 1),
    Plant(
        "a broker that lost its directory begins at the same ids",
        "magnetar.storage.store:first_id",
        _counts_from_one,
        1,
        life="homes",
    ),
    Plant(
        "a restored copy gives the ids of its original again",
        "magnetar.storage.store:first_id",
        _counts_on,
        3,
        life="homes",
    ),
    Plant(
        "ids go back with the clock",
        "magnetar.storage.store:first_id",
        _follows_the_clock,
        3,
        life="homes",
    ),
    Plant(
        "two brokers that start in one moment share their ids",
        "magnetar.storage.store:first_id",
        _one_lane,
        3,
        life="homes",
    ),
    Plant(
        "redelivery loses the order of a key",
        f"{BROKER}.topic.dispatch.replay:KeyReplay.first_of",
        _last_first,
        6,
    ),
    Plant(
        "a key is with two consumers at once",
        f"{BROKER}.topic.dispatch.draining:HeldSlots.blocked",
        returns(False),
        18,
    ),
    Plant("a refused ack gets no answer", f"{BROKER}.topic.subscription:refuse_ack", nothing, 37),
    Plant(
        "what is sent again is stored again, in spite of deduplication",
        f"{BROKER}.topic.publish.deduplication:Deduplication.judge",
        returns(0),
        64,
        (f"{BROKER}.topic.publish.deduplication:Deduplication.highest", returns(-1)),
        rare=True,
    ),
    Plant("a skip is not written", "magnetar.storage.store:Store.append_deltas", _not_written, 12),
    Plant(
        "a segment goes that an index file on its way to the disk names",
        "magnetar.storage.reclaim:Reclaimer.abandon",
        _forgets_files,
        8100316,
        rare=True,
    ),
    Plant(
        "a topic is trimmed too far",
        f"{BROKER}.topic.topic_storage:TopicStorage.slowest",
        _fastest,
        51,
    ),
    Plant(
        "a redelivery costs permits twice",
        f"{BROKER}.topic.consumer:Consumer.deliver",
        _charges_twice,
        14,
    ),
    Plant(
        "partial acks do not lower unackedMessages",
        f"{BROKER}.topic.consumer:Consumer.keep_unacked",
        _whole_entries,
        23,
    ),
    Plant("a seek leaves some acks as they were", "magnetar.ack.acks:Acks.clear", nothing, 0),
    Plant(
        "a seek is not written",
        f"{BROKER}.topic.subscription:Subscription.write_all",
        _only_in_memory,
        13,
    ),
    Plant(
        "a seek into a batch begins with all of it",
        "magnetar.ack.reset_plan:ResetPlan.enter_batch",
        nothing,
        25,
    ),
    Plant(
        "chunks bind their key when they are let go of",
        f"{BROKER}.topic.chunk.chunk_owners:ChunkOwners.let_go",
        returns(-1),
        4,
    ),
    Plant(
        "nobody keeps the chunks of a message together",
        f"{BROKER}.topic.chunk.chunk_owners:ChunkOwners.slot_owner",
        returns(-1),
        102,
    ),
    Plant(
        "what is due overtakes what is read again",
        f"{BROKER}.topic.dispatch.shared:SharedDispatcher.rewind",
        _keeps_what_is_due,
        19718703,
        rare=True,
    ),
    Plant(
        "a key that is let go of is not looked at again",
        f"{BROKER}.topic.dispatch.key_shared:KeySharedDispatcher._let_go",
        _does_not_look,
        18,
    ),
    Plant(
        "a key stays with the consumer that gave its messages back",
        f"{BROKER}.topic.dispatch.shared:SharedDispatcher._give_back",
        _keeps_slots,
        4,
    ),
    Plant(
        "a new message overtakes one of its key that waits",
        f"{BROKER}.topic.dispatch.key_shared:KeySharedDispatcher._taker",
        _overtakes,
        26,
    ),
    Plant(
        "what is skipped stays with who has it",
        f"{BROKER}.topic.subscription:Subscription.have_moved",
        _keeps_what_is_skipped,
        4,
    ),
    Plant(
        "all that was read is handled in one turn",
        f"{BROKER}.session.session:Session._may_go_on",
        returns(True),
        1,
    ),
    Plant(
        "a peer that does not read is answered without end",
        f"{BROKER}.session.session:Session._is_full",
        returns(False),
        1,
    ),
    Plant(
        "what is left of a turn is forgotten",
        f"{BROKER}.turn.turns:Turns.queue",
        nothing,
        1,
    ),
    Plant(
        "permits wake nobody",
        f"{BROKER}.topic.dispatch.dispatcher:Dispatcher.flow",
        _tells_nobody,
        0,
    ),
    Plant(
        "a skip is answered, and consumers were not asked for it",
        f"{BROKER}.topic.skip.recall:Recall.take_back",
        nothing,
        3,
    ),
    Plant(
        "what a consumer held that was closed for a skip comes to nobody",
        f"{BROKER}.session.session_consumers:SessionConsumers._come_back",
        _keeps_what_it_held,
        3,
    ),
    Plant(
        "what is withdrawn stays in the queue",
        f"{CLIENT}.consumer.receive_queue:ReceiveQueue.withdraw",
        returns(0),
        11,
    ),
    Plant(
        "the permit of what is withdrawn leaks",
        f"{CLIENT}.consumer.core:ConsumerCore.withdraw",
        _keeps_permits,
        11,
    ),
    Plant(
        "what is withdrawn takes its neighbours along",
        f"{CLIENT}.consumer.receive_queue:ReceiveQueue.withdraw",
        _drops_all,
        11,
    ),
    Plant(
        "of a batch all is dropped when one message is withdrawn",
        f"{CLIENT}.consumer.withdrawal:Withdrawal.takes",
        _takes_whole_entries,
        176,
    ),
    Plant("a permit leaks", f"{CLIENT}.consumer.permits:Permits.give_back", _leaks, 1),
    Plant(
        "an ack of one message acks its whole batch",
        f"{CLIENT}.ack.tracker:AckTracker.acknowledge",
        _acks_all,
        2,
    ),
    Plant(
        "a cumulative ack that was lost is not sent again",
        f"{CLIENT}.ack.cumulatives:Cumulatives.add_again",
        nothing,
        45,
    ),
    Plant(
        "acks that were lost are not retried",
        f"{CLIENT}.ack.answers:AckAnswers._lost",
        nothing,
        1,
    ),
    Plant(
        "a message comes again while its ack is pending",
        f"{CLIENT}.ack.tracker:AckTracker.unacked_of",
        _shows_all,
        1,
    ),
    Plant(
        "a redelivery drops neighbours from the queue",
        f"{CLIENT}.consumer.receive_queue:ReceiveQueue.drop",
        _drops_neighbours,
        42,
    ),
    Plant(
        "a negative ack is forgotten",
        f"{CLIENT}.consumer.negative_acks:NegativeAcks.add",
        nothing,
        17,
    ),
    Plant(
        "what is under way is not sent again",
        f"{CLIENT}.producer.send_queue:SendQueue.rewind",
        nothing,
        1,
    ),
    Plant(
        "to skip one chunk leaves the others",
        f"{BROKER}.topic.chunk.chunk_search:ChunkSearch._begin_walk",
        returns(None),
        35,
    ),
    Plant(
        "an ack by an id from elsewhere leaves the chunks between",
        f"{BROKER}.session.session_consumers:names_chunks",
        returns(False),
        0,
    ),
    Plant(
        "a negative ack brings the last chunk only",
        f"{BROKER}.topic.dispatch.shared:SharedDispatcher.redeliver",
        _names_last_chunk_only,
        40,
    ),
    Plant(
        "a seek loses messages that reach over its place",
        f"{BROKER}.session.session_consumers:find_spanning",
        _spans_nothing,
        16,
    ),
    Plant(
        "the last message is the last entry, whatever that is",
        f"{BROKER}.topic.last_message:LastMessage.next_plan",
        _last_entry,
        25,
        (f"{CLIENT}.engine.partition_consumer:PartitionConsumer.arrives", _waits_for_nothing),
    ),
    Plant(
        "an exclusive seek brings its message",
        f"{CLIENT}.engine.partition_consumer:seek_target",
        _includes,
        3,
    ),
    Plant(
        "a seek into a batch forgets which of its messages",
        f"{CLIENT}.engine.partition_consumer:seek_target",
        _whole_batches,
        3,
    ),
]
