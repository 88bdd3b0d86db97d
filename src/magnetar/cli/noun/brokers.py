"""`magnetar brokers` and `magnetar clusters`: the servers themselves."""

from typing import Annotated

import typer

from magnetar.cli.option import Json
from magnetar.cli.show import show_names, show_value
from magnetar.cli.target import current
from magnetar.rest.path import path_of

__all__ = ["app", "clusters_app"]

app: typer.Typer = typer.Typer(help="Manage brokers.", no_args_is_help=True)
clusters_app: typer.Typer = typer.Typer(help="Manage clusters.", no_args_is_help=True)


@app.command("list")
def list_brokers(
    cluster: Annotated[
        str,
        typer.Argument(
            metavar="[CLUSTER]", help="Cluster whose brokers to list.", show_default=False
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """List the brokers."""
    with current().admin() as admin:
        path = path_of("brokers", cluster) if cluster else path_of("brokers")
        show_names(admin.get(path), as_json=as_json)


@app.command()
def healthcheck() -> None:
    """Print ok and exit with 0 if the broker is healthy."""
    with current().admin() as admin:
        typer.echo(admin.request("GET", path_of("brokers", "health")).body.decode().strip())


@app.command()
def version() -> None:
    """Print the version of the broker."""
    with current().admin() as admin:
        typer.echo(admin.request("GET", path_of("brokers", "version")).body.decode().strip())


@app.command("leader-broker")
def leader_broker(as_json: Json = False) -> None:
    """Print the leader broker."""
    with current().admin() as admin:
        show_value(admin.get(path_of("brokers", "leaderBroker")), as_json=as_json)


@app.command("get-runtime-config")
def get_runtime_config(as_json: Json = False) -> None:
    """Show the settings that the broker runs with."""
    with current().admin() as admin:
        show_value(admin.get(path_of("brokers", "configuration", "runtime")), as_json=as_json)


@clusters_app.command("list")
def list_clusters(as_json: Json = False) -> None:
    """List the clusters."""
    with current().admin() as admin:
        show_names(admin.get(path_of("clusters")), as_json=as_json)


@clusters_app.command("get")
def get_cluster(
    cluster: Annotated[
        str, typer.Argument(metavar="CLUSTER", help="Cluster name.", show_default=False)
    ],
    as_json: Json = False,
) -> None:
    """Show the URLs of a cluster."""
    with current().admin() as admin:
        show_value(admin.get(path_of("clusters", cluster)), as_json=as_json)
