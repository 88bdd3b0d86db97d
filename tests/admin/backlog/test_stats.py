"""Stats are exact: after any publishes and acks they are what a plain model says."""

import time
from collections.abc import Callable
from random import Random
from typing import Any
from urllib.parse import quote_plus

import httpx
import pulsar
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.served import Served
from support.waiting import wait_until

from magnetar.admin.metric.declaration import METRICS
from magnetar.broker.setting.settings import BrokerSettings


def subscription(served: Served, topic: str, query: str = "") -> dict[str, Any]:
    stats = served.http.get(f"/persistent/{topic}/stats{query}").json()
    found: dict[str, Any] = stats["subscriptions"]["s"]
    return found


class Model:
    """What is acked, message by message: a set."""

    def __init__(self, entries: int, batch: int) -> None:
        self.entries, self.batch = entries, batch
        self.acked: set[tuple[int, int]] = set()

    def left(self, entry: int) -> int:
        return sum((entry, index) not in self.acked for index in range(self.batch))

    def expected(self) -> dict[str, int]:
        whole = [not self.left(entry) for entry in range(self.entries)]
        # Runs of acked entries behind the first that is not.
        floor = whole.index(False) if False in whole else len(whole)
        runs = [i for i in range(floor, len(whole)) if whole[i] and not whole[i - 1]]
        partial = [e for e in range(self.entries) if 0 < self.left(e) < self.batch]
        left = sum(self.left(entry) for entry in range(self.entries))
        return {
            "msgBacklog": whole.count(False),
            "msgBacklogMessages": left,
            "unackedMessages": left,
            "nonContiguousDeletedMessagesRanges": len(runs),
            "partiallyAckedBatches": len(partial),
        }


