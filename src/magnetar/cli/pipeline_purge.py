"""`magnetar pipeline purge`: messages of a backlog that a predicate chooses, skipped."""

from typing import Annotated

import typer

from magnetar.cli.option import Json, SubscriptionName
from magnetar.cli.pipeline_option import (
    Conf,
    Master,
    ReportFile,
    pipeline_target,
    print_facts,
    running,
)
from magnetar.cli.pipeline_rows import print_rows
from magnetar.cli.show import show_json

__all__ = ["purge"]


def purge(
    topic: Annotated[str, typer.Option("-t", "--topic", metavar="TOPIC", help="The topic.")],
    subscription: SubscriptionName,
    where: Annotated[
        str,
        typer.Option(
            "--where",
            metavar="SQL",
            help='Which messages, as "value.id is null" or "key = \'alice\'".',
        ),
    ],
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Skip them, or only show them.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=0, help="At most so many, the oldest; 0 is all.")
    ] = 0,
    report: ReportFile = None,
    as_json: Json = False,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Skip the messages of a backlog that a predicate chooses; without --apply, show them.

    All of a topic's or none; to run it again changes nothing.
    """
    from magnetar.spark.pipelines.purge import PurgeOptions, purge_report
    from magnetar.spark.pipelines.purge import purge as run

    options = PurgeOptions(pipeline_target(), topic, subscription, where, apply, limit)
    with running("purge", options.target, master, conf) as spark:
        facts = run(spark, options)
    written = purge_report(facts).write(report) if report is not None else None
    if as_json:
        show_json(facts)
        return
    columns = {
        "position": "position~",
        "published": "published~",
        "key": "key",
        "producer": "producer",
        "value": "value",
    }
    print_rows("The oldest", columns, facts["sample"])
    counts = {"messages": "messages#", "oldest": "oldest~"}
    print_rows("By key", {"key": "key", **counts}, facts["keys"], 5)
    print_rows("By producer", {"producer": "producer", **counts}, facts["producers"], 5)
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
    if not apply and facts["matched"]:
        typer.echo("a dry run: add --apply to skip them")
    if written is not None:
        typer.echo(f"report: {written}")
