"""Every subscription type as the official client uses it."""

import contextlib
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from itertools import chain
from typing import Any

import pulsar
import pytest
from peer.conftest import (
    MARKER,
    batched_or_not,
    datas,
    every_type,
    look,
    look_at_all,
    new_producer,
    payloads,
    publish,
    receive,
    receive_until_marker,
)
from support.broker_process import BrokerProcess
from support.waiting import wait_until

COUNT = 50
EARLIEST = pulsar.InitialPosition.Earliest


@batched_or_not
@every_type
def test_all_that_is_published_arrives_once_and_acks_are_final(
    client: Any, topic: str, type: Any, batching: bool
) -> None:
    consumer = client.subscribe(topic, "s", type)
    producer = new_producer(client, topic, batching=batching)
    sent = payloads(COUNT)
    ids = publish(producer, sent)
    got = receive(consumer, COUNT)
    assert datas(got) == sent
    assert [str(message.message_id()) for message in got] == [str(id) for id in ids]
    assert {message.redelivery_count() for message in got} == {0}
    for message in got:
        consumer.acknowledge(message)
    consumer.close()

    publish(producer, [MARKER])
    again = client.subscribe(topic, "s", type)
    assert receive_until_marker(again) == []


@batched_or_not
@every_type
def test_what_is_not_acked_comes_back_to_the_next_consumer(
    client: Any, topic: str, type: Any, batching: bool
) -> None:
    consumer = client.subscribe(topic, "s", type, batch_index_ack_enabled=True)
    producer = new_producer(client, topic, batching=batching)
    publish(producer, payloads(COUNT))
    for message in receive(consumer, COUNT)[::2]:
        consumer.acknowledge(message)
    consumer.close()

    publish(producer, [MARKER])
    again = client.subscribe(topic, "s", type, batch_index_ack_enabled=True)
    assert datas(receive_until_marker(again)) == payloads(COUNT)[1::2]


@every_type
def test_new_subscriptions_begin_where_they_are_told(client: Any, topic: str, type: Any) -> None:
    producer = new_producer(client, topic)
    publish(producer, payloads(3))
    late = client.subscribe(topic, "late", type)
    early = client.subscribe(topic, "early", type, initial_position=EARLIEST)
    publish(producer, [MARKER])
    assert receive_until_marker(late) == []
    assert datas(receive_until_marker(early)) == payloads(3)


def test_subscriptions_do_not_disturb_each_other(client: Any, topic: str) -> None:
    consumers = [client.subscribe(topic, f"s-{i}") for i in range(3)]
    publish(new_producer(client, topic, batching=True), payloads(COUNT))
    for consumer in consumers:
        assert datas(receive(consumer, COUNT)) == payloads(COUNT)


# ---- Exclusive and Failover ------------------------------------------------------------


def test_a_second_exclusive_consumer_is_refused(
    connect: Callable[[], Any], client: Any, topic: str
) -> None:
    first = client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        connect().subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        connect().subscribe(topic, "s", pulsar.ConsumerType.Shared)
    first.close()
    # With nobody there, the type may change too.
    connect().subscribe(topic, "s", pulsar.ConsumerType.Shared)


@batched_or_not
def test_failover_goes_on_where_the_active_consumer_stopped(
    connect: Callable[[], Any], client: Any, topic: str, batching: bool
) -> None:
    consumers = [
        connect().subscribe(
            topic,
            "s",
            pulsar.ConsumerType.Failover,
            consumer_name=f"c-{i}",
            batch_index_ack_enabled=True,
        )
        for i in range(3)
    ]
    producer = new_producer(client, topic, batching=batching)
    expected = payloads(30)
    publish(producer, expected)
    left = list(consumers)
    while left:
        active, message = first_served(left)
        got = [message, *receive(active, len(expected) - 1)]
        assert datas(got) == expected
        # Ten are done, cumulatively; whoever is next begins after them.
        active.acknowledge_cumulative(got[9])
        expected = expected[10:]
        left.remove(active)
        active.close()
    assert expected == []


