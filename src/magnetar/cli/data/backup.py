"""`magnetar backup` and `magnetar restore`: a data directory, copied while it is in use.

A backup is a data directory itself, so `check` and `dump` can look at it. It holds all that
was receipted before it began, and perhaps some of what came later. See `log_copy` for how.

What was published after the backup had ids as well, which clients may have kept, and no id
may name two messages. Every open of a store takes ids of its own time (see `storage/ids.py`);
a restored directory skips some besides, in case this machine's clock is behind.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from magnetar.cli.console import printable, progress_bytes, refuse, status
from magnetar.cli.exit_code import FOUND_WRONG

__all__ = ["backup", "restore"]

# More than a broker gives out between a backup and the day that it is needed, in all stripes.
IDS_APART: Final = 1 << 32


def backup(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The data directory.", show_default=False)
    ],
    target: Annotated[
        Path,
        typer.Argument(metavar="BACKUP", help="A new or empty directory.", show_default=False),
    ],
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave out damaged records, and list them.")
    ] = False,
) -> None:
    """Copy a data directory, even while a broker uses it.

    The copy holds everything that was confirmed before the command began. It is verified, and
    is a data directory itself. Damage is refused; with --skip-damaged, damaged entries and acks
    are left out and listed, and the exit code is 1 then.
    """
    from magnetar.cli.data.check import summary_of
    from magnetar.cli.data.log_copy import LogCopy

    with _filling(target, directory):
        copy = LogCopy(directory, target, skip_damaged=skip_damaged)
        with progress_bytes(f"copying {printable(str(directory))}") as advance:
            recovered = copy.run(advance)
    if copy.links:
        links = ", ".join(copy.links)
        typer.echo(printable(f"magnetar: left out, since they are links: {links}"), err=True)
    for loss in copy.losses:
        typer.echo(printable(f"magnetar: left out, since it is damaged: {loss}"), err=True)
    in_use = ", which is in use" if copy.live else ""
    typer.echo(printable(f"{directory}{in_use}: copied to {target}, {summary_of(recovered.state)}"))
    if copy.losses:
        raise typer.Exit(FOUND_WRONG)


def restore(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="BACKUP", help="A directory that `backup` made.", show_default=False
        ),
    ],
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A new or empty directory.", show_default=False),
    ],
) -> None:
    """Make a data directory for a broker from a backup.

    The backup is verified first and stays as it is.
    """
    from magnetar.cli.data.check import verify

    with status(f"checking {printable(str(source))}"):
        violations, summary = verify(source)
    if violations:
        for violation in violations:
            typer.echo(printable(f"{violation.path or source}: {violation.reason}"))
        raise refuse(f"{source} is damaged: nothing was restored", FOUND_WRONG)
    text = f"copying {printable(str(source))}"
    with _filling(directory, source), progress_bytes(text) as advance:
        _restore(source, directory, advance)
    typer.echo(printable(f"{directory}: restored from {source}, {summary}"))


def _restore(source: Path, directory: Path, advance: Callable[[int, int], None]) -> None:
    from magnetar.cli.data.directory import open_disk
    from magnetar.cli.data.log_copy import copy_file, copy_others, storing, sync_folder
    from magnetar.storage import FileDisk
    from magnetar.storage.catalog.catalog import FILE as CATALOG
    from magnetar.storage.data_format import write_format
    from magnetar.storage.disk.open_files import DIRECTORY_MODE
    from magnetar.storage.ids import IDS, encode_ids, read_ids

    with open_disk(source) as (disk, salt):
        names = [
            f"{folder}/{name}" for folder in ("journal", "index") for name in disk.names(folder)
        ]
        names += [name for name in disk.names("") if name.startswith(CATALOG)]
        names = [name for name in names if not name.endswith((".spare", ".tmp", "-shm"))]
        total = sum(disk.size(name) for name in names)
        done = 0
        with storing(directory):
            for name in names:
                (directory / name).parent.mkdir(DIRECTORY_MODE, exist_ok=True)
                copy_file(source / name, directory / name)
                done += disk.size(name)
                advance(done, total)
            copy_others(source, directory)
            for folder in ("journal", "index"):
                if (directory / folder).is_dir():
                    sync_folder(directory / folder)
        first = read_ids(disk, salt, 0) + IDS_APART
    target = FileDisk(directory)
    try:
        target.replace(IDS, encode_ids(first, salt))
        write_format(target, salt)
    finally:
        target.close()


@contextmanager
def _filling(target: Path, other: Path) -> Iterator[None]:
    """A directory that is new or empty, and is so again if it cannot be filled."""
    from magnetar.storage.disk.open_files import DIRECTORY_MODE

    made = not target.exists()
    if target.resolve().is_relative_to(other.resolve()):
        raise refuse(f"{target} is in {other}: name a directory elsewhere")
    try:
        if not made and (not target.is_dir() or any(target.iterdir())):
            raise refuse(f"{target} is not empty: name a directory that is new or empty")
        target.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    except OSError as error:
        raise refuse(f"cannot use {target}: {error.strerror or error}") from None
    try:
        yield
    except BaseException:
        for path in target.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        if made:
            target.rmdir()
        raise
