"""Peeking at messages, and finding them, over REST."""

import base64
import json
from typing import Any

import pulsar
import pytest
from support.served import Served

from magnetar.protocol import decode_batch

COMPRESSIONS = ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"]


def place(id: Any) -> str:
    return f"{id.ledger_id()}:{id.entry_id()}"


@pytest.mark.parametrize("kind", COMPRESSIONS)
def test_a_peek_shows_the_payload_and_what_is_known(served: Served, topic: str, kind: str) -> None:
    payload = b"a payload that is long enough to be compressed " * 20
    with served.client() as client:
        producer = client.create_producer(
            topic,
            producer_name=f"peeked-{kind}",
            batching_enabled=False,
            compression_type=getattr(pulsar.CompressionType, kind),
        )
        id = producer.send(
            payload,
            properties={"a": "1", "ü": "line\nend 😀"},
            partition_key="key",
            ordering_key="order",
            event_timestamp=1_700_000_000_123,
        )
    answer = served.http.get(f"/persistent/{topic}/subscription/new/position/1")
    assert answer.content == payload
    headers = answer.headers
    assert headers["x-pulsar-message-id"] == place(id)
    assert headers["x-pulsar-producer-name"] == f"peeked-{kind}"
    assert headers["x-pulsar-sequence-id"] == "0"
    assert headers["x-pulsar-event-time"] == "2023-11-14T22:13:20.123Z"
    assert headers["x-pulsar-publish-time"].endswith("Z")
    assert headers["x-pulsar-partition-key"] == "key"
    assert base64.b64decode(headers["x-pulsar-base64-ordering-key"]) == b"order"
    assert headers["x-pulsar-is-encrypted"] == "false"
    if kind != "NONE":
        assert headers["x-pulsar-uncompressed-size"] == str(len(payload))
    assert json.loads(headers["x-pulsar-property"]) == {"a": "1", "ü": "line\nend 😀"}
    assert "x-pulsar-num-batch-message" not in headers
    # As in Pulsar a subscription that was not there is made.
    assert served.http.get(f"/persistent/{topic}/subscriptions").json() == ["new"]
    by_id = served.http.get(f"/persistent/{topic}/ledger/{id.ledger_id()}/entry/{id.entry_id()}")
    assert by_id.content == payload


def test_a_batch_is_peeked_at_as_a_whole(served: Served, topic: str) -> None:
    served.http.put(f"/persistent/{topic}/subscription/s", json="earliest")
    served.publish(topic, 10, batch=10, compression_type=pulsar.CompressionType.ZSTD)
    answer = served.http.get(f"/persistent/{topic}/subscription/s/position/1")
    assert answer.headers["x-pulsar-num-batch-message"] == "10"
    messages = decode_batch(answer.content, 10)
    assert [m.payload for m in messages] == [b"message %d" % i for i in range(10)]


def test_a_peek_passes_over_what_is_acked(served: Served, topic: str) -> None:
    with served.client() as client:
        consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
        served.publish(topic, 6)
        for i in range(6):
            message = consumer.receive(30_000)
            if i in (0, 2, 3):
                consumer.acknowledge(message)
    path = f"/persistent/{topic}/subscription/s/position"
    assert [served.http.get(f"{path}/{k}").content for k in (1, 2, 3)] == [
        b"message 1",
        b"message 4",
        b"message 5",
    ]
    assert served.http.get(f"{path}/4").status_code == 404


def test_a_peek_at_nothing_says_that_it_made_the_subscription(served: Served, topic: str) -> None:
    served.http.put(f"/persistent/{topic}")
    answer = served.http.get(f"/persistent/{topic}/subscription/new/position/1")
    assert answer.status_code == 404
    assert "created" in answer.json()["reason"]
    assert served.http.get(f"/persistent/{topic}/subscriptions").json() == ["new"]
    again = served.http.get(f"/persistent/{topic}/subscription/new/position/1")
    assert again.status_code == 404
    assert "created" not in again.json()["reason"]


def test_an_entry_of_another_topic_is_not_shown(served: Served, topic: str) -> None:
    (id,) = served.publish(f"{topic}-secret", 1)
    path = f"/persistent/{topic}/ledger/{id.ledger_id()}/entry/{id.entry_id()}"
    assert served.http.get(path).status_code == 404


def test_messages_are_examined_from_both_ends(served: Served, topic: str) -> None:
    path = f"/persistent/{topic}/examinemessage"
    assert served.http.get(path).status_code == 412
    served.publish(topic, 5)
    for query, expected in [
        ("", b"message 4"),
        ("?initialPosition=earliest&messagePosition=1", b"message 0"),
        ("?initialPosition=earliest&messagePosition=4", b"message 3"),
        ("?initialPosition=latest&messagePosition=2", b"message 3"),
    ]:
        assert served.http.get(f"{path}{query}").content == expected
    assert served.http.get(f"{path}?messagePosition=6").status_code == 404
    assert served.http.get(f"{path}?initialPosition=middle").status_code == 412


def test_a_message_is_found_by_time_and_the_last_by_name(served: Served, topic: str) -> None:
    path = f"/persistent/{topic}"
    assert served.http.get(f"{path}/lastMessageId").json()["entryId"] == -1
    ids = served.publish(topic, 4, batch=2)
    first = {
        "ledgerId": ids[0].ledger_id(),
        "entryId": ids[0].entry_id(),
        "partitionIndex": -1,
        "batchIndex": -1,
        "batchSize": 0,
    }
    assert served.http.get(f"{path}/messageid/0").json() == first
    last = served.http.get(f"{path}/lastMessageId").json()
    assert (last["ledgerId"], last["entryId"]) == (ids[3].ledger_id(), ids[3].entry_id())
    assert (last["batchIndex"], last["batchSize"]) == (1, 2)
    assert served.http.get(f"{path}/messageid/{2**50}").json()["entryId"] == ids[3].entry_id()


def test_the_size_of_a_backlog_counts_from_a_message_on(served: Served, topic: str) -> None:
    ids = served.publish(topic, 4)
    path = f"/persistent/{topic}/backlogSize"
    total = served.http.put(path, json="earliest").json()
    assert total == served.http.get(f"/persistent/{topic}/stats").json()["storageSize"]
    body = {"ledgerId": ids[2].ledger_id(), "entryId": ids[2].entry_id()}
    assert served.http.put(path, json=body).json() == total // 2
    assert served.http.put(path, json="latest").json() == 0
