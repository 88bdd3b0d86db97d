"""Dead letters back to their topics: each once, whatever is killed, and nothing else of theirs."""

import asyncio
import contextlib
import dataclasses
import json
import time
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from spark.pipelines.dead_letters import arrived, letters
from support.tables import backlog_of, path_of, publish_raws
from typer.testing import CliRunner

import magnetar
from magnetar.cli.app import app
from magnetar.errors import NotAllowedError, SettingsError, TopicNotFound
from magnetar.schema import Integer, JsonSchema, Record
from magnetar.spark.pipelines.letter.letters import key_text, lane_of, restored, target_of
from magnetar.spark.pipelines.letter.redrive_plan import Plan, PlanStore
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.redrive import RedriveOptions, _steps, rate_of, redrive
from magnetar.spark.pipelines.report.redrive_report import redrive_report
from magnetar.spark.pipelines.submit import arranged
from magnetar.spark.pipelines.subscription import subscriptions_of

EARLIEST = magnetar.InitialPosition.Earliest


# ---- Rules -------------------------------------------------------------------

KEYS = st.one_of(st.none(), st.text(max_size=5))


@given(st.integers(0, 10**6), KEYS, st.integers(-1, 9), st.integers(1, 8), st.integers(1, 4))
def test_letters_of_a_key_stay_together(
    number: int, key: str | None, came_from: int, count: int, lanes: int
) -> None:
    names = [f"t-partition-{i}" for i in range(count)]
    target = target_of(number, key, came_from, names)
    assert target in names
    assert 0 <= lane_of(number, key, lanes) < lanes
    if key is not None:
        assert target == target_of(number + 1, key, -1, names)
        assert lane_of(number, key, lanes) == lane_of(number + 7, key, lanes)
    elif 0 <= came_from < count:
        assert target == names[came_from]


def test_properties_are_as_they_were() -> None:
    own = {"a": "b", "REDRIVE_COUNT": "2"}
    added = {
        "REAL_TOPIC": "t",
        "REAL_SUBSCRIPTION": "s",
        "ORIGIN_MESSAGE_ID": "1:2:3",
        "ORIGIN_MESSAGE_IDY_TIME": "1:2:3",
        "RECONSUMETIMES": "4",
        "DELAY_TIME": "100",
    }
    assert restored({**own, **added}) == {"a": "b", "REDRIVE_COUNT": "3"}
    assert restored({"REDRIVE_COUNT": "many"}) == {"REDRIVE_COUNT": "1"}
    assert (key_text(None), key_text(b"k"), key_text(b"\xff")) == (None, "k", "/w==")


@given(st.integers(0, 50_000), st.integers(0, 100_000), st.sampled_from([0.0, 0.1, 7.0, 1e6]))
def test_steps_cover_all_letters_once(done: int, count: int, rate: float) -> None:
    steps = [] if rate == 0.1 and count > 100 else list(_steps(done, count, rate))
    assert steps == sorted(steps)
    if steps:
        assert (steps[0][0], steps[-1][1]) == (done, count)
        assert all(a[1] == b[0] for a, b in pairwise(steps))


def test_arguments() -> None:
    for text in ("0", "-1", "fast", "5/", "5/d", "nan", "inf"):
        with pytest.raises(SettingsError, match="rate: "):
            rate_of(text)
    assert arranged(["--where", "a", "--url", "u", "--apply"]) == (
        ["--url", "u"],
        ["--where", "a", "--apply"],
    )
    assert arranged(["--url"]) == (["--url"], [])


# ---- With a broker -----------------------------------------------------------


class Order(Record):
    id = Integer()


def letters_in(rest: httpx.Client, dlq: str) -> int:
    """None where there is no such topic yet."""
    if rest.get(f"{path_of(dlq)}/stats").status_code == 404:
        return 0
    return backlog_of(rest, dlq, "ops")


