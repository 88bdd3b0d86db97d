"""Purge: messages of a backlog that a predicate chooses, shown first, then skipped by their ids.

| step  | what happens                                                       | killed there     |
|-------|--------------------------------------------------------------------|------------------|
| find  | the backlog is read from one snapshot, the predicate chooses       | nothing happened |
| show  | counts, by key and producer, a sample; without `apply` that is all | nothing happened |
| skip  | by the connector, one request for each topic                       | all or nothing   |

What was shown is what is skipped: the ids are kept from the first step on. To skip again what
is skipped changes nothing, so a purge that was killed is simply run again.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magnetar.errors import SettingsError
from magnetar.spark.pipelines.backlog import (
    chosen,
    has_fields,
    predicate_errors,
    preview,
    read_backlog,
    view,
)
from magnetar.spark.pipelines.letter.target import Target
from magnetar.spark.pipelines.progress import Progress
from magnetar.spark.pipelines.report.message_counts import (
    ORDER,
    TOP,
    Totals,
    groups_of,
    plot_times,
    sample_rows,
    timeline,
    totals_of,
)
from magnetar.spark.pipelines.report.report import Report
from magnetar.spark.pipelines.subscription import Subscription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PurgeOptions", "candidates", "purge", "purge_report"]


@dataclass(frozen=True)
class PurgeOptions:
    """Which messages of whose backlog; nothing is skipped unless `apply`. `limit` 0 is none."""

    target: Target
    topic: str
    subscription: str
    where: str
    apply: bool = False
    limit: int = 0

    def __post_init__(self) -> None:
        if not self.where.strip():
            raise SettingsError(
                "where", "missing: give a predicate that chooses messages; `true` chooses all"
            )
        if self.limit < 0:
            raise SettingsError("limit", f"{self.limit} is less than 0")

    def skip_options(self) -> dict[str, str]:
        """Returns the options of a write that skips what is chosen."""
        return self.target.options(operation="skip", subscription=self.subscription)


def purge(
    spark: "SparkSession", options: PurgeOptions, progress: Progress | None = None
) -> dict[str, Any]:
    """Shows what the predicate chooses, and skips it if that is wanted; says what was done."""
    target = options.target
    subscription = Subscription(target.rest(), options.topic, options.subscription)
    subscription.require_skips()
    before = subscription.backlog()
    if progress is None:
        with Progress("purge") as own:
            return purge(spark, options, own)
    poison = candidates(spark, options).persist()
    try:
        with progress.tasks(spark, "reading the backlog"), predicate_errors(options.where):
            totals = totals_of(poison)
            shown = _shown(poison, totals)
        facts: dict[str, Any] = {
            "topic": subscription.topic,
            "subscription": subscription.name,
            "where": options.where,
            "limit": options.limit or None,
            "applied": options.apply,
            "matched": totals.messages,
            "skipped": 0,
            "backlog_before": before,
            **shown,
        }
        if options.apply and totals.messages:
            with progress.tasks(spark, "skipping"):
                _skip(poison, options)
            facts["skipped"] = totals.messages
        facts["backlog_after"] = subscription.backlog()
        return facts
    finally:
        poison.unpersist()


def candidates(spark: "SparkSession", options: PurgeOptions) -> "DataFrame":
    """Returns the messages that the predicate chooses, not looked for yet."""
    target = options.target
    values = "topic" if has_fields(target, options.topic) else "string"
    frame = read_backlog(spark, target, options.topic, options.subscription, values=values)
    found = chosen(view(frame), options.where)
    if options.limit:
        found = found.orderBy(*ORDER).limit(options.limit)
    columns = [*ORDER, "message_id", "position", "key", "producer", "bad_record"]
    return found.select(*columns, preview(frame.schema).alias("value"))


def _skip(poison: "DataFrame", options: PurgeOptions) -> None:
    ids = poison.select("topic", "message_id")
    ids.write.format("magnetar").options(**options.skip_options()).mode("append").save()


def _shown(poison: "DataFrame", totals: Totals) -> dict[str, Any]:
    step = totals.step_s
    times = poison.selectExpr("*", f"unix_seconds(publish_time) div {step} as bar")
    # Of nothing there are no groups, and no need for jobs to find that out.
    found = groups_of(times, ["key", "producer", "bar"]) if totals.messages else {}
    rows = {name: groups.rows for name, groups in found.items()}
    return {
        "keys": rows.get("key", [])[:TOP],
        "key_count": found["key"].count if found else 0,
        "producers": rows.get("producer", [])[:TOP],
        "producer_count": found["producer"].count if found else 0,
        "published": timeline(rows.get("bar", []), "bar", step),
        "sample": sample_rows(poison) if totals.messages else [],
    }


def purge_report(facts: dict[str, Any]) -> Report:
    """Returns what was chosen and done, for people."""
    report = Report(f"Purge of {facts['subscription']} on {facts['topic']}")
    if not facts["applied"]:
        report.note("A dry run: nothing was skipped. Run it with --apply to skip what is shown.")
    report.facts(
        {
            "where": facts["where"],
            "matched": facts["matched"],
            "skipped": facts["skipped"],
            "backlog before": facts["backlog_before"],
            "backlog after": facts["backlog_after"],
            "keys": facts["key_count"],
        }
    )
    if not facts["matched"]:
        return report
    plot_times(report, "When they were published", facts["published"], "messages")
    for name, title in (("key", "By key"), ("producer", "By producer")):
        rows = [[row[name], row["messages"], row["oldest"]] for row in facts[f"{name}s"]]
        report.table(title, [name, "messages", "oldest"], rows)
    report.table(
        f"The oldest {len(facts['sample'])} of {facts['matched']:,}",
        ["position", "published", "key", "producer", "value"],
        [
            [row["position"], row["published"], row["key"], row["producer"], row["value"]]
            for row in facts["sample"]
        ],
    )
    return report


if __name__ == "__main__":
    from magnetar.spark.pipelines.submit import submitted

    submitted("purge")
