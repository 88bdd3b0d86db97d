"""Producers: who may publish, what receipts promise, and in which order they come."""

import pytest
from support.wire_client import Earliest, Shared, WireProducer, refused
from support.world import BROKEN, FULL, World

from magnetar.broker.session.session import PROBE_MS
from magnetar.broker.session.session_producers import CLOSED_PRODUCERS_MAX
from magnetar.model import ProducerAccessMode, ServerError, TopicName
from magnetar.protocol import (
    BrokerEntryMetadata,
    CommandSend,
    CommandSendReceipt,
    with_broker_metadata,
)
from magnetar.protocol import pulsar_pb2 as pb

Exclusive = ProducerAccessMode.Exclusive
WaitForExclusive = ProducerAccessMode.WaitForExclusive
Fencing = ProducerAccessMode.ExclusiveWithFencing


# ---- Names -----------------------------------------------------------------------


def test_names_are_generated_and_differ(world: World) -> None:
    client = world.connect()
    first, second = client.producer("t"), client.producer("t")
    assert first.name.startswith("standalone-")
    assert first.name != second.name
    world.restart()
    assert world.connect().producer("t").name not in (first.name, second.name)


def test_a_name_is_used_once(world: World) -> None:
    client = world.connect()
    client.producer("t", producer_name="p")
    with refused(ServerError.ProducerBusy, "'p'"):
        client.producer("t", producer_name="p")
    with refused(ServerError.ProducerBusy, "'p'"):
        world.connect().producer("t", producer_name="p")
    client.producer("other", producer_name="p")


def test_a_higher_epoch_replaces_the_producer_of_the_same_connection(world: World) -> None:
    client = world.connect()
    old = client.producer("t", producer_name="p", producer_id=1, epoch=0)
    new = client.producer("t", producer_name="p", producer_id=1, epoch=1)
    new.send("a")
    assert old.name == new.name
    assert list(world.topic("t").producers) == ["p"]


def test_asking_twice_for_one_id_is_answered_and_changes_nothing(world: World) -> None:
    client = world.connect()
    client.producer("t", producer_id=1)
    client.producer("t", producer_id=1)
    assert len(world.topic("t").producers) == 1


def test_a_producer_that_takes_the_id_of_another_leaves_nobody_behind(world: World) -> None:
    """I8: otherwise the first would have its topic for itself for ever."""
    client = world.connect()
    client.producer("t", producer_id=1, producer_access_mode=Exclusive)
    client.producer("other", producer_id=1, epoch=1)
    client.drop()
    assert not world.topic("t").producers
    assert not world.topic("other").producers
    world.connect().producer("t").send("a")


def test_a_dead_holder_of_the_name_is_replaced_after_a_failed_probe(world: World) -> None:
    dead, client = world.connect(), world.connect()
    dead.producer("t", producer_name="p")
    dead.answers_pings = False
    command = pb.CommandProducer(topic="t", producer_id=1, producer_name="p")
    request_id = client.ask(command)
    world.advance(PROBE_MS - 1)
    assert client.answer(request_id) is None
    world.advance(1)
    assert isinstance(client.answer(request_id), pb.CommandProducerSuccess)
    assert dead.hung_up


def test_a_holder_that_is_closed_is_replaced_at_once(world: World) -> None:
    gone, client = world.connect(), world.connect()
    gone.producer("t", producer_name="p")
    gone.session.closed = True  # its end has not been heard of in the topic
    client.producer("t", producer_name="p").send("a")


def test_who_waits_for_a_probe_and_leaves_is_not_admitted(world: World) -> None:
    dead, client = world.connect(), world.connect()
    dead.producer("t", producer_name="p")
    dead.answers_pings = False
    client.ask(pb.CommandProducer(topic="t", producer_id=1, producer_name="p"))
    client.drop()
    world.advance(PROBE_MS)
    assert not world.topic("t").producers


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


def test_the_name_is_free_when_its_connection_is_lost(world: World) -> None:
    gone, client = world.connect(), world.connect()
    gone.producer("t", producer_name="p")
    gone.drop()
    client.producer("t", producer_name="p")


