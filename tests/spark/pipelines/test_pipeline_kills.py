"""Purges and redrives that are killed, where it matters and anywhere: run again, they end right.

Each is a `magnetar pipeline` in processes of its own, which are all killed with SIGKILL; so is the
broker, for redrives. The moments that matter are REST requests, held before the broker hears of
them or after it has done them. MAGNETAR_PIPELINE_KILLS=20 is the long form: so many kills at
moments that chance chooses.
"""

import dataclasses
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession
from spark.pipelines.dead_letters import arrived, letters
from spark.pipelines.pipeline_process import PipelineProcess
from support.broker_process import BrokerProcess
from support.held_rest import HeldRest
from support.tables import Tables, backlog_of, path_of

import magnetar
from magnetar.errors import ConnectError, SettingsError
from magnetar.spark.connect import drop_clients
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.purge import PurgeOptions, purge
from magnetar.spark.pipelines.redrive import RedriveOptions, redrive
from magnetar.spark.pipelines.session import session

KILLS = int(os.environ.get("MAGNETAR_PIPELINE_KILLS", "1"))
WAIT_S = 300.0
# Moments by chance: at one of so many requests, or within so many seconds.
REQUESTS = 25
SECONDS = 12.0

TOPIC = "persistent://public/default/orders"
PARTITIONS = [f"{TOPIC}-partition-{i}" for i in range(2)]
DLQ = f"{TOPIC}-s-DLQ"
EARLIEST = magnetar.InitialPosition.Earliest
SHARED = magnetar.ConsumerType.Shared
POISON = "get_json_object(value, '$.id') is null"
CHOSEN = "properties['n'] not like '%7'"


class Story:
    """A broker that may be killed, its REST that may be held, and a pipeline that is run again."""

    def __init__(self, broker: BrokerProcess, held: HeldRest, scratch: Path) -> None:
        self.broker = broker
        self.held = held
        self.target = Target(broker.url, broker.http_url)
        self.kills = 0
        self._scratch = scratch
        self._chance = random.Random(7)
        self._client = magnetar.Client(broker.url, stats_interval_in_seconds=0)
        with httpx.Client(base_url=f"{broker.http_url}/admin/v2", timeout=60) as http:
            http.put(f"{path_of(TOPIC)}/partitions", json=2).raise_for_status()

    @property
    def client(self) -> magnetar.Client:
        return self._client

    def close(self) -> None:
        self._client.close()
        drop_clients()

    def backlog(self, topic: str, subscription: str) -> int:
        with httpx.Client(base_url=f"{self.broker.http_url}/admin/v2", timeout=60) as rest:
            return backlog_of(rest, topic, subscription)

    def kill_when(
        self, arguments: list[str], reached: Callable[[], bool], broker: bool = False
    ) -> bool:
        """Runs the pipeline until a moment, and kills it; False if it was done before."""
        at = ["--url", self.broker.url, "--admin-url", self.held.url]
        command = [*at, "pipeline", *arguments, "--apply", "--master", "local[2]"]
        process = PipelineProcess(command, self._scratch)
        try:
            deadline = time.monotonic() + WAIT_S
            while process.runs and not reached():
                assert time.monotonic() < deadline, process.output
                time.sleep(0.02)
            if not process.runs:
                assert process.process.returncode == 0, process.output
                return False
            process.kill("all")
            self.kills += 1
            if broker:
                self.broker.kill()
                self.broker.start()
            return True
        finally:
            process.end()

    def kill_by_chance(self, arguments: list[str]) -> bool:
        """At any moment, now and then with the broker."""
        chance = self._chance
        broker = chance.random() < 0.4
        if chance.random() < 0.5:
            after, answered = chance.randrange(REQUESTS), chance.random() < 0.5
            return self.kill_when(
                arguments, self.held.hold(after=after, answered=answered).is_set, broker
            )
        at = time.monotonic() + chance.uniform(2, SECONDS)
        return self.kill_when(arguments, lambda: time.monotonic() > at, broker)


