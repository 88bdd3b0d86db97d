"""Skipping messages by id over REST: the twelve ways in which it could go wrong (PIP-423)."""

import base64
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pulsar
import pytest
from support.broker_process import BrokerProcess
from support.served import Served, made
from support.waiting import wait_until

from magnetar.broker.setting.settings import BrokerSettings

Body = Any
SHARED = pulsar.ConsumerType.Shared
KEY_SHARED = pulsar.ConsumerType.KeyShared


@pytest.fixture
def topic(served: Served) -> str:
    """A topic with a subscription `s` that nobody ever joined."""
    return made(served)


def skip(served: Served, topic: str, body: Body, subscription: str = "s") -> httpx.Response:
    return served.http.post(
        f"/persistent/{topic}/subscription/{subscription}/skipByMessageIds", json=body
    )


def plain(*ids: Any) -> dict[str, object]:
    """A body that names whole entries."""
    return {
        "type": "messageId",
        "messageIds": [{"ledgerId": id.ledger_id(), "entryId": id.entry_id()} for id in ids],
    }


def inside(id: Any, *indexes: object) -> dict[str, object]:
    """A body that names messages of one batch."""
    place = {"ledgerId": id.ledger_id(), "entryId": id.entry_id()}
    return {"type": "messageId", "messageIds": [{**place, "batchIndex": i} for i in indexes]}


def in_base64(id: Any) -> str:
    return base64.b64encode(id.serialize()).decode()


def stats(served: Served, topic: str, subscription: str = "s") -> dict[str, Any]:
    found = served.http.get(f"/persistent/{topic}/stats").json()["subscriptions"][subscription]
    assert isinstance(found, dict)
    return found


def backlog(served: Served, topic: str) -> tuple[int, int]:
    """In entries and in messages, over all partitions."""
    path = f"/persistent/{topic}"
    answer = served.http.get(f"{path}/partitioned-stats")
    if answer.status_code == 404:
        answer = served.http.get(f"{path}/stats")
    found = answer.json()["subscriptions"]["s"]
    return found["msgBacklog"], found["msgBacklogMessages"]


def received(consumer: Any, count: int) -> list[bytes]:
    return [consumer.receive(timeout_millis=30_000).data() for _ in range(count)]


def nothing_more(consumer: Any) -> bool:
    try:
        consumer.receive(timeout_millis=200)
    except pulsar.Timeout:
        return True
    return False


# ---- Bodies ----------------------------------------------------------------------------


def test_every_form_of_a_body_names_messages(served: Served, topic: str) -> None:
    ids = served.publish(topic, 6)
    place = {"ledgerId": ids[0].ledger_id(), "entryId": ids[0].entry_id()}
    bodies: list[Body] = [
        {"type": "messageId", "messageIds": [place]},
        {"type": "messageId", "messageIds": [{k: str(v + 1) for k, v in place.items()}]},
        {"type": "byteArray", "messageIds": [in_base64(ids[2])]},
        {"messageIds": [in_base64(ids[3])]},
        [in_base64(ids[4])],
    ]
    bodies[1]["messageIds"][0]["ledgerId"] = str(ids[1].ledger_id())
    for left, body in zip((5, 4, 3, 2, 1), bodies, strict=True):
        assert skip(served, topic, body).status_code == 204, body
        assert backlog(served, topic) == (left, left), body


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        17,
        "CAUQAiAD",
        {"type": "messageId"},
        {"type": "messageId", "messageIds": []},
        {"type": "messageId", "messageIds": {"5": 2}},
        {"type": "map", "messageIds": [{"ledgerId": 1, "entryId": 1}]},
        {"type": "messageId", "messageIds": ["CAUQAiAD"]},
        {"type": "messageId", "messageIds": [{"ledgerId": 1}]},
        {"type": "messageId", "messageIds": [{"ledgerId": 1.0, "entryId": 0}]},
        {"type": "messageId", "messageIds": [{"ledgerId": True, "entryId": 0}]},
        {"type": "messageId", "messageIds": [{"ledgerId": 1, "entryId": -1}]},
        {"type": "messageId", "messageIds": [{"ledgerId": 1 << 63, "entryId": 0}]},
        {"type": "messageId", "messageIds": [{"ledgerId": 1, "entryId": 0, "batchIdx": 1}]},
        {"messageIds": [{"ledgerId": 1, "entryId": 0}]},
        {"type": "byteArray", "messageIds": ["not base64!"]},
        ["////"],
        [""],
        [None],
    ],
)
def test_a_body_that_names_nothing_is_refused(served: Served, topic: str, body: Body) -> None:
    served.publish(topic, 1)
    answer = skip(served, topic, body)
    assert answer.status_code == 400
    assert answer.json()["reason"]
    assert backlog(served, topic) == (1, 1)