@pytest.mark.parametrize("seed", range(4))
def test_stats_are_what_a_model_of_acks_says(served: Served, seed: int) -> None:
    random = Random(seed)
    topic = f"{served.namespace()}/orders"
    entries, batch = random.randint(5, 20), random.choice([1, 3, 10])
    model = Model(entries, batch)
    with served.client() as client:
        consumer = client.subscribe(
            topic, "s", consumer_type=pulsar.ConsumerType.Shared, batch_index_ack_enabled=True
        )
        ids = served.publish(topic, entries * batch, batch=batch)
        first = ids[0].entry_id()
        messages = [consumer.receive(30_000) for _ in range(entries * batch)]
        random.shuffle(messages)
        for count in (len(messages) // 3, len(messages)):
            for message in messages[:count]:
                id = message.message_id()
                key = (id.entry_id() - first, max(id.batch_index(), 0))
                if key not in model.acked and random.random() < 0.6:
                    consumer.acknowledge(message)
                    model.acked.add(key)
            expected = model.expected()
            wait_until(
                lambda expected=expected: (  # type: ignore[misc]
                    {k: subscription(served, topic)[k] for k in expected} == expected
                )
            )
        stats = served.http.get(f"/persistent/{topic}/stats").json()
        assert stats["msgInCounter"] == stats["msgOutCounter"] == entries * batch
        assert stats["subscriptions"]["s"]["type"] == "Shared"
        (one,) = stats["subscriptions"]["s"]["consumers"]
        assert one["unackedMessages"] == expected["unackedMessages"]
        assert one["msgOutCounter"] == entries * batch

    # With nobody there nothing is unacked, and the backlog is what it was.
    expected["unackedMessages"] = 0
    wait_until(lambda: {k: subscription(served, topic)[k] for k in expected} == expected)
    check_internal(served, topic, model, first)
    served.http.put(f"/persistent/{topic}/unload")
    assert {k: subscription(served, topic)[k] for k in expected} == expected
    check_internal(served, topic, model, first)


def check_internal(served: Served, topic: str, model: Model, first: int) -> None:
    internal = served.http.get(f"/persistent/{topic}/internalStats").json()
    assert internal["numberOfEntries"] == model.entries
    cursor = internal["cursors"]["s"]
    whole = [not model.left(entry) for entry in range(model.entries)]
    floor = whole.index(False) if False in whole else len(whole)
    ledger = internal["ledgers"][0]["ledgerId"]
    assert cursor["markDeletePosition"] == f"{ledger}:{first + floor - 1}"
    runs: list[str] = []
    entry = floor
    while entry < len(whole):
        end = entry
        while end < len(whole) and whole[end]:
            end += 1
        if end > entry:
            runs.append(f"({ledger}:{first + entry - 1}..{ledger}:{first + end - 1}]")
        entry = end + 1
    assert cursor["individuallyDeletedMessages"] == f"[{','.join(runs)}]"
    assert cursor["totalNonContiguousDeletedMessagesRange"] == len(runs)
    assert cursor["messagesConsumedCounter"] == sum(whole)


def test_stats_name_who_is_there(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    with served.client() as client:
        client.create_producer(topic, producer_name="baker", properties={"team": "bread"})
        client.subscribe(topic, "s", consumer_name="eater", properties={"hungry": "yes"})
        stats = served.http.get(f"/persistent/{topic}/stats").json()
        (publisher,) = stats["publishers"]
        assert (publisher["producerName"], publisher["metadata"]) == ("baker", {"team": "bread"})
        assert publisher["accessMode"] == "Shared"
        found = stats["subscriptions"]["s"]
        assert found["type"] == "Exclusive"
        assert found["activeConsumerName"] == "eater"
        (consumer,) = found["consumers"]
        assert consumer["consumerName"] == "eater"
        assert consumer["availablePermits"] == 1000
        assert consumer["metadata"] == {"hungry": "yes"}
        assert consumer["clientVersion"]
        path = f"/persistent/{topic}/stats?excludePublishers=true&excludeConsumers=true"
        short = served.http.get(path).json()
        assert (short["publishers"], short["subscriptions"]["s"]["consumers"]) == ([], [])


def test_what_costs_more_is_there_when_asked_for(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    served.http.put(f"/persistent/{topic}")
    served.http.put(f"/persistent/{topic}/subscription/s", json="earliest")
    served.publish(topic, 4)
    plain = subscription(served, topic)
    assert plain["backlogSize"] > 0
    assert plain["earliestMsgPublishTimeInBacklog"] == 0
    assert subscription(served, topic, "?subscriptionBacklogSize=false")["backlogSize"] == -1
    asked = subscription(
        served, topic, "?subscriptionBacklogSize=true&getEarliestTimeInBacklog=true"
    )
    assert asked["backlogSize"] > 0
    assert abs(asked["earliestMsgPublishTimeInBacklog"] - time.time() * 1000) < 600_000


def test_a_topic_says_how_old_its_backlog_is_and_what_its_quotas_are(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    path = f"/persistent/{topic}"
    assert served.http.put(path).status_code == 204
    quota = {"limitSize": 1_000_000, "policy": "producer_exception"}
    assert served.http.post(f"{path}/backlogQuota", json=quota).status_code == 204
    age = {"limitTime": 3600, "policy": "producer_exception"}
    kind = "backlogQuotaType=message_age"
    assert served.http.post(f"{path}/backlogQuota?{kind}", json=age).status_code == 204
    for name in ("late", "done"):
        served.http.put(f"{path}/subscription/{name}", json="earliest")

    def stats() -> dict[str, Any]:
        found = served.http.get(f"{path}/stats?getEarliestTimeInBacklog=true").json()
        assert isinstance(found, dict)
        return found

    empty = stats()
    assert (empty["backlogQuotaLimitSize"], empty["backlogQuotaLimitTime"]) == (1_000_000, 3600)
    assert empty["oldestBacklogMessageAgeSeconds"] == -1
    assert empty["earliestMsgPublishTimeInBacklogs"] == 0
    assert "oldestBacklogMessageSubscriptionName" not in empty
    served.publish(topic, 3)
    assert served.http.post(f"{path}/subscription/done/skip_all").status_code == 204
    waiting = stats()
    assert waiting["oldestBacklogMessageSubscriptionName"] == "late"
    assert 0 <= waiting["oldestBacklogMessageAgeSeconds"] < 600
    one = waiting["subscriptions"]["late"]["earliestMsgPublishTimeInBacklog"]
    assert waiting["earliestMsgPublishTimeInBacklogs"] == one > 0
    assert waiting["subscriptions"]["done"]["msgExpired"] == 0


def test_a_topic_without_messages_has_an_open_ledger_all_the_same(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    path = f"/persistent/{topic}"
    assert served.http.put(path).status_code == 204
    empty = served.http.get(f"{path}/internalStats").json()
    (ledger,) = empty["ledgers"]
    assert (ledger["entries"], ledger["size"]) == (0, 0)
    assert empty["lastConfirmedEntry"] == f"{ledger['ledgerId']}:-1"
    assert empty["lastLedgerCreatedTimestamp"] is not None
    ids = served.publish(topic, 2)
    full = served.http.get(f"{path}/internalStats").json()
    assert [one["ledgerId"] for one in full["ledgers"]] == [ids[0].ledger_id()]
    assert ids[0].ledger_id() > ledger["ledgerId"]


def test_partitions_are_told_of_together_in_internal_info(served: Served) -> None:
    path = f"/persistent/{served.namespace()}/orders"
    assert served.http.put(f"{path}/partitions", json=2).status_code == 204
    assert served.http.put(f"{path}/subscription/s", json="earliest").status_code == 204
    parts = served.http.get(f"{path}/internal-info").json()["partitions"]
    assert [name.rpartition("-")[2] for name in parts] == ["0", "1"]
    assert all(list(part["cursors"]) == ["s"] for part in parts.values())


def test_delayed_messages_are_counted(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    with served.client() as client:
        client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
        producer = client.create_producer(topic)
        for _ in range(5):
            producer.send(b"later", deliver_at=int(time.time() * 1000) + 3_600_000)
        producer.send(b"now")
        wait_until(lambda: subscription(served, topic)["msgDelayed"] == 5)
        found = subscription(served, topic)
        assert (found["msgBacklog"], found["msgBacklogNoDelayed"]) == (6, 1)
        assert found["delayedMessageIndexSizeInBytes"] > 0
        served.http.post(f"/persistent/{topic}/subscription/s/skip_all")
        assert subscription(served, topic)["msgDelayed"] == 0


def test_key_shared_consumers_show_their_slots_and_what_drains(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    with served.client() as client:
        options = {"consumer_type": pulsar.ConsumerType.KeyShared}
        one = client.subscribe(topic, "s", consumer_name="one", **options)
        producer = client.create_producer(topic, batching_enabled=False)
        for i in range(50):
            producer.send(b"x", partition_key=f"key-{i}")
        received = [one.receive(30_000) for _ in range(50)]
        with served.client() as other:
            other.subscribe(topic, "s", consumer_name="two", **options)
            found = subscription(served, topic)
            assert (found["type"], found["keySharedMode"]) == ("Key_Shared", "AUTO_SPLIT")
            first, second = found["consumers"]
            slots = [
                slot
                for consumer in (first, second)
                for low, high in consumer["keyHashRangeArrays"]
                for slot in (low, high)
            ]
            assert max(slots) == 65535
            # Keys that went to the newcomer are held by the first until they are acked.
            assert 0 < found["drainingHashesCount"] == len(first["drainingHashes"])
            for draining in first["drainingHashes"]:
                ranges = second["keyHashRangeArrays"]
                assert any(low <= draining["hash"] <= high for low, high in ranges)
            for message in received:
                one.acknowledge(message)
            wait_until(lambda: subscription(served, topic)["drainingHashesCount"] == 0)


def samples(served: Served) -> dict[tuple[str, str, str], float]:
    answer = httpx.get(f"{served.http_url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (s.name, s.labels.get("topic", ""), s.labels.get("subscription", "")): s.value
        for family in text_string_to_metric_families(answer.text)
        for s in family.samples
        if not s.labels.get("topic") or s.labels["cluster"] == "standalone"
    }


def test_metrics_are_read_from_the_broker_at_a_scrape(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings())  # with many topics a scrape may be a little old
    name = f"{served.namespace()}/orders"
    topic = f"persistent://{name}"
    with served.client() as client:
        consumer = client.subscribe(name, "s", consumer_type=pulsar.ConsumerType.Shared)
        served.publish(name, 10, batch=10)
        for _ in range(10):
            consumer.receive(30_000)
        found = samples(served)
        for metric, value in [
            ("pulsar_in_messages_total", 10),
            ("pulsar_out_messages_total", 10),
            ("pulsar_producers_count", 0),
            ("pulsar_consumers_count", 1),
            ("pulsar_subscriptions_count", 1),
        ]:
            assert found[metric, topic, ""] == value, metric
        for metric, value in [
            ("pulsar_subscription_back_log", 1),
            ("pulsar_subscription_back_log_messages", 10),
            ("pulsar_subscription_unacked_messages", 10),
            ("pulsar_subscription_delayed", 0),
        ]:
            assert found[metric, topic, "s"] == value, metric
        assert found["pulsar_in_bytes_total", topic, ""] > 0
        assert found["pulsar_storage_size", topic, ""] > 0
        assert found["pulsar_active_connections", "", ""] >= 1
    # A counter does not fall when a subscription goes.
    served.http.delete(f"/persistent/{name}/subscription/s?force=true")
    assert samples(served)["pulsar_out_messages_total", topic, ""] == 10


def test_topics_are_counted_by_namespace(own_broker: Callable[[BrokerSettings], Served]) -> None:
    served = own_broker(BrokerSettings())
    served.http.put("/persistent/public/default/a/partitions", json=3)
    served.http.put("/non-persistent/public/default/b")
    text = httpx.get(f"{served.http_url}/metrics").text
    line = 'pulsar_topics_count{cluster="standalone",namespace="public/default"} 4\n'
    assert line in text


def test_partitions_that_store_nothing_have_figures_before_they_are_used(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings())
    path = "/non-persistent/public/default/unused"
    served.http.put(f"{path}/partitions", json=2)
    stats = served.http.get(f"{path}/partitioned-stats").json()
    assert (stats["msgInCounter"], stats["msgDropRate"], stats["publishers"]) == (0, 0, [])
    assert list(stats["partitions"]) == [
        f"non-persistent://public/default/unused-partition-{i}" for i in range(2)
    ]
    answer = served.http.delete(f"{path}/subscription/s")
    assert answer.status_code == 404


def test_labels_survive_odd_names(own_broker: Callable[[BrokerSettings], Served]) -> None:
    served = own_broker(BrokerSettings())
    name = f"{served.namespace()}/orders"
    served.http.put(f"/persistent/{name}")
    odd = 'back\\slash "quote"\nline'
    assert served.http.put(f"/persistent/{name}/subscription/{quote_plus(odd)}").status_code == 204
    assert samples(served)["pulsar_subscription_back_log", f"persistent://{name}", odd] == 0


def test_every_metric_is_there(served: Served) -> None:
    name = f"{served.namespace()}/orders"
    served.http.put(f"/persistent/{name}")
    served.http.put(f"/persistent/{name}/subscription/s")
    families = text_string_to_metric_families(httpx.get(f"{served.http_url}/metrics").text)
    found = {(one.name, one.type) for one in families}
    totals = {f"{name}_total" for name, type in found if type == "counter"}
    assert {name for name, type in found if type != "counter"} | totals == set(METRICS)
