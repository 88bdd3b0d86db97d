"""What it costs to look at a broker: metrics, and the console with a page open.

    make bench                                        compiled
    .venv/bin/python benchmarks/bench_console.py      interpreted
    ... bench_console.py --only pages --holes 50000   a short form of one part
    ... bench_console.py --only idle --before ../old  while nobody looks, against another clone

`open`: a broker in a process of its own, with fsync, is loaded again and again: while nobody looks,
with one page of the console open, which asks what the page asks and as often, and with its metrics
read every second.

Where load and broker have two cores together, what looks takes from both: so CPU time of the broker
for each message is compared too; and it is told what a look takes, and so the page, of one core.

`idle`: what the events of a broker take for a message while nobody looks (`events_load.py`), and
those of the clone that `--before` names: of one without metrics, if it is to say what those cost.
`make compiled` must have run in both.

Of both every figure is the median of its rounds, every ratio the median of those within a round.

`pages`: a broker in this process, on a disk in memory, with a topic in which every second entry is
acked. Of each request the first and the slowest of the later answers, and the longest event: for
so long nobody else has a turn (I10), by CPU time.
"""

import argparse
import asyncio
import gc
import http.client
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from broker_load import cpu_seconds
from timing import Figures, Took, in_child, print_build, print_table

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from browser.data import fill, make, punch  # noqa: E402
from support.broker_process import BrokerProcess  # noqa: E402
from support.served import Served  # noqa: E402

from magnetar.broker.setting.settings import BrokerSettings  # noqa: E402

EVENTS: Final = (sys.executable, str(HERE / "events_load.py"))
LOAD: Final = (sys.executable, str(HERE / "broker_load.py"))
IDLE_TARGET: Final = "0.97"
OPEN_TARGET: Final = "0.90"
ANSWER_TARGET: Final = "1000 ms"
EVENT_TARGET: Final = "5 ms"
# As often as a page asks.
EVERY_S: Final = 2.0
SCRAPE_S: Final = 1.0
# What a map of a large screen has.
CELLS: Final = 8000
LOOKS: Final = 5
MANY_LOOKS: Final = 100

TOPIC: Final = "/admin/v2/persistent/public/default/{topic}"
SUBSCRIPTION: Final = TOPIC + "/subscription/{subscription}"
STATS: Final = "getEarliestTimeInBacklog=true&subscriptionBacklogSize=true"
CONSOLE: Final = "/admin/v2/console"
# What pages ask each time.
PAGES: Final = {
    "overview": (
        f"{CONSOLE}/overview",
        f"{CONSOLE}/topics?of=subscriptions&order=backlog&limit=8",
        f"{CONSOLE}/topics?of=subscriptions&order=age&limit=8",
    ),
    "subscriptions": (f"{CONSOLE}/topics?of=subscriptions&order=backlog&limit=50",),
    "topic": (f"{TOPIC}/rights", f"{TOPIC}/stats?{STATS}"),
    "subscription": (
        f"{TOPIC}/rights?subscription={{subscription}}",
        f"{TOPIC}/stats?{STATS}&excludePublishers=true",
        f"{SUBSCRIPTION}/ackMap?buckets={CELLS}",
        f"{SUBSCRIPTION}/ackMap?buckets=600",
        f"{SUBSCRIPTION}/delayed",
        f"{SUBSCRIPTION}/ackState?limit=1&redelivered=8",
    ),
}
METRICS: Final = "/metrics"
TOPICS: Final = 10_000
LIST: Final = f"{CONSOLE}/topics?of=topics&order=rateIn&limit=50"
# A list serves for so long (`topic_list.py`): the first of those that are told of is made anew.
LIST_KEPT_S: Final = 6.0
# What is asked when somebody looks for something.
SEARCH: Final = (
    f"{SUBSCRIPTION}/messages?limit=25",
    f"{SUBSCRIPTION}/messages?limit=25&text=nobody",
    f"{SUBSCRIPTION}/ackState?limit=1000",
)


def filled(path: str, topic: str, subscription: str) -> str:
    return path.replace("{topic}", topic).replace("{subscription}", subscription)


