"""`magnetar`, the command.

Commands import what they work on when they are called, so that `--help` and `--version`
answer at once.
"""

from typing import Annotated

import typer

import magnetar
from magnetar.cli.check import check
from magnetar.cli.dump import dump
from magnetar.cli.serve import serve

__all__ = ["app", "main"]

app: typer.Typer = typer.Typer(
    name="magnetar",
    help="Messaging with acks that stick.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(check)
app.command()(dump)
app.command()(serve)


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


def main() -> None:
    """Runs the command that the arguments name."""
    app()
