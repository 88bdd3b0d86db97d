"""Who gets what: permits, turns, priorities, limits, and slow peers and disks."""

import pytest
from support.wire_client import Exclusive, Failover, KeyShared, Shared, WireConsumer, refused
from support.world import World

from magnetar.broker.topic.dispatch.dispatcher import READ_RETRY_MS
from magnetar.broker.topic.dispatch.failover import pick_active
from magnetar.broker.turn.rounds import ROUND_BYTES_MAX
from magnetar.errors import DiskError
from magnetar.model import ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandFlow, encode
from magnetar.protocol import pulsar_pb2 as pb

TYPES = (Exclusive, Shared, Failover, KeyShared)
MANY = (Shared, KeyShared)
IO_ERROR = DiskError("read", "journal", "Input/output error")


def permits(consumer: WireConsumer) -> int:
    """What the broker counts; below 0 after a batch that was larger."""
    found = consumer.stats().availablePermits
    return found - (1 << 64) if found >> 63 else found


# ---- Permits ---------------------------------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_nothing_comes_without_permits(world: World, type: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    for i in range(5):
        producer.send(f"{i}", partition_key="k")
    assert consumer.payloads() == []
    assert consumer.receive(2) == ["0", "1"]
    assert consumer.receive(2) == ["2", "3"]
    assert consumer.receive(2) == ["4"]
    assert permits(consumer) == 1


