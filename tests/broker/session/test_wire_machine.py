"""A subscription in random hands, compared with a plain set of messages that are acked.

    I1  what was receipted is there         I3  what is not acked is delivered in the end
    I2  what was acked never comes again    I7  every counter is what the set says

Some messages are in chunks, and some of those never end.

Every delivery must carry exactly the messages of its entry that are unacked, whatever
consumers, brokers and disks went through before.
"""

from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.wire_client import (
    Delivery,
    Exclusive,
    Failover,
    KeyShared,
    Shared,
    WireConsumer,
    but,
    refused,
)
from support.world import FULL, World

from magnetar.broker.topic.dispatch.shared import SharedDispatcher
from magnetar.broker.topic.skip.skip import Move, move_together
from magnetar.model import KeySharedMode, Position, ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import pulsar_pb2 as pb

Place = tuple[int, int]

CONSUMERS_MAX = 3
WHICH = st.integers(0, 11)


class SubscriptionMachine(RuleBasedStateMachine):
    """See the module; the subclasses say of which type the subscription is."""

    type: ClassVar[int]
    # Whether keys may be out of order, of Key_Shared.
    loose: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.world = World(
            ledger_entries_max=4,
            retention_minutes=-1,
            retention_mb=-1,
            failover_delay_ms=0,
            dispatch_read_entries=3,
            cache_bytes=200,
        )
        # Unacked indexes of every entry that was receipted, in the topic's order.
        self.unacked: dict[Place, set[int]] = {}
        self.sizes: dict[Place, int] = {}
        self.consumers: list[WireConsumer] = []
        self.permits: dict[WireConsumer, int] = {}
        # What consumers have and have not acked, where the broker keeps that.
        self.held: dict[Place, WireConsumer] = {}
        self.delivered: dict[Place, Delivery] = {}
        self.published = 0
        # Chunked messages: the key of each, the places of its chunks, and how many it is to have.
        self.chunked: list[tuple[str, list[Place], int]] = []
        self.begin()

    def begin(self) -> None:
        self.consumers = []
        self.held = {}
        self.producer = self.world.connect().producer("t")
        self.join()

    @property
    def many(self) -> bool:
        return self.type in (Shared, KeyShared)

    # ---- Publishing ----------------------------------------------------------

    @rule(size=st.integers(1, 5), key=st.integers(0, 3))
    def publish(self, size: int, key: int) -> None:
        id = self.producer.send(*self.texts(size), batch=size > 1, partition_key=f"{key}")
        place = (int(id.ledger_id), int(id.entry_id))
        assert place not in self.unacked, "I9"
        self.unacked[place] = set(range(size))
        self.sizes[place] = size

    def publish_chunk(self, which: int) -> None:
        """The next of a message that is not complete, if it is to have any more."""
        key, places, count = self.chunked[which]
        if len(places) == count:
            return
        # All chunks of a message say when it was published first.
        first_ms = 1 + which
        id = self.producer.send_chunk(
            f"u{which}",
            len(places),
            count,
            *self.texts(1),
            partition_key=key,
            publish_time=first_ms,
        )
        places.append((int(id.ledger_id), int(id.entry_id)))
        self.unacked[places[-1]] = {0}
        self.sizes[places[-1]] = 1

    @rule(key=st.integers(0, 3), count=st.integers(2, 4), sent=st.integers(1, 4))
    def publish_chunks(self, key: int, count: int, sent: int) -> None:
        """The first chunks of a message, and maybe all."""
        self.chunked.append((f"{key}", [], count))
        for _ in range(sent):
            self.publish_chunk(len(self.chunked) - 1)

    @precondition(lambda self: self.chunked)
    @rule(which=WHICH)
    def publish_another_chunk(self, which: int) -> None:
        self.publish_chunk(which % len(self.chunked))

    @rule(size=st.integers(1, 3))
    def publish_in_vain(self, size: int) -> None:
        self.world.fail_disk(FULL)
        with refused(ServerError.PersistenceError):
            self.producer.send(*self.texts(size))
        self.disk_is_well()
        self.producer.close()
        self.producer = self.world.connect().producer("t")

    @rule(size=st.integers(1, 3))
    def publish_and_crash(self, size: int) -> None:
        self.world.hold_disk()
        self.producer.publish(*self.texts(size))
        self.crash()

    def disk_is_well(self) -> None:
        self.world.fail_disk(None)
        self.world.advance(2000)  # by then the broker has found out

    def texts(self, size: int) -> list[str]:
        self.published += size
        return [f"{self.published - size + i}" for i in range(size)]

    # ---- Consumers -----------------------------------------------------------

    @rule()
    def join(self) -> None:
        if len(self.consumers) < (1 if self.type == Exclusive else CONSUMERS_MAX):
            consumer = self.world.connect().subscribe(
                "t", "sub", self.type, initialPosition=1, keySharedMeta=self.meta()
            )
            self.consumers.append(consumer)
            self.permits[consumer] = 0

    def meta(self) -> pb.KeySharedMeta:
        return pb.KeySharedMeta(
            keySharedMode=KeySharedMode.AutoSplit, allowOutOfOrderDelivery=self.loose
        )

    @precondition(lambda self: self.consumers)
    @rule(which=WHICH, dropped=st.booleans())
    def leave(self, which: int, dropped: bool) -> None:
        consumer = self.consumers.pop(which % len(self.consumers))
        self.held = {place: holder for place, holder in self.held.items() if holder is not consumer}
        if dropped:
            consumer.client.drop()
        else:
            consumer.close()

    @precondition(lambda self: self.consumers)
    @rule(which=WHICH, permits=st.integers(1, 8))
    def flow(self, which: int, permits: int) -> None:
        consumer = self.consumers[which % len(self.consumers)]
        self.permits[consumer] += permits
        consumer.flow(permits)

    # ---- Acks ----------------------------------------------------------------

    def somebody(self, which: int) -> WireConsumer:
        return self.consumers[which % len(self.consumers)]

    def some_place(self, which: int) -> Place:
        return sorted(self.delivered)[which % len(self.delivered)]

    def id_of(self, place: Place, *indexes: int) -> MessageIdData:
        id = MessageIdData(place[0], place[1])
        return but(id, self.sizes[place], *indexes) if indexes else id

    def took(self, place: Place, *indexes: int) -> None:
        """Indexes are acked; without any the entry is."""
        self.unacked[place] -= set(indexes) if indexes else self.unacked[place]
        if not self.unacked[place]:
            self.held.pop(place, None)

    @precondition(lambda self: self.consumers and self.delivered)
    @rule(which=WHICH, by=WHICH, indexes=st.sets(st.integers(0, 4), min_size=1))
    def ack_indexes(self, which: int, by: int, indexes: set[int]) -> None:
        place = self.some_place(which)
        fitting = sorted(index for index in indexes if index < self.sizes[place])
        if fitting:
            self.somebody(by).acked(self.id_of(place, *fitting))
            self.took(place, *fitting)

    @precondition(lambda self: self.consumers and self.delivered)
    @rule(which=st.lists(WHICH, min_size=1, max_size=3), by=WHICH)
    def ack_entries(self, which: list[int], by: int) -> None:
        places = [self.some_place(each) for each in which]
        self.somebody(by).acked(*[self.id_of(place) for place in places])
        for place in places:
            self.took(place)

    @precondition(lambda self: self.consumers and self.delivered and not self.many)
    @rule(which=WHICH, by=WHICH, index=st.integers(0, 4))
    def ack_cumulative(self, which: int, by: int, index: int) -> None:
        place = self.some_place(which)
        last = min(index, self.sizes[place] - 1)
        id = self.id_of(place, *range(last + 1))
        self.somebody(by).acked(id, cumulative=True)
        for other in self.unacked:
            if other < place:
                self.took(other)
        self.took(place, *range(last + 1))

    @precondition(lambda self: self.consumers and self.delivered)
    @rule(which=WHICH, by=WHICH)
    def ack_in_vain(self, which: int, by: int) -> None:
        """One bad id, or a disk that takes nothing: nothing has changed."""
        id = self.id_of(self.some_place(which))
        with refused(ServerError.NotAllowedError):
            self.somebody(by).acked(id, MessageIdData(1 << 60, 0))
        if self.unacked[self.some_place(which)]:
            self.world.fail_disk(FULL)
            with refused(ServerError.PersistenceError):
                self.somebody(by).acked(id)
            self.disk_is_well()

    @precondition(lambda self: self.consumers and self.delivered)
    @rule(which=WHICH, by=WHICH)
    def ack_and_crash(self, which: int, by: int) -> None:
        self.world.hold_disk()
        self.somebody(by).ask_ack(self.id_of(self.some_place(which)))
        self.crash()

    @precondition(lambda self: self.consumers and self.delivered)
    @rule(which=WHICH, by=WHICH)
    def ack_and_unload(self, which: int, by: int) -> None:
        """The ack is under way when the topic goes: it is kept, and answered."""
        place = self.some_place(which)
        consumer = self.somebody(by)
        self.world.hold_disk()
        request_id = consumer.ask_ack(self.id_of(place))
        self.world.broker.unload(self.world.topic("t").name)
        self.world.release_disk()
        receipt = consumer.receipt(request_id)
        assert receipt is not None
        assert receipt.error is None
        self.took(place)
        self.begin()

    @precondition(lambda self: self.consumers and self.delivered)
    @rule(which=st.lists(WHICH, max_size=2), by=WHICH)
    def nack(self, which: list[int], by: int) -> None:
        """Without any ids it is everything that the consumer has."""
        consumer = self.somebody(by)
        places = [self.some_place(each) for each in which] or list(self.delivered)
        for place in [*places, *self.whole_messages(consumer, places)]:
            if self.held.get(place) is consumer:
                del self.held[place]
        consumer.redeliver(*[self.id_of(place) for place in places if which])

    def whole_messages(
        self, consumer: WireConsumer, places: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """All that it has of messages in chunks of which the last that it has is named."""
        found: list[tuple[int, int]] = []
        for _, chunks, _ in self.chunked:
            mine = [place for place in chunks if self.held.get(place) is consumer]
            if mine and max(mine) in places:
                found += mine
        return found

    # ---- Operators -----------------------------------------------------------

    @rule()
    def crash(self) -> None:
        self.world.crash()
        self.begin()

    @rule()
    def restart(self) -> None:
        self.world.restart()
        self.begin()

    @rule()
    def unload(self) -> None:
        self.world.unload("t")
        self.begin()

    @rule()
    def time_passes(self) -> None:
        self.world.advance(2000)

    @precondition(lambda self: self.consumers and self.unacked)
    @rule(which=WHICH, by=WHICH, index=st.integers(0, 4))
    def seek(self, which: int, by: int, index: int) -> None:
        place = sorted(self.unacked)[which % len(self.unacked)]
        first = min(index, self.sizes[place] - 1)
        id = MessageIdData(place[0], place[1], -1, first, None, self.sizes[place])
        self.somebody(by).seek(id)
        for other, size in self.sizes.items():
            begin = 0 if other > place else first if other == place else size
            self.unacked[other] = set(range(begin, size))
        for _, places, _ in self.chunked:
            if any(
                chunk >= place for chunk in places
            ):  # it reaches over the place, and comes whole
                self.unacked.update({chunk: {0} for chunk in places if chunk < place})
        self.held = {}
        self.consumers = [c for c in self.consumers if not c.closed_by_broker()]
        self.join()

    @rule(count=st.integers(1, 3))
    def skip(self, count: int) -> None:
        self.world.done(self.world.subscription("t", "sub").skip(count))
        for place in [p for p in sorted(self.unacked) if self.unacked[p]][:count]:
            self.took(place)

    @rule()
    def clear(self) -> None:
        self.world.done(self.world.subscription("t", "sub").clear())
        for place in self.unacked:
            self.took(place)

    @precondition(lambda self: self.unacked)
    @rule(which=WHICH)
    def expire(self, which: int) -> None:
        last = sorted(self.unacked)[which % len(self.unacked)]
        self.world.done(self.world.subscription("t", "sub").expire(Position(*last)))
        for place in self.unacked:
            if place <= last:
                self.took(place)

    @precondition(lambda self: self.chunked)
    @rule(which=WHICH)
    def skip_chunked(self, which: int) -> None:
        """All chunks of a message that are there."""
        places = self.chunked[which % len(self.chunked)][1]
        self.skip_ids([MessageIdData(*place) for place in places])
        for place in places:
            self.took(place)

    @precondition(lambda self: self.many and self.consumers and self.chunked)
    @rule(which=WHICH, by=WHICH)
    def ack_chunked(self, which: int, by: int) -> None:
        places = self.chunked[which % len(self.chunked)][1]
        self.somebody(by).acked(*[MessageIdData(*place) for place in places])
        for place in places:
            self.took(place)

    @precondition(lambda self: self.many and self.consumers and self.chunked)
    @rule(which=WHICH)
    def nack_chunked(self, which: int) -> None:
        """By whoever has some of it."""
        places = self.chunked[which % len(self.chunked)][1]
        for consumer in self.consumers:
            mine = [place for place in places if self.held.get(place) is consumer]
            for place in mine:
                del self.held[place]
            if mine:
                consumer.redeliver(*[MessageIdData(*place) for place in mine])

    @rule(which=WHICH, index=st.integers(0, 4))
    def skip_by_id(self, which: int, index: int) -> None:
        if self.unacked:
            place = sorted(self.unacked)[which % len(self.unacked)]
            index = min(index, self.sizes[place] - 1)
            id = MessageIdData(place[0], place[1], -1, index)
            self.skip_ids([id])
            self.took(place, index)

    def skip_ids(self, ids: list[MessageIdData]) -> None:
        """Whatever the type, though REST has it for two."""
        subscription = self.world.subscription("t", "sub")
        delta = subscription.cursor.plan_messages(ids)
        self.world.done(move_together([] if delta.empty else [Move(subscription, delta)]))

    # ---- Judgement -----------------------------------------------------------

    def collect(self) -> None:
        for consumer in self.consumers:
            for message in consumer.deliveries():
                place = message.place
                assert set(message.payloads) == self.unacked[place], "I1, I2"
                self.permits[consumer] -= len(message.payloads)
                self.delivered[place] = message
                if self.many:
                    assert place not in self.held, "delivered twice"
                    self.held[place] = consumer

    @invariant()
    def deliveries_and_counters_are_exact(self) -> None:
        self.collect()
        subscription = self.world.subscription("t", "sub")
        cursor = subscription.cursor
        cursor.check()
        assert cursor.unacked_entries() == sum(1 for left in self.unacked.values() if left), "I7"
        assert cursor.unacked_messages() == sum(len(left) for left in self.unacked.values()), "I7"
        dispatcher = subscription.dispatcher
        assert dispatcher is not None
        if isinstance(dispatcher, SharedDispatcher):
            dispatcher.check()
        held = sum(len(self.unacked[place]) for place in self.held)
        assert dispatcher.unacked_count() == held, "I7"
        for consumer in subscription.consumers:
            mine = next(c for c in self.consumers if c.client.session is consumer.peer)
            assert consumer.permits == self.permits[mine], "I3: a permit leaked"
            if self.many:
                pending = [place for place, holder in self.held.items() if holder is mine]
                assert len(consumer.pending) == len(pending)

    def teardown(self) -> None:
        """Everything that is unacked arrives."""
        if not self.consumers:
            self.join()
        for consumer in self.consumers:
            self.permits[consumer] += 10_000
            consumer.flow(10_000)
        self.collect()
        self.delivered = {}
        for consumer in self.consumers:
            self.collect()
            self.held = {p: c for p, c in self.held.items() if c is not consumer}
            consumer.redeliver()
        while True:
            self.collect()
            fresh = [p for p in self.delivered if self.unacked[p]]
            if not fresh:
                break
            self.consumers[0].acked(*[self.id_of(place) for place in fresh])
            for place in fresh:
                self.took(place)
        assert not any(self.unacked.values()), "I3: messages that nobody got"
        self.deliveries_and_counters_are_exact()
        self.world.close()


class ExclusiveMachine(SubscriptionMachine):
    type = Exclusive


class SharedMachine(SubscriptionMachine):
    type = Shared


class FailoverMachine(SubscriptionMachine):
    type = Failover


class KeySharedMachine(SubscriptionMachine):
    type = KeyShared


class LooseMachine(SubscriptionMachine):
    type = KeyShared
    loose = True


TestExclusive = ExclusiveMachine.TestCase
TestShared = SharedMachine.TestCase
TestFailover = FailoverMachine.TestCase
TestKeyShared = KeySharedMachine.TestCase
TestLoose = LooseMachine.TestCase

TestExclusive.settings = settings(stateful_step_count=25)
TestShared.settings = settings(stateful_step_count=25)
TestFailover.settings = settings(stateful_step_count=25)
TestKeyShared.settings = settings(stateful_step_count=25)
TestLoose.settings = settings(stateful_step_count=25)