def first_served(consumers: list[Any]) -> tuple[Any, Any]:
    served: list[tuple[Any, Any]] = []

    def found() -> bool:
        for consumer in consumers:
            message = look(consumer)
            if message is not None:
                served.append((consumer, message))
                return True
        return False

    wait_until(found, lambda: "no consumer was served")
    return served[0]


@batched_or_not
@pytest.mark.parametrize("type", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover])
def test_a_cumulative_ack_acks_everything_before(
    client: Any, topic: str, type: Any, batching: bool
) -> None:
    options = {"consumer_type": type, "batch_index_ack_enabled": True}
    consumer = client.subscribe(topic, "s", **options)
    producer = new_producer(client, topic, batching=batching)
    publish(producer, payloads(COUNT))
    got = receive(consumer, COUNT)
    consumer.acknowledge_cumulative(got[24])
    # One that is older changes nothing.
    consumer.acknowledge_cumulative(got[3])
    consumer.close()
    publish(producer, [MARKER])
    again = client.subscribe(topic, "s", **options)
    assert datas(receive_until_marker(again)) == payloads(COUNT)[25:]


@batched_or_not
def test_redelivery_of_all_begins_after_the_last_ack(
    client: Any, topic: str, batching: bool
) -> None:
    consumer = client.subscribe(topic, "s", batch_index_ack_enabled=True)
    publish(new_producer(client, topic, batching=batching), payloads(COUNT))
    got = receive(consumer, COUNT)
    # At the end of a batch: the client may send this after the request, and hides the rest.
    consumer.acknowledge_cumulative(got[19])
    consumer.redeliver_unacknowledged_messages()
    assert datas(receive(consumer, COUNT - 20)) == payloads(COUNT)[20:]


# ---- Shared ----------------------------------------------------------------------------


@batched_or_not
def test_shared_consumers_share(client: Any, topic: str, batching: bool) -> None:
    consumers = [
        client.subscribe(topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=10)
        for _ in range(3)
    ]
    publish(new_producer(client, topic, batching=batching), payloads(300))
    got = share_out(consumers, 300)
    assert sorted(chain(*got)) == payloads(300)
    assert all(got), "one consumer got nothing"


def share_out(consumers: list[Any], count: int) -> list[list[bytes]]:
    """Receives and acks in turn until `count` are there; what each consumer got."""
    got: list[list[bytes]] = [[] for _ in consumers]

    def turn() -> bool:
        for consumer, message in look_at_all(consumers):
            got[consumers.index(consumer)].append(message.data())
            consumer.acknowledge(message)
        return sum(map(len, got)) >= count

    wait_until(turn, lambda: f"{sum(map(len, got))} of {count} came")
    return got


HOLDER = """
import sys
import pulsar
url, topic, type, count = sys.argv[1:]
client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
consumer = client.subscribe(topic, "s", getattr(pulsar.ConsumerType, type))
print("subscribed", flush=True)
held = [consumer.receive(30_000) for _ in range(int(count))]
print("holding", flush=True)
sys.stdin.read()
"""


