"""What the broker does by itself, and what goes wrong under it: snapshots, loads, bad disks."""

import pytest
from support.wire_client import (
    Earliest,
    Exclusive,
    Failover,
    KeyShared,
    Shared,
    WireConsumer,
    WirePort,
    but,
    refused,
)
from support.world import BROKEN, World, never

from magnetar.ack.record import record_bytes
from magnetar.broker.peer import Peer
from magnetar.broker.policy.policy import Policies
from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.persistent_topic import PersistentTopic
from magnetar.broker.topic.producer import Producer
from magnetar.broker.topic.subscribe_request import SubscribeRequest
from magnetar.broker.upkeep import SNAPSHOT_BYTES_MAX, SNAPSHOT_QUEUED_MAX, TURN_TOPICS
from magnetar.errors import BrokerError, DiskShortageError, StorageError
from magnetar.model import Position, ServerError, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import encode
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.wire.ack_set import BATCH_SIZE_MAX

# ---- Snapshots of cursors --------------------------------------------------------


def much_acked(world: World) -> tuple[WireConsumer, list[MessageIdData]]:
    """A subscription that is due for a snapshot: the second of every pair is acked."""
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    world.hold_disk()
    for i in range(200):
        producer.publish(*[f"{i}.{j}" for j in range(100)])
    world.release_disk()
    position = world.topic("t").ledgers.last()
    ids = [MessageIdData(position.ledger_id, i) for i in range(position.entry_id + 1)]
    world.hold_disk()
    acks = [consumer.ack_command((but(id, 100, i),)) for id in ids for i in range(1, 100, 2)]
    acks.append(consumer.ack_command((but(ids[0], 100, 1),)))
    client.say_bytes(b"".join(encode(ack) for ack in acks))
    world.release_disk()
    assert world.store.cursors_due()
    return consumer, ids


def expected(entries: int = 200) -> list[str]:
    return [f"{i}.{j}" for i in range(entries) for j in range(0, 100, 2)]


def test_a_snapshot_is_taken_and_loses_nothing(world: World) -> None:
    consumer, ids = much_acked(world)
    world.broker.upkeep.maintain()
    # An ack between two slices of the snapshot.
    consumer.ack(ids[-1])
    world.settle()
    world.advance(3000)
    assert not world.store.cursors_due()
    world.crash()
    again = world.connect().subscribe("t", "sub", Shared)
    assert again.receive(100_000) == expected(199)


def enormous(world: World, subscriptions: int) -> list[WireConsumer]:
    """Subscriptions that are due for a snapshot of some megabytes each."""
    client = world.connect()
    client.producer("t")
    topic = world.topic("t")
    assert isinstance(topic, PersistentTopic)
    ids: list[MessageIdData] = []
    for _ in range(20):
        at = world.store.append(topic.id, b"x", batch_size=BATCH_SIZE_MAX, publish_time_ms=1)
        topic.wait_for(world.store.ticket_last).when_done(
            lambda error, at=at: topic.have_stored(at, BATCH_SIZE_MAX, 1),  # type: ignore[misc]
        )
        ids.append(MessageIdData(at.ledger_id, at.entry_id, -1, -1, 0b10))
    world.host.kick()
    world.settle()
    consumers = []
    for number in range(subscriptions):
        name = f"s{number}"
        consumers.append(client.subscribe("t", name, Shared, initialPosition=Earliest))
        for _ in range(2):  # the second time nothing is new
            consumers[-1].acked(*ids)
    assert len(world.store.cursors_due()) == subscriptions
    return consumers


def test_little_of_snapshots_waits_for_the_disk_and_few_are_made_at_once() -> None:
    """Others publish behind what is queued, and there may be little memory."""
    world = World(segment_bytes=64 << 20)
    enormous(world, 9)
    world.hold_disk()
    before = world.store.log.journal.queue_bytes()
    world.advance(3000)
    queued = world.store.log.journal.queue_bytes() - before
    begun = SNAPSHOT_BYTES_MAX // (20 * record_bytes(BATCH_SIZE_MAX)) + 1
    assert begun * SNAPSHOT_QUEUED_MAX <= queued < begun * (SNAPSHOT_QUEUED_MAX + (1 << 18))
    world.release_disk()
    world.advance(5000)
    assert not world.store.cursors_due()
    world.crash()
    for number in range(9):
        world.connect().subscribe("t", f"s{number}", Shared)
        assert world.subscription("t", f"s{number}").cursor.partial_entries() == 20
    world.close()


def test_a_subscription_may_go_while_its_snapshot_is_written(world: World) -> None:
    consumer, _ = much_acked(world)
    world.broker.upkeep.maintain()
    consumer.unsubscribe()
    world.advance(3000)
    assert not world.topic("t").subscriptions
    world.crash()
    assert not world.topic("t").subscriptions


