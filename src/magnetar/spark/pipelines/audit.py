"""Audit: the state of a subscription, without disturbing it.

| part       | says                                                                            |
|------------|---------------------------------------------------------------------------------|
| backlog    | unacked messages by age, key and producer                                       |
| ack state  | holes and partly acked batches, of each topic partition                         |
| overtaken  | messages that stay unacked while messages behind them are acked; a key that has |
|            | such messages is stuck                                                          |
| suspects   | overtaken, most often given back by consumers, or not what the schema describes |
| delayed    | messages that are due later, by when                                            |
| consumers  | who is connected, and what each holds                                           |

The ack state is of one moment and the backlog of the next: while consumers are at work they may
differ by what was acked between them.
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magnetar.spark.pipelines.backlog import has_fields, preview, read_backlog, view
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.progress import Progress
from magnetar.spark.pipelines.report.ack_counts import AckFigures
from magnetar.spark.pipelines.report.message_counts import (
    TOP,
    age_text,
    groups_of,
    iso,
    step_s,
    timeline,
)
from magnetar.spark.pipelines.subscription import IN_ORDER, Subscription

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["AuditOptions", "Audited", "audit", "flags_of", "suspects_of"]

# Messages of each kind that are shown.
SUSPECTS = 20
# Ages up to so many seconds, and their names; what is older has the last name.
AGES = (
    (60, "up to 1m"),
    (600, "up to 10m"),
    (3600, "up to 1h"),
    (6 * 3600, "up to 6h"),
    (86_400, "up to 1d"),
    (7 * 86_400, "up to 7d"),
)
OLDER = "older"
_KINDS = ("overtaken", "redelivered", "undecodable", "delayed")
_COLUMNS = (
    "topic",
    "ledger_id",
    "entry_id",
    "batch_index",
    "position",
    "publish_time",
    "deliver_at",
    "producer",
    "key",
    "bad_record",
)


@dataclass(frozen=True)
class AuditOptions:
    """Whose state."""

    target: Target
    topic: str
    subscription: str


def audit(
    spark: "SparkSession", options: AuditOptions, progress: Progress | None = None
) -> dict[str, Any]:
    """Returns the state of a subscription, as values for JSON."""
    if progress is None:
        with Progress("audit") as own:
            return audit(spark, options, own)
    found = Audited(spark, options)
    rows = found.messages.persist()
    try:
        with progress.tasks(spark, "reading the backlog"):
            figures = _Backlog(rows, found.now).facts()
    finally:
        rows.unpersist()
    facts = {
        "topic": found.subscription.topic,
        "subscription": found.subscription.name,
        "type": next(iter(found.stats.values()))["type"],
        "at": iso(int(found.now)),
        "decoded": found.decoded,
        **figures,
        **found.acks.facts(),
        "consumers": _consumers(found.stats),
    }
    facts["findings"] = _findings(facts)
    return facts


class Audited:
    """What there is to look at: the ack state of this moment, and the backlog, not read yet."""

    def __init__(self, spark: "SparkSession", options: AuditOptions) -> None:
        self.subscription: Subscription = Subscription(
            options.target.rest(), options.topic, options.subscription
        )
        self.now: float = time.time()
        self.stats: dict[str, Any] = self.subscription.stats()
        # Refuses what is not there before any job is started.
        self.subscription.backlog()
        self.acks: AckFigures = AckFigures(self.subscription, self.stats)
        self.decoded: bool = has_fields(options.target, options.topic)
        values = "topic" if self.decoded else "bytes"
        frame = read_backlog(
            spark, options.target, options.topic, options.subscription, values=values
        )
        rows = _marked(view(frame), self.acks, self.stats, self.now)
        # Each message with what is wrong about it, and the groups that it is in.
        self.messages: DataFrame = rows.select(
            *_COLUMNS,
            *_KINDS,
            "redeliveries",
            preview(frame.schema).alias("value"),
            *_groups(self.now),
        )


def _marked(rows: "DataFrame", acks: AckFigures, stats: dict[str, Any], now: float) -> "DataFrame":
    """Returns each message with what is wrong about it, if anything is."""
    from pyspark.sql import functions as F

    overtaken = F.lit(False)
    for topic, acked in acks.last_acked.items():
        before = (F.col("ledger_id") < acked.ledger_id) | (
            (F.col("ledger_id") == acked.ledger_id) & (F.col("entry_id") <= acked.entry_id)
        )
        overtaken = overtaken | ((F.col("topic") == topic) & before)
    place = F.concat_ws(" ", "topic", F.concat_ws(":", "ledger_id", "entry_id"))
    times = [
        F.lit(one)
        for (topic, position), count in acks.redelivered.items()
        for one in (f"{topic} {position}", count)
    ]
    redeliveries = F.coalesce(F.create_map(*times)[place], F.lit(0)) if times else F.lit(0)
    # Consumers that get messages in order get them at once.
    in_order = [topic for topic, one in stats.items() if one["type"] in IN_ORDER]
    due = F.coalesce(F.unix_millis("deliver_at") <= int(now * 1000), F.lit(True))
    delayed = ~due & ~F.col("topic").isin(in_order)
    return rows.withColumns(
        {
            # What is not due yet is not late.
            "overtaken": overtaken & ~delayed,
            "redeliveries": redeliveries,
            "redelivered": redeliveries > 0,
            "undecodable": F.col("bad_record").isNotNull(),
            "delayed": delayed,
        }
    )


def _groups(now: float) -> "list[Column]":
    """Returns how old a message is, its key if it is overtaken, and what is wrong with its
    value."""
    from pyspark.sql import functions as F

    seconds = F.lit(int(now)) - F.unix_seconds("publish_time")
    age = F.when(seconds <= AGES[0][0], AGES[0][1])
    for most, name in AGES[1:]:
        age = age.when(seconds <= most, name)
    return [
        age.otherwise(OLDER).alias("age"),
        F.when(F.col("overtaken"), F.col("key")).alias("stuck"),
        F.regexp_replace("bad_record", r"\d+", "#").alias("problem"),
    ]


def suspects_of(messages: "DataFrame") -> "DataFrame":
    """Returns the first messages of each kind: the oldest, or those that are due first.

    By projections and filters alone: through others Spark would not know, in a project, that the
    flow of `messages` must be done before.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    kinds = F.array_compact(F.array(*(F.when(F.col(kind), F.lit(kind)) for kind in _KINDS)))
    each = messages.select("*", F.explode(kinds).alias("kind"))
    first = F.when(F.col("kind") == "delayed", F.col("deliver_at")).otherwise(F.col("publish_time"))
    order = Window.partitionBy("kind").orderBy(first, "topic", "ledger_id", "entry_id")
    ranked = each.select("*", F.row_number().over(order).alias("rank"))
    return ranked.where(f"rank <= {SUSPECTS}")