# ---- Access modes ----------------------------------------------------------------


def test_an_exclusive_producer_is_alone(world: World) -> None:
    client = world.connect()
    first = client.producer("t", producer_access_mode=Exclusive)
    assert first.success.topic_epoch == 0
    with refused(ServerError.ProducerBusy, "for itself"):
        client.producer("t")
    with refused(ServerError.ProducerFenced):
        client.producer("t", producer_access_mode=Exclusive)
    first.send("a")
    first.close()
    client.producer("t").send("b")


def test_an_exclusive_producer_is_refused_beside_shared_ones(world: World) -> None:
    client = world.connect()
    client.producer("t")
    with refused(ServerError.ProducerFenced, "WaitForExclusive"):
        client.producer("t", producer_access_mode=Exclusive)


def test_one_that_waits_gets_the_topic_when_it_is_free(world: World) -> None:
    client = world.connect()
    holder = client.producer("t")
    waiting = client.producer("t", producer_access_mode=WaitForExclusive)
    assert not waiting.success.producer_ready
    waiting.publish("too early")
    assert client.send_answers() == [(0, ServerError.ProducerFenced)]
    holder.close()
    ready = client.one(pb.CommandProducerSuccess)
    assert ready.producer_ready
    assert ready.request_id == waiting.success.request_id
    assert ready.topic_epoch == 0
    waiting.send("b")
    with refused(ServerError.ProducerBusy):
        client.producer("t")


def test_nobody_overtakes_one_that_waits(world: World) -> None:
    client = world.connect()
    client.producer("t")
    client.producer("t", producer_access_mode=WaitForExclusive)
    with refused(ServerError.ProducerBusy, "waits for that"):
        client.producer("t")


def test_those_that_wait_have_their_turns_in_order(world: World) -> None:
    holder = world.connect()
    holder.producer("t", producer_access_mode=Exclusive)
    queue = [world.connect() for _ in range(3)]
    waiting = [c.producer("t", producer_access_mode=WaitForExclusive) for c in queue]
    assert not any(p.success.producer_ready for p in waiting)
    queue[1].drop()
    holder.drop()
    assert queue[0].one(pb.CommandProducerSuccess).producer_ready
    assert not queue[2].take(pb.CommandProducerSuccess)
    queue[0].drop()
    assert queue[2].one(pb.CommandProducerSuccess).topic_epoch == 2


def test_one_that_waits_may_come_again(world: World) -> None:
    client = world.connect()
    holder = client.producer("t")
    fields = {"producer_name": "p", "producer_id": 7}
    client.producer("t", producer_access_mode=WaitForExclusive, epoch=0, **fields)
    again = client.producer("t", producer_access_mode=WaitForExclusive, epoch=1, **fields)
    with refused(ServerError.ProducerBusy, "'p'"):
        client.producer("t", producer_access_mode=WaitForExclusive, producer_name="p")
    holder.close()
    assert client.one(pb.CommandProducerSuccess).producer_ready
    again.send("a")


def test_one_that_waits_may_close(world: World) -> None:
    client = world.connect()
    holder = client.producer("t")
    client.producer("t", producer_access_mode=WaitForExclusive).close()
    assert not world.topic("t").admission.waiting
    holder.close()
    assert not client.received


def test_waiting_producers_are_told_when_the_catalog_fails(world: World) -> None:
    """And what else the connection had is let go of."""
    holder, waiting = world.connect(), world.connect()
    holder.producer("t", producer_access_mode=Exclusive)
    holder.subscribe("t", "sub")
    waiting.producer("t", producer_access_mode=WaitForExclusive)
    with world.read_only_catalog():
        holder.drop()
        assert waiting.take(pb.CommandCloseProducer)
        with refused(ServerError.PersistenceError):
            waiting.producer("t", producer_access_mode=Exclusive)
    topic = world.topic("t")
    assert not topic.producers
    assert topic.consumer_count() == 0
    epoch = topic.admission.epoch
    waiting.producer("t", producer_access_mode=Exclusive)
    assert topic.admission.epoch == epoch + 1