@pytest.mark.parametrize("type", TYPES)
def test_a_batch_goes_out_whole_and_is_charged_by_message(world: World, type: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    for _ in range(3):
        producer.send(*"abcdefghij", partition_key="k")
    consumer.flow(1)
    assert len(consumer.payloads()) == 10
    assert permits(consumer) == -9
    consumer.flow(9)
    assert consumer.payloads() == []
    consumer.flow(1)
    assert len(consumer.payloads()) == 10


@pytest.mark.parametrize("type", TYPES)
def test_indexes_that_are_acked_cost_no_permit(world: World, type: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    client.producer("t").send(*"abcdefghij")
    consumer.flow(10)
    consumer.acked(consumer.one().index(*range(8)))
    assert permits(consumer) == 0
    consumer.flow(5)
    consumer.redeliver()
    assert consumer.payloads() == ["i", "j"]
    assert permits(consumer) == 3


def test_half_of_a_large_batch_acked_balances_permits(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    texts = [f"{i}" for i in range(100)]
    producer.send(*texts)
    consumer.flow(100)
    consumer.acked(consumer.one().index(0, 1))
    consumer.close()
    again = client.subscribe("t", "sub", Shared)
    assert again.receive(100) == texts[2:]
    assert permits(again) == 2
    producer.send("x")
    producer.send("y")
    producer.send("z")
    assert again.payloads() == ["x", "y"]


def test_permits_of_a_consumer_that_comes_back_begin_at_nothing(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    consumer.flow(10)
    world.unload("t")
    again = client.subscribe("t", "sub", consumer_id=consumer.id)
    client.producer("t").send("a")
    assert again.payloads() == []
    assert again.receive(1) == ["a"]


def test_unacked_falls_by_index(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    for low in (0, 20):
        producer.send(*[f"{i}" for i in range(low, low + 20)])
    consumer.flow(40)
    first, second = consumer.deliveries()
    assert consumer.stats().unackedMessages == 40
    consumer.acked(first.index(3), second.index(4))
    assert consumer.stats().unackedMessages == 38
    consumer.acked(first.index(7), second.index(0))
    assert consumer.stats().unackedMessages == 36
    consumer.redeliver(first)
    assert consumer.stats().unackedMessages == 18  # its entry is given back, and waits
    consumer.flow(40)
    assert len(consumer.payloads()) == 18
    assert consumer.stats().unackedMessages == 36


@pytest.mark.parametrize("type", [Exclusive, Failover])
def test_one_active_consumer_has_no_unacked_count(world: World, type: int) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    client.producer("t").send("a", "b")
    assert len(consumer.receive()) == 2
    assert consumer.stats().unackedMessages == 0


# ---- Shared ----------------------------------------------------------------------


def test_shared_consumers_take_turns() -> None:
    world = World(dispatch_round_robin_entries=2)
    client = world.connect()
    consumers = [client.subscribe("t", "sub", Shared) for _ in range(3)]
    producer = client.producer("t")
    world.hold_disk()
    for i in range(12):
        producer.publish(f"{i}")
    for consumer in consumers:
        consumer.flow(100)
    world.release_disk()
    got = [consumer.payloads() for consumer in consumers]
    assert [len(texts) for texts in got] == [4, 4, 4]
    assert sorted(int(text) for texts in got for text in texts) == list(range(12))


def test_a_full_consumer_is_passed_over() -> None:
    world = World(dispatch_round_robin_entries=1)
    client = world.connect()
    small = client.subscribe("t", "sub", Shared)
    large = client.subscribe("t", "sub", Shared)
    small.flow(1)
    large.flow(10)
    producer = client.producer("t")
    for i in range(6):
        producer.send(f"{i}")
    assert len(small.payloads()) == 1
    assert len(large.payloads()) == 5


def test_lower_priority_is_served_when_the_better_ones_have_no_room(world: World) -> None:
    client = world.connect()
    spare = client.subscribe("t", "sub", Shared, priority_level=1)
    best = client.subscribe("t", "sub", Shared, priority_level=0)
    spare.flow(100)
    best.flow(3)
    producer = client.producer("t")
    for i in range(5):
        producer.send(f"{i}")
    assert best.payloads() == ["0", "1", "2"]
    assert spare.payloads() == ["3", "4"]
    best.flow(10)
    producer.send("5")
    assert best.payloads() == ["5"]
    assert spare.payloads() == []


@pytest.mark.parametrize("how", ["close", "drop"])
def test_what_a_consumer_held_goes_to_the_others(world: World, how: str) -> None:
    leaving, staying = world.connect(), world.connect()
    first = leaving.subscribe("t", "sub", Shared)
    second = staying.subscribe("t", "sub", Shared)
    producer = staying.producer("t")
    first.flow(10)
    for text in ("a", "b", "c"):
        producer.send(text)
    held = first.deliveries()
    first.acked(held[1])
    second.flow(10)
    if how == "close":
        first.close()
    else:
        leaving.drop()
    assert second.payloads() == ["a", "c"]


def test_replay_goes_before_new_messages(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    for text in ("a", "b"):
        producer.send(text)
    assert consumer.receive(2) == ["a", "b"]
    consumer.redeliver()
    producer.send("c")
    assert consumer.receive(3) == ["a", "b", "c"]


# ---- Limits on unacked messages --------------------------------------------------


@pytest.mark.parametrize("type", MANY)
def test_a_consumer_with_too_many_unacked_is_blocked_until_half(type: int) -> None:
    world = World(max_unacked_per_consumer=4)
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    for i in range(10):
        producer.send(f"{i}", partition_key="k")
    consumer.flow(100)
    held = consumer.deliveries()
    assert len(held) == 4
    assert consumer.stats().blockedConsumerOnUnackedMsgs
    consumer.acked(held[0])
    consumer.flow(100)
    assert consumer.payloads() == []
    consumer.acked(held[1])
    assert consumer.payloads() == ["4", "5"]


@pytest.mark.parametrize("type", MANY)
def test_a_limit_of_one_works(type: int) -> None:
    world = World(max_unacked_per_consumer=1)
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    for i in range(4):
        producer.send(f"{i}")
    consumer.flow(100)
    for i in range(4):
        (message,) = consumer.deliveries()
        assert message.payloads == {0: f"{i}"}
        consumer.acked(message)
    assert not consumer.stats().blockedConsumerOnUnackedMsgs


def test_a_blocked_consumer_does_not_block_the_others() -> None:
    world = World(max_unacked_per_consumer=2)
    client = world.connect()
    first = client.subscribe("t", "sub", Shared)
    second = client.subscribe("t", "sub", Shared)
    first.flow(100)
    producer = client.producer("t")
    for i in range(4):
        producer.send(f"{i}")
    assert first.payloads() == ["0", "1"]
    second.flow(100)
    assert second.payloads() == ["2", "3"]


def test_giving_back_unblocks() -> None:
    world = World(max_unacked_per_consumer=2)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    for i in range(3):
        producer.send(f"{i}")
    assert consumer.receive(100) == ["0", "1"]
    consumer.redeliver()
    assert consumer.payloads() == ["0", "1"]


def test_acks_by_others_unblock() -> None:
    world = World(max_unacked_per_consumer=2)
    client = world.connect()
    blocked, other = (client.subscribe("t", "sub", Shared) for _ in range(2))
    producer = client.producer("t")
    blocked.flow(100)
    for i in range(3):
        producer.send(f"{i}")
    other.acked(*blocked.deliveries())
    assert blocked.payloads() == ["2"]


@pytest.mark.parametrize("type", MANY)
def test_a_subscription_with_too_many_unacked_stops_until_half(type: int) -> None:
    world = World(max_unacked_per_subscription=4)
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    for i in range(10):
        producer.send(f"{i}")
    consumer.flow(100)
    held = consumer.deliveries()
    assert len(held) == 4
    consumer.acked(held[0], held[1])
    assert consumer.payloads() == []  # two are unacked, which is not below half
    consumer.acked(held[2])
    assert len(consumer.deliveries()) == 3


def test_a_limit_of_one_for_a_subscription_works() -> None:
    world = World(max_unacked_per_subscription=1)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    for i in range(3):
        producer.send(f"{i}")
    consumer.flow(100)
    for i in range(3):
        message = consumer.one()
        assert message.payloads == {0: f"{i}"}
        consumer.acked(message)


def test_limits_do_not_hold_for_subscriptions_in_memory() -> None:
    world = World(max_unacked_per_consumer=1, max_unacked_per_subscription=1)
    client = world.connect()
    reader = client.subscribe("t", "reader", Shared, durable=False)
    producer = client.producer("t")
    for i in range(3):
        producer.send(f"{i}")
    assert len(reader.receive()) == 3


def test_a_new_policy_counts_at_once(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    world.set_policy("maxUnackedMessagesOnConsumer", 1, topic="t")
    producer = client.producer("t")
    for i in range(3):
        producer.send(f"{i}")
    assert consumer.receive() == ["0"]
    world.set_policy("maxUnackedMessagesOnConsumer", 0, topic="t")
    assert consumer.payloads() == ["1", "2"]


def test_lifting_the_limit_of_a_subscription_counts_at_once() -> None:
    world = World(max_unacked_per_subscription=2)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    for i in range(4):
        producer.send(f"{i}")
    assert consumer.receive() == ["0", "1"]
    world.set_policy("maxUnackedMessagesOnSubscription", 10, topic="t")
    assert consumer.payloads() == ["2", "3"]


def test_skipping_releases_what_a_consumer_holds() -> None:
    world = World(max_unacked_per_consumer=2)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    for i in range(5):
        producer.send(f"{i}")
    assert consumer.receive() == ["0", "1"]
    world.done(world.subscription("t", "sub").skip(2))
    assert consumer.payloads() == ["2", "3"]
    assert consumer.stats().unackedMessages == 2
    world.done(world.subscription("t", "sub").clear())
    assert consumer.stats().unackedMessages == 0
    assert consumer.stats().msgBacklog == 0


# ---- Failover --------------------------------------------------------------------


def first_of(*names: str, topic: str = "persistent://public/default/t") -> str:
    """Whom a topic that is no partition chooses."""
    numbered = [(0, name, number) for number, name in enumerate(names)]
    return names[pick_active(numbered, -1, topic)]


def test_one_failover_consumer_is_served_and_all_are_told(world: World) -> None:
    client = world.connect()
    names = ("a", "b", "c")
    consumers = {name: client.subscribe("t", "sub", Failover, consumer_name=name) for name in names}
    world.advance(1000)
    active = first_of(*names)
    for name, consumer in consumers.items():
        assert consumer.active_changes()[-1] == (name == active)
        consumer.flow(10)
    client.producer("t").send("m")
    for name, consumer in consumers.items():
        assert consumer.payloads() == (["m"] if name == active else [])


def test_the_first_consumer_is_active_at_once(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Failover)
    assert consumer.active_changes() == [True]
    client.producer("t").send("a")
    assert consumer.receive() == ["a"]


def test_the_change_of_the_active_consumer_waits_so_that_the_one_before_can_finish(
    world: World,
) -> None:
    client = world.connect()
    low = client.subscribe("t", "sub", Failover, priority_level=1)
    producer = client.producer("t")
    producer.send("a")
    low.flow(10)
    message = low.one()
    best = client.subscribe("t", "sub", Failover, priority_level=0)
    best.flow(10)
    assert best.active_changes() == [True]
    assert low.active_changes() == [True, False]
    producer.send("b")
    low.acked(message)
    world.advance(999)
    assert (low.payloads(), best.payloads()) == ([], [])
    world.advance(1)
    assert (low.payloads(), best.payloads()) == ([], ["b"])


def test_the_next_takes_over_at_once_when_the_active_one_leaves(world: World) -> None:
    first, second = world.connect(), world.connect()
    best = first.subscribe("t", "sub", Failover, priority_level=0)
    other = second.subscribe("t", "sub", Failover, priority_level=1)
    assert other.active_changes() == [False]
    producer = second.producer("t")
    producer.send("a")
    assert best.receive() == ["a"]
    other.flow(10)
    first.drop()
    assert other.active_changes() == [True]
    assert other.payloads() == ["a"]


def test_a_change_that_is_taken_back_in_time_goes_back(world: World) -> None:
    client = world.connect()
    low = client.subscribe("t", "sub", Failover, priority_level=1)
    low.flow(10)
    best = client.subscribe("t", "sub", Failover, priority_level=0)
    best.close()
    client.producer("t").send("a")
    assert low.payloads() == ["a"]
    assert low.active_changes() == [True, False, True]


def test_without_a_delay_the_change_is_at_once() -> None:
    world = World(failover_delay_ms=0)
    client = world.connect()
    low = client.subscribe("t", "sub", Failover, priority_level=1)
    client.producer("t").send("a")
    assert low.receive() == ["a"]
    best = client.subscribe("t", "sub", Failover, priority_level=0)
    assert best.receive() == ["a"]


def test_a_partition_chooses_by_its_number() -> None:
    world = World(auto_create_partitions=4)
    client = world.connect()
    client.request(pb.CommandPartitionedTopicMetadata(topic="t"))
    for number in range(4):
        topic = f"t-partition-{number}"
        both = [client.subscribe(topic, "sub", Failover, consumer_name=n) for n in ("b", "a")]
        world.advance(1000)
        client.producer(topic).send("m")
        got = [consumer.receive() for consumer in both]
        assert got == ([[], ["m"]] if number % 2 == 0 else [["m"], []])


def test_only_the_active_consumer_s_redelivery_counts(world: World) -> None:
    client = world.connect()
    best = client.subscribe("t", "sub", Failover, priority_level=0)
    other = client.subscribe("t", "sub", Failover, priority_level=1)
    client.producer("t").send("a")
    assert best.receive() == ["a"]
    other.redeliver()
    assert best.payloads() == []
    best.redeliver()
    assert best.payloads() == ["a"]


def test_old_clients_hear_nothing_of_the_active_consumer(world: World) -> None:
    client = world.connect(version=11)
    consumer = client.subscribe("t", "sub", Failover)
    assert consumer.active_changes() == []


def test_closing_a_topic_forgets_the_change_of_the_active_consumer(world: World) -> None:
    client = world.connect()
    client.subscribe("t", "sub", Failover, priority_level=1)
    client.subscribe("t", "sub", Failover, priority_level=0)
    dispatcher = world.subscription("t", "sub").dispatcher
    assert dispatcher is not None
    world.unload("t")
    generation = dispatcher.generation
    world.advance(5000)
    assert dispatcher.generation == generation


# ---- Slow peers and slow disks ---------------------------------------------------


@pytest.mark.parametrize("type", TYPES)
def test_a_peer_that_does_not_read_is_fed_no_more(world: World, type: int) -> None:
    slow, other = world.connect(), world.connect()
    consumer = slow.subscribe("t", "sub", type)
    consumer.flow(1000)
    producer = other.producer("t")
    producer.send("a")
    slow.lag()
    for _ in range(50):
        producer.send("x" * 100_000)
    assert slow.session.outbox_bytes < 1000
    slow.catch_up()
    assert len(consumer.payloads()) == 51


def test_an_outbox_is_not_piled_up_while_the_shell_has_not_taken_it(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = world.connect().producer("t")
    for _ in range(40):
        producer.send("x" * 100_000)
    client.lags = True  # and nobody has told the session yet
    consumer.flow(1000)
    assert client.session.outbox_bytes < 1_300_000
    client.catch_up()
    assert len(consumer.payloads()) == 40


def test_others_get_what_a_slow_consumer_cannot_take(world: World) -> None:
    slow, quick = world.connect(), world.connect()
    lazy = slow.subscribe("t", "sub", Shared)
    eager = quick.subscribe("t", "sub", Shared)
    lazy.flow(100)
    eager.flow(100)
    slow.lag()
    producer = quick.producer("t")
    for i in range(5):
        producer.send(f"{i}")
    assert len(eager.payloads()) == 5


@pytest.mark.parametrize("type", TYPES)
def test_entries_come_from_disk_in_order(type: int) -> None:
    world = World(cache_bytes=0, dispatch_read_entries=3)
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    texts = [f"{i}" for i in range(20)]
    for text in texts:
        producer.send(text)
    assert consumer.receive() == texts


@pytest.mark.parametrize("type", TYPES)
def test_a_read_under_way_when_the_consumer_leaves_goes_to_nobody(type: int) -> None:
    world = World(cache_bytes=0)
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    client.producer("t").send("a")
    world.hold_reads()
    consumer.flow(10)
    consumer.close()
    again = client.subscribe("t", "sub", type)
    again.flow(10)
    world.release_reads()
    assert consumer.payloads() == []
    assert again.payloads() == ["a"]


@pytest.mark.parametrize("type", TYPES)
def test_a_read_under_way_when_the_topic_unloads_is_thrown_away(type: int) -> None:
    world = World(cache_bytes=0)
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    client.producer("t").send("a")
    world.hold_reads()
    consumer.flow(10)
    world.unload("t")
    world.release_reads()
    assert consumer.payloads() == []
    assert client.subscribe("t", "sub", type).receive() == ["a"]


@pytest.mark.parametrize("type", TYPES)
def test_an_entry_acked_while_it_is_read_is_not_delivered(type: int) -> None:
    world = World(cache_bytes=0)
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    ids = [producer.send(text) for text in ("a", "b")]
    world.hold_reads()
    consumer.flow(10)
    consumer.acked(ids[0])
    world.release_reads()
    assert consumer.payloads() == ["b"]


def test_a_read_that_fails_is_tried_again() -> None:
    world = World(cache_bytes=0)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    client.producer("t").send("a")
    world.host.read_error = IO_ERROR
    assert consumer.receive() == []
    assert "trying again" in world.host.warnings[0]
    world.host.read_error = None
    world.advance(READ_RETRY_MS)
    assert consumer.payloads() == ["a"]


def test_a_read_that_fails_after_the_end_is_nobody_s() -> None:
    world = World(cache_bytes=0)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    client.producer("t").send("a")
    world.host.read_error = IO_ERROR
    world.hold_reads()
    consumer.flow(1)
    world.unload("t")
    world.release_reads()
    assert not world.host.warnings


def test_much_is_handed_out_in_several_events() -> None:
    world = World(dispatch_read_entries=1)
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    producer = client.producer("t")
    for i in range(30):
        producer.send(f"{i}" + "x" * 50_000)
    client.session.receive(encode(CommandFlow(consumer.id, 100)))
    assert ROUND_BYTES_MAX <= client.session.outbox_bytes < ROUND_BYTES_MAX + 60_000
    world.settle()
    assert [text.rstrip("x") for text in consumer.payloads()] == [f"{i}" for i in range(30)]


def test_entries_trimmed_while_they_wait_are_forgotten() -> None:
    world = World(ledger_entries_max=1)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    ids = [producer.send(f"{i}") for i in range(4)]
    assert len(consumer.receive(4)) == 4
    consumer.redeliver()
    consumer.acked(*ids[:2])
    world.advance(5000)
    assert consumer.receive(10) == ["2", "3"]


def test_an_ack_of_a_trimmed_message_is_fine() -> None:
    world = World(ledger_entries_max=1)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    producer = client.producer("t")
    ids = [producer.send(f"{i}") for i in range(4)]
    consumer.acked(*ids)
    world.advance(5000)
    consumer.acked(*ids)
    with refused(ServerError.NotAllowedError):
        consumer.acked(MessageIdData(ids[-1].ledger_id + 100, 0))


def test_a_consumer_of_an_old_client_works(world: World) -> None:
    client = world.connect(version=4)
    consumer = client.subscribe("t", "sub")
    client.producer("t").send("a", "b")
    assert consumer.receive() == ["a", "b"]


@pytest.mark.parametrize("type", MANY)
def test_no_more_is_read_again_at_once_than_is_read_at_first(type: int) -> None:
    world = World(cache_bytes=0, dispatch_read_bytes=5000)
    client = world.connect()
    consumer = client.subscribe("t", "sub", type)
    producer = client.producer("t")
    texts = [f"{i:01000}" for i in range(20)]
    for text in texts:
        producer.send(text, partition_key=text[-2:])
    consumer.flow(100)
    held = consumer.deliveries()
    world.hold_reads()
    consumer.redeliver(*held)
    world.host.reads.popleft()()
    world.settle()
    assert consumer.payloads() == texts[:4]
    world.release_reads()
    assert consumer.payloads() == texts[4:]


@pytest.mark.parametrize("type", MANY)
def test_what_a_reader_held_of_a_trimmed_ledger_is_let_go_of(type: int) -> None:
    """I7: nothing keeps a ledger for a subscription that is in memory only."""
    world = World(ledger_entries_max=1)
    client = world.connect()
    producer = client.producer("t")
    reader = client.subscribe("t", "reader", type, durable=False, start=MessageIdData(-1, -1))
    for i in range(4):
        producer.send(f"{i}", partition_key="k")
    assert len(reader.receive()) == 4
    world.trim("t")
    assert reader.stats().unackedMessages == 0


def test_calls_for_redelivery_are_done_in_their_order_whatever_waits_for_the_disk() -> None:
    """Seed 84011652, I3: the older of two epochs came last, and its messages were dropped."""
    world = World()
    client = world.connect()
    consumer = client.subscribe("t", "sub", Exclusive)
    consumer.flow(10)
    producer, other = client.producer("t"), client.producer("u")
    ids = [producer.send(f"{i}") for i in range(3)]
    assert consumer.payloads() == ["0", "1", "2"]
    world.hold_disk()
    consumer.ask_ack(ids[0])
    other.publish("later" * (900 << 10))  # a group of its own
    consumer.redeliver(epoch=1)
    world.write_once()  # the ack, and nothing of what came after it
    consumer.redeliver(epoch=2)
    world.release_disk()
    assert [delivery.command.consumer_epoch for delivery in consumer.deliveries()][-2:] == [2, 2]
