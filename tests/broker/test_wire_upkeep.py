"""What the broker does by itself, and what goes wrong under it: snapshots, loads, bad disks."""

import pytest
from support.wire_client import (
    Exclusive,
    Failover,
    KeyShared,
    Shared,
    WireConsumer,
    WirePort,
    World,
    but,
    refused,
)

from magnetar.broker.peer import Peer
from magnetar.errors import BrokerError, DiskError, StorageError
from magnetar.model import Position, ServerError, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import pulsar_pb2 as pb

BROKEN = DiskError("write to", "journal", "Input/output error")
DELTAS_MAX = 10_000  # so many acks of a cursor call for a snapshot


@pytest.fixture
def world() -> World:
    return World()


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
    for id in ids:
        for index in range(1, 100, 2):
            consumer.ack(but(id, 100, index))
    consumer.ack(but(ids[0], 100, 1))
    world.release_disk()
    assert world.store.cursors_due()
    return consumer, ids


def expected(entries: int = 200) -> list[str]:
    return [f"{i}.{j}" for i in range(entries) for j in range(0, 100, 2)]


def test_a_snapshot_is_taken_and_loses_nothing(world: World) -> None:
    consumer, ids = much_acked(world)
    world.broker.maintain()
    # An ack between two slices of the snapshot.
    consumer.ack(ids[-1])
    world.settle()
    world.advance(3000)
    assert not world.store.cursors_due()
    world.crash()
    again = world.connect().subscribe("t", "sub", Shared)
    assert again.receive(100_000) == expected(199)


def test_a_subscription_may_go_while_its_snapshot_is_written(world: World) -> None:
    consumer, _ = much_acked(world)
    world.broker.maintain()
    consumer.unsubscribe()
    world.advance(3000)
    assert not world.topic("t").subscriptions
    world.crash()
    assert not world.topic("t").subscriptions


def test_a_snapshot_that_cannot_be_written_is_told_of_once(world: World) -> None:
    consumer, _ = much_acked(world)
    world.broker.maintain()
    world.hold_disk()
    consumer.client.producer("t").publish("x")
    world.fail_disk(BROKEN)
    world.settle()
    snapshots = [text for text in world.host.warnings if "no snapshot" in text]
    assert len(snapshots) <= 1
    world.crash()
    again = world.connect().subscribe("t", "sub", Shared)
    assert again.receive(100_000) == expected()


def test_cursors_of_topics_that_are_not_loaded_have_their_snapshot_later(world: World) -> None:
    much_acked(world)
    world.unload("t")
    world.advance(3000)
    assert world.store.cursors_due()
    world.topic("t")
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


def test_deduplication_says_when_it_cannot_be_written() -> None:
    world = World(deduplication=True, deduplication_snapshot_entries=1000)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    producer.send("a")
    world.fail_disk(BROKEN)
    producer.publish("b")
    world.broker.unload(TopicName.parse("t"))
    assert any("deduplication of" in text for text in world.host.warnings)


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


# ---- Small things ----------------------------------------------------------------


def test_a_topic_has_properties_that_survive(world: World) -> None:
    name = TopicName.parse("t")
    world.broker.create_topic(name, {"owner": "me"})
    world.settle()
    world.topic("t").terminate()
    world.crash()
    assert world.broker.directory.note(str(name)).properties == {"owner": "me"}
    assert world.topic("t").terminated


def test_partitions_grow_and_those_that_exist_stay(world: World) -> None:
    name = TopicName.parse("t")
    world.broker.create_partitioned(name, 2)
    client = world.connect()
    client.subscribe("t-partition-0", "sub")
    client.producer("t-partition-0").send("a")
    world.broker.create_partitioned(name, 4)
    world.settle()
    assert len(world.broker.names("public/default")) == 4
    world.delete("t-partition-3")
    client.producer("t-partition-3")  # a partition that the topic has may be made again
    assert world.subscription("t-partition-0", "sub").cursor.unacked_entries() == 1


def test_policies_of_one_namespace_do_not_touch_another(world: World) -> None:
    from magnetar.broker.policy import Policies

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


def test_a_partitioned_topic_may_be_forgotten(world: World) -> None:
    name = TopicName.parse("t")
    world.broker.create_partitioned(name, 1, {"k": "v"})
    assert world.broker.directory.partitioned_properties[str(name)] == {"k": "v"}
    world.broker.directory.delete_partitioned(str(name))
    world.crash()
    assert not world.broker.directory.partitioned


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


def test_eviction_over_many_ledgers_keeps_what_fits() -> None:
    world = World(
        ledger_entries_max=2,
        backlog_quota_bytes=500,
        backlog_quota_policy="consumer_backlog_eviction",
    )
    client = world.connect()
    client.subscribe("t", "slow").close()
    client.subscribe("t", "loose", durable=False)
    producer = client.producer("t")
    for i in range(10):
        producer.send(f"{i}" + "x" * 40)
    topic = world.topic("t")
    size = topic.size_bytes() // 10
    world.advance(60_000)
    left = [text[0] for text in client.subscribe("t", "slow").receive()]
    assert 0 < len(left) <= 500 // size
    assert left == [f"{i}" for i in range(10 - len(left), 10)]


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
    assert topic.size_bytes() == 0
    assert topic.backlog_bytes(Position(-1, -1)) == 0
    assert topic.position_at(0) == Position(-1, 0)
    world.release_disk()
    producer = client.producer("t")
    ids = [producer.send("x" * 100) for _ in range(4)]
    whole = topic.size_bytes()
    assert topic.backlog_bytes(Position(-1, -1)) == whole
    assert topic.backlog_bytes(Position(ids[0].ledger_id, ids[0].entry_id)) == whole * 3 // 4
    assert topic.backlog_bytes(Position(ids[3].ledger_id, ids[3].entry_id)) == 0


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
    world.done(world.subscription("t", "sub").skip(2))
    assert dispatcher.replay_count() == 2
    first.close()
    second.close()
    assert dispatcher.replay_count() == 0
    again = client.subscribe("t", "sub", Shared)
    assert again.receive() == ["2", "3"]


def test_key_shared_slots_that_waited_are_forgotten_by_a_skip(world: World) -> None:
    client = world.connect()
    full, free = (client.subscribe("t", "sub", KeyShared) for _ in range(2))
    free.flow(100)
    producer = client.producer("t")
    for i in range(20):
        producer.send(f"{i}", partition_key=f"{i}")
    got = len(free.payloads())
    dispatcher = world.subscription("t", "sub").dispatcher
    assert dispatcher is not None
    assert dispatcher.replay_count() == 20 - got > 0
    world.done(world.subscription("t", "sub").clear())
    assert dispatcher.replay_count() == 0
    assert full.receive() == []
    assert full.stats().unackedMessages == free.stats().unackedMessages == 0


def test_a_bare_peer_is_there_until_it_is_closed() -> None:
    peer = Peer(WirePort(), "somebody")
    answers: list[bool] = []
    peer.probe(answers.append)
    peer.closed = True
    peer.probe(answers.append)
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
    from magnetar.broker.producer import Producer
    from magnetar.broker.topic import SubscribeRequest

    client = world.connect()
    client.producer("t")
    topic = world.topic("t")
    world.unload("t")
    with pytest.raises(BrokerError, match="unloading"):
        topic.add_producer(Producer(client.session, 1, "p"), None)
    from magnetar.broker.consumer import Consumer

    consumer = Consumer(client.session, 1, 1, "c")
    promise = topic.subscribe(SubscribeRequest("s", Shared), consumer)
    assert isinstance(promise.error, BrokerError)
