"""Consume, transform, produce: once, with broker and workers killed by kill -9.

Two workers publish each message to two topics and ack it, in one transaction. At any moment a
message is acked exactly when what was made of it is to be seen in both topics, and it is seen once.

MAGNETAR_TRANSACTION_MESSAGES=100000 and MAGNETAR_TRANSACTION_KILLS=20 are the long form, which
has workers of Apache Pulsar's Java client too.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from support.broker_process import BrokerProcess

import magnetar

HERE = Path(__file__).parent
MESSAGES = int(os.environ.get("MAGNETAR_TRANSACTION_MESSAGES", "1000"))
KILLS = int(os.environ.get("MAGNETAR_TRANSACTION_KILLS", "4"))
LONG = MESSAGES >= 20_000
WORKERS = 2
BATCH = 50
TOPIC = "persistent://public/default/in"
OUTPUTS = [f"{TOPIC}-a", f"{TOPIC}-b"]
# Without progress for so long something is stuck.
PATIENCE_S = 120.0
# Nobody outlives the test, however it ends.
BOUND = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
EARLIEST = magnetar.InitialPosition.Earliest


class Workers:
    """Processes that are killed, and their next lives."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command = list(command)
        self._log = log
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        with self._log.open("ab") as log:
            while len(self._processes) < WORKERS:
                self._processes.append(
                    subprocess.Popen(
                        [*BOUND, *self._command], stdin=subprocess.DEVNULL, stdout=log, stderr=log
                    )
                )

    def kill(self, count: int) -> None:
        for _ in range(count):
            process = self._processes.pop(0)
            process.kill()
            process.wait()

    def check(self) -> None:
        for process in self._processes:
            code = process.poll()
            assert code is None, f"a worker ended with {code}: {self._log.read_text()[-3000:]}"


class Outputs:
    """What readers see, as it comes: of each number the ids of its messages.

    A reader may get a message again, when the broker was killed before it had the ack.
    """

    def __init__(self, client: magnetar.Client) -> None:
        self._reader = client.subscribe(OUTPUTS, "seen", initial_position=EARLIEST)
        self.seen: dict[str, dict[int, set[str]]] = {topic: {} for topic in OUTPUTS}

    def take(self, timeout_ms: int) -> bool:
        """Whether anything came."""
        try:
            message = self._reader.receive(timeout_ms)
        except magnetar.Timeout:
            return False
        of = self.seen[message.topic_name()]
        of.setdefault(int(message.data()), set()).add(str(message.message_id()))
        self._reader.acknowledge(message)
        return True

    @property
    def count(self) -> int:
        return sum(len(of) for of in self.seen.values())

    def doubled(self) -> list[tuple[str, int]]:
        return [(topic, n) for topic, of in self.seen.items() for n in of if len(of[n]) > 1]


