"""Publishing by REST, and redriving: what arrives, where, and what happens if it cannot be."""

import base64
import logging
from collections.abc import Callable
from typing import Any

import httpx
import pulsar
import pytest
from support.served import Served, made
from support.tokens import SECRET_SETTING, token

import magnetar
from magnetar.admin.console.produce import java_slot
from magnetar.broker.auth.permissions import Permissions
from magnetar.broker.setting.settings import BrokerSettings


def produce(served: Served, topic: str, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    answer = post(served, topic, {"messages": list(messages)})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["messagePublishResults"]
    return found


def post(served: Served, topic: str, body: object) -> httpx.Response:
    return httpx.post(f"{served.http_url}/topics/persistent/{topic}", json=body)


def messages(served: Served, topic: str) -> list[dict[str, Any]]:
    answer = served.http.get(f"/persistent/{topic}/messages")
    found: list[dict[str, Any]] = answer.json()["messages"]
    return found


# ---- Producing -------------------------------------------------------------------------


def test_what_is_published_is_delivered(served: Served) -> None:
    topic = made(served)
    results = produce(
        served,
        topic,
        {"payload": "grüße", "key": "k", "properties": {"a": "b"}, "eventTime": 5},
        {"payloadBase64": base64.b64encode(b"\x00\xff").decode()},
        {},
    )
    assert [one["errorCode"] for one in results] == [0, 0, 0]
    with magnetar.Client(served.url) as client:
        consumer = client.subscribe(f"persistent://{topic}", "s")
        first, second, third = (consumer.receive(30_000) for _ in range(3))
        assert first.data() == "grüße".encode()
        assert (first.partition_key(), first.properties(), first.event_timestamp()) == (
            "k",
            {"a": "b"},
            5,
        )
        assert second.data() == b"\x00\xff"
        assert third.data() == b""
    ids = [one["messageId"].split(":")[:2] for one in results]
    assert ids == [[str(one["ledgerId"]), str(one["entryId"])] for one in messages(served, topic)]
    assert [one["nullValue"] for one in messages(served, topic)] == [False, False, True]


def test_producers_leave_nothing_behind(served: Served) -> None:
    topic = made(served)
    produce(served, topic, *[{"payload": "x"}] * 5)
    stats = served.http.get(f"/persistent/{topic}/stats").json()
    assert (stats["publishers"], stats["msgInCounter"]) == ([], 5)


def test_a_key_leads_to_the_partition_that_it_has_with_javas_clients(served: Served) -> None:
    """What `"orders".hashCode()` and others are, as Java says."""
    assert (java_slot("orders"), java_slot(""), java_slot("a")) == (-1008770331 & 0x7FFFFFFF, 0, 97)
    topic = made(served, partitions=3)
    results = produce(served, topic, *[{"payload": "x", "key": k} for k in ("a", "b", "c", "a")])
    partitions = [int(one["messageId"].rpartition(":")[2]) for one in results]
    assert partitions == [97 % 3, 98 % 3, 99 % 3, 97 % 3]
    (one,) = produce(served, topic, {"payload": "x", "partition": 2})
    assert one["messageId"].endswith(":2")
    assert post(served, topic, {"messages": [{"partition": 3}]}).status_code == 400


def test_a_topic_that_takes_nothing_says_so_of_each_message(served: Served) -> None:
    topic = made(served)
    assert served.http.post(f"/persistent/{topic}/terminate").status_code == 200
    results = produce(served, topic, {"payload": "x"}, {"payload": "y"})
    assert all(one["errorCode"] and "terminated" in one["errorMsg"] for one in results)


def test_a_message_that_is_too_large_is_refused_alone(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings(message_size_max=20_000))
    topic = made(served)
    results = produce(served, topic, {"payload": "x" * 40_000}, {"payload": "y"})
    assert [bool(one["errorCode"]) for one in results] == [True, False]
    assert len(messages(served, topic)) == 1


def test_a_topic_that_somebody_has_for_himself_takes_nothing(served: Served) -> None:
    topic = made(served)
    with served.client() as client:
        client.create_producer(topic, access_mode=pulsar.ProducerAccessMode.Exclusive)
        (one,) = produce(served, topic, {"payload": "x"})
        assert one["errorCode"]
        assert "for itself" in one["errorMsg"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": [{"payload": 5}]},
        {"messages": [{"payload": "x", "payloadBase64": "eA=="}]},
        {"messages": [{"payloadBase64": "="}]},
        {"messages": [{"unknown": 1}]},
        {"messages": [{"payload": "x", "eventTime": -1}]},
        {"messages": [{"payload": "x"}], "valueSchema": "{}"},
        [],
    ],
)
def test_what_is_no_message_is_refused_and_nothing_is_published(
    served: Served, body: object
) -> None:
    topic = made(served)
    answer = post(served, topic, body)
    assert (answer.status_code, bool(answer.json()["reason"])) == (400, True)
    assert messages(served, topic) == []


