"""Redrive: dead letters back to the topics that they come from, each exactly once.

| step    | what happens                                                       | killed there     |
|---------|--------------------------------------------------------------------|------------------|
| find    | the backlog of the topic of dead letters is read, and chosen from  | nothing happened |
| plan    | the letters are numbered and kept in the checkpoint                | done anew        |
| publish | the next letters go to their topics, by numbers that deduplicate   | the rest is sent |
| ack     | those are skipped on the dead letter topic; then `publish` again   | skipped again    |
| end     | the plan is forgotten, and deduplication is as it was              | forgotten        |

The same command, run again, goes on where it was killed. Letters that the predicate does not
choose stay where they are, and so do letters that came after the plan was made.
"""

import base64
import contextlib
import functools
import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magnetar.client.consumer.dead_letter import REAL_TOPIC
from magnetar.errors import InvalidTopicNameError, SettingsError, TopicNotFound
from magnetar.model import TopicName
from magnetar.rest.path import subscription_path, topic_path
from magnetar.spark.pipelines.backlog import (
    chosen,
    has_fields,
    predicate_errors,
    preview,
    read_backlog,
    view,
)
from magnetar.spark.pipelines.letter.letter_rows import ADDRESSED, addressed, letters_of
from magnetar.spark.pipelines.letter.letters import origin_of
from magnetar.spark.pipelines.letter.ordered_sender import SENT, Lanes
from magnetar.spark.pipelines.letter.redrive_plan import Plan, PlanStore
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.progress import Progress
from magnetar.spark.pipelines.report.ack_counts import AckFigures
from magnetar.spark.pipelines.report.message_counts import (
    ORDER,
    TOP,
    Totals,
    groups_of,
    sample_rows,
    timeline,
    totals_of,
)
from magnetar.spark.pipelines.subscription import Subscription, partitions_of, subscriptions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["RedriveOptions", "rate_of", "read_letters", "redrive", "stream_options"]

# The subscription that is made for a dead letter topic that has none.
OWN_SUBSCRIPTION = "redrive"
# Letters between two acks, and how long a rate may take for them.
STEP_LETTERS = 20_000
STEP_S = 5.0
LANES_MAX = 4
_COLUMNS = (
    *ORDER,
    "message_id",
    "position",
    "producer",
    "key",
    "raw",
    "raw_key",
    "ordering_key",
    "event_time",
    "schema_version",
    "properties",
    "bad_record",
    "real_topic",
    "real_subscription",
)


@dataclass(frozen=True)
class RedriveOptions:
    """Which letters of which topic; without `to` they go where they come from.

    `rate` is in letters a second, 0 for as fast as it goes. Nothing happens unless `apply`.
    """

    target: Target
    topic: str
    subscription: str = ""
    where: str = ""
    to: str = ""
    rate: float = 0.0
    apply: bool = False
    checkpoint: str = ""

    def __post_init__(self) -> None:
        if not self.rate >= 0 or self.rate == float("inf"):
            raise SettingsError("rate", f"{self.rate} is not a number of letters a second")
        if self.to and str(TopicName.parse(self.to)) == str(TopicName.parse(self.topic)):
            raise SettingsError("to", f"{self.to} is where the letters are")


def redrive(
    spark: "SparkSession", options: RedriveOptions, progress: Progress | None = None
) -> dict[str, Any]:
    """Shows which letters go where, and takes them there if that is wanted."""
    if progress is None:
        with Progress("redrive") as own:
            return redrive(spark, options, own)
    return _Redrive(spark, options, progress).run()


def read_letters(spark: "SparkSession", options: RedriveOptions) -> "DataFrame":
    """Returns the letters that a subscription has not acked, not read yet; all, if it is not
    there."""
    there = subscriptions_of(options.target.rest(), options.topic)
    return read_backlog(
        spark,
        options.target,
        options.topic,
        options.subscription,
        whole_topic=options.subscription not in there,
    )


def stream_options(options: RedriveOptions) -> dict[str, str]:
    """Returns the options of a stream of letters that is acked behind, a step at a time.

    Raises SettingsError if single letters are acked already: a stream would send them again.
    """
    rest = options.target.rest()
    if options.subscription in subscriptions_of(rest, options.topic):
        subscription = Subscription(rest, options.topic, options.subscription)
        if AckFigures(subscription, subscription.stats()).holes:
            raise SettingsError(
                "subscription",
                f"{options.subscription} has acked single letters of {options.topic}, which a "
                "stream would send again: give it another, or use `magnetar pipeline redrive`",
            )
    return options.target.options(
        topic=options.topic,
        subscription=options.subscription,
        startingOffsets="earliest",
        badRecords="column",
        maxRowsPerTrigger=_step_letters(options.rate),
    )


