"""`magnetar topics`: made, looked at and deleted.

What is done to a subscription stands in `subscriptions`, and is a verb of `topics` as well,
as `pulsar-admin` has it.
"""

import sys
from typing import Annotated, TypeAlias

import typer

from magnetar.cli.confirm import Yes, confirm_topic
from magnetar.cli.noun.compaction import add_compaction
from magnetar.cli.noun.policies import add_policies
from magnetar.cli.noun.rates import add_rates
from magnetar.cli.noun.subscriptions import add_subscription_commands
from magnetar.cli.option import (
    Actions,
    Force,
    Json,
    NamespaceOrDefault,
    Role,
    TopicArgument,
    pairs,
    words,
)
from magnetar.cli.show import show_json, show_names, show_value
from magnetar.cli.target import current
from magnetar.rest.path import lookup_path, topic_path, topics_path

__all__ = ["app"]

app: typer.Typer = typer.Typer(help="Manage topics.", no_args_is_help=True)

Partitions: TypeAlias = Annotated[
    int, typer.Option("-p", "--partitions", help="Number of partitions.", min=1, show_default=False)
]
Metadata: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "-m", "--metadata", metavar="NAME=VALUE", help="Property of the topic; may be repeated."
    ),
]


# ---- Which there are -----------------------------------------------------------


