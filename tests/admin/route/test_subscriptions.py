"""Subscriptions and their cursors over REST."""

from typing import Any

import pulsar
import pytest
from support.served import Served


def id_json(id: Any, **more: object) -> dict[str, object]:
    return {"ledgerId": id.ledger_id(), "entryId": id.entry_id(), **more}


def backlog(served: Served, topic: str, subscription: str = "s") -> tuple[int, int]:
    """In entries, and in messages."""
    stats = served.http.get(f"/persistent/{topic}/stats").json()["subscriptions"][subscription]
    return stats["msgBacklog"], stats["msgBacklogMessages"]


def test_a_subscription_begins_where_it_is_told(served: Served, topic: str) -> None:
    ids = served.publish(topic, 5)
    path = f"/persistent/{topic}/subscription"
    bodies: dict[str, object] = {
        "earliest": "earliest",
        "latest": "latest",
        "untold": None,
        "java-earliest": {"ledgerId": -1, "entryId": -1, "partitionIndex": -1},
        "java-latest": {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1},
        "second": id_json(ids[1]),
        "behind-second": id_json(ids[1], isExcluded=True),
        "texts": {"ledgerId": str(ids[1].ledger_id()), "entryId": str(ids[1].entry_id())},
        "beyond": {"ledgerId": ids[0].ledger_id() + 100, "entryId": 0},
    }
    for name, body in bodies.items():
        answer = served.http.put(f"{path}/{name}", json=body)
        assert answer.status_code == 204, (name, answer.text)
    stats = served.http.get(f"/persistent/{topic}/stats").json()["subscriptions"]
    assert {name: stats[name]["msgBacklog"] for name in bodies} == {
        "earliest": 5,
        "latest": 0,
        "untold": 0,
        "java-earliest": 5,
        "java-latest": 0,
        "second": 4,
        "behind-second": 3,
        "texts": 4,
        "beyond": 0,
    }
    assert stats["latest"]["type"] == "None"
    assert served.http.put(f"{path}/latest").status_code == 409


def test_a_subscription_may_begin_inside_a_batch(served: Served, topic: str) -> None:
    ids = served.publish(topic, 10, batch=10)
    path = f"/persistent/{topic}/subscription"
    assert served.http.put(f"{path}/at", json=id_json(ids[0], batchIndex=4)).status_code == 204
    body = id_json(ids[0], batchIndex=4, isExcluded=True)
    assert served.http.put(f"{path}/behind", json=body).status_code == 204
    assert backlog(served, topic, "at") == (1, 6)
    assert backlog(served, topic, "behind") == (1, 5)


@pytest.mark.parametrize("body", ["soon", 7, {"ledgerId": 1}, {"ledgerId": "x", "entryId": 0}])
def test_a_position_that_is_none_is_refused(served: Served, topic: str, body: object) -> None:
    path = f"/persistent/{topic}/subscription/s"
    assert served.http.put(path, json=body).status_code == 400
    assert served.http.get(f"/persistent/{topic}/subscriptions").json() == []


def test_names_of_the_brokers_own_are_refused(served: Served, topic: str) -> None:
    path = f"/persistent/{topic}/subscription"
    assert served.http.put(f"{path}/pulsar.dedup").status_code == 412
    assert served.http.put(f"{path}/%20").status_code == 400


def test_a_subscription_in_use_is_deleted_by_force_only(served: Served, topic: str) -> None:
    path = f"/persistent/{topic}/subscription/s"
    assert served.http.delete(path).status_code == 404
    with served.client() as client:
        client.subscribe(topic, "s")
        refused = served.http.delete(path)
        assert refused.status_code == 412
        assert "1 consumers" in refused.json()["reason"]
        assert served.http.delete(f"{path}?force=true").status_code == 204


def test_properties_of_a_subscription_outlive_an_unload(served: Served, topic: str) -> None:
    path = f"/persistent/{topic}/subscription/s"
    body = {"ledgerId": -1, "entryId": -1, "properties": {"a": "1"}}
    assert served.http.put(path, json=body).status_code == 204
    assert served.http.get(f"{path}/properties").json() == {"a": "1"}
    assert served.http.put(f"{path}/properties", json={"b": "2"}).status_code == 204
    assert served.http.put(f"{path}/properties", json={"b": 2}).status_code == 400
    served.http.put(f"/persistent/{topic}/unload")
    assert served.http.get(f"{path}/properties").json() == {"b": "2"}