def test_fencing_turns_the_others_out(world: World) -> None:
    first, second, third = (world.connect() for _ in range(3))
    holder = first.producer("t", producer_access_mode=Exclusive)
    waiting = second.producer("t", producer_access_mode=WaitForExclusive)
    fencing = third.producer("t", producer_access_mode=Fencing)
    assert fencing.success.topic_epoch == 1
    assert first.closed_producers() == [holder.id]
    assert second.closed_producers() == [waiting.id]
    fencing.send("a")
    holder.publish("late")
    assert not first.received
    assert not first.hung_up


def test_a_fenced_producer_may_not_come_back_with_its_epoch(world: World) -> None:
    client = world.connect()
    old = client.producer("t", producer_access_mode=Exclusive)
    client.producer("t", producer_access_mode=Fencing).close()
    with refused(ServerError.ProducerFenced, "epoch 1"):
        client.producer("t", producer_access_mode=Exclusive, topic_epoch=old.success.topic_epoch)
    world.crash()
    client = world.connect()
    with refused(ServerError.ProducerFenced, "epoch 1"):
        client.producer("t", producer_access_mode=Exclusive, topic_epoch=0)
    assert client.producer("t", producer_access_mode=Exclusive).success.topic_epoch == 2


def test_an_access_mode_that_nobody_knows_is_refused(world: World) -> None:
    client = world.connect()
    with refused(ServerError.NotAllowedError, "access mode 9"):
        client.producer("t", producer_access_mode=9)
    client.producer("t")


# ---- Beginning and end -----------------------------------------------------------


def test_an_initial_subscription_is_created_first(world: World) -> None:
    client = world.connect()
    client.producer("t", initial_subscription_name="sub").send("a")
    assert client.subscribe("t", "sub").receive() == ["a"]
    client.producer("t", initial_subscription_name="sub")
    assert world.subscription("t", "sub").cursor.unacked_entries() == 1


def test_a_producer_is_told_of_success_when_its_initial_subscription_is_safe(world: World) -> None:
    client = world.connect()
    client.producer("t")
    world.hold_disk()
    request_id = client.ask(
        pb.CommandProducer(topic="t", producer_id=9, initial_subscription_name="sub")
    )
    assert client.answer(request_id) is None
    world.release_disk()
    assert isinstance(client.answer(request_id), pb.CommandProducerSuccess)


def test_a_producer_is_refused_when_its_initial_subscription_is_not_stored(world: World) -> None:
    client = world.connect()
    client.producer("t")
    world.fail_disk(FULL)
    with refused(ServerError.PersistenceError):
        client.producer("t", initial_subscription_name="sub")
    world.fail_disk(None)
    assert "sub" not in world.topic("t").subscriptions
    assert len(world.topic("t").producers) == 1


def test_a_producer_is_told_of_success_when_its_topic_is_safe(world: World) -> None:
    client = world.connect()
    world.hold_disk()
    request_id = client.ask(pb.CommandProducer(topic="t", producer_id=1))
    assert client.answer(request_id) is None
    world.crash()
    assert world.broker.names("public/default") == []


def test_a_producer_of_a_topic_that_could_not_be_stored_is_refused(world: World) -> None:
    client = world.connect()
    world.fail_disk(FULL)
    with refused(ServerError.ServiceNotReady):
        client.producer("t")
    world.fail_disk(None)
    client.producer("t").send("a")


def test_a_bad_name_or_a_missing_namespace_is_refused(world: World) -> None:
    client = world.connect()
    with refused(ServerError.InvalidTopicName):
        client.producer("a/b")
    with refused(ServerError.TopicNotFound):
        client.producer("public/none/t")


def test_a_topic_has_no_more_producers_than_allowed() -> None:
    client = World(max_producers_per_topic=2).connect()
    client.producer("t")
    second = client.producer("t")
    with refused(ServerError.ProducerBusy, "2 producers"):
        client.producer("t")
    second.close()
    client.producer("t")