@app.command("list")
def list_topics(
    namespace: NamespaceOrDefault = "",
    domain: Annotated[
        str,
        typer.Option("-td", "--topic-domain", help="Topics to list: persistent or non_persistent."),
    ] = "persistent",
    columns: Annotated[
        bool | None,
        typer.Option(
            "--columns/--names",
            help="Show backlog, age and clients of each topic, or the full names alone, each "
            "partition on its own line (default: columns on a terminal).",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the topics of a namespace: on a terminal with backlog, age and consumers."""
    from magnetar.cli.status.topic_list import print_topics

    target = current()
    of = namespace or target.namespace
    with target.admin() as admin:
        if not as_json and (sys.stdout.isatty() if columns is None else columns):
            print_topics(admin, of, domain.replace("_", "-"))
        else:
            found = admin.get(topics_path(domain.replace("_", "-"), of))
            show_names(found, as_json=as_json)


@app.command("list-partitioned-topics")
def list_partitioned_topics(namespace: NamespaceOrDefault = "", as_json: Json = False) -> None:
    """List the partitioned topics of a namespace."""
    target = current()
    with target.admin() as admin:
        path = topics_path("persistent", namespace or target.namespace, "partitioned")
        found = admin.get(path)
    show_names(found, as_json=as_json)


@app.command()
def create(topic: TopicArgument, metadata: Metadata = None) -> None:
    """Create a topic."""
    with current().admin() as admin:
        admin.put(topic_path(topic), pairs("-m", metadata or []) or None)
    typer.echo(f"created {topic}")


@app.command("create-partitioned-topic")
def create_partitioned_topic(
    topic: TopicArgument, partitions: Partitions, metadata: Metadata = None
) -> None:
    """Create a partitioned topic."""
    properties = pairs("-m", metadata or [])
    body: object = partitions
    if properties:
        body = {"partitions": partitions, "properties": properties}
    with current().admin() as admin:
        admin.put(topic_path(topic, "partitions"), body)
    typer.echo(f"created {topic} with {partitions} partitions")


@app.command("update-partitioned-topic")
def update_partitioned_topic(topic: TopicArgument, partitions: Partitions) -> None:
    """Give a partitioned topic more partitions."""
    with current().admin() as admin:
        admin.post(topic_path(topic, "partitions"), partitions)
    typer.echo(f"{topic} has {partitions} partitions")


@app.command("get-partitioned-topic-metadata")
def get_partitioned_topic_metadata(topic: TopicArgument, as_json: Json = False) -> None:
    """Show how many partitions a topic has; 0 if it is not partitioned."""
    with current().admin() as admin:
        show_value(admin.get(topic_path(topic, "partitions")), as_json=as_json)


@app.command("delete-partitioned-topic")
def delete_partitioned_topic(topic: TopicArgument, force: Force = False, yes: Yes = False) -> None:
    """Delete a partitioned topic with all its partitions."""
    confirm_topic("Delete it with all partitions?", topic, yes=yes)
    with current().admin() as admin:
        admin.delete(topic_path(topic, "partitions"), force=force or None)
    typer.echo(f"deleted {topic}")


@app.command()
def delete(topic: TopicArgument, force: Force = False, yes: Yes = False) -> None:
    """Delete a topic with all its messages."""
    confirm_topic("Delete it?", topic, yes=yes)
    with current().admin() as admin:
        admin.delete(topic_path(topic), force=force or None)
    typer.echo(f"deleted {topic}")


@app.command("get-properties")
def get_properties(topic: TopicArgument, as_json: Json = False) -> None:
    """Show the properties of a topic."""
    with current().admin() as admin:
        show_value(admin.get(topic_path(topic, "properties")), as_json=as_json)


@app.command()
def lookup(topic: TopicArgument, as_json: Json = False) -> None:
    """Print the broker that serves a topic."""
    with current().admin() as admin:
        found = admin.get(lookup_path(topic))
    if as_json or not isinstance(found, dict):
        show_json(found)
    else:
        typer.echo(found.get("brokerUrl") or found.get("nativeUrl"))


# ---- What is in them -----------------------------------------------------------


@app.command()
def stats(
    topic: TopicArgument,
    get_precise_backlog: Annotated[
        bool,
        typer.Option(
            "-gpb",
            "--get-precise-backlog",
            help="Ask Apache Pulsar for exact backlogs; Magnetar always gives them.",
        ),
    ] = False,
    subscription_backlog_size: Annotated[
        bool,
        typer.Option(
            "-sbs",
            "--get-subscription-backlog-size",
            help="Ask Apache Pulsar for the size of each backlog; Magnetar always gives it.",
        ),
    ] = False,
    get_earliest_time: Annotated[
        bool,
        typer.Option(
            "-etb",
            "--get-earliest-time-in-backlog",
            help="Show when the oldest message of each backlog was published.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show rates, backlogs, producers and consumers of a topic."""
    from magnetar.cli.status.stats_table import print_stats

    with current().admin() as admin:
        found = admin.get(
            topic_path(topic, "stats"),
            getPreciseBacklog=get_precise_backlog or None,
            subscriptionBacklogSize=subscription_backlog_size or None,
            getEarliestTimeInBacklog=get_earliest_time or None,
        )
    print_stats(topic, found, as_json=as_json)


@app.command("partitioned-stats")
def partitioned_stats(
    topic: TopicArgument,
    per_partition: Annotated[
        bool, typer.Option("--per-partition", help="Show each partition too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the stats of a partitioned topic, summed over its partitions."""
    from magnetar.cli.status.stats_table import print_stats

    with current().admin() as admin:
        found = admin.get(topic_path(topic, "partitioned-stats"), perPartition=per_partition)
    print_stats(topic, found, as_json=as_json)


@app.command("stats-internal")
def stats_internal(topic: TopicArgument, as_json: Json = False) -> None:
    """Show the ledgers and cursors of a topic."""
    from magnetar.cli.status.stats_table import print_internal_stats

    with current().admin() as admin:
        found = admin.get(topic_path(topic, "internalStats"))
    print_internal_stats(topic, found, as_json=as_json)


@app.command("partitioned-stats-internal")
def partitioned_stats_internal(topic: TopicArgument) -> None:
    """Show the ledgers and cursors of all partitions, as JSON."""
    with current().admin() as admin:
        show_json(admin.get(topic_path(topic, "partitioned-internalStats")))


@app.command("info-internal")
def info_internal(topic: TopicArgument) -> None:
    """Show the stored metadata of ledgers and cursors, as JSON."""
    with current().admin() as admin:
        show_json(admin.get(topic_path(topic, "internal-info")))


@app.command("last-message-id")
def last_message_id(topic: TopicArgument, as_json: Json = False) -> None:
    """Show the id of the last message of a topic."""
    with current().admin() as admin:
        _show_id(admin.get(topic_path(topic, "lastMessageId")), as_json=as_json)


@app.command("get-message-id")
def get_message_id(
    topic: TopicArgument,
    datetime: Annotated[
        str,
        typer.Option(
            "-d", "--datetime", help="Time, e.g. 2027-01-15T08:00:00Z, or milliseconds since 1970."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Show the id of the first message published at or after a time."""
    from magnetar.cli.message.messages import time_ms

    with current().admin() as admin:
        found = admin.get(topic_path(topic, "messageid", str(time_ms("-d", datetime))))
    _show_id(found, as_json=as_json)


@app.command("get-backlog-size")
def get_backlog_size(
    topic: TopicArgument,
    message_id: Annotated[
        str, typer.Option("-m", "--messageId", metavar="L:E", help="First message to count.")
    ],
    as_json: Json = False,
) -> None:
    """Show the size of a topic's backlog from a message on, in bytes."""
    from magnetar.rest.id_text import place_json

    with current().admin() as admin:
        found = admin.put(topic_path(topic, "backlogSize"), place_json("-m", message_id))
    show_value(found, as_json=as_json)


def _show_id(found: object, *, as_json: bool) -> None:
    if as_json or not isinstance(found, dict):
        show_json(found)
        return
    id = f"{found.get('ledgerId')}:{found.get('entryId')}"
    index = found.get("batchIndex", -1)
    typer.echo(id if not isinstance(index, int) or index < 0 else f"{id}:{index}")


# ---- What is done to them --------------------------------------------------------


@app.command()
def unload(topic: TopicArgument) -> None:
    """Unload a topic; clients reconnect by themselves."""
    with current().admin() as admin:
        admin.put(topic_path(topic, "unload"))
    typer.echo(f"unloaded {topic}")


@app.command()
def terminate(topic: TopicArgument, as_json: Json = False) -> None:
    """Terminate a topic: accept no more messages, and print the last message id."""
    with current().admin() as admin:
        _show_id(admin.post(topic_path(topic, "terminate")), as_json=as_json)


@app.command("partitioned-terminate")
def partitioned_terminate(topic: TopicArgument, as_json: Json = False) -> None:
    """Terminate all partitions of a topic, and print the last message id of each."""
    with current().admin() as admin:
        show_value(admin.post(topic_path(topic, "terminate", "partitions")), as_json=as_json)


@app.command()
def truncate(topic: TopicArgument, yes: Yes = False) -> None:
    """Delete all messages of a topic, even those that retention would keep."""
    confirm_topic("Delete all its messages?", topic, yes=yes)
    with current().admin() as admin:
        admin.delete(topic_path(topic, "truncate"))
    typer.echo(f"truncated {topic}")


@app.command("trim-topic")
def trim_topic(topic: TopicArgument) -> None:
    """Delete messages that are acknowledged and not retained, now."""
    with current().admin() as admin:
        admin.post(topic_path(topic, "trim"))
    typer.echo(f"trimmed {topic}")


# ---- Permissions ---------------------------------------------------------------


@app.command()
def permissions(topic: TopicArgument, as_json: Json = False) -> None:
    """Show the permissions of each role."""
    with current().admin() as admin:
        show_value(admin.get(topic_path(topic, "permissions")), as_json=as_json)


@app.command("grant-permission")
def grant_permission(
    topic: TopicArgument,
    role: Role,
    actions: Actions,
) -> None:
    """Grant a role permissions on a topic."""
    with current().admin() as admin:
        admin.post(topic_path(topic, "permissions", role), words(actions))
    typer.echo(f"{role} may {actions} on {topic}")


@app.command("revoke-permission")
def revoke_permission(
    topic: TopicArgument,
    role: Role,
) -> None:
    """Revoke all permissions of a role on a topic."""
    with current().admin() as admin:
        admin.delete(topic_path(topic, "permissions", role))
    typer.echo(f"{role} has no permissions on {topic}")


add_compaction(app)
add_subscription_commands(app, as_topics=True)
add_policies(app, of_topics=True)
add_rates(app, of_topics=True)
