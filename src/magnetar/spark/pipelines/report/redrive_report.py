"""A redrive for people: the page with its plots."""

from typing import Any

from magnetar.spark.pipelines.report.message_counts import plot_times
from magnetar.spark.pipelines.report.report import Report

__all__ = ["redrive_report"]


def redrive_report(facts: dict[str, Any]) -> Report:
    report = Report(f"Redrive of {facts['topic']}")
    if not facts["applied"]:
        report.note("A dry run: no letter went anywhere. Run it with --apply.")
    if facts["unfinished"]:
        left = facts["unfinished"]
        report.note(
            f"An earlier redrive is not finished, {left['done']} of its {left['letters']} letters "
            "are back: --apply finishes it first."
        )
    report.facts(
        {
            "subscription": facts["subscription"],
            "where": facts["where"] or None,
            "letters": facts["matched"],
            "redriven": facts["redriven"],
            "back by an earlier run": facts["were_back"],
            "unreadable, left": facts["unreadable"],
            "backlog before": facts["backlog_before"],
            "backlog after": facts["backlog_after"],
            "seconds": facts["seconds"],
        }
    )
    if not facts["matched"]:
        return report
    targets = [[row["target"], row["messages"]] for row in facts["targets"]]
    report.table("Where they go", ["topic", "letters"], targets)
    plot_times(report, "When they died", facts["died"], "letters")
    rows = [[row["real_subscription"], row["messages"]] for row in facts["subscriptions"]]
    report.table("Whose they are", ["subscription", "letters"], rows)
    rows = [[row["key"], row["messages"]] for row in facts["keys"]]
    report.table("By key", ["key", "letters"], rows)
    report.table(
        f"The oldest {len(facts['sample'])}",
        ["position", "died", "key", "value"],
        [[row["position"], row["published"], row["key"], row["value"]] for row in facts["sample"]],
    )
    return report
