"""What a noisy neighbour costs another tenant, with and without a rate.

    .venv/bin/python benchmarks/bench_rates.py [--seconds 4] [--rounds 3] [--rate 500]

One tenant publishes a message of 1 KiB, waits for its receipt, and publishes the next. Another one
publishes as fast as it can, a thousand ahead of its receipts: not at all, freely, and with a
publish rate; and then reads a backlog as fast as it can, freely and with a dispatch rate. The five
take turns in each round, against one broker. Every figure is the median of its rounds.
"""

import argparse
import math
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

import httpx
from broker_load import PAYLOAD, Peer, Publisher, entry_of
from timing import print_build, print_table

from magnetar.protocol import CommandFlow, CommandSend, CommandSendReceipt
from magnetar.protocol import pulsar_pb2 as pb

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from support.broker_process import BrokerProcess  # noqa: E402

QUIET: Final = "persistent://quiet/ns/t"
WINDOW: Final = 1000
BACKLOG: Final = 20_000
# What the noise does before it is measured.
WARM_S: Final = 0.5
FREE: Final = -1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--noise", nargs=3, metavar=("KIND", "URL", "TOPIC"), help="internal")
    options = parser.parse_args()
    if options.noise:
        kind, url, topic = options.noise
        publish(url, topic) if kind == "publish" else consume(url, topic)
        return 0
    print_build(f"rounds of {options.seconds:g} s, rate {options.rate} messages a second")
    with tempfile.TemporaryDirectory() as scratch, BrokerProcess(Path(scratch) / "d") as broker:
        measure(broker, options.seconds, options.rounds, options.rate)
    return 0


def measure(broker: BrokerProcess, seconds: float, rounds: int, rate: int) -> None:
    put(broker, "tenants/quiet", {"allowedClusters": ["standalone"]})
    put(broker, "tenants/noisy", {"allowedClusters": ["standalone"]})
    for namespace in ("quiet/ns", "noisy/ns"):
        put(broker, f"namespaces/{namespace}", {})
    quiet = Quiet(broker.url)
    fill(broker.url, "persistent://noisy/ns/backlog")
    cases = {
        "alone": ("", FREE),
        "beside a producer": ("publish", FREE),
        "beside a producer with a rate": ("publish", rate),
        "beside a reader of a backlog": ("consume", FREE),
        "beside a reader with a rate": ("consume", rate),
    }
    found: dict[str, list[list[float]]] = {name: [] for name in cases}
    noise: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, (kind, limit) in cases.items():
            took, passed = one_round(broker, quiet, kind, limit, seconds)
            found[name].append(took)
            noise[name].append(passed)
    base = found["alone"]
    rows = []
    for name in cases:
        ratio = median(
            at(took, 99) / at(own, 99) for took, own in zip(found[name], base, strict=True)
        )
        rows.append(
            (
                name,
                f"{median(at(took, 50) for took in found[name]) * 1000:.2f} ms",
                f"{median(at(took, 99) for took in found[name]) * 1000:.2f} ms",
                f"{ratio:.2f}",
                f"{median(noise[name]):,.0f}/s",
            )
        )
    header = ("another tenant's publish", "p50", "p99", "p99 / alone", "the noise")
    print_table("A noisy neighbour", header, rows)


def one_round(
    broker: BrokerProcess, quiet: "Quiet", kind: str, limit: int, seconds: float
) -> tuple[list[float], float]:
    """How long each publish took, and how many messages of the noise went through in a second."""
    topic = "persistent://noisy/ns/" + ("backlog" if kind == "consume" else "t")
    post(broker, "namespaces/noisy/ns/publishRate", {"publishThrottlingRateInMsg": limit})
    post(broker, "namespaces/noisy/ns/dispatchRate", {"dispatchThrottlingRateInMsg": limit})
    child: subprocess.Popen[bytes] | None = None
    if kind:
        command = [sys.executable, __file__, "--noise", kind, broker.url, topic]
        quietly = counted(broker, topic, kind)
        child = subprocess.Popen(command)
    try:
        if child is not None:
            while counted(broker, topic, kind) == quietly and child.poll() is None:
                time.sleep(WARM_S / 10)  # it takes as long to start as the machine lets it
            time.sleep(WARM_S)
        before, begun = counted(broker, topic, kind), time.perf_counter()
        took = quiet.publish(seconds)
        passed = counted(broker, topic, kind) - before
        return took, passed / (time.perf_counter() - begun)
    finally:
        if child is not None:
            child.kill()
            child.wait()


class Quiet:
    """The tenant that is measured."""

    def __init__(self, url: str) -> None:
        self._peer = Peer(url)
        self._peer.look_up(QUIET)
        self._peer.send(pb.CommandProducer(topic=QUIET, producer_id=1, request_id=3))
        self._peer.receive(pb.CommandProducerSuccess)
        self._entry = entry_of(PAYLOAD)
        self._sent = 0

    def publish(self, seconds: float) -> list[float]:
        took: list[float] = []
        end = time.perf_counter() + seconds
        while (begun := time.perf_counter()) < end:
            self._peer.send(CommandSend(1, self._sent, self._entry))
            self._peer.receive(CommandSendReceipt)
            self._sent += 1
            took.append(time.perf_counter() - begun)
        return took


# ---- The noise -------------------------------------------------------------------------


def publish(url: str, topic: str) -> None:
    """Publishes until it is killed."""
    while True:
        run(Publisher(Peer(url), topic, 100 * WINDOW, WINDOW))


def fill(url: str, topic: str) -> None:
    run(Publisher(Peer(url), topic, BACKLOG, WINDOW))


def run(stream: Publisher) -> None:
    while not stream.done:
        wants = [stream.socket] if stream.wants_write() else []
        readable, writable, _ = select.select([stream.socket], wants, [], 30)
        if writable:
            stream.write()
        if readable:
            stream.read()


def consume(url: str, topic: str) -> None:
    """Reads the backlog again and again, with new readers, until it is killed."""
    number = 0
    while True:
        peer = Peer(url)
        peer.look_up(topic)
        number += 1
        peer.send(
            pb.CommandSubscribe(
                topic=topic,
                subscription=f"r{time.time_ns()}-{number}",
                subType=0,
                consumer_id=1,
                request_id=3,
                durable=False,
                initialPosition=1,
            )
        )
        peer.receive(pb.CommandSuccess)
        peer.send(CommandFlow(1, BACKLOG))
        left = BACKLOG * len(PAYLOAD)
        while left > 0:
            left -= len(peer.socket.recv(1 << 18))
        peer.close()


# ---- REST ------------------------------------------------------------------------------


def put(broker: BrokerProcess, path: str, body: object) -> None:
    httpx.put(f"{broker.http_url}/admin/v2/{path}", json=body).raise_for_status()


def post(broker: BrokerProcess, path: str, body: object) -> None:
    httpx.post(f"{broker.http_url}/admin/v2/{path}", json=body).raise_for_status()


def counted(broker: BrokerProcess, topic: str, kind: str) -> int:
    """How many messages of a topic went in, or out."""
    if not kind:
        return 0
    path = topic.replace("://", "/")
    answer = httpx.get(f"{broker.http_url}/admin/v2/{path}/stats", timeout=30)
    if answer.status_code == httpx.codes.NOT_FOUND:
        return 0  # nobody has published yet
    answer.raise_for_status()
    return int(answer.json()["msgInCounter" if kind == "publish" else "msgOutCounter"])


def at(took: list[float], percent: int) -> float:
    ordered = sorted(took)
    return ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]


if __name__ == "__main__":
    sys.exit(main())
