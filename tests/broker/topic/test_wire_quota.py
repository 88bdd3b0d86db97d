"""Backlog quotas: producers are held up or turned away, or the oldest messages let go of."""

import pytest
from support.wire_client import refused
from support.world import World

from magnetar.broker.housekeeping import check_quota
from magnetar.model import ProducerAccessMode, ServerError
from magnetar.protocol import CommandSend

WaitForExclusive = ProducerAccessMode.WaitForExclusive


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("producer_request_hold", ServerError.ProducerBlockedQuotaExceededError),
        ("producer_exception", ServerError.ProducerBlockedQuotaExceededException),
    ],
)
def test_a_full_backlog_turns_producers_away(policy: str, code: ServerError) -> None:
    world = World(backlog_quota_bytes=100, backlog_quota_policy=policy)
    client = world.connect()
    consumer = client.subscribe("t")
    producer = client.producer("t")
    waiting = client.producer("t", producer_access_mode=WaitForExclusive)
    ids = [producer.send("x" * 40) for _ in range(4)]
    world.advance(60_000)
    assert sorted(client.closed_producers()) == [producer.id, waiting.id]
    with refused(code, "exceeds its quota"):
        client.producer("t")
    consumer.acked(*ids)
    world.advance(60_000)
    client.producer("t").send("b")


def test_a_send_that_crosses_the_quota_is_refused() -> None:
    world = World(backlog_quota_bytes=10)
    client = world.connect()
    client.subscribe("t")
    producer = client.producer("t")
    producer.send("x" * 40)
    topic = world.topic("t")
    producers = dict(topic.producers)
    check_quota(topic, world.host.now)
    topic.publish(producers[producer.name], CommandSend(producer.id, 1, producer.entry(b"a", 1)))
    assert topic.incoming.messages == 1


def test_old_messages_exceed_the_quota_of_age() -> None:
    world = World(backlog_quota_seconds=10)
    client = world.connect()
    consumer = client.subscribe("t")
    client.producer("t").send("a")
    world.advance(60_000)
    with refused(ServerError.ProducerBlockedQuotaExceededError):
        client.producer("t")
    consumer.flow(1)
    consumer.acked(consumer.one())
    world.advance(60_000)
    client.producer("t")


def test_eviction_lets_go_of_the_oldest() -> None:
    world = World(backlog_quota_bytes=400, backlog_quota_policy="consumer_backlog_eviction")
    client = world.connect()
    client.subscribe("t", "slow").close()
    producer = client.producer("t")
    for i in range(10):
        producer.send(f"{i}" + "x" * 40)
    size = world.topic("t").storage.size_bytes() // 10
    world.advance(60_000)
    producer.send("last")
    left = [text[0] for text in client.subscribe("t", "slow").receive()]
    assert left == [str(i) for i in range(10 - 400 // size, 10)] + ["l"]


def test_eviction_by_age_lets_go_of_what_is_too_old() -> None:
    world = World(backlog_quota_seconds=10, backlog_quota_policy="consumer_backlog_eviction")
    client = world.connect()
    client.subscribe("t", "slow").close()
    producer = client.producer("t")
    producer.send("old")
    world.advance(55_000)
    producer.send("new")
    world.advance(5_000)
    assert client.subscribe("t", "slow").receive() == ["new"]


def test_a_topic_without_subscriptions_has_no_backlog() -> None:
    world = World(backlog_quota_bytes=0)
    producer = world.connect().producer("t")
    producer.send("a")
    world.advance(60_000)
    producer.send("b")


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
    size = topic.storage.size_bytes() // 10
    world.advance(60_000)
    left = [text[0] for text in client.subscribe("t", "slow").receive()]
    assert 0 < len(left) <= 500 // size
    assert left == [f"{i}" for i in range(10 - len(left), 10)]
