"""`magnetar resourcegroups`: rates that all namespaces of a group share."""

from typing import Annotated, TypeAlias

import typer

from magnetar.cli.confirm import Yes, confirm
from magnetar.cli.option import Json, named
from magnetar.cli.show import show_names, show_value
from magnetar.cli.target import current
from magnetar.rest.path import path_of

__all__ = ["app"]

app: typer.Typer = typer.Typer(
    help="Manage resource groups: rates that namespaces share.", no_args_is_help=True
)

Group: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="GROUP", help="Name of the group.", show_default=False, callback=named),
]
PublishMessages: TypeAlias = Annotated[
    int | None,
    typer.Option("-mp", "--msg-publish-rate", help="Messages published in a second.", min=-1),
]
PublishBytes: TypeAlias = Annotated[
    int | None,
    typer.Option("-bp", "--byte-publish-rate", help="Bytes published in a second.", min=-1),
]
DispatchMessages: TypeAlias = Annotated[
    int | None,
    typer.Option("-md", "--msg-dispatch-rate", help="Messages sent in a second.", min=-1),
]
DispatchBytes: TypeAlias = Annotated[
    int | None,
    typer.Option("-bd", "--byte-dispatch-rate", help="Bytes sent in a second.", min=-1),
]


@app.command("list")
def list_groups(as_json: Json = False) -> None:
    """List the resource groups."""
    with current().admin() as admin:
        show_names(admin.get(path_of("resourcegroups")), as_json=as_json)


@app.command()
def get(group: Group, as_json: Json = False) -> None:
    """Show the rates of a resource group; -1 is without limit."""
    with current().admin() as admin:
        show_value(admin.get(path_of("resourcegroups", group)), as_json=as_json)


@app.command()
def create(
    group: Group,
    msg_publish_rate: PublishMessages = None,
    byte_publish_rate: PublishBytes = None,
    msg_dispatch_rate: DispatchMessages = None,
    byte_dispatch_rate: DispatchBytes = None,
) -> None:
    """Create a resource group; rates that are not given are without limit."""
    _put(group, msg_publish_rate, byte_publish_rate, msg_dispatch_rate, byte_dispatch_rate)
    typer.echo(f"created resource group {group}")


@app.command()
def update(
    group: Group,
    msg_publish_rate: PublishMessages = None,
    byte_publish_rate: PublishBytes = None,
    msg_dispatch_rate: DispatchMessages = None,
    byte_dispatch_rate: DispatchBytes = None,
) -> None:
    """Change a resource group; rates that are not given stay as they are."""
    with current().admin() as admin:
        admin.get(path_of("resourcegroups", group))  # it must be there
    _put(group, msg_publish_rate, byte_publish_rate, msg_dispatch_rate, byte_dispatch_rate)
    typer.echo(f"updated resource group {group}")


def _put(
    group: str,
    publish_messages: int | None,
    publish_bytes: int | None,
    dispatch_messages: int | None,
    dispatch_bytes: int | None,
) -> None:
    told = {
        "publishRateInMsgs": publish_messages,
        "publishRateInBytes": publish_bytes,
        "dispatchRateInMsgs": dispatch_messages,
        "dispatchRateInBytes": dispatch_bytes,
    }
    body = {field: number for field, number in told.items() if number is not None}
    with current().admin() as admin:
        admin.put(path_of("resourcegroups", group), body)


@app.command()
def delete(group: Group, yes: Yes = False) -> None:
    """Delete a resource group that no namespace is in."""
    confirm(f"Delete resource group {group}?", yes=yes)
    with current().admin() as admin:
        admin.delete(path_of("resourcegroups", group))
    typer.echo(f"deleted resource group {group}")
