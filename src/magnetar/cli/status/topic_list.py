"""`magnetar topics list` on a terminal: topics with what is going on in them."""

import typer
from rich.text import Text

from magnetar.cli.console import output, print_table
from magnetar.cli.console import status as busy
from magnetar.cli.status.screen import topic_table, unit_note
from magnetar.cli.status.survey import survey
from magnetar.rest.admin_client import AdminClient

__all__ = ["print_topics"]


def print_topics(admin: AdminClient, namespace: str, domain: str) -> None:
    """Prints a table, a partitioned topic as one. Raises AdminError."""
    with busy(f"asking {admin.url}"):
        found = survey(admin, namespace, everywhere=False, domain=domain)
    if not found.topics:
        typer.echo(f"{namespace} has no {domain} topics", err=True)
        return
    console = output()
    views = [found.topics[name] for name in sorted(found.topics)]
    print_table(console, topic_table(views, namespace, console.width, one_line=False))
    for note in [*unit_note(found), *found.notes()]:
        console.print(Text(note.replace(": --all", ": magnetar status --all"), style="dim"))