class _Redrive:
    def __init__(self, spark: "SparkSession", options: RedriveOptions, progress: Progress) -> None:
        self._spark = spark
        self._options = options
        self._progress = progress
        self._rest = options.target.rest()
        self._topic = str(TopicName.parse(options.topic))
        self._there = subscriptions_of(self._rest, self._topic)
        self._name = _subscription_name(options.subscription, self._topic, self._there)
        self._to = str(TopicName.parse(options.to)) if options.to else ""
        self._asked = {
            "topic": self._topic,
            "subscription": self._name,
            "where": options.where,
            "to": self._to,
        }
        location = options.checkpoint or _default_checkpoint(options.target, self._asked)
        self._store = PlanStore(spark, location)

    def run(self) -> dict[str, Any]:
        began = time.monotonic()
        plan = self._store.load()
        if plan is not None and self._options.apply:
            self._store.require_same(plan, self._asked)
            shown: dict[str, Any] = dict(plan.value["shown"])
        else:
            shown, made = self._find()
            plan = made if self._options.apply else plan
        facts: dict[str, Any] = {
            **self._asked,
            "rate": self._options.rate or None,
            "applied": self._options.apply,
            "checkpoint": self._store.location,
            "unfinished": None,
            "redriven": 0,
            "were_back": 0,
            **shown,
        }
        if plan is not None:
            if self._options.apply:
                self._carry_out(plan, facts)
            else:
                facts["unfinished"] = {"done": self._store.done(), "letters": plan.count}
        facts["backlog_after"] = (
            self._subscription().backlog() if self._exists() else facts["backlog_before"]
        )
        facts["seconds"] = round(time.monotonic() - began, 3)
        return facts

    # ---- What there is -------------------------------------------------------

    def _exists(self) -> bool:
        return self._name in self._there

    def _subscription(self) -> Subscription:
        return Subscription(self._rest, self._topic, self._name)

    def _find(self) -> tuple[dict[str, Any], Plan | None]:
        """Returns what the predicate chooses; the plan of it too, if it is to be carried out."""
        options = self._options
        before: int | None = None
        if self._exists():
            self._subscription().require_skips()
            before = self._subscription().backlog()
        letters = self._letters().persist()
        try:
            with (
                self._progress.tasks(self._spark, "reading the letters"),
                predicate_errors(options.where),
            ):
                unreadable = {"unreadable": letters["bad_record"].isNotNull()}
                totals = totals_of(letters, flags=unreadable)
                shown = self._shown(letters, totals)
            shown["backlog_before"] = totals.messages if before is None else before
            targets = self._targets(shown["targets"])
            plan = None
            if options.apply and shown["matched"]:
                self._require_subscription()
                plan = self._make_plan(letters, shown, targets)
            return shown, plan
        finally:
            letters.unpersist()

    def _require_subscription(self) -> None:
        """Makes one that is not there, at the beginning: all letters are its backlog."""
        if not self._exists():
            self._rest.put(subscription_path(self._topic, self._name), "earliest")
            self._there.append(self._name)

    def _letters(self) -> "DataFrame":
        """Returns the letters that are chosen."""
        from pyspark.sql import functions as F

        options = self._options
        load = functools.partial(
            read_backlog,
            self._spark,
            options.target,
            self._topic,
            self._name,
            whole_topic=not self._exists(),
        )
        rows = letters_of(load())
        if options.where.strip() and has_fields(options.target, self._topic):
            picked = chosen(view(load(values="topic")), options.where)
            rows = rows.join(picked.select("topic", "message_id"), ["topic", "message_id"], "semi")
        else:
            rows = chosen(rows, options.where)
        target = F.lit(self._to) if self._to else F.col("real_topic")
        value = preview(rows.schema).alias("value")
        return rows.select(*_COLUMNS, target.alias("target"), value)

    def _shown(self, letters: "DataFrame", totals: Totals) -> dict[str, Any]:
        step = totals.step_s
        good = letters.where("bad_record is null")
        times = good.selectExpr("*", f"unix_seconds(publish_time) div {step} as bar")
        columns = ["target", "real_subscription", "key", "bar"]
        matched = totals.messages - totals.flags["unreadable"]
        found = groups_of(times, columns) if matched else {}
        rows = {name: groups.rows for name, groups in found.items()}
        if found and found["target"].count > len(rows["target"]):
            raise SettingsError(
                "where", f"letters of {found['target'].count} topics: choose those of fewer"
            )
        return {
            "matched": matched,
            "unreadable": totals.flags["unreadable"],
            "targets": _by_topic(rows.get("target", [])),
            "subscriptions": rows.get("real_subscription", [])[:TOP],
            "keys": rows.get("key", [])[:TOP],
            "died": timeline(rows.get("bar", []), "bar", step),
            "sample": sample_rows(letters) if totals.messages else [],
        }

    def _targets(self, rows: list[dict[str, Any]]) -> dict[str, list[str]]:
        """Returns the partitions of each target; one that is not there is refused, not made."""
        found: dict[str, list[str]] = {}
        for row in rows:
            if row["target"] is None:
                if self._options.apply:
                    raise SettingsError(
                        "to",
                        f"{row['messages']} letters do not say where they come from (they have no "
                        f"property {REAL_TOPIC}): give --to, or leave them out by "
                        f"--where \"properties['{REAL_TOPIC}'] is not null\"",
                    )
                continue
            try:
                found[row["target"]] = partitions_of(self._rest, row["target"])
            except TopicNotFound:
                if self._options.apply:
                    raise TopicNotFound(
                        f"{row['messages']} letters come from {row['target']}, which is not there "
                        "any more: create it, or give --to"
                    ) from None
        return found

    def _make_plan(
        self, letters: "DataFrame", shown: dict[str, Any], targets: dict[str, list[str]]
    ) -> Plan:
        """Numbers the letters and keeps them; from then on they are carried out."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        # A pace is kept by one.
        lanes = 1 if self._options.rate else _lanes(self._spark)
        policies = {
            topic: self._rest.get(topic_path(topic, "deduplicationEnabled"))
            for topic in targets
            if not self._rest.deduplicates(topic)
        }
        plan = Plan.made(
            **self._asked,
            count=shown["matched"],
            lanes=lanes,
            targets=targets,
            deduplication=policies,
            shown=shown,
        )
        # Oldest first, but of a topic partition in its order, whatever clocks said.
        place = ("ledger_id", "entry_id", "batch_index")
        before = Window.partitionBy("topic").orderBy(*place)
        aged = letters.where("bad_record is null").withColumn(
            "since", F.max("publish_time").over(before)
        )
        rows = aged.select(
            (F.row_number().over(Window.orderBy("since", "topic", *place)) - 1).alias("number"),
            "topic",
            "message_id",
            F.col("raw").alias("value"),
            F.col("raw_key").alias("key"),
            "ordering_key",
            F.unix_millis("event_time").alias("event_ms"),
            "schema_version",
            F.to_json("properties").alias("properties"),
            "target",
            "real_topic",
        )
        self._store.clear()
        with self._progress.tasks(self._spark, "keeping the plan"):
            rows.write.parquet(self._store.letters_of(plan))
        self._store.save(plan)
        return plan

    # ---- What is done --------------------------------------------------------

    def _carry_out(self, plan: Plan, facts: dict[str, Any]) -> None:
        self._require_known(plan)
        before = dict(plan.deduplication)
        letters = self._spark.read.parquet(self._store.letters_of(plan))
        done = self._store.done()
        facts["resumed_at"] = done
        began = time.monotonic()
        for first, end in _steps(done, plan.count, self._options.rate):
            self._progress.update(first, plan.count, "letters")
            if self._options.rate:
                # Lanes keep the pace within a step.
                due = began + (first - done) / self._options.rate
                time.sleep(max(due - time.monotonic(), 0))
            self._deduplicate(plan, before)
            sent = self._publish(plan, letters.where(f"number >= {first} and number < {end}"))
            self._acknowledge(sent)
            facts["redriven"] += sum(1 for _, _, fresh in sent if fresh)
            facts["were_back"] += sum(1 for _, _, fresh in sent if not fresh)
            self._store.mark(end)
        self._progress.update(plan.count, plan.count, "letters")
        for topic, policy in before.items():
            path = topic_path(topic, "deduplicationEnabled")
            self._rest.delete(path) if policy is None else self._rest.post(path, policy)
        self._store.clear()

    def _require_known(self, plan: Plan) -> None:
        """Raises SettingsError if the broker has forgotten which letters of a step it has."""
        done = self._store.done()
        if done == plan.count or not self._store.begun():
            return
        off = [topic for topic in plan.targets if not self._rest.deduplicates(topic)]
        if off:
            raise SettingsError(
                "checkpoint",
                f"deduplication was switched off on {', '.join(off)} since this redrive was "
                f"stopped, so nobody can tell which letters behind the first {done} are back: look "
                f"there, and delete {self._store.location} to redrive all that are not acked",
            )

    def _deduplicate(self, plan: Plan, before: dict[str, bool | None]) -> None:
        """Sees to it that the targets do, though another redrive may have ended meanwhile."""
        for topic in plan.targets:
            if not self._rest.deduplicates(topic):
                path = topic_path(topic, "deduplicationEnabled")
                before.setdefault(topic, self._rest.get(path))
                self._rest.deduplicate(topic)
        if not self._store.begun():
            self._store.mark(0)

    def _publish(self, plan: Plan, letters: "DataFrame") -> list[tuple[str, bytes, bool]]:
        """Sends the letters that their topics lack; returns when the broker has all of them."""
        count, to = plan.lanes, self._to
        rate = self._options.rate / count
        lanes = Lanes(self._options.target.options(), plan.run, plan.targets, rate)

        def address(batches: Iterator[Any]) -> Iterator[Any]:
            return addressed(batches, count, to)

        def send(batches: Iterator[Any]) -> Iterator[Any]:
            return lanes.send(batches)

        ordered = (
            letters.mapInArrow(address, ADDRESSED)
            .repartition(count, "lane")
            .sortWithinPartitions("lane", "number")
        )
        return [
            (row["topic"], bytes(row["message_id"]), row["fresh"])
            for row in ordered.mapInArrow(send, SENT).collect()
        ]

    def _acknowledge(self, sent: list[tuple[str, bytes, bool]]) -> None:
        by_topic: dict[str, list[str]] = {}
        for topic, id, _ in sent:
            name = str(TopicName.parse(topic).partitioned)
            by_topic.setdefault(name, []).append(base64.b64encode(id).decode())
        for topic, ids in by_topic.items():
            path = subscription_path(topic, self._name, "skipByMessageIds")
            self._rest.post(path, {"type": "byteArray", "messageIds": ids})


def _by_topic(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Letters by the topic that they go to; those of its partitions are put together."""
    counts: dict[str | None, int] = {}
    for row in rows:
        topic = None
        if row["target"] is not None:
            # A name that is none leads nowhere either.
            with contextlib.suppress(InvalidTopicNameError):
                topic = origin_of(row["target"])[0]
        counts[topic] = counts.get(topic, 0) + row["messages"]
    return [{"target": topic, "messages": count} for topic, count in counts.items()]