@pytest.fixture
def story(own_broker: BrokerProcess, tmp_path: Path) -> Iterator[Story]:
    with HeldRest(own_broker.http_url) as held:
        story = Story(own_broker, held, tmp_path / "scratch")
        yield story
        story.close()


# ---- Purge -------------------------------------------------------------------

PURGE = ["purge", "-t", TOPIC, "-s", "s", "--where", POISON]


class Orders:
    """Messages of a subscription, of which every tenth is poison."""

    def __init__(self, story: Story) -> None:
        self.count = 0
        self._story = story
        story.client.subscribe(TOPIC, "s", SHARED, initial_position=EARLIEST).close()

    def publish(self, count: int) -> None:
        producer = self._story.client.create_producer(
            TOPIC, batching_enabled=True, batching_max_messages=50, block_if_queue_full=True
        )
        for n in range(self.count, self.count + count):
            producer.send_async(json.dumps({"id": n if n % 10 else None, "n": n}).encode(), None)
        producer.flush()
        producer.close()
        self.count += count

    def backlog(self) -> int:
        return sum(self._story.backlog(partition, "s") for partition in PARTITIONS)

    def left(self) -> list[int]:
        tables = Tables(self._story.target.options(topic=TOPIC))
        values = tables.values(mode="backlog", subscription="s")
        return sorted(json.loads(value)["n"] for value in values)

    def check_purged(self, spark: SparkSession) -> None:
        """Finishes the purge: exactly the poison is gone."""
        good = [n for n in range(self.count) if n % 10]
        found = self.count - self.backlog()
        facts = purge(spark, PurgeOptions(self._story.target, TOPIC, "s", POISON, apply=True))
        assert facts["matched"] == facts["skipped"] == self.count - len(good) - found
        assert facts["backlog_after"] == self.backlog() == len(good)
        assert self.left() == good


def test_a_purge_skips_all_or_nothing(spark: SparkSession, story: Story) -> None:
    orders = Orders(story)
    orders.publish(3000)
    request = ("POST", "skipByMessageIds")
    assert story.kill_when(PURGE, story.held.hold(*request).is_set)
    assert orders.backlog() == 3000
    assert story.kill_when(PURGE, story.held.hold(*request, answered=True).is_set)
    assert orders.backlog() == 2700, "over both partitions"
    orders.check_purged(spark)


def test_a_purge_that_is_killed_anywhere(spark: SparkSession, story: Story) -> None:
    orders = Orders(story)
    orders.publish(2000)
    for _ in range(KILLS):
        if not story.kill_by_chance(PURGE):
            orders.check_purged(spark)
            orders.publish(1000)
    orders.check_purged(spark)
    print(f"\nkilled {story.kills} times")


def test_a_purge_whose_broker_goes_away(spark: SparkSession, story: Story) -> None:
    orders = Orders(story)
    orders.publish(200)
    story.held.hold("POST", "skipByMessageIds", then=story.broker.kill)
    away = Target(story.broker.url, story.held.url)
    with pytest.raises(ConnectError, match="adminUrl"), session("purge", away):
        purge(spark, PurgeOptions(away, TOPIC, "s", POISON, apply=True))
    story.broker.start()
    assert orders.backlog() == 200
    orders.check_purged(spark)


# ---- Redrive -----------------------------------------------------------------


