"""`magnetar topics compact` and `compaction-status`: compactions, begun and looked at."""

import time
from typing import Annotated, Final

import typer

from magnetar.cli.confirm import Yes, confirm_topic
from magnetar.cli.exit_code import FOUND_WRONG
from magnetar.cli.option import Json, TopicArgument
from magnetar.cli.show import show_json
from magnetar.cli.target import current
from magnetar.rest.path import topic_path

__all__ = ["add_compaction"]

# How often somebody who waits asks.
ASK_S: Final = 0.2

RUNNING: Final = "RUNNING"
TEXTS: Final = {
    "NOT_RUN": "not compacted yet",
    RUNNING: "compaction is running",
    "SUCCESS": "compacted",
}


def add_compaction(app: typer.Typer) -> None:
    """Gives an app the commands."""
    app.command()(compact)
    app.command("compaction-status")(compaction_status)
    app.command("delete-compacted-view")(delete_compacted_view)


def compact(topic: TopicArgument) -> None:
    """Compact a topic: keep the last message of each key, beside the topic itself."""
    with current().admin() as admin:
        admin.put(topic_path(topic, "compaction"))
    typer.echo(f"compacting {topic}")


def compaction_status(
    topic: TopicArgument,
    wait: Annotated[
        bool, typer.Option("-w", "--wait-complete", help="Wait until the compaction has ended.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show how the last compaction of a topic stands; exit with 1 if it failed."""
    path = topic_path(topic, "compaction")
    with current().admin() as admin:
        found = admin.get(path)
        while wait and _field(found, "status") == RUNNING:
            time.sleep(ASK_S)
            found = admin.get(path)
    status = _field(found, "status")
    if as_json:
        show_json(found)
    else:
        typer.echo(TEXTS.get(status, f"compaction failed: {_field(found, 'lastError')}"))
    if status == "ERROR":
        raise typer.Exit(FOUND_WRONG)


def delete_compacted_view(topic: TopicArgument, yes: Yes = False) -> None:
    """Delete the compacted view of a topic; the topic itself stays as it is."""
    confirm_topic("Delete its compacted view?", topic, yes=yes)
    with current().admin() as admin:
        admin.delete(topic_path(topic, "compaction"))
    typer.echo(f"deleted the compacted view of {topic}")


def _field(found: object, name: str) -> str:
    return str(found.get(name, "")) if isinstance(found, dict) else ""
