"""A question before what cannot be taken back.

It is asked on a terminal alone, where somebody can answer it; `--yes` answers beforehand. Scripts
and cron jobs have no terminal, and to them these commands are what they always were, and what
`pulsar-admin` is: to want `--yes` of them would break every one that there is, and protect nobody,
since nobody would read the question. `namespaces clear-backlog` has always asked, terminal or
not, as `pulsar-admin` does.
"""

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, TypeAlias

import typer

from magnetar.cli.console import counted
from magnetar.cli.target import current
from magnetar.errors import MagnetarError
from magnetar.rest.path import topic_path

__all__ = ["Yes", "confirm", "confirm_subscription", "confirm_topic"]

Yes: TypeAlias = Annotated[
    bool, typer.Option("-y", "--yes", help="Do not ask for confirmation on a terminal.")
]


def confirm(question: str, *, yes: bool) -> None:
    """Ends the command unless the answer is yes."""
    if not yes and _somebody_is_there():
        typer.confirm(question, abort=True, err=True)


def confirm_topic(question: str, topic: str, *, yes: bool) -> None:
    """Asks what `confirm` does, after what is at stake: the messages of all subscriptions."""
    if not yes and _somebody_is_there():
        confirm(f"{_stakes(topic, '')}{question}", yes=False)


def confirm_subscription(question: str, topic: str, subscription: str, *, yes: bool) -> None:
    """Asks what `confirm` does, after what is at stake: the messages of one subscription."""
    if not yes and _somebody_is_there():
        confirm(f"{_stakes(topic, subscription)}{question}", yes=False)


def _somebody_is_there() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _stakes(topic: str, subscription: str) -> str:
    """Returns what there is to lose; nothing if that cannot be told, which the command will
    explain."""
    from magnetar.cli.status.amount import bytes_text
    from magnetar.cli.status.view import TopicView

    with suppress(MagnetarError):
        view = TopicView(topic)
        view.add(_stats(topic))
        noun = "message" if view.in_messages else "entry"
        if not subscription:
            several = counted(len(view.subscriptions), "subscription")
            stored = bytes_text(view.storage_bytes)
            return f"{topic} has {stored}, and {counted(view.backlog, noun)} unacked on {several}. "
        if subscription in view.subscriptions:
            backlog = view.subscriptions[subscription].backlog
            return f"{subscription} of {topic} has {counted(backlog, noun)} unacked. "
    return ""


def _stats(topic: str) -> Mapping[str, object]:
    """Raises MagnetarError."""
    with current().admin() as admin:
        partitions = admin.get(topic_path(topic, "partitions"), checkAllowAutoCreation=False)
        count = partitions.get("partitions") if isinstance(partitions, dict) else 0
        if count:
            found = admin.get(topic_path(topic, "partitioned-stats"), perPartition=False)
        else:
            found = admin.get(topic_path(topic, "stats"), getPreciseBacklog=True)
    return found if isinstance(found, dict) else {}