def test_producing_follows_the_rules_of_creation(served: Served) -> None:
    namespace = served.namespace()
    off = {"allowAutoTopicCreation": False}
    path = f"/namespaces/{namespace}/autoTopicCreation"
    assert served.http.post(path, json=off).status_code == 204
    assert post(served, f"{namespace}/new", {"messages": [{"payload": "x"}]}).status_code == 404


def enforce(served: Served, topic: str) -> None:
    """The topic has a schema, and producers must have it."""
    schema = {"type": "STRING", "schema": "", "properties": {}}
    answer = served.http.post(f"/schemas/{topic}/schema", json=schema)
    assert answer.status_code == 200, answer.text
    path = f"/namespaces/{topic.rpartition('/')[0]}/schemaValidationEnforced"
    assert served.http.post(path, json=True).status_code == 204


def test_a_topic_that_asks_for_a_schema_takes_no_message_without_one(served: Served) -> None:
    topic = made(served)
    enforce(served, topic)
    bare, unknown, right = produce(
        served,
        topic,
        {"payload": "x"},
        {"payload": "y", "schemaVersion": 7},
        {"payload": "z", "schemaVersion": 0},
    )
    assert "enforces" in bare["errorMsg"]
    assert "no version 7" in unknown["errorMsg"]
    assert right["errorCode"] == 0
    (one,) = messages(served, topic)
    assert one["schemaVersion"] == 0


def test_a_topic_comes_to_be_with_the_partitions_that_its_namespace_says(served: Served) -> None:
    namespace = served.namespace()
    policy = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2}
    path = f"/namespaces/{namespace}/autoTopicCreation"
    assert served.http.post(path, json=policy).status_code == 204
    (one,) = produce(served, f"{namespace}/new", {"payload": "x", "partition": 1})
    assert (one["errorCode"], one["messageId"][-2:]) == (0, ":1")
    found = served.http.get(f"/persistent/{namespace}/new/partitions").json()
    assert found["partitions"] == 2


# ---- Redriving -------------------------------------------------------------------------


def letters(served: Served, origin: str, count: int = 3) -> str:
    """A topic of dead letters that came from another, with the subscription `s`."""
    topic = made(served)
    properties = {
        "REAL_TOPIC": f"persistent://{origin}",
        "REAL_SUBSCRIPTION": "s",
        "ORIGIN_MESSAGE_ID": "1:1",
        "RECONSUMETIMES": "3",
        "colour": "red",
    }
    body = [
        {"payload": f"letter {i}", "key": f"k{i}", "properties": properties} for i in range(count)
    ]
    produce(served, topic, *body)
    return topic


def redrive(
    served: Served, topic: str, ids: list[dict[str, Any]], **more: object
) -> httpx.Response:
    named = [
        {name: one[name] for name in ("ledgerId", "entryId", "batchIndex") if name in one}
        for one in ids
    ]
    path = f"/persistent/{topic}/subscription/s/redrive"
    return served.http.post(path, json={"messageIds": named, **more})


def backlog(served: Served, topic: str) -> int:
    stats = served.http.get(f"/persistent/{topic}/stats").json()
    return int(stats["subscriptions"]["s"]["msgBacklog"])


def test_letters_go_back_to_where_they_came_from(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "magnetar.audit")
    origin = made(served)
    topic = letters(served, origin)
    first, second, third = messages(served, topic)
    answer = redrive(served, topic, [first, third])
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["redriven"], [one["result"] for one in found["messageIds"]]) == (
        2,
        ["redriven"] * 2,
    )
    back = messages(served, origin)
    assert [base64.b64decode(one["payload"]) for one in back] == [b"letter 0", b"letter 2"]
    assert [one["key"] for one in back] == ["k0", "k2"]
    assert back[0]["properties"] == {"colour": "red", "REDRIVE_COUNT": "1"}
    ids = [f"{one['ledgerId']}:{one['entryId']}" for one in back]
    assert [one["messageId"] for one in found["messageIds"]] == ids
    assert backlog(served, topic) == 1
    assert "redrive: role - from 127.0.0.1, subscription 's'" in caplog.text
    # Once more does nothing to what is done.
    again = redrive(served, topic, [first, second]).json()
    assert [one["result"] for one in again["messageIds"]] == ["already acked", "redriven"]
    assert (backlog(served, topic), len(messages(served, origin))) == (0, 3)


def test_all_of_them_may_go_elsewhere(served: Served) -> None:
    origin, other = made(served), made(served)
    topic = letters(served, origin)
    answer = redrive(served, topic, messages(served, topic), to=f"persistent://{other}")
    assert answer.json()["redriven"] == 3
    assert (len(messages(served, origin)), len(messages(served, other))) == (0, 3)


def test_a_letter_of_a_partition_goes_to_the_partition_of_its_key(served: Served) -> None:
    origin = made(served, partitions=3)
    topic = letters(served, f"{origin}-partition-1", 4)
    found = redrive(served, topic, messages(served, topic)).json()
    for number, one in enumerate(found["messageIds"]):
        wanted = java_slot(f"k{number}") % 3
        assert one["topic"] == f"persistent://{origin}-partition-{wanted}"


