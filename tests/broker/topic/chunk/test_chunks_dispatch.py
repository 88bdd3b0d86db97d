"""Chunks and the consumers of a subscription: one gets them all, whoever comes and goes."""

import pytest
from support.wire_client import Delivery, Exclusive, KeyShared, Shared, WireConsumer
from support.world import World

from magnetar.broker.topic.dispatch.shared import SharedDispatcher
from magnetar.broker.topic.skip.skip import skip_messages
from magnetar.model import KeySharedMode, Position
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import pulsar_pb2 as pb


def chunks(messages: list[Delivery]) -> list[tuple[str | None, int | None]]:
    return [(message.metadata.uuid, message.chunk_id) for message in messages]


def whole(messages: list[Delivery]) -> list[str]:
    """The messages that a consumer can put together of what it got, in order."""
    found: list[str] = []
    following: dict[str, int] = {}
    for message in messages:
        uuid, chunk_id = message.metadata.uuid, message.chunk_id
        if uuid is None or chunk_id is None:
            continue
        if chunk_id == 0:
            following[uuid] = 0
        if following.get(uuid) == chunk_id:
            following[uuid] += 1
            if following[uuid] == message.metadata.num_chunks_from_msg:
                found.append(uuid)
    return found


def test_chunks_of_a_message_go_to_one_consumer_in_order() -> None:
    world = World(dispatch_round_robin_entries=1)
    client = world.connect()
    consumers = [client.subscribe("t", "sub", Shared) for _ in range(2)]
    for consumer in consumers:
        consumer.flow(100)
    one, two = client.producer("t"), client.producer("t")
    for chunk_id in range(3):
        one.send_chunk("u1", chunk_id, 3, "x")
        two.send_chunk("u2", chunk_id, 3, "y")
    got = [chunks(consumer.deliveries()) for consumer in consumers]
    assert sorted(got) == [[("u1", i) for i in range(3)], [("u2", i) for i in range(3)]]


@pytest.mark.parametrize("type", [Shared, KeyShared])
def test_messages_of_a_producer_that_was_started_anew_keep_their_consumers(type: int) -> None:
    """It counts from 0 again and gives another message the same uuid."""
    world = World(dispatch_round_robin_entries=1)
    client = world.connect()
    first = client.subscribe("t", "sub", type)
    first.flow(100)
    producer = client.producer("t")
    producer.send_chunk("u", 0, 3, "x", publish_time=1, partition_key="k")
    producer.send_chunk("u", 0, 2, "y", publish_time=2, partition_key="k")
    # The end of one does not free the other.
    producer.send_chunk("u", 1, 2, "y", publish_time=2, partition_key="k")
    second = client.subscribe("t", "sub", type)
    second.flow(100)
    producer.send_chunk("u", 1, 3, "x", publish_time=1, partition_key="k")
    producer.send_chunk("u", 2, 3, "x", publish_time=1, partition_key="k")
    got = first.deliveries()
    assert [(d.metadata.publish_time, d.chunk_id) for d in got] == [
        (1, 0), (2, 0), (2, 1), (1, 1), (1, 2)
    ]  # fmt: skip
    assert second.deliveries() == []


def test_a_chunk_whose_consumer_has_no_room_waits_for_it(world: World) -> None:
    client = world.connect()
    first = client.subscribe("t", "sub", Shared)
    first.flow(1)
    producer = client.producer("t")
    producer.send_chunk("u", 0, 3, "x")
    second = client.subscribe("t", "sub", Shared)
    second.flow(100)
    producer.send_chunk("u", 1, 3, "y")
    producer.send_chunk("u", 2, 3, "z")
    producer.send("plain")
    assert second.payloads() == ["plain"]
    assert first.payloads() == ["x"]
    first.flow(1)
    assert first.payloads() == ["y"]
    first.flow(1)
    assert first.payloads() == ["z"]


