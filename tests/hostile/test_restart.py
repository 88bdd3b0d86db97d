"""A broker that ran starts again, whatever it may have open: ledgers cost no descriptors."""

import time
from pathlib import Path

import httpx
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

import magnetar
from magnetar.storage import FileDisk, StoreOptions, open_store

LEDGERS = 300
# So many that an index file is larger than a page, and is mapped.
ENTRIES = 200
TOPIC = "persistent://public/default/many-ledgers"
STATS = "/admin/v2/persistent/public/default/many-ledgers/internalStats"


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


def fill(directory: Path) -> None:
    options = StoreOptions(fsync="never", ledger_entries_max=ENTRIES)
    store = open_store(FileDisk(directory), clock_ms, options)
    topic_id = store.create_topic(TOPIC)
    for _ in range(LEDGERS):
        for _ in range(ENTRIES):
            store.append(topic_id, b"entry", batch_size=1, publish_time_ms=1)
        store.flush()
    store.close()
    # Index files are written once what they speak of is durable.
    store = open_store(FileDisk(directory), clock_ms, options)
    store.flush()
    store.close()


def test_a_broker_with_more_ledgers_than_descriptors_starts_again(tmp_path: Path) -> None:
    fill(tmp_path)
    assert len(FileDisk(tmp_path).names("index")) >= LEDGERS - 1
    command = limited(files=256, memory_bytes=MEMORY_BYTES)
    with BrokerProcess(tmp_path, command=command) as broker:
        open_files = list(Path(f"/proc/{broker.pid}/fd").iterdir())
        assert len(open_files) < 100
        with magnetar.Client(broker.url) as client:
            producer = client.create_producer(TOPIC)
            producer.send(b"works")
        broker.restart()
        with Probe(broker) as probe:
            for _ in range(20):
                found = httpx.get(f"{broker.http_url}{STATS}", timeout=60).json()
                assert len(found["ledgers"]) >= LEDGERS
        probe.check()
