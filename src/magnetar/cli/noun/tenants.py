"""`magnetar tenants`: who shares the broker."""

from typing import Annotated, TypeAlias

import typer

from magnetar.cli.confirm import Yes, confirm
from magnetar.cli.name import complete
from magnetar.cli.option import Force, Json, named, words
from magnetar.cli.show import show_names, show_value
from magnetar.cli.target import current
from magnetar.rest.path import path_of

__all__ = ["app"]

app: typer.Typer = typer.Typer(help="Manage tenants.", no_args_is_help=True)

Tenant: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="TENANT",
        help="Tenant name.",
        show_default=False,
        callback=named,
        autocompletion=complete.tenants,
    ),
]
Roles: TypeAlias = Annotated[
    str,
    typer.Option("-r", "--admin-roles", metavar="ROLES", help="Admin roles, separated by commas."),
]
Clusters: TypeAlias = Annotated[
    str,
    typer.Option(
        "-c",
        "--allowed-clusters",
        metavar="CLUSTERS",
        help="Allowed clusters, separated by commas (default: all).",
    ),
]


@app.command("list")
def list_tenants(as_json: Json = False) -> None:
    """List the tenants."""
    with current().admin() as admin:
        show_names(admin.get(path_of("tenants")), as_json=as_json)


@app.command()
def get(tenant: Tenant, as_json: Json = False) -> None:
    """Show the admin roles and clusters of a tenant."""
    with current().admin() as admin:
        show_value(admin.get(path_of("tenants", tenant)), as_json=as_json)


@app.command()
def create(tenant: Tenant, admin_roles: Roles = "", allowed_clusters: Clusters = "") -> None:
    """Create a tenant."""
    with current().admin() as admin:
        # A cluster has a list of its own; Pulsar wants at least one named.
        clusters = words(allowed_clusters) or admin.get(path_of("clusters"))
        body = {"adminRoles": words(admin_roles), "allowedClusters": clusters}
        admin.put(path_of("tenants", tenant), body)
    typer.echo(f"created tenant {tenant}")


@app.command()
def update(tenant: Tenant, admin_roles: Roles = "", allowed_clusters: Clusters = "") -> None:
    """Change a tenant; options that are not given stay as they are."""
    with current().admin() as admin:
        found = admin.get(path_of("tenants", tenant))
        body = dict(found) if isinstance(found, dict) else {}
        if admin_roles:
            body["adminRoles"] = words(admin_roles)
        if allowed_clusters:
            body["allowedClusters"] = words(allowed_clusters)
        admin.post(path_of("tenants", tenant), body)
    typer.echo(f"updated tenant {tenant}")


@app.command()
def delete(tenant: Tenant, force: Force = False, yes: Yes = False) -> None:
    """Delete a tenant; with --force, all its namespaces too."""
    with_namespaces = " with all its namespaces and topics" if force else ""
    confirm(f"Delete {tenant}{with_namespaces}?", yes=yes)
    with current().admin() as admin:
        admin.delete(path_of("tenants", tenant), force=force or None)
    typer.echo(f"deleted tenant {tenant}")
