"""Skipping by message id (PIP-423): one request with many ids, and what others wait meanwhile.

    make bench                                      compiled
    .venv/bin/python benchmarks/bench_skip.py       interpreted
    ... bench_skip.py --ids 10000 --rounds 1        a short form

The broker runs on the disk, in a process of its own. Every round publishes anew, names all of
it in one body, in no order, and skips it.

    request     from the first byte sent to the answer, which comes when all is durable
    CPU         of the broker's process meanwhile: says more on a machine with other things to do
    waits       the longest that a small request took meanwhile: for how long the loop was held

What is skipped:

    nobody      a subscription that nobody ever joined
    base64      the same, with ids as clients serialize them
    again       the same once more: nothing is left to do
    held        messages that two consumers hold, unacked
    indexes     one message in ten of batches of a thousand
    partitions  messages of four partitions
    delayed     messages that wait for their time
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import httpx
import msgspec
from broker_load import cpu_seconds
from timing import print_build, print_table

import magnetar

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

TARGET: Final = "2.0 s"
WAIT_S: Final = 300.0
HOUR_MS: Final = 3_600_000
SHARED: Final = magnetar.ConsumerType.Shared
KEY_SHARED: Final = magnetar.ConsumerType.KeyShared
INDEXED: Final = 1000  # messages of a batch of which some are named
KEYS: Final = 5000
# Consumers are to hold all of it.
UNLIMITED: Final = (
    *("--set", "max_unacked_per_consumer=0"),
    *("--set", "max_unacked_per_subscription=0"),
)

Ids = list[magnetar.MessageId]


class Took(NamedTuple):
    """Seconds of one request."""

    request: float
    cpu: float
    waits: float


class Bench:
    """A broker, a client of it, and topics that are used once."""

    def __init__(self, url: str, http_url: str, pid: int, count: int) -> None:
        self.client = magnetar.Client(url)
        self.pid = pid
        self.http = httpx.Client(base_url=f"{http_url}/admin/v2", timeout=WAIT_S)
        self.ready_url = f"{http_url}/admin/v2/brokers/ready"
        self.count = count
        self.topics = 0

    def close(self) -> None:
        self.client.close()
        self.http.close()

    def topic(self, partitions: int = 0) -> str:
        self.topics += 1
        name = f"public/default/bench-skip-{self.topics}"
        path = f"/persistent/{name}"
        if partitions:
            self.http.put(f"{path}/partitions", json=partitions).raise_for_status()
        else:
            self.http.put(path).raise_for_status()
        self.http.put(f"{path}/subscription/s").raise_for_status()
        return name

    def publish(self, topic: str, count: int, batch: int = 0, **options: Any) -> Ids:
        ids: Ids = []
        producer = self.client.create_producer(
            topic,
            batching_enabled=batch > 0,
            batching_max_messages=batch or 1,
            batching_max_publish_delay_ms=1000,
            block_if_queue_full=True,
        )
        for number in range(count):
            key = f"key-{number % KEYS}"
            producer.send_async(
                b"x" * 100, lambda result, id: ids.append(id), partition_key=key, **options
            )
        producer.flush()
        while len(ids) < count:  # callbacks have a thread of their own
            time.sleep(0.01)
        producer.close()
        return ids

    def stats(self, topic: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/persistent/{topic}/stats").json()
        return found["subscriptions"]["s"]  # type: ignore[no-any-return]

    def wait(self, topic: str, figure: str, count: int) -> None:
        end = time.monotonic() + WAIT_S
        while self.stats(topic)[figure] < count:
            assert time.monotonic() < end, f"{figure} of {topic}: {self.stats(topic)[figure]}"
            time.sleep(0.05)

    def hold(self, topic: str, type: Any) -> list[magnetar.Consumer]:
        """Two consumers, who take all and ack nothing."""
        queue = self.count  # keys are not shared out evenly
        return [
            self.client.subscribe(topic, "s", consumer_type=type, receiver_queue_size=queue)
            for _ in range(2)
        ]

    def skip(self, topic: str, body: object) -> Took:
        """Asks for it, and looks at how long small requests take meanwhile."""
        raw = msgspec.json.encode(body)
        path = f"/persistent/{topic}/subscription/s/skipByMessageIds"
        done = threading.Event()
        took: list[float] = []

        def look() -> None:
            with httpx.Client() as other:
                while not done.is_set():
                    start = time.perf_counter()
                    other.get(self.ready_url).raise_for_status()
                    took.append(time.perf_counter() - start)
                    time.sleep(0.005)

        others = threading.Thread(target=look)
        others.start()
        while len(took) < 3:
            time.sleep(0.01)
        took.clear()
        start, cpu = time.perf_counter(), cpu_seconds(self.pid)
        answer = self.http.post(path, content=raw, headers={"content-type": "application/json"})
        seconds, cpu = time.perf_counter() - start, cpu_seconds(self.pid) - cpu
        done.set()
        others.join()
        assert answer.status_code == 204, answer.text
        return Took(seconds, cpu, max(took, default=0.0))


def named(ids: Ids, *, indexes: bool = False) -> dict[str, object]:
    """A body with all ids, in no order."""
    listed = []
    for id in ids:
        one = {"ledgerId": id.ledger_id(), "entryId": id.entry_id()}
        if indexes:
            one["batchIndex"] = id.batch_index()
        if id.partition() >= 0:
            one["partitionIndex"] = id.partition()
        listed.append(one)
    random.Random(1).shuffle(listed)
    return {"type": "messageId", "messageIds": listed}


Figures = list[tuple[str, Took]]


def of_nobody(bench: Bench) -> Figures:
    topic = bench.topic()
    body = named(bench.publish(topic, bench.count))
    return [("nobody", bench.skip(topic, body)), ("again", bench.skip(topic, body))]


def of_base64(bench: Bench) -> Figures:
    topic = bench.topic()
    body = [b64encode(id.serialize()).decode() for id in bench.publish(topic, bench.count)]
    return [("base64", bench.skip(topic, body))]


def of_held(bench: Bench, name: str, type: Any) -> Figures:
    topic = bench.topic()
    consumers = bench.hold(topic, type)
    body = named(bench.publish(topic, bench.count))
    bench.wait(topic, "unackedMessages", bench.count)
    figures = bench.skip(topic, body)
    left = bench.stats(topic)
    assert left["unackedMessages"] == left["msgBacklog"] == 0, left
    for consumer in consumers:
        consumer.close()
    return [(f"held, {name}", figures)]


def of_indexes(bench: Bench) -> Figures:
    topic = bench.topic()
    ids = bench.publish(topic, bench.count * 10, batch=INDEXED)
    figures = bench.skip(topic, named(ids[::10], indexes=True))
    assert bench.stats(topic)["msgBacklogMessages"] == bench.count * 9
    return [("indexes", figures)]


def of_partitions(bench: Bench) -> Figures:
    topic = bench.topic(partitions=4)
    return [("partitions", bench.skip(topic, named(bench.publish(topic, bench.count))))]


def of_delayed(bench: Bench) -> Figures:
    topic = bench.topic()
    consumers = bench.hold(topic, SHARED)
    at_ms = int(time.time() * 1000) + HOUR_MS
    body = named(bench.publish(topic, bench.count, deliver_at=at_ms))
    bench.wait(topic, "msgDelayed", bench.count)
    figures = bench.skip(topic, body)
    assert bench.stats(topic)["msgDelayed"] == 0
    for consumer in consumers:
        consumer.close()
    return [("delayed", figures)]


WORKS: Final[dict[str, Callable[[Bench], Figures]]] = {
    "nobody": of_nobody,
    "base64": of_base64,
    "shared": lambda bench: of_held(bench, "Shared", SHARED),
    "key_shared": lambda bench: of_held(bench, "Key_Shared", KEY_SHARED),
    "indexes": of_indexes,
    "partitions": of_partitions,
    "delayed": of_delayed,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ids", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=sorted(WORKS))
    given = parser.parse_args()
    from support.broker_process import BrokerProcess

    print_build(f"{given.rounds} rounds", f"{given.ids} ids")
    took: dict[str, list[Took]] = {}
    with (
        tempfile.TemporaryDirectory() as directory,
        BrokerProcess(Path(directory) / "data", options=UNLIMITED) as broker,
    ):
        bench = Bench(broker.url, broker.http_url, broker.pid, given.ids)
        for _ in range(given.rounds):
            for name, work in WORKS.items():
                if given.only in (None, name):
                    for what, figures in work(bench):
                        took.setdefault(what, []).append(figures)
        bench.close()
    rows = [
        (
            what,
            f"{median(one.request for one in rounds):.2f} s",
            f"{max(one.request for one in rounds):.2f} s",
            f"{median(one.cpu for one in rounds):.2f} s",
            f"{median(one.waits for one in rounds) * 1000:.0f} ms",
            TARGET,
        )
        for what, rounds in took.items()
    ]
    print_table("skipByMessageIds", ("", "request", "slowest", "CPU", "waits", "target"), rows)


if __name__ == "__main__":
    main()
