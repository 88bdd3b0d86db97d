"""What every command says and how it ends.

    0   done, and nothing is wrong
    1   the command did its work and found something wrong
    2   the command could not or would not begin; nothing was touched

Results go to standard output, everything else to standard error.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import typer
from rich.console import Console, RenderableType

from magnetar.errors import MagnetarError

__all__ = [
    "FOUND_WRONG",
    "REFUSED",
    "output",
    "print_table",
    "printable",
    "refusals",
    "refuse",
    "status",
]

FOUND_WRONG: Final = 1
REFUSED: Final = 2

# A pipe has no width, and what goes into one is for grep and not to be wrapped.
PIPE_WIDTH: Final = 1000
# Narrower than this a table would have to leave digits out; let the terminal fold lines.
WIDTH_MIN: Final = 100


def output() -> Console:
    """Standard output, which wraps only for a terminal."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE_WIDTH
    return console


def print_table(console: Console, table: RenderableType) -> None:
    """Prints a table so wide that its numbers fit."""
    width = console.width
    console.width = max(width, WIDTH_MIN)
    console.print(table)
    console.width = width


@contextmanager
def status(text: str) -> Iterator[None]:
    """Tells whoever sits at the terminal what takes so long."""
    console = Console(stderr=True, markup=False)
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        yield


def refuse(reason: str) -> typer.Exit:
    """Says why in one sentence; raise what it returns."""
    typer.echo(f"magnetar: {printable(reason)}", err=True)
    return typer.Exit(REFUSED)


@contextmanager
def refusals() -> Iterator[None]:
    """Turns the errors that Magnetar raises on purpose into refusals."""
    try:
        yield
    except MagnetarError as error:
        raise refuse(str(error)) from None


def printable(text: str) -> str:
    """The text without what a terminal would obey: names come from peers.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
