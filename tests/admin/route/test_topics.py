"""Topics and partitions over REST."""

from collections.abc import Callable

import pulsar
import pytest
from support.served import Served

from magnetar.broker.setting.settings import BrokerSettings


def test_a_topic_is_created_listed_and_deleted(served: Served) -> None:
    ns = served.namespace()
    path = f"/persistent/{ns}/orders"
    assert served.http.put(path).status_code == 204
    assert served.http.get(f"/persistent/{ns}").json() == [f"persistent://{ns}/orders"]
    again = served.http.put(path)
    assert again.status_code == 409
    assert "already exists" in again.json()["reason"]
    assert served.http.delete(path).status_code == 204
    assert served.http.get(f"/persistent/{ns}").json() == []
    assert served.http.delete(path).status_code == 404


def test_a_topic_may_be_called_like_a_part_of_a_path(served: Served) -> None:
    ns = served.namespace()
    assert served.http.put(f"/persistent/{ns}/partitioned").status_code == 204
    assert served.http.get(f"/persistent/{ns}/partitioned").json() == []
    assert served.http.get(f"/persistent/{ns}").json() == [f"persistent://{ns}/partitioned"]


def test_a_topic_keeps_its_properties(served: Served) -> None:
    ns = served.namespace()
    path = f"/persistent/{ns}/orders"
    assert served.http.put(path, json={"team": "shop"}).status_code == 204
    assert served.http.get(f"{path}/properties").json() == {"team": "shop"}


@pytest.mark.parametrize("partitions", [0, 2])
def test_properties_of_a_topic_are_put_and_deleted(served: Served, partitions: int) -> None:
    path = f"/persistent/{served.namespace()}/orders"
    whole = f"{path}/partitions" if partitions else path
    assert served.http.put(whole, json=partitions or {"team": "shop"}).status_code == 204
    assert served.http.put(f"{path}/properties", json={"a": "1", "b": "2"}).status_code == 204
    assert served.http.put(f"{path}/properties", json={"b": "3"}).status_code == 204
    assert served.http.delete(f"{path}/properties?key=a").status_code == 204
    assert served.http.delete(f"{path}/properties?key=a").status_code == 204
    assert served.http.delete(f"{path}/properties").status_code == 412
    expected = {"b": "3"} if partitions else {"team": "shop", "b": "3"}
    assert served.http.get(f"{path}/properties").json() == expected
    assert served.http.put(f"{path}/unload").status_code == 204
    assert served.http.get(f"{path}/properties").json() == expected
    assert served.http.put(f"{path}-none/properties", json={"a": "1"}).status_code == 404


def test_a_topic_that_is_not_stored_keeps_no_properties(served: Served) -> None:
    path = f"/non-persistent/{served.namespace()}/news"
    assert served.http.put(path).status_code == 204
    assert served.http.get(f"{path}/properties").status_code == 406
    assert served.http.put(f"{path}/properties", json={"a": "1"}).status_code == 406


def test_a_topic_in_use_is_deleted_by_force_only(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    with served.client() as client:
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic)
        refused = served.http.delete(f"/persistent/{topic}")
        assert refused.status_code == 412
        assert "1 producers and 1 consumers" in refused.json()["reason"]
        consumer.close()
        assert served.http.delete(f"/persistent/{topic}").status_code == 412
        producer.close()
        client.subscribe(topic, "other")
        assert served.http.delete(f"/persistent/{topic}").status_code == 412
        assert served.http.delete(f"/persistent/{topic}?force=true").status_code == 204
    assert served.http.get(f"/persistent/{topic}/stats").status_code == 404


@pytest.mark.parametrize("partitions", [0, 2])
def test_a_topic_goes_with_subscriptions_that_nobody_uses(served: Served, partitions: int) -> None:
    path = f"/persistent/{served.namespace()}/orders"
    whole = f"{path}/partitions" if partitions else path
    assert served.http.put(whole, json=partitions or None).status_code == 204
    assert served.http.put(f"{path}/subscription/s", json="earliest").status_code == 204
    assert served.http.delete(whole).status_code == 204
    assert served.http.get(f"{path}/partitions").status_code == 404
    assert served.http.put(path).status_code == 204
    assert served.http.get(f"{path}/subscriptions").json() == []


