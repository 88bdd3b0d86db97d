"""Metrics tell the truth: of latencies, of acks, and of topics that nobody has opened."""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import httpx
import pulsar
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.requirement import need
from support.served import Served
from support.waiting import wait_until

import magnetar
from magnetar.admin.metric.resting import RestingTopics
from magnetar.admin.route.metrics import make_scrape
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.model import TopicName

PROMTOOL = shutil.which("promtool")
HOW = "install Debian's package: apt-get install prometheus"
# What topics that nobody uses have too; ages go on by themselves.
BACKLOG = (
    "pulsar_subscriptions_count",
    "pulsar_storage_size",
    "pulsar_storage_backlog_size",
    "pulsar_msg_backlog",
    "pulsar_subscription_back_log",
    "pulsar_subscription_back_log_messages",
    "pulsar_subscription_acked_ranges",
    "pulsar_subscription_partially_acked_batches",
    "pulsar_subscription_consumers_count",
)
AGES = ("pulsar_storage_backlog_age_seconds", "magnetar_subscription_oldest_unacked_seconds")

Samples = dict[tuple[str, str, str], float]


@pytest.fixture
def broker(own_broker: Callable[[BrokerSettings], Served]) -> Served:
    return own_broker(BrokerSettings())


def text_of(served: Served) -> str:
    answer = httpx.get(f"{served.http_url}/metrics", timeout=60)
    assert answer.status_code == 200
    return answer.text


def samples(served: Served) -> Samples:
    """By metric, topic and subscription; of histograms the counts."""
    found: Samples = {}
    for family in text_string_to_metric_families(text_of(served)):
        for sample in family.samples:
            labels = sample.labels
            if "le" not in labels:
                key = sample.name, labels.get("topic", ""), labels.get("subscription", "")
                found[key] = sample.value
    return found


def backlog(served: Served) -> Samples:
    return {key: value for key, value in samples(served).items() if key[0] in BACKLOG}


def test_promtool_finds_nothing_to_say(broker: Served) -> None:
    need("promtool", PROMTOOL is not None, HOW)
    assert PROMTOOL is not None
    broker.publish("orders", 3)
    with broker.client() as client:
        client.subscribe("orders", 'a "name"')
        text = text_of(broker)
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# ---- Histograms ------------------------------------------------------------------------


def test_every_publish_is_in_the_histogram_and_every_first_delivery(broker: Served) -> None:
    with broker.client() as client:
        shared = pulsar.ConsumerType.Shared
        consumer = client.subscribe("orders", "s", consumer_type=shared)
        broker.publish("orders", 30, batch=10)
        broker.publish("orders", 7)
        for _ in range(37):
            consumer.receive(20_000)
        found = samples(broker)
        assert found["magnetar_publish_latency_seconds_count", "", ""] == 3 + 7
        assert found["magnetar_dispatch_latency_seconds_count", "", ""] == 3 + 7
        consumer.redeliver_unacknowledged_messages()
        for _ in range(37):
            consumer.receive(20_000)
        found = samples(broker)
        assert found["magnetar_dispatch_latency_seconds_count", "", ""] == 3 + 7
    topic = "persistent://public/default/orders"
    assert found["magnetar_subscription_redelivered_messages_total", topic, "s"] == 37


def test_every_group_is_in_the_histograms_with_all_its_records(broker: Served) -> None:
    broker.publish("orders", 25)

    def settled() -> None:
        store = broker.broker.store
        figures = store.log.figures
        # What opening the store wrote is in there, too.
        assert figures.records.sum == store.ticket_last + 1
        groups = sum(figures.records.counts)
        assert sum(figures.sync_us.counts) == sum(figures.bytes.counts) == groups
        assert figures.sync_us.sum > 0

    broker.call(settled)


