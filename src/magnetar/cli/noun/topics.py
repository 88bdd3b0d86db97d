"""`magnetar topics`: made, looked at and deleted.

What is done to a subscription stands in `subscriptions`, and is a verb of `topics` as well,
as `pulsar-admin` has it.
"""

from typing import Annotated, TypeAlias

import typer

from magnetar.cli.noun.policies import add_policies
from magnetar.cli.noun.subscriptions import add_subscription_commands
from magnetar.cli.option import Force, Json, NamespaceName, TopicArgument, pairs, words
from magnetar.cli.show import show_json, show_names, show_value
from magnetar.cli.target import current
from magnetar.rest.path import lookup_path, topic_path, topics_path

__all__ = ["app"]

app: typer.Typer = typer.Typer(help="Topics and what is in them.", no_args_is_help=True)

Partitions: TypeAlias = Annotated[
    int, typer.Option("-p", "--partitions", help="How many.", min=1, show_default=False)
]
Metadata: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("-m", "--metadata", metavar="NAME=VALUE", help="A property; may be repeated."),
]


# ---- Which there are -----------------------------------------------------------


@app.command("list")
def list_topics(
    namespace: NamespaceName,
    domain: Annotated[
        str, typer.Option("-td", "--topic-domain", help="persistent or non_persistent.")
    ] = "persistent",
    as_json: Json = False,
) -> None:
    """List the topics of a namespace, partitions one by one."""
    with current().admin() as admin:
        found = admin.get(topics_path(domain.replace("_", "-"), namespace))
    show_names(found, as_json=as_json)


@app.command("list-partitioned-topics")
def list_partitioned_topics(namespace: NamespaceName, as_json: Json = False) -> None:
    """List the partitioned topics of a namespace."""
    with current().admin() as admin:
        found = admin.get(topics_path("persistent", namespace, "partitioned"))
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
def delete_partitioned_topic(topic: TopicArgument, force: Force = False) -> None:
    """Delete a partitioned topic with all its partitions."""
    with current().admin() as admin:
        admin.delete(topic_path(topic, "partitions"), force=force or None)
    typer.echo(f"deleted {topic}")


@app.command()
def delete(topic: TopicArgument, force: Force = False) -> None:
    """Delete a topic with everything in it."""
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
    """Say which broker serves a topic."""
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
        bool, typer.Option("-gpb", "--get-precise-backlog", help="Exact numbers on Pulsar, too.")
    ] = False,
    subscription_backlog_size: Annotated[
        bool, typer.Option("-sbs", "--get-subscription-backlog-size")
    ] = False,
    get_earliest_time: Annotated[
        bool, typer.Option("-etb", "--get-earliest-time-in-backlog")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show rates, backlogs, producers and consumers of a topic."""
    from magnetar.cli.stats_table import print_stats

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
        bool, typer.Option("--per-partition", help="Each partition by itself, too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the sums over all partitions of a topic."""
    from magnetar.cli.stats_table import print_stats

    with current().admin() as admin:
        found = admin.get(topic_path(topic, "partitioned-stats"), perPartition=per_partition)
    print_stats(topic, found, as_json=as_json)


@app.command("stats-internal")
def stats_internal(topic: TopicArgument, as_json: Json = False) -> None:
    """Show the ledgers and cursors of a topic."""
    from magnetar.cli.stats_table import print_internal_stats

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
    """Show what is stored of ledgers and cursors, as JSON."""
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
        typer.Option("-d", "--datetime", help="As 2027-01-15T08:00:00Z, or ms since 1970."),
    ],
    as_json: Json = False,
) -> None:
    """Show the id of the first message that was published at a time or later."""
    from magnetar.cli.message.messages import time_ms

    with current().admin() as admin:
        found = admin.get(topic_path(topic, "messageid", str(time_ms("-d", datetime))))
    _show_id(found, as_json=as_json)


@app.command("get-backlog-size")
def get_backlog_size(
    topic: TopicArgument,
    message_id: Annotated[
        str, typer.Option("-m", "--messageId", metavar="L:E", help="From this message on.")
    ],
    as_json: Json = False,
) -> None:
    """Show how many bytes a topic has from a message on."""
    from magnetar.cli.message.message_ids import place_json

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
    """Unload a topic; clients come back by themselves."""
    with current().admin() as admin:
        admin.put(topic_path(topic, "unload"))
    typer.echo(f"unloaded {topic}")


@app.command()
def terminate(topic: TopicArgument, as_json: Json = False) -> None:
    """Take no more messages; shows the id of the last one."""
    with current().admin() as admin:
        _show_id(admin.post(topic_path(topic, "terminate")), as_json=as_json)


@app.command("partitioned-terminate")
def partitioned_terminate(topic: TopicArgument, as_json: Json = False) -> None:
    """Take no more messages on any partition; shows the last id of each."""
    with current().admin() as admin:
        show_value(admin.post(topic_path(topic, "terminate", "partitions")), as_json=as_json)


@app.command()
def truncate(topic: TopicArgument) -> None:
    """Ack and delete everything in a topic, whatever retention says."""
    with current().admin() as admin:
        admin.delete(topic_path(topic, "truncate"))
    typer.echo(f"truncated {topic}")


@app.command("trim-topic")
def trim_topic(topic: TopicArgument) -> None:
    """Delete what is acked and not retained, now."""
    with current().admin() as admin:
        admin.post(topic_path(topic, "trim"))
    typer.echo(f"trimmed {topic}")


# ---- Permissions ---------------------------------------------------------------


@app.command()
def permissions(topic: TopicArgument, as_json: Json = False) -> None:
    """Show which roles may do what."""
    with current().admin() as admin:
        show_value(admin.get(topic_path(topic, "permissions")), as_json=as_json)


@app.command("grant-permission")
def grant_permission(
    topic: TopicArgument,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="To whom.")],
    actions: Annotated[
        str,
        typer.Option("--actions", metavar="ACTIONS", help="By commas: produce,consume,skip..."),
    ],
) -> None:
    """Let a role do things with a topic."""
    with current().admin() as admin:
        admin.post(topic_path(topic, "permissions", role), words(actions))
    typer.echo(f"{role} may {actions} on {topic}")


@app.command("revoke-permission")
def revoke_permission(
    topic: TopicArgument,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="Whose.")],
) -> None:
    """Take all permissions of a role on a topic back."""
    with current().admin() as admin:
        admin.delete(topic_path(topic, "permissions", role))
    typer.echo(f"{role} has no permissions on {topic}")


add_subscription_commands(app, as_topics=True)
add_policies(app, of_topics=True)
