"""`magnetar subscriptions`: made, moved, emptied and deleted.

The same verbs are verbs of `topics`, under the names that `pulsar-admin` has for them.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from magnetar.cli.confirm import Yes, confirm_subscription
from magnetar.cli.option import Force, Json, SubscriptionName, TopicArgument, duration_s, pairs
from magnetar.cli.show import show_names, show_value
from magnetar.cli.target import current
from magnetar.errors import SettingsError
from magnetar.rest.path import subscription_path, topic_path

__all__ = ["add_subscription_commands", "app", "peek"]

app: typer.Typer = typer.Typer(
    help="Manage subscriptions and their acknowledgements.", no_args_is_help=True
)


def list_subscriptions(topic: TopicArgument, as_json: Json = False) -> None:
    """List the subscriptions of a topic."""
    with current().admin() as admin:
        show_names(admin.get(topic_path(topic, "subscriptions")), as_json=as_json)


def create(
    topic: TopicArgument,
    subscription: SubscriptionName,
    message_id: Annotated[
        str,
        typer.Option(
            "-m", "--messageId", help="Initial position: latest, earliest or LEDGER:ENTRY[:INDEX]."
        ),
    ] = "latest",
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--property",
            metavar="NAME=VALUE",
            help="Property of the subscription; may be repeated.",
        ),
    ] = None,
) -> None:
    """Create a subscription."""
    from magnetar.rest.id_text import place_json

    body: dict[str, Any] = dict(place_json("-m", message_id))
    if properties:
        body["properties"] = pairs("-p", properties)
    with current().admin() as admin:
        admin.put(subscription_path(topic, subscription), body)
    typer.echo(f"created subscription {subscription} of {topic}")


def delete(
    topic: TopicArgument, subscription: SubscriptionName, force: Force = False, yes: Yes = False
) -> None:
    """Delete a subscription; with --force, close its consumers."""
    confirm_subscription("Delete it?", topic, subscription, yes=yes)
    with current().admin() as admin:
        admin.delete(subscription_path(topic, subscription), force=force or None)
    typer.echo(f"deleted subscription {subscription} of {topic}")


def get_properties(
    topic: TopicArgument, subscription: SubscriptionName, as_json: Json = False
) -> None:
    """Show the properties of a subscription."""
    with current().admin() as admin:
        show_value(admin.get(subscription_path(topic, subscription, "properties")), as_json=as_json)


def update_properties(
    topic: TopicArgument,
    subscription: SubscriptionName,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--property",
            metavar="NAME=VALUE",
            help="Property of the subscription; may be repeated.",
        ),
    ] = None,
    clear: Annotated[bool, typer.Option("-c", "--clear", help="Remove all properties.")] = False,
) -> None:
    """Replace the properties of a subscription."""
    if clear == bool(properties):
        raise SettingsError("-p", "give properties, or --clear")
    with current().admin() as admin:
        admin.put(
            subscription_path(topic, subscription, "properties"), pairs("-p", properties or [])
        )
    typer.echo(f"updated the properties of {subscription} of {topic}")


# ---- Acks without consumers ------------------------------------------------------


def skip(
    topic: TopicArgument,
    subscription: SubscriptionName,
    count: Annotated[int, typer.Option("-n", "--count", help="Number of entries.", min=1)],
) -> None:
    """Skip the next entries of a subscription; a batch counts as one."""
    with current().admin() as admin:
        admin.post(subscription_path(topic, subscription, "skip", str(count)))
    typer.echo(f"skipped {count} entries on {subscription} of {topic}")


def skip_damaged(topic: TopicArgument, subscription: SubscriptionName) -> None:
    """Skip the damaged entry that a subscription is stuck at.

    The stats of the topic say where it is (damagedPosition). If there are more, the subscription
    stops at the next. Apache Pulsar has only autoSkipNonRecoverableData.
    """
    with current().admin() as admin:
        admin.post(subscription_path(topic, subscription, "skipDamaged"))
    typer.echo(f"skipped the damaged entry on {subscription} of {topic}")


def clear_backlog(topic: TopicArgument, subscription: SubscriptionName, yes: Yes = False) -> None:
    """Acknowledge all messages of a subscription."""
    confirm_subscription("Acknowledge all of them?", topic, subscription, yes=yes)
    with current().admin() as admin:
        admin.post(subscription_path(topic, subscription, "skip_all"))
    typer.echo(f"cleared the backlog of {subscription} of {topic}")


def expire_messages(
    topic: TopicArgument,
    subscription: SubscriptionName,
    expire_time: Annotated[
        str | None,
        typer.Option(
            "-t", "--expireTime", help="Age of the messages to expire: seconds, or e.g. 2h."
        ),
    ] = None,
    position: Annotated[
        str | None,
        typer.Option("-p", "--position", metavar="L:E", help="Expire messages up to this one."),
    ] = None,
    exclude: Annotated[
        bool, typer.Option("-e", "--exclude-position", help="Exclude that message itself.")
    ] = False,
) -> None:
    """Acknowledge messages older than a time, or up to a message."""
    from magnetar.rest.id_text import place_json

    if (expire_time is None) == (position is None):
        raise SettingsError("-t", "give either --expireTime or --position")
    with current().admin() as admin:
        if expire_time is not None:
            seconds = str(duration_s("-t", expire_time))
            admin.post(subscription_path(topic, subscription, "expireMessages", seconds))
        elif position is not None:
            body: dict[str, Any] = {**place_json("-p", position), "isExcluded": exclude}
            admin.post(subscription_path(topic, subscription, "expireMessages"), body)
    typer.echo(f"expired messages on {subscription} of {topic}")


def expire_all(
    topic: TopicArgument,
    expire_time: Annotated[
        str,
        typer.Option(
            "-t", "--expireTime", help="Age of the messages to expire: seconds, or e.g. 2h."
        ),
    ],
) -> None:
    """Acknowledge messages older than a time, on all subscriptions of a topic."""
    seconds = str(duration_s("-t", expire_time))
    with current().admin() as admin:
        admin.post(topic_path(topic, "all_subscription", "expireMessages", seconds))
    typer.echo(f"expired messages on all subscriptions of {topic}")


def reset_cursor(
    topic: TopicArgument,
    subscription: SubscriptionName,
    ago: Annotated[
        str | None,
        typer.Option("-t", "--time", help="Reset to this long ago: seconds, or e.g. 30m, 2h, 7d."),
    ] = None,
    message_id: Annotated[
        str | None,
        typer.Option(
            "-m", "--messageId", metavar="L:E[:I]", help="Reset to this message, or to earliest."
        ),
    ] = None,
    exclude: Annotated[
        bool, typer.Option("-e", "--exclude-reset-position", help="Reset to the message after it.")
    ] = False,
) -> None:
    """Reset a subscription to a time or a message."""
    from magnetar.rest.id_text import place_json

    if (ago is None) == (message_id is None):
        raise SettingsError("-t", "give either --time or --messageId")
    with current().admin() as admin:
        if ago is not None:
            moment = str(int((time.time() - duration_s("-t", ago)) * 1000))
            admin.post(subscription_path(topic, subscription, "resetcursor", moment))
        elif message_id is not None:
            body: dict[str, Any] = {**place_json("-m", message_id), "isExcluded": exclude}
            admin.post(subscription_path(topic, subscription, "resetcursor"), body)
    typer.echo(f"reset {subscription} of {topic}")


def skip_messages(
    topic: TopicArgument,
    subscription: SubscriptionName,
    triplets: Annotated[
        list[str] | None,
        typer.Option(
            "--messageId-triplet",
            metavar="L:E[:I]",
            help="Message id: ledger:entry or ledger:entry:batchIndex; may be repeated.",
        ),
    ] = None,
    base64s: Annotated[
        list[str] | None,
        typer.Option(
            "--messageId-base64", metavar="B", help="Message id in base64; may be repeated."
        ),
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            metavar="FILE",
            help="File with ids or output of peek --json, one per line; - is standard input.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the messages, and change nothing.")
    ] = False,
    no_recall: Annotated[
        bool,
        typer.Option("--no-recall", help="Do not take messages back that consumers have queued."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Skip messages by id: all of them or, if an id is invalid, none."""
    from magnetar.cli.skip.skip import run_skip

    run_skip(
        topic,
        subscription,
        triplets or [],
        base64s or [],
        from_file,
        dry_run=dry_run,
        recall=False if no_recall else None,
        as_json=as_json,
    )


