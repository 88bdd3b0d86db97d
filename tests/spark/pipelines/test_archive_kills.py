"""A streaming archive whose driver, executors and broker are killed again and again.

Whatever is killed with SIGKILL, and whenever: in the end every message is in the Parquet once,
and the subscription's backlog is empty. MAGNETAR_ARCHIVE_MESSAGES=200000 is the long form, which
kills more often and has executors in processes of their own.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from pyspark.sql import SparkSession
from spark.pipelines.pipeline_process import PipelineProcess
from support.broker_process import BrokerProcess
from support.tables import backlog_of, path_of

import magnetar

MESSAGES = int(os.environ.get("MAGNETAR_ARCHIVE_MESSAGES", "20000"))
LONG = MESSAGES > 50_000
# What is killed, in turn, by names that are in the commands of Spark's processes. A JVM whose
# driver was killed goes on for a moment, beside the next run.
VICTIMS = ("all", "pyspark.daemon", "broker")
VICTIMS_LONG = (
    "all",
    "ExecutorBackend",
    "broker",
    "pyspark.daemon",
    "driver",
    "streaming_source",
    "broker",
    "SparkSubmit",
)
WAIT_S = 300.0
BATCH = 50
PARTITIONS = 2
TOPIC = "persistent://public/default/killed"
SUBSCRIPTION = "archive"


def backlog(http: httpx.Client) -> int:
    """The messages that are not acknowledged, of both partitions."""
    partitions = [f"{TOPIC}-partition-{number}" for number in range(PARTITIONS)]
    return sum(backlog_of(http, partition, SUBSCRIPTION) for partition in partitions)


class Story:
    """The archive, the broker, and what was published."""

    def __init__(self, broker: BrokerProcess, tmp_path: Path) -> None:
        self.broker = broker
        self.out = tmp_path / "out"
        self.published = 0
        self.kills: Counter[str] = Counter()
        self._ended: list[PipelineProcess] = []
        self._scratch = tmp_path / "scratch"
        self._client = magnetar.Client(broker.url, stats_interval_in_seconds=0)
        self._failures: list[Any] = []
        self._archive: PipelineProcess | None = None
        # A topic without a subscription keeps no messages.
        self._client.subscribe(
            TOPIC,
            SUBSCRIPTION,
            magnetar.ConsumerType.Failover,
            initial_position=magnetar.InitialPosition.Earliest,
        ).close()

    def publish(self, count: int) -> None:
        producer = self._client.create_producer(
            TOPIC,
            batching_enabled=True,
            batching_max_messages=BATCH,
            batching_max_publish_delay_ms=60_000,
            block_if_queue_full=True,
        )
        for i in range(self.published, self.published + count):
            producer.send_async(f"v{i}".encode(), self._sent)
        producer.flush()
        producer.close()
        assert self._failures == []
        self.published += count

    def _sent(self, result: Any, id: object) -> None:
        if result != magnetar.Result.Ok:
            self._failures.append(result)

    def archive(self, *more: str) -> PipelineProcess:
        """The archive that runs, or another one."""
        if self._archive is not None and not self._archive.runs:
            self._ended.append(self._archive)
            self._archive = None
        if self._archive is None:
            at = ["--url", self.broker.url, "--admin-url", self.broker.http_url]
            options = ["--topic", TOPIC, "--subscription", SUBSCRIPTION, "--to", str(self.out)]
            master = ["--master", "local-cluster[2,1,700]" if LONG else "local[2,4]"]
            size = ["--max-rows", str(MESSAGES // 10)]
            self._archive = PipelineProcess(
                [*at, "pipeline", "archive", *options, *master, *size, *more], self._scratch
            )
        return self._archive

    def streaming(self) -> PipelineProcess:
        return self.archive("--continuous", "--trigger", "0 seconds")

    def committed(self) -> int:
        log = self.out / "_checkpoint" / "commits"
        numbers = [int(path.name) for path in log.glob("*") if path.name.isdigit()]
        return max(numbers, default=-1)

    def wait_for_commit(self) -> None:
        """Until the archive, started anew if it has ended, has committed another batch."""
        before = self.committed()
        self.wait(lambda: self.committed() > before, self.streaming)

    def wait(self, check: Callable[[], bool], meanwhile: Callable[[], object]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not check():
            meanwhile()
            assert time.monotonic() < deadline, self.archive().output
            time.sleep(0.02)

    def kill(self, what: str) -> None:
        if what == "broker":
            self.broker.kill()
            self.broker.start()
            self.kills[what] += 1
        else:
            self.kills[what] += self.streaming().kill(what)

    def finish(self) -> None:
        """Waits until all is acknowledged, and asks the stream to end."""
        with httpx.Client(base_url=f"{self.broker.http_url}/admin/v2", timeout=60) as http:
            self.wait(lambda: backlog(http) == 0, self.streaming)
        last = self.streaming()
        last.process.terminate()
        assert last.process.wait(WAIT_S) == 0, last.output
        last.end()
        self._archive = None
        self._client.close()

    @property
    def ended(self) -> int:
        return len(self._ended)

    def close(self) -> None:
        if self._archive is not None:
            self._archive.end()
        for archive in self._ended:
            archive.end()


def test_every_message_is_archived_once_whatever_is_killed(
    spark: SparkSession, own_broker: BrokerProcess, tmp_path: Path
) -> None:
    with httpx.Client(base_url=f"{own_broker.http_url}/admin/v2", timeout=60) as http:
        http.put(f"{path_of(TOPIC)}/partitions", json=PARTITIONS).raise_for_status()
    chance = random.Random(7)
    victims = VICTIMS_LONG if LONG else VICTIMS
    story = Story(own_broker, tmp_path)
    try:
        slices = len(victims) + 1
        story.publish(MESSAGES // slices)
        for victim in victims:
            story.wait_for_commit()
            story.publish(MESSAGES // slices)
            time.sleep(chance.random())  # anywhere in a micro-batch
            story.kill(victim)
        story.publish(MESSAGES - story.published)
        story.finish()
    finally:
        story.close()

    assert min(story.kills[victim] for victim in victims) > 0, story.kills
    assert story.ended > 0, "no archive was killed"
    rows = spark.read.parquet(str(story.out)).select("value").collect()
    counts = Counter(row.value.decode() for row in rows)
    assert [value for value, count in counts.items() if count > 1] == []
    assert counts.keys() == {f"v{i}" for i in range(MESSAGES)}
    with httpx.Client(base_url=f"{own_broker.http_url}/admin/v2", timeout=60) as http:
        assert backlog(http) == 0
    print(f"\nkilled {dict(story.kills)}, {story.ended} archives ended by it, ", end="")
    print(f"{story.committed() + 1} micro-batches")
