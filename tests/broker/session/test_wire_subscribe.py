"""Subscribing: types, positions, limits, and leaving again."""

from typing import Any

import pytest
from support.wire_client import (
    EARLIEST_ID,
    LATEST_ID,
    Earliest,
    Exclusive,
    Failover,
    KeyShared,
    Latest,
    Shared,
    WireConsumer,
    refused,
    unless_refused,
)
from support.world import FULL, World

from magnetar.broker.session.session import PROBE_MS
from magnetar.errors import BrokerError
from magnetar.model import KeySharedMode, ServerError, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAck, CommandFlow
from magnetar.protocol import pulsar_pb2 as pb

TYPES = (Exclusive, Shared, Failover, KeyShared)


# ---- Types -----------------------------------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_every_type_delivers_what_is_published(world: World, type: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    producer.send("a")
    producer.send("b", "c")
    assert consumer.receive() == ["a", "b", "c"]
    assert consumer.stats().type == ("Exclusive", "Shared", "Failover", "Key_Shared")[type]


@pytest.mark.parametrize("first", TYPES)
@pytest.mark.parametrize("second", TYPES)
def test_a_subscription_has_one_type_while_it_has_consumers(
    world: World, first: int, second: int
) -> None:
    client = world.connect()
    holder = client.subscribe("t", "sub", first)
    if first == second and first != Exclusive:
        client.subscribe("t", "sub", second)
    else:
        with refused(ServerError.ConsumerBusy):
            client.subscribe("t", "sub", second)
        holder.close()
        client.subscribe("t", "sub", second)


def test_a_type_can_be_forbidden() -> None:
    client = World(subscription_types=("Exclusive",)).connect()
    with refused(ServerError.NotAllowedError, "Key_Shared"):
        client.subscribe("t", "sub", KeyShared)


def test_key_shared_consumers_agree_on_mode_and_order(world: World) -> None:
    client = world.connect()
    auto = client.subscribe("t", "sub", KeyShared)
    sticky = pb.KeySharedMeta(keySharedMode=KeySharedMode.Sticky)
    sticky.hashRanges.add(start=0, end=65535)
    loose = pb.KeySharedMeta(
        keySharedMode=KeySharedMode.AutoSplit,
        allowOutOfOrderDelivery=True,
    )
    for meta in (sticky, loose):
        with refused(ServerError.ConsumerBusy):
            client.subscribe("t", "sub", KeyShared, keySharedMeta=meta)
    auto.close()
    client.subscribe("t", "sub", KeyShared, keySharedMeta=sticky).close()
    client.subscribe("t", "sub", KeyShared, keySharedMeta=loose)


# ---- Exclusive -------------------------------------------------------------------


def test_an_exclusive_consumer_that_is_alive_keeps_its_place(world: World) -> None:
    first, second = world.connect(), world.connect()
    first.subscribe("t")
    with refused(ServerError.ConsumerBusy, "Exclusive"):
        second.subscribe("t")
    assert not first.hung_up


def test_a_dead_exclusive_consumer_is_replaced_after_a_failed_probe(world: World) -> None:
    dead, client = world.connect(), world.connect()
    consumer = dead.subscribe("t")
    world.connect().producer("t").send("a")
    assert consumer.receive() == ["a"]
    dead.answers_pings = False
    again = WireConsumer(client, 1, "t")
    request_id = client.ask(again.command("sub", Exclusive))
    world.advance(PROBE_MS)
    assert isinstance(client.answer(request_id), pb.CommandSuccess)
    assert dead.hung_up
    assert again.receive() == ["a"]


def test_who_waits_for_a_probe_and_leaves_does_not_join(world: World) -> None:
    dead, client = world.connect(), world.connect()
    dead.subscribe("t")
    dead.answers_pings = False
    client.ask(WireConsumer(client, 1, "t").command("sub", Exclusive))
    client.drop()
    world.advance(PROBE_MS)
    assert not world.subscription("t", "sub").consumers


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


# ---- One id ----------------------------------------------------------------------


def test_subscribing_twice_with_one_id_succeeds_once(world: World) -> None:
    client = world.connect()
    client.subscribe("t", consumer_id=1)
    client.subscribe("t", consumer_id=1)
    assert len(world.subscription("t", "sub").consumers) == 1