# ---- Looking ---------------------------------------------------------------------


def peek(
    topic: TopicArgument,
    subscription: SubscriptionName,
    count: Annotated[int, typer.Option("-n", "--count", help="Number of messages.", min=1)] = 1,
    hex: Annotated[bool, typer.Option("--hex", help="Print message contents as hex.")] = False,
    hide_content: Annotated[
        bool,
        typer.Option(
            "--hide-content", help="Print the size of each message instead of its content."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the next messages of a subscription without acknowledging them.

    For a partitioned topic, that many of each partition are shown.
    """
    from magnetar.cli.message.peek import run_peek

    run_peek(topic, subscription, count, as_json=as_json, hex=hex, hide_content=hide_content)


def examine_messages(
    topic: TopicArgument,
    initial_position: Annotated[
        str,
        typer.Option(
            "-i", "--initialPosition", help="End of the topic to start from: earliest or latest."
        ),
    ] = "latest",
    message_position: Annotated[
        int,
        typer.Option(
            "-m",
            "--messagePosition",
            help="Number of the message, counted from that end, starting at 1.",
            min=1,
        ),
    ] = 1,
    as_json: Json = False,
) -> None:
    """Show the n-th entry of a topic, from either end."""
    from magnetar.cli.message.peek import run_examine

    run_examine(topic, initial_position, message_position, as_json=as_json)


def get_message_by_id(
    topic: TopicArgument,
    ledger_id: Annotated[int, typer.Option("-l", "--ledgerId", min=0, help="Ledger of the entry.")],
    entry_id: Annotated[
        int, typer.Option("-e", "--entryId", min=0, help="Id of the entry in its ledger.")
    ],
    as_json: Json = False,
) -> None:
    """Show the messages of an entry."""
    from magnetar.cli.message.peek import run_get

    run_get(topic, ledger_id, entry_id, as_json=as_json)


def ack_state(
    topic: TopicArgument,
    subscription: SubscriptionName,
    first: Annotated[
        str | None,
        typer.Option("--from", metavar="L:E", help="Position to start from, for more pages."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", help="Number of holes and batches to show.", min=1, max=10_000)
    ] = 1000,
    as_json: Json = False,
) -> None:
    """Show what is acknowledged, down to batch indexes (Magnetar only)."""
    from magnetar.cli.status.stats_table import print_ack_state

    with current().admin() as admin:
        query = {"from": first, "limit": limit}
        found = admin.get(subscription_path(topic, subscription, "ackState"), **query)
    print_ack_state(f"{subscription} of {topic}", found, as_json=as_json)


_PANEL: Final = "Subscriptions"


def add_subscription_commands(target: typer.Typer, *, as_topics: bool) -> None:
    """Gives an app the verbs of subscriptions, under the names it has for them."""
    panel = _PANEL if as_topics else None
    verbs: list[tuple[str, str, Callable[..., None]]] = [
        ("list", "subscriptions", list_subscriptions),
        ("create", "create-subscription", create),
        ("delete", "unsubscribe", delete),
        ("get-properties", "get-subscription-properties", get_properties),
        ("update-properties", "update-subscription-properties", update_properties),
        ("peek", "peek-messages", peek),
        ("skip", "skip", skip),
        ("skip-messages", "skip-messages", skip_messages),
        ("skip-damaged", "skip-damaged", skip_damaged),
        ("clear-backlog", "clear-backlog", clear_backlog),
        ("expire-messages", "expire-messages", expire_messages),
        ("reset-cursor", "reset-cursor", reset_cursor),
        ("ack-state", "ack-state", ack_state),
    ]
    for name, topics_name, verb in verbs:
        target.command(topics_name if as_topics else name, rich_help_panel=panel)(verb)
    if as_topics:
        target.command("expire-messages-all-subscriptions", rich_help_panel=panel)(expire_all)
        target.command("examine-messages")(examine_messages)
        target.command("get-message-by-id")(get_message_by_id)


add_subscription_commands(app, as_topics=False)