def test_what_is_no_letter_stays(served: Served) -> None:
    topic = made(served)
    produce(
        served, topic, {"payload": "x"}, {"payload": "y", "properties": {"REAL_TOPIC": "a:b//"}}
    )
    found = redrive(served, topic, messages(served, topic)).json()
    assert found["redriven"] == 0
    first, second = (one["result"] for one in found["messageIds"])
    assert "no dead letter" in first
    assert "invalid topic name" in second
    assert backlog(served, topic) == 2


def test_a_letter_whose_topic_is_gone_stays_and_the_others_go(served: Served) -> None:
    origin = made(served)
    topic = letters(served, origin, 1)
    gone = {"payload": "z", "properties": {"REAL_TOPIC": "persistent://public/default/never-was"}}
    produce(served, topic, gone)
    found = redrive(served, topic, messages(served, topic)).json()
    assert (found["redriven"], found["messageIds"][0]["result"]) == (1, "redriven")
    assert "not found" in found["messageIds"][1]["result"]
    assert backlog(served, topic) == 1


def test_a_letter_takes_its_schema_along_by_the_version_that_it_has_there(served: Served) -> None:
    origin, topic = made(served), made(served)
    enforce(served, origin)
    other = {
        "type": "JSON",
        "schema": '{"type": "record", "name": "R", "fields": []}',
        "properties": {},
    }
    same = {"type": "STRING", "schema": "", "properties": {}}
    strategy = f"/namespaces/{topic.rpartition('/')[0]}/schemaCompatibilityStrategy"
    assert served.http.post(strategy, json="ALWAYS_COMPATIBLE").status_code == 204
    for schema in (other, same):
        assert served.http.post(f"/schemas/{topic}/schema", json=schema).status_code == 200
    properties = {"REAL_TOPIC": f"persistent://{origin}"}
    letters = [{"payload": str(n), "schemaVersion": n, "properties": properties} for n in (0, 1)]
    produce(served, topic, *letters)
    stays, goes = redrive(served, topic, messages(served, topic)).json()["messageIds"]
    assert "enforces" in stays["result"]
    assert goes["result"] == "redriven"
    (one,) = messages(served, origin)
    assert (one["schemaVersion"], backlog(served, topic)) == (0, 1)


def test_a_batch_is_named_by_its_indexes(served: Served) -> None:
    topic = made(served)
    served.publish(topic, 4, batch=4)
    (first, *_) = messages(served, topic)
    target = made(served)
    whole = redrive(served, topic, [first | {"batchIndex": -1}], to=f"persistent://{target}").json()
    assert "by their indexes" in whole["messageIds"][0]["result"]
    one = redrive(served, topic, [first | {"batchIndex": 2}], to=f"persistent://{target}").json()
    assert one["redriven"] == 1
    assert base64.b64decode(messages(served, target)[0]["payload"]) == b"message 2"


def test_an_exclusive_subscription_keeps_its_letters_and_nothing_is_published(
    served: Served,
) -> None:
    origin = made(served)
    topic = letters(served, origin)
    with magnetar.Client(served.url) as client:
        client.subscribe(f"persistent://{topic}", "s", magnetar.ConsumerType.Exclusive)
        assert redrive(served, topic, messages(served, topic)).status_code == 405
    assert messages(served, origin) == []


@pytest.mark.parametrize("body", [{}, {"messageIds": []}, {"messageIds": [{"ledgerId": 1}]}, []])
def test_what_names_no_letters_is_refused(served: Served, body: object) -> None:
    topic = made(served)
    answer = served.http.post(f"/persistent/{topic}/subscription/s/redrive", json=body)
    assert answer.status_code == 400


def test_who_may_skip_here_and_not_produce_there_redrives_nothing(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(
        BrokerSettings(
            authentication=True, token_secret_key=SECRET_SETTING, super_user_roles=("root",)
        )
    )
    root = {"Authorization": f"Bearer {token('root')}"}
    base = f"{served.http_url}/admin/v2/persistent/public/default"
    for name in ("origin", "dead"):
        assert httpx.put(f"{base}/{name}", headers=root).status_code == 204
    httpx.put(f"{base}/dead/subscription/s", headers=root)
    letter = {"payload": "x", "properties": {"REAL_TOPIC": "persistent://public/default/origin"}}
    answer = httpx.post(
        f"{served.http_url}/topics/persistent/public/default/dead",
        json={"messages": [letter]},
        headers=root,
    )
    ledger_id, entry_id, _ = answer.json()["messagePublishResults"][0]["messageId"].split(":")
    permissions = Permissions().with_topic("persistent://public/default/dead", "helper", ("skip",))
    served.call(lambda: served.broker.directory.put_permissions("public/default", permissions))
    answer = httpx.post(
        f"{base}/dead/subscription/s/redrive",
        json={"messageIds": [{"ledgerId": int(ledger_id), "entryId": int(entry_id)}]},
        headers={"Authorization": f"Bearer {token('helper')}"},
    )
    assert answer.json()["redriven"] == 0
    assert "not authorized" in answer.json()["messageIds"][0]["result"]
    found = httpx.get(f"{base}/origin/messages", headers=root).json()
    assert found["messages"] == []
