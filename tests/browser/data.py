"""Brokers with something to see: nothing, much, and what hostile producers and users send."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx
from support.served import Served

import magnetar
from magnetar.ack import AckDelta
from magnetar.admin.console.publishing import Publisher
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import MessageMetadata, SingleMessage, encode_batch

# What would run, break out or break a line, if anything took it for more than text.
SCRIPT = "<script>alert('script')</script>"
IMAGE = "<img src=x onerror=\"alert('image')\">"
NASTY = (
    f"\"'><svg onload=alert('svg')>{SCRIPT}{IMAGE}${{alert(1)}}{{{{7*7}}}}\u202ejavascript:alert(2)"
)


def make(served: Served, topic: str, *subscriptions: str) -> None:
    """A topic with subscriptions at its beginning; whatever their names have in them."""
    path = f"{served.http_url}/admin/v2/persistent/{quoted(topic)}"
    assert httpx.put(path).status_code == 204
    for name in subscriptions:
        answer = httpx.put(f"{path}/subscription/{quote(name, safe='')}", json="earliest")
        assert answer.status_code == 204, answer.text


def quoted(topic: str) -> str:
    return "/".join(quote(piece, safe="") for piece in topic.split("/", 2))


def publish(served: Served, topic: str, *messages: dict[str, Any]) -> list[str]:
    """Publishes by REST; the ids."""
    path = f"{served.http_url}/topics/persistent/{quoted(topic)}"
    answer = httpx.post(path, json={"messages": list(messages)})
    assert answer.status_code == 200, answer.text
    results = answer.json()["messagePublishResults"]
    assert all(one["errorCode"] == 0 for one in results), results
    return [one["messageId"].rpartition(":")[0] for one in results]


def orders(served: Served, topic: str, count: int = 30) -> list[str]:
    return publish(
        served,
        topic,
        *[
            {
                "payload": json.dumps({"order": i, "item": "lamp"}),
                "key": f"customer-{i % 3}",
                "properties": {"source": "shop"},
            }
            for i in range(count)
        ],
    )


def use(client: magnetar.Client, topic: str, *, acked: int = 12, batch: int = 8) -> Any:
    """A backlog as work leaves it: batches, holes, parts of batches, delayed ones, a consumer."""
    name = f"persistent://{topic}"
    consumer = client.subscribe(
        name, "work", magnetar.ConsumerType.Shared, consumer_name="worker-1"
    )
    producer = client.create_producer(
        name, batching_enabled=True, batching_max_messages=batch, batching_max_publish_delay_ms=5
    )
    for i in range(6 * batch):
        producer.send_async(b"message %d" % i, lambda result, id: None, partition_key=f"k{i % 5}")
    producer.flush()
    single = client.create_producer(name, batching_enabled=False)
    for i in range(5):
        single.send(b"later %d" % i, deliver_after=timedelta(minutes=10 + 7 * i))
    got = [consumer.receive(30_000) for _ in range(6 * batch)]
    for i, message in enumerate(got):
        if i % 3 and i < acked * 3:
            consumer.acknowledge(message)
    return consumer


def fill(served: Served, topic: str, entries: int) -> None:
    """Many small entries, as fast as they can be had."""
    _publish_all(served, topic, lambda publisher: (publisher.metadata(), b"x" * 10), entries)


def fill_batches(served: Served, topic: str, batches: int, size: int) -> None:
    """Messages by the million: each batch is the same, of JSON that has a number and a key."""
    singles = [SingleMessage(b'{"order": %d, "item": "lamp"}' % i, i) for i in range(size)]
    for number, single in enumerate(singles):
        single.partition_key = f"customer-{number % 17}"
    payload = encode_batch(singles)

    def batch(publisher: Publisher) -> tuple[MessageMetadata, bytes]:
        metadata = publisher.metadata()
        metadata.num_messages_in_batch = size
        return metadata, payload

    _publish_all(served, topic, batch, batches)


def _publish_all(
    served: Served,
    topic: str,
    make_entry: Callable[[Publisher], tuple[MessageMetadata, bytes]],
    entries: int,
) -> None:
    found = served.broker.topics[f"persistent://{topic}"]

    async def work(count: int) -> None:
        with Publisher(found, "test") as publisher:
            for _ in range(0, count, 2000):
                sent = [publisher.publish(*make_entry(publisher)) for _ in range(min(count, 2000))]
                await asyncio.gather(*sent)
                count -= len(sent)

    for first in range(0, entries, 20_000):
        served.run(work(min(entries - first, 20_000)))


def ack_parts(served: Served, topic: str, subscription: str) -> int:
    """Acks some of each batch, in memory, and every seventh whole: how many are left in part."""
    found = served.broker.topics[f"persistent://{topic}"]

    def work() -> int:
        cursor = found.subscriptions[subscription].cursor
        for ledger in served.broker.store.ledgers(found.id):
            for entry in range(ledger.entries):
                size = int(found.ledgers.sizes.batch_size(ledger.id, entry))
                indexes = [-1] if entry % 7 == 6 else range(entry % 3, size, 2 + entry % 5)
                ids = [MessageIdData(ledger.id, entry, -1, index) for index in indexes]
                assert cursor.apply(cursor.plan_messages(ids))
        return int(cursor.partial_entries())

    return served.call(work)


def punch(served: Served, topic: str, subscription: str, first: int = 1) -> int:
    """Acks every second entry, in memory: a hole beside each. How many runs of acks there are.

    With `first` 0 mark-delete stands behind the first entry.
    """
    found = served.broker.topics[f"persistent://{topic}"]

    def work() -> int:
        cursor = found.subscriptions[subscription].cursor
        ledgers = served.broker.store.ledgers(found.id)
        parts = tuple((one.id, tuple(range(first, one.entries, 2)), ()) for one in ledgers)
        assert cursor.apply(AckDelta(cursor.epoch, None, parts))
        return cursor.acked_run_count()

    return served.call(work)
