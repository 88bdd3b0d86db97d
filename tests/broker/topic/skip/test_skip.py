"""Skipping by id, at the broker's heart: all or nothing, whatever else goes on."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.wire_client import Earliest, Exclusive, Failover, KeyShared, Shared, WireProducer
from support.world import ENDS, FULL, World

from magnetar.broker.promise import Promise
from magnetar.broker.topic.chunk.chunk_map import Chunk, ChunkMap
from magnetar.broker.topic.chunk.chunk_search import ChunkSearch, find_chunks
from magnetar.broker.topic.skip.skip import skip_messages
from magnetar.broker.topic.topic import Topic
from magnetar.errors import BrokerError, DiskError, UsageError
from magnetar.model import Position, ServerError, TopicName
from magnetar.model.message_id_data import MessageIdData


def unacked(topic: Topic) -> set[tuple[int, int, int]]:
    """What the subscription has not acked: ledger, entry and index."""
    found = set()
    for position, remaining in topic.subscriptions["sub"].cursor.unacked():
        size = topic.ledgers.sizes.batch_size(position.ledger_id, position.entry_id)
        for index in range(size):
            if remaining is None or remaining >> index & 1:
                found.add((position.ledger_id, position.entry_id, index))
    return found


def at(id: MessageIdData, index: int = -1, *, entry: int = 0) -> MessageIdData:
    return MessageIdData(id.ledger_id, id.entry_id + entry, -1, index)


def partitions(world: World, count: int) -> list[Topic]:
    """The partitions of a topic, each with a subscription `sub`."""
    name = TopicName.parse("p")
    world.broker.create_partitioned(name, count)
    world.settle()
    topics = [world.broker.find(name.with_partition(number)) for number in range(count)]
    for topic in topics:
        topic.create_subscription("sub", Position(-1, -1), {})
    world.settle()
    return topics


def again(world: World, topics: list[Topic]) -> list[Topic]:
    return [world.broker.find(topic.name) for topic in topics]


# ---- All or nothing --------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 3), min_size=1, max_size=5)
# A partition, an entry and an index of it, of which some are not there.
PICK = st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(-2, 3), st.booleans())
REQUESTS = st.lists(st.lists(PICK, min_size=1, max_size=6), min_size=1, max_size=6)


@settings(max_examples=examples(150))
@given(st.lists(SIZES, min_size=3, max_size=3), REQUESTS, st.booleans())
def test_a_request_acks_exactly_what_it_names_or_nothing(
    sizes: list[list[int]], requests: list[list[tuple[int, int, int, bool]]], crash: bool
) -> None:
    """Against a plain set: of a list with one bad id, none is taken out."""
    world = World()
    topics = partitions(world, 3)
    ids: list[list[MessageIdData]] = []
    left: set[tuple[int, int, int]] = set()
    for topic, batches in zip(topics, sizes, strict=True):
        producer = world.connect().producer(str(topic.name))
        ids.append([producer.send(*["m"] * size, batch=size > 1) for size in batches])
        left |= unacked(topic)
    for request in requests:
        named: list[MessageIdData] = []
        wanted: set[tuple[int, int, int]] = set()
        good = True
        for which, entry, index, tell in request:
            batches = sizes[which]
            ledger = int(ids[which][0].ledger_id)
            named.append(MessageIdData(ledger, entry, which if tell else -1, index))
            if entry >= len(batches) or not -1 <= index < batches[entry]:
                good = False
            else:
                indexes = range(batches[entry]) if index == -1 else [index]
                wanted |= {(ledger, entry, i) for i in indexes}
        promise = skip_messages(topics, "sub", named)
        if good:
            world.done(promise)
            left -= wanted
        else:
            assert isinstance(promise.error, UsageError)
        if crash:
            world.crash()
            topics = again(world, topics)
        assert set().union(*[unacked(topic) for topic in topics]) == left
        for topic in topics:
            topic.subscriptions["sub"].cursor.check()
    world.close()


@pytest.mark.parametrize("wait", [False, True])
def test_a_skip_over_partitions_survives_a_crash_whole_or_not_at_all(
    world: World, wait: bool
) -> None:
    topics = partitions(world, 4)
    ids = [world.connect().producer(str(topic.name)).send("m") for topic in topics]
    world.hold_disk()
    promise = skip_messages(topics, "sub", ids)
    assert (promise.done, [len(unacked(topic)) for topic in topics]) == (False, [1, 1, 1, 1])
    if wait:
        world.write_once()
        assert (promise.done, promise.error) == (True, None)
    world.crash()
    assert [len(unacked(topic)) for topic in again(world, topics)] == [0 if wait else 1] * 4


def test_a_write_that_fails_skips_nothing(world: World) -> None:
    topics = partitions(world, 2)
    ids = [world.connect().producer(str(topic.name)).send("m") for topic in topics]
    world.hold_disk()
    promise = skip_messages(topics, "sub", ids)
    world.fail_disk(FULL)
    assert isinstance(promise.error, DiskError)
    assert [len(unacked(topic)) for topic in topics] == [1, 1]
    world.fail_disk(None)
    world.done(skip_messages(topics, "sub", ids))
    assert [len(unacked(topic)) for topic in topics] == [0, 0]


def test_a_store_that_takes_nothing_skips_nothing(world: World) -> None:
    (topic,) = partitions(world, 1)
    id = world.connect().producer(str(topic.name)).send("m")
    world.store.close()
    assert skip_messages([topic], "sub", [id]).error is not None
    assert len(unacked(topic)) == 1


# ---- Whatever else goes on -------------------------------------------------------------


def start(world: World, type: int = Shared) -> WireProducer:
    producer = world.connect().producer("t")
    world.connect().subscribe("t", "sub", type, initialPosition=Earliest)
    return producer


def error_code(promise: Promise[None]) -> int:
    assert isinstance(promise.error, BrokerError)
    return promise.error.code


def test_an_ack_and_a_skip_of_one_batch_meet(world: World) -> None:
    """Both are on their way at once, in either order: neither takes the other back."""
    producer = world.connect().producer("t")
    consumer = world.connect().subscribe("t", "sub", Shared, initialPosition=Earliest)
    for skip_first in (False, True):
        id = producer.send("a", "b", "c")
        consumer.flow(3)
        delivery = consumer.one()
        world.hold_disk()
        promises = []
        for skipping in (skip_first, not skip_first):
            if skipping:
                promises.append(skip_messages([world.topic("t")], "sub", [at(id, 1)]))
            else:
                consumer.ack(delivery.index(0))
        world.release_disk()
        assert promises[0].error is None
        assert [index for _, _, index in unacked(world.topic("t"))] == [2]
        assert consumer.stats().unackedMessages == 1
        consumer.acked(delivery.index(2))
        assert consumer.stats().unackedMessages == 0


def test_a_seek_behind_a_skip_unacks_it_and_one_before_refuses_it(world: World) -> None:
    producer = world.connect().producer("t")
    consumer = world.connect().subscribe("t", "sub", Shared, initialPosition=Earliest)
    ids = [producer.send(f"{i}") for i in range(4)]
    topic = world.topic("t")
    subscription = topic.subscriptions["sub"]
    world.hold_disk()
    skipped = skip_messages([topic], "sub", [ids[1]])
    reset = subscription.reset(Position(ids[0].ledger_id, ids[0].entry_id))
    refused = skip_messages([topic], "sub", [ids[2]])
    assert error_code(refused) == ServerError.ServiceNotReady
    world.release_disk()
    assert skipped.error is None
    assert reset.error is None
    assert len(unacked(topic)) == 4
    assert consumer.closed_by_broker()
    world.crash()
    assert len(unacked(world.topic("t"))) == 4


def test_a_skip_before_an_unload_is_done_and_one_after_it_refused(world: World) -> None:
    producer = start(world)
    ids = [producer.send(f"{i}") for i in range(3)]
    topic = world.topic("t")
    world.hold_disk()
    skipped = skip_messages([topic], "sub", [ids[0]])
    unloaded = world.broker.unload(topic.name)
    assert error_code(skip_messages([topic], "sub", [ids[1]])) == ServerError.ServiceNotReady
    world.release_disk()
    assert (skipped.done, skipped.error, unloaded.done) == (True, None, True)
    # Whoever still has the topic of before is told so, too.
    assert error_code(skip_messages([topic], "sub", [ids[1]])) == ServerError.ServiceNotReady
    assert len(unacked(world.topic("t"))) == 2


@pytest.mark.parametrize("type", [Shared, KeyShared])
def test_what_was_skipped_does_not_come_back(world: World, type: int) -> None:
    """Not by a redelivery, and not to a consumer that comes later."""
    producer = world.connect().producer("t")
    consumer = world.connect().subscribe("t", "sub", type, initialPosition=Earliest)
    ids = [producer.send(f"{i}", partition_key="k") for i in range(4)]
    consumer.flow(10)
    assert len(consumer.deliveries()) == 4
    world.done(skip_messages([world.topic("t")], "sub", ids[1:3]))
    consumer.redeliver()
    assert consumer.payloads() == ["0", "3"]
    consumer.client.drop()
    other = world.connect().subscribe("t", "sub", type)
    assert other.receive() == ["0", "3"]


def test_a_skip_unblocks_a_consumer_that_has_too_much(world: World) -> None:
    world.set_policy("maxUnackedMessagesOnConsumer", 2, topic="t")
    producer = world.connect().producer("t")
    consumer = world.connect().subscribe("t", "sub", Shared, initialPosition=Earliest)
    ids = [producer.send(f"{i}") for i in range(4)]
    consumer.flow(10)
    assert consumer.payloads() == ["0", "1"]
    world.done(skip_messages([world.topic("t")], "sub", ids[:2]))
    assert consumer.payloads() == ["2", "3"]


def test_a_reader_may_be_skipped_for_in_memory(world: World) -> None:
    """A subscription that is not durable has nothing to write, and is skipped all the same."""
    producer = world.connect().producer("t")
    consumer = world.connect().subscribe(
        "t", "sub", Shared, durable=False, initialPosition=Earliest
    )
    ids = [producer.send(f"{i}") for i in range(3)]
    world.hold_disk()
    assert skip_messages([world.topic("t")], "sub", [ids[1]]).done
    world.release_disk()
    assert consumer.receive() == ["0", "2"]


def test_what_was_trimmed_is_skipped_and_what_never_was_is_not(world: World) -> None:
    topic = partitions(world, 1)[0]
    id = world.connect().producer(str(topic.name)).send("m")
    world.done(topic.subscriptions["sub"].clear())
    world.trim(str(topic.name))
    assert topic.storage.ledger_ids() == []
    for _ in range(2):
        (topic,) = again(world, [topic])
        world.done(skip_messages([topic], "sub", [id, at(id, 7), at(id, entry=3)]))
        cursor_id = topic.subscriptions["sub"].cursor_id
        for ledger_id in (0, topic.id, cursor_id, 1 << 60):
            promise = skip_messages([topic], "sub", [id, MessageIdData(ledger_id, 0)])
            assert isinstance(promise.error, UsageError), ledger_id
        world.restart()  # after which nobody knows which ledgers the topic had


# ---- Chunks ----------------------------------------------------------------------------


def search(world: World, topics: list[Topic], *ids: MessageIdData) -> list[MessageIdData]:
    found = ChunkSearch(topics, list(ids))
    while (plan := found.next_plan()) is not None or world.broker.looks.is_over():
        world.settle()
        if plan is None:
            continue
        plan.run(world.disk)
        world.store.finish_read(plan)
        found.take(plan)
    return found.chunks()


def whole(chunks: list[MessageIdData]) -> MessageIdData:
    last = chunks[-1]
    return MessageIdData(last.ledger_id, last.entry_id, -1, -1, None, 0, chunks[0])


def places(ids: list[MessageIdData]) -> list[tuple[int, int]]:
    return [(int(id.ledger_id), int(id.entry_id)) for id in ids]


def test_chunks_are_found_among_those_of_others(world: World) -> None:
    world.connect().subscribe("t", "sub", Shared, initialPosition=Earliest)
    one, other = world.connect().producer("t"), world.connect().producer("t")
    chunks: dict[str, list[MessageIdData]] = {"one": [], "other": []}
    for number in range(250):
        for name, producer in (("one", one), ("other", other)):
            chunks[name].append(producer.send_chunk(name, number, 250, f"{number}"))
        one.send("between")
    topic = world.topic("t")
    assert places(search(world, [topic], whole(chunks["one"]))) == places(chunks["one"])
    both = search(world, [topic], whole(chunks["other"]), whole(chunks["one"]))
    assert places(both) == places(chunks["other"] + chunks["one"])
    world.done(skip_messages([topic], "sub", both))
    assert len(unacked(topic)) == 250


def test_an_id_whose_chunks_do_not_fit_is_refused(world: World) -> None:
    producer = start(world)
    chunks = producer.send_chunks("u", "a", "b", "c")
    others = producer.send_chunks("v", "a", "b")
    single = producer.send("s")
    topic = world.topic("t")
    bad = [
        whole([others[0], chunks[2]]),
        whole([chunks[0], others[1]]),
        whole([chunks[0], single]),
        whole([single, single]),
        whole([at(single, entry=9), single]),
        whole([chunks[0], at(single, entry=9)]),
    ]
    for id in bad:
        with pytest.raises(UsageError):
            search(world, [topic], whole(chunks), id)
    # Who names a part of a message names all of it.
    assert places(search(world, [topic], whole(chunks[1:]))) == places(chunks)


def test_chunks_of_two_partitions_are_no_message(world: World) -> None:
    topics = partitions(world, 2)
    chunks = [
        world.connect().producer(str(topic.name)).send_chunks("u", "a", "b") for topic in topics
    ]
    assert places(search(world, topics, *map(whole, chunks))) == places(chunks[0] + chunks[1])
    with pytest.raises(UsageError):
        search(world, topics, whole([chunks[0][0], chunks[1][1]]))


def test_chunks_that_were_trimmed_are_left_out() -> None:
    world = World(ledger_entries_max=2)
    producer = start(world)
    chunks = producer.send_chunks("u", "a", "b", "c", "d")
    topic = world.topic("t")
    assert len(topic.storage.ledger_ids()) == 2
    world.done(topic.subscriptions["sub"].skip(2))
    topic.storage.trim()
    world.settle()
    assert len(topic.storage.ledger_ids()) == 1
    assert places(search(world, [topic], whole(chunks))) == places(chunks[2:])
    world.done(topic.subscriptions["sub"].clear())
    producer.send("behind")
    topic.storage.trim()
    world.settle()
    assert search(world, [topic], whole(chunks)) == []
    world.close()


# ---- What is refused -------------------------------------------------------------------


def refusal(topics: list[Topic], *ids: MessageIdData, name: str = "sub") -> str:
    promise = skip_messages(topics, name, list(ids))
    assert isinstance(promise.error, UsageError)
    return str(promise.error)


def test_an_id_must_fit_its_partition(world: World) -> None:
    topics = partitions(world, 2)
    ids = [world.connect().producer(str(topic.name)).send("m") for topic in topics]
    ledger = ids[0].ledger_id
    assert "of partition 0, not of 1" in refusal(topics, MessageIdData(ledger, 0, 1))
    assert "names partition 2" in refusal(topics, MessageIdData(ledger, 0, 2))
    assert "names partition 1" in refusal(topics[:1], MessageIdData(ledger, 0, 1))
    assert "none of its 2 partitions" in refusal(topics, MessageIdData(1 << 60, 0))
    assert "never had this ledger" in refusal(topics[:1], ids[1])
    assert "has 1 entries" in refusal(topics, MessageIdData(ledger, 1))
    assert "has 1 entries" in refusal(topics, MessageIdData(ledger, -1))
    world.done(skip_messages(topics, "sub", [MessageIdData(ledger, 0, 0), ids[1]]))


def test_an_index_must_fit_its_batch_though_it_is_acked(world: World) -> None:
    producer = start(world)
    id = producer.send("a", "b", "c")
    topic = world.topic("t")
    for _ in range(2):
        assert "no index 3 in a batch of 3" in refusal([topic], at(id, 3))
        assert "no message has index -2" in refusal([topic], at(id, -2))
        claims = MessageIdData(id.ledger_id, id.entry_id, -1, 0, None, 9)
        assert "a batch of 3 messages, not of 9" in refusal([topic], claims)
        world.done(skip_messages([topic], "sub", [id]))


def test_trimmed_ids_are_ids_all_the_same() -> None:
    world = World(ledger_entries_max=1)
    producer = start(world)
    ids = [producer.send(f"{i}") for i in range(3)]
    topic = world.topic("t")
    world.done(topic.subscriptions["sub"].skip(2))
    topic.storage.trim()
    world.settle()
    gone = ids[0].ledger_id
    world.done(skip_messages([topic], "sub", [ids[0], at(ids[0], 5)]))
    assert "counted from 0" in refusal([topic], MessageIdData(gone, -1))
    assert "no message has index -2" in refusal([topic], MessageIdData(gone, 0, -1, -2))
    assert "names partition 3" in refusal([topic], MessageIdData(gone, 0, 3))
    world.close()


def test_who_may_not_be_skipped_for_is_told(world: World) -> None:
    producer = world.connect().producer("t")
    id = producer.send("m")
    topic = world.topic("t")
    missing = skip_messages([topic], "none", [id])
    assert error_code(missing) == ServerError.SubscriptionNotFound
    world.connect().subscribe("t", "sub", initialPosition=Earliest)
    alone = skip_messages([topic], "sub", [id])
    assert error_code(alone) == ServerError.NotAllowedError
    world.restart(batch_index_ack=False)
    world.connect().subscribe("t", "sub", Shared).close()
    topic = world.topic("t")
    assert error_code(skip_messages([topic], "sub", [at(id, 0)])) == ServerError.NotAllowedError
    world.done(skip_messages([topic], "sub", [id]))
    assert unacked(topic) == set()


def test_a_partition_without_the_subscription_is_told(world: World) -> None:
    topics = partitions(world, 2)
    ids = [world.connect().producer(str(topic.name)).send("m") for topic in topics]
    world.done(topics[0].unsubscribe(topics[0].subscriptions["sub"]))
    assert error_code(skip_messages(topics, "sub", ids)) == ServerError.SubscriptionNotFound
    assert len(unacked(topics[1])) == 1
    world.done(skip_messages(topics, "sub", ids[1:]))
    assert unacked(topics[1]) == set()


def test_a_cursor_that_was_reset_behind_our_back_takes_nothing(world: World) -> None:
    """It cannot be, for a reset fences the subscription first; if it were, nothing is half done."""
    topics = partitions(world, 2)
    ids = [world.connect().producer(str(topic.name)).send("m") for topic in topics]
    world.hold_disk()
    promise = skip_messages(topics, "sub", ids)
    cursor = topics[1].subscriptions["sub"].cursor
    cursor.apply(cursor.plan_reset(Position(-1, -1)))
    world.release_disk()
    assert error_code(promise) == ServerError.ServiceNotReady
    assert [len(unacked(topic)) for topic in topics] == [1, 1]


def test_chunks_too_far_apart_are_not_looked_for(world: World) -> None:
    producer, other = start(world), world.connect().producer("t")
    chunks = [producer.send_chunk("u", 0, 2, "a")]
    for number in range(3):
        other.send_chunk(f"v{number}", 0, 2, "x")
    chunks.append(producer.send_chunk("u", 1, 2, "b"))
    topic = world.topic("t")
    found = ChunkSearch([topic], [whole(chunks)])
    near = ChunkSearch([topic], [whole(chunks)], gap_max=2)
    assert near.next_plan() is None
    with pytest.raises(UsageError, match="looked through at most"):
        near.chunks()
    # What is trimmed while the search goes on is not missed.
    world.done(topic.subscriptions["sub"].clear())
    world.trim("t")
    assert found.next_plan() is None
    assert found.chunks() == []


# ---- Any chunk stands for its message (I6) ---------------------------------------------


def skip_any(world: World, topics: list[Topic], *ids: MessageIdData) -> None:
    """Skips as REST does it."""
    whole_ones: list[list[MessageIdData]] = []
    found = find_chunks(topics, [plain(id) for id in ids])
    found.then(whole_ones.append, lambda error: None)
    world.settle()
    assert found.error is None, found.error
    world.done(skip_messages(topics, "sub", whole_ones[0]))


def plain(id: MessageIdData) -> MessageIdData:
    """An id as `ledger_id()` and `entry_id()` give it."""
    return MessageIdData(id.ledger_id, id.entry_id)


@pytest.mark.parametrize("restarts", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize("ledger_entries_max", [2, 1000])
@pytest.mark.parametrize("number", [0, 1, 2, 3], ids=["first", "second", "third", "last"])
def test_to_skip_any_chunk_is_to_skip_its_message(
    number: int, ledger_entries_max: int, restarts: bool
) -> None:
    world = World(ledger_entries_max=ledger_entries_max, cache_bytes=0)
    producer, other = start(world), world.connect().producer("t")
    left = [other.send("before", "it")]
    chunks = []
    for chunk_id in range(4):
        chunks.append(producer.send_chunk("u", chunk_id, 4, f"{chunk_id}"))
        left.append(other.send_chunk("v", chunk_id, 4, f"{chunk_id}"))
        left.append(other.send("between"))
    left += producer.send_chunks("w", "a", "b")
    if restarts:
        world.restart()
        world.connect().subscribe("t", "sub", Shared)
    topic = world.topic("t")
    skip_any(world, [topic], chunks[number])
    assert {place[:2] for place in unacked(topic)} == set(places(left))
    world.close()


def test_to_skip_any_chunk_finds_its_message_over_partitions_and_ledgers() -> None:
    world = World(ledger_entries_max=2)
    topics = partitions(world, 3)
    producers = [world.connect().producer(str(topic.name)) for topic in topics]
    chunks: list[list[MessageIdData]] = [[], [], []]
    for chunk_id in range(5):  # their ledgers take turns
        for number, producer in enumerate(producers):
            chunks[number].append(producer.send_chunk("u", chunk_id, 5, "x"))
    skip_any(world, topics, chunks[0][4], chunks[1][2])
    assert [len(unacked(topic)) for topic in topics] == [0, 0, 5]
    both = search(world, topics, *[whole(some) for some in chunks])
    assert places(both) == places(chunks[0] + chunks[1] + chunks[2])
    world.close()


def test_to_skip_a_chunk_of_a_message_that_was_never_finished_skips_what_is_there(
    world: World,
) -> None:
    producer = start(world)
    orphans = [producer.send_chunk("u", number, 5, "x") for number in range(3)]
    producer.sequence_id += 1
    after = producer.send("after")
    topic = world.topic("t")
    skip_any(world, [topic], orphans[1])
    assert {place[:2] for place in unacked(topic)} == set(places([after]))


def test_to_skip_a_chunk_whose_others_are_acked_or_trimmed_is_fine() -> None:
    world = World(ledger_entries_max=2)
    producer = start(world)
    chunks = producer.send_chunks("u", "a", "b", "c", "d", "e")
    topic = world.topic("t")
    world.done(topic.subscriptions["sub"].skip(2))
    topic.storage.trim()
    world.settle()
    world.done(skip_messages([topic], "sub", [plain(chunks[3])]))
    skip_any(world, [topic], chunks[4])
    assert unacked(topic) == set()
    skip_any(world, [topic], chunks[0], chunks[4])  # nothing is left to do
    world.close()


def test_chunks_that_were_sent_again_are_skipped_with_their_message(world: World) -> None:
    producer = start(world)
    # The connection broke while the receipts of 1, 2 and of the next message were on their way.
    sent = [("u", 0), ("u", 1), ("u", 2), ("v", 0), ("u", 1), ("u", 2), ("v", 0), ("v", 1)]
    ids = [producer.send_chunk(uuid, number, 3, "x") for uuid, number in sent]
    topic = world.topic("t")
    skip_any(world, [topic], ids[5])
    assert {place[:2] for place in unacked(topic)} == set(places([ids[3], ids[6], ids[7]]))


def test_a_second_copy_of_a_message_is_not_skipped_with_the_first(world: World) -> None:
    producer = start(world)
    first = producer.send_chunks("u", "a", "b")
    second = producer.send_chunks("u", "a", "b")
    topic = world.topic("t")
    skip_any(world, [topic], first[1])
    assert {place[:2] for place in unacked(topic)} == set(places(second))
    skip_any(world, [topic], second[0])
    assert unacked(topic) == set()


def test_an_index_that_a_chunk_cannot_have_is_refused(world: World) -> None:
    chunks = start(world).send_chunks("u", "a", "b")
    topic = world.topic("t")
    found = search(world, [topic], plain(chunks[0]), at(chunks[1], 7))
    promise = skip_messages([topic], "sub", found)
    assert isinstance(promise.error, UsageError)
    assert len(unacked(topic)) == 2


def test_nothing_is_read_to_skip_messages_that_are_known_to_be_no_chunks() -> None:
    world = World(cache_bytes=0)
    producer = start(world)
    batch = producer.send("a", "b")
    world.restart()
    world.connect().subscribe("t", "sub", Shared)
    singles = [world.connect().producer("t").send("m") for _ in range(3)]
    topic = world.topic("t")
    world.hold_reads()
    skip_any(world, [topic], batch, *singles)
    world.done(skip_messages([topic], "sub", [batch, *singles]))
    assert unacked(topic) == set()
    world.close()


def test_a_topic_remembers_only_so_many_chunks_and_looks_up_the_others() -> None:
    world = World(ledger_entries_max=3, cache_bytes=0)
    producer = start(world)
    topic = world.topic("t")
    small = ChunkMap(topic.ledgers, chunks_max=4)
    chunks = producer.send_chunks("u", *"abcdefgh")
    for number, id in enumerate(chunks):
        small.published(Position(id.ledger_id, id.entry_id), Chunk("u", number, 8))
    assert 1 <= len(small) <= 4
    keys = topic.ledgers.keys(chunks)
    assert [small.knows(key) for key in keys] == [False] * 6 + [True] * 2
    for key, other in pairwise(keys):  # whether known or not, none is passed over
        assert small.after(key, world.broker.looks) == other
        assert small.before(other, world.broker.looks) == key
    small.remove(chunks[7].ledger_id)
    assert len(small) == 0
    world.close()


# ---- The type of a subscription --------------------------------------------------------


@pytest.mark.parametrize("alone", [Exclusive, Failover])
@pytest.mark.parametrize("how", ENDS)
def test_a_subscription_for_one_stays_one_when_it_is_loaded_anew(
    world: World, alone: int, how: str
) -> None:
    id = world.connect().producer("t").send("m")
    client = world.connect()
    client.subscribe("t", "sub", alone, initialPosition=Earliest)
    client.drop()
    world.end(how)
    refused = skip_messages([world.topic("t")], "sub", [id])
    assert error_code(refused) == ServerError.NotAllowedError
    assert world.subscription("t", "sub").type_name == ("Exclusive", "Failover")[alone != Exclusive]
    # Whoever comes next says what it is from then on, as ever.
    world.connect().subscribe("t", "sub", Shared).close()
    world.crash()
    assert world.subscription("t", "sub").type_name == "None"
    world.done(skip_messages([world.topic("t")], "sub", [id]))
    assert unacked(world.topic("t")) == set()


def test_the_type_and_the_properties_are_kept_beside_each_other(world: World) -> None:
    world.connect().producer("t")
    world.topic("t").create_subscription("sub", Position(-1, -1), {"owner": "ops"})
    world.settle()
    world.connect().subscribe("t", "sub", Failover)
    subscription = world.subscription("t", "sub")
    subscription.properties = {"owner": "dev"}
    subscription.save_properties()
    world.settle()
    world.crash()
    found = world.subscription("t", "sub")
    assert (found.properties, found.type_name) == ({"owner": "dev"}, "Failover")


def test_a_full_disk_keeps_no_type_and_nobody_out(world: World) -> None:
    world.connect().producer("t")
    world.topic("t").create_subscription("sub", Position(-1, -1), {})
    world.settle()
    world.store.close()
    world.connect().subscribe("t", "sub", Exclusive)
    assert world.subscription("t", "sub").type_name == "Exclusive"
    assert any("is not kept" in text for text in world.host.warnings)
