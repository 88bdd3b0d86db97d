"""The life of a topic: unload, end, expiry, retention, deletion; and topics that store nothing."""

import pytest
from support.wire_client import (
    Earliest,
    Exclusive,
    Failover,
    KeyShared,
    Shared,
    refused,
    unless_refused,
)
from support.world import FULL, World

from magnetar.errors import BrokerError, DiskError, DiskFullError
from magnetar.model import KeySharedMode, Position, ProducerAccessMode, ServerError, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandSend
from magnetar.protocol import pulsar_pb2 as pb

TYPES = (Exclusive, Shared, Failover, KeyShared)
N = "non-persistent://public/default/n"


# ---- Unload ----------------------------------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_unload_closes_consumers_and_they_come_back(world: World, type: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    client.producer("t").send("a")
    assert consumer.receive() == ["a"]
    world.unload("t")
    assert consumer.closed_by_broker()
    again = client.subscribe("t", "sub", type, consumer_id=consumer.id)
    assert again.receive() == ["a"]


def test_unload_of_what_is_not_loaded(world: World) -> None:
    world.connect().producer("t")
    world.unload("t")
    world.unload("t")
    with pytest.raises(BrokerError):
        world.unload("none")


def test_unload_ends_though_nothing_was_written_since_a_crash(world: World) -> None:
    world.connect().producer("t").send("a")
    world.crash()
    world.topic("t")
    world.unload("t")


def test_unload_of_a_topic_that_stores_nothing(world: World) -> None:
    client = world.connect()
    client.producer(N)
    world.unload(N)
    assert len(client.take(pb.CommandCloseProducer)) == 1
    assert not world.broker.exists(TopicName.parse(N))