class Letters:
    """Dead letters of a partitioned topic, most of which are to go back."""

    def __init__(self, story: Story, checkpoint: Path) -> None:
        self.count = 0
        self._story = story
        self._checkpoint = str(checkpoint)
        self.command = ["redrive", "-t", DLQ, "--where", CHOSEN, "--checkpoint", self._checkpoint]
        story.client.subscribe(DLQ, "ops", SHARED, initial_position=EARLIEST).close()
        # Without it the broker would delete what is not needed any more.
        story.client.subscribe(TOPIC, "keep", initial_position=EARLIEST).close()

    def publish(self, count: int) -> None:
        numbers = range(self.count, self.count + count)
        batches = {"batching_enabled": True, "batching_max_messages": 20}
        letters(self._story.client, DLQ, numbers, lambda n: PARTITIONS[n % 2], **batches)
        self.count += count

    @property
    def chosen(self) -> list[int]:
        return [n for n in range(self.count) if n % 10 != 7]

    def options(self, where: str = CHOSEN) -> RedriveOptions:
        return RedriveOptions(
            self._story.target, DLQ, where=where, checkpoint=self._checkpoint, apply=True
        )

    def waiting(self) -> int:
        return self._story.backlog(DLQ, "ops")

    def back(self) -> int:
        return sum(self._story.backlog(partition, "keep") for partition in PARTITIONS)

    def check_back(self) -> None:
        """Each is back once, as it was, and acknowledged."""
        found = arrived(self._story.client, PARTITIONS)
        numbers = Counter(int(message.properties()["n"]) for message in found)
        assert numbers == Counter(self.chosen)
        for message in found:
            n = int(message.properties()["n"])
            assert message.properties() == {"n": str(n), "REDRIVE_COUNT": "1"}
            assert message.data() == b"v%d" % n
            assert message.partition_key() == (f"k{n % 5}" if n % 2 else "")
            assert message.event_timestamp() == 1000 + n
        assert self.waiting() == self.count - len(self.chosen)
        assert not any(Path(self._checkpoint).glob("*"))


def test_a_redrive_takes_each_letter_back_once(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    letters = Letters(story, tmp_path / "plan")
    letters.publish(400)
    planned = story.held.hold("POST", "deduplicationEnabled")
    assert story.kill_when(letters.command, planned.is_set)
    assert (letters.back(), letters.waiting()) == (0, 400)

    # Within the second step: some are acknowledged, some only sent, others are neither.
    paced = [*letters.command, "--rate", "25/s"]
    assert story.kill_when(paced, lambda: letters.back() >= 150, broker=True)
    there, left = letters.back(), letters.waiting()
    assert 0 < 400 - left <= there < len(letters.chosen)
    with pytest.raises(SettingsError, match=r"where: .* not finished, \d+ of its 360 letters"):
        redrive(spark, letters.options(where=""))

    # All are back and acknowledged, and the driver has not heard of it.
    acked = story.held.hold("POST", "skipByMessageIds", answered=True)
    assert story.kill_when(letters.command, acked.is_set)
    assert (letters.back(), letters.waiting()) == (360, 40)
    facts = redrive(spark, letters.options())
    assert (facts["redriven"], facts["backlog_after"]) == (0, 40)
    assert facts["were_back"] == 360 - facts["resumed_at"] > 0
    letters.check_back()
    again = redrive(spark, letters.options())
    assert (again["matched"], again["redriven"]) == (0, 0)


def test_a_redrive_whose_broker_goes_away(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    letters = Letters(story, tmp_path / "plan")
    letters.publish(100)
    story.held.hold("POST", "skipByMessageIds", then=story.broker.kill)
    away = dataclasses.replace(letters.options(), target=Target(story.broker.url, story.held.url))
    with pytest.raises(ConnectError, match="adminUrl"), session("redrive", away.target):
        redrive(spark, away)
    story.broker.start()
    assert letters.waiting() == 100
    facts = redrive(spark, letters.options())
    assert (facts["redriven"], facts["were_back"]) == (0, 90)
    letters.check_back()


def test_a_redrive_that_is_killed_anywhere(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    letters = Letters(story, tmp_path / "plan")
    letters.publish(300)
    for _ in range(KILLS):
        if not story.kill_by_chance([*letters.command, "--rate", "100/s"]):
            letters.check_back()
            letters.publish(300)
    redrive(spark, letters.options())
    letters.check_back()
    print(f"\nkilled {story.kills} times")
