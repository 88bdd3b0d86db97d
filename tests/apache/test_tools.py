"""pulsar-perf and pulsar-admin, as operators know them, against a real broker."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
from apache.harness import Broker, admin, perf

COUNT = 20_000


def test_pulsar_perf_receives_what_it_sent(broker: Broker) -> None:
    """Batched to a Shared subscription, and not batched to an Exclusive one, at once."""

    def run(topic: str, batching: list[str], subscription_type: str) -> None:
        name = f"persistent://public/default/{topic}"
        # It sends more than it was told to while receipts are slow; a ledger that is full and that
        # no subscription wants is deleted.
        for path in ("", "/subscription/sub"):
            answer = httpx.put(
                f"{broker.http_url}/admin/v2/persistent/public/default/{topic}{path}", timeout=30
            )
            assert answer.is_success, answer.text
        count = ["-m", str(COUNT)]
        sent = perf(broker, "produce", name, *count, "-r", "1000000", *batching)
        # Receipts for what was under way when the last one was counted are counted too.
        assert sent.total >= COUNT
        count = ["-m", str(sent.total)]
        how = ["-ss", "sub", "-sp", "Earliest", "-st", subscription_type]
        assert perf(broker, "consume", name, *count, *how).total == sent.total
        stats = json.loads(admin(broker, "topics", "stats", name))
        assert stats["msgInCounter"] >= sent.total
        assert stats["subscriptions"]["sub"]["msgOutCounter"] >= sent.total

    with ThreadPoolExecutor() as threads:
        batched = threads.submit(run, "batched", ["-s", "100", "-bm", "1000"], "Shared")
        single = threads.submit(run, "single", ["-s", "1024", "-db"], "Exclusive")
        batched.result()
        single.result()


def test_pulsar_admin_makes_finds_and_unloads_topics(broker: Broker) -> None:
    name = "persistent://public/default/partitioned"
    admin(broker, "topics", "create-partitioned-topic", name, "-p", "3")
    assert name in admin(broker, "topics", "list-partitioned-topics", "public/default")
    admin(broker, "topics", "create-subscription", name, "-s", "sub")
    admin(broker, "topics", "unload", name)
    stats = json.loads(admin(broker, "topics", "partitioned-stats", name))
    assert stats["metadata"]["partitions"] == 3
    assert stats["subscriptions"]["sub"]["msgBacklog"] == 0
