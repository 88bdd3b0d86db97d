"""`magnetar pipeline`: work on topics that Spark does. Spark is imported when one is run."""

import typer

from magnetar.cli.pipeline.archive import archive
from magnetar.cli.pipeline.audit import audit
from magnetar.cli.pipeline.purge import purge
from magnetar.cli.pipeline.redrive import redrive

__all__ = ["app"]

app: typer.Typer = typer.Typer(
    help="Run Spark pipelines over topics and backlogs.",
    no_args_is_help=True,
)

app.command()(archive)
app.command()(audit)
app.command()(purge)
app.command()(redrive)
