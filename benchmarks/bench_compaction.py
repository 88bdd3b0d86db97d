"""Compaction of a large topic, and what publishers of others feel of it.

    make bench                                            compiled
    .venv/bin/python benchmarks/bench_compaction.py       interpreted
    ... bench_compaction.py --messages 100000 --keys 1000     a short form

One million messages of ten thousand keys, in batches of 100, are compacted while another producer
sends one message after the other, each after the receipt of the last, all with fsync. What its
receipts take is compared with the time before, in the same run. The view is read afterwards, and
compared with a dict.
"""

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import httpx
import pulsar
from broker_load import cpu_seconds
from timing import print_build, print_table

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.broker_process import BrokerProcess  # noqa: E402

TOPIC: Final = "persistent://public/default/prices"
PATH: Final = "/admin/v2/persistent/public/default/prices/compaction"
BATCH: Final = 100
# How long the prober sends before the compaction, and at least in it.
QUIET_S: Final = 5.0
# Between two messages of the prober.
PAUSE_S: Final = 0.002


class Prober:
    """Sends one message after the other, and notes how long each receipt took, by period."""

    def __init__(self, url: str) -> None:
        self.took: dict[str, list[float]] = {}
        self.period = "before"
        self._url = url
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        client = new_client(self._url)
        producer = client.create_producer(
            "persistent://public/default/probe", batching_enabled=False
        )
        while not self._ended.is_set():
            begin = time.perf_counter()
            producer.send(b"x" * 100)
            self.took.setdefault(self.period, []).append(time.perf_counter() - begin)
            time.sleep(PAUSE_S)
        client.close()

    def __enter__(self) -> "Prober":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def new_client(url: str) -> Any:
    return pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


def publish(client: Any, messages: int, keys: int, first: int) -> dict[str, bytes]:
    """Publishes, and returns the last value of each key."""
    producer = client.create_producer(
        TOPIC,
        batching_enabled=True,
        batching_max_messages=BATCH,
        batching_max_publish_delay_ms=100,
        block_if_queue_full=True,
        max_pending_messages=20_000,
    )
    last: dict[str, bytes] = {}
    failed: list[Any] = []

    def sent(result: Any, _: Any) -> None:
        if result != pulsar.Result.Ok:
            failed.append(result)

    for number in range(first, first + messages):
        # Not in turn, so that what is kept lies scattered.
        key = f"key-{number * 7919 % keys}"
        last[key] = b"%100d" % number
        producer.send_async(last[key], sent, partition_key=key)
    producer.flush()
    producer.close()
    assert not failed, failed[:3]
    return last


def read_view(client: Any) -> tuple[dict[str, bytes], int]:
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest, is_read_compacted=True)
    found: dict[str, bytes] = {}
    count = 0
    while reader.has_message_available():
        message = reader.read_next(30_000)
        found[message.partition_key()] = message.data()
        count += 1
    reader.close()
    return found, count


def compact(http: httpx.Client) -> float:
    begin = time.perf_counter()
    http.put(PATH).raise_for_status()
    while True:
        status = http.get(PATH).json()
        if status["status"] != "RUNNING":
            assert status["status"] == "SUCCESS", status
            return time.perf_counter() - begin
        time.sleep(0.1)


def share(took: list[float], part: float) -> str:
    return f"{sorted(took)[int(len(took) * part)] * 1000:.1f} ms"


def resident_mb(pid: int) -> float:
    (line,) = [
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    ]
    return int(line.split()[1]) / 1024


def bench(messages: int, keys: int) -> None:
    with (
        tempfile.TemporaryDirectory() as scratch,
        BrokerProcess(Path(scratch) / "data") as broker,
        httpx.Client(base_url=broker.http_url, timeout=30) as http,
    ):
        client = new_client(broker.url)
        last = publish(client, messages, keys, 0)
        before_mb = resident_mb(broker.pid)
        rows: list[tuple[str, ...]] = []
        with Prober(broker.url) as prober:
            time.sleep(QUIET_S)
            for name, more in (("first", 0), ("second", messages // 10)):
                if more:
                    prober.period = "publishing"
                    last |= publish(client, more, keys, messages)
                prober.period = name
                cpu = cpu_seconds(broker.pid)
                seconds = compact(http)
                spent = cpu_seconds(broker.pid) - cpu
                read = messages if name == "first" else keys + more
                rows.append(
                    (
                        f"{name} compaction, {read:,} messages",
                        f"{seconds:.1f} s",
                        f"{read / seconds:,.0f}/s",
                        f"{spent * 1e6 / read:.2f} us",
                    )
                )
            prober.period = "after"
            time.sleep(QUIET_S)
        header = (f"{messages:,} messages of {keys:,} keys", "took", "messages", "CPU each")
        print_table("Compaction", header, rows)
        columns = ("receipts of another topic", "sent", "median", "p99", "p99.9", "longest")
        print_table(
            "Publishing meanwhile",
            columns,
            [
                (
                    period,
                    f"{len(took):,}",
                    share(took, 0.5),
                    share(took, 0.99),
                    share(took, 0.999),
                    f"{max(took) * 1000:.1f} ms",
                )
                for period, took in prober.took.items()
            ],
        )
        found, count = read_view(client)
        assert found == last, "the view is not what was published last"
        assert count == len(last), f"{count} messages for {len(last)} keys"
        grown = resident_mb(broker.pid) - before_mb
        print(f"\nThe view has {count:,} messages, and is right; memory grew by {grown:.0f} MB.")
        client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    options = parser.parse_args()
    print_build()
    bench(options.messages, options.keys)


if __name__ == "__main__":
    main()
