"""Topics with millions of keys, or keys of megabytes, that are compacted.

| attack                                                    | before                              |
|-----------------------------------------------------------|-------------------------------------|
| more keys than there is memory for                        | 8 million, whatever the broker has  |
| keys as long as a message may be                          |                                     |
| batches of thousands of keys that unpack to very much     |                                     |
"""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.asker import LONG
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess
from support.waiting import wait_until

import magnetar

PATH = "admin/v2/persistent/public/default/compacted/compaction"
TOPIC = "persistent://public/default/compacted"
KEYS_MAX = 400_000 if LONG else 10_000
LONG_KEYS = 100 if LONG else 10
BATCHES = 40 if LONG else 5


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    command = limited(memory_bytes=MEMORY_BYTES)
    options = ("--set", f"max_compaction_keys={KEYS_MAX}")
    with BrokerProcess(tmp_path, command=command, options=options) as broker:
        yield broker


def ask(broker: BrokerProcess, method: str) -> bytes:
    request = urllib.request.Request(f"{broker.http_url}/{PATH}", method=method)
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def compact(broker: BrokerProcess) -> dict[str, str]:
    """Has the topic compacted, and returns how that ended."""
    ask(broker, "PUT")
    wait_until(lambda: b"RUNNING" not in ask(broker, "GET"), seconds=200)
    found: dict[str, str] = json.loads(ask(broker, "GET"))
    return found


def publish(broker: BrokerProcess, first: int, count: int) -> None:
    with magnetar.Client(broker.url) as client:
        producer = client.create_producer(
            TOPIC, block_if_queue_full=True, max_pending_messages=20_000
        )
        for number in range(first, first + count):
            producer.send_async(b"v", lambda result, id: None, partition_key=f"key-{number:09}")
        producer.flush()


def test_as_many_keys_as_there_may_be_and_more(broker: BrokerProcess) -> None:
    publish(broker, 0, KEYS_MAX)
    with Probe(broker) as probe:
        assert compact(broker)["status"] == "SUCCESS"
        publish(broker, KEYS_MAX, 1000)
        ended = compact(broker)
        assert ended["status"] == "ERROR"
        assert "raise max_compaction_keys" in ended["lastError"]
    probe.check()


def test_keys_as_long_as_a_message_may_be(broker: BrokerProcess) -> None:
    with magnetar.Client(broker.url) as client:
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for number in range(LONG_KEYS):
            producer.send(b"v", partition_key=f"{number}-" + "k" * 1_000_000)
    with Probe(broker) as probe:
        assert compact(broker)["status"] == "SUCCESS"
    probe.check()


def test_batches_that_unpack_to_very_much(broker: BrokerProcess) -> None:
    with magnetar.Client(broker.url) as client:
        producer = client.create_producer(
            TOPIC,
            compression_type=magnetar.CompressionType.ZSTD,
            batching_max_messages=5000,
            batching_max_allowed_size_in_bytes=4 << 20,
            batching_max_publish_delay_ms=10_000,
            block_if_queue_full=True,
            max_pending_messages=20_000,
        )
        for batch in range(BATCHES):
            for number in range(1000):
                producer.send_async(
                    b"v" * 4000, lambda result, id: None, partition_key=f"{batch % 4} {number}"
                )
            producer.flush()
    with Probe(broker) as probe:
        assert compact(broker)["status"] == "SUCCESS"
    probe.check()