def test_a_bad_id_is_told_by_its_place_in_the_list(served: Served, topic: str) -> None:
    good = in_base64(served.publish(topic, 1)[0])
    assert "id 2 of the list" in skip(served, topic, [good, good, "?"]).json()["reason"]


# ---- The twelve ------------------------------------------------------------------------


def test_1_each_refusal_has_its_own_code(served: Served, topic: str) -> None:
    (id,) = served.publish(topic, 1)
    namespace = topic.rpartition("/")[0]
    path = f"/persistent/{topic}/subscription/s/skipByMessageIds"
    assert served.http.post(path, content=b"{").status_code == 400
    assert skip(served, f"{namespace}/other", plain(id)).status_code == 404
    assert skip(served, topic, plain(id), "other").status_code == 404
    assert skip(served, topic, inside(id, 1)).status_code == 400
    assert served.http.get(path).status_code == 405
    assert served.http.put(f"/non-persistent/{namespace}/n").status_code == 204
    unstored = f"/non-persistent/{namespace}/n/subscription/s/skipByMessageIds"
    assert served.http.post(unstored, json=plain(id)).status_code == 405
    for type in (pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Failover):
        with served.client() as client:
            client.subscribe(topic, "s", type)
            assert skip(served, topic, plain(id)).status_code == 405
        # The subscription is what it was, whoever has left.
        assert skip(served, topic, plain(id)).status_code == 405
        assert served.http.put(f"/persistent/{topic}/unload").status_code == 204
        assert skip(served, topic, plain(id)).status_code == 405
        with served.client() as client:
            client.subscribe(topic, "s", SHARED)
    assert backlog(served, topic) == (1, 1)
    assert skip(served, topic, plain(id)).status_code == 204


def test_2_what_is_gone_already_is_skipped_at_once(served: Served, topic: str) -> None:
    """No read waits for entries that no longer are there."""
    ids = served.publish(topic, 3)
    for _ in range(3):
        assert skip(served, topic, plain(*ids)).status_code == 204
        assert skip(served, topic, inside(ids[0], 0)).status_code == 204
    assert backlog(served, topic) == (0, 0)
    assert served.http.delete(f"/persistent/{topic}/truncate").status_code == 204
    assert skip(served, topic, plain(*ids)).status_code == 204
    # And it is not that anything goes.
    assert skip(served, topic, inside(ids[0], -2)).status_code == 400


def test_3_messages_beside_a_skipped_one_are_delivered(served: Served, topic: str) -> None:
    """The batch that is skipped into is the next to be read."""
    with served.client() as client:
        consumer = client.subscribe(topic, "s", SHARED, receiver_queue_size=1)
        (first,) = served.publish(topic, 1)
        wait_until(lambda: stats(served, topic)["msgOutCounter"] == 1)
        batch = served.publish(topic, 4, batch=4)
        assert skip(served, topic, inside(batch[0], 1)).status_code == 204
        assert received(consumer, 4) == [b"message 0", b"message 0", b"message 2", b"message 3"]
        assert nothing_more(consumer)
        assert first.ledger_id() == batch[0].ledger_id()


