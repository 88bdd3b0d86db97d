"""`magnetar pipeline redrive`: dead letters back to their topics, each once."""

from typing import Annotated, Any

import typer

from magnetar.cli.name import complete
from magnetar.cli.option import Json, full_topic, named_topic
from magnetar.cli.pipeline.option import (
    Conf,
    Master,
    ReportFile,
    pipeline_target,
    print_facts,
    running,
    tell,
)
from magnetar.cli.pipeline.rows import print_rows

__all__ = ["redrive"]


def redrive(
    topic: Annotated[
        str,
        typer.Option(
            "-t",
            "--topic",
            metavar="TOPIC",
            help="Dead letter topic.",
            callback=named_topic,
            autocompletion=complete.topics,
        ),
    ],
    subscription: Annotated[
        str,
        typer.Option(
            "-s",
            "--subscription",
            metavar="SUB",
            help="Subscription of the dead letter topic (default: the only one, or `redrive`).",
            autocompletion=complete.subscriptions,
        ),
    ] = "",
    where: Annotated[
        str,
        typer.Option(
            "--where", metavar="SQL", help="Predicate that chooses letters (default: all)."
        ),
    ] = "",
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TOPIC",
            help="Topic to send the letters to (default: the topic each comes from).",
            callback=full_topic,
            autocompletion=complete.topics,
        ),
    ] = "",
    rate: Annotated[str, typer.Option("--rate", metavar="N/s", help="Rate, e.g. 50/s.")] = "",
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Send the letters; otherwise only show them.")
    ] = False,
    checkpoint: Annotated[
        str,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="Directory of the plan (default: below ~/.local/state/magnetar).",
        ),
    ] = "",
    report: ReportFile = None,
    as_json: Json = False,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Send dead letters back to their topics, each exactly once; without --apply, show them.

    If it is killed, the same command continues where it stopped.
    """
    from magnetar.spark.pipelines.redrive import RedriveOptions, rate_of
    from magnetar.spark.pipelines.redrive import redrive as run
    from magnetar.spark.pipelines.report.redrive_report import redrive_report

    options = RedriveOptions(
        pipeline_target(), topic, subscription, where, to, rate_of(rate), apply, checkpoint
    )
    with running("redrive", options.target, master, conf) as spark:
        facts = run(spark, options)
    tell(facts, report, as_json, redrive_report, _print)


def _print(facts: dict[str, Any]) -> None:
    columns = {"position": "position~", "published": "died~", "key": "key", "value": "value"}
    print_rows("The oldest", columns, facts["sample"], total=facts["matched"] + facts["unreadable"])
    print_rows("To", {"target": "topic", "messages": "letters#"}, facts["targets"])
    if facts["sample"]:
        typer.echo()
    print_facts(
        {
            "letters": facts["matched"],
            "redriven": facts["redriven"],
            "back by an earlier run": facts["were_back"],
            "unreadable, left": facts["unreadable"],
            "backlog before": facts["backlog_before"],
            "backlog after": facts["backlog_after"],
        }
    )
    if facts["unfinished"]:
        left = facts["unfinished"]
        typer.echo(
            f"not finished: {left['done']} of {left['letters']} letters of an earlier redrive are "
            "back; run it again with --apply"
        )
    elif not facts["applied"] and facts["matched"]:
        typer.echo("a dry run: add --apply to send them")