def test_a_disk_that_takes_no_snapshots_any_more_is_told_of_once(world: World) -> None:
    consumer, _ = much_acked(world)
    world.broker.upkeep.maintain()
    world.hold_disk()
    consumer.client.producer("t").publish("x")
    world.fail_disk(BROKEN)
    world.advance(5000)
    (warning,) = world.host.warnings
    assert "the journal failed" in warning
    world.crash()
    again = world.connect().subscribe("t", "sub", Shared)
    assert again.receive(100_000) == expected()


def test_a_disk_that_lacks_something_for_a_while_holds_receipts_back_and_is_told_of(
    world: World,
) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    world.hold_disk()
    producer.publish("late")
    world.fail_disk(DiskShortageError("write to", "journal", "Too many open files"))
    world.advance(3000)
    assert world.store.read_only_reason == ""
    assert consumer.receive(10) == []
    world.fail_disk(None)
    world.advance(3000)
    assert consumer.receive(10) == ["late"]
    began, ended = world.host.warnings
    assert "a group of records waits, and is tried again" in began
    assert "Too many open files" in began
    assert "a group of records is done after" in ended


def test_messages_wait_for_an_index_that_cannot_be_read_for_a_while(world: World) -> None:
    client = world.connect()
    client.subscribe("t", "sub", Shared).close()
    client.producer("t").publish("late")
    world.store.seal_topic(world.topic("t").id)
    world.host.kick()
    world.settle()
    (path,) = [path for path in world.disk.files if path.endswith(".idx")]
    file = world.disk.files.pop(path)
    consumer = client.subscribe("t", "sub", Shared)
    assert consumer.receive(10) == []
    assert "No such file or directory" in world.host.warnings[0]
    world.disk.files[path] = file
    world.advance(3000)
    assert consumer.receive(10) == ["late"]


def test_cursors_of_topics_that_are_not_loaded_have_their_snapshot_later(world: World) -> None:
    much_acked(world)
    world.unload("t")
    world.advance(3000)
    assert world.store.cursors_due()
    world.topic("t")
    world.advance(3000)
    assert not world.store.cursors_due()


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
    acks = [consumer.ack_command((one.index(i),)) for one in deliveries for i in range(1, 100)]
    client.say_bytes(b"".join(encode(ack) for ack in acks))
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


# ---- A disk that is read-only ----------------------------------------------------


@pytest.fixture
def read_only(world: World) -> World:
    """A broker with a consumer and a message, whose disk takes nothing any more."""
    client = world.connect()
    client.subscribe("t", "sub", Shared)
    client.producer("t").send("a")
    world.fail_disk(BROKEN)
    client.producer("t").publish("b")
    world.fail_disk(None)
    assert world.store.read_only_reason
    return world


def test_a_read_only_disk_still_delivers(read_only: World) -> None:
    consumer = read_only.connect().subscribe("t", "sub", Shared)
    read_only.clients[0].drop()
    assert consumer.receive() == ["a"]


def test_a_read_only_disk_refuses_every_change(read_only: World) -> None:
    consumer = read_only.connect().subscribe("t", "sub", Shared)
    subscription = read_only.subscription("t", "sub")
    for promise in (subscription.skip(1), subscription.clear()):
        assert isinstance(promise.error, StorageError)
    with refused(ServerError.PersistenceError, "read-only"):
        consumer.seek(MessageIdData(-1, -1))
    with refused(ServerError.PersistenceError, "read-only"):
        consumer.unsubscribe(force=True)
    with pytest.raises(StorageError):
        read_only.delete("t", force=True)


def test_after_a_restart_all_is_well_again(read_only: World) -> None:
    read_only.crash()
    client = read_only.connect()
    consumer = client.subscribe("t", "sub", Shared)
    consumer.flow(10)
    consumer.acked(consumer.one())
    client.producer("t").send("c")
    assert consumer.payloads() == ["c"]


def test_a_topic_that_cannot_be_loaded_says_so(world: World) -> None:
    client = world.connect()
    client.subscribe("t", "sub", Shared)
    client.producer("t").send("a")
    client.producer("other").send("a")
    world.set_policy("deduplicationEnabled", True, topic="t")
    world.set_policy("messageTTL", 1)
    world.restart()
    world.disk.files = {p: bytearray(len(f)) for p, f in world.disk.files.items()}
    client = world.connect()
    with refused(ServerError.PersistenceError):
        client.subscribe("t", "sub", Shared)
    world.advance(600_000)
    assert any("persistent://public/default/t" in text for text in world.host.warnings)
    assert not client.hung_up


def test_regular_work_on_many_topics_leaves_room_for_others() -> None:
    world = World(ttl_seconds=10)
    names = [TopicName.parse(f"t{i}") for i in range(2 * TURN_TOPICS + 1)]
    for name in names:
        world.broker.create_topic(name)
    world.settle()
    upkeep = world.broker.upkeep
    for work in (
        upkeep.tick_rates,
        upkeep.expire,
        upkeep.check_quotas,
        upkeep.check_retention,
        upkeep.delete_inactive,
    ):
        work()
        turns = 0
        while world.host.soon:
            assert len(world.host.soon) == 1
            world.host.soon.popleft()()
            turns += 1
        assert turns == 2


