"""What retrying acks costs: receive + acknowledge with and without it, in one run.

    make bench                                            compiled
    .venv/bin/python benchmarks/bench_acks.py             interpreted
    ... bench_acks.py --messages 50000 --rounds 3         a short form

The broker runs with --memory, in a process of its own, and so does each consumer. Both kinds
take turns, round after round, and who begins changes with the round; figures are medians over
the rounds, ratios medians of ratios within a round. `by CPU` compares the CPU time of the
consumers' processes, which says more on a machine with other things to do. `to the end` counts
the time until no ack is pending: with retries, until all are confirmed. `slowest 0.1 %` is how
long the slowest calls of `receive` took: answers to acks must not hold them up.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from client_load import Stopwatch
from timing import Figures, Took, in_child, print_build, print_table

import magnetar

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

TARGET: Final = 0.85
HEADER: Final = (
    "", "messages", "CPU each", "to the end", "slowest 0.1 %", "ratio", "by CPU", "target"
)  # fmt: skip
PAYLOAD: Final = bytes(range(100))
SUBSCRIPTION: Final = "acks"


# ---- One consumer ----------------------------------------------------------------


@contextmanager
def connected(url: str) -> Iterator[magnetar.Client]:
    client = magnetar.Client(url, logger=magnetar.ConsoleLogger(magnetar.LoggerLevel.Error))
    try:
        yield client
    finally:
        client.close()


def subscribe(client: magnetar.Client, topic: str, retry: bool) -> magnetar.Consumer:
    return client.subscribe(
        topic,
        SUBSCRIPTION,
        initial_position=magnetar.InitialPosition.Earliest,
        auto_retry_acknowledgement=retry,
    )


def consume(url: str, topic: str, count: int, retry: bool, cumulative: bool) -> Took:
    """Receives and acks everything; in a process of its own."""
    with connected(url) as client:
        consumer = subscribe(client, topic, retry)
        acknowledge: Callable[[Any], None] = (
            consumer.acknowledge_cumulative if cumulative else consumer.acknowledge
        )
        acknowledge(consumer.receive(30_000))
        watch = Stopwatch()
        for _ in range(count - 1):
            message = consumer.receive()
            message.data()
            acknowledge(message)
        took = watch.took(count - 1)
        while consumer.stats().acks_pending:
            time.sleep(0.001)
        took["settled"] = watch.took(count)["seconds"]
        stats = consumer.stats()
        assert stats.acks_exhausted == 0, stats
        assert (stats.acks_kept > 0) == retry, stats
        return took


def receive_times(url: str, topic: str, count: int, retry: bool) -> Took:
    """How long each call of `receive` takes, which the clock itself would slow down above."""
    with connected(url) as client:
        consumer = subscribe(client, topic, retry)
        consumer.acknowledge(consumer.receive(30_000))
        each = []
        clock = time.perf_counter
        for _ in range(count - 1):
            start = clock()
            message = consumer.receive()
            each.append(clock() - start)
            consumer.acknowledge(message)
        each.sort()
        return {"slowest": each[-max(len(each) // 1000, 1)]}


def fill(url: str, topic: str, count: int, batch: int) -> None:
    with connected(url) as client:
        producer = client.create_producer(
            topic,
            batching_enabled=batch > 1,
            batching_max_messages=max(batch, 2),
            batching_max_allowed_size_in_bytes=1 << 20,
            max_pending_messages=100_000,
            block_if_queue_full=True,
        )
        for _ in range(count):
            producer.send_async(PAYLOAD, None)
        producer.flush()


# ---- All of them -----------------------------------------------------------------


def row(name: str, figures: Figures, base: Figures) -> tuple[str, ...]:
    settled = figures.median(lambda took: took["count"] / took["settled"])
    slowest = figures.median(lambda took: took["slowest"])
    more = f"{settled:,.0f}/s", f"{slowest * 1e6:,.0f} us"
    target = "" if figures is base else f"{TARGET}"
    return (name, *figures.cells(), *more, *figures.against(base), target)


class Bench:
    """One broker, and the consumers that use it in turn."""

    def __init__(self, url: str, count: int, rounds: int) -> None:
        self._url = url
        self._count = count
        self._rounds = rounds
        self._topics = 0

    def run(self, title: str, batch: int, cumulative: bool, share: int) -> None:
        count = self._count // share
        plain, retrying = Figures(), Figures()
        for round in range(self._rounds):
            kinds = [(False, plain), (True, retrying)]
            for retry, figures in kinds if round % 2 == 0 else reversed(kinds):
                took = self._child("consume", count, batch, retry, cumulative)
                took |= self._child("receive", count, batch, retry, False)
                figures.add(took)
        rows = [row("without", plain, plain), row("with retries", retrying, plain)]
        print_table(f"{title}, {count:,} messages", HEADER, rows)

    def _child(self, work: str, count: int, batch: int, retry: bool, cumulative: bool) -> Took:
        self._topics += 1
        topic = f"persistent://public/default/bench-acks-{self._topics}"
        fill(self._url, topic, count, batch)
        command = [sys.executable, __file__, "--child", work, "--url", self._url, "--topic", topic]
        command += ["--messages", str(count)]
        command += ["--retry"] * retry + ["--cumulative"] * cumulative
        return in_child(command)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=200_000, help="of each consumer")
    parser.add_argument("--rounds", type=int, default=7, help="of each pair")
    parser.add_argument("--only", default="", choices=("batched", "single", "cumulative"))
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    parser.add_argument("--topic", default="", help=argparse.SUPPRESS)
    parser.add_argument("--retry", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cumulative", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        arguments = (chosen.url, chosen.topic, chosen.messages, chosen.retry)
        if chosen.child == "consume":
            took = consume(*arguments, chosen.cumulative)
        else:
            took = receive_times(*arguments)
        print(json.dumps(took))
        return 0
    print_build()
    from support.broker_process import BrokerProcess

    with (
        tempfile.TemporaryDirectory(prefix="bench_acks_") as scratch,
        BrokerProcess(Path(scratch), options=["--memory"]) as broker,
    ):
        bench = Bench(broker.url, chosen.messages, chosen.rounds)
        kinds = {
            "batched": ("receive and acknowledge, 100 B, batches of 1000", 1000, False, 1),
            "single": ("receive and acknowledge, 100 B, not batched", 1, False, 4),
            "cumulative": ("receive and acknowledge_cumulative, batches of 100", 100, True, 2),
        }
        for name, (title, batch, cumulative, share) in kinds.items():
            if chosen.only in ("", name):
                bench.run(title, batch, cumulative, share)
    return 0


if __name__ == "__main__":
    sys.exit(main())
