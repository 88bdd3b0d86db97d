"""kill -9 of a broker that compacts: the view is the last of each key, and nothing else changes.

Every round publishes, begins a compaction and kills the broker at a random moment of it. The number
of rounds comes from MAGNETAR_KILL_ROUNDS; all of them go on in one directory.
"""

import os
import time
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pulsar
import pytest
from support.broker_process import BrokerProcess

from magnetar.storage import FileDisk, check

ROUNDS = int(os.environ.get("MAGNETAR_KILL_ROUNDS", "3"))
TOPIC = "persistent://public/default/t"
PATH = "/admin/v2/persistent/public/default/t"
KEYS = 50
BATCH = 20
MESSAGES = 1500
# A compaction of so much takes about as long.
MOMENT_S = 0.15
WAIT_MS = 30_000


class Sent:
    """What was sent, in order: number, key, value, and whether there is a receipt."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, bytes]] = []
        self.receipted: set[int] = set()
        # Up to here the subscription has had everything.
        self.seen = 0

    def send(self, producer: Any, random: Random) -> None:
        key = f"k{random.randrange(KEYS)}"
        number = len(self.messages)
        value = b"" if random.random() < 0.05 else b"%d" % number
        self.messages.append((key, value))

        def done(result: Any, _: Any) -> None:
            if result == pulsar.Result.Ok:
                self.receipted.add(number)

        producer.send_async(value, done, partition_key=key)

    def possible(self) -> dict[str, set[bytes]]:
        """Of each key what its last value may be: that with a receipt, or one sent later."""
        found: dict[str, set[bytes]] = {}
        for number, (key, value) in enumerate(self.messages):
            if number in self.receipted:
                found[key] = {value}
            else:
                found.setdefault(key, {b""}).add(value)
        return found


def read_view(client: Any) -> dict[str, bytes]:
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest, is_read_compacted=True)
    found: dict[str, bytes] = {}
    while reader.has_message_available():
        message = reader.read_next(WAIT_MS)
        found[message.partition_key()] = message.data()
    reader.close()
    return found


def judge(broker: BrokerProcess, sent: Sent) -> None:
    """A reader of the view knows the last of each key, and the subscription gets everything."""
    client = new_client(broker)
    found = read_view(client)
    for key, values in sent.possible().items():
        assert found.get(key, b"") in values, (key, found.get(key), values)
    consumer = client.subscribe(TOPIC, "ordinary", pulsar.ConsumerType.Exclusive)
    wanted = [n for n in sorted(sent.receipted) if n >= sent.seen]
    last = None
    got: list[tuple[str, bytes]] = []
    while len(got) < len(wanted):
        last = consumer.receive(WAIT_MS)
        got.append((last.partition_key(), last.data()))
    assert [m for m in got if m in {sent.messages[n] for n in wanted}] == [
        sent.messages[n] for n in wanted
    ]
    if last is not None:
        consumer.acknowledge_cumulative(last)
    sent.seen = len(sent.messages)
    client.close()


def new_client(broker: BrokerProcess) -> Any:
    return pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


def load(broker: BrokerProcess, sent: Sent, random: Random) -> None:
    """Publishes, and waits for most of the receipts."""
    client = new_client(broker)
    client.subscribe(
        TOPIC,
        "ordinary",
        pulsar.ConsumerType.Exclusive,
        initial_position=pulsar.InitialPosition.Earliest,
    ).close()
    producer = client.create_producer(
        TOPIC,
        batching_enabled=random.random() < 0.8,
        batching_max_messages=BATCH,
        compression_type=random.choice([pulsar.CompressionType.NONE, pulsar.CompressionType.LZ4]),
        block_if_queue_full=True,
    )
    for _ in range(MESSAGES):
        sent.send(producer, random)
    producer.flush()
    client.close()


@pytest.mark.once
def test_a_compaction_that_is_killed_leaves_the_view_and_everything_else(tmp_path: Path) -> None:
    random = Random(23)
    sent = Sent()
    data = tmp_path / "data"
    views = [-1]
    with BrokerProcess(data) as broker:
        for _ in range(ROUNDS):
            load(broker, sent, random)
            with httpx.Client(base_url=broker.http_url, timeout=30) as http:
                http.put(f"{PATH}/compaction").raise_for_status()
                time.sleep(random.random() * MOMENT_S)  # a random moment, whatever that is
            broker.kill()
            assert check(FileDisk(data)) == []
            broker.start()
            judge(broker, sent)
            views.append(view_of(broker))
    assert check(FileDisk(data)) == []
    if ROUNDS >= 50:
        replaced = [before != after for before, after in pairwise(views)]
        assert any(replaced), "no compaction came to its end"
        assert not all(replaced), "no compaction was killed"


def view_of(broker: BrokerProcess) -> int:
    """The ledger of the view that there is; -1 if there is none."""
    found = httpx.get(f"{broker.http_url}{PATH}/internalStats", timeout=30).json()
    return int(found["compactedLedger"]["ledgerId"])
