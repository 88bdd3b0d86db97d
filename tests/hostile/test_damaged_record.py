"""One damaged record: its topic goes on up to it, and its operator gets past it.

Many subscriptions are stuck there and try again now and then, and everybody else is served.
"""

import time
from pathlib import Path

import httpx
import pytest
from cli.broker_cli import BrokerCli
from hostile.asker import LONG
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess
from support.waiting import wait_until

import magnetar
from magnetar.model import ConsumerType
from magnetar.storage import FileDisk, StoreOptions, open_store
from magnetar.storage.store import Store

NAME = "public/default/damaged"
TOPIC = f"persistent://{NAME}"
MESSAGES = 20
BROKEN = 7
SUBSCRIPTIONS = 100 if LONG else 10
TYPES = [
    ConsumerType.Exclusive,
    ConsumerType.Shared,
    ConsumerType.Failover,
    ConsumerType.KeyShared,
]


def name(number: int) -> str:
    return f"s{number}"


def fill(broker: BrokerProcess) -> None:
    with magnetar.Client(broker.url) as client:
        for number in range(SUBSCRIPTIONS):
            type = TYPES[number % len(TYPES)]
            client.subscribe(TOPIC, name(number), consumer_type=type).close()
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for number in range(MESSAGES):
            producer.send(b"%d" % number)


def open_stopped(directory: Path) -> Store:
    return open_store(FileDisk(directory), lambda: time.time_ns() // 1_000_000, StoreOptions())


def damage(directory: Path) -> str:
    """Flips a bit of one entry of the topic, on the disk of a broker that is not running."""
    store = open_stopped(directory)
    (topic_id,) = [id for id, topic in store.topics().items() if topic == TOPIC]
    (ledger,) = [one for one in store.log.state.ledgers.values() if one.topic_id == topic_id]
    address = ledger.index.address(BROKEN)
    where = f"{ledger.id}:{BROKEN}"
    store.close()
    path = directory / f"journal/{address >> 32:08x}.log"
    data = bytearray(path.read_bytes())
    data[(address & 0xFFFFFFFF) + 41] ^= 1
    path.write_bytes(data)
    return where


def stuck(broker: BrokerProcess) -> set[str]:
    """Where subscriptions are stuck."""
    stats = httpx.get(f"{broker.http_url}/admin/v2/persistent/{NAME}/stats", timeout=60).json()
    return {one["damagedPosition"] for one in stats["subscriptions"].values()}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_a_damaged_record_holds_up_its_topic_alone_and_is_skipped(
    directory: Path, tmp_path: Path
) -> None:
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(directory, command=command) as broker:
        fill(broker)
    where = damage(directory)
    with (
        BrokerProcess(directory, command=command) as broker,
        Probe(broker) as probe,
        magnetar.Client(broker.url) as client,
    ):
        consumers = [
            client.subscribe(TOPIC, name(number), consumer_type=TYPES[number % len(TYPES)])
            for number in range(SUBSCRIPTIONS)
        ]
        for consumer in consumers:
            got = [consumer.receive(timeout_millis=60_000).data() for _ in range(BROKEN)]
            assert got == [b"%d" % number for number in range(BROKEN)]
        wait_until(lambda: stuck(broker) == {where})
        cli = BrokerCli(broker.url, broker.http_url)
        backup = tmp_path / "backup"
        copied = cli.run("backup", directory, backup, "--skip-damaged")
        assert copied.code == 1, "a copy that is short of something says so"
        assert where in str(copied)
        # Half of them by an operator's word, and the others by the policy of the namespace.
        for number in range(0, SUBSCRIPTIONS, 2):
            cli.ok("subscriptions", "skip-damaged", NAME, "-s", name(number))
        for number in range(0, SUBSCRIPTIONS, 2):
            rest = MESSAGES - BROKEN - 1
            got = [consumers[number].receive(timeout_millis=60_000).data() for _ in range(rest)]
            assert got == [b"%d" % number for number in range(BROKEN + 1, MESSAGES)]
        put = httpx.post(
            f"{broker.http_url}/admin/v2/namespaces/public/default/autoSkipNonRecoverableData",
            json=True,
        )
        assert put.is_success, put.text
        wait_until(lambda: stuck(broker) == {""})
        for number in range(1, SUBSCRIPTIONS, 2):
            assert consumers[number].receive(timeout_millis=60_000).data() == b"%d" % (BROKEN + 1)
    probe.check()
