"""An audit for people: the page with its plots."""

from typing import Any

from magnetar.spark.pipelines.report.message_counts import plot_times
from magnetar.spark.pipelines.report.report import Report

__all__ = ["audit_report", "trouble_counts"]

_SUSPECTS = (
    ("overtaken", "Overtaken: unacked while later ones are acked"),
    ("redelivered", "Given back most often"),
    ("undecodable", "Not what the schema describes"),
)


def trouble_counts(facts: dict[str, Any]) -> dict[str, Any]:
    """Returns what an audit has counted besides the backlog, by its names for people."""
    return {
        "holes": facts["hole_count"],
        "partly acked batches": facts["batch_count"],
        "overtaken": facts["overtaken"],
        "stuck keys": facts["stuck_key_count"],
        "undecodable": facts["undecodable"] if facts["decoded"] else "no schema",
        "delayed": facts["delayed"],
    }


def audit_report(facts: dict[str, Any]) -> Report:
    report = Report(f"Audit of {facts['subscription']} on {facts['topic']}")
    for finding in facts["findings"]:
        report.note(finding)
    report.facts(
        {
            "at": facts["at"],
            "type": facts["type"],
            "messages in the backlog": facts["messages"],
            "oldest": facts["oldest_age"],
            "keys": facts["key_count"],
            "consumers": len(facts["consumers"]),
            **trouble_counts(facts),
        }
    )
    if facts["messages"]:
        _add_backlog(report, facts)
    for kind, title in _SUSPECTS:
        if facts["suspects"][kind]:
            _add_suspects(report, title, facts["suspects"][kind])
    if facts["problems"]:
        rows = [[row["problem"], row["messages"], row["oldest"]] for row in facts["problems"]]
        report.table("Why values cannot be decoded", ["problem", "messages", "oldest"], rows)
    if facts["due"]:
        plot_times(report, "Delayed messages, by when they are due", facts["due"], "messages")
    _add_acks(report, facts)
    if facts["consumers"]:
        _add_consumers(report, facts["consumers"])
    return report


def _add_backlog(report: Report, facts: dict[str, Any]) -> None:
    ages = facts["ages"]
    report.plot(
        "Backlog by age",
        kind="bar",
        x=[row["age"] for row in ages],
        y=[row["messages"] for row in ages],
        labels=("", "messages"),
    )
    plot_times(report, "Backlog by time of publish", facts["published"], "messages")
    if facts["key_count"]:
        keys = [row for row in facts["keys"] if row["key"] is not None]
        report.plot(
            f"Backlog by key, the largest of {facts['key_count']:,}",
            kind="bar",
            x=[row["key"] for row in keys],
            y=[row["messages"] for row in keys],
            labels=("", "messages"),
        )
    rows = [[r["producer"], r["messages"], r["oldest"], r["newest"]] for r in facts["producers"]]
    report.table("Backlog by producer", ["producer", "messages", "oldest", "newest"], rows)
    if facts["stuck_keys"]:
        rows = [[r["stuck"], r["messages"], r["oldest"], r["newest"]] for r in facts["stuck_keys"]]
        report.table("Stuck keys", ["key", "overtaken", "oldest", "newest"], rows)


def _add_acks(report: Report, facts: dict[str, Any]) -> None:
    names = ("topic", "mark_delete", "last_acked", "last", "messages", "holes", "partly_acked")
    headings = [name.replace("_", " ") for name in names]
    rows = [[one[name] for name in names] for one in facts["partitions"]]
    report.table("How far acks are", headings, rows)
    if facts["holes"]:
        rows = [[one[n] for n in ("topic", "first", "last", "entries")] for one in facts["holes"]]
        title = f"The largest of {facts['hole_count']:,} holes"
        report.table(title, ["topic", "first", "last", "unacked entries"], rows)
    if facts["batches"]:
        columns = ["topic", "position", "size", "remaining"]
        rows = [[one[name] for name in columns] for one in facts["batches"]]
        report.table(f"Partly acked batches, {facts['batch_count']:,} in all", columns, rows)


def _add_suspects(report: Report, title: str, rows: list[dict[str, Any]]) -> None:
    report.table(
        title,
        ["position", "age", "given back", "key", "producer", "value"],
        [
            [
                row["position"],
                row["age"],
                row["redeliveries"],
                row["key"],
                row["producer"],
                row["value"] if row["problem"] is None else f"({row['problem']})",
            ]
            for row in rows
        ],
    )


def _add_consumers(report: Report, rows: list[dict[str, Any]]) -> None:
    names = ("consumer", "address", "unacked", "permits", "blocked", "messages_s", "redelivered_s")
    headings = ["consumer", "address", "unacked", "permits", "blocked", "out/s", "redelivered/s"]
    report.table("Consumers", headings, [[row[name] for name in names] for row in rows])
