"""`magnetar namespaces`: groups of topics, with policies and permissions of their own."""

from typing import Annotated

import typer

from magnetar.cli.confirm import Yes, confirm
from magnetar.cli.name import complete
from magnetar.cli.noun.policies import add_policies
from magnetar.cli.noun.rates import add_rates
from magnetar.cli.option import (
    Actions,
    Force,
    Json,
    NamespaceName,
    NamespaceOrDefault,
    Role,
    SubscriptionName,
    words,
)
from magnetar.cli.show import show_names, show_value
from magnetar.cli.target import current
from magnetar.rest.path import namespace_path, path_of

__all__ = ["app"]

app: typer.Typer = typer.Typer(
    help="Manage namespaces, with their policies and permissions.", no_args_is_help=True
)


@app.command("list")
def list_namespaces(
    tenant: Annotated[
        str,
        typer.Argument(
            metavar="TENANT",
            help="Tenant name.",
            show_default=False,
            autocompletion=complete.tenants,
        ),
    ],
    as_json: Json = False,
) -> None:
    """List the namespaces of a tenant."""
    with current().admin() as admin:
        show_names(admin.get(path_of("namespaces", tenant)), as_json=as_json)


@app.command()
def topics(
    namespace: NamespaceOrDefault = "",
    mode: Annotated[
        str, typer.Option("-m", "--mode", help="Topics to list: PERSISTENT, NON_PERSISTENT or ALL.")
    ] = "PERSISTENT",
    as_json: Json = False,
) -> None:
    """List the topics of a namespace, each partition on its own line."""
    target = current()
    with target.admin() as admin:
        path = namespace_path(namespace or target.namespace, "topics")
        found = admin.get(path, mode=mode)
    show_names(found, as_json=as_json)


@app.command()
def create(namespace: NamespaceName) -> None:
    """Create a namespace."""
    with current().admin() as admin:
        admin.put(namespace_path(namespace))
    typer.echo(f"created namespace {namespace}")


@app.command()
def delete(namespace: NamespaceName, force: Force = False, yes: Yes = False) -> None:
    """Delete a namespace; with --force, all its topics too."""
    with_topics = " with all its topics" if force else ""
    confirm(f"Delete {namespace}{with_topics}?", yes=yes)
    with current().admin() as admin:
        admin.delete(namespace_path(namespace), force=force or None)
    typer.echo(f"deleted namespace {namespace}")


@app.command()
def policies(namespace: NamespaceName, as_json: Json = False) -> None:
    """Show all policies of a namespace."""
    with current().admin() as admin:
        show_value(admin.get(namespace_path(namespace)), as_json=as_json)


@app.command()
def unload(namespace: NamespaceName) -> None:
    """Unload all topics of a namespace; clients reconnect by themselves."""
    with current().admin() as admin:
        admin.put(namespace_path(namespace, "unload"))
    typer.echo(f"unloaded {namespace}")


@app.command("clear-backlog")
def clear_backlog(
    namespace: NamespaceName,
    subscription: Annotated[
        str,
        typer.Option("-s", "--sub", metavar="SUB", help="Clear subscriptions with this name only."),
    ] = "",
    force: Annotated[
        bool, typer.Option("-f", "--force", help="Do not ask for confirmation.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Acknowledge all messages of all subscriptions of a namespace."""
    if not force and not yes:
        typer.confirm(f"Ack all messages of {namespace}?", abort=True, err=True)
    pieces = ["clearBacklog", subscription] if subscription else ["clearBacklog"]
    with current().admin() as admin:
        admin.post(namespace_path(namespace, *pieces))
    typer.echo(f"cleared the backlog of {namespace}")


@app.command()
def unsubscribe(
    namespace: NamespaceName,
    subscription: Annotated[
        str, typer.Option("-s", "--sub", metavar="SUB", help="Subscription name.")
    ],
    yes: Yes = False,
) -> None:
    """Delete a subscription from all topics of a namespace."""
    confirm(f"Delete {subscription} from all topics of {namespace}?", yes=yes)
    with current().admin() as admin:
        admin.post(namespace_path(namespace, "unsubscribe", subscription))
    typer.echo(f"deleted the subscriptions {subscription} of {namespace}")


# ---- Permissions ---------------------------------------------------------------


@app.command()
def permissions(namespace: NamespaceName, as_json: Json = False) -> None:
    """Show the permissions of each role."""
    with current().admin() as admin:
        show_value(admin.get(namespace_path(namespace, "permissions")), as_json=as_json)


@app.command("grant-permission")
def grant_permission(
    namespace: NamespaceName,
    role: Role,
    actions: Actions,
) -> None:
    """Grant a role permissions on a namespace."""
    with current().admin() as admin:
        admin.post(namespace_path(namespace, "permissions", role), words(actions))
    typer.echo(f"{role} may {actions} in {namespace}")


@app.command("revoke-permission")
def revoke_permission(namespace: NamespaceName, role: Role) -> None:
    """Revoke all permissions of a role on a namespace."""
    with current().admin() as admin:
        admin.delete(namespace_path(namespace, "permissions", role))
    typer.echo(f"{role} has no permissions in {namespace}")


@app.command("subscription-permission")
def subscription_permission(namespace: NamespaceName, as_json: Json = False) -> None:
    """Show the roles that each restricted subscription is limited to."""
    with current().admin() as admin:
        found = admin.get(namespace_path(namespace, "permissions", "subscription"))
    show_value(found, as_json=as_json)


@app.command("grant-subscription-permission")
def grant_subscription_permission(
    namespace: NamespaceName,
    subscription: SubscriptionName,
    roles: Annotated[
        str,
        typer.Option(
            "--roles", metavar="ROLES", help="Roles, separated by commas; they replace all others."
        ),
    ],
) -> None:
    """Restrict a subscription to some roles."""
    path = namespace_path(namespace, "permissions", "subscription", subscription)
    with current().admin() as admin:
        admin.post(path, words(roles))
    typer.echo(f"{subscription} in {namespace} is for {roles}")


@app.command("revoke-subscription-permission")
def revoke_subscription_permission(
    namespace: NamespaceName, subscription: SubscriptionName, role: Role
) -> None:
    """Remove a role from those that a subscription is restricted to."""
    with current().admin() as admin:
        admin.delete(namespace_path(namespace, "permissions", subscription, role))
    typer.echo(f"{subscription} in {namespace} is not for {role}")


@app.command("get-resource-group")
def get_resource_group(namespace: NamespaceName, as_json: Json = False) -> None:
    """Show the resource group whose rates a namespace shares."""
    with current().admin() as admin:
        show_value(admin.get(namespace_path(namespace, "resourcegroup")), as_json=as_json)


@app.command("set-resource-group")
def set_resource_group(
    namespace: NamespaceName,
    group: Annotated[
        str, typer.Option("-rgn", "--resource-group-name", metavar="GROUP", help="Its group.")
    ],
) -> None:
    """Put a namespace into a resource group; it leaves the one that it was in."""
    with current().admin() as admin:
        admin.post(namespace_path(namespace, "resourcegroup", group))
    typer.echo(f"put {namespace} into {group}")


@app.command("remove-resource-group")
def remove_resource_group(namespace: NamespaceName) -> None:
    """Take a namespace out of its resource group."""
    with current().admin() as admin:
        admin.delete(namespace_path(namespace, "resourcegroup"))
    typer.echo(f"took {namespace} out of its resource group")


add_policies(app, of_topics=False)
add_rates(app, of_topics=False)
