"""`magnetar pipeline archive`: topics to Parquet or Delta, each message once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from magnetar.cli.option import pairs
from magnetar.cli.pipeline.option import (
    Conf,
    Master,
    ReportFile,
    pipeline_target,
    print_facts,
    running,
)

__all__ = ["archive"]


def archive(
    to: Annotated[
        str, typer.Option("--to", metavar="DIR", help="Directory or URL of the archive.")
    ],
    subscription: Annotated[
        str,
        typer.Option(
            "-s",
            "--subscription",
            metavar="SUB",
            help="Subscription to acknowledge on as messages are written; created if missing.",
        ),
    ],
    topics: Annotated[
        list[str] | None,
        typer.Option("-t", "--topic", metavar="TOPIC", help="Topic to archive; may be repeated."),
    ] = None,
    pattern: Annotated[
        str,
        typer.Option(
            "--pattern", metavar="REGEX", help="Regular expression: archive all topics that match."
        ),
    ] = "",
    format: Annotated[
        str, typer.Option("--format", metavar="parquet|delta", help="Format of the archive.")
    ] = "parquet",
    checkpoint: Annotated[
        str,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="Checkpoint directory (default: _checkpoint in the archive).",
        ),
    ] = "",
    partition_by: Annotated[
        str,
        typer.Option(
            "--partition-by",
            metavar="day|hour",
            help="Partitions of the archive, by publish time in UTC.",
        ),
    ] = "day",
    columns: Annotated[
        str, typer.Option("--columns", metavar="A,B", help="Columns to write (default: all).")
    ] = "",
    continuous: Annotated[
        bool,
        typer.Option(
            "--continuous/--once",
            help="Run until SIGTERM or Ctrl-C; otherwise stop after the current backlog.",
        ),
    ] = False,
    trigger: Annotated[
        str, typer.Option("--trigger", metavar="TIME", help="Time between micro-batches.")
    ] = "10 seconds",
    rows_max: Annotated[
        int,
        typer.Option("--max-rows", min=0, help="Rows per micro-batch; 0 means no limit."),
    ] = 1_000_000,
    read: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="Read option of the connector, e.g. valueSchema=topic; may be repeated.",
        ),
    ] = None,
    report: ReportFile = None,
    master: Master = "",
    conf: Conf = None,
) -> None:
    """Write topics to Parquet or Delta, each message exactly once, and acknowledge them.

    If it is killed, the same command continues where it stopped.
    """
    from magnetar.spark.pipelines.archive import ArchiveOptions
    from magnetar.spark.pipelines.archive import archive as run
    from magnetar.spark.pipelines.report.report import Report

    options = ArchiveOptions(
        target=pipeline_target(),
        subscription=subscription,
        to=to,
        topics=tuple(topics or ()),
        pattern=pattern,
        format=format,
        checkpoint=checkpoint,
        partition_by=partition_by,
        columns=tuple(name.strip() for name in columns.split(",") if name.strip()),
        continuous=continuous,
        trigger=trigger,
        rows_max=rows_max,
        read=pairs("--option", read or []),
    )
    page = Report(f"Archive of {', '.join(options.topics) or pattern}") if report else None
    with running("archive", options.target, master, conf) as spark, _stopped() as stop:
        facts = run(spark, options, stop=stop, report=page)
    print_facts(facts)
    if page is not None and report is not None:
        typer.echo(f"report: {page.write(report)}")


@contextmanager
def _stopped() -> Iterator[threading.Event]:
    """Set by SIGTERM or Ctrl-C, so that a run ends in order."""
    stop = threading.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, lambda *_: stop.set()) for one in signals]
    try:
        yield stop
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)