def flags_of() -> "dict[str, Column]":
    """Returns what is counted of each group besides its messages."""
    from pyspark.sql import functions as F

    return {kind: F.col(kind) for kind in ("overtaken", "undecodable")}


class _Backlog:
    """The figures of the messages themselves, in three jobs."""

    def __init__(self, rows: "DataFrame", now: float) -> None:
        self._rows = rows
        self._now = now

    def facts(self) -> dict[str, Any]:
        from pyspark.sql import functions as F

        published, due = F.unix_seconds("publish_time"), F.unix_seconds("deliver_at")
        late = F.when(F.col("delayed"), due)
        row = self._rows.agg(
            F.count("*"),
            F.min(published),
            F.max(published),
            F.max(late),
            *(F.count_if(F.col(kind)) for kind in _KINDS),
        ).first()
        assert row is not None
        count, oldest, newest, last_due = row[:4]
        totals = {"messages": count, **dict(zip(_KINDS, row[4:], strict=True))}
        facts: dict[str, Any] = {
            **totals,
            "oldest": iso(oldest),
            "newest": iso(newest),
            "oldest_age": None if oldest is None else age_text(self._now - oldest),
            "keys": [],
            "key_count": 0,
            "producers": [],
            "ages": [],
            "published": [],
            "problems": [],
            "stuck_keys": [],
            "stuck_key_count": 0,
            "due": [],
            "suspects": {kind: [] for kind in _KINDS},
        }
        if count:
            step, due_step = step_s(newest - oldest), step_s((last_due or 0) - self._now)
            facts |= self._groups(step, due_step)
            if any(totals[kind] for kind in _KINDS):
                facts["suspects"] = self._suspects()
        return facts

    def _groups(self, step: int, due_step: int) -> dict[str, Any]:
        from pyspark.sql import functions as F

        bars = {
            "bar": F.expr(f"unix_seconds(publish_time) div {step}"),
            "due": F.when(F.col("delayed"), F.expr(f"unix_seconds(deliver_at) div {due_step}")),
        }
        columns = ["key", "producer", "age", "problem", "stuck", *bars]
        found = groups_of(self._rows.withColumns(bars), columns, flags_of())
        rows = {name: [r for r in g.rows if r[name] is not None] for name, g in found.items()}
        ages = {row["age"]: row["messages"] for row in rows["age"]}
        names = [*(name for _, name in AGES), OLDER]
        stuck = sorted(rows["stuck"], key=lambda row: str(row["oldest"]))
        return {
            "keys": found["key"].rows[:TOP],
            "key_count": found["key"].count - (len(rows["key"]) < len(found["key"].rows)),
            "producers": rows["producer"][:TOP],
            "ages": [{"age": name, "messages": ages.get(name, 0)} for name in names],
            "published": timeline(rows["bar"], "bar", step),
            "problems": rows["problem"][:TOP],
            "stuck_keys": stuck[:TOP],
            "stuck_key_count": found["stuck"].count
            - (len(rows["stuck"]) < len(found["stuck"].rows)),
            "due": timeline(rows["due"], "due", due_step),
        }

    def _suspects(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _KINDS}
        for row in suspects_of(self._rows).orderBy("kind", "rank").collect():
            found[row["kind"]].append(
                {
                    "position": row["position"],
                    "topic": row["topic"],
                    "published": iso(row["publish_time"]),
                    "age": age_text(self._now - row["publish_time"].timestamp()),
                    "due": iso(row["deliver_at"]),
                    "key": row["key"],
                    "producer": row["producer"],
                    "redeliveries": row["redeliveries"],
                    "problem": row["bad_record"],
                    "value": row["value"],
                }
            )
        found["redelivered"].sort(key=lambda one: -one["redeliveries"])
        return found


