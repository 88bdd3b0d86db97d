"""Large messages in chunks: our client against the official one, on the same broker, in one run.

    make bench                                          compiled
    .venv/bin/python benchmarks/bench_chunks.py         interpreted
    ... bench_chunks.py --mib 16 --messages 2           a short form
    ... bench_chunks.py --only consume                  one of the three

The broker runs with --memory, in a process of its own, and each client's run is a process of
its own too. Clients take turns, round after round; every figure is the median of its rounds,
every ratio the median of ratios within a round.

    publish     send, and wait for the id, one after the other
    consume     receive and acknowledge what another process published before
    through     a producer and a consumer in one process: send, receive, acknowledge
"""

import argparse
import importlib
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from timing import Took, in_child, print_build, print_table

import magnetar

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

MIB: Final = 1 << 20
TARGET: Final = 1.0
WAIT_MS: Final = 120_000
WORKS: Final = ("publish", "consume", "through")
CLIENTS: Final = ("official", "magnetar")
MODULES: Final = {"official": "pulsar", "magnetar": "magnetar"}


def content(size: int) -> bytes:
    """Nothing that a checksum or a cache could make short work of."""
    block = bytes((number * 7919) >> 3 & 0xFF for number in range(65_536))
    return (block * (size // len(block) + 1))[:size]


def work(client_name: str, what: str, url: str, topic: str, size: int, count: int) -> None:
    """One client's run: prints seconds, CPU seconds and the most memory it had, in MiB."""
    module: Any = importlib.import_module(MODULES[client_name])
    options: dict[str, Any] = {}
    if client_name == "official":
        options["logger"] = module.ConsoleLogger(module.LoggerLevel.Error)
    client = module.Client(url, **options)
    producer = consumer = None
    if what != "consume":
        producer = client.create_producer(topic, chunking_enabled=True, send_timeout_millis=0)
    if what != "publish":
        consumer = client.subscribe(topic, "load", initial_position=module.InitialPosition.Earliest)
    payload = content(size)
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        if producer is not None:
            producer.send(payload)
        if consumer is not None:
            message = consumer.receive(WAIT_MS)
            assert len(message.data()) == size
            consumer.acknowledge(message)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak": peak}))
    client.close()


def run(client: str, what: str, url: str, topic: str, size: int, count: int) -> Took:
    command = [sys.executable, __file__, "--work", client, what, url, topic]
    return in_child([*command, "--mib", str(size // MIB), "--messages", str(count)])


def bench(url: str, size: int, count: int, rounds: int, only: str | None) -> bool:
    topics = 0
    good = True
    for what in WORKS if only is None else (only,):
        took: dict[str, list[Took]] = {name: [] for name in CLIENTS}
        for _ in range(rounds):
            for name in CLIENTS:
                topics += 1
                topic = f"persistent://public/default/bench-chunks-{topics}"
                if what == "consume":
                    subscribe(url, topic)
                    run("magnetar", "publish", url, topic, size, count)
                took[name].append(run(name, what, url, topic, size, count))
        good = show(what, took, size, count) and good
    return good


def subscribe(url: str, topic: str) -> None:
    """A subscription that keeps what is published."""
    with magnetar.Client(url) as client:
        client.subscribe(topic, "load", initial_position=magnetar.InitialPosition.Earliest)


def show(what: str, took: dict[str, list[Took]], size: int, count: int) -> bool:
    total = size * count / MIB
    base = took["official"]
    rows = []
    ratio = 0.0
    for name in CLIENTS:
        ratios = [b["seconds"] / o["seconds"] for o, b in zip(took[name], base, strict=True)]
        ratio = median(ratios)
        rows.append(
            (
                name,
                f"{median(total / one['seconds'] for one in took[name]):,.0f} MB/s",
                f"{median(one['cpu'] / total * 1000 for one in took[name]):.2f} ms/MB",
                f"{median(one['peak'] for one in took[name]):,.0f} MiB",
                f"{ratio:.2f}" if name != "official" else "",
                f"{TARGET:.1f}" if name != "official" else "",
            )
        )
    title = f"{what}: {count} messages of {size // MIB} MiB"
    print_table(title, ("", "rate", "CPU", "memory", "ratio", "target"), rows)
    return ratio >= TARGET


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--messages", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=WORKS)
    parser.add_argument("--work", nargs=4, metavar=("CLIENT", "WHAT", "URL", "TOPIC"))
    given = parser.parse_args()
    size = given.mib * MIB
    if given.work:
        client, what, url, topic = given.work
        work(client, what, url, topic, size, given.messages)
        return
    from support.broker_process import BrokerProcess

    print_build(f"{given.rounds} rounds")
    with (
        tempfile.TemporaryDirectory() as directory,
        BrokerProcess(Path(directory) / "data", options=("--memory",)) as broker,
    ):
        if not bench(broker.url, size, given.messages, given.rounds, given.only):
            print("\nbelow the target")


if __name__ == "__main__":
    main()