def let_orders_die(
    client: magnetar.Client, rest: httpx.Client, topic: str, partitions: list[str]
) -> dict[str, magnetar.Message]:
    """Twelve messages with a schema, refused until all are dead letters; as they were before."""
    consumer = client.subscribe(
        topic,
        "s",
        magnetar.ConsumerType.Shared,
        schema=JsonSchema(Order),
        initial_position=EARLIEST,
        dead_letter_policy=magnetar.ConsumerDeadLetterPolicy(1, initial_subscription_name="ops"),
        negative_ack_redelivery_delay_ms=1,
    )
    producer = client.create_producer(topic, schema=JsonSchema(Order))
    for n in range(12):
        producer.send(
            Order(id=n), partition_key=f"k{n}", properties={"n": str(n)}, event_timestamp=1 + n
        )
    before = {m.properties()["n"]: m for m in arrived(client, partitions)}
    while sum(letters_in(rest, f"{partition}-s-DLQ") for partition in partitions) < 12:
        with contextlib.suppress(magnetar.Timeout):
            consumer.negative_acknowledge(consumer.receive(200))
    consumer.close()
    return before


def test_letters_go_back_where_they_come_from(
    spark: SparkSession,
    target: Target,
    client: magnetar.Client,
    rest: httpx.Client,
    topic: str,
    checkpoint: str,
    tmp_path: Path,
) -> None:
    rest.put(f"{path_of(topic)}/partitions", json=2).raise_for_status()
    partitions = [f"{topic}-partition-{i}" for i in range(2)]
    before = let_orders_die(client, rest, topic, partitions)
    dlqs = [f"{partition}-s-DLQ" for partition in partitions]
    dlq = max(dlqs, key=lambda one: letters_in(rest, one))
    count = letters_in(rest, dlq)

    shown = redrive(spark, RedriveOptions(target, dlq, checkpoint=checkpoint))
    assert (shown["subscription"], shown["matched"], shown["redriven"]) == ("ops", count, 0)
    assert shown["targets"] == [{"target": topic, "messages": count}]
    assert "A dry run" in redrive_report(shown).to_html()
    assert backlog_of(rest, dlq, "ops") == count

    ids = sorted(int(json.loads(row["value"])["id"]) for row in shown["sample"])
    some = f"value.id <= {ids[1]}"
    page = tmp_path / "redrive.html"
    root = ["--url", target.service_url, "--admin-url", target.admin_url]
    command = [*root, "pipeline", "redrive", "-t", dlq, "--where", some, "--checkpoint", checkpoint]
    done = CliRunner().invoke(app, [*command, "--apply", "--report", str(page), "--rate", "500/s"])
    assert done.exit_code == 0, done.output
    assert "redriven                2" in done.stdout
    assert "Redrive of" in page.read_text()
    assert backlog_of(rest, dlq, "ops") == count - 2
    back = [m for m in arrived(client, partitions) if "REDRIVE_COUNT" in m.properties()]
    assert sorted(int(m.properties()["n"]) for m in back) == ids[:2]
    for message in back:
        first = before[message.properties()["n"]]
        assert message.data() == first.data()
        assert message.properties() == {**first.properties(), "REDRIVE_COUNT": "1"}
        assert message.partition_key() == first.partition_key()
        assert message.event_timestamp() == first.event_timestamp()
        assert message.topic_name() == first.topic_name()
        assert message.schema_version() == first.schema_version()
    # Deduplication is off again, as it was, and nothing is left of the plan.
    assert not rest.get(f"{path_of(topic)}/deduplicationEnabled?applied=true").json()
    assert not any(Path(checkpoint).glob("*"))


