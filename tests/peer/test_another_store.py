"""A client leaves one broker for another, each with a store of its own, and keeps its acks.

What it acked there must not be taken for anything here: every message of the second broker
arrives, to the official client and to ours (I9).
"""

from collections.abc import Iterator

import pulsar
import pytest

import magnetar
from magnetar.testing import EmbeddedBroker

TOPIC = "t"
COUNT = 20


@pytest.fixture
def brokers() -> Iterator[tuple[EmbeddedBroker, EmbeddedBroker]]:
    with EmbeddedBroker() as left, EmbeddedBroker() as entered:
        yield left, entered


def published(broker: EmbeddedBroker, name: str) -> list[bytes]:
    """Messages, and a subscription that wants them."""
    with magnetar.Client(broker.url) as client:
        client.subscribe(TOPIC, "s", magnetar.ConsumerType.Shared).close()
        producer = client.create_producer(TOPIC)
        payloads = [b"%s %d" % (name.encode(), number) for number in range(COUNT)]
        for payload in payloads:
            producer.send(payload)
    return payloads


def test_acks_of_one_broker_ack_nothing_of_another(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker],
) -> None:
    """The official client's ids, given to the other broker as acks without a receipt."""
    left, entered = brokers
    published(left, "left")
    expected = published(entered, "entered")
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    first = pulsar.Client(left.url, logger=logger)
    second = pulsar.Client(entered.url, logger=logger)
    try:
        there = first.subscribe(TOPIC, "s", pulsar.ConsumerType.Shared)
        ids = [there.receive(30_000).message_id() for _ in range(COUNT)]
        here = second.subscribe(
            TOPIC,
            "s",
            pulsar.ConsumerType.Shared,
            receiver_queue_size=1,
            batch_index_ack_enabled=True,
        )
        for id in ids:
            here.acknowledge(id)
        received = [here.receive(30_000).data() for _ in range(COUNT)]
    finally:
        first.close()
        second.close()
    assert sorted(received) == sorted(expected)


def test_a_client_that_fails_over_with_unconfirmed_acks_gets_every_message(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker],
) -> None:
    left, entered = brokers
    published(left, "left")
    expected = published(entered, "entered")
    with magnetar.Client(left.url) as first, magnetar.Client(entered.url) as second:
        there = first.subscribe(TOPIC, "s", magnetar.ConsumerType.Shared)
        messages = [there.receive(30_000) for _ in range(COUNT)]
        here = second.subscribe(
            TOPIC,
            "s",
            magnetar.ConsumerType.Shared,
            receiver_queue_size=1,
            ack_receipt_enabled=True,
        )
        for message in messages:
            with pytest.raises(magnetar.NotAllowedError, match="never had this ledger"):
                here.acknowledge(message.message_id())
        received = [here.receive(30_000).data() for _ in range(COUNT)]
    assert sorted(received) == sorted(expected)