@batched_or_not
@every_type
def test_what_a_killed_client_held_goes_to_another(
    broker: BrokerProcess, client: Any, topic: str, type: Any, batching: bool
) -> None:
    command = [sys.executable, "-c", HOLDER, broker.url, topic, type.name, str(COUNT)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"subscribed\n"
            publish(new_producer(client, topic, batching=batching), payloads(COUNT))
            assert holder.stdout.readline() == b"holding\n"
        finally:
            holder.kill()
    survivor = subscribe_when_free(client, topic, type)
    assert datas(receive(survivor, COUNT)) == payloads(COUNT)


def subscribe_when_free(client: Any, topic: str, type: Any) -> Any:
    """The broker may hear of the end of the other client a moment later."""
    joined: list[Any] = []

    def free() -> bool:
        with contextlib.suppress(pulsar.ConsumerBusy):
            joined.append(client.subscribe(topic, "s", type))
        return bool(joined)

    wait_until(free, lambda: "the subscription was never free")
    return joined[0]


# ---- Key_Shared ------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["partition_key", "ordering_key"])
@batched_or_not
def test_keys_keep_their_order_while_consumers_come_and_go(
    client: Any, topic: str, batching: bool, by: str
) -> None:
    def join() -> Any:
        return client.subscribe(
            topic,
            "s",
            pulsar.ConsumerType.KeyShared,
            receiver_queue_size=50,
            batch_index_ack_enabled=True,
        )

    keys = 20
    rounds = 4
    size = 200
    producer = new_producer(
        client, topic, batching=batching, batching_type=pulsar.BatchingType.KeyBased
    )
    seen: dict[str, list[int]] = defaultdict(list)
    served: set[str] = set()
    consumers = [join()]
    for number in range(rounds):
        first = number * size
        publish(
            producer,
            [b"%d" % i for i in range(first, first + size)],
            **{by: lambda i: f"key-{i % keys}"},
        )
        # Half of them are taken by those who are there; then somebody comes or goes.
        take(consumers, seen, served, first + size // 2)
        if number < 2:
            consumers.append(join())
        else:
            consumers.pop(0).close()
    take(consumers, seen, served, rounds * size)
    assert len(seen) == keys
    for key, numbers in seen.items():
        assert numbers == sorted(numbers), f"{key} is out of order: {numbers}"
    assert sorted(chain(*seen.values())) == list(range(rounds * size))
    assert len(served) > 1


def take(consumers: list[Any], seen: dict[str, list[int]], served: set[str], count: int) -> None:
    """Receives and acks until `count` different messages were seen, in all."""

    def turn() -> bool:
        for consumer, message in look_at_all(consumers):
            number = int(message.data())
            key = message.ordering_key() or message.partition_key()
            # Held by one that left before its ack was sent: it may come again.
            if number not in seen[key]:
                seen[key].append(number)
            served.add(consumer.consumer_name())
            consumer.acknowledge(message)
        return total() >= count

    def total() -> int:
        return sum(map(len, seen.values()))

    wait_until(turn, lambda: f"{total()} of {count} came")


def test_a_key_that_is_held_waits_and_others_do_not(client: Any, topic: str) -> None:
    def join(name: str) -> Any:
        return client.subscribe(topic, "s", pulsar.ConsumerType.KeyShared, consumer_name=name)

    producer = new_producer(client, topic)
    holder = join("holder")
    publish(producer, [b"first"] * 20, partition_key=lambda i: f"key-{i}")
    first = receive(holder, 20)

    joined = join("joined")
    publish(producer, [b"second"] * 20, partition_key=lambda i: f"key-{i}")
    # A key nobody holds goes to the one that joined, past all that waits.
    publish(producer, [b"fresh"] * 50, partition_key=lambda i: f"fresh-{i}")
    (message,) = receive(joined, 1)
    assert message.data() == b"fresh"

    for message in first:
        holder.acknowledge(message)
    owners: dict[str, str] = {}

    def turn() -> bool:
        for consumer, message in look_at_all((holder, joined)):
            if message.data() == b"second":
                owners[message.partition_key()] = consumer.consumer_name()
        return len(owners) == 20

    wait_until(turn, lambda: f"of the second ones {sorted(owners)} came")
    assert set(owners.values()) == {"holder", "joined"}


def test_sticky_ranges_are_kept_apart(client: Any, topic: str) -> None:
    def join(*ranges: tuple[int, int]) -> Any:
        policy = pulsar.ConsumerKeySharedPolicy(
            pulsar.KeySharedMode.Sticky, sticky_ranges=list(ranges)
        )
        return client.subscribe(topic, "s", pulsar.ConsumerType.KeyShared, key_shared_policy=policy)

    low = join((0, 32767))
    with pytest.raises(pulsar.ConsumerAssignError):
        join((100, 200))
    high = join((32768, 65535))
    publish(new_producer(client, topic), payloads(200), partition_key=lambda i: f"key-{i}")
    got = share_out([low, high], 200)
    assert sorted(chain(*got)) == payloads(200)
    assert all(got)


def test_a_client_knows_that_cumulative_acks_are_not_for_sharing(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    publish(new_producer(client, topic), payloads(1))
    (message,) = receive(consumer, 1)
    with pytest.raises(pulsar.CumulativeAcknowledgementNotAllowedError):
        consumer.acknowledge_cumulative(message)


# ---- The end of a subscription ---------------------------------------------------------


@every_type
def test_unsubscribe_forgets_everything(client: Any, topic: str, type: Any) -> None:
    consumer = client.subscribe(topic, "s", type)
    producer = new_producer(client, topic)
    publish(producer, payloads(5))
    receive(consumer, 5)
    consumer.unsubscribe()
    again = client.subscribe(topic, "s", type)
    publish(producer, [MARKER])
    assert receive_until_marker(again) == []


def test_a_subscription_with_other_consumers_is_not_dropped(client: Any, topic: str) -> None:
    one, other = (client.subscribe(topic, "s", pulsar.ConsumerType.Shared) for _ in range(2))
    with pytest.raises(pulsar.PulsarException):
        one.unsubscribe()
    publish(new_producer(client, topic), payloads(4))
    assert sorted(chain(*share_out([one, other], 4))) == payloads(4)


# ---- Ways to receive -------------------------------------------------------------------


@pytest.mark.parametrize("queue", [1, 3, 25])
@batched_or_not
@every_type
def test_a_short_queue_is_enough(
    client: Any, topic: str, type: Any, batching: bool, queue: int
) -> None:
    consumer = client.subscribe(topic, "s", type, receiver_queue_size=queue)
    publish(new_producer(client, topic, batching=batching), payloads(COUNT))
    assert datas(receive(consumer, COUNT)) == payloads(COUNT)


@every_type
def test_no_queue_at_all(client: Any, topic: str, type: Any) -> None:
    consumer = client.subscribe(topic, "s", type, receiver_queue_size=0)
    publish(new_producer(client, topic), payloads(5))
    assert datas([consumer.receive() for _ in range(5)]) == payloads(5)


@batched_or_not
def test_a_listener(client: Any, topic: str, batching: bool) -> None:
    heard: list[bytes] = []

    def listen(consumer: Any, message: Any) -> None:
        heard.append(message.data())
        consumer.acknowledge(message)

    client.subscribe(topic, "s", message_listener=listen)
    publish(new_producer(client, topic, batching=batching), payloads(COUNT))
    wait_until(lambda: len(heard) >= COUNT, lambda: f"{len(heard)} of {COUNT} came")
    assert heard == payloads(COUNT)


@batched_or_not
def test_many_at_once(client: Any, topic: str, batching: bool) -> None:
    policy = pulsar.ConsumerBatchReceivePolicy(10, 1 << 20, 500)
    consumer = client.subscribe(topic, "s", batch_receive_policy=policy)
    publish(new_producer(client, topic, batching=batching), payloads(COUNT))
    got: list[bytes] = []
    while len(got) < COUNT:
        messages = consumer.batch_receive()
        assert len(messages) <= 10
        got += datas(messages)
    assert got == payloads(COUNT)


# ---- Producers -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(pulsar.CompressionType.__members__))
@batched_or_not
def test_every_compression(client: Any, topic: str, kind: str, batching: bool) -> None:
    consumer = client.subscribe(topic, "s")
    compression = getattr(pulsar.CompressionType, kind)
    producer = new_producer(client, topic, batching=batching, compression_type=compression)
    sent = [payload * 500 for payload in payloads(20)]
    publish(producer, sent)
    assert datas(receive(consumer, 20)) == sent


@batched_or_not
def test_all_that_a_message_carries_arrives(client: Any, topic: str, batching: bool) -> None:
    consumer = client.subscribe(topic, "s")
    producer = new_producer(client, topic, batching=batching, producer_name="the one")
    publish(
        producer,
        [b"", b"\x00\xff" * 500, None, *payloads(7)],
        properties=lambda i: {"number": str(i), "größe": "weiß"},
        partition_key=lambda i: f"key-{i}",
        ordering_key=lambda i: f"order-{i}",
        event_timestamp=lambda i: 1_700_000_000_000 + i,
    )
    got = receive(consumer, 10)
    assert datas(got) == [b"", b"\x00\xff" * 500, b"", *payloads(7)]
    assert [message.has_null_value() for message in got] == [False, False, True] + [False] * 7
    for i, message in enumerate(got):
        assert message.properties() == {"number": str(i), "größe": "weiß"}
        assert message.partition_key() == f"key-{i}"
        assert message.ordering_key() == f"order-{i}"
        assert message.event_timestamp() == 1_700_000_000_000 + i
        assert message.producer_name() == "the one"
        assert message.topic_name() == topic


def test_names_that_the_broker_gives_are_unique(client: Any, topic: str) -> None:
    names = {client.create_producer(topic).producer_name() for _ in range(5)}
    assert len(names) == 5
    assert all(names)


def test_a_name_is_taken_once(connect: Callable[[], Any], client: Any, topic: str) -> None:
    producer = client.create_producer(topic, producer_name="mine")
    with pytest.raises(pulsar.ProducerBusy):
        connect().create_producer(topic, producer_name="mine")
    producer.close()
    connect().create_producer(topic, producer_name="mine")


def test_an_exclusive_producer_is_alone(
    connect: Callable[[], Any], client: Any, topic: str
) -> None:
    mode = pulsar.ProducerAccessMode
    alone = client.create_producer(topic, access_mode=mode.Exclusive)
    with pytest.raises(pulsar.ProducerFenced):
        connect().create_producer(topic, access_mode=mode.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        connect().create_producer(topic, access_mode=mode.Shared)
    alone.send(b"still mine")
    alone.close()
    connect().create_producer(topic, access_mode=mode.Shared).send(b"now anybody's")


def test_one_that_waits_for_the_topic_gets_it_in_the_end(
    connect: Callable[[], Any], client: Any, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    mode = pulsar.ProducerAccessMode
    first = client.create_producer(topic, access_mode=mode.Exclusive)
    first.send(b"from the first")
    patient = connect()
    sent = threading.Event()

    def wait_and_send() -> None:
        waiting = patient.create_producer(topic, access_mode=mode.WaitForExclusive)
        waiting.send(b"from the second")
        sent.set()

    thread = threading.Thread(target=wait_and_send)
    thread.start()
    first.send(b"from the first again")
    first.close()
    thread.join(30)
    assert sent.is_set()
    assert datas(receive(consumer, 3)) == [
        b"from the first",
        b"from the first again",
        b"from the second",
    ]


def test_fencing_ends_the_producer_before(
    connect: Callable[[], Any], client: Any, topic: str
) -> None:
    mode = pulsar.ProducerAccessMode
    before = client.create_producer(topic, access_mode=mode.Exclusive)
    before.send(b"before")
    after = connect().create_producer(topic, access_mode=mode.ExclusiveWithFencing)
    after.send(b"after")
    with pytest.raises((pulsar.ProducerFenced, pulsar.AlreadyClosed)):
        before.send(b"too late")


def test_a_message_that_is_too_large_harms_nobody(client: Any, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(bytes(6 << 20))
    largest = bytes(5 * 1024 * 1024 - 1024)
    producer.send(largest)
    assert receive(consumer, 1)[0].data() == largest


# ---- Topics that are not kept -----------------------------------------------------------


@every_type
def test_a_topic_that_is_not_persistent(client: Any, topic: str, type: Any) -> None:
    name = topic.replace("persistent://", "non-persistent://")
    consumer = client.subscribe(name, "s", type)
    producer = client.create_producer(name)
    publish(producer, payloads(20), partition_key=lambda i: f"key-{i}")
    assert datas(receive(consumer, 20)) == payloads(20)


def test_the_broker_says_nothing_of_all_this(broker: BrokerProcess) -> None:
    """Runs last: nothing above is a reason for a warning."""
    assert " WARNING " not in broker.stderr
    assert " ERROR " not in broker.stderr