def test_subscribing_again_while_the_first_is_under_way_is_refused(world: World) -> None:
    client = world.connect()
    client.producer("t")
    world.hold_disk()
    consumer = WireConsumer(client, 1, "t")
    first = client.ask(consumer.command("sub", Exclusive))
    with refused(ServerError.ServiceNotReady, "already"):
        client.request(consumer.command("sub", Exclusive))
    assert client.answer(first) is None
    world.release_disk()
    assert isinstance(client.answer(first), pb.CommandSuccess)


def test_a_refused_consumer_id_can_be_used_again(world: World) -> None:
    client = world.connect()
    holder = client.subscribe("t", consumer_id=1)
    with refused(ServerError.ConsumerBusy):
        client.subscribe("t", consumer_id=2)
    holder.close()
    client.subscribe("t", consumer_id=2)


def test_closing_while_subscribing_leaves_nobody_behind(world: World) -> None:
    client = world.connect()
    client.producer("t")
    world.hold_disk()
    consumer = WireConsumer(client, 1, "t")
    first = client.ask(consumer.command("sub", Exclusive))
    consumer.close()
    world.release_disk()
    with refused(ServerError.ServiceNotReady):
        unless_refused(client.answer(first))
    assert not world.subscription("t", "sub").consumers


def test_a_connection_lost_while_subscribing_leaves_nobody_behind(world: World) -> None:
    client = world.connect()
    client.producer("t")
    world.hold_disk()
    client.ask(WireConsumer(client, 1, "t").command("sub", Exclusive))
    client.drop()
    world.release_disk()
    assert not world.subscription("t", "sub").busy


def test_a_subscription_that_could_not_be_stored_is_refused_and_gone(world: World) -> None:
    client = world.connect()
    client.producer("t")
    world.fail_disk(FULL)
    with refused(ServerError.ServiceNotReady):
        client.subscribe("t")
    world.fail_disk(None)
    assert not world.topic("t").subscriptions
    client.subscribe("t")


def test_success_comes_when_the_subscription_is_durable(world: World) -> None:
    client = world.connect()
    client.producer("t")
    world.hold_disk()
    request_id = client.ask(WireConsumer(client, 1, "t").command("sub", Exclusive))
    assert client.answer(request_id) is None
    world.release_disk()
    assert client.answer(request_id) is not None


def test_a_type_that_nobody_knows_is_refused(world: World) -> None:
    client = world.connect()
    with refused(ServerError.NotAllowedError, "of type 9"):
        client.subscribe("t", "sub", 9)
    assert world.broker.names("public/default") == []


# ---- Positions -------------------------------------------------------------------


