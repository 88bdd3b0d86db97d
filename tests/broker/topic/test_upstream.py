"""Faults of Apache Pulsar that a broker decides: each a test that carries its number.

The list is SEMANTICS 3.3. Those that a client decides (grouping of acks, filters of its own
queue, retries) are tested where the client is; here their broker's half is, where there is one.
"""

import pytest
from support.holder import again, start
from support.wire_client import Exclusive, Failover, KeyShared, Shared, but, refused
from support.world import ENDS, FULL, World

from magnetar.model import Position, ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAckResponse
from magnetar.protocol import pulsar_pb2 as pb

TYPES = (Exclusive, Shared, Failover, KeyShared)


def backlog(world: World) -> tuple[int, int]:
    cursor = world.subscription("t", "sub").cursor
    return cursor.unacked_entries(), cursor.unacked_messages()


# ---- Receipts --------------------------------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_23261_every_ack_is_answered_when_the_topic_is_unloaded(world: World, type: int) -> None:
    consumer, messages = start(world, *[(f"{i}",) for i in range(20)], type=type)
    asked = [consumer.ask_ack(message) for message in messages[:5]]
    world.hold_disk()
    asked += [consumer.ask_ack(message) for message in messages[5:10]]
    world.broker.unload(world.topic("t").name)
    asked += [consumer.ask_ack(message) for message in messages[10:15]]
    world.release_disk()
    asked += [consumer.ask_ack(message) for message in messages[15:]]
    answers = {a.request_id: a for a in consumer.client.take(CommandAckResponse)}
    assert set(answers) == set(asked)
    kept = [i for i, request_id in enumerate(asked) if answers[request_id].error is None]
    assert kept == list(range(10))
    for request_id in asked[10:]:
        assert answers[request_id].error == ServerError.ServiceNotReady
    assert again(world, type) == [f"{i}" for i in range(10, 20)]