def test_chunks_of_a_consumer_that_left_go_to_another_from_the_start(world: World) -> None:
    client = world.connect()
    first = client.subscribe("t", "sub", Shared)
    first.flow(2)
    producer = client.producer("t")
    producer.send_chunks("u", "x", "y", "z")
    assert first.payloads() == ["x", "y"]
    second = client.subscribe("t", "sub", Shared)
    second.flow(100)
    assert second.payloads() == []
    first.close()
    assert second.payloads() == ["x", "y", "z"]


def test_more_chunks_than_permits_still_arrive(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    client.producer("t").send_chunks("u", *"abcdefgh")
    got: list[str] = []
    for _ in range(8):
        got += consumer.receive(1)
    assert got == list("abcdefgh")


def test_an_acked_chunk_that_waited_lets_those_behind_it_on(world: World) -> None:
    client = world.connect()
    first = client.subscribe("t", "sub", Shared)
    first.flow(1)
    producer = client.producer("t")
    ids = producer.send_chunks("u", "x", "y", "z")
    second = client.subscribe("t", "sub", Shared)
    second.flow(1)
    first.acked(*ids)
    producer.send_chunks("u", "x2", "y2")
    second.flow(10)
    assert (first.payloads(), second.payloads()) == (["x"], ["x2", "y2"])


def moved_key(world: World) -> str:
    """A key that consumer `a` has until `b` comes."""
    client = world.connect()
    for number in range(100):
        key = f"k{number}"
        first = client.subscribe(f"try-{number}", "sub", KeyShared, consumer_name="a")
        first.flow(100)
        second = client.subscribe(f"try-{number}", "sub", KeyShared, consumer_name="b")
        second.flow(100)
        client.producer(f"try-{number}").send("x", partition_key=key)
        if second.payloads():
            return key
    raise AssertionError("no key of the second consumer's")


def test_key_shared_chunks_follow_their_key(world: World) -> None:
    client = world.connect()
    consumers = [client.subscribe("t", "sub", KeyShared) for _ in range(2)]
    for consumer in consumers:
        consumer.flow(100)
    producer = client.producer("t")
    for number in range(6):
        producer.send_chunks(f"u{number}", "x", "y", "z", partition_key=f"k{number}")
    got = [chunks(consumer.deliveries()) for consumer in consumers]
    for texts in got:
        assert texts == [(uuid, i) for uuid, _ in texts[::3] for i in range(3)]
    assert sum(len(texts) for texts in got) == 18


@pytest.mark.parametrize("out_of_order", [False, True])
def test_key_shared_a_message_is_finished_where_it_began(world: World, out_of_order: bool) -> None:
    key = moved_key(world)
    client = world.connect()
    meta = pb.KeySharedMeta(
        keySharedMode=KeySharedMode.AutoSplit, allowOutOfOrderDelivery=out_of_order
    )
    options = {"keySharedMeta": meta}
    first = client.subscribe("t", "sub", KeyShared, consumer_name="a", **options)
    first.flow(100)
    producer, other = client.producer("t"), client.producer("t")
    producer.send_chunk("u", 0, 3, "x", partition_key=key)
    second = client.subscribe("t", "sub", KeyShared, consumer_name="b", **options)
    second.flow(100)
    other.send("between", partition_key=key)
    producer.send_chunk("u", 1, 3, "y", partition_key=key)
    producer.send_chunk("u", 2, 3, "z", partition_key=key)
    other.send("behind", partition_key=key)
    got = first.deliveries()
    assert whole(got) == ["u"]
    if out_of_order:
        # Only the chunks need the one who has begun with them.
        assert second.payloads() == ["between", "behind"]
        return
    assert [message.payloads[0] for message in got] == ["x", "between", "y", "z"]
    assert second.payloads() == []
    first.acked(*[message.id for message in got])
    assert second.payloads() == ["behind"]


def test_key_shared_a_slot_goes_on_when_its_consumer_has_no_room(world: World) -> None:
    key = moved_key(world)
    client = world.connect()
    first = client.subscribe("t", "sub", KeyShared, consumer_name="a")
    first.flow(1)
    producer = client.producer("t")
    producer.send_chunk("u", 0, 3, "x", partition_key=key)
    second = client.subscribe("t", "sub", KeyShared, consumer_name="b")
    second.flow(100)
    producer.send_chunk("u", 1, 3, "y", partition_key=key)
    producer.send_chunk("u", 2, 3, "z", partition_key=key)
    producer.send("behind", partition_key=key)
    assert (first.payloads(), second.payloads()) == (["x"], [])
    first.flow(1)
    first.flow(1)
    got = first.deliveries()
    assert [message.payloads[0] for message in got] == ["y", "z"]
    first.flow(10)
    assert first.payloads() == []


def test_key_shared_a_consumer_that_leaves_hands_its_chunks_over(world: World) -> None:
    key = moved_key(world)
    client = world.connect()
    first = client.subscribe("t", "sub", KeyShared, consumer_name="a")
    first.flow(100)
    producer = client.producer("t")
    producer.send_chunk("u", 0, 3, "x", partition_key=key)
    second = client.subscribe("t", "sub", KeyShared, consumer_name="b")
    second.flow(100)
    producer.send_chunk("u", 1, 3, "y", partition_key=key)
    first.close()
    producer.send_chunk("u", 2, 3, "z", partition_key=key)
    assert whole(second.deliveries()) == ["u"]


def test_key_shared_several_messages_of_a_slot_are_finished(world: World) -> None:
    key = moved_key(world)
    client = world.connect()
    first = client.subscribe("t", "sub", KeyShared, consumer_name="a")
    first.flow(100)
    producers = [client.producer("t") for _ in range(2)]
    for number, producer in enumerate(producers):
        producer.send_chunk(f"u{number}", 0, 2, "x", partition_key=key)
    second = client.subscribe("t", "sub", KeyShared, consumer_name="b")
    second.flow(100)
    for number, producer in enumerate(producers):
        producer.send_chunk(f"u{number}", 1, 2, "y", partition_key=key)
    got = first.deliveries()
    assert whole(got) == ["u0", "u1"]
    # A last chunk alone changes nothing for anybody.
    client.producer("t").send_chunk("orphan", 1, 2, "z", partition_key=key)
    first.acked(*[message.id for message in got])
    assert second.payloads() == ["z"]


@pytest.mark.parametrize("how", ["acked", "given back"])
def test_key_shared_chunks_that_came_to_nothing_let_the_slot_go(world: World, how: str) -> None:
    key = moved_key(world)
    client = world.connect()
    first = client.subscribe("t", "sub", KeyShared, consumer_name="a")
    first.flow(100)
    producer = client.producer("t")
    orphan = producer.send_chunk("u", 0, 3, "x", partition_key=key)
    second = client.subscribe("t", "sub", KeyShared, consumer_name="b")
    second.flow(100)
    client.producer("t").send("behind", partition_key=key)
    got = first.deliveries()
    assert [message.payloads[0] for message in got] == ["x", "behind"]
    if how == "acked":
        first.acked(orphan, got[1].id)
    else:
        first.redeliver(orphan, got[1].id)
        assert second.payloads() == ["x", "behind"]
    client.producer("t").send("more", partition_key=key)
    assert second.payloads() == ["more"]


@pytest.mark.parametrize("type", [Shared, KeyShared])
@pytest.mark.parametrize("ends", ["leaves", "gives back"])
def test_chunks_of_a_lost_consumer_come_whole_to_the_other(
    world: World, type: int, ends: str
) -> None:
    """#26395: what the first one had, and what comes later, in order."""
    client = world.connect()
    first = client.subscribe("t", "sub", type)
    first.flow(3)
    producers = [client.producer("t") for _ in range(2)]
    for chunk_id in range(2):
        for number, producer in enumerate(producers):
            producer.send_chunk(f"u{number}", chunk_id, 3, f"{number}{chunk_id}")
    had = first.deliveries()
    assert len(had) == 3
    second = client.subscribe("t", "sub", type)
    second.flow(100)
    if ends == "leaves":
        first.close()
    else:
        first.redeliver(*[message.id for message in had])
        first.flow(100)
    for number, producer in enumerate(producers):
        producer.send_chunk(f"u{number}", 2, 3, f"{number}2")
    got = whole(second.deliveries())
    if ends == "gives back":
        got += whole(first.deliveries())
    assert sorted(got) == ["u0", "u1"]


def test_chunks_without_their_first_stall_nobody(world: World) -> None:
    """#26395: chunk 0 is acked, the others are nobody's."""
    client = world.connect()
    consumers = [client.subscribe("t", "sub", Shared) for _ in range(2)]
    producer = client.producer("t")
    ids = producer.send_chunks("u", "x", "y", "z")
    consumers[0].acked(ids[0])
    client.producer("t").send("after")
    for consumer in consumers:
        consumer.flow(10)
    got = [message for consumer in consumers for message in consumer.payloads()]
    assert sorted(got) == ["after", "y", "z"]


@pytest.mark.parametrize("type", [Exclusive, Shared, KeyShared])
def test_consumers_count_chunks(world: World, type: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    consumer.flow(10)
    producer = client.producer("t")
    producer.send_chunks("u", "x", "y")
    producer.send("plain")
    assert len(consumer.payloads()) == 3
    topic = world.topic("t")
    assert topic.chunks == 2
    found = [c.chunks for c in topic.subscriptions["sub"].consumers]
    assert found == [2]


def test_a_duplicate_leaves_no_orphan() -> None:
    world = World(deduplication=True)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Exclusive)
    consumer.flow(100)
    producer = client.producer("t", producer_name="p")
    producer.send_chunks("u", "x", "y")
    again = [producer.send_chunk("u", number, 2, "xy"[number]) for number in range(2)]
    assert again == [MessageIdData(-1, -1)] * 2
    assert consumer.payloads() == ["x", "y"]


def test_a_chunk_that_waited_for_a_slow_peer_goes_on_when_that_reads_again(world: World) -> None:
    """I3: nothing but the peer's reading is needed."""
    slow, quick = world.connect(), world.connect()
    owner = slow.subscribe("t", "sub", Shared)
    owner.flow(10)
    producer = quick.producer("t")
    producer.send_chunk("u", 0, 2, "x")
    assert owner.payloads() == ["x"]
    other = quick.subscribe("t", "sub", Shared)
    other.flow(10)
    slow.lag()
    producer.send_chunk("u", 1, 2, "y")
    producer.send("z")
    assert other.payloads() == ["z"]
    slow.catch_up()
    assert owner.payloads() == ["y"]


def test_chunks_stay_in_order_when_room_comes_while_later_ones_are_read() -> None:
    """I6: a read that began when there was no room must not overtake what waits before it."""
    world = World(cache_bytes=0, dispatch_read_entries=1)
    client = world.connect()
    owner = client.subscribe("t", "sub", Shared)
    owner.flow(1)
    producer = client.producer("t")
    producer.send_chunk("u", 0, 3, "0")
    assert owner.payloads() == ["0"]
    other = client.subscribe("t", "sub", Shared)
    other.flow(100)
    producer.send_chunk("u", 1, 3, "1")
    producer.send_chunk("u", 2, 3, "2")
    assert other.payloads() == []
    world.hold_reads()
    other.flow(1)  # looks at all that waits again: 1, then 2
    world.host.reads.popleft()()
    assert world.host.reads
    owner.flow(100)
    world.release_reads()
    assert owner.payloads() == ["1", "2"]


def test_chunks_that_waited_are_forgotten_with_what_they_waited_in(world: World) -> None:
    client = world.connect()
    first = client.subscribe("t", "sub", Shared)
    first.flow(1)
    producer = client.producer("t")
    producer.send_chunk("u", 0, 4, "x")
    second = client.subscribe("t", "sub", Shared)
    second.flow(100)
    for chunk_id in (1, 2, 3):
        producer.send_chunk("u", chunk_id, 4, f"{chunk_id}")
    dispatcher = world.subscription("t", "sub").dispatcher
    assert dispatcher is not None
    assert dispatcher.replay_count() == 3
    world.done(world.subscription("t", "sub").skip(1))
    # The one who began has nothing of it any more: it is for whoever has room.
    assert second.payloads() == ["1", "2", "3"]
    assert dispatcher.replay_count() == 0
    first.close()
    second.close()
    world.done(world.subscription("t", "sub").skip(1))
    again = client.subscribe("t", "sub", Shared)
    assert again.receive() == ["2", "3"]


@pytest.mark.parametrize("how", ["leaves", "gives back"])
def test_chunks_that_come_back_are_not_overtaken_by_one_that_is_being_read(how: str) -> None:
    world = World(cache_bytes=0)
    client = world.connect()
    first = client.subscribe("t", "sub", Shared)
    first.flow(2)
    producer = client.producer("t")
    for chunk_id in range(2):
        producer.send_chunk("u", chunk_id, 4, f"{chunk_id}")
    had = first.deliveries()
    second = client.subscribe("t", "sub", Shared)
    second.flow(100)
    world.hold_reads()
    producer.send_chunk("u", 2, 4, "2")
    assert world.host.reads
    if how == "leaves":
        first.close()
    else:
        first.redeliver(*had)
        first.flow(100)
    world.release_reads()
    producer.send_chunk("u", 3, 4, "3")
    assert first.payloads() + second.payloads() == ["0", "1", "2", "3"]


def test_what_comes_back_while_a_chunk_that_waits_is_read_is_offered_next() -> None:
    world = World(cache_bytes=0)
    client = world.connect()
    owner, other, idle = [client.subscribe("t", "sub", Shared) for _ in range(3)]
    producer = client.producer("t")
    other.flow(1)
    producer.send("plain")
    had = other.one()
    owner.flow(1)
    producer.send_chunk("u", 0, 2, "0")
    assert owner.payloads() == ["0"]
    idle.flow(1)
    producer.send_chunk("u", 1, 2, "1")
    world.hold_reads()
    idle.flow(1)  # the chunk is read once more, and will not be for this one
    assert world.host.reads
    other.redeliver(had)
    world.release_reads()
    assert idle.payloads() == ["plain"]


def test_key_shared_chunks_keep_their_order_where_messages_need_not() -> None:
    world = World(cache_bytes=0)
    client = world.connect()
    meta = pb.KeySharedMeta(keySharedMode=KeySharedMode.AutoSplit, allowOutOfOrderDelivery=True)
    consumers = [client.subscribe("t", "sub", KeyShared, keySharedMeta=meta)]
    consumers[0].flow(1)
    producer = client.producer("t")
    for chunk_id in range(2):
        producer.send_chunk("u", chunk_id, 3, f"{chunk_id}", partition_key="k")
    consumers.append(client.subscribe("t", "sub", KeyShared, keySharedMeta=meta))
    consumers[1].flow(100)
    world.hold_reads()
    producer.send_chunk("u", 2, 3, "2", partition_key="k")
    consumers[0].flow(100)
    world.release_reads()
    assert consumers[0].payloads() == ["0", "1", "2"]


LOOSE = pb.KeySharedMeta(keySharedMode=KeySharedMode.AutoSplit, allowOutOfOrderDelivery=True)
STRICT = pb.KeySharedMeta(keySharedMode=KeySharedMode.AutoSplit)
KINDS = [(Shared, STRICT), (KeyShared, STRICT), (KeyShared, LOOSE)]
LETTING_GO = [
    "acked",
    "acked by another",
    "skipped by id",
    "skipped",
    "cleared",
    "expired",
    "given back",
    "left",
    "dropped",
]


def let_go(
    world: World, how: str, first: WireConsumer, second: WireConsumer, ids: list[MessageIdData]
) -> None:
    subscription = world.subscription("t", "sub")
    if how == "acked":
        first.acked(*ids)
    elif how == "acked by another":
        second.acked(*ids)
    elif how == "skipped by id":
        world.done(skip_messages([world.topic("t")], "sub", ids))
    elif how == "skipped":
        world.done(subscription.skip(len(ids)))
    elif how == "cleared":
        world.done(subscription.clear())
    elif how == "expired":
        world.done(subscription.expire(Position(ids[-1].ledger_id, ids[-1].entry_id)))
    elif how == "given back":
        first.redeliver(*ids)
    elif how == "left":
        first.close()
    else:
        first.client.drop()


@pytest.mark.parametrize(("type", "meta"), KINDS)
@pytest.mark.parametrize("how", LETTING_GO)
def test_a_key_goes_on_when_the_chunks_that_a_consumer_without_room_had_are_let_go_of(
    world: World, how: str, type: int, meta: pb.KeySharedMeta
) -> None:
    """I3: whatever takes the first chunks from it, the rest is not its any more."""
    key = moved_key(world)
    first = world.connect().subscribe("t", "sub", type, consumer_name="a", keySharedMeta=meta)
    first.flow(2)
    producer = world.connect().producer("t")
    ids = [producer.send_chunk("u", i, 4, f"{i}", partition_key=key) for i in range(2)]
    assert first.payloads() == ["0", "1"]
    second = world.connect().subscribe("t", "sub", type, consumer_name="b", keySharedMeta=meta)
    second.flow(100)
    producer.send_chunk("u", 2, 4, "2", partition_key=key)
    assert second.payloads() == []
    let_go(world, how, first, second, ids)
    producer.send_chunk("u", 3, 4, "3", partition_key=key)
    world.connect().producer("t").send("behind", partition_key=key)
    expected = ["2", "3", "behind"]
    if how in ("given back", "left", "dropped"):
        expected = ["0", "1", *expected]
    elif how == "cleared":
        expected = ["3", "behind"]
    assert second.payloads() == expected
    check(world)


@pytest.mark.parametrize(("type", "meta"), KINDS)
def test_chunked_messages_that_never_end_are_forgotten_with_their_chunks(
    world: World, type: int, meta: pb.KeySharedMeta
) -> None:
    """What is kept of them is bounded by what consumers have not acked."""
    consumer = world.connect().subscribe("t", "sub", type, keySharedMeta=meta)
    consumer.flow(1000)
    producer = world.connect().producer("t")
    held = producer.send("held", partition_key="k")
    for number in range(50):
        consumer.acked(producer.send_chunk(f"u{number}", 0, 2, "x", partition_key="k"))
    found = world.subscription("t", "sub").dispatcher
    assert isinstance(found, SharedDispatcher)
    assert len(found._chunks) == 0
    consumer.acked(held)
    check(world)


def check(world: World) -> None:
    found = world.subscription("t", "sub").dispatcher
    assert isinstance(found, SharedDispatcher)
    found.check()


# ---- Given back by the last chunk alone, as the official clients do it -------------------


@pytest.mark.parametrize("type", [Shared, KeyShared])
def test_a_nack_of_the_last_chunk_brings_the_whole_message_back(world: World, type: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    consumer.flow(100)
    one, two = client.producer("t"), client.producer("t")
    for number in range(3):
        one.send_chunk("u", number, 3, f"u{number}")
        two.send_chunk("v", number, 3, f"v{number}")
    one.send("plain")
    got = consumer.deliveries()
    last = [message for message in got if chunks([message]) == [("u", 2)]]
    consumer.redeliver(*last)
    again = consumer.deliveries()
    assert chunks(again) == [("u", 0), ("u", 1), ("u", 2)]
    assert {message.redelivery_count for message in again} == {1}
    assert consumer.stats().unackedMessages == 7
    consumer.redeliver(*last)
    assert whole(consumer.deliveries()) == ["u"]


@pytest.mark.parametrize("type", [Shared, KeyShared])
def test_a_nack_brings_back_the_chunks_that_are_neither_acked_nor_with_others(
    world: World, type: int
) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    consumer.flow(100)
    client.producer("t").send_chunks("u", "a", "b", "c", "d")
    got = consumer.deliveries()
    consumer.acked(got[1])
    consumer.redeliver(got[3])
    assert consumer.payloads() == ["a", "c", "d"]


def test_a_nack_of_an_older_copy_leaves_the_newer_one_alone(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    consumer.flow(100)
    producer = client.producer("t")
    for number in (0, 1, 0, 1, 2):
        producer.send_chunk("u", number, 3, f"{number}")
    got = consumer.deliveries()
    consumer.redeliver(got[1])
    assert [message.place for message in consumer.deliveries()] == [got[1].place]
