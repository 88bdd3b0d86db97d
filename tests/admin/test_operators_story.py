"""One poison message in one batch among many: found, skipped by its id, and never seen again.

MAGNETAR_STORY_MESSAGES says how many there are; the long form has 200,000.
"""

import os
from pathlib import Path
from typing import Any

import httpx
import pulsar
from support.broker_process import BrokerProcess
from support.waiting import wait_until

from magnetar.protocol import decode_batch

COUNT = int(os.environ.get("MAGNETAR_STORY_MESSAGES", "5000"))
BATCH = 100
POISON = COUNT // 2 + 37


def connect(broker: BrokerProcess) -> pulsar.Client:
    return pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


def publish(broker: BrokerProcess) -> None:
    client = connect(broker)
    producer = client.create_producer(
        "orders",
        batching_enabled=True,
        batching_max_messages=BATCH,
        batching_max_publish_delay_ms=60_000,
        block_if_queue_full=True,
    )
    for number in range(COUNT):
        payload = b"poison" if number == POISON else b"order %d" % number
        producer.send_async(payload, lambda result, id: None)
    producer.flush()
    client.close()


def work(broker: BrokerProcess, done: set[int], wanted: int) -> bool:
    """The application: acks what it can read, and stops at what it cannot. True if it did."""
    client = connect(broker)
    consumer = client.subscribe(
        "orders", "app", pulsar.ConsumerType.Shared, batch_index_ack_enabled=True
    )
    stopped = False
    while not stopped and len(done) < wanted:
        message = consumer.receive(timeout_millis=20_000)
        stopped = message.data() == b"poison"
        if not stopped:
            done.add(int(message.data().split()[1]))
            consumer.acknowledge(message)
    consumer.close()
    client.close()
    return stopped


class Operator:
    """Someone with REST at hand."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._topic = f"{broker.http_url}/admin/v2/persistent/public/default/orders"
        self._subscription = f"{self._topic}/subscription/app"

    def backlog(self) -> int:
        stats = httpx.get(f"{self._topic}/stats").raise_for_status().json()
        return int(stats["subscriptions"]["app"]["msgBacklogMessages"])

    def state(self) -> Any:
        return httpx.get(f"{self._subscription}/ackState").raise_for_status().json()

    def peek(self) -> tuple[str, list[bytes]]:
        """The first entry that is not acked: its id, and the messages in it."""
        answer = httpx.get(f"{self._subscription}/position/1").raise_for_status()
        size = int(answer.headers["X-Pulsar-num-batch-message"])
        messages = decode_batch(answer.content, size)
        return answer.headers["X-Pulsar-Message-ID"], [one.payload for one in messages]

    def skip(self, place: str, index: int) -> int:
        ledger, _, entry = place.partition(":")
        id = {"ledgerId": int(ledger), "entryId": int(entry), "batchIndex": index}
        body = {"type": "messageId", "messageIds": [id]}
        return httpx.post(f"{self._subscription}/skipByMessageIds", json=body).status_code


def test_one_poison_message_is_skipped_and_all_others_arrive(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker:
        operator = Operator(broker)
        url = f"{broker.http_url}/admin/v2/persistent/public/default/orders/subscription/app"
        assert httpx.put(url).status_code == 204
        publish(broker)
        done: set[int] = set()

        # The application stops at the message, and does so again when it is started anew.
        for _ in range(2):
            assert work(broker, done, COUNT - 1)
        assert done == set(range(POISON))
        wait_until(lambda: operator.backlog() == COUNT - POISON)

        # The operator looks for what is in its way.
        place, messages = operator.peek()
        index = messages.index(b"poison")
        assert (index, len(messages)) == (POISON % BATCH, BATCH)
        (batch,) = operator.state()["batches"]
        assert (batch["position"], batch["remaining"][0]) == (place, index)

        # One message goes, though the broker is killed the moment that it has said so.
        assert operator.skip(place, index) == 204
        broker.kill()
        broker.restart()
        assert operator.backlog() == COUNT - POISON - 1
        assert operator.state()["batches"][0]["remaining"] == list(range(index + 1, BATCH))

        # All others come, those beside it in its batch first.
        behind: set[int] = set()
        assert not work(broker, behind, COUNT - POISON - 1)
        assert behind == set(range(POISON + 1, COUNT))
        wait_until(lambda: operator.backlog() == 0)
        assert operator.skip(place, index) == 204
