"""`magnetar pipeline purge`: messages of a backlog that a predicate chooses, skipped."""

from typing import Annotated, Any

import typer

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

__all__ = ["purge"]


def purge(
    topic: TopicOption,
    subscription: SubscriptionName,
    where: Annotated[
        str,
        typer.Option(
            "--where",
            metavar="SQL",
            help='Predicate that chooses messages, e.g. "value.id is null" or "key = \'alice\'".',
        ),
    ],
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Skip the messages; otherwise only show them.")
    ] = False,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", min=0, help="Largest number of messages to skip, oldest first; 0 means all."
        ),
    ] = 0,
    report: ReportFile = None,
    as_json: Json = False,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Skip messages of a backlog that match a predicate; without --apply, show them.

    Of each topic, all of them are skipped or none. Running it again changes nothing.
    """
    from magnetar.spark.pipelines.purge import PurgeOptions, purge_report
    from magnetar.spark.pipelines.purge import purge as run

    options = PurgeOptions(pipeline_target(), topic, subscription, where, apply, limit)
    with running("purge", options.target, master, conf) as spark:
        facts = run(spark, options)
    tell(facts, report, as_json, purge_report, _print)


def _print(facts: dict[str, Any]) -> None:
    columns = {
        "position": "position~",
        "published": "published~",
        "key": "key",
        "producer": "producer",
        "value": "value",
    }
    print_rows("The oldest", columns, facts["sample"], total=facts["matched"])
    counts = {"messages": "messages#", "oldest": "oldest~"}
    print_rows("By key", {"key": "key", **counts}, facts["keys"], 5, facts["key_count"])
    print_rows(
        "By producer",
        {"producer": "producer", **counts},
        facts["producers"],
        5,
        facts["producer_count"],
    )
    if facts["matched"]:
        typer.echo()
    print_facts(
        {
            "matched": facts["matched"],
            "skipped": facts["skipped"],
            "backlog before": facts["backlog_before"],
            "backlog after": facts["backlog_after"],
        }
    )
    if not facts["applied"] and facts["matched"]:
        typer.echo("a dry run: add --apply to skip them")
