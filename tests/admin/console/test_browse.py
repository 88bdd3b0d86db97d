"""Messages of topics and backlogs: pages, filters, states, and what cannot be read."""

import asyncio
import base64
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.served import Served, made

import magnetar
from magnetar import aio
from magnetar.admin.console import browse
from magnetar.admin.console.entry_messages import EntryMessages
from magnetar.admin.console.publishing import Publisher
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.model import Position
from magnetar.protocol import MessageMetadata


def messages(served: Served, topic: str, *, backlog: bool = False, **query: Any) -> dict[str, Any]:
    part = "/subscription/s" if backlog else ""
    answer = served.http.get(f"/persistent/{topic}{part}/messages", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def payloads(found: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode(one["payload"]) for one in found["messages"]]


def all_pages(served: Served, topic: str, **query: Any) -> list[bytes]:
    found: list[bytes] = []
    start: dict[str, Any] = {}
    while True:
        page = messages(served, topic, **(query | start))
        assert len(page["messages"]) <= int(str(query.get("limit", browse.PAGE)))
        found += payloads(page)
        if page["next"] is None:
            return found
        start = {"from": page["next"]}


def test_what_was_aborted_says_so_and_open_transactions_are_counted(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings(transactions=True))
    topic = made(served)

    async def work() -> None:
        async with aio.Client(served.url) as client:
            producer = await client.create_producer(topic)
            for payload, committed in ((b"a", True), (b"b", False), (b"c", True)):
                with suppress(ZeroDivisionError):
                    async with client.transaction(timeout=30) as txn:
                        await producer.send(payload, transaction=txn)
                        assert overview()["open"] == 1
                        if not committed:
                            raise ZeroDivisionError

    def overview() -> dict[str, int]:
        found: dict[str, int] = served.http.get("/console/overview").json()["transactions"]
        return found

    asyncio.run(work())
    seen = messages(served, topic)
    assert payloads(seen) == [b"a", b"b", b"c"]
    assert [one.get("state", "") for one in seen["messages"]] == ["", "aborted", ""]
    left = messages(served, topic, backlog=True)
    assert [one["state"] for one in left["messages"]] == ["waiting", "waiting"]
    stored = messages(served, topic, backlog=True, acked=True)
    assert [one["state"] for one in stored["messages"]] == ["waiting", "aborted", "waiting"]
    assert overview() == {"open": 0, "oldestMs": 0, "committed": 2, "aborted": 1}


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("limit", [1, 3, 7, 50])
def test_pages_together_have_every_message_once(served: Served, batch: int, limit: int) -> None:
    topic = made(served)
    served.publish(topic, 10, batch=batch)
    assert all_pages(served, topic, limit=limit) == [b"message %d" % i for i in range(10)]


def test_a_backlog_has_what_is_not_acked_and_says_what_became_of_the_rest(served: Served) -> None:
    topic = made(served)
    ids = served.publish(topic, 8, batch=4)
    body = {
        "type": "messageId",
        "messageIds": [
            {"ledgerId": id.ledger_id(), "entryId": id.entry_id(), "batchIndex": id.batch_index()}
            for id in (ids[0], ids[2], ids[5])
        ],
    }
    path = f"/persistent/{topic}/subscription/s"
    assert served.http.post(f"{path}/skipByMessageIds", json=body).status_code == 204
    left = [b"message %d" % i for i in (1, 3, 4, 6, 7)]
    assert payloads(messages(served, topic, backlog=True)) == left
    assert all_pages(served, topic, backlog=True, limit=2) == left
    found = messages(served, topic, backlog=True, acked="true")
    states = [one["state"] for one in found["messages"]]
    assert states == ["acked", "waiting", "acked", "waiting", "waiting", "acked"] + ["waiting"] * 2


def test_a_message_has_what_its_producer_said(served: Served) -> None:
    topic = made(served)
    with magnetar.Client(served.url) as client:
        producer = client.create_producer(f"persistent://{topic}", producer_name="shop")
        properties = {"a": "1", "<b>": "\n", "": ""}
        producer.send(b"\x00\xff", partition_key="k", properties=properties, event_timestamp=7)
    (one,) = messages(served, topic)["messages"]
    assert base64.b64decode(one["payload"]) == b"\x00\xff"
    assert (one["key"], one["properties"], one["eventTime"]) == ("k", properties, 7)
    assert (one["producerName"], one["payloadSize"], one["fault"]) == ("shop", 2, "")


def test_long_payloads_are_cut_and_can_be_had_whole(served: Served) -> None:
    topic = made(served)
    payload = bytes(range(256)) * 40
    with magnetar.Client(served.url) as client:
        producer = client.create_producer(
            f"persistent://{topic}", compression_type=magnetar.CompressionType.ZSTD
        )
        producer.send(payload)
    (one,) = messages(served, topic, payload=100)["messages"]
    assert base64.b64decode(one["payload"]) == payload[:100]
    assert one["payloadSize"] == len(payload)
    assert whole(served, topic, one).content == payload


def whole(served: Served, topic: str, one: dict[str, Any]) -> httpx.Response:
    path = f"/persistent/{topic}/ledger/{one['ledgerId']}/entry/{one['entryId']}/message"
    return served.http.get(path, params={"batchIndex": one["batchIndex"]})


def test_one_message_comes_out_of_its_batch(served: Served) -> None:
    topic = made(served)
    served.publish(topic, 5, batch=5)
    found = messages(served, topic)["messages"]
    assert [whole(served, topic, one).content for one in found] == [
        b"message %d" % i for i in range(5)
    ]
    assert whole(served, topic, found[0] | {"batchIndex": 5}).status_code == 404
    assert whole(served, topic, found[0] | {"entryId": 9}).status_code == 404


def test_a_message_in_chunks_is_one_message_and_comes_whole(served: Served) -> None:
    topic = made(served)
    payload = bytes(range(256)) * 5000
    with served.client() as client:
        producer = client.create_producer(topic, chunking_enabled=True, batching_enabled=False)
        producer.send(b"before")
        producer.send(payload * 6)
        producer.send(b"after")
    found = messages(served, topic)["messages"]
    assert len(found) == 3
    chunk = found[1]["chunk"]
    assert (chunk["number"], chunk["size"]) == (0, len(payload) * 6)
    assert chunk["of"] > 1
    assert whole(served, topic, found[1]).content == payload * 6
    # Any of its chunks leads to all of it.
    last = found[1] | {"entryId": found[1]["entryId"] + chunk["of"] - 1}
    assert whole(served, topic, last).content == payload * 6


# ---- Filters ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"key": "k1"}, [1, 4]),
        ({"text": "message 2"}, [2]),
        ({"text": "nothing like it"}, []),
        ({"bytes": b"age 3".hex()}, [3]),
        ({"property": "n"}, [0, 1, 2, 3, 4, 5]),
        ({"property": "n", "value": "5"}, [5]),
        ({"property": "m"}, []),
        ({"key": "k1", "text": "4"}, [4]),
        ({"since": 1 << 50}, []),
        ({"until": 5}, []),
        ({"since": 5, "until": 1 << 50}, [0, 1, 2, 3, 4, 5]),
    ],
)
@pytest.mark.parametrize("backlog", [False, True])
def test_what_is_looked_for_is_found(
    filtered: tuple[Served, str], query: dict[str, Any], wanted: list[int], backlog: bool
) -> None:
    served, topic = filtered
    found = messages(served, topic, backlog=backlog, **query)
    assert payloads(found) == [b"message %d" % i for i in wanted]
    assert found["next"] is None


