"""Numbers as they were at a scrape, and the lines that they become.

A row has the labels and the values of one level; a value of None has no line.
"""

from typing import Final

from magnetar.admin.metric.declaration import LEVELS, Level
from magnetar.storage.histogram import Histogram

__all__ = ["Sheet", "Values", "escaped", "histogram_lines", "labelled"]

Values = tuple[float | None, ...]
# So many lines are a piece of the text.
PIECE_ROWS: Final = 100


def labelled(**named: str) -> str:
    """Labels as a line has them."""
    return ",".join([f'{name}="{escaped(value)}"' for name, value in named.items()])


def escaped(value: str) -> str:
    """A label's value, with what would end it escaped."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class Sheet:
    """See the module."""

    def __init__(self) -> None:
        self.rows: dict[Level, list[tuple[str, Values]]] = {level: [] for level in LEVELS}
        # By namespace: topics that are not persistent.
        self.not_stored: dict[str, int] = {}

    def count(self) -> int:
        return sum([len(rows) for rows in self.rows.values()])

    def pieces(self, level: Level, column: int) -> range:
        """Where the pieces of one metric begin."""
        return range(0, max(len(self.rows[level]), 1), PIECE_ROWS)

    def text(self, level: Level, column: int, first: int) -> bytes:
        """Returns some lines of one metric, from a row on."""
        name, kind, help = level[column]
        lines = [f"# HELP {name} {help}\n# TYPE {name} {kind}\n"] if first == 0 else []
        for labels, values in self.rows[level][first : first + PIECE_ROWS]:
            value = values[column]
            if value is not None:
                lines.append(f"{name}{{{labels}}} {value}\n")
        return "".join(lines).encode()


def histogram_lines(name: str, help: str, found: Histogram, unit: int, labels: str) -> bytes:
    """The lines of a histogram, its figures divided by `unit`."""
    lines = [f"# HELP {name} {help}\n# TYPE {name} histogram\n"]
    total = 0
    for bound, count in zip((*found.bounds, None), found.counts, strict=True):
        total += count
        le = "+Inf" if bound is None else f"{bound / unit:g}" if unit > 1 else str(bound)
        lines.append(f'{name}_bucket{{{labels},le="{le}"}} {total}\n')
    lines.append(f"{name}_sum{{{labels}}} {int(found.sum) / unit}\n")
    lines.append(f"{name}_count{{{labels}}} {total}\n")
    return "".join(lines).encode()