def test_one_partition_in_use_keeps_all_of_them(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    path = f"/persistent/{topic}/partitions"
    assert served.http.put(path, json=3).status_code == 204
    with served.client() as client:
        client.subscribe(f"{topic}-partition-2", "s")
        assert served.http.delete(path).status_code == 412
        assert len(served.http.get(f"/persistent/{topic.rpartition('/')[0]}").json()) == 3


def test_partitions_of_a_topic_that_has_none_are_a_conflict(served: Served) -> None:
    ns = served.namespace()
    path = f"/persistent/{ns}/orders"
    assert served.http.put(path).status_code == 204
    assert served.http.post(f"{path}/partitions", json=3).status_code == 409
    assert served.http.delete(f"{path}/partitions").status_code == 409
    assert served.http.post(f"/persistent/{ns}/none/partitions", json=3).status_code == 409
    assert served.http.delete(f"/persistent/{ns}/none/partitions").status_code == 404
    assert served.http.put(f"/persistent/{ns}/lone-partition-0").status_code == 412


def test_partitions_that_are_missing_are_made(served: Served) -> None:
    path = f"/persistent/{served.namespace()}/orders"
    assert served.http.put(f"{path}/partitions", json=2).status_code == 204
    assert served.http.put(f"{path}/subscription/s", json="earliest").status_code == 204
    assert served.http.post(f"{path}/createMissedPartitions").status_code == 204
    assert served.http.get(f"{path}-partition-1/subscriptions").json() == ["s"]
    assert served.http.post(f"{path}-other/createMissedPartitions").status_code == 404
    assert served.http.get(f"{path}-partition-5/partitions").status_code == 404


def test_a_topic_of_no_namespace_is_not_found(served: Served) -> None:
    for path in ("/persistent/public/none", "/persistent/public/none/t/stats"):
        assert served.http.get(path).status_code == 404
    assert served.http.put("/persistent/public/none/t").status_code == 404
    assert served.http.put("/persistent/none/none/t").status_code == 404


def test_partitions_are_made_grow_and_go_together(served: Served) -> None:
    ns = served.namespace()
    path = f"/persistent/{ns}/orders"
    name = f"persistent://{ns}/orders"
    assert served.http.put(f"{path}/partitions", json=2).status_code == 204
    assert served.http.get(f"{path}/partitions").json()["partitions"] == 2
    assert served.http.get(f"/persistent/{ns}/partitioned").json() == [name]
    assert served.http.get(f"/persistent/{ns}").json() == [f"{name}-partition-{i}" for i in (0, 1)]
    assert served.http.put(f"{path}/partitions", json=2).status_code == 409
    assert served.http.put(path).status_code == 409
    assert served.http.put(f"{path}/subscription/s", json="latest").status_code == 204

    assert served.http.post(f"{path}/partitions", json=2).status_code == 204
    assert served.http.post(f"{path}/partitions", json=1).status_code == 422
    assert served.http.post(f"{path}/partitions", json=3).status_code == 204
    assert served.http.get(f"{path}/partitions").json()["partitions"] == 3
    assert served.http.get(f"{path}-partition-2/subscriptions").json() == ["s"]

    assert served.http.delete(path).status_code == 409
    assert served.http.delete(f"{path}-partition-0").status_code == 409
    assert served.http.delete(f"{path}/partitions").status_code == 204
    assert served.http.get(f"/persistent/{ns}").json() == []
    assert served.http.get(f"{path}/partitions").status_code == 404


@pytest.mark.parametrize("count", [0, -1])
def test_no_partitions_are_not_acceptable(served: Served, count: int) -> None:
    path = f"/persistent/{served.namespace()}/orders/partitions"
    assert served.http.put(path, json=count).status_code == 406


def test_partitions_may_come_with_properties(served: Served) -> None:
    path = f"/persistent/{served.namespace()}/orders"
    body = {"partitions": 1, "properties": {"a": "b"}}
    assert served.http.put(f"{path}/partitions", json=body).status_code == 204
    assert served.http.get(f"{path}/properties").json() == {"a": "b"}


def test_too_many_partitions_are_not_acceptable(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings(max_partitions_per_topic=4))
    path = "/persistent/public/default/orders/partitions"
    assert served.http.put(path, json=5).status_code == 406
    assert served.http.put(path, json=4).status_code == 204


def test_asking_for_partitions_makes_a_topic_only_if_told(served: Served) -> None:
    path = f"/persistent/{served.namespace()}/orders/partitions"
    assert served.http.get(path).status_code == 404
    assert served.http.get(f"{path}?checkAllowAutoCreation=true").json()["partitions"] == 0


def test_an_unloaded_topic_comes_back_with_what_it_had(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    served.http.put(f"/persistent/{topic}")
    served.http.put(f"/persistent/{topic}/subscription/s", json="earliest")
    served.publish(topic, 3)
    assert served.http.put(f"/persistent/{topic}/unload").status_code == 204
    loaded = served.call(lambda: f"persistent://{topic}" in served.broker.topics)
    assert not loaded
    stats = served.http.get(f"/persistent/{topic}/stats").json()
    assert stats["subscriptions"]["s"]["msgBacklog"] == 3


def test_clients_go_on_through_an_unload(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    with served.client() as client:
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic)
        producer.send(b"before")
        assert served.http.put(f"/persistent/{topic}/unload").status_code == 204
        producer.send(b"after")
        received = [consumer.receive(30_000).data() for _ in range(2)]
        assert b"after" in received


def test_a_terminated_topic_takes_nothing_more(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    last = served.publish(topic, 3)[-1]
    answer = served.http.post(f"/persistent/{topic}/terminate")
    assert answer.json() == {
        "ledgerId": last.ledger_id(),
        "entryId": last.entry_id(),
        "partitionIndex": -1,
        "batchIndex": -1,
        "batchSize": 0,
    }
    with served.client() as client, pytest.raises(pulsar.PulsarException):
        client.create_producer(topic)
    internal = served.http.get(f"/persistent/{topic}/internalStats").json()
    assert internal["state"] == "Terminated"


def test_partitions_are_terminated_one_by_one(served: Served) -> None:
    path = f"/persistent/{served.namespace()}/orders"
    served.http.put(f"{path}/partitions", json=2)
    assert served.http.post(f"{path}/terminate").status_code == 405
    answer = served.http.post(f"{path}/terminate/partitions").json()
    assert {key: id["partitionIndex"] for key, id in answer.items()} == {"0": 0, "1": 1}


def test_a_truncated_topic_is_empty(served: Served) -> None:
    topic = f"{served.namespace()}/orders"
    path = f"/persistent/{topic}"
    served.http.put(path)
    served.http.post(
        f"{path}/retention", json={"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    )
    served.http.put(f"{path}/subscription/s", json="earliest")
    served.publish(topic, 5)
    assert served.http.post(f"{path}/trim").status_code == 204
    assert served.http.get(f"{path}/internalStats").json()["numberOfEntries"] == 5
    assert served.http.delete(f"{path}/truncate").status_code == 204
    internal = served.http.get(f"{path}/internalStats").json()
    assert (internal["numberOfEntries"], internal["totalSize"]) == (0, 0)
    assert served.http.get(f"{path}/stats").json()["subscriptions"]["s"]["msgBacklog"] == 0
    served.publish(topic, 1)
    assert served.http.get(f"{path}/stats").json()["subscriptions"]["s"]["msgBacklog"] == 1


def test_topics_that_are_not_persistent_are_listed_and_counted(served: Served) -> None:
    ns = served.namespace()
    path = f"/non-persistent/{ns}/news"
    assert served.http.get(f"{path}/stats").status_code == 404
    assert served.http.put(path).status_code == 204
    assert served.http.get(f"/non-persistent/{ns}").json() == [f"non-persistent://{ns}/news"]
    assert served.http.get(f"/persistent/{ns}").json() == []
    with served.client() as client:
        consumer = client.subscribe(f"non-persistent://{ns}/news", "s")
        producer = client.create_producer(f"non-persistent://{ns}/news")
        producer.send(b"now")
        assert consumer.receive(30_000).data() == b"now"
        stats = served.http.get(f"{path}/stats").json()
        assert stats["msgInCounter"] == stats["msgOutCounter"] == 1
        assert stats["subscriptions"]["s"]["msgBacklog"] == 0
    for verb, tail in [("GET", "internalStats"), ("POST", "terminate"), ("GET", "lastMessageId")]:
        assert served.http.request(verb, f"{path}/{tail}").status_code == 405
    assert served.http.delete(f"{path}?force=true").status_code == 204