def test_4_ids_that_never_were_change_nothing(served: Served, topic: str) -> None:
    """Wherever in the list they stand, and whatever else is in it."""
    ids = served.publish(topic, 3)
    ledger, last = ids[0].ledger_id(), ids[-1].entry_id()
    other = made(served)
    (foreign,) = served.publish(other, 1)
    bad = [
        {"ledgerId": ledger, "entryId": last + 1},
        {"ledgerId": ledger + 100_000, "entryId": 0},
        {"ledgerId": foreign.ledger_id(), "entryId": 0},
        {"ledgerId": 0, "entryId": 0},
        {"ledgerId": 1 << 60, "entryId": 1 << 40},
    ]
    for one in bad:
        for place in (0, 1, 2):
            body = plain(ids[0], ids[1])
            assert isinstance(body["messageIds"], list)
            body["messageIds"].insert(place, one)
            answer = skip(served, topic, body)
            assert answer.status_code == 400, one
            assert str(one["ledgerId"]) in answer.json()["reason"]
    assert backlog(served, topic) == (3, 3)
    assert backlog(served, other) == (1, 1)
    # An id of an older topic's ledger is not taken for one that was trimmed here.
    assert skip(served, other, plain(ids[0])).status_code == 400


def test_5_an_index_needs_a_broker_that_acks_indexes(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings(batch_index_ack=False))
    topic = made(served)
    batch = served.publish(topic, 3, batch=3)
    assert skip(served, topic, inside(batch[0], 0)).status_code == 405
    assert skip(served, topic, [in_base64(batch[0])]).status_code == 405
    assert backlog(served, topic) == (1, 3)
    assert skip(served, topic, plain(batch[0])).status_code == 204
    assert backlog(served, topic) == (0, 0)