def test_closing_waits_for_the_receipts(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    world.hold_disk()
    producer.publish("a")
    request_id = client.ask(pb.CommandCloseProducer(producer_id=producer.id))
    assert client.answer(request_id) is None
    world.release_disk()
    assert client.send_answers() == [(0, None)]
    assert client.answer(request_id) is not None
    assert not world.topic("t").producers


def test_closing_what_is_closed_succeeds(world: World) -> None:
    client = world.connect()
    client.request(pb.CommandCloseProducer(producer_id=5))


def test_sends_of_a_producer_just_closed_are_ignored(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    producer.close()
    producer.publish("late")
    assert not client.hung_up
    assert not client.received


def test_so_many_closed_producers_are_remembered(world: World) -> None:
    client = world.connect()
    first = client.producer("t")
    first.close()
    for _ in range(CLOSED_PRODUCERS_MAX):
        client.producer("t").close()
    first.publish("very late")
    assert client.hung_up


def test_a_send_of_an_unknown_producer_closes_the_connection(world: World) -> None:
    client = world.connect()
    WireProducer(client, 77, "t").publish("a")
    assert client.hung_up
    assert "77" in world.host.warnings[0]


def test_unload_closes_producers_and_they_come_back(world: World) -> None:
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    producer.send("a")
    world.unload("t")
    assert client.closed_producers() == [producer.id]
    again = client.producer("t", producer_name="p", producer_id=producer.id, epoch=1)
    again.send("b")


def test_unload_gives_receipts_before_it_closes_a_producer(world: World) -> None:
    """Without them the client sends again what is stored, and it is there twice."""
    client = world.connect()
    producer = client.producer("t")
    world.hold_disk()
    first = producer.publish("a")
    unloaded = world.broker.unload(world.topic("t").name)
    producer.publish("b")  # it comes again when the producer does, and is not stored before
    closed_early = client.closed_producers()
    world.release_disk()
    world.done(unloaded)
    assert closed_early == []
    assert [type(command) for command in client.received] == [
        CommandSendReceipt,
        pb.CommandCloseProducer,
    ]
    assert client.send_answers() == [(first, None)]
    assert client.closed_producers() == [producer.id]
    assert client.subscribe("t", initialPosition=Earliest).receive() == ["a"]


def test_an_unload_while_the_disk_fails_tells_of_the_failure_first(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    world.hold_disk()
    sequence_id = producer.publish("a")
    unloaded = world.broker.unload(world.topic("t").name)
    world.fail_disk(BROKEN)
    world.done(unloaded)
    assert client.send_answers() == [(sequence_id, ServerError.PersistenceError)]
    assert client.closed_producers() == [producer.id]


def test_a_topic_that_unloads_asks_to_try_again(world: World) -> None:
    client = world.connect()
    client.producer("t").send("a")
    world.hold_disk()
    client.producer("t").publish("b")
    unloaded = world.broker.unload(world.topic("t").name)
    for ask in (lambda: client.producer("t"), lambda: client.subscribe("t")):
        with refused(ServerError.ServiceNotReady, "unloading"):
            ask()
    waits = not unloaded.done
    world.release_disk()
    assert waits
    assert unloaded.done
    client.producer("t")


# ---- Send ------------------------------------------------------------------------


def test_a_receipt_repeats_the_sequence_ids(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    producer.publish("a", "b", "c")
    receipt = client.one(CommandSendReceipt)
    assert (receipt.producer_id, receipt.sequence_id) == (producer.id, 0)
    assert receipt.highest_sequence_id == 2
    first = producer.send("d")
    second = producer.send("e")
    assert (second.ledger_id, second.entry_id) == (first.ledger_id, first.entry_id + 1)


def test_a_receipt_of_a_partition_names_it() -> None:
    client = World(auto_create_partitions=2).connect()
    client.request(pb.CommandPartitionedTopicMetadata(topic="t"))
    assert client.producer("t-partition-1").send("a").partition == 1


def test_no_receipt_and_no_delivery_before_the_entry_is_durable(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t")
    consumer.flow(10)
    world.hold_disk()
    producer.publish("a")
    assert not client.received
    world.release_disk()
    assert client.send_answers() == [(0, None)]
    assert consumer.payloads() == ["a"]


def test_what_was_receipted_survives_a_crash_and_what_was_not_is_lost(world: World) -> None:
    client = world.connect()
    client.subscribe("t")
    producer = client.producer("t")
    producer.send("a")
    producer.send("b", "c")
    world.hold_disk()
    producer.publish("d")
    world.crash()
    assert world.connect().subscribe("t").receive() == ["a", "b", "c"]


def damaged(producer: WireProducer, sequence_id: int) -> CommandSend:
    entry = bytearray(producer.entry(b"payload", sequence_id))
    entry[-1] ^= 1
    return CommandSend(producer.id, sequence_id, bytes(entry))


@pytest.mark.parametrize("deduplication", [False, True])
def test_a_damaged_entry_is_a_checksum_error_and_nothing_behind_it_is_stored(
    deduplication: bool,
) -> None:
    """With deduplication it would be taken for a duplicate when it is sent again."""
    world = World(deduplication=deduplication)
    client = world.connect()
    consumer = client.subscribe("t")
    producer = client.producer("t", producer_name="p")
    client.say(damaged(producer, 0))
    producer.publish("b", sequence_id=1)
    assert client.send_answers() == [
        (0, ServerError.ChecksumError),
        (1, ServerError.PersistenceError),
    ]
    again = client.producer("t", producer_name="p", producer_id=producer.id, epoch=1)
    again.send("a", sequence_id=0)
    again.send("b", sequence_id=1)
    assert consumer.receive() == ["a", "b"]


def test_an_entry_without_a_checksum_is_fine(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t")
    client.producer("t").send("a", checksum=False)
    assert consumer.receive() == ["a"]


def test_answers_keep_the_order_of_sends() -> None:
    world = World(delayed_delivery_max_ms=1000)
    client = world.connect()
    producer = client.producer("t")
    world.hold_disk()
    producer.publish("a")
    producer.publish("too late", sequence_id=1, deliver_at_time=world.host.now + 1001)
    producer.publish("c", sequence_id=2)
    client.say(damaged(producer, 3))
    assert client.send_answers() == []
    world.release_disk()
    assert client.send_answers() == [
        (0, None),
        (1, ServerError.NotAllowedError),
        (2, None),
        (3, ServerError.ChecksumError),
    ]


def test_answers_keep_their_order_when_space_ends(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    world.hold_disk()
    producer.publish("a")
    world.store.log.full = True
    producer.publish("b")
    assert client.send_answers() == []
    world.store.log.full = False
    world.release_disk()
    assert client.send_answers() == [(0, None), (1, ServerError.PersistenceError)]


def test_after_a_failed_publish_all_behind_it_fail_until_the_producer_is_new(world: World) -> None:
    client = world.connect()
    client.subscribe("t")
    producer = client.producer("t", producer_name="p")
    world.hold_disk()
    for text in ("a", "b"):
        producer.publish(text)
    world.fail_disk(FULL)
    world.fail_disk(None)
    producer.publish("c")
    assert client.send_answers() == [(i, ServerError.PersistenceError) for i in range(3)]
    again = client.producer("t", producer_name="p", producer_id=producer.id, epoch=1)
    for text in ("a", "b", "c"):
        again.send(text)
    assert client.subscribe("t", "other", initialPosition=Earliest).receive() == ["a", "b", "c"]


def test_after_a_broken_disk_nothing_is_called_durable(world: World) -> None:
    client = world.connect()
    producer, other = client.producer("t"), client.producer("t")
    consumer = client.subscribe("t")
    id = producer.send("a")
    world.fail_disk(BROKEN)
    producer.publish("b")
    other.publish("c")
    assert [code for _, code in client.send_answers()] == [ServerError.PersistenceError] * 2
    world.fail_disk(None)
    other.publish("d")
    assert client.send_answers() == [(1, ServerError.PersistenceError)]
    with refused(ServerError.PersistenceError, "read-only"):
        consumer.acked(id)
    with refused(ServerError.PersistenceError, "read-only"):
        client.producer("new")
    with refused(ServerError.PersistenceError, "read-only"):
        client.subscribe("t", "new")


def test_publishes_are_refused_before_the_disk_is_full_and_acks_are_not() -> None:
    world = World(watermark_bytes=1 << 20)
    client = world.connect()
    producer, consumer = client.producer("t"), client.subscribe("t")
    id = producer.send("a")
    world.disk.capacity = world.disk.used_bytes() + 1000
    world.advance(600_000)
    producer.publish("b")
    assert client.send_answers() == [(1, ServerError.PersistenceError)]
    consumer.acked(id)


def test_a_transactional_send_is_refused(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    send = CommandSend(producer.id, 0, producer.entry(b"a", 0))
    send.txnid_least_bits = 1
    client.say(send)
    assert client.send_answers() == [(0, ServerError.NotAllowedError)]


def test_an_entry_larger_than_the_topic_allows_is_refused(world: World) -> None:
    client = world.connect()
    world.set_policy("maxMessageSize", 100, topic="t")
    producer = client.producer("t")
    producer.send("x" * 100)
    with refused(ServerError.NotAllowedError, "takes 100"):
        producer.send("x" * 11_000)
    producer.send_chunks("u", "x" * 11_000, "y" * 11_000)


def test_a_delay_beyond_the_limit_is_refused() -> None:
    world = World(delayed_delivery_max_ms=5000)
    producer = world.connect().producer("t")
    producer.send("a", deliver_at_time=world.host.now + 5000)
    text = "Exceeds max allowed delivery delay of 5000 milliseconds"
    with refused(ServerError.NotAllowedError, text):
        producer.send("b", deliver_at_time=world.host.now + 5001)


def test_the_broker_s_own_metadata_of_another_broker_is_not_kept(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t")
    producer = client.producer("t")
    entry = producer.entry(b"a", 0)
    client.say(CommandSend(producer.id, 0, with_broker_metadata(entry, BrokerEntryMetadata(1, 2))))
    consumer.flow(1)
    assert consumer.one().command.entry == entry


# ---- Under load ------------------------------------------------------------------


def test_a_peer_with_too_many_publishes_under_way_is_not_read_from() -> None:
    world = World(max_pending_publishes_per_connection=4)
    client, other = world.connect(), world.connect()
    producer, calm = client.producer("t"), other.producer("t")
    world.hold_disk()
    for i in range(10):
        producer.publish(f"{i}")
    calm.publish("a")
    assert [client.port.reading, other.port.reading] == [False, True]
    assert client.session.pending_publishes == 4
    world.release_disk()
    assert client.port.reading
    assert client.send_answers() == [(i, None) for i in range(10)]


def test_too_many_bytes_under_way_stop_every_producer() -> None:
    world = World(max_pending_publish_bytes=1000)
    first, second = world.connect(), world.connect()
    one, two = first.producer("t"), second.producer("t")
    world.hold_disk()
    one.publish("x" * 1000)
    two.publish("a")
    assert [first.port.reading, second.port.reading] == [False, False]
    second.drop()
    world.release_disk()
    assert first.port.reading
    assert first.send_answers() == [(0, None)]
    one.send("b")


def test_a_consumer_s_connection_is_read_while_the_disk_stalls() -> None:
    world = World(max_pending_publishes_per_connection=1)
    producing, consuming = world.connect(), world.connect()
    producer, consumer = producing.producer("t"), consuming.subscribe("t", type=Shared)
    id = producer.send("a")
    world.hold_disk()
    producer.publish("b")
    assert not producing.port.reading
    request_id = consumer.ask_ack(id)
    assert consuming.port.reading
    world.release_disk()
    assert consumer.receipt(request_id) is not None


def test_a_producer_that_leaves_takes_no_other_of_its_id_along(world: World) -> None:
    client = world.connect()
    client.producer("other")
    leaving = client.producer("t", producer_id=7)
    world.hold_disk()
    leaving.publish("a")
    close = client.ask(pb.CommandCloseProducer(producer_id=7))
    following = client.producer("other", producer_id=7)
    unloaded = world.broker.unload(TopicName.parse("t"))
    world.release_disk()
    world.done(unloaded)
    assert isinstance(client.answer(close), pb.CommandSuccess)
    assert client.send_answers() == [(0, None)]  # of what the one that left had published
    assert client.closed_producers() == []
    following.send("b")
    client.drop()
    assert world.topic("other").idle
