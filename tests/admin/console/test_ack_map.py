"""The ack state as a picture: counts in buckets agree with what the cursor says entry by entry."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.served import Served, made

import magnetar
from magnetar.admin.console.ack_map import Row
from magnetar.broker.topic.persistent_topic import PersistentTopic
from magnetar.model import Position


def ack_map(served: Served, topic: str, **query: object) -> dict[str, Any]:
    answer = served.http.get(f"/persistent/{topic}/subscription/s/ackMap", params=query)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def skip(served: Served, topic: str, *ids: Any) -> None:
    body = {"type": "messageId", "messageIds": [place(id) for id in ids]}
    answer = served.http.post(f"/persistent/{topic}/subscription/s/skipByMessageIds", json=body)
    assert answer.status_code == 204, answer.text


def place(id: Any) -> dict[str, int]:
    found = {"ledgerId": id.ledger_id(), "entryId": id.entry_id()}
    return found | ({"batchIndex": id.batch_index()} if id.batch_index() >= 0 else {})


def test_entries_are_counted_in_equal_buckets(served: Served) -> None:
    topic = made(served)
    ids = served.publish(topic, 10)
    skip(served, topic, ids[0], ids[1], ids[5], ids[9])
    found = ack_map(served, topic, buckets=4)
    assert (found["first"], found["end"], found["width"]) == (0, 10, 3)
    assert found["acked"] == [2, 1, 0, 1]
    assert found["partial"] == found["held"] == found["delayed"] == [0, 0, 0, 0]
    assert found["markDelete"] == 2
    assert found["ledgers"] == [{"ledgerId": ids[0].ledger_id(), "first": 0}]
    assert found["batches"] == []


def test_a_window_begins_at_a_position_and_ends_with_the_topic(served: Served) -> None:
    topic = made(served)
    ids = served.publish(topic, 10)
    skip(served, topic, ids[6])
    start = f"{ids[5].ledger_id()}:{ids[5].entry_id()}"
    found = ack_map(served, topic, **{"from": start, "entries": 3})
    assert (found["first"], found["end"], found["acked"]) == (5, 8, [0, 1, 0])
    found = ack_map(served, topic, **{"from": start, "entries": 300})
    assert (found["first"], found["end"], found["acked"]) == (5, 10, [0, 1, 0, 0, 0])
    # Beyond the end there is nothing, and nothing is wrong with asking.
    found = ack_map(served, topic, **{"from": f"{ids[5].ledger_id() + 1}:0"})
    assert (found["first"], found["end"], found["acked"]) == (10, 10, [])


def test_what_is_left_of_batches_comes_as_bits(served: Served) -> None:
    topic = made(served)
    ids = served.publish(topic, 20, batch=10)
    skip(served, topic, *[id for id in ids[:10] if id.batch_index() not in (1, 9)])
    found = ack_map(served, topic)
    assert (found["acked"], found["partial"]) == ([0, 0], [1, 0])
    assert found["batches"] == [
        {"entry": 0, "size": 10, "left": 2, "remaining": f"{1 << 1 | 1 << 9:x}"},
        {"entry": 1, "size": 10},
    ]


def test_a_topic_without_entries_has_no_buckets(served: Served) -> None:
    found = ack_map(served, made(served))
    assert (found["entries"], found["acked"], found["ledgers"]) == (0, [], [])


@pytest.mark.parametrize("width", [1, 3])
def test_what_consumers_have_and_what_is_delayed_is_told(served: Served, width: int) -> None:
    topic = made(served)
    with magnetar.Client(served.url) as client:
        consumer = client.subscribe(
            f"persistent://{topic}", "s", magnetar.ConsumerType.Shared, receiver_queue_size=1
        )
        producer = client.create_producer(f"persistent://{topic}", batching_enabled=False)
        for _ in range(2):
            producer.send(b"later", deliver_after=timedelta(hours=1))
        for _ in range(4):
            producer.send(b"now")
        consumer.receive(30_000)
        found = ack_map(served, topic, buckets=6 // width)
        held, delayed = found["held"], found["delayed"]
        assert sum(delayed) == 2
        assert sum(held) >= 1
        if width == 1:
            assert delayed == [1, 1, 0, 0, 0, 0]
            assert held[2] == 1
        times = served.http.get(f"/persistent/{topic}/subscription/s/delayed").json()
        assert times["count"] == sum(times["counts"]) == 2
        first, second = times["next"]
        assert times["firstMs"] == first["deliverAtMs"] <= second["deliverAtMs"]
        assert first["position"].endswith(":0")


def test_a_subscription_without_delayed_messages_has_an_empty_time_line(served: Served) -> None:
    topic = made(served)
    found = served.http.get(f"/persistent/{topic}/subscription/s/delayed").json()
    assert (found["count"], found["counts"], found["next"]) == (0, [], [])


@pytest.mark.parametrize(
    "query", [{"from": "5"}, {"from": "a:b"}, {"buckets": 0}, {"buckets": 9000}, {"entries": "x"}]
)
def test_nonsense_is_refused(served: Served, query: dict[str, Any]) -> None:
    topic = made(served)
    answer = served.http.get(f"/persistent/{topic}/subscription/s/ackMap", params=query)
    assert (answer.status_code, bool(answer.json()["reason"])) == (400, True)


# ---- Against what the cursor says entry by entry ---------------------------------------


@pytest.fixture(scope="module")
def holes(shared_broker: Served) -> Iterator[tuple[Served, str]]:
    """A topic of three ledgers with holes all over."""
    topic = made(shared_broker)
    ids = []
    for count in (7, 1, 12):
        ids += shared_broker.publish(topic, count)
        shared_broker.call(partial(seal, shared_broker, topic))
        assert shared_broker.http.put(f"/persistent/{topic}/unload").status_code == 204
    skip(shared_broker, topic, *[id for number, id in enumerate(ids) if number % 3 != 1])
    return (yield (shared_broker, topic))


def seal(served: Served, topic: str) -> None:
    """The next entry is in another ledger."""
    served.broker.store.seal_topic(served.broker.topics[f"persistent://{topic}"].id)


@settings(deadline=None)
@given(first=st.integers(0, 20), count=st.integers(0, 25), buckets=st.integers(1, 25))
def test_counts_are_those_of_a_walk(
    holes: tuple[Served, str], first: int, count: int, buckets: int
) -> None:
    served, topic = holes
    whole = ack_map(served, topic)
    assert whole["entries"] == 20
    assert len(whole["ledgers"]) == 3

    def positions() -> list[Position]:
        found = served.broker.topics[f"persistent://{topic}"]
        assert isinstance(found, PersistentTopic)
        return [
            Position(ledger_id, entry_id)
            for ledger_id, low, high in Row(found).parts(0, 20)
            for entry_id in range(low, high)
        ]

    everything = served.call(positions)
    start = everything[min(first, 19)]
    found = ack_map(served, topic, **{"from": str(start), "entries": count, "buckets": buckets})
    cursor = served.broker.topics[f"persistent://{topic}"].subscriptions["s"].cursor
    end = 20 if count == 0 else min(min(first, 19) + count, 20)
    acked = [cursor.is_acked(position) for position in everything[min(first, 19) : end]]
    width = found["width"]
    assert found["acked"] == [sum(acked[at : at + width]) for at in range(0, len(acked), width)]
    assert len(found["acked"]) <= buckets
