"""What every command says, and that it ends as `exit_code` has it.

Results go to standard output, everything else to standard error.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import typer
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table

from magnetar.cli.advice import advised
from magnetar.cli.exit_code import REFUSED, exit_code_of
from magnetar.errors import MagnetarError

__all__ = [
    "counted",
    "output",
    "print_table",
    "printable",
    "progress_bytes",
    "refusals",
    "refuse",
    "status",
    "track",
    "warn",
]

# A pipe has no width, and what goes into one is for grep and not to be wrapped.
PIPE_WIDTH: Final = 1000
# What a table gets whose digits do not fit the terminal; that may fold the lines.
WIDTH_MIN: Final = 100


def output() -> Console:
    """Standard output, which wraps only for a terminal."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE_WIDTH
    return console


def print_table(console: Console, table: RenderableType) -> None:
    """Prints a table so wide that its numbers fit, and no wider than need be."""
    width = console.width
    inner = table.renderable if isinstance(table, Padding) else table
    if not isinstance(inner, Table) or _least_width(inner) + 2 > width:
        console.width = max(width, WIDTH_MIN)
    console.print(table)
    console.width = width


def _least_width(table: Table) -> int:
    """Returns how narrow a table can be without losing a digit: names are folded, numbers are
    not."""
    total = 0
    for column in table.columns:
        least = column.min_width or 1
        if column.no_wrap:
            texts = [str(column.header), *(str(cell) for cell in column.cells)]
            least = max(cell_len(line) for text in texts for line in text.split("\n"))
        total += least + 2
    return total


@contextmanager
def status(text: str) -> Iterator[None]:
    """Shows on a terminal what takes so long."""
    console = Console(stderr=True, markup=False)
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        yield


T = TypeVar("T")


def track(items: Iterable[T], text: str, total: int) -> Iterator[T]:
    """Yields the items, with a bar for whoever sits at the terminal; for work that may take
    long."""
    console = Console(stderr=True, markup=False)
    if not console.is_terminal:
        yield from items
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
    with Progress(*columns, console=console, transient=True) as progress:
        yield from progress.track(items, total=total, description=text)


@contextmanager
def progress_bytes(text: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for copying: what it gives is called with the bytes done and the bytes in all."""
    console = Console(stderr=True, markup=False)
    if not console.is_terminal:
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), Remaining())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(text, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def refuse(reason: str, code: int = REFUSED) -> typer.Exit:
    """Prints the reason in one sentence; the caller raises what it returns."""
    warn(reason)
    return typer.Exit(code)


def warn(text: str) -> None:
    """Prints a warning to standard error."""
    typer.echo(f"magnetar: {printable(text)}", err=True)


@contextmanager
def refusals() -> Iterator[None]:
    """Turns the errors that Magnetar raises on purpose into refusals."""
    try:
        yield
    except MagnetarError as error:
        raise refuse(advised(error), exit_code_of(error)) from None


def printable(text: str) -> str:
    """Returns the text without what a terminal would obey: names come from peers.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def counted(count: int, noun: str) -> str:
    """Returns a number and its noun.

    >>> counted(1, "entry"), counted(2000, "entry"), counted(0, "topic")
    ('1 entry', '2,000 entries', '0 topics')
    """
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun}"
