"""The client library against the official one, on the same broker, in one run.

    make bench                                              compiled
    .venv/bin/python benchmarks/bench_client.py             interpreted
    ... bench_client.py --only publish --messages 50000     a short form of one part

The broker runs with --memory, in a process of its own, and each client's run is a process
of its own too (client_load.py). Clients take turns, round after round; every figure is the
median of its rounds, every ratio the median of ratios within a round. What the clients
share with the broker and with everything else is two cores or more, so CPU time of the
client's process for each message is compared too.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from timing import Figures, Took, in_child, print_build, print_table

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.broker_process import BrokerProcess  # noqa: E402

LOAD: Final = (sys.executable, str(HERE / "client_load.py"))

PUBLISH_TARGET: Final = 10.0
CONSUME_TARGET: Final = 2.0
DOORS_TARGET: Final = 0.8
SEND_TARGET: Final = 1.25
IN_FLIGHT: Final = 1000
# One at a time takes longer than batches.
SENDS: Final = 3000

HEADER: Final = ("", "messages", "CPU each", "ratio", "by CPU", "target")


def row(name: str, figures: Figures, base: Figures, target: str = "") -> tuple[str, ...]:
    return (name, *figures.cells(), *figures.against(base), target)


class Bench:
    """One broker, and the clients that use it in turn."""

    def __init__(self, broker: BrokerProcess, count: int, rounds: int) -> None:
        self._broker = broker
        self._count = count
        self._rounds = rounds
        self._topics = 0

    def topic(self) -> str:
        """A new one for each load: no client finds what another left."""
        self._topics += 1
        return f"persistent://public/default/bench-client-{self._topics}"

    def load(self, client: str, work: str, topic: str, count: int, *options: str) -> Took:
        command = [*LOAD, client, work, self._broker.url, topic, "--count", str(count), *options]
        return in_child(command, lambda: self._broker.stderr)

    def publish(self) -> None:
        official, ours = Figures(), Figures()
        for _ in range(self._rounds):
            official.add(self.load("official", "publish", self.topic(), self._count // 4))
            ours.add(self.load("magnetar", "publish", self.topic(), self._count))
        rows = [
            row("official", official, official),
            row("magnetar", ours, official, f"{PUBLISH_TARGET:.0f}"),
        ]
        print_table("send_async with callback, 100 B, batches of 1000", HEADER, rows)

    def consume(self) -> None:
        """Each reads a subscription of its own of one topic that is full already."""
        official, ours = Figures(), Figures()
        for _ in range(self._rounds):
            for client, figures in (("official", official), ("magnetar", ours)):
                topic = self.topic()
                self.load("magnetar", "fill", topic, self._count)
                figures.add(self.load(client, "consume", topic, self._count))
        rows = [
            row("official", official, official),
            row("magnetar", ours, official, f"{CONSUME_TARGET:.0f}"),
        ]
        print_table("receive and acknowledge, 100 B, batches of 1000", HEADER, rows)

    def doors(self) -> None:
        blocking, aio = Figures(), Figures()
        options = ("--window", str(IN_FLIGHT), "--batch", str(IN_FLIGHT // 10))
        for _ in range(self._rounds):
            blocking.add(self.load("magnetar", "publish", self.topic(), self._count, *options))
            aio.add(self.load("aio", "publish", self.topic(), self._count, *options))
        rows = [
            row("blocking", blocking, blocking),
            row("asyncio", aio, blocking, f"{DOORS_TARGET:.1f}"),
        ]
        print_table(f"Both doors, {IN_FLIGHT} sends in flight, batches of 100", HEADER, rows)

    def send(self) -> None:
        official, ours = Figures(), Figures()
        for _ in range(self._rounds):
            official.add(self.load("official", "send", self.topic(), SENDS))
            ours.add(self.load("magnetar", "send", self.topic(), SENDS))
        pairs = zip(ours.rounds, official.rounds, strict=True)
        ratio = median(here["p50"] / there["p50"] for here, there in pairs)
        rows = [
            ("official", _p50(official), "", ""),
            ("magnetar", _p50(ours), f"{ratio:.2f}", f"{SEND_TARGET}"),
        ]
        print_table("send, one at a time, 100 B", ("", "p50", "ratio", "target"), rows)


def _p50(figures: Figures) -> str:
    return f"{figures.median(lambda took: took['p50']) * 1e6:.0f} us"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=200_000, help="of each load")
    parser.add_argument("--rounds", type=int, default=5, help="of each pair of clients")
    parser.add_argument("--only", default="", choices=("publish", "consume", "doors", "send"))
    chosen = parser.parse_args()
    print_build()
    with (
        tempfile.TemporaryDirectory(prefix="bench_client_") as scratch,
        BrokerProcess(Path(scratch), options=["--memory"]) as broker,
    ):
        bench = Bench(broker, chosen.messages, chosen.rounds)
        benches: dict[str, Callable[[], None]] = {
            "publish": bench.publish,
            "consume": bench.consume,
            "doors": bench.doors,
            "send": bench.send,
        }
        for name, run in benches.items():
            if chosen.only in ("", name):
                run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
