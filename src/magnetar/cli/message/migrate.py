"""`magnetar migrate`: everything a broker or cluster has, taken to another one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from magnetar.cli.console import counted, printable, warn
from magnetar.cli.exit_code import FOUND_WRONG
from magnetar.cli.target import OPERATION_S, Target, current

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from magnetar.arrow.plan.connection import Connection
    from magnetar.migrate.mover import Report, Teller

__all__ = ["migrate"]

JOURNAL: Final = Path("magnetar-migrate.journal")


def migrate(
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="URL", help="URL of the broker to move to.", show_default=False
        ),
    ],
    admin_url: Annotated[
        str,
        typer.Option(
            "--admin-url",
            metavar="URL",
            help="URL of the admin REST API to move to.",
            show_default=False,
        ),
    ],
    namespaces: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAMESPACE]...",
            help="Namespaces to move, as tenant/namespace (default: all).",
            show_default=False,
        ),
    ] = None,
    token: Annotated[
        str,
        typer.Option(
            "--token",
            metavar="TOKEN",
            help="Token for the broker to move to: a JWT, or file://PATH of a file with one.",
            show_default=False,
        ),
    ] = "",
    tls_trust_certs: Annotated[
        str,
        typer.Option(
            "--tls-trust-certs",
            metavar="FILE",
            help="CA certificates (PEM file) for the broker to move to.",
            show_default=False,
        ),
    ] = "",
    journal: Annotated[
        Path,
        typer.Option("--journal", metavar="FILE", help="Where it is written what was done."),
    ] = JOURNAL,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read both sides again, and compare them.")
    ] = False,
) -> None:
    """Move topics, messages and subscriptions to another broker or cluster.

    Subscriptions have left there exactly what they have left here. Messages keep their order,
    batches, chunks, keys, properties and times. Stop producers and consumers first. The same
    command goes on where it was interrupted.
    """
    # It brings ssl, which other commands start without.
    import asyncio

    from magnetar.migrate.journal_file import JournalFile
    from magnetar.migrate.mover import move

    values = {"url": to, "admin_url": admin_url, "token": token}
    if tls_trust_certs:
        values["tls_trust_certs"] = tls_trust_certs
    source, target = _connection(current()), _connection(Target(values))
    with JournalFile(journal) as file, _bar() as teller:
        report = asyncio.run(
            move(source, target, file, namespaces=namespaces or [], verify=verify, teller=teller)
        )
    _tell(report, to, verified=verify)


def _connection(target: Target) -> "Connection":
    from magnetar.arrow.plan.connection import Connection

    return Connection(
        target.url,
        admin_url=target.admin_url,
        auth_token=target.token(),
        tls_trust_certs_file_path=target.tls_trust_certs or "",
        tls_certificate_file_path=target.tls_certificate or "",
        tls_private_key_file_path=target.tls_key or "",
        operation_timeout_s=2 * OPERATION_S,
    )


def _tell(report: "Report", to: str, *, verified: bool) -> None:
    for problem in report.problems:
        warn(problem)
    for difference in report.differences:
        warn(f"differs: {difference}")
    topics, entries = counted(report.topics, "topic"), counted(report.entries, "entry")
    checked = ", which are the same on both sides" if verified and not report.differences else ""
    typer.echo(printable(f"moved {topics} with {entries} to {to}{checked}"))
    if report.problems or report.differences:
        raise typer.Exit(FOUND_WRONG)


class _Silent:
    """For who is not at a terminal."""

    def begin(self, doing: str, topics: int) -> None:
        pass

    def topic(self, name: str) -> None:
        pass

    def wrote(self, entries: int, size: int) -> None:
        pass


class _Bar:
    """What is done, how many topics are, and which one is now, with its entries."""

    def __init__(self, progress: "Progress") -> None:
        self._progress = progress
        self._task: TaskID | None = None
        self._doing = ""
        self._name = ""
        self._entries = 0

    def begin(self, doing: str, topics: int) -> None:
        self._doing = doing
        self._task = self._progress.add_task(doing, total=topics, completed=-1)

    def topic(self, name: str) -> None:
        self._name, self._entries = name, 0
        self._show(1)

    def wrote(self, entries: int, size: int) -> None:
        self._entries += entries
        self._show(0)

    def _show(self, advance: int) -> None:
        if self._task is not None:
            text = f"{self._doing} {self._name}: {counted(self._entries, 'entry')}"
            self._progress.update(self._task, description=printable(text), advance=advance)


@contextmanager
def _bar() -> Iterator["Teller"]:
    console = Console(stderr=True, markup=False)
    if not console.is_terminal:
        yield _Silent()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Bar(progress)