def test_parts_of_more_batches_than_there_is_room_for_are_refused(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    settings = BrokerSettings(
        max_ack_state_bytes_per_request=200, max_ack_state_bytes_per_subscription=300
    )
    served = own_broker(settings)
    topic = made(served)
    batches = served.publish(topic, 12, batch=3)[::3]
    both = inside(batches[0], 0)["messageIds"] + inside(batches[1], 0)["messageIds"]  # type: ignore[operator]
    answer = skip(served, topic, {"type": "messageId", "messageIds": both})
    assert answer.status_code == 400
    assert "name fewer at once" in answer.json()["reason"]
    assert backlog(served, topic) == (4, 12)
    for batch in batches[:2]:
        assert skip(served, topic, inside(batch, 0)).status_code == 204
    answer = skip(served, topic, inside(batches[2], 0))
    assert answer.status_code == 429
    assert "acknowledge whole batches" in answer.json()["reason"]
    assert skip(served, topic, plain(*batches)).status_code == 204
    assert backlog(served, topic) == (0, 0)


def test_6_an_index_is_never_taken_for_the_whole_entry(served: Served, topic: str) -> None:
    batch = served.publish(topic, 3, batch=3)
    for index in (-2, "-2", 3, 1 << 31, "x", 1.5, True, [0]):
        assert skip(served, topic, inside(batch[0], 0, index)).status_code == 400, index
    wrong = {"ledgerId": batch[0].ledger_id(), "entryId": batch[0].entry_id(), "partitionIndex": 0}
    body = {"type": "messageId", "messageIds": [wrong]}
    assert skip(served, topic, body).status_code == 400
    assert backlog(served, topic) == (1, 3)
    assert skip(served, topic, [in_base64(batch[2])]).status_code == 204
    assert skip(served, topic, inside(batch[0], None)).status_code == 204
    assert backlog(served, topic) == (0, 0)


@pytest.mark.parametrize("none", [-1, "-1", None])
def test_an_index_of_minus_one_is_the_whole_entry_in_every_form(
    served: Served, topic: str, none: object
) -> None:
    """Clients write it where there is none, into bytes too."""
    first, second = served.publish(topic, 6, batch=3)[::3]
    assert skip(served, topic, inside(first, none)).status_code == 204
    assert backlog(served, topic) == (1, 3)
    whole = pulsar.MessageId(-1, second.ledger_id(), second.entry_id(), -1)
    assert skip(served, topic, [in_base64(whole)]).status_code == 204
    assert backlog(served, topic) == (0, 0)


def test_7_a_message_that_was_sent_is_given_back(served: Served, topic: str) -> None:
    with served.client() as client:
        consumer = client.subscribe(topic, "s", SHARED)
        single = served.publish(topic, 2)
        batch = served.publish(topic, 5, batch=5)
        wait_until(lambda: stats(served, topic)["unackedMessages"] == 7)
        body = plain(single[0])
        assert isinstance(body["messageIds"], list)
        body["messageIds"] += inside(batch[0], 1, 3)["messageIds"]  # type: ignore[arg-type]
        assert skip(served, topic, body).status_code == 204
        assert stats(served, topic)["msgBacklogMessages"] == 4
        # The client subscribed again before the answer, and is sent the others anew.
        wait_until(lambda: stats(served, topic)["unackedMessages"] == 4)
        assert stats(served, topic)["consumers"][0]["unackedMessages"] == 4
        consumer.close()


def test_7_skipping_what_a_consumer_holds_unblocks_the_key(served: Served, topic: str) -> None:
    with served.client() as client:
        holder = client.subscribe(topic, "s", KEY_SHARED)
        producer = client.create_producer(topic, batching_enabled=False)
        held = [producer.send(b"held %d" % i, partition_key=f"k{i}") for i in range(32)]
        wait_until(lambda: stats(served, topic)["unackedMessages"] == 32)
        other = client.subscribe(topic, "s", KEY_SHARED, consumer_name="other")
        for i in range(32):
            producer.send(b"next %d" % i, partition_key=f"k{i}")
        wait_until(lambda: stats(served, topic)["msgInReplay"] > 0)
        assert nothing_more(other)
        waiting = stats(served, topic)["msgInReplay"]
        assert skip(served, topic, plain(*held)).status_code == 204
        wait_until(lambda: stats(served, topic)["unackedMessages"] == 32)
        found = stats(served, topic)
        assert (found["msgInReplay"], found["drainingHashesCount"]) == (0, 0)
        assert len(received(other, waiting)) == waiting
        holder.close()


def test_8_a_chunked_message_is_skipped_with_all_its_chunks(served: Served, topic: str) -> None:
    with served.client() as client:
        producer = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
        before = producer.send(b"before")
        large = producer.send(bytes(11 << 20))
        producer.send(b"behind")
        assert backlog(served, topic) == (5, 5)
        assert skip(served, topic, [in_base64(large)]).status_code == 204
        assert backlog(served, topic) == (2, 2)
        assert skip(served, topic, [in_base64(large)]).status_code == 204
        consumer = client.subscribe(topic, "s", SHARED)
        assert received(consumer, 2) == [b"before", b"behind"]
        assert before.entry_id() == 0


@pytest.mark.parametrize("back", [0, 1, 2], ids=["last", "middle", "first"])
def test_8_any_chunk_of_a_message_stands_for_all_of_it(
    served: Served, topic: str, back: int
) -> None:
    with served.client() as client:
        producer = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
        producer.send(b"before")
        large = producer.send(bytes(11 << 20))
        producer.send(b"behind")
        place = {"ledgerId": large.ledger_id(), "entryId": large.entry_id() - back}
        body = {"type": "messageId", "messageIds": [place]}
        assert skip(served, topic, body).status_code == 204
        assert backlog(served, topic) == (2, 2)
        consumer = client.subscribe(topic, "s", SHARED)
        assert received(consumer, 2) == [b"before", b"behind"]
        assert nothing_more(consumer)


def test_9_the_type_of_a_subscription_that_nobody_joined_is_no_matter(
    served: Served, topic: str
) -> None:
    ids = served.publish(topic, 2)
    assert stats(served, topic)["type"] == "None"
    assert skip(served, topic, plain(ids[1])).status_code == 204
    with served.client() as client:
        assert received(client.subscribe(topic, "s"), 1) == [b"message 0"]
        assert skip(served, topic, plain(ids[0])).status_code == 405


def test_10_a_delayed_message_is_cancelled_and_not_counted(served: Served, topic: str) -> None:
    with served.client() as client:
        consumer = client.subscribe(topic, "s", SHARED)
        producer = client.create_producer(topic, batching_enabled=False)
        at = int(time.time() * 1000) + 3_600_000
        ids = [producer.send(b"%d" % i, deliver_at=at) for i in range(4)]
        wait_until(lambda: stats(served, topic)["msgDelayed"] == 4)
        assert skip(served, topic, plain(*ids[:3])).status_code == 204
        found = stats(served, topic)
        assert (found["msgDelayed"], found["msgBacklog"]) == (1, 1)
        assert skip(served, topic, plain(ids[3])).status_code == 204
        assert stats(served, topic)["msgDelayed"] == 0
        assert stats(served, topic)["delayedMessageIndexSizeInBytes"] == 0
        consumer.close()


def test_11_what_was_answered_is_there_after_a_kill(tmp_path: Path) -> None:
    """Parts of a batch, on a single topic and over partitions."""
    with BrokerProcess(tmp_path) as broker:
        base = f"{broker.http_url}/admin/v2/persistent/public/default"
        with httpx.Client() as http:
            http.put(f"{base}/many/partitions", json=3).raise_for_status()
            for name in ("one", "many"):
                http.put(f"{base}/{name}/subscription/s").raise_for_status()
            client = pulsar.Client(
                broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
            )
            named: dict[str, list[str]] = {}
            for name in ("one", "many"):
                producer = client.create_producer(
                    name, batching_enabled=True, batching_max_publish_delay_ms=60_000
                )
                ids: list[Any] = []
                for i in range(30):
                    producer.send_async(b"%d" % i, lambda result, id, ids=ids: ids.append(id))
                producer.flush()
                named[name] = [in_base64(id) for id in ids[::2]]
            client.close()
            for name, ids64 in named.items():
                answer = http.post(f"{base}/{name}/subscription/s/skipByMessageIds", json=ids64)
                assert answer.status_code == 204, answer.text
            broker.kill()
            broker.restart()
            kinds = {"one": "stats", "many": "partitioned-stats"}
            for name, kind in kinds.items():
                found = http.get(f"{base}/{name}/{kind}").json()["subscriptions"]["s"]
                assert found["msgBacklogMessages"] == 15
                answer = http.post(
                    f"{base}/{name}/subscription/s/skipByMessageIds", json=named[name]
                )
                assert answer.status_code == 204


def test_12_skips_acks_and_unloads_at_once_lose_nothing(served: Served, topic: str) -> None:
    """Odd indexes are skipped while even ones are acked, under unloads: all end up acked."""
    batches = [served.publish(topic, 10, batch=10) for _ in range(20)]
    codes: list[int] = []

    def skip_odd() -> None:
        for batch in batches:
            while True:
                answer = skip(served, topic, inside(batch[0], 1, 3, 5, 7, 9))
                codes.append(answer.status_code)
                if answer.status_code == 204:
                    break
                time.sleep(0.01)

    def unload() -> None:
        for _ in range(5):
            assert served.http.put(f"/persistent/{topic}/unload").status_code in (204, 503)

    threads = [threading.Thread(target=skip_odd), threading.Thread(target=unload)]
    end = time.monotonic() + 60
    with served.client() as client:
        consumer = client.subscribe(topic, "s", SHARED, batch_index_ack_enabled=True)
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) or backlog(served, topic) != (0, 0):
            try:
                message = consumer.receive(timeout_millis=100)
            except pulsar.Timeout:
                # Acks that were on their way when the topic was unloaded came to nothing.
                consumer.redeliver_unacknowledged_messages()
                continue
            if message.message_id().batch_index() % 2 == 0:
                consumer.acknowledge(message)
            assert time.monotonic() < end
        for thread in threads:
            thread.join()
    assert codes.count(204) == len(batches)
    assert set(codes) <= {204, 503}