def test_letters_that_cannot_go(
    spark: SparkSession,
    target: Target,
    client: magnetar.Client,
    rest: httpx.Client,
    topic: str,
    checkpoint: str,
) -> None:
    dlq = f"{topic}-DLQ"

    def run(**more: Any) -> dict[str, Any]:
        return redrive(spark, RedriveOptions(target, dlq, checkpoint=checkpoint, **more))

    with pytest.raises(TopicNotFound, match="there is no topic"):
        run()
    rest.put(path_of(topic)).raise_for_status()
    letters(client, dlq, range(3), lambda n: f"{topic}-gone" if n else topic)
    shown = run()
    # There is no subscription, and looking makes none.
    assert (shown["subscription"], shown["matched"], shown["backlog_before"]) == ("redrive", 3, 3)
    assert subscriptions_of(target.rest(), dlq) == []
    with pytest.raises(TopicNotFound, match=f"2 letters come from {topic}-gone, which is not"):
        run(apply=True)
    client.create_producer(dlq).send(b"stray", partition_key="k1")
    with pytest.raises(SettingsError, match="to: 1 letters do not say where they come from"):
        run(apply=True, where="key = 'k1' and value = 'stray'")
    with pytest.raises(SettingsError, match=r"where: .*`nope`"):
        run(apply=True, where="nope")
    with pytest.raises(SettingsError, match=r"to: .* is where the letters are"):
        run(to=dlq)
    with pytest.raises(SettingsError, match="rate: -1"):
        run(rate=-1)
    assert arrived(client, [topic]) == []
    assert subscriptions_of(target.rest(), dlq) == []

    other = f"{topic}-other"
    rest.put(path_of(other)).raise_for_status()
    facts = run(apply=True, to=other)
    assert (facts["redriven"], facts["backlog_after"]) == (4, 0)
    assert sorted(m.data() for m in arrived(client, [other])) == [b"stray", b"v0", b"v1", b"v2"]

    client.subscribe(dlq, "second", magnetar.ConsumerType.Exclusive).close()
    with pytest.raises(SettingsError, match="has redrive, second: give the one whose letters"):
        run()
    with pytest.raises(NotAllowedError, match="is Exclusive"):
        run(subscription="second")


def test_a_redrive_beside_another_one(
    spark: SparkSession,
    target: Target,
    client: magnetar.Client,
    rest: httpx.Client,
    topic: str,
    checkpoint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that ends switches deduplication off for others too."""
    dlq, policy = f"{topic}-DLQ", f"{path_of(topic)}/deduplicationEnabled"
    rest.put(path_of(topic)).raise_for_status()
    fields = {"partition_key": "k", "properties": [("REAL_TOPIC", topic)]}
    # By clocks that do not agree: the later ones are the older ones.
    dead = [(b"v%d" % n, {**fields, "publish_time": 1000 * (9 - n)}) for n in range(3)]
    asyncio.run(publish_raws(target.service_url, dlq, dead))
    options = RedriveOptions(target, dlq, checkpoint=checkpoint, apply=True)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            rest.delete(policy).raise_for_status()
        if len(pauses) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        clock = SimpleNamespace(monotonic=time.monotonic, sleep=pause)
        patch.setattr("magnetar.spark.pipelines.redrive.time", clock)
        with pytest.raises(KeyboardInterrupt):
            redrive(spark, dataclasses.replace(options, rate=0.001))
    # Less than a letter goes in a step: the pace is kept between them.
    assert [round(seconds, -3) for seconds in pauses] == [0, 1000, 2000]
    assert rest.get(policy).json() is True, "it was switched on again"
    rest.delete(policy).raise_for_status()
    with pytest.raises(SettingsError, match=r"switched off on .* behind the first 2 are back"):
        redrive(spark, options)
    assert len(arrived(client, [topic])) == 2
    rest.post(policy, json=True).raise_for_status()
    assert redrive(spark, options)["redriven"] == 1
    assert [m.data() for m in arrived(client, [topic])] == [b"v0", b"v1", b"v2"]
    assert rest.get(policy).content == b"", "as it was"


def test_a_plan_is_there_whole_or_not_at_all(spark: SparkSession, tmp_path: Path) -> None:
    store = PlanStore(spark, str(tmp_path / "plan"))
    assert (store.load(), store.done()) == (None, 0)
    asked = {"topic": "t", "subscription": "s", "where": "", "to": ""}
    plan = Plan.made(**asked, count=9, lanes=2, targets={"t": ["t"]}, deduplication={"t": None})
    store.save(plan)
    for done in (3, 7):
        store.mark(done)
    found = store.load()
    assert found is not None
    assert (found.value, store.done()) == (plan.value, 7)
    store.require_same(found, asked)
    with pytest.raises(SettingsError, match=r"where: .* 7 of its 9 letters are back"):
        store.require_same(found, {**asked, "where": "x"})
    store.clear()
    assert (store.load(), store.done()) == (None, 0)
    (tmp_path / "plan" / "plan.json").write_text("{")
    with pytest.raises(SettingsError, match="is not a plan of a redrive"):
        store.load()
