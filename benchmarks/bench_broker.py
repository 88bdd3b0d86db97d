"""A broker over loopback, with fsync: against the least that would do, and against Apache's.

    make bench                                            compiled
    .venv/bin/python benchmarks/bench_broker.py           interpreted
    ... bench_broker.py --only load --messages 50000      a short form of one part
    ... bench_broker.py --apache                          pulsar-perf too, 3 minutes a round

`load` compares with `broker_baseline.py`: the same decoding, checksums, group writes and
receipts without topics. Both servers run all the time, and are loaded in turn, round after
round; every figure is the median of its rounds, every ratio the median of ratios within a
round. Throughput suffers from whatever else the machine does, so CPU time of the server
for each message is compared too.

`--apache` has pulsar-perf publish to Magnetar and to Apache Pulsar in turn, both syncing
before they acknowledge. It needs Java and the artifacts that tests/apache/artifacts.py
fetches.
"""

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from broker_load import Peer, cpu_seconds, entry_of
from timing import Figures, Took, in_child, print_build, print_table

from magnetar.protocol import CommandSend, CommandSendReceipt
from magnetar.protocol import pulsar_pb2 as pb

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from apache.artifacts import ArtifactsMissing, fetch  # noqa: E402
from apache.harness import SHIPPED_MEMORY, ApachePulsar, perf  # noqa: E402
from support.broker_process import BrokerProcess  # noqa: E402

BASELINE: Final = (sys.executable, str(HERE / "broker_baseline.py"))
LOAD: Final = (sys.executable, str(HERE / "broker_load.py"))

PUBLISH_TARGET: Final = 0.60
CONSUME_TARGET: Final = 0.35
READY_TARGET_S: Final = 0.5
IDLE_TARGET_MB: Final = 80
TOPICS: Final = 10_000
CONNECTIONS: Final = 2_000
FOOTPRINT_TARGET_MB: Final = 300
STOP_TARGET_S: Final = 5

# pulsar-perf reports every 10 s, and its first report is that of a cold JVM.
PERF_S: Final = 35
PERF: Final = {
    "1 KiB, not batched": ["-s", "1024", "-db", "-o", "5000"],
    "100 B, batches of 1000": ["-s", "100", "-bm", "1000", "-o", "100000"],
}


# ---- Load --------------------------------------------------------------------


def row(name: str, figures: Figures, base: Figures, target: str = "") -> tuple[str, ...]:
    return (name, *figures.cells(), *figures.against(base), target)


def load(server: BrokerProcess, topic: str, count: int, *options: str) -> Took:
    command = [*LOAD, server.url, f"persistent://public/default/{topic}"]
    command += ["--count", str(count), "--pid", str(server.pid), *options]
    return in_child(command, lambda: server.stderr)


