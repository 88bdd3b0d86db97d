"""The tables of `status`, `top` and `topics list`."""

import time
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from magnetar.cli.console import counted, printable
from magnetar.cli.show import NAME_WIDTH_MIN, grid
from magnetar.cli.status.amount import age_text, bytes_text, count_text, rate_text, short_name
from magnetar.cli.status.broker_view import BrokerView
from magnetar.cli.status.survey import Survey
from magnetar.cli.status.view import SubscriptionView, TopicView, oldest

__all__ = [
    "heading",
    "oldest_text",
    "subscription_table",
    "topic_table",
    "totals",
    "unit_note",
]

# Columns of a terminal from which on everything is shown.
WIDE: Final = 100
ENTRIES: Final = "the backlog counts entries, as Apache Pulsar does: a batch is one"


def heading(broker: BrokerView, seen: str = "") -> Text:
    """Returns which broker this is, and when it was looked at."""
    text = Text(printable(broker.url), style="bold")
    text.append(f"  version {printable(broker.version)}", style="not bold")
    if broker.up_s is not None:
        text.append(f", up {age_text(broker.up_s)}", style="not bold")
    if seen:
        text.append(f", at {seen}", style="not bold")
    return text


def totals(broker: BrokerView, found: Survey) -> RenderableType:
    """Rates, backlog, counts and disk, in two columns."""
    views = list(found.topics.values())
    backlog = sum(view.backlog for view in views)
    stored = sum(view.storage_bytes for view in views)
    # Of topics that were not asked nothing is known.
    least = "at least " if found.uncounted else ""
    left = [
        ("in", _rate([v.rate_in for v in views], [v.bytes_in for v in views])),
        ("out", _rate([v.rate_out for v in views], [v.bytes_out for v in views])),
        ("backlog", least + counted(backlog, "message" if _in_messages(views) else "entry")),
        ("oldest unacked", oldest_text(oldest([view.oldest_ms for view in views]))),
        ("disk", f"{bytes_text(stored)} stored{_room(broker)}"),
    ]
    right = [
        ("topics", f"{len(views):,}"),
        ("subscriptions", f"{sum(len(view.subscriptions) for view in views):,}"),
        ("producers", f"{sum(view.producers for view in views):,}"),
        ("consumers", f"{sum(view.consumers for view in views):,}"),
        ("connections", count_text(broker.connections)),
    ]
    table = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "left", "left", "right"):
        table.add_column(justify=justify, no_wrap=True)
    for (name, value), (other, number) in zip(left, right, strict=True):
        table.add_row(Text(name, style="dim"), value, Text(other, style="dim"), number)
    return table


def _rate(messages: Sequence[float], sizes: Sequence[float]) -> str:
    return f"{rate_text(sum(messages))} messages/s, {bytes_text(sum(sizes))}/s"


def _room(broker: BrokerView) -> str:
    if broker.free_bytes is not None:
        return f", {bytes_text(broker.free_bytes)} free"
    return ", in memory" if broker.in_memory else ""


def _in_messages(views: Sequence[TopicView]) -> bool:
    return all(view.in_messages for view in views)


def unit_note(found: Survey) -> list[str]:
    """Returns what the backlog counts, if it is not messages."""
    return [] if _in_messages(list(found.topics.values())) else [ENTRIES]


def oldest_text(oldest_ms: int | None) -> str:
    """Returns the age of a message; a dash if there is none, a question mark if nobody knows."""
    if oldest_ms is None:
        return "?"
    return age_text(time.time() - oldest_ms / 1000) if oldest_ms else "-"


def subscription_table(subscriptions: Sequence[SubscriptionView], namespace: str) -> Table:
    """Returns a table of the subscriptions where work is left."""
    table = grid("topic", "subscription", "backlog#", "oldest#", "unacked#", "out/s#", "consumers#")
    for one in subscriptions:
        idle = one.waiting and not one.consumers
        table.add_row(
            printable(short_name(one.topic, namespace)),
            printable(one.name),
            f"{one.backlog:,}",
            oldest_text(one.oldest_ms),
            f"{one.unacked:,}",
            rate_text(one.rate_out),
            Text(f"{one.consumers:,}", style="yellow" if idle else ""),
        )
    return table


# What a row shows, with its heading, and whether there is room for it on a narrow terminal.
COLUMNS: Final = (
    ("name", "topic", True),
    ("rate", "in/s#", True),
    ("rate", "out/s#", True),
    ("backlog", "backlog#", True),
    ("age", "oldest#", True),
    ("stored", "stored#", False),
    ("producers", "producers#", False),
    ("consumers", "consumers#", True),
)


def topic_table(
    topics: Sequence[TopicView], namespace: str, width: int, *, chosen: str = "", one_line: bool
) -> Table:
    """Topics, each on a line if it must be; what they are sorted by is marked."""
    shown = [number for number, (*_, always) in enumerate(COLUMNS) if always or width >= WIDE]
    headings = [COLUMNS[number][1] for number in shown]
    rows = [[_topic_cells(view, namespace)[number] for number in shown] for view in topics]
    if one_line:
        _cut_names(headings, rows, width)
    table = grid(*headings)
    for row in rows:
        table.add_row(*row)
    for number, column in zip(shown, table.columns, strict=True):
        if COLUMNS[number][0] == chosen:
            column.header = Text(str(column.header), style="reverse")
    return table


def _cut_names(headings: Sequence[str], rows: list[list[RenderableType]], width: int) -> None:
    """Shortens names so that no row needs a second line and no number is cut."""
    room = width
    for column in range(1, len(headings)):
        cells = [headings[column].removesuffix("#"), *[str(row[column]) for row in rows]]
        room -= 2 + max(cell_len(cell) for cell in cells)
    for row in rows:
        row[0] = _cut(str(row[0]), max(room, NAME_WIDTH_MIN))


def _cut(name: str, room: int) -> str:
    return name if cell_len(name) <= room else f"{set_cell_size(name, room - 1)}…"


def _topic_cells(view: TopicView, namespace: str) -> list[RenderableType]:
    name = printable(short_name(view.name, namespace))
    if view.partitions:
        name += f" ({counted(view.partitions, 'partition')})"
    if not view.known:
        return [name, *["-"] * (len(COLUMNS) - 1)]
    idle = view.backlog and not view.consumers
    return [
        name,
        rate_text(view.rate_in),
        rate_text(view.rate_out),
        f"{view.backlog:,}",
        oldest_text(view.oldest_ms),
        bytes_text(view.storage_bytes),
        f"{view.producers:,}",
        Text(f"{view.consumers:,}", style="yellow" if idle else ""),
    ]
