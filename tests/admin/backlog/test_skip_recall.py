"""Skipping what consumers have queued: after the answer nobody is handed it any more (I5)."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from support.served import Served, made
from support.waiting import wait_until

import magnetar
from magnetar.broker.setting.settings import BrokerSettings

SHARED = magnetar.ConsumerType.Shared


@pytest.fixture
def topic(served: Served) -> str:
    """A topic with a subscription `s` that nobody ever joined."""
    return made(served)


@pytest.fixture
def client(served: Served) -> Iterator[magnetar.Client]:
    client = magnetar.Client(served.url)
    yield client
    client.close()


def skip(served: Served, topic: str, *ids: Any, **query: str) -> httpx.Response:
    listed = [
        {"ledgerId": i.ledger_id(), "entryId": i.entry_id(), "batchIndex": i.batch_index()}
        for i in ids
    ]
    return served.http.post(
        f"/persistent/{topic}/subscription/s/skipByMessageIds",
        params=query,
        json={"type": "messageId", "messageIds": listed},
    )


def rows(served: Served, topic: str, *ids: Any, **query: str) -> list[dict[str, Any]]:
    """What is said of each id, without the id."""
    answer = skip(served, topic, *ids, details="true", **query)
    assert answer.status_code == 200, answer.text
    names = ("ledgerId", "entryId", "batchIndex")
    return [
        {key: value for key, value in row.items() if key not in names}
        for row in answer.json()["messageIds"]
    ]


def publish(
    client: magnetar.Client, topic: str, count: int, *, batch: int = 1
) -> list[magnetar.MessageId]:
    ids: list[magnetar.MessageId] = []
    producer = client.create_producer(
        topic,
        batching_enabled=batch > 1,
        batching_max_messages=batch,
        batching_max_publish_delay_ms=60_000,
    )
    for number in range(count):
        producer.send_async(b"%d" % number, lambda result, id: ids.append(id))
    producer.flush()
    wait_until(lambda: len(ids) == count, lambda: f"{len(ids)} of {count}")
    producer.close()
    return ids


def wait_for_queue(consumer: Any, count: int) -> None:
    def length() -> int:
        return sum(part.core.queue_length() for part in consumer._consumer.parts.values())

    wait_until(lambda: length() == count, lambda: f"{length()} of {count} are queued")


def received(consumer: Any, count: int) -> list[int]:
    return [int(consumer.receive(timeout_millis=30_000).data()) for _ in range(count)]


def nothing_more(consumer: Any) -> bool:
    try:
        consumer.receive(timeout_millis=100)
    except magnetar.Timeout:
        return True
    return False


@pytest.mark.parametrize("type", [SHARED, magnetar.ConsumerType.KeyShared])
@pytest.mark.parametrize("batch", [1, 7])
def test_a_skipped_message_in_the_middle_of_a_queue_never_comes(
    served: Served, client: magnetar.Client, topic: str, type: Any, batch: int
) -> None:
    consumer = client.subscribe(topic, "s", type, consumer_name="w")
    ids = publish(client, topic, 700, batch=batch)
    wait_for_queue(consumer, 700)
    first = received(consumer, 50)
    assert rows(served, topic, ids[350], ids[10]) == [
        {"result": "skipped", "takenBackFrom": ["w"]},
        {"result": "skipped", "handedOutTo": ["w"]},
    ]
    # Without a reconnect: nothing of its neighbours comes twice.
    assert first + received(consumer, 649) == [n for n in range(700) if n != 350]
    assert nothing_more(consumer)


def test_only_who_holds_the_message_is_asked(
    served: Served, client: magnetar.Client, topic: str
) -> None:
    one = client.subscribe(topic, "s", SHARED, consumer_name="one", receiver_queue_size=10)
    ids = publish(client, topic, 10)
    wait_for_queue(one, 10)
    other = client.subscribe(topic, "s", SHARED, consumer_name="other")
    more = publish(client, topic, 10)
    wait_for_queue(other, 10)
    assert rows(served, topic, ids[3], more[4], ids[3]) == [
        {"result": "skipped", "takenBackFrom": ["one"]},
        {"result": "skipped", "takenBackFrom": ["other"]},
        {"result": "skipped", "takenBackFrom": ["one"]},
    ]
    assert rows(served, topic, ids[3]) == [{"result": "already acked"}]
    assert received(one, 9) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert received(other, 9) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_permits_of_what_was_taken_back_are_used_again(
    served: Served, client: magnetar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", SHARED, receiver_queue_size=4)
    ids = publish(client, topic, 40)
    for first in range(0, 40, 4):
        wait_for_queue(consumer, 4)
        assert skip(served, topic, *ids[first : first + 4]).status_code == 204
    assert nothing_more(consumer)
    publish(client, topic, 4)
    assert received(consumer, 4) == [0, 1, 2, 3]


def test_of_partitions_each_gives_back_its_own(served: Served, client: magnetar.Client) -> None:
    topic = made(served, partitions=3)
    consumer = client.subscribe(topic, "s", SHARED, consumer_name="w")
    ids = [id for number in range(3) for id in publish(client, f"{topic}-partition-{number}", 5)]
    wait_for_queue(consumer, 15)
    wanted = [ids[1], ids[7], ids[13]]
    taken = {"result": "skipped", "takenBackFrom": ["w"]}
    assert rows(served, topic, *wanted) == [taken] * 3
    assert sorted(received(consumer, 12)) == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4]


def test_a_call_that_gathers_a_batch_does_not_return_what_was_skipped(
    served: Served, client: magnetar.Client, topic: str
) -> None:
    policy = magnetar.ConsumerBatchReceivePolicy(4, -1, -1)
    consumer = client.subscribe(topic, "s", SHARED, batch_receive_policy=policy, consumer_name="w")
    ids = publish(client, topic, 3)
    got: list[int] = []

    def gather() -> None:
        got.extend(int(message.data()) for message in consumer.batch_receive())

    thread = threading.Thread(target=gather)
    thread.start()
    batches = consumer._consumer._gathering
    wait_until(
        lambda: [len(batch.messages) for batch in batches] == [3], lambda: "it has not begun"
    )
    assert rows(served, topic, ids[1]) == [{"result": "skipped", "takenBackFrom": ["w"]}]
    publish(client, topic, 2)
    thread.join(30)
    assert got == [0, 2, 0, 1]


def test_the_asyncio_door_gives_back_too(served: Served, topic: str) -> None:
    async def run() -> list[int]:
        async with magnetar.aio.Client(served.url) as client:
            policy = magnetar.ConsumerBatchReceivePolicy(3, -1, -1)
            consumer = await client.subscribe(topic, "s", consumer_type=SHARED, consumer_name="w")
            producer = await client.create_producer(topic)
            ids = [await producer.send(b"%d" % number) for number in range(2)]
            call = asyncio.create_task(consumer.batch_receive(policy))
            gathering = consumer._consumer._gathering
            while [len(b.messages) for b in gathering] != [2]:  # noqa: ASYNC110, no event for it
                await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            ids += [await producer.send(b"2")]
            taken = await asyncio.to_thread(rows, served, topic, ids[0])
            assert taken == [{"result": "skipped", "takenBackFrom": ["w"]}]
            got = [await consumer.receive(30_000) for _ in range(2)]
            return [int(message.data()) for message in got]

    assert asyncio.run(run()) == [1, 2]


def test_what_was_refused_does_not_come_again(
    served: Served, client: magnetar.Client, topic: str
) -> None:
    consumer = client.subscribe(
        topic, "s", SHARED, consumer_name="w", negative_ack_redelivery_delay_ms=60_000
    )
    ids = publish(client, topic, 2)
    for _ in ids:
        consumer.negative_acknowledge(consumer.receive(30_000))
    (part,) = consumer._consumer.parts.values()
    waiting = part.core._outstanding._negative.deadlines
    assert len(waiting) == 2
    assert rows(served, topic, ids[0]) == [{"result": "skipped", "handedOutTo": ["w"]}]
    assert len(waiting) == 1


def test_with_recall_false_the_consumer_keeps_its_copy(
    served: Served, client: magnetar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", SHARED)
    ids = publish(client, topic, 3)
    wait_for_queue(consumer, 3)
    assert rows(served, topic, ids[1], recall="false") == [{"result": "skipped"}]
    assert received(consumer, 3) == [0, 1, 2]
    assert skip(served, topic, ids[1], recall="perhaps").status_code == 400


def test_a_setting_leaves_queues_alone_unless_it_is_asked_for(
    own_broker: Callable[[BrokerSettings], Served],
) -> None:
    served = own_broker(BrokerSettings(skip_recall_ms=0))
    topic = made(served)
    with magnetar.Client(served.url) as client:
        consumer = client.subscribe(topic, "s", SHARED, consumer_name="w")
        ids = publish(client, topic, 3)
        wait_for_queue(consumer, 3)
        assert rows(served, topic, ids[0]) == [{"result": "skipped"}]
        assert rows(served, topic, ids[1], recall="true") == [
            {"result": "skipped", "takenBackFrom": ["w"]}
        ]
        assert received(consumer, 2) == [0, 2]


def test_the_answer_tells_what_was_acked_or_trimmed_before(
    served: Served, client: magnetar.Client, topic: str
) -> None:
    ids = publish(client, topic, 2)
    assert skip(served, topic, ids[0]).status_code == 204
    assert rows(served, topic, *ids) == [{"result": "already acked"}, {"result": "skipped"}]
    assert served.http.delete(f"/persistent/{topic}/truncate").status_code == 204
    assert rows(served, topic, ids[0]) == [{"result": "trimmed"}]


def test_operators_can_see_later_who_skipped_what(
    served: Served, client: magnetar.Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = client.subscribe(topic, "s", SHARED)
    ids = publish(client, topic, 20)
    wait_for_queue(consumer, 20)
    with caplog.at_level(logging.INFO, logger="magnetar.audit"):
        assert skip(served, topic, *ids[:12]).status_code == 204
    (line,) = [r.getMessage() for r in caplog.records if r.name == "magnetar.audit"]
    assert "role - from 127.0.0.1, subscription 's' of persistent://" in line
    assert "12 ids, 12 messages skipped, taken back from consumers" in line
    first = f"{ids[0].ledger_id()}:{ids[0].entry_id()}"
    assert line.count(":") >= 10
    assert first in line
    assert line.endswith(" ...")
    metrics = httpx.get(f"{served.http_url}/metrics").text
    labels = f'topic="persistent://{topic}",subscription="s"'
    for name in ("skipped", "taken_back"):
        (found,) = [
            row
            for row in metrics.splitlines()
            if row.startswith(f"pulsar_subscription_{name}_messages_total{{") and labels in row
        ]
        assert found.endswith(" 12")