# ---- Small things ----------------------------------------------------------------


def test_a_topic_has_properties_that_survive(world: World) -> None:
    name = TopicName.parse("t")
    world.broker.create_topic(name, {"owner": "me"})
    world.settle()
    world.topic("t").terminate()
    world.crash()
    assert world.broker.directory.note(str(name)).properties == {"owner": "me"}
    assert world.topic("t").terminated


def test_policies_of_one_namespace_do_not_touch_another(world: World) -> None:
    world.broker.directory.put_tenant("other", {})
    world.broker.directory.put_namespace("other/ns", Policies())
    client = world.connect()
    client.producer("other/ns/t")
    client.producer("non-persistent://public/default/n")
    world.set_policy("maxProducers", 1)
    client.producer("other/ns/t")
    assert world.broker.directory.namespaces_of("other") == ["other/ns"]
    world.broker.directory.delete_namespace("other/ns")
    world.broker.directory.delete_tenant("other")
    with refused(ServerError.TopicNotFound):
        client.producer("other/ns/new")


def test_all_producers_go_on_when_half_of_the_bytes_are_written() -> None:
    world = World(max_pending_publish_bytes=1000)
    clients = [world.connect() for _ in range(3)]
    producers = [client.producer("t") for client in clients]
    world.hold_disk()
    for producer in producers:
        producer.publish("x" * 400)
        producer.publish("y" * 400)
    assert not any(client.port.reading for client in clients[1:])
    world.release_disk()
    assert all(client.port.reading for client in clients)
    assert world.topic("t").incoming.messages == 6


def test_expiry_leaves_subscriptions_in_memory_alone() -> None:
    world = World(ttl_seconds=10, ttl_check_ms=1000)
    client = world.connect()
    reader = client.subscribe("t", "reader", durable=False)
    client.producer("t").send("a")
    world.advance(60_000)
    assert reader.receive() == ["a"]


def test_the_size_of_a_topic_and_of_its_backlog() -> None:
    world = World(ledger_entries_max=2)
    client = world.connect()
    world.hold_disk()
    client.ask(pb.CommandProducer(topic="t", producer_id=1))
    topic = world.broker.topics[str(TopicName.parse("t"))]
    assert topic.storage.size_bytes() == 0
    assert topic.storage.backlog_bytes(Position(-1, -1)) == 0
    assert topic.storage.position_at(0) == Position(-1, 0)
    world.release_disk()
    producer = client.producer("t")
    ids = [producer.send("x" * 100) for _ in range(4)]
    whole = topic.storage.size_bytes()
    assert topic.storage.backlog_bytes(Position(-1, -1)) == whole
    assert (
        topic.storage.backlog_bytes(Position(ids[0].ledger_id, ids[0].entry_id)) == whole * 3 // 4
    )
    assert topic.storage.backlog_bytes(Position(ids[3].ledger_id, ids[3].entry_id)) == 0


@pytest.mark.parametrize("type", [Exclusive, Shared, Failover, KeyShared])
def test_totals_of_consumers_that_left_are_kept(world: World, type: int) -> None:
    client = world.connect()
    producer = client.producer("t")
    client.subscribe("t", "sub", type, initialPosition=1).close()
    producer.send("a", "b")
    for times in (1, 2, 3):
        consumer = client.subscribe("t", "sub", type)
        assert len(consumer.receive()) == 2
        consumer.close()
        assert world.subscription("t", "sub").out_totals()[0] == 2 * times
    consumer = client.subscribe("t", "sub", type)
    consumer.flow(10)
    assert world.topic("t").out_totals()[0] == 8


def test_a_bare_peer_is_there_until_it_is_closed(world: World) -> None:
    peer = Peer(WirePort(), "somebody", world.broker.outbound)
    answers: list[bool] = []
    peer.probe().then(answers.append, never)
    peer.closed = True
    peer.probe().then(answers.append, never)
    peer.send(pb.CommandPing())
    peer.send_with_entry(pb.CommandPing(), b"")
    assert answers == [True, False]
    assert peer.take_outbox() == []
    for _ in range(2):
        peer.pause()
    assert peer.paused
    for _ in range(2):
        peer.resume()
    assert not peer.paused


def test_a_topic_that_is_closed_takes_nobody(world: World) -> None:
    client = world.connect()
    client.producer("t")
    topic = world.topic("t")
    world.unload("t")
    with pytest.raises(BrokerError, match="unloading"):
        topic.admission.add(Producer(client.session, 1, "p"), None)
    consumer = Consumer(client.session, 1, 1, "c")
    promise = topic.subscribe(SubscribeRequest("s", Shared), consumer)
    assert isinstance(promise.error, BrokerError)