@pytest.fixture(scope="module")
def filtered(shared_broker: Served) -> tuple[Served, str]:
    topic = made(shared_broker)
    with magnetar.Client(shared_broker.url) as client:
        producer = client.create_producer(f"persistent://{topic}")
        for i in range(6):
            producer.send(b"message %d" % i, partition_key=f"k{i % 3}", properties={"n": str(i)})
    return shared_broker, topic


def test_a_long_search_stops_and_says_where_to_go_on(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = made(served)
    served.publish(topic, 30)
    monkeypatch.setattr(browse, "BYTES_MAX", 1)
    found = messages(served, topic, text="message 2")
    assert (found["searched"], found["messages"]) == (1, [])
    assert found["next"].endswith(":1")
    wanted = [b"message 2", *[b"message %d" % i for i in range(20, 30)]]
    assert all_pages(served, topic, text="message 2") == wanted


@pytest.mark.parametrize(
    "query",
    [
        {"from": "1"},
        {"from": "1:2:3:4"},
        {"from": "a:b"},
        {"bytes": "0g"},
        {"limit": 0},
        {"limit": 501},
        {"payload": 1 << 20},
        {"since": "x"},
    ],
)
def test_nonsense_is_refused(served: Served, topic: str, query: dict[str, Any]) -> None:
    answer = served.http.get(f"/persistent/{topic}/messages", params=query)
    assert (answer.status_code, bool(answer.json()["reason"])) == (400, True)


def test_looking_changes_nothing(served: Served) -> None:
    topic = made(served)
    served.publish(topic, 5)
    path = f"/persistent/{topic}/subscription/s/ackState"
    before = served.http.get(path).json()
    messages(served, topic, backlog=True)
    messages(served, topic)
    assert served.http.get(path).json() == before


def test_states_tell_who_has_a_message(served: Served) -> None:
    topic = made(served)
    with magnetar.Client(served.url) as client:
        name = f"persistent://{topic}"
        consumer = client.subscribe(
            name, "s", magnetar.ConsumerType.Shared, consumer_name="w", receiver_queue_size=1
        )
        producer = client.create_producer(name, batching_enabled=False)
        producer.send(b"later", deliver_after=timedelta(hours=1))
        producer.send(b"now")
        consumer.receive(30_000)
        later, now = messages(served, topic, backlog=True)["messages"]
    assert (later["state"], now["state"], now["consumer"]) == ("delayed", "held", "w")
    assert later["deliverAt"] > 0


# ---- What cannot be read ---------------------------------------------------------------


@given(st.binary(max_size=60), st.integers(1, 4))
def test_a_batch_that_is_none_is_told_of_and_nothing_breaks(payload: bytes, count: int) -> None:
    metadata = MessageMetadata("p", 0, 0)
    metadata.num_messages_in_batch = count
    entry = EntryMessages(Position(1, 2), metadata)
    entry.payload = payload
    found = list(entry.messages())
    assert 1 <= len(found) <= count
    assert all(not one.fault for one in found[:-1])
    for one in found:
        assert json.loads(json.dumps(entry.row(one, 10)))["entryId"] == 2


def test_an_entry_that_cannot_be_decompressed_has_a_fault(served: Served) -> None:
    topic = made(served)
    metadata = MessageMetadata("p", 0, 1)
    metadata.compression, metadata.uncompressed_size = 2, 50
    publish_raw(served, topic, metadata, b"no zlib")
    (one,) = messages(served, topic)["messages"]
    assert "cannot be decompressed" in one["fault"]
    assert whole(served, topic, one).status_code == 422


def publish_raw(served: Served, topic: str, metadata: MessageMetadata, payload: bytes) -> None:
    async def publish() -> None:
        found = served.broker.topics[f"persistent://{topic}"]
        with Publisher(found, "test") as publisher:
            await publisher.publish(metadata, payload)

    served.run(publish())