def bench_load(scratch: Path, count: int, rounds: int, *, baseline_alone: bool = False) -> None:
    baseline, publish, consume = Figures(), Figures(), Figures()
    with BrokerProcess(scratch / "baseline", command=BASELINE) as bare:
        if baseline_alone:
            for n in range(rounds):
                baseline.add(load(bare, f"t{n}", count))
        else:
            with BrokerProcess(scratch / "magnetar") as broker:
                for server in (bare, broker):
                    load(server, "warm", count // 10)
                for n in range(rounds):
                    baseline.add(load(bare, f"t{n}", count))
                    publish.add(load(broker, f"publish{n}", count))
                    consume.add(load(broker, f"consume{n}", count, "--consume"))
    rows = [row("baseline, publish", baseline, baseline)]
    if not baseline_alone:
        rows.append(row("publish", publish, baseline, f"{PUBLISH_TARGET:.2f}"))
        rows.append(row("publish and consume", consume, baseline, f"{CONSUME_TARGET:.2f}"))
    header = ("1 KiB, not batched", "messages", "CPU each", "of baseline", "by CPU", "target")
    print_table(f"Under load, {count:,} messages, {rounds} rounds", header, rows)


# ---- Size --------------------------------------------------------------------


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024


def bench_start(scratch: Path, starts: int = 7) -> None:
    seconds, cpu, resident = [], [], []
    for n in range(starts):
        with BrokerProcess(scratch / f"start{n}") as broker:
            seconds.append(broker.ready_s)
            cpu.append(cpu_seconds(broker.pid))
            resident.append(resident_mb(broker.pid))
    rows = [
        ("ready", f"{median(seconds):.2f} s", f"{min(seconds):.2f} s", f"{READY_TARGET_S} s"),
        ("CPU until then", f"{median(cpu):.2f} s", f"{min(cpu):.2f} s", ""),
        (
            "resident",
            f"{median(resident):.0f} MB",
            f"{min(resident):.0f} MB",
            f"{IDLE_TARGET_MB} MB",
        ),
    ]
    print_table("Starting in an empty directory", ("idle", "median", "best", "target"), rows)


def bench_footprint(scratch: Path) -> None:
    """Every connection has some topics with a producer and a message of 100 bytes in each."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    each = TOPICS // CONNECTIONS
    entry = entry_of(bytes(100))
    with BrokerProcess(scratch / "footprint") as broker:
        before = resident_mb(broker.pid)
        start = time.perf_counter()
        peers = [Peer(broker.url) for _ in range(CONNECTIONS)]
        connected = resident_mb(broker.pid)
        for n, peer in enumerate(peers):
            peer.send(*[producer(f"topic-{n}-{i}", i) for i in range(each)])
        for peer in peers:
            for _ in range(each):
                peer.receive(pb.CommandProducerSuccess)
        for peer in peers:
            peer.send(*[CommandSend(i, 0, entry) for i in range(each)])
        for peer in peers:
            for _ in range(each):
                peer.receive(CommandSendReceipt)
        took = time.perf_counter() - start
        after = resident_mb(broker.pid)
        for peer in peers:
            peer.close()
        start = time.perf_counter()
        stopped = stops(broker)
        stop_s = time.perf_counter() - start
    rows = [
        ("idle", f"{before:.0f} MB", ""),
        (f"{CONNECTIONS:,} connections", f"{connected:.0f} MB", ""),
        (f"and {TOPICS:,} topics", f"{after:.0f} MB", f"{FOOTPRINT_TARGET_MB} MB"),
        ("stopping then", f"{stop_s:.1f} s" if stopped else "killed", f"{STOP_TARGET_S} s"),
    ]
    header = ("one broker", "resident", "target")
    print_table(f"Many topics and connections, made in {took:.1f} s", header, rows)


def stops(broker: BrokerProcess) -> bool:
    """Whether the broker ends when it is asked to, and in some reasonable time."""
    try:
        return broker.stop() == 0
    except AssertionError as error:
        print(f"\n{error}")
        return False


def producer(topic: str, producer_id: int) -> pb.CommandProducer:
    return pb.CommandProducer(
        topic=f"persistent://public/default/{topic}",
        producer_id=producer_id,
        request_id=producer_id,
    )


# ---- Apache Pulsar -----------------------------------------------------------


def bench_apache(scratch: Path, rounds: int) -> None:
    try:
        fetch()
    except ArtifactsMissing as missing:
        print(f"\nno comparison with Apache Pulsar: {missing}")
        return
    rows = []
    with (
        BrokerProcess(scratch / "perf") as ours,
        ApachePulsar(fsync=True, memory=SHIPPED_MEMORY) as apache,
    ):
        for name, options in PERF.items():
            here, there = Figures(), Figures()
            for _ in range(rounds):
                here.add(published(ours, options))
                there.add(published(apache, options))
            rows.append((name, *there.cells(), *here.cells(), *here.against(there), "1.00"))
    columns = "Apache Pulsar", "CPU each", "magnetar", "CPU each", "ratio", "by CPU", "target"
    header = ("pulsar-perf produce, fsync", *columns)
    print_table(f"Against Apache Pulsar, {rounds} rounds", header, rows)


def published(server: BrokerProcess | ApachePulsar, options: Sequence[str]) -> Took:
    """What pulsar-perf took for a message, in all its intervals but the first."""
    topic = f"persistent://public/default/perf{time.time_ns()}"
    before = cpu_seconds(server.pid)
    run = perf(server, "produce", topic, "-r", "10000000", "-time", str(PERF_S), *options)
    used = cpu_seconds(server.pid) - before
    warm = run.rates[1:]
    assert warm, f"pulsar-perf gave no second report:\n{run.output}"
    # CPU time is known of the whole run only.
    mean = sum(warm) / len(warm)
    return {"count": run.total, "seconds": run.total / mean, "cpu": used}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=200_000, help="of each load")
    parser.add_argument("--rounds", type=int, default=3, help="of each load, of pulsar-perf too")
    parser.add_argument("--apache", action="store_true", help="compare with Apache Pulsar too")
    parser.add_argument(
        "--only",
        default="",
        choices=("start", "load", "footprint", "apache", "baseline"),
        help="the baseline is measured only if it is named",
    )
    parser.add_argument("--dir", type=Path, default=None, help="where to write")
    chosen = parser.parse_args()
    print_build()
    count, rounds = chosen.messages, chosen.rounds
    with tempfile.TemporaryDirectory(dir=chosen.dir, prefix="bench_broker_") as directory:
        scratch = Path(directory)
        benches: dict[str, Callable[[], None]] = {
            "start": lambda: bench_start(scratch),
            "load": lambda: bench_load(scratch, count, rounds),
            "footprint": lambda: bench_footprint(scratch),
        }
        if chosen.apache or chosen.only == "apache":
            benches["apache"] = lambda: bench_apache(scratch, rounds)
        if chosen.only == "baseline":
            benches = {"baseline": lambda: bench_load(scratch, count, rounds, baseline_alone=True)}
        for name, bench in benches.items():
            if chosen.only in ("", name):
                bench()
    return 0


if __name__ == "__main__":
    sys.exit(main())
