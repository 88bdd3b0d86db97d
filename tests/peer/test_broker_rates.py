"""Rates, as the official Python client meets them: it waits, and loses nothing.

Only the least time that something must take is looked at: what is more is the machine's.
"""

import time
from collections.abc import Callable
from typing import Any

import pulsar
import pytest
from peer.conftest import every_type, new_client, publish, receive, rest, rest_path
from support.broker_process import BrokerProcess

EARLIEST = pulsar.InitialPosition.Earliest
RATE = 50
COUNT = 120
# What is there at once is one second's worth; the rest comes at the rate. A little less, for
# the clocks of two processes.
LEAST_S = (COUNT - RATE) / RATE - 0.1


def set_policy(broker: BrokerProcess, topic: str, policy: str, body: object) -> None:
    rest(broker, "POST", f"{rest_path(topic)}/{policy}", json=body)


def stats(broker: BrokerProcess, topic: str) -> Any:
    return rest(broker, "GET", f"{rest_path(topic)}/stats").json()


@pytest.mark.parametrize("batching", [True, False], ids=["batched", "single"])
def test_a_producer_is_slowed_down_and_nothing_is_lost(
    broker: BrokerProcess, client: Any, topic: str, batching: bool
) -> None:
    rest(broker, "PUT", rest_path(topic))
    set_policy(broker, topic, "publishRate", {"publishThrottlingRateInMsg": RATE})
    producer = client.create_producer(
        topic, batching_enabled=batching, batching_max_messages=10, block_if_queue_full=True
    )
    begun = time.monotonic()
    ids = publish(producer, [f"{i}".encode() for i in range(COUNT)])
    # The last batch is let through for one token.
    assert time.monotonic() - begun >= LEAST_S - (10 / RATE if batching else 0)
    assert len(set(map(str, ids))) == COUNT
    assert stats(broker, topic)["publishRateLimitedTimes"] > 0
    consumer = client.subscribe(topic, "sub", initial_position=EARLIEST)
    got = [message.data() for message in receive(consumer, COUNT)]
    assert got == [f"{i}".encode() for i in range(COUNT)]


@every_type
@pytest.mark.parametrize("policy", ["dispatchRate", "subscriptionDispatchRate"])
def test_a_backlog_comes_at_the_rate_and_whole(
    broker: BrokerProcess, client: Any, topic: str, type: pulsar.ConsumerType, policy: str
) -> None:
    publish(client.create_producer(topic), [f"{i}".encode() for i in range(COUNT)])
    set_policy(broker, topic, policy, {"dispatchThrottlingRateInMsg": RATE})
    begun = time.monotonic()
    consumer = client.subscribe(topic, "sub", type, initial_position=EARLIEST)
    got = receive(consumer, COUNT)
    assert time.monotonic() - begun >= LEAST_S
    assert {message.data() for message in got} == {f"{i}".encode() for i in range(COUNT)}
    whose = "Topic" if policy == "dispatchRate" else "Subscription"
    held = stats(broker, topic)["subscriptions"]["sub"]
    assert held[f"dispatchThrottledMsgEventsBy{whose}Limit"] > 0
    for message in got:
        consumer.acknowledge(message)


def test_what_is_delivered_again_is_held_to_the_rate_too(
    broker: BrokerProcess, client: Any, topic: str
) -> None:
    consumer = client.subscribe(topic, "sub", pulsar.ConsumerType.Shared)
    publish(client.create_producer(topic), [f"{i}".encode() for i in range(RATE)])
    receive(consumer, RATE)
    set_policy(broker, topic, "dispatchRate", {"dispatchThrottlingRateInMsg": RATE // 5})
    begun = time.monotonic()
    consumer.redeliver_unacknowledged_messages()
    receive(consumer, RATE)
    assert time.monotonic() - begun >= 4 - 0.1


def test_a_consumer_that_subscribes_too_often_is_refused(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str
) -> None:
    rate = {"subscribeThrottlingRatePerConsumer": 2, "ratePeriodInSecond": 600}
    rest(broker, "PUT", rest_path(topic))
    set_policy(broker, topic, "subscribeRate", rate)
    # Consumers of new clients have one id, and this name.
    for _ in range(2):
        connect().subscribe(topic, "sub", consumer_name="eager").close()
    with pytest.raises(pulsar.NotAllowedError):
        connect().subscribe(topic, "sub", consumer_name="eager")
    connect().subscribe(topic, "sub", consumer_name="another").close()


def test_another_client_publishes_freely_beside_one_that_waits(
    broker: BrokerProcess, connect: Callable[[], Any], topic: str
) -> None:
    """The one that waits has half a minute before it; the other is done before it gets on."""
    rest(broker, "PUT", rest_path(topic))
    set_policy(broker, topic, "publishRate", {"publishThrottlingRateInMsg": 1})
    slow = connect().create_producer(topic, batching_enabled=False, send_timeout_millis=0)
    answered: list[Any] = []
    for i in range(30):
        slow.send_async(f"{i}".encode(), lambda result, id: answered.append(id))
    free = connect()
    publish(free.create_producer(f"{topic}-free"), [f"{i}".encode() for i in range(1000)])
    assert len(receive(free.subscribe(f"{topic}-free", "s", initial_position=EARLIEST), 1000))
    set_policy(broker, topic, "publishRate", {"publishThrottlingRateInMsg": -1})
    slow.flush()
    assert len(answered) == 30


def test_a_client_whose_connection_is_not_read_does_not_give_it_up(
    topic: str, tmp_path: Any
) -> None:
    """The broker pings it, for its own pings are not read."""
    options = ("--set", "keep_alive_ms=500")
    with BrokerProcess(tmp_path / "data", options=options) as broker:
        client = new_client(broker.url)
        rest(broker, "PUT", rest_path(topic))
        set_policy(broker, topic, "publishRate", {"publishThrottlingRateInMsg": 1})
        producer = client.create_producer(topic, batching_enabled=False)
        publish(producer, [b"a", b"b", b"c", b"d"])
        connections = {one["address"] for one in stats(broker, topic)["publishers"]}
        publish(producer, [b"e"])
        assert {one["address"] for one in stats(broker, topic)["publishers"]} == connections
        client.close()
