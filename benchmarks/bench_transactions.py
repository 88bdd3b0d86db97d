"""Transactions a second, against Apache Pulsar's, and what they cost those who use none.

    make bench                                             compiled
    .venv/bin/python benchmarks/bench_transactions.py      interpreted
    ... bench_transactions.py --only client --seconds 3    a short form of one part
    ... bench_transactions.py --apache                     pulsar-perf too, 5 minutes a round

`client` has our client begin transactions, send 1, 10 or 100 messages of 1 KiB in each and commit
them, some at a time; broker and client share the machine.

`plain` publishes and acknowledges without transactions (broker_load.py), on a broker that has them
switched on and on one that has not, in turn: the ratios should be 1.

`--apache` has pulsar-perf do transactions on Magnetar and on Apache Pulsar in turn, both syncing
before they answer. It needs Java and the artifacts that tests/apache/artifacts.py fetches.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from broker_load import cpu_seconds
from timing import Figures, Took, in_child, print_build, print_table

from magnetar import aio

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from apache.artifacts import ArtifactsMissing, fetch  # noqa: E402
from apache.harness import SHIPPED_MEMORY, ApachePulsar, perf  # noqa: E402
from support.broker_process import BrokerProcess  # noqa: E402

LOAD: Final = (sys.executable, str(HERE / "broker_load.py"))
ON: Final = ("--set", "transactions=true")
SIZES: Final = (1, 10, 100)
AT_ONCE: Final = 16
PAYLOAD: Final = bytes(1024)
THREADS: Final = 8
APACHE_TARGET: Final = 2.0

TOTAL: Final = re.compile(r"--- (\d+) transaction executed ---\s+([\d.]+) transaction/s")


# ---- Our client --------------------------------------------------------------


async def transact(url: str, size: int, seconds: float) -> int:
    """How many transactions of so many messages were committed in this time."""
    done = 0
    async with aio.Client(url) as client:
        producers = [
            await client.create_producer(f"of-{size}-{at}", batching_enabled=size > 1)
            for at in range(AT_ONCE)
        ]
        end_s = time.perf_counter() + seconds

        async def work(producer: aio.Producer) -> None:
            nonlocal done
            while time.perf_counter() < end_s:
                async with client.transaction() as txn:
                    for _ in range(size):
                        producer.send(PAYLOAD, transaction=txn)
                done += 1

        await asyncio.gather(*map(work, producers))
    return done


def bench_client(scratch: Path, rounds: int, seconds: float) -> None:
    figures = {size: Figures() for size in SIZES}
    with BrokerProcess(scratch / "client", options=ON) as broker:
        asyncio.run(transact(broker.url, 1, 1))
        for _ in range(rounds):
            for size in SIZES:
                cpu, start = cpu_seconds(broker.pid), time.perf_counter()
                count = asyncio.run(transact(broker.url, size, seconds))
                took = time.perf_counter() - start
                cpu = cpu_seconds(broker.pid) - cpu
                figures[size].add({"count": count, "seconds": took, "cpu": cpu})
    rows = [(f"{size} messages in each", *figures[size].cells()) for size in SIZES]
    header = ("our client", "transactions", "CPU each")
    print_table(f"Transactions, {AT_ONCE} at a time, {rounds} rounds", header, rows)


# ---- Without transactions ----------------------------------------------------


def bench_plain(scratch: Path, rounds: int, count: int) -> None:
    off, on = Figures(), Figures()
    with (
        BrokerProcess(scratch / "off") as without,
        BrokerProcess(scratch / "on", options=ON) as with_them,
    ):
        turns = ((without, off), (with_them, on))
        for server, _ in turns:
            load(server, "warm", count // 10)
        for n in range(rounds):
            # Who comes first changes, lest one of them have the better half of each round.
            for server, figures in turns if n % 2 else reversed(turns):
                figures.add(load(server, f"t{n}", count))
    rows = [
        ("transactions off", *off.cells(), *off.against(off), ""),
        ("transactions on", *on.cells(), *on.against(off), "1.00"),
    ]
    header = ("publish and ack", "messages", "CPU each", "ratio", "by CPU", "target")
    print_table(f"While no transaction is open, {count:,} messages, {rounds} rounds", header, rows)


def load(server: BrokerProcess, topic: str, count: int) -> Took:
    command = [*LOAD, server.url, f"persistent://public/default/{topic}"]
    command += ["--count", str(count), "--pid", str(server.pid), "--consume"]
    return in_child(command, lambda: server.stderr)


# ---- Apache Pulsar -----------------------------------------------------------


def bench_apache(scratch: Path, rounds: int, seconds: float) -> None:
    try:
        fetch()
    except ArtifactsMissing as missing:
        print(f"\nno comparison with Apache Pulsar: {missing}")
        return
    rows = []
    with (
        BrokerProcess(scratch / "perf", options=ON) as ours,
        ApachePulsar(fsync=True, memory=SHIPPED_MEMORY, transactions=True) as apache,
    ):
        for size in SIZES:
            here, there = Figures(), Figures()
            for n in range(rounds + 1):
                for server, figures in ((ours, here), (apache, there)):
                    took = committed(server, size, seconds)
                    if n:  # the first round is that of a cold JVM
                        figures.add(took)
            ratios = (*here.against(there), f"{APACHE_TARGET:.2f}")
            rows.append((f"{size} messages in each", *there.cells(), *here.cells(), *ratios))
    columns = "Apache Pulsar", "CPU each", "magnetar", "CPU each", "ratio", "by CPU", "target"
    header = ("pulsar-perf transaction, fsync", *columns)
    print_table(f"Against Apache Pulsar, {THREADS} threads, {rounds} rounds", header, rows)


def committed(server: BrokerProcess | ApachePulsar, size: int, seconds: float) -> Took:
    """What pulsar-perf took for a transaction that publishes so many messages."""
    topic = f"persistent://public/default/perf{time.time_ns()}"
    topics = ("--topics-p", topic, "--topics-c", f"{topic}-c")
    counts = ("-nmp", str(size), "-nmc", "0", "-threads", str(THREADS), "-tto", "60")
    before = cpu_seconds(server.pid)
    run = perf(server, "transaction", *topics, *counts, "-time", str(round(seconds)))
    used = cpu_seconds(server.pid) - before
    found = TOTAL.search(run.output)
    assert found, f"pulsar-perf gives no total:\n{run.output}"
    count, rate = int(found[1]), float(found[2])
    return {"count": count, "seconds": count / rate, "cpu": used}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=100_000, help="of each plain load")
    parser.add_argument("--rounds", type=int, default=3, help="of each part")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each of transactions")
    parser.add_argument("--apache", action="store_true", help="compare with Apache Pulsar too")
    parser.add_argument("--only", default="", choices=("client", "plain", "apache"))
    parser.add_argument("--dir", type=Path, default=None, help="where to write")
    chosen = parser.parse_args()
    print_build()
    rounds, seconds = chosen.rounds, chosen.seconds
    with tempfile.TemporaryDirectory(dir=chosen.dir, prefix="bench_transactions_") as directory:
        scratch = Path(directory)
        benches: dict[str, Callable[[], None]] = {
            "client": lambda: bench_client(scratch, rounds, seconds),
            "plain": lambda: bench_plain(scratch, rounds, chosen.messages),
        }
        if chosen.apache or chosen.only == "apache":
            benches["apache"] = lambda: bench_apache(scratch, rounds, seconds)
        for name, bench in benches.items():
            if chosen.only in ("", name):
                bench()
    return 0


if __name__ == "__main__":
    sys.exit(main())