def test_publishes_take_as_long_as_the_disk_does(broker: Served) -> None:
    """The group is held up for longer than all else takes."""
    disk = broker.server.store.log.disk
    write = disk.write
    held: list[int] = []

    def slow(path: str, offset: int, data: bytes, *, sync: bool) -> None:
        held.append(1)
        time.sleep(0.25)
        write(path, offset, data, sync=sync)

    with broker.client() as client:
        producer = client.create_producer("orders")
        disk.write = slow  # type: ignore[method-assign]
        producer.send(b"x")
        disk.write = write  # type: ignore[method-assign]
    latency = broker.broker.latency.publish_us
    assert held
    assert sum(latency.counts) == 1
    assert latency.sum >= 250_000


# ---- Acks ------------------------------------------------------------------------------


def test_acks_are_counted_by_id_and_those_that_come_again_apart(broker: Served) -> None:
    ids = broker.publish("orders", 10)
    assert len(ids) == 10
    topic = "persistent://public/default/orders"
    with magnetar.Client(broker.url) as client:
        consumer = client.subscribe(
            "orders", "s", initial_position=magnetar.InitialPosition.Earliest
        )
        messages = [consumer.receive(timeout_millis=20_000) for _ in range(10)]
        for message in messages[:6]:
            consumer.acknowledge(message)
        wait_until(
            lambda: samples(broker)["magnetar_subscription_acked_ids_total", topic, "s"] == 6
        )
        consumer.close()
        # What a consumer did that is gone is counted all the same.
        found = samples(broker)
        assert found["magnetar_subscription_acked_ids_total", topic, "s"] == 6
        assert found["magnetar_subscription_acked_again_total", topic, "s"] == 0
        again = client.subscribe("orders", "s")
        for message in messages[:4]:
            again.acknowledge(message.message_id())
        wait_until(
            lambda: samples(broker)["magnetar_subscription_acked_again_total", topic, "s"] == 4
        )
    assert samples(broker)["pulsar_subscription_back_log_messages", topic, "s"] == 4


def test_transactions_are_counted_while_there_are_any_to_count(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings(transactions=True))
    topic = "persistent://public/default/orders"
    with magnetar.Client(served.url) as client:
        consumer = client.subscribe("orders", "s", ack_receipt_enabled=True)
        producer = client.create_producer("orders")
        producer.send(b"plain")
        one, other, third = (client.transaction(timeout=30) for _ in range(3))
        consumer.acknowledge(consumer.receive(20_000), transaction=one)
        producer.send(b"a", transaction=one)
        producer.send(b"b", transaction=other)
        found = samples(served)
        assert found["pulsar_txn_active_count", "", ""] == 3
        assert found["pulsar_txn_created_total", "", ""] == 3
        assert 0 <= found["magnetar_txn_oldest_seconds", "", ""] < 30
        assert found["pulsar_txn_tb_active_total", topic, ""] == 2
        assert found["magnetar_subscription_txn_pending", topic, "s"] == 1
        one.commit()
        other.abort()
        third.commit()
    found = samples(served)
    assert found["pulsar_txn_active_count", "", ""] == 0
    assert found["pulsar_txn_committed_total", "", ""] == 2
    assert found["pulsar_txn_aborted_total", "", ""] == 1
    assert found["pulsar_txn_timeout_total", "", ""] == 0
    assert found["magnetar_txn_oldest_seconds", "", ""] == 0
    assert found["pulsar_txn_tb_committed_total", topic, ""] == 1
    assert found["pulsar_txn_tb_aborted_total", topic, ""] == 1
    assert found["magnetar_subscription_txn_pending", topic, "s"] == 0


def test_a_broker_without_transactions_has_no_metrics_of_them(broker: Served) -> None:
    broker.publish("orders", 1)
    assert not [name for name, _, _ in samples(broker) if "txn" in name]


def test_the_age_is_that_of_the_oldest_entry_that_is_not_acked(broker: Served) -> None:
    topic = "persistent://public/default/orders"
    with broker.client() as client:
        consumer = client.subscribe("orders", "s")
        before = time.time()
        broker.publish("orders", 2)
        found = samples(broker)
        for metric, subscription in zip(AGES, ("", "s"), strict=True):
            assert 0 <= found[metric, topic, subscription] <= time.time() - before + 0.01
        for _ in range(2):
            consumer.acknowledge(consumer.receive(20_000))
        wait_until(lambda: samples(broker)[AGES[1], topic, "s"] == 0)


