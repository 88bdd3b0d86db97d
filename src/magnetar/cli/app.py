"""The commands of `magnetar`, for typer to choose from.

Commands import what they work on when they are called, so that `--help` and `--version`
answer at once.
"""

from typing import Annotated

import typer

import magnetar
from magnetar.cli.check import check
from magnetar.cli.dump import dump

__all__ = ["app"]

app: typer.Typer = typer.Typer(
    name="magnetar",
    help="Messaging with acks that stick.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(check)
app.command()(dump)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def serve(context: typer.Context) -> None:
    """Serve topics to Pulsar clients, until SIGTERM or Ctrl-C."""
    from magnetar.cli.serve import run

    raise typer.Exit(run(context.args))


def _print_version(wanted: bool) -> None:
    if wanted:
        compiled = "yes" if magnetar.COMPILED else "no"
        typer.echo(f"magnetar {magnetar.__version__} (compiled: {compiled})")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Say the version and stop."
        ),
    ] = False,
) -> None:
    """Messaging with acks that stick."""
