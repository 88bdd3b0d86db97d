"""`magnetar pipeline redrive`: dead letters back to their topics, each once."""

from typing import Annotated

import typer

from magnetar.cli.option import Json
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
from magnetar.errors import SettingsError

__all__ = ["redrive"]


def redrive(
    topic: Annotated[
        str, typer.Option("-t", "--topic", metavar="TOPIC", help="The topic of dead letters.")
    ],
    subscription: Annotated[
        str,
        typer.Option(
            "-s",
            "--subscription",
            metavar="SUB",
            help="Of the dead letter topic; the only one it has, or `redrive`, if left out.",
        ),
    ] = "",
    where: Annotated[
        str, typer.Option("--where", metavar="SQL", help="Which letters; all if left out.")
    ] = "",
    to: Annotated[
        str, typer.Option("--to", metavar="TOPIC", help="Not where they come from, but there.")
    ] = "",
    rate: Annotated[
        str, typer.Option("--rate", metavar="N/s", help="Letters a second, as 50/s.")
    ] = "",
    apply: Annotated[
        bool, typer.Option("--apply/--dry-run", help="Do it, or only show the letters.")
    ] = False,
    checkpoint: Annotated[
        str,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="Where the plan is kept; below ~/.local/state/magnetar if left out.",
        ),
    ] = "",
    report: ReportFile = None,
    as_json: Json = False,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Send dead letters back to their topics, each once; without --apply, show them.

    Killed at any moment, the same command goes on where it was.
    """
    from magnetar.spark.pipelines.redrive import RedriveOptions, redrive_report
    from magnetar.spark.pipelines.redrive import redrive as run

    options = RedriveOptions(
        pipeline_target(), topic, subscription, where, to, rate_of(rate), apply, checkpoint
    )
    with running("redrive", options.target, master, conf) as spark:
        facts = run(spark, options)
    written = redrive_report(facts).write(report) if report is not None else None
    if as_json:
        show_json(facts)
        return
    columns = {"position": "position~", "published": "died~", "key": "key", "value": "value"}
    print_rows("The oldest", columns, facts["sample"])
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
    elif not apply and facts["matched"]:
        typer.echo("a dry run: add --apply to send them")
    if written is not None:
        typer.echo(f"report: {written}")


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
        raise SettingsError("rate", f"{text!r:.40} is none: write 50/s, or 10/m")
    return found / seconds
