"""Acks of single messages on a broker that acks whole batches only."""

from collections.abc import Iterator

import pytest
from client.conftest import NEVER_MS, WAIT_MS, Engine, make_engine

from magnetar.broker.setting.settings import BrokerSettings
from magnetar.client.door.blocking import Client
from magnetar.model import ConsumerType, InitialPosition


@pytest.fixture(scope="module")
def whole_only() -> Iterator[Engine]:
    with make_engine(BrokerSettings(batch_index_ack=False)) as engine:
        yield engine


@pytest.mark.parametrize("retries", [False, True], ids=["once", "retried"])
def test_a_batch_that_is_acked_message_by_message_is_gone_with_the_last(
    whole_only: Engine, topic: str, retries: bool
) -> None:
    with Client(whole_only.url) as client:
        consumer = client.subscribe(
            topic,
            "s",
            ConsumerType.Shared,
            initial_position=InitialPosition.Earliest,
            ack_receipt_enabled=True,
            auto_retry_acknowledgement=retries,
        )
        producer = client.create_producer(
            topic, batching_enabled=True, batching_max_publish_delay_ms=NEVER_MS
        )
        for number in range(5):
            producer.send_async(b"%d" % number, None)
        producer.flush()
        for _ in range(5):
            consumer.acknowledge(consumer.receive(WAIT_MS))
        stats = whole_only.stats(topic)["subscriptions"]["s"]
        assert (stats["msgBacklog"], stats["unackedMessages"]) == (0, 0)
