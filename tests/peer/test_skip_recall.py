"""What the official client does when messages that it has queued are skipped (I5)."""

import contextlib
from typing import Any

import httpx
import pulsar
import pytest
from peer.conftest import NEVER_FLUSH_MS, WAIT_MS, publish, receive
from support.broker_process import BrokerProcess
from support.waiting import wait_until

SHARED_TYPES = pytest.mark.parametrize(
    "type", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared], ids=lambda t: t.name
)


def skip(broker: BrokerProcess, topic: str, *ids: Any, **query: str) -> Any:
    """What the broker says of each id."""
    path = topic.replace("://", "/")
    answer = httpx.post(
        f"{broker.http_url}/admin/v2/{path}/subscription/s/skipByMessageIds",
        params={"details": "true"} | query,
        json={
            "type": "messageId",
            "messageIds": [{"ledgerId": i.ledger_id(), "entryId": i.entry_id()} for i in ids],
        },
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def unacked(broker: BrokerProcess, topic: str) -> int:
    path = topic.replace("://", "/")
    stats = httpx.get(f"{broker.http_url}/admin/v2/{path}/stats").json()
    return int(stats["subscriptions"]["s"]["unackedMessages"])


def queued(client: Any, broker: BrokerProcess, topic: str, type: Any, count: int) -> Any:
    """A consumer that has so many messages in its queue, and their ids."""
    consumer = client.subscribe(topic, "s", type, receiver_queue_size=1000, consumer_name="w")
    ids = publish(
        client.create_producer(topic, block_if_queue_full=True),
        [b"%d" % number for number in range(count)],
        partition_key=lambda number: f"k{number % 3}",
    )
    wait_until(lambda: unacked(broker, topic) == count, lambda: "not all are queued")
    return consumer, ids


@SHARED_TYPES
def test_a_skipped_message_in_a_full_queue_never_comes_and_all_others_do(
    client: Any, broker: BrokerProcess, topic: str, type: Any
) -> None:
    consumer, ids = queued(client, broker, topic, type, 1000)
    first = [message.data() for message in receive(consumer, 100)]
    answer = skip(broker, topic, ids[500])
    assert answer["unconfirmed"] == 0
    (row,) = answer["messageIds"]
    assert (row["result"], row["closed"]) == ("skipped", ["w"])
    # What it had not acked comes again, for the consumer was closed; the skipped one does not.
    got = [message.data() for message in receive(consumer, 999)]
    assert b"500" not in got
    assert set(first) | set(got) == {b"%d" % n for n in range(1000) if n != 500}
    with pytest.raises(pulsar.Timeout):
        consumer.receive(300)


def test_what_comes_again_was_not_redelivered_and_keeps_its_order(
    client: Any, broker: BrokerProcess, topic: str
) -> None:
    consumer, ids = queued(client, broker, topic, pulsar.ConsumerType.KeyShared, 300)
    skip(broker, topic, ids[7])
    got = receive(consumer, 299)
    assert {message.redelivery_count() for message in got} == {0}
    numbers = [int(message.data()) for message in got]
    for key in range(3):
        of_key = [number for number in numbers if number % 3 == key]
        assert of_key == sorted(of_key)


@pytest.mark.parametrize("again", range(5))  # whether a queue is handed out is luck
def test_acks_that_are_given_around_the_skip_are_kept(
    client: Any, broker: BrokerProcess, topic: str, again: int
) -> None:
    consumer, ids = queued(client, broker, topic, pulsar.ConsumerType.Shared, 100)
    got = receive(consumer, 20)
    for message in got[:10]:
        consumer.acknowledge(message)  # gathers for 100 ms: it is sent around the close
    skip(broker, topic, ids[50])
    for message in got[10:]:
        consumer.acknowledge(message)
    acked = {message.data() for message in got}
    rest = {b"%d" % number for number in range(100)} - acked - {b"50"}
    while rest:
        message = consumer.receive(WAIT_MS)
        # The client hands out its old queue until it knows that it is subscribed again.
        assert message.data() != b"50"
        rest.discard(message.data())
        consumer.acknowledge(message)
    wait_until(lambda: unacked(broker, topic) == 0, lambda: "acks were lost")


def test_with_recall_false_the_queue_is_left_alone(
    client: Any, broker: BrokerProcess, topic: str
) -> None:
    consumer, ids = queued(client, broker, topic, pulsar.ConsumerType.Shared, 10)
    (row,) = skip(broker, topic, ids[5], recall="false")["messageIds"]
    assert row == {
        "ledgerId": ids[5].ledger_id(),
        "entryId": ids[5].entry_id(),
        "result": "skipped",
    }
    assert [message.data() for message in receive(consumer, 10)] == [b"%d" % n for n in range(10)]


def test_of_partitions_the_client_keeps_what_it_has_and_the_answer_says_so(
    client: Any, broker: BrokerProcess, topic: str
) -> None:
    """It has one more queue for all of them, and closing the consumer of one empties none."""
    path = topic.replace("://", "/")
    made = httpx.put(f"{broker.http_url}/admin/v2/{path}/partitions", json=2)
    assert made.status_code == 204
    partition = f"{topic}-partition-0"
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=1000, consumer_name="w"
    )
    ids = publish(client.create_producer(partition), [b"%d" % number for number in range(10)])
    wait_until(lambda: unacked(broker, partition) == 10, lambda: "not all are queued")
    answer = skip(broker, topic, ids[5])
    assert (answer["skipped"], answer["unconfirmed"]) == (1, 1)
    assert answer["messageIds"][0]["unconfirmed"] == ["w"]
    # And nothing comes twice.
    assert [message.data() for message in receive(consumer, 10)] == [b"%d" % n for n in range(10)]
    with pytest.raises(pulsar.Timeout):
        consumer.receive(300)