def test_what_was_published_before_an_unload_is_receipted_or_there(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    producer = client.producer("t")
    world.hold_disk()
    producer.publish("a")
    world.broker.unload(TopicName.parse("t"))
    world.release_disk()
    assert client.subscribe("t", "sub", consumer_id=consumer.id).receive() == ["a"]


# ---- The end of a topic ----------------------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_drained_consumers_of_a_terminated_topic_are_told_once(world: World, type: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    client.producer("t").send("a", "b")
    consumer.flow(10)
    message = consumer.one()
    world.topic("t").terminate()
    world.settle()
    assert not client.take(pb.CommandReachedEndOfTopic)
    consumer.acked(message.index(0))
    assert not client.take(pb.CommandReachedEndOfTopic)
    consumer.acked(message.index(1))
    assert client.one(pb.CommandReachedEndOfTopic).consumer_id == consumer.id
    consumer.acked(message)
    consumer.flow(10)
    assert not client.take(pb.CommandReachedEndOfTopic)


def test_who_comes_to_a_drained_topic_is_told(world: World) -> None:
    client = world.connect()
    client.subscribe("t", "sub").close()
    world.topic("t").terminate()
    world.crash()
    client = world.connect()
    client.subscribe("t", "sub")
    client.one(pb.CommandReachedEndOfTopic)
    client.subscribe("t", "other", Shared)
    client.one(pb.CommandReachedEndOfTopic)


def test_clearing_ends_a_terminated_topic(world: World) -> None:
    client = world.connect()
    client.subscribe("t", "sub", Shared)
    client.producer("t").send("a")
    world.topic("t").terminate()
    world.done(world.subscription("t", "sub").clear())
    client.one(pb.CommandReachedEndOfTopic)


def test_old_clients_hear_nothing_of_the_end(world: World) -> None:
    client = world.connect(version=8)
    client.subscribe("t", "sub")
    world.topic("t").terminate()
    world.settle()
    assert not client.received


def test_a_terminated_topic_takes_no_more(world: World) -> None:
    client = world.connect()
    client.subscribe("t")
    producer = client.producer("t")
    id = producer.send("a")
    last = world.topic("t").terminate()
    world.settle()
    assert (last.ledger_id, last.entry_id) == (id.ledger_id, id.entry_id)
    world.topic("t").terminate()
    assert client.closed_producers() == [producer.id]
    assert not world.topic("t").producers
    with refused(ServerError.TopicTerminatedError):
        client.producer("t")
    world.crash()
    client = world.connect()
    with refused(ServerError.TopicTerminatedError):
        client.producer("t")
    assert client.subscribe("t").receive() == ["a"]


def test_a_send_that_crosses_the_termination_is_refused(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    world.topic("t").terminated = True
    producer.publish("a")
    assert client.send_answers() == [(0, ServerError.TopicTerminatedError)]


# ---- Deletion --------------------------------------------------------------------


def test_a_topic_in_use_is_deleted_by_force_only(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "sub")
    producer.send("a")
    with pytest.raises(BrokerError, match="1 producers and 1 subscriptions"):
        world.delete("t")
    world.delete("t", force=True)
    assert consumer.closed_by_broker()
    assert len(client.take(pb.CommandCloseProducer)) == 1
    assert world.broker.names("public/default") == []
    with pytest.raises(BrokerError, match="not found"):
        world.delete("t")
    assert client.subscribe("t", "sub", initialPosition=Earliest).receive() == []


def test_a_deleted_topic_stays_deleted(world: World) -> None:
    client = world.connect()
    client.subscribe("t", "sub")
    client.producer("t").send("a")
    world.set_policy("maxProducers", 1, topic="t")
    world.delete("t", force=True)
    world.crash()
    assert world.broker.names("public/default") == []
    client = world.connect()
    client.producer("t")
    client.producer("t")


def test_a_deletion_that_is_not_stored_fails_and_the_topic_is_there(world: World) -> None:
    client = world.connect()
    client.subscribe("t", "sub")
    client.producer("t").send("a")
    world.fail_disk(FULL)
    with pytest.raises(DiskFullError):
        world.delete("t", force=True)
    world.fail_disk(None)
    assert client.subscribe("t", "sub").receive() == ["a"]


def test_an_unused_topic_that_stores_nothing_is_deleted(world: World) -> None:
    client = world.connect()
    client.producer(N).close()
    world.delete(N)
    assert not world.broker.topics


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
    assert isinstance(unloaded.error, BrokerError)
    with refused(ServerError.ServiceNotReady, "try again"):
        unless_refused(again.answer(request))
    assert not world.broker.topics


def test_a_deletion_that_the_catalog_does_not_take_is_answered(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    world.broker.save_topic(world.topic("t"))  # so that there is something to delete
    with world.read_only_catalog():
        world.hold_disk()
        producer.publish("a")
        promise = world.broker.delete_topic(TopicName.parse("t"), force=True, delete_schema=True)
        world.release_disk()
        assert isinstance(promise.error, DiskError)
        assert client.send_answers() == [(0, None)]
        client.producer("other")
        with pytest.raises(DiskError):
            world.topic("other").terminate()
    assert not world.topic("other").terminated
    assert client.producer("t").send("b").entry_id == 0


# ---- Expiry, retention, inactivity -----------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_messages_older_than_the_ttl_are_expired(type: int) -> None:
    world = World(ttl_seconds=100, ttl_check_ms=10_000)
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    producer.send("old")
    world.advance(50_000)
    producer.send("new")
    world.advance(60_000)
    assert consumer.receive() == ["new"]
    assert world.subscription("t", "sub").expired.messages == 1


def test_what_is_published_while_messages_expire_is_not_counted_against_them(world: World) -> None:
    client = world.connect()
    client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    old = producer.send("old")
    subscription = world.subscription("t", "sub")
    world.hold_disk()
    producer.publish("new")
    publishing = world.store.next_write()
    assert publishing is not None
    expired = subscription.expire(Position(old.ledger_id, old.entry_id))
    publishing.run(world.disk)
    outcome = world.store.finish_write(publishing, None)
    assert outcome is not None
    world.broker.take_outcome(outcome)
    assert (subscription.cursor.unacked_entries(), expired.done) == (2, False)
    world.release_disk()
    assert (subscription.cursor.unacked_entries(), expired.done) == (1, True)
    assert subscription.expired.messages == 1


def test_expiry_lets_go_of_what_consumers_hold() -> None:
    world = World(ttl_seconds=100, ttl_check_ms=10_000, max_unacked_per_consumer=2)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    for text in ("a", "b"):
        producer.send(text)
    assert consumer.receive() == ["a", "b"]
    world.advance(150_000)
    assert consumer.stats().unackedMessages == 0
    producer.send("c")
    assert consumer.payloads() == ["c"]


def test_topics_are_loaded_to_expire_their_messages() -> None:
    world = World(ttl_seconds=100, ttl_check_ms=10_000)
    client = world.connect()
    client.subscribe("t", "sub")
    client.producer("t").send("a")
    world.restart()
    world.advance(200_000)
    assert world.connect().subscribe("t", "sub").receive() == []


def test_without_a_ttl_nothing_expires_and_nothing_is_loaded(world: World) -> None:
    client = world.connect()
    client.subscribe("t", "sub")
    client.producer("t").send("a")
    world.restart()
    world.advance(10**6)
    assert not world.broker.topics
    assert world.connect().subscribe("t", "sub").receive() == ["a"]


def test_expiry_by_the_policy_of_a_namespace(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    client.producer("t").send("a")
    world.set_policy("messageTTL", 10)
    world.advance(400_000)
    assert consumer.receive() == []


def ledgers(world: World) -> int:
    return len(world.store.ledgers(world.topic("t").id))


def test_acked_ledgers_are_trimmed() -> None:
    world = World(ledger_entries_max=2)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    other = client.subscribe("t", "slow", Shared)
    producer = client.producer("t")
    ids = [producer.send(f"{i}") for i in range(9)]
    assert ledgers(world) == 5
    consumer.acked(*ids)
    world.advance(2000)
    assert ledgers(world) == 5
    other.acked(*ids[:5])
    world.advance(2000)
    assert ledgers(world) == 3
    assert other.receive() == [f"{i}" for i in range(5, 9)]


def test_retention_keeps_what_is_acked() -> None:
    world = World(ledger_entries_max=2, retention_minutes=10, retention_mb=-1)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    ids = [producer.send(f"{i}") for i in range(4)]
    consumer.acked(*ids)
    world.advance(2000)
    again = client.subscribe("t", "late", initialPosition=Earliest)
    assert again.receive() == ["0", "1", "2", "3"]
    again.unsubscribe()
    producer.send("4")
    world.advance(9 * 60_000)
    assert ledgers(world) == 3
    world.advance(5 * 60_000)
    assert client.subscribe("t", "late", initialPosition=Earliest).receive() == ["4"]


@pytest.mark.parametrize("type", TYPES)
def test_a_reader_whose_messages_are_trimmed_goes_on_with_those_that_are_there(type: int) -> None:
    world = World(ledger_entries_max=1)
    client = world.connect()
    reader = client.subscribe("t", "reader", type, durable=False)
    producer = client.producer("t")
    for i in range(4):
        producer.send(f"{i}")
    assert len(reader.receive(4)) == 4
    reader.redeliver()  # and they wait, for there are no permits
    world.advance(200_000)
    assert ledgers(world) == 1
    assert reader.receive(10) == ["3"]
    producer.send("4")
    assert reader.payloads() == ["4"]


def test_a_topic_without_subscriptions_keeps_only_its_last_ledger() -> None:
    world = World(ledger_entries_max=2)
    producer = world.connect().producer("t")
    for i in range(7):
        producer.send(f"{i}")
    world.advance(2000)
    assert ledgers(world) == 1


def test_a_topic_that_nobody_uses_is_deleted() -> None:
    world = World(inactive_topic_ms=60_000)
    client = world.connect()
    client.producer("t").close()
    client.producer(N).close()
    client.subscribe("used", "sub").close()
    client.producer("busy")
    client.producer("part-partition-0").close()
    world.advance(55_000)
    assert world.broker.exists(TopicName.parse("t"))
    world.advance(20_000)
    names = world.broker.names("public/default", others=True)
    assert [name.rpartition("/")[2] for name in names] == ["busy", "part-partition-0", "used"]


def test_a_topic_whose_subscriptions_are_caught_up_is_deleted_where_that_is_asked_for() -> None:
    world = World(inactive_topic_ms=1000, inactive_topic_mode="delete_when_subscriptions_caught_up")
    client = world.connect()
    client.subscribe("done", "sub").close()
    client.subscribe("open", "sub").close()
    client.producer("open").send("a")
    client.producer("alone", producer_access_mode=ProducerAccessMode.Exclusive)
    client.drop()
    world.advance(30_000)
    assert [n.rpartition("/")[2] for n in world.broker.names("public/default")] == ["open"]


def test_a_topic_with_retention_is_not_deleted_before_its_time() -> None:
    world = World(inactive_topic_ms=1000, retention_minutes=10, retention_mb=-1)
    client = world.connect()
    producer = client.producer("t")
    producer.send("a")
    producer.close()
    world.advance(60_000)
    assert len(world.broker.names("public/default")) == 1
    world.advance(600_000)
    assert world.broker.names("public/default") == []
    world = World(inactive_topic_ms=1000, retention_minutes=-1, retention_mb=-1)
    world.connect().producer("t").close()
    world.advance(10**6)
    assert len(world.broker.names("public/default")) == 1


def test_inactive_topics_stay_where_deletion_is_off() -> None:
    world = World(inactive_topic_ms=1000, delete_inactive_topics=False)
    world.connect().producer("t").close()
    world.advance(100_000)
    assert len(world.broker.names("public/default")) == 1


def test_a_broker_that_stopped_does_no_more_work(world: World) -> None:
    client = world.connect()
    client.producer("t").send("a")
    world.broker.stop()
    world.settle()
    world.advance(10**7)
    assert len(client.take(pb.CommandCloseProducer)) == 1


# ---- Policies --------------------------------------------------------------------


def test_policies_of_a_topic_go_before_those_of_its_namespace(world: World) -> None:
    client = world.connect()
    world.set_policy("maxProducers", 1)
    world.set_policy("maxProducers", 2, topic="t")
    client.producer("t")
    client.producer("t")
    with refused(ServerError.ProducerBusy):
        client.producer("t")
    client.producer("other")
    with refused(ServerError.ProducerBusy):
        client.producer("other")
    world.set_policy("maxProducers", None, topic="t")
    world.crash()
    client = world.connect()
    client.producer("t")
    with refused(ServerError.ProducerBusy):
        client.producer("t")


# ---- Topics that store nothing ---------------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_a_non_persistent_message_goes_to_who_is_there(world: World, type: int) -> None:
    client = world.connect()
    producer = client.producer(N)
    producer.send("nobody")
    consumer = client.subscribe(N, "sub", type)
    producer.send("no permits")
    consumer.flow(2)
    producer.send("a")
    producer.send("b", "c")
    producer.send("no permits either")
    assert consumer.payloads() == ["a", "b", "c"]
    dropped = world.subscription(N, "sub").dropped  # type: ignore[attr-defined]
    assert dropped.messages == 2
    world.advance(10_000)
    assert dropped.message_rate == 0.2


def test_non_persistent_consumers_share(world: World) -> None:
    client = world.connect()
    producer = client.producer(N)
    shared = [client.subscribe(N, "shared", Shared) for _ in range(2)]
    keyed = [client.subscribe(N, "keyed", KeyShared) for _ in range(2)]
    for consumer in (*shared, *keyed):
        consumer.flow(1000)
    for i in range(60):
        producer.send(f"{i}", partition_key=f"{i % 10}")
    for group in (shared, keyed):
        got = [consumer.deliveries() for consumer in group]
        assert sum(len(messages) for messages in got) == 60
        assert all(got)
    sticky = pb.KeySharedMeta(keySharedMode=KeySharedMode.Sticky)
    sticky.hashRanges.add(start=0, end=0)
    nobody = client.subscribe(N, "sticky", KeyShared, keySharedMeta=sticky)
    nobody.flow(10)
    producer.send("x")
    assert nobody.payloads() == []


def test_acks_on_a_non_persistent_topic_are_answered(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe(N, "sub", Shared)
    consumer.flow(10)
    client.producer(N).send("a")
    consumer.acked(consumer.one())
    consumer.redeliver()
    assert consumer.payloads() == []


def test_what_needs_storage_is_refused_on_a_non_persistent_topic(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe(N, "sub")
    with refused(ServerError.NotAllowedError, "stores nothing"):
        consumer.seek(MessageIdData(1, 1))
    with refused(ServerError.NotAllowedError, "stores nothing"):
        consumer.seek(12345)
    assert consumer.last_message_id() == MessageIdData(-1, -1)
    subscription = world.subscription(N, "sub")
    world.done(subscription.clear())
    with pytest.raises(BrokerError, match="stores nothing"):
        world.done(subscription.skip(1))


def test_a_non_persistent_subscription_goes_with_its_consumers(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe(N, "sub")
    with refused(ServerError.ConsumerBusy):
        client.subscribe(N, "sub")
    consumer.unsubscribe()
    client.subscribe(N, "sub").close()
    assert not world.topic(N).subscriptions


def test_a_non_persistent_topic_judges_entries_and_producers(world: World) -> None:
    client = world.connect()
    producer = client.producer(N)
    entry = bytearray(producer.entry(b"a", 0))
    entry[-1] ^= 1
    client.say(CommandSend(producer.id, 0, bytes(entry)))
    assert client.one(pb.CommandSendError).error == ServerError.ChecksumError
    waiting = client.producer(N, producer_access_mode=ProducerAccessMode.WaitForExclusive)
    with refused(ServerError.ProducerFenced):
        waiting.send("a")
    other = "non-persistent://public/default/other"
    client.producer(other, initial_subscription_name="none")
    assert not world.topic(other).subscriptions


def test_limits_hold_for_non_persistent_topics() -> None:
    client = World(max_consumers_per_topic=1).connect()
    client.subscribe(N, "sub", Shared)
    with refused(ServerError.ConsumerBusy):
        client.subscribe(N, "sub", Shared)


# ---- Partitions ------------------------------------------------------------------


def test_a_request_for_too_many_partitions_makes_none(world: World) -> None:
    name = TopicName.parse("many")
    with pytest.raises(BrokerError, match="10000 partitions at most"):
        world.broker.create_partitioned(name, (1 << 31) - 1)
    assert world.broker.names("public/default") == []


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


def test_a_partitioned_topic_may_be_forgotten(world: World) -> None:
    name = TopicName.parse("t")
    world.broker.create_partitioned(name, 1, {"k": "v"})
    assert world.broker.directory.partitioned_properties[str(name)] == {"k": "v"}
    world.broker.directory.delete_partitioned(str(name))
    world.crash()
    assert not world.broker.directory.partitioned