def test_12_a_topic_that_is_being_unloaded_says_so(served: Served, topic: str) -> None:
    (id,) = served.publish(topic, 1)
    found = served.call(lambda: served.broker.topics[f"persistent://{topic}"])
    served.call(lambda: setattr(found, "closed", True))
    answer = skip(served, topic, plain(id))
    assert (answer.status_code, "unloading" in answer.json()["reason"]) == (503, True)
    served.call(lambda: setattr(found, "closed", False))
    sub = served.call(lambda: found.subscriptions["s"])
    served.call(lambda: setattr(sub, "fenced", True))
    assert skip(served, topic, plain(id)).status_code == 503
    served.call(lambda: setattr(sub, "fenced", False))
    assert backlog(served, topic) == (1, 1)
    assert skip(served, topic, plain(id)).status_code == 204


# ---- Partitioned topics ----------------------------------------------------------------


def test_ids_of_a_partitioned_topic_find_their_partitions(served: Served) -> None:
    topic = made(served, partitions=3)
    ids = served.publish(topic, 9)
    assert {id.partition() for id in ids} == {0, 1, 2}
    first = {id.partition(): id for id in ids[:3]}
    assert skip(served, topic, plain(*ids[:3])).status_code == 204
    assert skip(served, topic, [in_base64(id) for id in ids[3:6]]).status_code == 204
    assert backlog(served, topic) == (3, 3)
    per = served.http.get(f"/persistent/{topic}/partitioned-stats").json()["partitions"]
    assert [p["subscriptions"]["s"]["msgBacklog"] for p in per.values()] == [1, 1, 1]
    assert len(first) == 3