class Asker:
    """A connection that stays open, as a browser's does."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)

    def get(self, path: str) -> int:
        """How many bytes the answer has."""
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        body = answer.read()
        assert answer.status == 200, f"{path}: {answer.status} {body[:200]!r}"
        return len(body)

    def close(self) -> None:
        self._connection.close()


# ---- Load ------------------------------------------------------------------------------


@contextmanager
def looking(url: str, paths: Sequence[str], every_s: float) -> Iterator[None]:
    """Asks for these paths again and again meanwhile."""
    over = threading.Event()
    failures: list[BaseException] = []

    def look() -> None:
        asker = Asker(url)
        try:
            while not over.is_set():
                for path in paths:
                    asker.get(path)
                over.wait(every_s)
        except BaseException as error:
            failures.append(error)
        finally:
            asker.close()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if failures:
        raise failures[0]


class Looked:
    """A broker, and who looks at it while it is loaded."""

    def __init__(
        self, broker: BrokerProcess, paths: Sequence[str] = (), every_s: float = 0
    ) -> None:
        self.broker = broker
        self.paths = paths
        self.every_s = every_s
        self.figures = Figures()

    def look_seconds(self, topic: str) -> float:
        """The broker's CPU time for what the page asks once, while nothing else is to be done."""
        asker = Asker(self.broker.http_url)
        began = cpu_seconds(self.broker.pid)
        for _ in range(MANY_LOOKS):
            for path in self.paths:
                asker.get(filled(path, topic, "load"))
        asker.close()
        return (cpu_seconds(self.broker.pid) - began) / MANY_LOOKS

    def load(self, topic: str, count: int) -> Took:
        """With a subscription `load`, which the page is of."""
        command = [*LOAD, self.broker.url, f"persistent://public/default/{topic}", "--consume"]
        command += ["--count", str(count), "--pid", str(self.broker.pid)]
        if not self.paths:
            return in_child(command, lambda: self.broker.stderr)
        paths = [filled(path, topic, "load") for path in self.paths]
        with looking(self.broker.http_url, paths, self.every_s):
            return in_child(command, lambda: self.broker.stderr)


def bench_idle(count: int, rounds: int, before: Path) -> None:
    clones = {"another clone": before, "this one": HERE.parent}
    figures = {name: Figures() for name in clones}
    order = list(clones)
    for _ in range(rounds):
        for name in order:
            figures[name].add(of_events(clones[name].resolve(), count))
        order.reverse()
    base = figures["another clone"]
    rows = []
    for name, one in figures.items():
        _, cpu = one.cells()
        _, ratio = one.against(base)
        rows.append((name, cpu, ratio, "" if one is base else IDLE_TARGET))
    header = ("nobody looks", "CPU each", "of the other", "target")
    print_table(f"Events of {count:,} messages, {rounds} rounds", header, rows)


def of_events(clone: Path, count: int) -> Took:
    compiled = clone / ".build" / "compiled"
    assert compiled.is_dir(), f"{compiled} is not there: run `make compiled` in {clone}"
    environment = ("env", f"PYTHONPATH={compiled}")
    return in_child([*environment, *EVENTS, str(clone), "--messages", str(count)])


def bench_open(scratch: Path, count: int, rounds: int) -> None:
    with BrokerProcess(scratch / "open") as broker:
        contestants = {"nobody looks": Looked(broker)}
        for page, paths in PAGES.items():
            contestants[f"{page}, open"] = Looked(broker, paths, EVERY_S)
        contestants["metrics, every second"] = Looked(broker, (METRICS,), SCRAPE_S)
        load_in_turn(contestants, count, rounds)
        looks = {name: one.look_seconds("r0-0") for name, one in contestants.items() if one.paths}
    base = contestants["nobody looks"].figures
    rows = []
    for name, one in contestants.items():
        more = ("", "", "")
        if one.paths:
            share = looks[name] / one.every_s
            more = (f"{looks[name] * 1000:.1f} ms", f"{share:.1%}", OPEN_TARGET)
        rows.append((name, *one.figures.cells(), *one.figures.against(base), *more))
    header = ("1 KiB, not batched", "messages", "CPU each", "of nobody", "by CPU")
    title = f"Published and consumed, {count:,} messages, {rounds} rounds"
    print_table(title, (*header, "CPU of a look", "of a core", "target"), rows)


