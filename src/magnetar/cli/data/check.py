"""`magnetar check DIR`: is this data directory what it should be?

Storage verifies its own files and knows no cursor but as bytes. So here every cursor is
made from its bytes and asked as well, and SQLite is asked about the catalog, a copy of it:
opening the catalog itself would write. It must be what the journal says of it.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from magnetar.cli.console import counted, printable, status
from magnetar.cli.exit_code import FOUND_WRONG
from magnetar.errors import CatalogLossError, CorruptAckError, CorruptionError, DiskError

if TYPE_CHECKING:
    from magnetar.cli.data.directory import DataDirectory
    from magnetar.storage import CatalogMark, Violation
    from magnetar.storage.state import LogState

__all__ = ["check", "summary_of", "verify"]


def check(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The data directory.", show_default=False)
    ],
) -> None:
    """Verify a data directory, byte by byte.

    Nothing is changed. The exit code is 0 if all is well, 1 if something is not, and 2 if
    the directory cannot be checked.
    """
    with status(f"checking {printable(str(directory))}"):
        violations, summary = verify(directory)
    for violation in violations:
        typer.echo(printable(f"{violation.path or directory}: {violation.reason}"))
    if violations:
        raise typer.Exit(FOUND_WRONG)
    typer.echo(printable(f"{directory}: no violations in {summary}"))


def verify(directory: Path) -> "tuple[list[Violation], str]":
    """Returns all violations, and what was looked at; raises if that cannot be done."""
    from magnetar import storage
    from magnetar.cli.data.directory import DataDirectory, open_disk
    from magnetar.storage.recovery import recover

    with open_disk(directory) as (disk, salt):
        violations = storage.check(disk)
        try:
            found = DataDirectory(disk, salt, recover(disk, salt))
        except CorruptionError:
            violations.extend(_catalog_violations(directory, None))
            return violations, ""  # what is wrong has been said
        violations.extend(_catalog_violations(directory, found.state.catalog))
        violations.extend(_cursor_violations(found))
        violations.extend(_transaction_violations(found))
        return violations, "; ".join((summary_of(found.state), *_notes(found)))


def _notes(directory: "DataDirectory") -> list[str]:
    """Returns what a start will log: a crash leaves such traces, and so does the loss of an end."""
    recovered = directory.recovered
    cuts = [f"a start will cut it: {cut}" for cut in recovered.cuts]
    return cuts + [f"its end may be missing: {doubt}" for doubt in recovered.doubts]


def _cursor_violations(directory: "DataDirectory") -> "Iterator[Violation]":
    from magnetar.storage import Violation

    for topic in directory.topics():
        ledgers = directory.ledgers(topic)
        for cursor_id in topic.cursor_ids:
            name = directory.state.cursors[cursor_id].name
            try:
                directory.cursor(cursor_id, ledgers).check()
            except (AssertionError, CorruptAckError, CorruptionError) as error:
                yield Violation(f"cursor {cursor_id} ({name} of {topic.name})", str(error))


def _transaction_violations(directory: "DataDirectory") -> "Iterator[Violation]":
    """What an open transaction acks must be something that its commit can write."""
    from magnetar.storage import Violation

    state = directory.state
    for transaction in directory.transactions():
        name = f"transaction (0,{transaction.number})"
        try:
            directory.owner(transaction)
            for cursor_id, delta in directory.pending(transaction):
                cursor = state.cursors.get(cursor_id)
                if cursor is None:
                    continue
                for ledger_id, entries, parts in delta.ledgers:
                    count = _entries_of(state, cursor.topic_id, ledger_id)
                    last = max([*entries, *(entry for entry, _ in parts)], default=-1)
                    if last >= count >= 0:
                        reason = f"it acks {ledger_id}:{last}, which {cursor.name} has not got"
                        yield Violation(name, reason)
        except (CorruptAckError, CorruptionError) as error:
            yield Violation(name, str(error))


def _entries_of(state: "LogState", topic_id: int, ledger_id: int) -> int:
    """Returns how many entries of a ledger a topic has; -1 if it was trimmed."""
    ledger = state.ledgers.get(ledger_id)
    if ledger is None:
        return -1
    return ledger.index.count() if ledger.topic_id == topic_id else 0


def _catalog_violations(directory: Path, known: "CatalogMark | None") -> "list[Violation]":
    """`known` is what the journal says of the catalog."""
    from magnetar.storage import Catalog, Violation
    from magnetar.storage.catalog.catalog import FILE

    if not (directory / FILE).exists():
        return (
            [] if known is None else [Violation(FILE, "it is missing, and the journal knows one")]
        )
    with tempfile.TemporaryDirectory() as scratch:
        try:
            for file in directory.glob(f"{FILE}*"):
                if not file.name.endswith("-shm"):
                    shutil.copyfile(file, Path(scratch) / file.name)
        except OSError as error:
            raise DiskError("read", FILE, error.strerror or str(error)) from error
        try:
            with contextlib.closing(Catalog(Path(scratch))) as catalog:
                problems = catalog.problems()
                lost = "" if known is None else catalog.mark.follows(known)
                return [Violation(FILE, text) for text in (*problems, lost) if text]
        except (DiskError, CatalogLossError) as error:
            return [Violation(FILE, error.reason.replace(f"{scratch}/", ""))]


def summary_of(state: "LogState") -> str:
    """Returns how much there is, in one line."""
    entries = sum(ledger.index.count() for ledger in state.ledgers.values())
    lost = sum(1 for position in state.lost if position.ledger_id in state.ledgers)
    parts = [
        counted(len(state.topics), "topic"),
        counted(len(state.ledgers), "ledger"),
        counted(entries, "entry"),
        counted(len(state.cursors), "cursor"),
    ]
    if state.transactions.open:
        parts.append(counted(len(state.transactions.open), "open transaction"))
    if lost:
        parts.insert(3, f"{lost} of them left out by a backup, since they were damaged")
    return ", ".join(parts)
