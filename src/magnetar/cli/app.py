"""The commands of `magnetar`, for typer to choose from.

Commands import what they work on when they are called, so that `--help` and `--version`
answer at once. Errors that Magnetar raises on purpose end any of them with a sentence and
the exit code that `exit_code` has for it.
"""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import magnetar
from magnetar.cli import target
from magnetar.cli.build import build
from magnetar.cli.choice import choice_of
from magnetar.cli.console import refusals
from magnetar.cli.data.backup import backup, restore
from magnetar.cli.data.check import check
from magnetar.cli.data.dump import dump
from magnetar.cli.message.consume import consume
from magnetar.cli.message.migrate import migrate
from magnetar.cli.message.produce import produce
from magnetar.cli.name import complete, given
from magnetar.cli.noun import (
    brokers,
    namespaces,
    profiles,
    resourcegroups,
    schemas,
    subscriptions,
    tenants,
    tokens,
    topics,
    transactions,
)
from magnetar.cli.pipeline import pipeline
from magnetar.cli.status.status import status
from magnetar.cli.status.top import top

__all__ = ["app"]


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        with refusals():
            return super().invoke(ctx)


app: typer.Typer = typer.Typer(
    name="magnetar",
    help="Messaging with acks that stick.",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

MESSAGES = "Messages"
PIPELINES = "Pipelines"
ADMIN = "Administration"
SERVER = "Server and data"

app.command(rich_help_panel=MESSAGES)(produce)
app.command(rich_help_panel=MESSAGES)(consume)
app.command(rich_help_panel=MESSAGES)(subscriptions.peek)
app.add_typer(pipeline.app, name="pipeline", rich_help_panel=PIPELINES)
app.command(rich_help_panel=ADMIN)(status)
app.command(rich_help_panel=ADMIN)(top)
app.add_typer(topics.app, name="topics", rich_help_panel=ADMIN)
app.add_typer(subscriptions.app, name="subscriptions", rich_help_panel=ADMIN)
app.add_typer(namespaces.app, name="namespaces", rich_help_panel=ADMIN)
app.add_typer(resourcegroups.app, name="resourcegroups", rich_help_panel=ADMIN)
app.add_typer(tenants.app, name="tenants", rich_help_panel=ADMIN)
app.add_typer(schemas.app, name="schemas", rich_help_panel=ADMIN)
app.add_typer(transactions.app, name="transactions", rich_help_panel=ADMIN)
app.add_typer(brokers.app, name="brokers", rich_help_panel=ADMIN)
app.add_typer(brokers.clusters_app, name="clusters", rich_help_panel=ADMIN)
app.add_typer(profiles.app, name="profiles", rich_help_panel=ADMIN)
app.add_typer(tokens.app, name="tokens", rich_help_panel=ADMIN)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
    rich_help_panel=SERVER,
)
def serve(context: typer.Context) -> None:
    """Run the broker until SIGTERM or Ctrl-C."""
    from magnetar.cli.serve import run

    raise typer.Exit(run(context.args))


app.command(rich_help_panel=SERVER)(check)
app.command(rich_help_panel=SERVER)(dump)
app.command(rich_help_panel=SERVER)(migrate)
app.command(rich_help_panel=SERVER)(backup)
app.command(rich_help_panel=SERVER)(restore)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"magnetar {magnetar.__version__} ({build()})")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            envvar="MAGNETAR_URL",
            help=f"URL of the broker (default: {target.URL}).",
        ),
    ] = None,
    admin_url: Annotated[
        str | None,
        typer.Option(
            "--admin-url",
            metavar="URL",
            envvar="MAGNETAR_ADMIN_URL",
            help=f"URL of the admin REST API (default: {target.ADMIN_URL}).",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            metavar="TOKEN",
            envvar="MAGNETAR_TOKEN",
            help="Authentication token: a JWT, or file://PATH of a file with one.",
        ),
    ] = None,
    tls_trust_certs: Annotated[
        str | None,
        typer.Option("--tls-trust-certs", metavar="FILE", help="CA certificates (PEM file)."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            metavar="NAMESPACE",
            envvar="MAGNETAR_NAMESPACE",
            help=f"Namespace of short topic names and of lists (default: {target.NAMESPACE}).",
            autocompletion=complete.namespaces,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            envvar="MAGNETAR_PROFILE",
            help="Profile with URLs and token; see `magnetar profiles`.",
            autocompletion=profiles.complete,
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Messaging with acks that stick."""
    given.forget()
    target.use(choice_of(context))
