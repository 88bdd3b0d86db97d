"""What all commands of `magnetar pipeline` have: where Spark is, and how a run is told of."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from magnetar.cli.console import output, printable, warn
from magnetar.cli.name import complete
from magnetar.cli.option import named_topic, pairs
from magnetar.cli.show import show_json
from magnetar.cli.target import current
from magnetar.errors import MagnetarError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from magnetar.spark.pipelines.letter.target import Target
    from magnetar.spark.pipelines.report.report import Report

__all__ = [
    "Conf",
    "Master",
    "ReportFile",
    "TopicOption",
    "pipeline_target",
    "print_facts",
    "running",
    "tell",
]

TopicOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "-t",
        "--topic",
        metavar="TOPIC",
        help="Topic name.",
        callback=named_topic,
        autocompletion=complete.topics,
    ),
]
Master: TypeAlias = Annotated[
    str,
    typer.Option(
        "--master",
        metavar="URL",
        help="Spark cluster, e.g. spark://host:7077 (default: run Spark locally).",
    ),
]
Conf: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="Spark setting; may be repeated."),
]
ReportFile: TypeAlias = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="File to write an HTML report to.")
]


def pipeline_target() -> "Target":
    """Returns the broker of this command, for a pipeline. Raises SettingsError."""
    from magnetar.spark.pipelines.letter.target import Target

    found = current()
    return Target(
        found.url,
        found.admin_url,
        token=found.token(),
        tls_trust_certs=found.tls_trust_certs or "",
        tls_certificate=found.tls_certificate or "",
        tls_key=found.tls_key or "",
    )


@contextmanager
def running(
    name: str, target: "Target", master: str, conf: list[str] | None
) -> "Iterator[SparkSession]":
    """A Spark for the command, which ends with it; says where its log is if it fails."""
    from magnetar.spark.pipelines.session import session

    settings = pairs("--conf", conf or [])
    try:
        with session(name, target, master=master, conf=settings) as spark:
            yield spark
    except MagnetarError as error:
        for note in getattr(error, "__notes__", []):
            warn(note)
        raise


def print_facts(facts: Mapping[str, object]) -> None:
    """Names and values, a line each."""
    from magnetar.spark.pipelines.report.report import shown

    console = output()
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        console.print(f"{name:{width}}  {printable(shown(value))}")


def tell(
    facts: dict[str, Any],
    report: Path | None,
    as_json: bool,
    page: "Callable[[dict[str, Any]], Report]",
    say: Callable[[dict[str, Any]], None],
) -> None:
    """Prints the facts, for programs or by `say`, and writes the page of them if it is wanted."""
    written = page(facts).write(report) if report is not None else None
    if as_json:
        show_json(facts)
        return
    say(facts)
    if written is not None:
        typer.echo(f"report: {written}")
