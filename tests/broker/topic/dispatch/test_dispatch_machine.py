"""Whatever takes entries from consumers, a dispatcher forgets them everywhere at once.

Few keys, few permits, many chunks: consumers have begun messages all the time, and wait for
each other. All that lets go of entries happens between: acks by anybody, skips by id and by
number, expiry, clear, negative acks, seeks, trimming, consumers that come and go. After each
step the dispatcher checks itself (I3, I7), and in the end everything unacked arrives.
"""

from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.wire_client import EARLIEST_ID, Delivery, KeyShared, Shared, WireConsumer
from support.world import World

from magnetar.broker.topic.dispatch.shared import SharedDispatcher
from magnetar.broker.topic.skip.skip import skip_messages
from magnetar.broker.topic.subscription import Subscription
from magnetar.model import KeySharedMode, Position
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import pulsar_pb2 as pb

CONSUMERS_MAX = 3
WHICH = st.integers(0, 5)
KEY = st.sampled_from(["a", "b", "c"])


class DispatchMachine(RuleBasedStateMachine):
    """See the module; the subclasses say of which type the subscription is."""

    type: ClassVar[int]
    loose: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.world = World(ledger_entries_max=5, dispatch_read_entries=3)
        self.world.broker.pieces.be_small()
        self.world.broker.pieces.entries = 1
        self.consumers: list[WireConsumer] = []
        self.got: dict[WireConsumer, list[Delivery]] = {}
        # Chunked messages that are not complete: uuid, key, chunks, and how many are to be.
        self.open: list[tuple[str, str, list[MessageIdData], int]] = []
        self.begun = 0
        self.join()
        self.join()
        self.producer = self.world.connect().producer("t")

    # ---- Publishing ----------------------------------------------------------

    @rule(key=KEY)
    def publish(self, key: str) -> None:
        self.producer.send("plain", partition_key=key)

    @rule(key=KEY, count=st.integers(2, 4), sent=st.integers(1, 3))
    def begin(self, key: str, count: int, sent: int) -> None:
        ids: list[MessageIdData] = []
        self.open.append((f"u{self.begun}", key, ids, count))
        self.begun += 1
        for _ in range(min(sent, count)):
            self.go_on(len(self.open) - 1)

    @precondition(lambda self: self.open)
    @rule(which=WHICH)
    def go_on(self, which: int) -> None:
        """The next chunk of one."""
        uuid, key, ids, count = self.open[which % len(self.open)]
        ids.append(self.producer.send_chunk(uuid, len(ids), count, "x", partition_key=key))
        if len(ids) == count:
            del self.open[which % len(self.open)]

    # ---- Consumers -----------------------------------------------------------

    @rule()
    def join(self) -> None:
        if len(self.consumers) < CONSUMERS_MAX:
            meta = pb.KeySharedMeta(
                keySharedMode=KeySharedMode.AutoSplit, allowOutOfOrderDelivery=self.loose
            )
            consumer = self.world.connect().subscribe(
                "t", "sub", self.type, initialPosition=1, keySharedMeta=meta
            )
            self.consumers.append(consumer)
            self.got[consumer] = []

    def somebody(self, which: int) -> WireConsumer:
        return self.consumers[which % len(self.consumers)]

    @precondition(lambda self: len(self.consumers) > 1)
    @rule(which=WHICH, dropped=st.booleans())
    def leave(self, which: int, dropped: bool) -> None:
        consumer = self.consumers.pop(which % len(self.consumers))
        if dropped:
            consumer.client.drop()
        else:
            consumer.close()

    @rule(which=WHICH, permits=st.integers(1, 3))
    def flow(self, which: int, permits: int) -> None:
        self.somebody(which).flow(permits)

    @rule(which=WHICH, count=st.integers(0, 3))
    def nack(self, which: int, count: int) -> None:
        """The last that it got; none is everything."""
        consumer = self.somebody(which)
        consumer.redeliver(*self.got[consumer][-count:] if count else [])

    # ---- Acks ----------------------------------------------------------------

    @rule(which=WHICH, by=WHICH, count=st.integers(1, 3))
    def ack(self, which: int, by: int, count: int) -> None:
        """The first or the last that somebody got; maybe another acks it."""
        got = self.got[self.somebody(which)]
        chosen = got[:count] if which % 2 else got[-count:]
        if chosen:
            self.somebody(by).acked(*chosen)

    @property
    def subscription(self) -> Subscription:
        return self.world.subscription("t", "sub")

    @precondition(lambda self: self.open)
    @rule(which=WHICH)
    def skip_chunked(self, which: int) -> None:
        ids = self.open[which % len(self.open)][2]
        self.world.done(skip_messages([self.world.topic("t")], "sub", ids))

    @rule(count=st.integers(1, 4))
    def skip(self, count: int) -> None:
        self.world.done(self.subscription.skip(count))

    @rule(which=WHICH)
    def expire(self, which: int) -> None:
        got = self.got[self.somebody(which)]
        if got and got[-1].id.ledger_id in self.world.topic("t").storage.ledger_ids():
            self.world.done(self.subscription.expire(Position(*got[-1].place)))

    @rule()
    def clear(self) -> None:
        self.world.done(self.subscription.clear())

    @rule(which=WHICH, trims=st.booleans())
    def seek(self, which: int, trims: bool) -> None:
        """To the beginning; ledgers that are free go before it is written, or not at all."""
        consumer = self.somebody(which)
        self.world.hold_disk()
        consumer.client.ask(consumer.seek_command(EARLIEST_ID))
        if trims:
            self.world.topic("t").storage.trim()
        self.world.release_disk()
        self.consumers = [c for c in self.consumers if not c.closed_by_broker()]
        self.join()

    @rule()
    def trim(self) -> None:
        self.world.topic("t").storage.trim()
        self.world.settle()

    # ---- Judgement -----------------------------------------------------------

    @invariant()
    def dispatcher_agrees_with_itself(self) -> None:
        for consumer in self.consumers:
            self.got[consumer] += consumer.deliveries()
        dispatcher = self.subscription.dispatcher
        assert isinstance(dispatcher, SharedDispatcher)
        dispatcher.check()

    def teardown(self) -> None:
        """Everything that is unacked arrives, if those who have some of it ack that."""
        for consumer in self.consumers:
            consumer.flow(10_000)
        for _ in range(CONSUMERS_MAX * 2):
            self.dispatcher_agrees_with_itself()
            for consumer in self.consumers:
                if self.got[consumer]:
                    consumer.acked(*self.got[consumer])
        assert self.subscription.cursor.unacked_entries() == 0, "I3: nobody got these"
        self.world.close()


class SharedDispatchMachine(DispatchMachine):
    type = Shared


class KeySharedDispatchMachine(DispatchMachine):
    type = KeyShared


class LooseDispatchMachine(DispatchMachine):
    type = KeyShared
    loose = True


TestShared = SharedDispatchMachine.TestCase
TestKeyShared = KeySharedDispatchMachine.TestCase
TestLoose = LooseDispatchMachine.TestCase

TestShared.settings = settings(stateful_step_count=40)
TestKeyShared.settings = settings(stateful_step_count=40)
TestLoose.settings = settings(stateful_step_count=40)
