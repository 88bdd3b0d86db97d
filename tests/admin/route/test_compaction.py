"""Compaction over REST: begun, looked at, and told of in stats."""

from typing import Any

import pytest
from support.served import Served
from support.waiting import wait_until


def status(served: Served, topic: str) -> dict[str, Any]:
    answer = served.http.get(f"/persistent/{topic}/compaction")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def compact(served: Served, topic: str) -> None:
    assert served.http.put(f"/persistent/{topic}/compaction").status_code == 204
    wait_until(lambda: status(served, topic)["status"] != "RUNNING")


def publish(served: Served, topic: str, *keys: str) -> None:
    with served.client() as client:
        producer = client.create_producer(topic, batching_enabled=False)
        for number, key in enumerate(keys):
            producer.send(f"{number}".encode(), partition_key=key)


def test_a_topic_is_compacted_when_it_is_asked_for(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    publish(served, topic, "a", "b", "a")
    assert status(served, topic) == {"status": "NOT_RUN", "lastError": ""}
    compact(served, topic)
    assert status(served, topic) == {"status": "SUCCESS", "lastError": ""}
    figures = served.http.get(f"/persistent/{topic}/stats").json()["compaction"]
    assert figures["lastCompactionRemovedEventCount"] == 1
    assert figures["lastCompactionSucceedTimestamp"] > 0
    assert figures["lastCompactionFailedTimestamp"] == 0
    ledger = served.http.get(f"/persistent/{topic}/internalStats").json()["compactedLedger"]
    assert ledger["ledgerId"] > 0
    assert (ledger["entries"], ledger["offloaded"]) == (2, False)
    assert ledger["size"] > 0


def test_a_partitioned_topic_is_compacted_partition_by_partition(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    served.http.put(f"/persistent/{topic}/partitions", json=2)
    publish(served, f"{topic}-partition-0", "a", "a")
    publish(served, f"{topic}-partition-1", "b")
    compact(served, f"{topic}-partition-0")
    assert status(served, topic)["status"] == "NOT_RUN"
    compact(served, topic)
    assert status(served, topic)["status"] == "SUCCESS"
    for partition, entries in ((0, 1), (1, 1)):
        path = f"/persistent/{topic}-partition-{partition}/internalStats"
        assert served.http.get(path).json()["compactedLedger"]["entries"] == entries


def test_one_that_runs_is_not_begun_again(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    publish(served, topic, "a")

    def wait() -> None:
        """For its turn, which does not come."""
        served.broker.topics[f"persistent://{topic}"].compaction._waiting = True

    served.call(wait)
    refused = served.http.put(f"/persistent/{topic}/compaction")
    assert refused.status_code == 409
    assert "Compaction already in progress" in refused.json()["reason"]
    assert status(served, topic)["status"] == "RUNNING"


def test_what_stores_nothing_is_not_compacted(served: Served) -> None:
    path = f"/non-persistent/{served.namespace()}/t"
    served.http.put(path)
    assert served.http.put(f"{path}/compaction").status_code == 405
    assert served.http.get(f"/persistent/{served.namespace()}/none/compaction").status_code == 404


@pytest.mark.parametrize("path", ["compaction", "subscription/__compaction"])
def test_a_view_is_deleted_and_the_topic_stays(served: Served, path: str) -> None:
    topic = f"{served.namespace()}/orders"
    publish(served, topic, "a", "b", "a")
    compact(served, topic)
    assert served.http.delete(f"/persistent/{topic}/{path}").status_code == 204
    assert status(served, topic)["status"] == "NOT_RUN"
    stats = served.http.get(f"/persistent/{topic}/internalStats").json()
    assert stats["compactedLedger"]["ledgerId"] == -1
    assert stats["numberOfEntries"] == 3
    compact(served, topic)
    stats = served.http.get(f"/persistent/{topic}/internalStats").json()
    assert stats["compactedLedger"]["entries"] == 2


def test_a_topic_that_is_truncated_has_no_view_either(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    publish(served, topic, "a", "b", "a")
    path = f"/persistent/{topic}/compactionThreshold"
    assert served.http.post(path, json=1 << 40).status_code == 204
    compact(served, topic)
    publish(served, topic, "c")
    assert served.http.delete(f"/persistent/{topic}/truncate").status_code == 204
    stats = served.http.get(f"/persistent/{topic}/internalStats").json()
    assert stats["compactedLedger"]["ledgerId"] == -1
    assert stats["numberOfEntries"] == 0