def _step_letters(rate: float) -> int:
    """Returns how many letters go between two acks."""
    return max(1, min(STEP_LETTERS, int(rate * STEP_S))) if rate else STEP_LETTERS


def _steps(first: int, count: int, rate: float) -> Iterator[tuple[int, int]]:
    """Yields the letters between two acks: many, but not more than a rate does in a few seconds."""
    size = _step_letters(rate)
    while first < count:
        yield first, min(first + size, count)
        first += size


def rate_of(text: str) -> float:
    """Letters a second, 0 for no limit. Raises SettingsError.

    >>> rate_of("50/s"), rate_of("0.5"), rate_of("120/m"), rate_of("")
    (50.0, 0.5, 2.0, 0.0)
    """
    number, slash, unit = text.strip().partition("/")
    seconds = {"": 1, "s": 1, "m": 60, "h": 3600}.get(unit.strip())
    if not text.strip():
        return 0.0
    try:
        found = float(number)
    except ValueError:
        found = -1.0
    if seconds is None or bool(slash) != bool(unit) or not 0 < found < 1e9:
        raise SettingsError("rate", f"{text!r:.40} is not a rate: write 50/s, or 10/m")
    return found / seconds


def _lanes(spark: "SparkSession") -> int:
    return max(1, min(LANES_MAX, spark.sparkContext.defaultParallelism))


def _subscription_name(given: str, topic: str, there: list[str]) -> str:
    """Whose letters: the one that is named, or the only one, or one of our own."""
    if given:
        return given
    if len(there) > 1:
        raise SettingsError(
            "subscription", f"{topic} has {', '.join(there)}: give the one whose letters to redrive"
        )
    return there[0] if there else OWN_SUBSCRIPTION


def _default_checkpoint(target: Target, asked: dict[str, Any]) -> str:
    """Returns a place on this machine that is the same for the same dead letters."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    whose = f"{target.service_url} {asked['topic']} {asked['subscription']}"
    name = hashlib.sha256(whose.encode()).hexdigest()[:16]
    return str(Path(home) / "magnetar" / "redrive" / name)


if __name__ == "__main__":
    from magnetar.spark.pipelines.submit import submitted

    submitted("redrive")
