"""Races that are rarely seen: what comes between a plan and its end, and who is left behind."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.wire_client import (
    Exclusive,
    Failover,
    Shared,
    WireClient,
    WireConsumer,
    WireProducer,
    World,
    refused,
)

from magnetar.broker.broker import TURN_TOPICS
from magnetar.broker.commits import Commits
from magnetar.errors import BrokerError, DiskError, DiskFullError
from magnetar.model import ProducerAccessMode, ServerError, TopicName
from magnetar.protocol import CommandSendReceipt, encode
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage.journal import Outcome
from magnetar.storage.retention import Retention

FULL = DiskFullError("write to", "journal", "No space left on device")


@pytest.fixture
def world() -> World:
    return World()


# ---- Dispatch ----------------------------------------------------------------------


def test_an_entry_that_is_nacked_while_it_is_read_anew_is_delivered_once_and_others_too() -> None:
    """I3: it was due, delivered ahead of its turn, given back, and then read in its turn."""
    world = World(cache_bytes=0)
    client = world.connect()
    first = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    for text in "abc":
        producer.send(text)
    producer.send("late", deliver_at_time=world.host.now + 5000)
    producer.send("z")
    assert first.receive() == ["a", "b", "c", "z"]
    first.close()  # everything is to be read again, but what is delayed is known
    second = client.subscribe("t", "sub", Shared)
    world.advance(6000)
    world.hold_reads()
    second.flow(1)
    world.release_reads()
    (late,) = second.deliveries()
    assert late.payloads == {0: "late"}
    world.hold_reads()
    second.flow(10)  # reads a, b, c, late and z
    second.redeliver(late)
    world.release_reads()
    assert sorted(second.payloads()) == ["a", "b", "c", "late", "z"]
    producer.send("more")
    assert second.payloads() == ["more"]
    assert second.stats().unackedMessages == 6


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


# ---- Producers ---------------------------------------------------------------------


def test_a_refusal_for_lack_of_space_does_not_let_a_duplicate_in() -> None:
    world = World(deduplication=True)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    world.hold_disk()
    producer.publish("a")
    world.store.log.full = True
    producer.publish("b")
    world.store.log.full = False
    client.drop()
    again = world.connect()
    retry = again.ask(pb.CommandProducer(topic="t", producer_id=1, producer_name="p"))
    second = WireProducer(again, 1, "t")
    second.name = "p"
    second.publish("a", sequence_id=0)
    world.release_disk()
    assert again.answer(retry) is not None
    assert world.topic("t").incoming.messages == 1


def test_answers_keep_their_order_when_space_ends(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    world.hold_disk()
    producer.publish("a")
    world.store.log.full = True
    producer.publish("b")
    assert not client.take(pb.CommandSendError)
    world.store.log.full = False
    world.release_disk()
    answers = [
        c for c in client.received if isinstance(c, CommandSendReceipt | pb.CommandSendError)
    ]
    assert [int(c.sequence_id) for c in answers] == [0, 1]
    assert isinstance(answers[0], CommandSendReceipt)
    assert isinstance(answers[1], pb.CommandSendError)


def test_a_producer_that_takes_the_id_of_another_leaves_nobody_behind(world: World) -> None:
    """I8: otherwise the first would have its topic for itself for ever."""
    client = world.connect()
    client.producer("t", producer_id=1, producer_access_mode=ProducerAccessMode.Exclusive)
    client.producer("other", producer_id=1, epoch=1)
    client.drop()
    assert not world.topic("t").producers
    assert not world.topic("other").producers
    world.connect().producer("t").send("a")


def test_a_live_peer_is_not_dropped_because_nobody_reads_from_it() -> None:
    world = World(max_pending_publishes_per_connection=1)
    holder, rival = world.connect(), world.connect()
    producer = holder.producer("t", producer_name="p")
    world.hold_disk()
    producer.publish("a")
    assert not holder.port.reading
    request = rival.ask(pb.CommandProducer(topic="t", producer_id=1, producer_name="p"))
    world.advance(10_000)
    for _ in range(3):
        holder.session.check_alive()
        world.settle()
    assert not holder.hung_up
    assert rival.answer(request).error == ServerError.ProducerBusy
    world.release_disk()
    assert len(holder.take(CommandSendReceipt)) == 1


def test_a_producer_that_is_closed_while_another_is_asked_is_not_created(world: World) -> None:
    holder, rival = world.connect(), world.connect()
    holder.producer("t", producer_name="p")
    holder.answers_pings = False
    command = pb.CommandProducer(topic="t", producer_id=1, producer_name="p")
    requests = [rival.ask(command), rival.ask(pb.CommandCloseProducer(producer_id=1))]
    world.advance(10_000)
    assert isinstance(rival.answer(requests[0]), pb.CommandError)
    assert isinstance(rival.answer(requests[1]), pb.CommandSuccess)
    assert not world.topic("t").producers
    rival.producer("t", producer_id=1, producer_name="p").send("a")


def test_waiting_producers_are_told_when_the_catalog_fails(world: World) -> None:
    """And what else the connection had is let go of."""
    holder, waiting = world.connect(), world.connect()
    holder.producer("t", producer_access_mode=ProducerAccessMode.Exclusive)
    holder.subscribe("t", "sub")
    waiting.producer("t", producer_access_mode=ProducerAccessMode.WaitForExclusive)
    with read_only_catalog(world):
        holder.drop()
        assert waiting.take(pb.CommandCloseProducer)
        with refused(ServerError.PersistenceError):
            waiting.producer("t", producer_access_mode=ProducerAccessMode.Exclusive)
    topic = world.topic("t")
    assert not topic.producers
    assert topic.consumer_count() == 0
    epoch = topic.epoch
    waiting.producer("t", producer_access_mode=ProducerAccessMode.Exclusive)
    assert topic.epoch == epoch + 1


@contextmanager
def read_only_catalog(world: World) -> Iterator[None]:
    database = world.catalog._database
    database.execute("PRAGMA query_only = 1")
    try:
        yield
    finally:
        database.execute("PRAGMA query_only = 0")


# ---- Subscriptions -----------------------------------------------------------------


def two_that_unsubscribe(world: World) -> tuple[WireClient, list[int]]:
    client = world.connect()
    consumers = [client.subscribe("t", "sub", Shared) for _ in range(2)]
    consumers[0].flow(10)
    client.producer("t").send("a")
    world.hold_disk()
    consumers[0].ack(*consumers[0].deliveries())
    return client, [
        client.ask(pb.CommandUnsubscribe(consumer_id=consumer.id, force=True))
        for consumer in consumers
    ]


def test_a_subscription_that_is_deleted_twice_is_gone(world: World) -> None:
    client, requests = two_that_unsubscribe(world)
    world.release_disk()
    answers = [client.answer(request) for request in requests]
    assert isinstance(answers[0], pb.CommandSuccess)
    assert answers[1] is not None
    assert not world.topic("t").subscriptions
    world.crash()
    assert not world.topic("t").subscriptions


def test_a_subscription_whose_deletion_is_on_its_way_is_not_loaded(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    consumer.flow(10)
    producer = client.producer("t")
    producer.send("a")
    world.hold_disk()
    consumer.ack(*consumer.deliveries())
    request = client.ask(pb.CommandUnsubscribe(consumer_id=consumer.id))
    world.broker.unload(TopicName.parse("t"))
    world.write_once()
    again = world.connect()
    command = pb.CommandSubscribe(
        topic="t", subscription="sub", subType=int(Shared), consumer_id=1, initialPosition=1
    )
    subscribed = again.ask(command)
    world.release_disk()
    assert client.answer(request) is not None
    answer = again.answer(subscribed)
    assert answer is not None
    if isinstance(answer, pb.CommandSuccess):
        second = WireConsumer(again, 1, "t")
        world.connect().producer("t").send("b")
        second.flow(10)
        second.acked(*second.deliveries())


def test_a_subscription_is_not_created_over_another(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    topic = world.topic("t")
    with pytest.raises(BrokerError):
        topic.create_subscription("sub", topic.ledgers.last(), {})
    world.unload("t")
    with pytest.raises(BrokerError):
        topic.create_subscription("more", topic.ledgers.last(), {})
    assert consumer.closed_by_broker()
    assert list(world.topic("t").subscriptions) == ["sub"]


# ---- Topics ------------------------------------------------------------------------


def test_a_topic_that_is_unloaded_while_it_is_deleted_keeps_nobody(world: World) -> None:
    client = world.connect()
    client.subscribe("t", "sub").close()
    producer = client.producer("t")
    world.hold_disk()
    producer.publish("a")
    deleted = world.broker.delete_topic(TopicName.parse("t"), force=True, delete_schema=True)
    unloaded = world.broker.unload(TopicName.parse("t"))
    world.write_once()
    again = world.connect()
    request = again.ask(
        pb.CommandSubscribe(topic="t", subscription="sub", subType=int(Exclusive), consumer_id=1)
    )
    world.release_disk()
    assert deleted.done
    assert deleted.error is None
    assert unloaded.done
    answer = again.answer(request)
    assert answer is not None
    closed = again.take(pb.CommandCloseConsumer)
    # Whoever was let in is in the topic that exists now, or was told to come again.
    if isinstance(answer, pb.CommandSuccess) and not closed:
        assert world.topic("t").consumer_count() == 1


def test_a_deletion_that_the_catalog_does_not_take_is_answered(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    with read_only_catalog(world):
        world.hold_disk()
        producer.publish("a")
        promise = world.broker.delete_topic(TopicName.parse("t"), force=True, delete_schema=True)
        world.release_disk()
        assert isinstance(promise.error, DiskError)
        client.producer("other")
        with pytest.raises(DiskError):
            world.topic("other").terminate()
    assert not world.topic("other").terminated
    assert client.producer("t").send("b").entry_id == 0


def test_a_seek_into_what_is_trimmed_meanwhile_goes_on_with_what_comes(world: World) -> None:
    """Nothing that the seek names is there when it is done."""
    client, other = world.connect(), world.connect()
    consumers = [
        client.subscribe("t", "sub", Failover, consumer_name="a"),
        other.subscribe("t", "sub", Failover, consumer_name="b"),
    ]
    producer = client.producer("t")
    for consumer in consumers:
        consumer.flow(100)
    world.advance(5000)
    id = producer.send("a")
    (active,) = [consumer for consumer in consumers if consumer.deliveries()]
    active.acked(id)
    topic = world.topic("t")
    world.store.seal_topic(topic.id)
    world.host.kick()
    world.settle()
    world.hold_disk()
    request = active.client.ask(active.seek_command(id))
    topic.trim(Retention())
    world.release_disk()
    assert isinstance(active.client.answer(request), pb.CommandSuccess)
    producer.send("b")
    assert [text for consumer in consumers for text in consumer.payloads()] == ["b"]


def test_a_request_for_a_consumer_that_was_closed_while_another_was_asked_is_answered(
    world: World,
) -> None:
    holder, rival = world.connect(), world.connect()
    holder.subscribe("t", "sub")
    holder.answers_pings = False
    command = pb.CommandSubscribe(topic="t", subscription="sub", subType=0, consumer_id=1)
    request = rival.ask(command)
    rival.request(pb.CommandCloseConsumer(consumer_id=1))
    world.advance(10_000)
    assert isinstance(rival.answer(request), pb.CommandError)
    rival.subscribe("t", "sub", consumer_id=1)


# ---- Deduplication -----------------------------------------------------------------


def test_deduplication_whose_cursor_was_not_written_is_written_with_the_next_publish(
    world: World,
) -> None:
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    world.hold_disk()
    world.set_policy("deduplicationEnabled", True, topic="t")
    world.fail_disk(FULL)
    world.fail_disk(None)
    for text in "abc":
        producer.send(text)
    world.crash()
    assert world.connect().producer("t", producer_name="p").success.last_sequence_id == 2


def test_deduplication_that_failed_may_be_switched_off(world: World) -> None:
    world.connect().producer("t")
    world.hold_disk()
    world.set_policy("deduplicationEnabled", True, topic="t")
    world.fail_disk(FULL)
    world.fail_disk(None)
    world.set_policy("deduplicationEnabled", False, topic="t")
    assert world.topic("t").deduplication is None


def test_deduplication_that_is_switched_off_and_on_again_is_kept(world: World) -> None:
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    world.set_policy("deduplicationEnabled", True, topic="t")
    world.hold_disk()
    world.set_policy("deduplicationEnabled", False, topic="t")
    world.set_policy("deduplicationEnabled", True, topic="t")
    world.release_disk()
    producer.send("a")
    topic = world.topic("t")
    assert topic.deduplication is not None
    topic.deduplication.snapshot()
    world.settle()
    assert not world.host.warnings
    world.crash()
    assert world.connect().producer("t", producer_name="p").success.last_sequence_id == 0


# ---- The loop ----------------------------------------------------------------------


def test_one_that_fails_when_it_is_settled_does_not_spoil_the_others() -> None:
    """I1: what is left in the queue would be told of an outcome that is not its own."""
    commits = Commits()
    told: list[Exception | None] = []

    def fail(error: Exception | None) -> None:
        raise ValueError("a mistake")

    commits.when(0, fail)
    commits.when(1, told.append)
    with pytest.raises(ValueError, match="a mistake"):
        commits.take(Outcome(0, 2, FULL))
    assert told == [FULL]
    assert len(commits) == 0


def test_regular_work_on_many_topics_leaves_room_for_others() -> None:
    world = World(ttl_seconds=10)
    names = [TopicName.parse(f"t{i}") for i in range(2 * TURN_TOPICS + 1)]
    for name in names:
        world.broker.create_topic(name)
    world.settle()
    broker = world.broker
    for work in (
        broker.tick_rates,
        broker.expire,
        broker.check_quotas,
        broker.check_retention,
        broker.delete_inactive,
    ):
        work()
        turns = 0
        while world.host.soon:
            assert len(world.host.soon) == 1
            world.host.soon.popleft()()
            turns += 1
        assert turns == 2


def test_a_snapshot_is_not_begun_again_while_one_is_on_its_way(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    world.hold_disk()
    for _ in range(110):
        producer.publish(*["x"] * 100)
    world.release_disk()
    consumer.flow(20_000)
    deliveries = consumer.deliveries()
    world.hold_disk()
    for delivery in deliveries:
        for index in range(1, 100):
            consumer.ack(delivery.index(index))
    world.release_disk()
    assert world.store.cursors_due()
    world.hold_disk()
    world.advance(1500)
    queued = world.store.log.journal.queue_bytes()
    world.advance(10_000)
    assert world.store.log.journal.queue_bytes() == queued > 0
    world.release_disk()
    world.advance(3000)
    assert not world.store.cursors_due()


# ---- Not done yet ------------------------------------------------------------------


def test_a_name_of_a_megabyte_is_refused(world: World) -> None:
    """It would be in memory, in every list, in the log and in each line of the metrics."""
    client = world.connect()
    long = "s" * (1 << 20)
    with refused(ServerError.NotAllowedError, "1048576 bytes"):
        client.subscribe("t", long)
    for topic in ("t", "non-persistent://public/default/n"):
        with refused(ServerError.NotAllowedError, "the name of the subscription"):
            client.subscribe(topic, "s" * 1025)
        with refused(ServerError.NotAllowedError, "the name of the consumer"):
            client.subscribe(topic, "s", consumer_name=long)
        with refused(ServerError.NotAllowedError, "the name of the producer"):
            client.producer(topic, producer_name=long)
        with refused(ServerError.NotAllowedError, "the name of the topic"):
            client.producer(topic + "t" * 1024)
    assert world.topic("t").subscriptions == {}
    client.subscribe("t", "s" * 1024)


def test_watchers_of_one_connection_are_limited(world: World) -> None:
    """Each holds the names of a namespace, and every new topic is told to each."""
    client = world.connect()
    for id in range(5000):
        client.session.receive(
            encode(
                pb.CommandWatchTopicList(
                    request_id=id + 1,
                    watcher_id=id,
                    namespace="public/default",
                    topics_pattern="public/default/.*",
                )
            )
        )
    assert len(world.broker.watchers) == world.settings.max_topic_watchers_per_connection
    world.settle()
    (refusal, *_) = client.take(pb.CommandError)
    assert refusal.error == ServerError.TooManyRequests
    # One that is there may be told anew, and one that is closed makes room.
    watch = pb.CommandWatchTopicList(
        watcher_id=0, namespace="public/default", topics_pattern="public/default/.*"
    )
    client.request(watch)
    client.request(pb.CommandWatchTopicListClose(watcher_id=7))
    watch.watcher_id = 6000
    watch.request_id = 0
    client.request(watch)


def test_a_request_for_too_many_partitions_makes_none(world: World) -> None:
    name = TopicName.parse("many")
    with pytest.raises(BrokerError, match="10000 partitions at most"):
        world.broker.create_partitioned(name, (1 << 31) - 1)
    assert world.broker.names("public/default") == []
