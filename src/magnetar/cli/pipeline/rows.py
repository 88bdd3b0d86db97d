"""What pipelines found, as tables on the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from magnetar.cli.console import output, print_table, printable
from magnetar.cli.show import grid

__all__ = ["print_rows"]

# A cell that would fold over many lines.
CELL_MAX = 100


def print_rows(
    title: str,
    columns: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]],
    most: int = 10,
    total: int | None = None,
) -> None:
    """A table of some rows under a title; `columns` has the heading of each field, as `grid` does.

    `total` is how many there are, if rows are only some of them. Nothing is printed of no rows.
    """
    from magnetar.spark.pipelines.report.report import shown

    if not rows:
        return
    console = output()
    console.print(f"\n{title}")
    table = grid(*columns.values())
    for row in rows[:most]:
        texts = [printable(shown(row[name])) for name in columns]
        table.add_row(*(t if len(t) <= CELL_MAX else f"{t[: CELL_MAX - 1]}\u2026" for t in texts))
    print_table(console, table)
    count = len(rows) if total is None else total
    if count > most:
        console.print(f"and {count - most:,} more: {_where(len(rows), count)}")


def _where(kept: int, count: int) -> str:
    """Returns where the others are, of which only so many may be kept."""
    if kept >= count:
        return "see --json or --report"
    return f"--json and --report have {kept:,} of {count:,}"