def test_one_bad_id_of_any_partition_stops_all_of_them(served: Served) -> None:
    topic = made(served, partitions=3)
    ids = served.publish(topic, 9)
    good: list[dict[str, object]] = [
        {"ledgerId": id.ledger_id(), "entryId": id.entry_id(), "partitionIndex": id.partition()}
        for id in ids
    ]
    wrong = (ids[0].partition() + 1) % 3
    place = {"ledgerId": ids[0].ledger_id(), "entryId": ids[0].entry_id()}
    for bad in (
        {**place, "partitionIndex": wrong},
        {**place, "partitionIndex": 3},
        {**place, "entryId": 99},
        {**place, "batchIndex": 1},
        {**place, "ledgerId": 1 << 60},
    ):
        body = {"type": "messageId", "messageIds": [*good, bad]}
        answer = skip(served, topic, body)
        assert answer.status_code == 400, bad
    assert backlog(served, topic) == (9, 9)
    assert skip(served, topic, {"type": "messageId", "messageIds": good}).status_code == 204
    assert backlog(served, topic) == (0, 0)


def test_a_partition_is_a_topic_too(served: Served) -> None:
    topic = made(served, partitions=2)
    ids = served.publish(topic, 4)
    mine = [id for id in ids if id.partition() == 1]
    foreign = next(id for id in ids if id.partition() == 0)
    assert skip(served, f"{topic}-partition-1", plain(foreign)).status_code == 400
    assert skip(served, f"{topic}-partition-1", [in_base64(foreign)]).status_code == 400
    assert skip(served, f"{topic}-partition-1", [in_base64(id) for id in mine]).status_code == 204
    assert backlog(served, topic) == (2, 2)


def test_a_subscription_of_some_partitions_is_not_found_on_the_others(served: Served) -> None:
    topic = made(served, partitions=2)
    ids = served.publish(topic, 2)
    gone = f"/persistent/{topic}-partition-0/subscription/s"
    assert served.http.delete(gone).status_code == 204
    assert skip(served, topic, plain(*ids)).status_code == 404
    there = [id for id in ids if id.partition() == 1]
    assert skip(served, topic, plain(*there)).status_code == 204
    other = f"/persistent/{topic}-partition-1/subscription/s"
    assert served.http.delete(other).status_code == 204
    assert skip(served, topic, plain(*there)).status_code == 404