# ---- Topics that nobody uses -----------------------------------------------------------


def busy(served: Served, seed: int, topics: int = 5) -> None:
    """Topics of all kinds: batches, acks here and there, parts of batches, nothing at all."""
    random = Random(seed)
    with served.client() as client:
        for number in range(topics):
            name = f"topic-{number}"
            consumers = [
                client.subscribe(
                    name,
                    f"s{one}",
                    consumer_type=pulsar.ConsumerType.Shared,
                    batch_index_ack_enabled=True,
                )
                for one in range(random.randint(1, 3))
            ]
            count = random.choice([0, 20, 60])
            if count:
                served.publish(name, count, batch=random.choice([1, 5, 10]))
            for consumer in consumers:
                kept = random.random()
                messages = [consumer.receive(20_000) for _ in range(count)]
                for message in messages:
                    if random.random() < kept:
                        consumer.acknowledge(message)
            for consumer in consumers:
                consumer.close()


def loaded(served: Served) -> int:
    return served.call(lambda: len(served.broker.topics))


@pytest.mark.parametrize("seed", range(4))
def test_a_restart_changes_no_backlog_and_loads_no_topic(tmp_path: Path, seed: int) -> None:
    served = Served(BrokerSettings(), tmp_path)
    served.start()
    busy(served, seed)
    before = backlog(served)
    served.stop()
    assert any(metric == "pulsar_subscription_back_log" for metric, _, _ in before)
    again = Served(BrokerSettings(), tmp_path)
    again.start()
    try:
        assert loaded(again) == 0
        assert backlog(again) == before
        assert loaded(again) == 0, "who looks must not change what is looked at"
    finally:
        again.stop()


def test_what_was_written_since_is_seen_when_a_topic_is_left_alone_again(broker: Served) -> None:
    busy(broker, 1)

    def unload_all() -> None:
        for name in list(broker.call(lambda: list(broker.broker.topics))):
            path = name.removeprefix("persistent://")
            assert broker.http.put(f"/persistent/{path}/unload").status_code == 204
        assert loaded(broker) == 0

    unload_all()
    first = backlog(broker)
    topic = "persistent://public/default/topic-0"
    size = first["pulsar_storage_size", topic, ""]
    broker.publish("topic-0", 3)
    with broker.client() as client:
        consumer = client.subscribe("topic-0", "s0", consumer_type=pulsar.ConsumerType.Shared)
        consumer.acknowledge(consumer.receive(20_000))
        consumer.close()
    there = backlog(broker)
    unload_all()
    then = backlog(broker)
    assert then == there
    assert then["pulsar_storage_size", topic, ""] > size
    assert broker.http.delete("/persistent/public/default/topic-0?force=true").status_code == 204
    assert not [key for key in backlog(broker) if key[1] == topic]


def test_a_topic_that_is_loaded_while_it_is_read_has_one_row(broker: Served) -> None:
    """Whoever loads it in the middle of a scrape finds it there once, and exact."""
    name = "persistent://public/default/orders"
    broker.publish("orders", 40)
    assert broker.http.put("/persistent/public/default/orders/subscription/s").status_code == 204
    assert broker.http.put("/persistent/public/default/orders/unload").status_code == 204

    async def scrape_and_load() -> bytes:
        made = asyncio.ensure_future(make_scrape(broker.broker, RestingTopics()))
        await asyncio.sleep(0)
        broker.broker.find(TopicName.parse(name))
        return b"".join((await made).pieces)

    text = broker.run(scrape_and_load()).decode()
    lines = [line for line in text.splitlines() if line.startswith("pulsar_msg_backlog{")]
    assert len(lines) == 1


def test_cursors_of_the_broker_itself_are_nobodys_backlog(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings(deduplication=True))
    served.publish("orders", 5)
    assert served.http.put("/persistent/public/default/orders/unload").status_code == 204
    found = samples(served)
    topic = "persistent://public/default/orders"
    assert found["pulsar_subscriptions_count", topic, ""] == 0
    assert found["pulsar_msg_backlog", topic, ""] == 0