def test_initial_positions(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    producer.send("a")
    earliest = client.subscribe("t", "early", initialPosition=Earliest)
    latest = client.subscribe("t", "late", initialPosition=Latest)
    producer.send("b")
    assert earliest.receive() == ["a", "b"]
    assert latest.receive() == ["b"]


def test_the_initial_position_of_a_subscription_that_exists_does_not_count(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "sub")
    producer.send("a")
    consumer.flow(1)
    consumer.acked(consumer.one())
    consumer.close()
    producer.send("b")
    assert client.subscribe("t", "sub", initialPosition=Earliest).receive() == ["b"]


def test_rollback_begins_so_long_ago(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    for text in ("a", "b", "c"):
        producer.send(text)
        world.advance(10_000)
    for durable in (True, False):
        consumer = client.subscribe(
            "t", f"{durable}", durable=durable, start_message_rollback_duration_sec=20
        )
        assert consumer.receive() == ["b", "c"]


def test_a_reader_begins_at_its_start_id(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    ids = [producer.send(text) for text in ("a", "b", "c")]
    batch = producer.send("d", "e")

    def read(start: MessageIdData | None, **fields: Any) -> list[str]:
        reader = client.subscribe("t", "reader", durable=False, start=start, **fields)
        texts = reader.receive()
        reader.close()
        return texts

    assert read(EARLIEST_ID) == ["a", "b", "c", "d", "e"]
    assert read(LATEST_ID) == []
    assert read(None) == []
    assert read(None, initialPosition=Earliest) == ["a", "b", "c", "d", "e"]
    # The client drops what it does not want: the entry itself comes.
    assert read(ids[1])[-3:] == ["c", "d", "e"]
    inside = MessageIdData(batch.ledger_id, batch.entry_id, -1, 0)
    assert read(inside) == ["d", "e"]


def test_a_reader_at_the_end_gets_what_comes(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    producer.send("a")
    reader = client.subscribe("t", "reader", durable=False, start=LATEST_ID)
    reader.flow(10)
    producer.send("b")
    assert reader.payloads() == ["b"]


# ---- Durable or not --------------------------------------------------------------


def test_a_name_is_durable_or_not(world: World) -> None:
    client = world.connect()
    client.subscribe("t", "kept").close()
    with refused(ServerError.NotAllowedError, "is durable"):
        client.subscribe("t", "kept", durable=False)
    client.subscribe("t", "loose", Shared, durable=False)
    with refused(ServerError.NotAllowedError, "not durable"):
        client.subscribe("t", "loose", Shared)


def test_a_subscription_in_memory_goes_with_its_last_consumer(world: World) -> None:
    client = world.connect()
    first = client.subscribe("t", "loose", Shared, durable=False)
    second = client.subscribe("t", "loose", Shared, durable=False)
    first.close()
    assert "loose" in world.topic("t").subscriptions
    second.close()
    assert "loose" not in world.topic("t").subscriptions
    client.subscribe("t", "loose", durable=False)
    client.drop()
    assert "loose" not in world.topic("t").subscriptions


def test_a_refused_consumer_leaves_no_subscription_in_memory(world: World) -> None:
    client = world.connect()
    sticky = pb.KeySharedMeta(keySharedMode=KeySharedMode.Sticky)
    for topic in ("t", "non-persistent://public/default/t"):
        with refused(ServerError.ConsumerAssignError):
            client.subscribe(topic, "s", KeyShared, durable=False, keySharedMeta=sticky)
        assert not world.topic(topic).subscriptions


def test_a_refused_consumer_leaves_no_durable_subscription(world: World) -> None:
    client = world.connect()
    sticky = pb.KeySharedMeta(keySharedMode=KeySharedMode.Sticky)
    with refused(ServerError.ConsumerAssignError):
        client.subscribe("t", "s", KeyShared, keySharedMeta=sticky)
    assert not world.topic("t").subscriptions


def test_acks_of_a_subscription_in_memory_count_while_it_lives(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "loose", Shared, durable=False)
    producer = client.producer("t")
    producer.send("a", "b")
    consumer.flow(10)
    world.hold_disk()  # nothing is written for it
    consumer.acked(consumer.one().index(0))
    consumer.redeliver()
    assert consumer.payloads() == ["b"]


def test_durable_subscriptions_come_back_with_properties(world: World) -> None:
    client = world.connect()
    properties = [pb.KeyValue(key="team", value="blue")]
    client.subscribe("t", "sub", subscription_properties=properties)
    world.crash()
    assert world.subscription("t", "sub").properties == {"team": "blue"}


# ---- Limits ----------------------------------------------------------------------


def test_a_subscription_has_no_more_consumers_than_allowed() -> None:
    client = World(max_consumers_per_subscription=2).connect()
    client.subscribe("t", "sub", Shared)
    client.subscribe("t", "sub", Shared)
    with refused(ServerError.ConsumerBusy, "2 consumers"):
        client.subscribe("t", "sub", Shared)
    client.subscribe("t", "other", Shared)


def test_a_topic_has_no_more_consumers_than_allowed() -> None:
    client = World(max_consumers_per_topic=1).connect()
    client.subscribe("t", "sub")
    with refused(ServerError.ConsumerBusy, "1 consumers"):
        client.subscribe("t", "other")


def test_a_topic_has_no_more_subscriptions_than_allowed() -> None:
    client = World(max_subscriptions_per_topic=1).connect()
    client.subscribe("t", "sub")
    with refused(ServerError.NotAllowedError, "1 subscriptions"):
        client.subscribe("t", "other")
    with refused(ServerError.NotAllowedError, "1 subscriptions"):
        client.producer("t", initial_subscription_name="other")


def test_subscriptions_that_may_not_be_created_are_not() -> None:
    world = World(auto_create_subscriptions=False)
    client = world.connect()
    with refused(ServerError.SubscriptionNotFound, "create it first"):
        client.subscribe("t")
    client.subscribe("t", "reader", durable=False)


@pytest.mark.parametrize("name", ["", "pulsar.dedup"])
def test_some_names_are_nobody_s(world: World, name: str) -> None:
    with refused(ServerError.NotAllowedError, "no subscription is called"):
        world.connect().subscribe("t", name)


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


def test_a_missing_topic_or_a_bad_name_is_refused(world: World) -> None:
    client = world.connect()
    with refused(ServerError.InvalidTopicName):
        client.subscribe("a/b")
    with refused(ServerError.TopicNotFound):
        client.subscribe("public/none/t")


# ---- Leaving ---------------------------------------------------------------------


def test_closing_what_is_not_there_succeeds(world: World) -> None:
    client = world.connect()
    WireConsumer(client, 5, "t").close()


def test_what_is_said_to_a_consumer_that_is_not_there_is_ignored(world: World) -> None:
    client = world.connect()
    ghost = WireConsumer(client, 5, "t")
    ghost.flow(10)
    ghost.redeliver()
    ghost.ack(MessageIdData(1, 1))
    assert not client.received
    assert not client.hung_up


def test_permits_of_a_closed_consumer_count_for_nobody(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    consumer.flow(10)
    consumer.close()
    client.say(CommandFlow(consumer.id, 10))
    client.say(CommandAck(consumer.id, 0, [MessageIdData(1, 1)]))
    again = client.subscribe("t", "sub", Shared, consumer_id=consumer.id)
    client.producer("t").send("a")
    assert again.payloads() == []
    assert again.stats().availablePermits == 0


def test_unsubscribe_deletes_the_subscription(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    client.producer("t").send("a")
    consumer.unsubscribe()
    assert not world.topic("t").subscriptions
    world.crash()
    assert world.connect().subscribe("t", "sub").receive() == []


def test_unsubscribe_answers_when_the_deletion_is_durable(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    world.hold_disk()
    request_id = client.ask(pb.CommandUnsubscribe(consumer_id=consumer.id))
    assert client.answer(request_id) is None
    world.release_disk()
    assert isinstance(client.answer(request_id), pb.CommandSuccess)


def test_unsubscribe_is_refused_while_others_are_connected_unless_forced(world: World) -> None:
    client = world.connect()
    first = client.subscribe("t", "sub", Shared)
    second = client.subscribe("t", "sub", Shared)
    with refused(ServerError.MetadataError, "1 other consumers"):
        first.unsubscribe()
    first.unsubscribe(force=True)
    assert second.closed_by_broker()
    assert not world.topic("t").subscriptions


def test_unsubscribe_of_a_subscription_in_memory(world: World) -> None:
    client = world.connect()
    client.subscribe("t", "loose", durable=False).unsubscribe()
    assert not world.topic("t").subscriptions


def test_unsubscribe_that_is_not_stored_is_refused(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    producer = client.producer("t")
    ids = [producer.send(text) for text in ("a", "b", "c")]
    consumer.acked(ids[1])
    world.fail_disk(FULL)
    with refused(ServerError.PersistenceError):
        consumer.unsubscribe()
    world.fail_disk(None)
    again = client.subscribe("t", "sub")
    assert again.receive() == ["a", "c"]
    again.acked(ids[0])
    world.crash()
    assert world.connect().subscribe("t", "sub").receive() == ["c"]


def test_a_subscription_that_is_deleted_twice_is_gone(world: World) -> None:
    client = world.connect()
    consumers = [client.subscribe("t", "sub", Shared) for _ in range(2)]
    consumers[0].flow(10)
    client.producer("t").send("a")
    world.hold_disk()
    consumers[0].ack(*consumers[0].deliveries())
    requests = [
        client.ask(pb.CommandUnsubscribe(consumer_id=consumer.id, force=True))
        for consumer in consumers
    ]
    world.release_disk()
    assert isinstance(client.answer(requests[0]), pb.CommandSuccess)
    with refused(ServerError.SubscriptionNotFound, "deleted already"):
        unless_refused(client.answer(requests[1]))
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
    again = WireConsumer(world.connect(), 1, "t")
    subscribed = again.client.ask(again.command("sub", Shared, initialPosition=Earliest))
    world.release_disk()
    assert isinstance(client.answer(request), pb.CommandSuccess)
    assert isinstance(again.client.answer(subscribed), pb.CommandSuccess)
    # It is a new subscription, which knows nothing of the acks of before.
    world.connect().producer("t").send("b")
    assert again.receive() == ["a", "b"]


def test_requests_of_a_consumer_that_is_not_there_are_refused(world: World) -> None:
    client = world.connect()
    ghost = WireConsumer(client, 5, "t")
    for ask in (ghost.unsubscribe, ghost.last_message, lambda: ghost.seek(EARLIEST_ID)):
        with refused(ServerError.MetadataError, "Consumer not found"):
            ask()
    with refused(ServerError.ConsumerNotFound):
        ghost.stats()


# ---- What a consumer may ask -----------------------------------------------------


def test_consumer_stats(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared, consumer_name="me")
    producer = client.producer("t")
    producer.send("a", "b", "c")
    producer.send("d")
    consumer.flow(10)
    first = consumer.deliveries()[0]
    consumer.acked(first.index(0))
    world.advance(10_000)
    stats = consumer.stats()
    assert stats.consumerName == "me"
    assert stats.availablePermits == 6
    assert stats.unackedMessages == 3
    assert stats.msgBacklog == 2
    assert stats.msgRateOut == 0.4
    assert stats.messageAckRate == 0.1
    assert not stats.blockedConsumerOnUnackedMsgs
    assert stats.address == "client-1"
    assert stats.type == "Shared"


def test_a_consumer_without_a_name_gets_one(world: World) -> None:
    client = world.connect()
    names = {client.subscribe("t", "sub", Shared).stats().consumerName for _ in range(3)}
    assert len(names) == 3
    assert "" not in names


def test_the_last_message_id(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    assert consumer.last_message_id() == MessageIdData(-1, -1)
    producer = client.producer("t")
    id = producer.send("a")
    assert consumer.last_message_id() == MessageIdData(id.ledger_id, id.entry_id)
    batch = producer.send("b", "c", "d")
    assert consumer.last_message_id() == MessageIdData(batch.ledger_id, batch.entry_id, -1, 2)
    single = producer.send("e", batch=True)
    assert consumer.last_message_id() == MessageIdData(single.ledger_id, single.entry_id, -1, 0)
    consumer.acked(id)
    mark = consumer.last_message().consumer_mark_delete_position
    assert (mark.ledgerId, mark.entryId) == (id.ledger_id, id.entry_id)


def test_the_last_message_id_may_have_to_be_read_from_disk() -> None:
    world = World(cache_bytes=0)
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    client.producer("t").send("a", "b")
    world.hold_reads()
    request_id = client.ask(pb.CommandGetLastMessageId(consumer_id=consumer.id))
    assert client.answer(request_id) is None
    world.release_reads()
    assert client.answer(request_id).last_message_id.batch_index == 1
    world.host.read_error = FULL
    with refused(ServerError.PersistenceError):
        consumer.last_message()


def test_the_last_message_id_of_a_topic_whose_entries_are_gone(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    consumer.acked(client.producer("t").send("a", "b"))
    world.trim("t")
    assert consumer.last_message_id() == MessageIdData(-1, -1)
    world.restart()
    assert world.connect().subscribe("t", "sub").last_message_id() == MessageIdData(-1, -1)


def test_the_last_message_id_of_a_partition_names_it() -> None:
    world = World(auto_create_partitions=2)
    client = world.connect()
    client.request(pb.CommandPartitionedTopicMetadata(topic="t"))
    consumer = client.subscribe("t-partition-1", "sub")
    assert consumer.last_message_id().partition == 1
    client.producer("t-partition-1").send("a")
    assert consumer.last_message_id().partition == 1


def test_a_consumer_that_leaves_is_not_told_to(world: World) -> None:
    """By then its id may be another one's."""
    client = world.connect()
    consumer = client.subscribe("t")
    id = client.producer("t").send("a")
    world.hold_disk()
    consumer.ack(id)
    close = client.ask(pb.CommandCloseConsumer(consumer_id=consumer.id))
    unloaded = world.broker.unload(TopicName.parse("t"))
    world.release_disk()
    world.done(unloaded)
    assert isinstance(client.answer(close), pb.CommandSuccess)
    assert not consumer.closed_by_broker()


def test_unsubscribe_is_refused_while_another_is_about_to_join(world: World) -> None:
    client, other = world.connect(), world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    id = client.producer("t").send("a")
    world.hold_disk()
    consumer.ack(id)
    joins = other.ask(WireConsumer(other, 1, "t").command("sub", Shared))
    with refused(ServerError.MetadataError, "1 other consumers"):
        consumer.unsubscribe()
    world.release_disk()
    assert isinstance(other.answer(joins), pb.CommandSuccess)
    assert "sub" in world.topic("t").subscriptions


def test_consumers_that_come_at_once_are_no_more_than_allowed() -> None:
    world = World(max_consumers_per_topic=2)
    client = world.connect()
    client.producer("t")
    world.hold_disk()
    commands = [WireConsumer(client, id, "t").command(f"sub-{id}", Shared) for id in range(4)]
    asked = [client.ask(command) for command in commands]
    world.release_disk()
    answers = [client.answer(request_id) for request_id in asked]
    refusals = [answer.error for answer in answers if isinstance(answer, pb.CommandError)]
    assert refusals == [ServerError.ConsumerBusy] * 2
    assert world.topic("t").consumer_count() == 2
