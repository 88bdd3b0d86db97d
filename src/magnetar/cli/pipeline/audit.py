"""`magnetar pipeline audit`: the state of a subscription."""

from typing import Any

from magnetar.cli.console import output, printable
from magnetar.cli.option import Json, SubscriptionName
from magnetar.cli.pipeline.option import (
    Conf,
    Master,
    ReportFile,
    TopicOption,
    pipeline_target,
    print_facts,
    running,
    tell,
)
from magnetar.cli.pipeline.rows import print_rows

__all__ = ["audit"]


def audit(
    topic: TopicOption,
    subscription: SubscriptionName,
    report: ReportFile = None,
    as_json: Json = False,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Report on a subscription: backlog by age, key and producer, holes, suspects.

    Nothing is disturbed.
    """
    from magnetar.spark.pipelines.audit import AuditOptions
    from magnetar.spark.pipelines.audit import audit as run
    from magnetar.spark.pipelines.report.audit_report import audit_report

    options = AuditOptions(pipeline_target(), topic, subscription)
    with running("audit", options.target, master, conf) as spark:
        facts = run(spark, options)
    tell(facts, report, as_json, audit_report, _print)


def _print(facts: dict[str, Any]) -> None:
    from magnetar.spark.pipelines.report.audit_report import trouble_counts

    print_facts(
        {
            "topic": facts["topic"],
            "subscription": f"{facts['subscription']}, {facts['type']}",
            "backlog": facts["messages"],
            "oldest": facts["oldest_age"],
            "keys": facts["key_count"],
            **trouble_counts(facts),
        }
    )
    if facts["findings"]:
        console = output()
        console.print()
        for finding in facts["findings"]:
            console.print(f"! {printable(finding)}")
    ages = [row for row in facts["ages"] if row["messages"]]
    print_rows("By age", {"age": "age", "messages": "messages#"}, ages)
    times = {"messages": "messages#", "oldest": "oldest~", "newest": "newest~"}
    keys = max(facts["key_count"], len(facts["keys"]))
    print_rows("By key", {"key": "key", **times}, facts["keys"], total=keys)
    print_rows("By producer", {"producer": "producer", **times}, facts["producers"])
    stuck = facts["stuck_key_count"]
    print_rows("Stuck keys", {"stuck": "key", **times}, facts["stuck_keys"], total=stuck)
    holes = {"first": "first~", "last": "last~", "entries": "entries#", "topic": "topic"}
    print_rows(f"The largest of {facts['hole_count']:,} holes", holes, facts["holes"], 5)
    suspects = {
        "position": "position~",
        "age": "age~",
        "redeliveries": "given back#",
        "key": "key",
        "value": "value",
    }
    print_rows("Overtaken", suspects, facts["suspects"]["overtaken"], 5)
    print_rows("Given back most often", suspects, facts["suspects"]["redelivered"], 5)
    bad = {"position": "position~", "age": "age~", "producer": "producer", "problem": "problem"}
    print_rows("Undecodable", bad, facts["suspects"]["undecodable"], 5)
    due = {"due": "due~", "position": "position~", "key": "key", "value": "value"}
    print_rows("Delayed, the next", due, facts["suspects"]["delayed"], 5)
    consumers = {
        "consumer": "consumer",
        "address": "address~",
        "unacked": "unacked#",
        "permits": "permits#",
        "blocked": "blocked~",
    }
    print_rows("Consumers", consumers, facts["consumers"])