def test_the_rest_of_a_batch_that_was_refused_is_not_handed_out_after_a_skip(
    connect: Any, broker: BrokerProcess, topic: str
) -> None:
    """The client that refused one of the batch keeps the others, though another has it now."""
    options = {"consumer_type": pulsar.ConsumerType.Shared, "negative_ack_redelivery_delay_ms": 100}
    first = connect().subscribe(topic, "s", receiver_queue_size=5, consumer_name="a", **options)
    producer = connect().create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=5,
        batching_max_publish_delay_ms=NEVER_FLUSH_MS,
    )
    for number in range(5):
        producer.send_async(b"%d" % number, lambda result, id: None)
    producer.flush()
    message = first.receive(WAIT_MS)
    second = connect().subscribe(topic, "s", receiver_queue_size=5, consumer_name="b", **options)
    first.negative_acknowledge(message)
    wait_until(lambda: holders(broker, topic) == {"b"}, lambda: "it is with the first still")
    answer = skip(broker, topic, message.message_id())
    assert answer["unconfirmed"] == 0
    assert sorted(answer["messageIds"][0]["closed"]) == ["a", "b"]
    for consumer in (first, second):
        with pytest.raises(pulsar.Timeout):
            consumer.receive(300)


def test_a_client_that_asked_for_everything_again_does_not_hand_out_what_was_skipped(
    connect: Any, broker: BrokerProcess, topic: str
) -> None:
    client = connect()
    first, ids = queued(client, broker, topic, pulsar.ConsumerType.Shared, 10)
    first.receive(WAIT_MS)
    second = connect().subscribe(topic, "s", pulsar.ConsumerType.Shared, consumer_name="b")
    first.redeliver_unacknowledged_messages()
    wait_until(lambda: unacked(broker, topic) == 10, lambda: "not all are with somebody again")
    assert skip(broker, topic, ids[5])["unconfirmed"] == 0
    for consumer in (first, second):
        assert b"5" not in rest(consumer)


def rest(consumer: Any) -> list[bytes]:
    """All that it still hands out."""
    got: list[bytes] = []
    with contextlib.suppress(pulsar.Timeout):
        while True:
            got.append(consumer.receive(300).data())
    return got


def holders(broker: BrokerProcess, topic: str) -> set[str]:
    """Which consumers have something unacked."""
    path = topic.replace("://", "/")
    stats = httpx.get(f"{broker.http_url}/admin/v2/{path}/stats").json()
    consumers = stats["subscriptions"]["s"]["consumers"]
    return {one["consumerName"] for one in consumers if one["unackedMessages"]}


@SHARED_TYPES
def test_a_client_without_a_queue_confirms_a_skip_before_it_asks_for_messages(
    client: Any, broker: BrokerProcess, topic: str, type: Any
) -> None:
    """It does so only when its application wants one, which may be never."""
    consumer = client.subscribe(topic, "s", type, receiver_queue_size=0, consumer_name="w")
    (id,) = publish(client.create_producer(topic), [b"0"])
    assert consumer.receive().data() == b"0"  # without a time, for it takes none
    answer = skip(broker, topic, id)
    assert answer["unconfirmed"] == 0
    assert answer["messageIds"][0]["closed"] == ["w"]
    publish(client.create_producer(topic), [b"1"])
    assert consumer.receive().data() == b"1"