def test_skip_counts_entries_and_clear_takes_all(served: Served, topic: str) -> None:
    path = f"/persistent/{topic}/subscription/s"
    served.http.put(path, json="earliest")
    served.publish(topic, 10)
    assert served.http.post(f"{path}/skip/5").status_code == 204
    assert backlog(served, topic) == (5, 5)
    assert served.http.post(f"{path}/skip/0").status_code == 204
    assert served.http.post(f"{path}/skip_all").status_code == 204
    assert backlog(served, topic) == (0, 0)
    missing = served.http.post(f"/persistent/{topic}/subscription/none/skip/1")
    assert missing.status_code == 404
    assert "none" in missing.json()["reason"]


def test_skip_passes_over_what_is_acked(served: Served, topic: str) -> None:
    """Every other of 100 is acked: 20 skipped are 20 fewer."""
    path = f"/persistent/{topic}/subscription/s"
    with served.client() as client:
        consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
        served.publish(topic, 100)
        for i in range(100):
            message = consumer.receive(30_000)
            if i % 2:
                consumer.acknowledge(message)
    assert backlog(served, topic) == (50, 50)
    assert served.http.post(f"{path}/skip/20").status_code == 204
    assert backlog(served, topic) == (30, 30)


def test_a_cursor_is_reset_by_id_and_by_time(served: Served, topic: str) -> None:
    path = f"/persistent/{topic}/subscription/s"
    served.http.put(path, json="latest")
    ids = served.publish(topic, 10, batch=5)
    served.http.post(f"{path}/skip_all")
    cases: list[tuple[object, tuple[int, int]]] = [
        ("earliest", (2, 10)),
        ("latest", (0, 0)),
        (id_json(ids[5]), (1, 5)),
        (id_json(ids[0], isExcluded=True), (1, 5)),
        (id_json(ids[0], batchIndex=3), (2, 7)),
        (id_json(ids[0], batchIndex=3, isExcluded=True), (2, 6)),
        (id_json(ids[0], batchIndex=4, isExcluded=True), (1, 5)),
    ]
    for body, expected in cases:
        assert served.http.post(f"{path}/resetcursor", json=body).status_code == 204
        assert backlog(served, topic) == expected, body
    assert served.http.post(f"{path}/resetcursor/0").status_code == 204
    assert backlog(served, topic) == (2, 10)
    assert served.http.post(f"{path}/resetcursor/{2**50}").status_code == 204
    assert backlog(served, topic) == (0, 0)


def test_messages_expire_by_id_and_by_age(served: Served, topic: str) -> None:
    path = f"/persistent/{topic}/subscription"
    for name in ("s", "other"):
        served.http.put(f"{path}/{name}", json="earliest")
    ids = served.publish(topic, 10)
    assert served.http.post(f"{path}/s/expireMessages", json=id_json(ids[2])).status_code == 204
    assert backlog(served, topic) == (7, 7)
    body = id_json(ids[5], isExcluded=True)
    assert served.http.post(f"{path}/s/expireMessages", json=body).status_code == 204
    assert backlog(served, topic) == (5, 5)
    assert served.http.post(f"{path}/s/expireMessages/3600").status_code == 204
    assert backlog(served, topic) == (5, 5)
    stats = served.http.get(f"/persistent/{topic}/stats").json()["subscriptions"]["s"]
    assert stats["totalMsgExpired"] == 5
    assert served.http.post(f"{path}/s/expireMessages", json="latest").status_code == 204
    assert backlog(served, topic) == (0, 0)
    everywhere = f"/persistent/{topic}/all_subscription/expireMessages/3600"
    refused = served.http.post(everywhere)
    assert refused.status_code == 409
    assert "not issued" in refused.json()["reason"]
    assert served.http.post(f"{path}/s/expireMessages/3600").status_code == 409
    assert served.http.post(f"{path}/other/expireMessages/3600").status_code == 204
    assert backlog(served, topic, "other") == (10, 10)


