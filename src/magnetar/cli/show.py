"""Answers of admin REST on the terminal: names by line, values as tables, JSON for programs."""

import json
from collections.abc import Sequence
from typing import Final

import typer
from rich import box
from rich.table import Table

from magnetar.cli.console import output, print_table, printable

__all__ = ["cell", "grid", "runs", "show_json", "show_names", "show_rows", "show_value"]

NAME_WIDTH_MIN: Final = 12


def show_json(value: object) -> None:
    """Prints one JSON document."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show_names(names: object, *, as_json: bool) -> None:
    """A list of names, each on a line."""
    if as_json or not isinstance(names, list):
        show_json(names)
        return
    for name in names:
        typer.echo(printable(str(name)))


def show_value(value: object, *, as_json: bool) -> None:
    """Whatever it is, in the form that suits it."""
    if as_json:
        show_json(value)
    elif value is None:
        typer.echo("not set")
    elif isinstance(value, dict):
        table = grid("name", "value")
        for name in value:
            table.add_row(printable(str(name)), printable(cell(value[name])))
        print_table(output(), table)
    elif isinstance(value, list):
        for item in value:
            typer.echo(printable(cell(item)))
    else:
        typer.echo(printable(cell(value)))


def show_rows(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table, with headings as `grid` has them."""
    table = grid(*headings)
    for row in rows:
        table.add_row(*(printable(cell(value)) for value in row))
    print_table(output(), table)


def grid(*headings: str) -> Table:
    """Returns an empty table, as all commands draw it.

    A heading that ends in `#` is that of numbers, one in `~` that of short words. Neither is
    ever folded: a number that is cut short is another number.
    """
    table = Table(
        box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style=""
    )
    for heading in headings:
        if heading.endswith("#"):
            table.add_column(heading[:-1], justify="right", no_wrap=True)
        elif heading.endswith("~"):
            table.add_column(heading[:-1], no_wrap=True)
        else:
            table.add_column(heading, overflow="fold", min_width=NAME_WIDTH_MIN)
    return table


def runs(indexes: list[int], most: int | None = None) -> str:
    """Ascending numbers, shortened; with `most`, no more runs of them than that.

    >>> runs([0, 1, 2, 5, 7, 8]), runs([1, 3, 5], 2)
    ('0-2, 5, 7-8', '1, 3, ...')
    """
    found: list[list[int]] = []
    for index in indexes:
        if found and found[-1][1] == index - 1:
            found[-1][1] = index
        else:
            found.append([index, index])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in found[:most]]
    return ", ".join([*shown, "..."] if len(shown) < len(found) else shown)


def cell(value: object) -> str:
    """Returns a value in one cell.

    >>> cell(1234567), cell(0.5), cell(True), cell(None), cell(["a", 1]), cell({"k": "v"})
    ('1234567', '0.5', 'yes', '-', 'a, 1', 'k=v')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, list):
        return ", ".join(cell(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}={cell(item)}" for key, item in value.items())
    return str(value)