def _consumers(stats: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns who is connected, over all partitions."""
    found: dict[str, dict[str, Any]] = {}
    for one in stats.values():
        for consumer in one["consumers"]:
            row = found.setdefault(
                consumer["consumerName"],
                {
                    "consumer": consumer["consumerName"],
                    "address": str(consumer.get("address", "")).lstrip("/"),
                    "unacked": 0,
                    "permits": 0,
                    "blocked": False,
                    "messages_s": 0.0,
                    "redelivered_s": 0.0,
                },
            )
            row["unacked"] += consumer["unackedMessages"]
            row["permits"] += consumer["availablePermits"]
            row["blocked"] |= consumer["blockedConsumerOnUnackedMsgs"]
            row["messages_s"] += consumer["msgRateOut"]
            row["redelivered_s"] += consumer["msgRateRedeliver"]
    return sorted(found.values(), key=lambda row: (-row["unacked"], row["consumer"]))


def _findings(facts: dict[str, Any]) -> list[str]:
    """Returns what an operator should look at first, in sentences."""
    found: list[str] = []
    count = facts["messages"]
    if count and not facts["consumers"]:
        found.append(f"Nobody is connected, and {_many(count, 'message')} wait.")
    for consumer in facts["consumers"]:
        if consumer["blocked"]:
            found.append(
                f"Consumer {consumer['consumer']} gets nothing: it holds "
                f"{_many(consumer['unacked'], 'message')} unacked."
            )
    if facts["overtaken"]:
        oldest = facts["suspects"]["overtaken"][:1]
        which = f", the oldest is {oldest[0]['position']}, {oldest[0]['age']} old" if oldest else ""
        found.append(
            f"{_many(facts['overtaken'], 'message')} unacked while later ones are acked{which}."
        )
    if facts["stuck_key_count"]:
        worst = facts["stuck_keys"][0]
        found.append(
            f"{_many(facts['stuck_key_count'], 'key')} stuck, the longest is {worst['stuck']}."
        )
    if facts["undecodable"]:
        found.append(f"{_many(facts['undecodable'], 'message')} cannot be decoded.")
    if facts["suspects"]["redelivered"]:
        worst = facts["suspects"]["redelivered"][0]
        found.append(f"{worst['position']} was given back {_many(worst['redeliveries'], 'time')}.")
    if facts["delayed"]:
        found.append(f"{_many(facts['delayed'], 'message')} not due yet.")
    return found


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


if __name__ == "__main__":
    from magnetar.spark.pipelines.submit import submitted

    submitted("audit")