def test_21958_nothing_stays_behind_after_fast_acks_and_unloads(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    client.subscribe("t", "sub", Shared).close()
    for i in range(60):
        producer.send(f"{i}", f"{i}b")
    acked: set[tuple[int, int]] = set()
    for round in range(6):
        consumer = client.subscribe("t", "sub", Shared)
        consumer.flow(1000)
        world.hold_disk()
        asked = {consumer.ask_ack(m): m.place for m in consumer.deliveries()[:10]}
        if round % 2:
            world.broker.unload(world.topic("t").name)
        world.release_disk()
        for answer in client.take(CommandAckResponse):
            if answer.error is None and answer.request_id is not None:
                acked.add(asked[answer.request_id])
        if not round % 2:
            consumer.close()
        assert backlog(world) == (60 - len(acked), 120 - 2 * len(acked))
    assert len(acked) == 60
    consumer = client.subscribe("t", "sub", Shared)
    assert consumer.receive() == []
    assert consumer.stats().unackedMessages == 0


def test_read_3_an_ack_with_one_bad_id_changes_nothing(world: World) -> None:
    consumer, (first, second) = start(world, ("a", "b"), ("c",))
    bad = MessageIdData(first.id.ledger_id, 99)
    with refused(ServerError.NotAllowedError):
        consumer.acked(first.index(0), second, bad)
    assert backlog(world) == (2, 3)
    assert consumer.stats().unackedMessages == 3


def test_read_4_a_cumulative_receipt_comes_when_it_is_durable(world: World) -> None:
    consumer, messages = start(world, ("a",), ("b", "c"), type=Exclusive)
    world.hold_disk()
    first = consumer.ask_ack(messages[0], cumulative=True)
    second = consumer.ask_ack(messages[1].through(0), cumulative=True)
    assert consumer.receipt(first) is None
    assert consumer.receipt(second) is None
    world.crash()
    assert again(world, Exclusive) == ["a", "b", "c"]


# ---- Parts of batches over the end of a broker -----------------------------------


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("type", TYPES)
def test_14982_20585_26475_only_what_is_left_of_a_batch_returns(
    world: World, type: int, how: str
) -> None:
    consumer, (batch,) = start(world, ("A", "B", "C", "D"), type=type)
    consumer.acked(batch.index(0, 1))
    world.end(how)
    assert again(world, type) == ["C", "D"]


@pytest.mark.parametrize("type", TYPES)
def test_26498_a_part_of_a_batch_right_behind_mark_delete_survives_a_kill(
    world: World, type: int
) -> None:
    consumer, (first, second) = start(world, ("E0",), ("A", "B"), type=type)
    consumer.acked(first)
    consumer.acked(second.index(0))
    world.advance(60_000)
    world.crash()
    assert again(world, type) == ["B"]


def test_26499_any_number_of_half_acked_batches_is_kept(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    ids = [producer.send("x", f"{i}") for i in range(500)]
    for id in ids:
        consumer.ack(but(id, 2, 0))
    assert world.subscription("t", "sub").cursor.partial_entries() == 500
    world.crash()
    assert again(world) == [f"{i}" for i in range(500)]


def test_9504_two_half_acked_batches_do_not_run_into_each_other(world: World) -> None:
    consumer, (first, second) = start(world, tuple("abcd"), tuple("efgh"))
    consumer.acked(first.index(0, 1))
    consumer.acked(second.index(2, 3))
    world.crash()
    assert again(world) == ["c", "d", "e", "f"]


def test_25110_25165_properties_survive_acks_and_trims() -> None:
    world = World(ledger_entries_max=1)
    client = world.connect()
    properties = [pb.KeyValue(key="k", value="v")]
    consumer = client.subscribe("t", "sub", subscription_properties=properties)
    producer = client.producer("t")
    for i in range(5):
        consumer.acked(producer.send(f"{i}"))
        world.advance(2000)
    for end in (world.restart, world.crash):
        end()
        assert world.subscription("t", "sub").properties == {"k": "v"}


# ---- Negative acks ---------------------------------------------------------------


def test_23840_odd_acked_even_nacked_consumer_killed_all_nacked_return(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = world.connect().producer("t")
    for first in range(0, 100, 10):
        producer.send(*[f"{i}" for i in range(first, first + 10)])
    consumer.flow(70)  # the last batches stay unseen
    for message in consumer.deliveries():
        consumer.acked(message.index(*range(1, 10, 2)))
        consumer.redeliver(message)
    client.drop()
    expected = [f"{i}" for i in range(100) if i % 2 == 0 or i >= 70]
    assert again(world) == expected


def test_23436_ack_0_and_2_nack_1_and_exactly_1_returns(world: World) -> None:
    consumer, (batch,) = start(world, ("a", "b", "c"))
    consumer.acked(batch.index(0))
    consumer.acked(batch.index(2))
    consumer.redeliver(batch)
    (back,) = consumer.deliveries()
    assert back.payloads == {1: "b"}
    assert back.redelivery_count == 1


def test_18454_18486_a_redelivery_brings_siblings_and_nothing_acked(world: World) -> None:
    consumer, (batch,) = start(world, ("a", "b", "c", "d"))
    world.hold_disk()
    consumer.ask_ack(batch.index(1))
    consumer.redeliver(batch)
    world.release_disk()
    assert consumer.payloads() == ["a", "c", "d"]


def test_23943_a_redelivery_of_one_message_leaves_its_neighbours(world: World) -> None:
    consumer, (_, second, _) = start(world, ("a",), ("b",), ("c",))
    consumer.redeliver(second)
    assert consumer.payloads() == ["b"]
    assert consumer.stats().unackedMessages == 3


@pytest.mark.parametrize("type", [Shared, KeyShared])
def test_26125_26135_an_index_acked_before_does_not_come_with_the_last_round(
    world: World, type: int
) -> None:
    consumer, (batch,) = start(world, ("a", "b", "c"), type=type)
    consumer.acked(batch.index(0))
    for round in (1, 2, 3):
        consumer.redeliver(batch)
        message = consumer.one()
        assert message.payloads == {1: "b", 2: "c"}
        assert message.redelivery_count == round
    consumer.acked(message.index(1), message.index(2))
    consumer.redeliver(message)
    assert consumer.payloads() == []
    assert backlog(world) == (0, 0)


@pytest.mark.parametrize("type", [Shared, KeyShared])
def test_read_2_a_sibling_s_ack_does_not_reset_the_redelivery_count(
    world: World, type: int
) -> None:
    consumer, (batch,) = start(world, ("poison", "good"), type=type)
    consumer.redeliver(batch)
    consumer.redeliver(consumer.one())
    message = consumer.one()
    assert message.redelivery_count == 2
    consumer.acked(message.index(1))
    consumer.redeliver(message)
    message = consumer.one()
    assert message.payloads == {0: "poison"}
    assert message.redelivery_count == 3


def test_site_1117_the_redelivery_count_survives_a_disconnect(world: World) -> None:
    consumer, (message,) = start(world, ("poison",))
    consumer.redeliver(message)
    consumer.client.drop()
    other = world.connect().subscribe("t", "sub", Shared)
    other.flow(10)
    assert other.one().redelivery_count == 1


# ---- Cumulative acks -------------------------------------------------------------


@pytest.mark.parametrize("type", [Exclusive, Failover])
def test_4931_a_cumulative_ack_inside_a_batch_resumes_behind_it(world: World, type: int) -> None:
    consumer, (batch, _) = start(world, ("a", "b", "c"), ("d",), type=type)
    consumer.acked(batch.through(1), cumulative=True)
    consumer.client.drop()
    assert again(world, type) == ["c", "d"]


def test_8997_a_cumulative_ack_acks_through_its_own_index_only(world: World) -> None:
    consumer, (batch,) = start(world, tuple("abcdefgh"), type=Exclusive)
    for index in (0, 3, 5):
        consumer.acked(batch.through(index), cumulative=True)
        consumer.redeliver()
        assert consumer.payloads() == list("abcdefgh"[index + 1 :])


def test_18042_a_late_lower_cumulative_ack_takes_nothing_back(world: World) -> None:
    consumer, (batch,) = start(world, tuple("abcd"), type=Exclusive)
    consumer.acked(batch.through(2), cumulative=True)
    consumer.acked(batch.through(0), cumulative=True)
    consumer.redeliver()
    assert consumer.payloads() == ["d"]
    world.crash()
    assert again(world, Exclusive) == ["d"]


def test_7683_a_cumulative_ack_that_was_lost_brings_everything_again(world: World) -> None:
    consumer, messages = start(world, *[(f"{i}",) for i in range(10)], type=Exclusive)
    world.fail_disk(FULL)
    with refused(ServerError.PersistenceError):
        consumer.acked(messages[9], cumulative=True)
    world.fail_disk(None)
    consumer.client.drop()
    assert again(world, Exclusive) == [f"{i}" for i in range(10)]


def test_13945_10478_what_a_consumer_had_in_its_queue_comes_again(world: World) -> None:
    consumer, messages = start(world, ("a",), ("b",), ("c",), type=Failover)
    consumer.ack(messages[0], cumulative=True)
    consumer.client.drop()
    assert again(world, Failover) == ["b", "c"]


def test_read_1_a_cumulative_ack_keeps_higher_indexes_acked_before(world: World) -> None:
    consumer, (batch,) = start(world, tuple("abcdef"), type=Exclusive)
    consumer.acked(batch.index(4))
    consumer.acked(batch.through(1), cumulative=True)
    consumer.redeliver()
    assert consumer.payloads() == ["c", "d", "f"]
    world.crash()
    assert again(world, Exclusive) == ["c", "d", "f"]


def test_read_8_a_stale_cumulative_ack_leaves_no_part_of_a_batch_behind(world: World) -> None:
    consumer, (first, second) = start(world, ("a", "b", "c"), ("d",), type=Exclusive)
    consumer.acked(second, cumulative=True)
    consumer.acked(first.through(0), cumulative=True)
    cursor = world.subscription("t", "sub").cursor
    cursor.check()
    assert cursor.partial_entries() == 0
    assert backlog(world) == (0, 0)


def test_13788_16237_acks_go_on_behind_an_old_hole(world: World) -> None:
    consumer, messages = start(world, *[(f"{i}",) for i in range(6)], type=Exclusive)
    consumer.acked(messages[3])
    consumer.acked(messages[4], cumulative=True)
    consumer.acked(messages[1])
    consumer.acked(messages[2], messages[5])
    assert backlog(world) == (0, 0)


def test_25047_24938_25089_mixed_acks_keep_the_backlog_exact(world: World) -> None:
    entries = [(f"{i}a", f"{i}b") for i in range(8)]
    consumer, messages = start(world, *entries, type=Exclusive)
    consumer.acked(messages[5])
    assert backlog(world) == (7, 14)
    consumer.acked(messages[2].index(1))
    assert backlog(world) == (7, 13)
    consumer.acked(messages[3].through(0), cumulative=True)
    assert backlog(world) == (4, 7)
    consumer.acked(messages[3].index(1))
    assert backlog(world) == (3, 6)
    consumer.acked(messages[7], cumulative=True)
    assert backlog(world) == (0, 0)


# ---- Counts of unacked messages --------------------------------------------------


def test_13383_14288_17003_23796_unacked_is_exact_and_never_negative(world: World) -> None:
    consumer, (batch, _) = start(world, tuple("abcd"), ("e",))
    other = consumer.client.subscribe("t", "sub", Shared)
    consumer.acked(batch.index(0))
    assert consumer.stats().unackedMessages == 4
    consumer.redeliver(batch)
    consumer.deliveries()
    other.acked(batch.index(1))
    consumer.acked(batch.index(1))
    assert consumer.stats().unackedMessages == 3
    consumer.redeliver(batch)
    other.acked(batch)
    consumer.acked(batch)
    assert consumer.stats().unackedMessages == 1
    assert other.stats().unackedMessages == 0


def test_14288_nack_then_ack_does_not_count_twice(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    client.producer("t").send("a", "b")
    consumer.flow(2)
    batch = consumer.one()
    consumer.redeliver(batch)  # and there are no permits for it
    consumer.acked(batch.index(0))
    consumer.acked(batch.index(1))
    assert consumer.stats().unackedMessages == 0
    assert consumer.receive(10) == []


def test_22657_a_consumer_without_unacked_messages_is_not_blocked() -> None:
    world = World(max_unacked_per_consumer=4)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    for _ in range(4):
        producer.send("a", "b", "c", "d", "e")
    consumer.flow(1000)
    for _ in range(4):
        message = consumer.one()
        assert consumer.stats().blockedConsumerOnUnackedMsgs
        for index in range(5):
            consumer.acked(message.index(index))
    assert consumer.stats().unackedMessages == 0
    assert not consumer.stats().blockedConsumerOnUnackedMsgs


@pytest.mark.parametrize("type", [Shared, KeyShared])
@pytest.mark.parametrize("how", ["skip", "clear", "expire"])
def test_25581_25589_25592_skip_expire_and_clear_lower_unacked(
    world: World, type: int, how: str
) -> None:
    consumer, messages = start(world, ("a", "b"), ("c",), ("d", "e", "f"), type=type)
    subscription = world.subscription("t", "sub")
    if how == "skip":
        world.done(subscription.skip(2))
    elif how == "expire":
        world.done(subscription.expire(Position(*messages[1].place)))
    else:
        world.done(subscription.clear())
    left = 0 if how == "clear" else 3
    assert consumer.stats().unackedMessages == left
    consumer.redeliver(*messages)
    assert len(consumer.payloads()) == left
    assert consumer.stats().unackedMessages == left


def test_24406_an_empty_ack_set_is_the_whole_entry_with_indexes_off() -> None:
    world = World(batch_index_ack=False)
    consumer, (batch,) = start(world, ("a", "b"))
    consumer.acked(MessageIdData(batch.id.ledger_id, batch.id.entry_id, -1, -1, 0, 2))
    assert again(world) == []
    assert backlog(world) == (0, 0)


def test_20262_skip_counts_right_with_many_holes(world: World) -> None:
    consumer, messages = start(world, *[(f"{i}",) for i in range(100)])
    consumer.acked(*messages[::3])
    world.done(world.subscription("t", "sub").skip(40))
    assert backlog(world) == (26, 26)


# ---- Seek ------------------------------------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_11825_nothing_before_the_sought_index_arrives(world: World, type: int) -> None:
    consumer, (_, batch, _) = start(world, ("x",), tuple("abcd"), ("y",), type=type)
    id = batch.id
    consumer.seek(MessageIdData(id.ledger_id, id.entry_id, -1, 2, None, 4))
    assert consumer.closed_by_broker()
    assert again(world, type) == ["c", "d", "y"]


@pytest.mark.parametrize("type", TYPES)
def test_26304_a_seek_among_acks_is_not_lost(world: World, type: int) -> None:
    consumer, messages = start(world, *[(f"{i}",) for i in range(5)], type=type)
    world.hold_disk()
    before = [consumer.ask_ack(message) for message in messages[:3]]
    seek = consumer.client.ask(consumer.seek_command(messages[1].id))
    after = [consumer.ask_ack(message) for message in messages[3:]]
    world.release_disk()
    assert isinstance(consumer.client.answer(seek), pb.CommandSuccess)
    for request_id in before:
        receipt = consumer.receipt(request_id)
        assert receipt is not None
        assert receipt.error is None
    for request_id in after:
        receipt = consumer.receipt(request_id)
        assert receipt is not None
        assert receipt.error == ServerError.ServiceNotReady
    world.crash()
    assert again(world, type) == ["1", "2", "3", "4"]


# ---- Delayed, Key_Shared, chunks -------------------------------------------------


@pytest.mark.parametrize("type", [Shared, KeyShared])
def test_20099_delayed_messages_come_once_after_an_unload(world: World, type: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    consumer.flow(100)
    producer = client.producer("t")
    for i in range(10):
        producer.send(f"{i}", deliver_at_time=world.host.now + 5000)
    for _ in range(3):
        world.unload("t")
        consumer = client.subscribe("t", "sub", type)
        consumer.flow(100)
    world.advance(5000)
    assert sorted(consumer.payloads()) == [f"{i}" for i in range(10)]
    world.advance(60_000)
    assert consumer.payloads() == []


@pytest.mark.parametrize("how", ENDS)
def test_22709_key_shared_consumers_go_on_after_the_broker_came_back(
    world: World, how: str
) -> None:
    client = world.connect()
    consumers = [client.subscribe("t", "sub", KeyShared) for _ in range(3)]
    producer = client.producer("t")
    for i in range(60):
        producer.send(f"{i}", partition_key=f"{i % 7}")
    acked = set()
    for consumer in consumers:
        consumer.flow(8)
        messages = consumer.deliveries()
        consumer.acked(*messages[:4])
        acked |= {message.payloads[0] for message in messages[:4]}
    world.end(how)
    client = world.connect()
    consumers = [client.subscribe("t", "sub", KeyShared) for _ in range(3)]
    got: list[str] = []
    for _ in range(20):
        for consumer in consumers:
            consumer.flow(8)
            messages = consumer.deliveries()
            got += [message.payloads[0] for message in messages]
            consumer.acked(*messages)
    assert sorted(got) == sorted({f"{i}" for i in range(60)} - acked)


def test_read_7_an_entry_finished_by_its_indexes_frees_its_key(world: World) -> None:
    client = world.connect()
    first = client.subscribe("t", "sub", KeyShared)
    first.flow(100)
    producer = client.producer("t")
    keys = [f"k{i}" for i in range(20)]
    for key in keys:
        producer.send("a", "b", partition_key=key)
    held = first.deliveries()
    second = client.subscribe("t", "sub", KeyShared)
    second.flow(100)
    for key in keys:
        producer.send("later", partition_key=key)
    for message in held:
        first.acked(message.index(1))
        first.acked(message.index(0))
    got = first.payloads() + second.payloads()
    assert got == ["later"] * 20


def test_26395_chunks_without_their_first_stall_nobody(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    ids = producer.send_chunks("u", "x", "y")
    consumer.acked(ids[0])
    world.unload("t")
    consumer = client.subscribe("t", "sub", Shared)
    client.producer("t").send("after")
    assert consumer.receive() == ["y", "after"]


def test_25077_25620_chunks_wait_for_their_consumer_and_are_not_dropped(world: World) -> None:
    client = world.connect()
    first, second = (client.subscribe("t", "sub", Shared) for _ in range(2))
    first.flow(1)
    second.flow(1)
    one, two = client.producer("t"), client.producer("t")
    for chunk_id in range(4):
        one.send_chunk("u1", chunk_id, 4, f"a{chunk_id}")
        two.send_chunk("u2", chunk_id, 4, f"b{chunk_id}")
    got: dict[int, list[str]] = {1: first.payloads(), 2: second.payloads()}
    for _ in range(10):
        got[1] += first.receive(1)
        got[2] += second.receive(1)
    assert sorted(got.values()) == [[f"{m}{i}" for i in range(4)] for m in "ab"]


# ---- Transactions ----------------------------------------------------------------


def test_16032_acks_in_transactions_are_refused_and_change_nothing(world: World) -> None:
    consumer, (batch,) = start(world, ("a", "b"))
    for index, txn in ((0, 1), (1, 2)):
        command = consumer.ack_command((batch.index(index),), request_id=100 + txn)
        command.txnid_least_bits = txn
        consumer.client.say(command)
        receipt = consumer.receipt(100 + txn)
        assert receipt is not None
        assert receipt.error == ServerError.NotAllowedError
    assert backlog(world) == (1, 2)
    consumer.acked(batch.index(1))
    assert backlog(world) == (1, 1)