def load_in_turn(contestants: dict[str, Looked], count: int, rounds: int) -> None:
    """Each once in a round; who begins changes."""
    order = list(contestants.values())
    for one in order:
        one.load("warm", count // 10)
    for number in range(rounds):
        for place, one in enumerate(order):
            topic = f"r{number}-{place}"
            make_topic(one.broker, topic)
            one.figures.add(one.load(topic, count))
        order.append(order.pop(0))


def make_topic(broker: BrokerProcess, topic: str) -> None:
    """There from the beginning, with its subscription, so that a page has something to show."""
    parts = urlsplit(broker.http_url)
    assert parts.hostname is not None
    path = filled(TOPIC, topic, "")
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    for place, body in ((path, ""), (f"{path}/subscription/load", '"earliest"')):
        connection.request("PUT", place, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 204, f"{place}: {answer.status}"
    connection.close()


# ---- Pages -----------------------------------------------------------------------------


class Longest:
    """The longest event of the loop, by the CPU time of its thread."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.what = ""

    @contextmanager
    def watched(self) -> Iterator[None]:
        handles: Any = asyncio.Handle
        run = handles._run
        longest = self

        def timed(handle: Any) -> None:
            began = time.thread_time()
            run(handle)
            took = time.thread_time() - began
            if took > longest.seconds:
                longest.seconds, longest.what = took, repr(handle)

        handles._run = timed
        try:
            yield
        finally:
            handles._run = run


def bench_pages(holes: int, *, verbose: bool) -> None:
    served = Served(BrokerSettings())
    served.start()
    topic, subscription = "holes", "s"
    try:
        make(served, f"public/default/{topic}", subscription)
        fill(served, f"public/default/{topic}", 2 * holes + 2)
        assert punch(served, f"public/default/{topic}", subscription, first=0) == holes
        gc.collect()
        gc.freeze()
        asker = Asker(served.http_url)
        rows = []
        for path in dict.fromkeys([p for paths in PAGES.values() for p in paths] + [METRICS]):
            rows.append(looked(asker, path, topic, subscription, verbose=verbose))
        for path in SEARCH:
            rows.append(looked(asker, path, topic, subscription, verbose=verbose))
        path = filled(f"{TOPIC}/partitions", "many", "")
        assert served.http.put(f"{served.http_url}{path}", json=TOPICS).status_code == 204
        asker.get(LIST)  # which loads them
        asker.close()
        time.sleep(LIST_KEPT_S)
        asker = Asker(served.http_url)
        for path in (LIST, f"{CONSOLE}/overview", METRICS):
            first, *more = looked(asker, path, topic, subscription, verbose=verbose)
            rows.append((f"{first}, {TOPICS:,} topics", *more))
        asker.close()
    finally:
        served.stop()
    targets = ("target", ANSWER_TARGET, ANSWER_TARGET, EVENT_TARGET, EVENT_TARGET, "")
    header = ("request", "first", "later", "event, first", "event, later", "bytes")
    print_table(f"A subscription with {holes:,} holes", header, [*rows, targets])


def looked(
    asker: Asker, path: str, topic: str, subscription: str, *, verbose: bool
) -> tuple[str, ...]:
    size = 0
    seconds: list[float] = []
    events: list[float] = []
    for _ in range(1 + LOOKS):
        longest = Longest()
        began = time.perf_counter()
        with longest.watched():
            size = asker.get(filled(path, topic, subscription))
        seconds.append(time.perf_counter() - began)
        events.append(longest.seconds)
        if verbose:
            print(f"{path}: {longest.seconds * 1000:.1f} ms: {longest.what}", file=sys.stderr)
    name = path.replace(SUBSCRIPTION, "").replace(TOPIC, "").replace(CONSOLE, "")
    return (
        name,
        *[f"{one * 1000:.1f} ms" for one in (seconds[0], max(seconds[1:]))],
        *[f"{one * 1000:.1f} ms" for one in (events[0], max(events[1:]))],
        f"{size:,}",
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("idle", "open", "pages"), help="one part")
    parser.add_argument("--messages", type=int, default=100_000, help="of a load")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is loaded")
    parser.add_argument("--before", type=Path, help="a clone in which `make compiled` ran")
    parser.add_argument("--holes", type=int, default=1_000_000)
    parser.add_argument("--verbose", action="store_true", help="say what the longest events were")
    chosen = parser.parse_args()
    print_build()
    if chosen.only in (None, "pages"):
        bench_pages(chosen.holes, verbose=chosen.verbose)
    if chosen.only in (None, "idle") and chosen.before is not None:
        bench_idle(chosen.messages // 5, 2 * chosen.rounds, chosen.before)
    if chosen.only in (None, "open"):
        with tempfile.TemporaryDirectory() as folder:
            bench_open(Path(folder), chosen.messages, chosen.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