class Story:
    """Messages, workers, and a broker; all but the messages are killed."""

    def __init__(self, broker: BrokerProcess, client: magnetar.Client, workers: Workers) -> None:
        self.broker = broker
        self.workers = workers
        self.outputs = Outputs(client)
        self._chance = random.Random(MESSAGES)

    def await_outputs(self, count: int, check: Callable[[], None]) -> None:
        """Reads until so many are there."""
        last_s = time.monotonic()
        while self.outputs.count < count:
            if self.outputs.take(200):
                last_s = time.monotonic()
            check()
            waited_s = time.monotonic() - last_s
            assert waited_s < PATIENCE_S, f"{self.outputs.count} of {count} are there: stuck"

    def kill_something(self, turn: int) -> None:
        """The broker, a worker, or all of them, and then the moment is looked at."""
        if turn % 4 == 1:
            self.workers.kill(1)
        elif turn % 4 == 3:
            # In either order.
            kills: list[Callable[[], None]] = [self.broker.kill, lambda: self.workers.kill(WORKERS)]
            self._chance.shuffle(kills)
            for kill in kills:
                kill()
            self.broker.start()
            self.judge_the_moment()
        else:
            self.broker.kill()
            self.broker.start()
        self.workers.start()

    def judge_the_moment(self) -> None:
        """Nobody works. When what was open has ended, acked is what is to be seen, and no more."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            while self.outputs.take(1000):
                pass
            acked = set(range(MESSAGES)) - self._backlog()
            seen = [set(of) for of in self.outputs.seen.values()]
            if all(one == acked for one in seen):
                return
            differ = [sorted(one ^ acked)[:5] for one in seen]
            assert time.monotonic() < deadline_s, f"acked and seen differ: {differ}"

    def _backlog(self) -> set[int]:
        table = magnetar.read_arrow(
            TOPIC,
            self.broker.url,
            admin_url=self.broker.http_url,
            subscription="work",
            columns=["value"],
        )
        return {int(value) for value in table.column("value").to_pylist()}


def ours() -> list[str]:
    return [sys.executable, str(HERE / "transaction_worker.py")]


def java(directory: Path) -> list[str]:
    """The Java worker, compiled."""
    from apache.artifacts import classpath
    from apache.harness import jvm, require_artifacts

    require_artifacts()
    jars = os.pathsep.join(str(jar) for jar in classpath("server"))
    source = str(HERE / "TransactionWorker.java")
    subprocess.run(["javac", "-cp", jars, "-d", str(directory), source], check=True)
    command = jvm("server", ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"], "off")
    at = command.index("-cp") + 1
    command[at] = os.pathsep.join([str(directory), command[at]])
    return [*command, "TransactionWorker"]


@pytest.fixture(params=["ours", pytest.param("java", marks=pytest.mark.apache)])
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Story]:
    if request.param == "java" and not (LONG or os.environ.get("MAGNETAR_APACHE_LONG")):
        pytest.skip("the Java client's turn is in the long form")
    command = java(tmp_path) if request.param == "java" else ours()
    words = ["plain"] if request.param == "plain" else []
    # Java's producers send again what was not confirmed, so there duplicates must be removed.
    deduplicates = str(request.param == "java").lower()
    settings = ("transactions=true", f"deduplication={deduplicates}")
    options = [word for setting in settings for word in ("--set", setting)]
    with (
        BrokerProcess(tmp_path / "data", options=options) as broker,
        magnetar.Client(
            broker.url, stats_interval_in_seconds=0, initial_backoff_ms=20, max_backoff_ms=500
        ) as client,
    ):
        client.subscribe(TOPIC, "work", magnetar.ConsumerType.Shared).close()
        publish(client)
        workers = Workers([*command, broker.url, TOPIC, *words], tmp_path / "workers.log")
        try:
            yield Story(broker, client, workers)
        finally:
            workers.kill(len(workers._processes))


def publish(client: magnetar.Client) -> None:
    producer = client.create_producer(
        TOPIC,
        batching_enabled=True,
        batching_max_messages=BATCH,
        batching_max_publish_delay_ms=60_000,
        block_if_queue_full=True,
    )
    for number in range(MESSAGES):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    producer.close()


@pytest.mark.once
def test_each_message_is_done_once_while_broker_and_workers_are_killed(story: Story) -> None:
    workers, outputs = story.workers, story.outputs
    workers.start()
    for turn in range(KILLS):
        story.await_outputs(2 * MESSAGES * (turn + 1) // (KILLS + 1), workers.check)
        story.kill_something(turn)
    story.await_outputs(2 * MESSAGES, workers.check)
    workers.kill(WORKERS)
    story.judge_the_moment()
    assert story._backlog() == set()
    assert outputs.doubled() == []
    assert [len(of) for of in outputs.seen.values()] == [MESSAGES, MESSAGES]


@pytest.mark.once
@pytest.mark.skipif(LONG, reason="found out in the short form")
@pytest.mark.parametrize("story", ["plain"], indirect=True)
def test_workers_without_transactions_are_found_out(story: Story) -> None:
    story.workers.start()
    story.await_outputs(2 * MESSAGES, story.workers.check)
    assert story.outputs.doubled() != []