def test_a_partitioned_topic_does_to_all_what_it_can(served: Served) -> None:
    name = f"{served.namespace()}/whole"
    path = f"/persistent/{name}"
    served.http.put(f"{path}/partitions", json=3)
    assert served.http.put(f"{path}/subscription/s", json="earliest").status_code == 204
    assert served.http.put(f"{path}/subscription/s", json="earliest").status_code == 409
    assert served.http.get(f"{path}/subscriptions").json() == ["s"]
    served.publish(name, 30)
    whole = served.http.get(f"{path}/partitioned-stats").json()
    assert whole["subscriptions"]["s"]["msgBacklog"] == whole["msgInCounter"] == 30
    assert len(whole["partitions"]) == whole["metadata"]["partitions"] == 3
    parts = [part["subscriptions"]["s"]["msgBacklog"] for part in whole["partitions"].values()]
    assert sum(parts) == 30
    assert (
        served.http.get(f"{path}/partitioned-stats?perPartition=false").json()["partitions"] == {}
    )
    assert served.http.get(f"{path}/stats").status_code == 404
    internal = served.http.get(f"{path}/partitioned-internalStats").json()["partitions"]
    assert sum(one["numberOfEntries"] for one in internal.values()) == 30

    sub = f"{path}/subscription/s"
    refused = [
        served.http.post(f"{sub}/skip/1"),
        served.http.post(f"{sub}/resetcursor", json={"ledgerId": 1, "entryId": 1}),
        served.http.post(f"{sub}/expireMessages", json={"ledgerId": 1, "entryId": 1}),
        served.http.get(f"{sub}/position/1"),
        served.http.get(f"{path}/lastMessageId"),
        served.http.get(f"{path}/internalStats"),
    ]
    assert [answer.status_code for answer in refused] == [405] * 4 + [404] * 2
    assert served.http.post(f"{sub}/skip_all").status_code == 204
    total = served.http.get(f"{path}/partitioned-stats").json()["subscriptions"]["s"]
    assert total["msgBacklog"] == 0
    assert served.http.post(f"{sub}/resetcursor/0").status_code == 204
    total = served.http.get(f"{path}/partitioned-stats").json()["subscriptions"]["s"]
    assert total["msgBacklog"] == 30
    assert served.http.put(f"{path}/unload").status_code == 204
    assert served.http.delete(sub).status_code == 204
    assert served.http.get(f"{path}/subscriptions").json() == []


def test_the_oldest_of_a_partitioned_topic_is_the_oldest_of_all_partitions(
    served: Served,
) -> None:
    """And not the first one's, which may have nothing left."""
    name = f"{served.namespace()}/whole"
    path = f"/persistent/{name}"
    served.http.put(f"{path}/partitions", json=3)
    assert served.http.put(f"{path}/subscription/s", json="earliest").status_code == 204
    question = f"{path}/partitioned-stats?getEarliestTimeInBacklog=true"

    def oldest() -> int:
        found = served.http.get(question).json()["subscriptions"]["s"]
        return int(found["earliestMsgPublishTimeInBacklog"])

    assert oldest() == -1
    times: list[int] = []
    for number in (2, 1):
        part = f"{name}-partition-{number}"
        served.publish(part, 1)
        [message] = served.http.get(f"/persistent/{part}/messages").json()["messages"]
        times.append(message["publishTime"])
    assert oldest() == times[0] == min(times)


def test_the_cursor_of_a_topic_that_stores_nothing_is_not_moved(served: Served) -> None:
    name = f"{served.namespace()}/news"
    with served.client() as client:
        client.subscribe(f"non-persistent://{name}", "s")
        path = f"/non-persistent/{name}/subscription/s"
        for tail in ("skip/1", "skip_all", "resetcursor/0", "expireMessages/1"):
            assert served.http.post(f"{path}/{tail}").status_code == 405
        assert served.http.put(f"/non-persistent/{name}/subscription/t").status_code == 405


def test_a_cursor_that_is_being_reset_is_busy(served: Served, topic: str) -> None:
    path = f"/persistent/{topic}/subscription/s"
    served.http.put(path, json="earliest")

    def fence(fenced: bool) -> None:
        served.broker.topics[f"persistent://{topic}"].subscriptions["s"].fenced = fenced

    served.call(lambda: fence(True))
    assert served.http.post(f"{path}/resetcursor/0").status_code == 412
    assert served.http.post(f"{path}/expireMessages/1").status_code == 409
    served.call(lambda: fence(False))
    assert served.http.post(f"{path}/resetcursor/0").status_code == 204


def test_a_reset_is_heard_by_a_consumer_that_is_there(served: Served, topic: str) -> None:
    with served.client() as client:
        consumer = client.subscribe(topic, "s")
        ids = served.publish(topic, 3)
        for _ in range(3):
            consumer.acknowledge(consumer.receive(30_000))
        body = id_json(ids[1])
        path = f"/persistent/{topic}/subscription/s/resetcursor"
        assert served.http.post(path, json=body).status_code == 204
        assert consumer.receive(30_000).data() == b"message 1"


def test_a_subscription_makes_its_topic_where_clients_may(served: Served) -> None:
    ns = served.namespace()
    missing = served.http.post(f"/persistent/{ns}/new/subscription/s/skip/1")
    assert missing.status_code == 404
    assert f"Topic persistent://{ns}/new not found" in missing.json()["reason"]
    assert served.http.put(f"/persistent/{ns}/new/subscription/s").status_code == 204
    assert served.http.post(f"/persistent/{ns}/new/subscription/s/skip/1").status_code == 204
    served.http.post(f"/namespaces/{ns}/autoTopicCreation", json={"allowAutoTopicCreation": False})
    assert served.http.put(f"/persistent/{ns}/other/subscription/s").status_code == 404
