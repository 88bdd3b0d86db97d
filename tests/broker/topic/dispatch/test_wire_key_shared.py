"""Key_Shared: each key with one consumer at a time, in order, whoever comes and goes."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.wire_client import Delivery, KeyShared, WireClient, WireConsumer, refused
from support.world import World

from magnetar.broker.topic.dispatch.key_shared import KeySharedDispatcher
from magnetar.model import KeySharedMode, ServerError
from magnetar.protocol import auto_split_slot
from magnetar.protocol import pulsar_pb2 as pb

KEYS = [f"key-{i}" for i in range(24)]


def join(client: WireClient, **fields: object) -> WireConsumer:
    return client.subscribe("t", "sub", KeyShared, **fields)


def sticky(*ranges: tuple[int, int]) -> pb.KeySharedMeta:
    meta = pb.KeySharedMeta(keySharedMode=KeySharedMode.Sticky)
    for first, last in ranges:
        meta.hashRanges.add(start=first, end=last)
    return meta


def keys_of(messages: list[Delivery]) -> set[str]:
    return {message.key for message in messages}


def dispatcher(world: World) -> KeySharedDispatcher:
    found = world.subscription("t", "sub").dispatcher
    assert isinstance(found, KeySharedDispatcher)
    return found


def draining(world: World) -> list[tuple[int, int, int]]:
    found = dispatcher(world)
    return found.held.draining(found.selector.owner)


# ---- Who has which key -----------------------------------------------------------


@pytest.mark.parametrize("consistent", [True, False])
def test_each_key_is_with_one_consumer(consistent: bool) -> None:
    world = World(key_shared_consistent_hashing=consistent)
    client = world.connect()
    consumers = [join(client) for _ in range(3)]
    for consumer in consumers:
        consumer.flow(1000)
    producer = client.producer("t")
    for round in range(3):
        for key in KEYS:
            producer.send(f"{round}", partition_key=key)
    got = [consumer.deliveries() for consumer in consumers]
    assert sum(len(messages) for messages in got) == 3 * len(KEYS)
    assert all(messages for messages in got)
    for i, messages in enumerate(got):
        for other in got[i + 1 :]:
            assert not keys_of(messages) & keys_of(other)
        for key in keys_of(messages):
            assert [m.payloads[0] for m in messages if m.key == key] == ["0", "1", "2"]


def test_the_ordering_key_goes_before_the_partition_key(world: World) -> None:
    client = world.connect()
    consumers = [join(client) for _ in range(4)]
    for consumer in consumers:
        consumer.flow(1000)
    producer = client.producer("t")
    for key in KEYS:
        producer.send("x", partition_key=key, ordering_key=b"same")
    assert sorted(len(consumer.deliveries()) for consumer in consumers) == [0, 0, 0, len(KEYS)]


def test_messages_without_a_key_are_spread(world: World) -> None:
    client = world.connect()
    consumers = [join(client) for _ in range(2)]
    for consumer in consumers:
        consumer.flow(1000)
    producer = client.producer("t")
    for i in range(60):
        producer.send(f"{i}")
    counts = [len(consumer.deliveries()) for consumer in consumers]
    assert sum(counts) == 60
    assert min(counts) > 10


def test_consumers_of_one_name_share(world: World) -> None:
    client = world.connect()
    consumers = [join(client, consumer_name="same") for _ in range(2)]
    for consumer in consumers:
        consumer.flow(1000)
    producer = client.producer("t")
    for key in KEYS:
        producer.send("x", partition_key=key)
    assert all(consumer.deliveries() for consumer in consumers)
    consumers[0].close()
    producer.send("y", partition_key="z")
    assert consumers[1].payloads()


# ---- Sticky ----------------------------------------------------------------------


def test_sticky_consumers_get_the_slots_that_they_name(world: World) -> None:
    client = world.connect()
    low = join(client, keySharedMeta=sticky((0, 32767)))
    high = join(client, keySharedMeta=sticky((32768, 65535)))
    low.flow(1000)
    high.flow(1000)
    producer = client.producer("t")
    for key in KEYS:
        producer.send("x", partition_key=key)
    assert keys_of(low.deliveries()) == {k for k in KEYS if auto_split_slot(k.encode()) < 32768}
    assert keys_of(high.deliveries()) == {k for k in KEYS if auto_split_slot(k.encode()) >= 32768}


def test_what_nobody_named_waits(world: World) -> None:
    client = world.connect()
    low = join(client, keySharedMeta=sticky((0, 32767)))
    low.flow(1000)
    producer = client.producer("t")
    for key in KEYS:
        producer.send("x", partition_key=key)
    got = len(low.deliveries())
    assert 0 < got < len(KEYS)
    high = join(client, keySharedMeta=sticky((32768, 65535)))
    high.flow(1000)
    assert len(high.deliveries()) == len(KEYS) - got


@pytest.mark.parametrize(
    "ranges",
    [[(0, 9)], [(5, 5)], [(9, 20)], [(20, 30), (25, 40)], [], [(-1, 5)], [(50, 40)], [(0, 65536)]],
)
def test_ranges_that_overlap_or_are_none_are_refused(
    world: World, ranges: list[tuple[int, int]]
) -> None:
    client = world.connect()
    first = join(client, keySharedMeta=sticky((0, 9)))
    with refused(ServerError.ConsumerAssignError):
        join(client, keySharedMeta=sticky(*ranges))
    assert len(world.subscription("t", "sub").consumers) == 1
    first.close()
    join(client, keySharedMeta=sticky((0, 9)))


# ---- Draining --------------------------------------------------------------------


def held_by_one(
    world: World, **fields: object
) -> tuple[WireConsumer, list[Delivery], WireConsumer]:
    """A consumer that has every key, and a newcomer that owns some of them."""
    client = world.connect()
    first = join(client, **fields)
    first.flow(1000)
    producer = client.producer("t")
    for key in KEYS:
        producer.send("old", partition_key=key)
    held = first.deliveries()
    second = join(client, **fields)
    second.flow(1000)
    for key in KEYS:
        producer.send("new", partition_key=key)
    return first, held, second


def test_a_newcomer_gets_nothing_of_keys_that_are_pending_elsewhere(world: World) -> None:
    first, held, second = held_by_one(world)
    assert draining(world)
    assert second.deliveries() == []
    kept = keys_of(first.deliveries())
    assert 0 < len(kept) < len(KEYS)
    first.acked(*held)
    messages = second.deliveries()
    assert keys_of(messages) == set(KEYS) - kept
    assert {m.payloads[0] for m in messages} == {"new"}
    assert draining(world) == []


def test_each_key_moves_when_its_own_messages_are_acked(world: World) -> None:
    first, held, second = held_by_one(world)
    kept = keys_of(first.deliveries())
    for message in held:
        first.acked(message)
        expected = set() if message.key in kept else {message.key}
        assert keys_of(second.deliveries()) == expected


def test_keys_move_when_their_messages_are_given_back(world: World) -> None:
    first, held, second = held_by_one(world)
    kept = keys_of(first.deliveries())
    first.redeliver(*held)
    messages = second.deliveries()
    for key in set(KEYS) - kept:
        assert [m.payloads[0] for m in messages if m.key == key] == ["old", "new"]
    assert keys_of(messages) == set(KEYS) - kept


def test_keys_move_when_their_consumer_leaves(world: World) -> None:
    first, _, second = held_by_one(world)
    first.close()
    messages = second.deliveries()
    assert len(messages) == 2 * len(KEYS)
    for key in KEYS:
        assert [m.payloads[0] for m in messages if m.key == key] == ["old", "new"]


def test_a_key_that_comes_back_to_its_consumer_drains_no_more(world: World) -> None:
    first, _, second = held_by_one(world)
    kept = keys_of(first.deliveries())
    second.close()
    assert draining(world) == []
    messages = first.deliveries()
    assert keys_of(messages) == set(KEYS) - kept
    assert {m.payloads[0] for m in messages} == {"new"}


def test_skipping_frees_keys(world: World) -> None:
    first, _, second = held_by_one(world)
    kept = keys_of(first.deliveries())
    world.done(world.subscription("t", "sub").skip(len(KEYS)))
    assert keys_of(second.deliveries()) == set(KEYS) - kept


def test_keys_move_when_their_messages_are_deleted_under_their_consumer() -> None:
    """I3, I7: nobody keeps messages for a subscription in memory, and it holds none of them."""
    world = World(ledger_entries_max=len(KEYS))
    first, held, second = held_by_one(world, durable=False)
    kept = keys_of(first.deliveries())
    world.topic("t").storage.trim()
    world.settle()
    assert world.topic("t").ledgers.entry_count(held[0].id.ledger_id) == -1
    messages = second.deliveries()
    assert keys_of(messages) == set(KEYS) - kept
    assert {m.payloads[0] for m in messages} == {"new"}
    assert first.stats().unackedMessages == len(kept)
    dispatcher(world).check()
    world.close()


def test_one_stuck_key_does_not_stop_the_others(world: World) -> None:
    client = world.connect()
    consumer = join(client)
    other = join(client)
    producer = client.producer("t")
    consumer.flow(1)
    other.flow(1000)
    for _ in range(5):
        for key in KEYS:
            producer.send("x", partition_key=key)
    mine = consumer.deliveries()
    assert len(mine) == 1
    got = other.deliveries()
    assert len(got) == 5 * len(keys_of(got))
    consumer.flow(1000)
    assert len(consumer.deliveries()) + 1 + len(got) == 5 * len(KEYS)


def test_reading_ahead_has_a_limit() -> None:
    world = World(key_shared_look_ahead_per_consumer=5)
    client = world.connect()
    stuck, free = join(client), join(client)
    free.flow(1000)
    producer = client.producer("t")
    for _ in range(10):
        for key in KEYS:
            producer.send("x", partition_key=key)
    assert dispatcher(world).replay_count() == 10
    stuck.flow(1000)
    assert len(stuck.deliveries()) + len(free.deliveries()) == 10 * len(KEYS)


def test_slots_that_waited_are_forgotten_by_a_skip(world: World) -> None:
    client = world.connect()
    full, free = join(client), join(client)
    free.flow(100)
    producer = client.producer("t")
    for key in KEYS:
        producer.send("x", partition_key=key)
    got = len(free.payloads())
    assert dispatcher(world).replay_count() == len(KEYS) - got > 0
    world.done(world.subscription("t", "sub").clear())
    assert dispatcher(world).replay_count() == 0
    assert full.receive() == []
    assert full.stats().unackedMessages == free.stats().unackedMessages == 0


# ---- Out of order ----------------------------------------------------------------


def test_where_order_does_not_matter_nothing_drains(world: World) -> None:
    loose = pb.KeySharedMeta(
        keySharedMode=KeySharedMode.AutoSplit,
        allowOutOfOrderDelivery=True,
    )
    first, held, second = held_by_one(world, keySharedMeta=loose)
    messages = second.deliveries()
    assert {m.payloads[0] for m in messages} == {"new"}
    assert messages
    assert len(messages) + len(first.deliveries()) == len(KEYS)
    first.acked(*held)
    first.redeliver()
    second.redeliver()
    assert len(first.deliveries()) + len(second.deliveries()) == len(KEYS)


# ---- Order, whatever happens -----------------------------------------------------


@dataclass
class Life:
    """A Key_Shared subscription, and what each key has seen of it."""

    world: World = field(default_factory=lambda: World(dispatch_read_entries=4))
    consumers: list[WireConsumer] = field(default_factory=list)
    held: dict[tuple[int, int], Delivery] = field(default_factory=dict)
    # Places of first deliveries by key, and who holds what.
    seen: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    holder: dict[tuple[int, int], WireConsumer] = field(default_factory=dict)
    published: int = 0
    acked: int = 0

    def __post_init__(self) -> None:
        self.client = self.world.connect()
        self.join()
        self.producer = self.client.producer("t")

    def publish(self, key: int) -> None:
        self.producer.send(f"{self.published}", partition_key=f"k{key}")
        self.published += 1

    def join(self) -> None:
        if len(self.consumers) < 4:
            self.consumers.append(join(self.client))

    def leave(self, which: int) -> None:
        if len(self.consumers) > 1:
            consumer = self.consumers.pop(which % len(self.consumers))
            self.collect()
            consumer.close()
            for place in [p for p, holder in self.holder.items() if holder is consumer]:
                self.drop(place)

    def drop(self, place: tuple[int, int]) -> None:
        del self.holder[place]
        del self.held[place]

    def flow(self, which: int) -> None:
        self.consumers[which % len(self.consumers)].flow(2)

    def ack(self, which: int) -> None:
        if self.held:
            place = sorted(self.held)[which % len(self.held)]
            message, consumer = self.held[place], self.holder[place]
            self.drop(place)
            consumer.acked(message)
            self.acked += 1

    def nack(self, which: int) -> None:
        if self.held:
            place = sorted(self.held)[which % len(self.held)]
            message, consumer = self.held[place], self.holder[place]
            self.drop(place)
            consumer.redeliver(message)

    def collect(self) -> None:
        for consumer in self.consumers:
            for message in consumer.deliveries():
                self.take(consumer, message)

    def take(self, consumer: WireConsumer, message: Delivery) -> None:
        place = message.place
        assert place not in self.held, "delivered twice"
        of_key = {self.holder[p].id for p, m in self.held.items() if m.key == message.key}
        assert of_key <= {consumer.id}, "a key with two consumers"
        seen = self.seen.setdefault(message.key, [])
        if place not in seen:
            assert not seen or place > seen[-1], "a first delivery out of order"
            seen.append(place)
        self.held[place] = message
        self.holder[place] = consumer

    def drain(self) -> None:
        """With permits for all and acks of all, everything arrives."""
        for _ in range(self.published + 1):
            for consumer in self.consumers:
                consumer.flow(10)
            self.collect()
            while self.held:
                self.ack(0)
                self.collect()
        assert self.acked == self.published
        assert sum(len(places) for places in self.seen.values()) == self.published


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 3)),
        st.tuples(st.just("publish"), st.integers(0, 3)),
        st.tuples(st.just("flow"), st.integers(0, 3)),
        st.tuples(st.just("flow"), st.integers(0, 3)),
        st.tuples(st.just("ack"), st.integers(0, 9)),
        st.tuples(st.just("nack"), st.integers(0, 9)),
        st.tuples(st.just("leave"), st.integers(0, 3)),
        st.tuples(st.just("join"), st.just(0)),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_i4_no_key_is_ever_out_of_order_and_no_message_is_lost(
    steps: list[tuple[str, int]],
) -> None:
    life = Life()
    for name, which in steps:
        if name == "join":
            life.join()
        else:
            getattr(life, name)(which)
        life.collect()
    life.drain()
