"""Figures of messages that several pipelines show: in all, and by time, key, producer.

A frame is looked at twice, however many figures there are: Spark's jobs cost more than rows do.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from magnetar.spark.pipelines.report.report import Report

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = [
    "ORDER",
    "TOP",
    "Groups",
    "Totals",
    "age_text",
    "bar_names",
    "figures",
    "groups_of",
    "iso",
    "plot_times",
    "sample_rows",
    "step_s",
    "timeline",
    "totals_of",
]

# Oldest first; no two messages are equal.
ORDER = ("publish_time", "topic", "ledger_id", "entry_id", "batch_index")
# Messages that are shown of many.
SAMPLE = 20
# Rows of a table that is ordered by count.
TOP = 20
# Bars of a timeline, at most.
BARS = 60
# Groups of each kind that leave Spark.
_GROUPS_MAX = 200
_STEPS_S = (1, 10, 60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


class Totals:
    """How many messages, from when to when, and how many of them are something."""

    def __init__(
        self, messages: int, oldest_s: int | None, newest_s: int | None, flags: dict[str, int]
    ) -> None:
        self.messages = messages
        self.oldest_s = oldest_s
        self.newest_s = newest_s
        self.flags = flags

    @property
    def step_s(self) -> int:
        return step_s((self.newest_s or 0) - (self.oldest_s or 0))


class Groups:
    """The largest groups of something, and how many groups there are in all."""

    def __init__(self, count: int, rows: list[dict[str, Any]]) -> None:
        self.count = count
        self.rows = rows


def totals_of(
    frame: "DataFrame", time: str = "publish_time", flags: "Mapping[str, Column] | None" = None
) -> Totals:
    """Counts a frame, and its rows for which a flag is true."""
    from pyspark.sql import functions as F

    seconds = F.unix_seconds(F.col(time))
    names = list(flags or {})
    sums = [F.count_if(flag) for flag in (flags or {}).values()]
    row = frame.agg(F.count("*"), F.min(seconds), F.max(seconds), *sums).first()
    assert row is not None
    return Totals(row[0], row[1], row[2], dict(zip(names, row[3:], strict=True)))


def figures(flags: "Mapping[str, Column] | None" = None) -> "list[Column]":
    """Returns what is told of a group: how many messages, from when to when, how many with a
    flag."""
    from pyspark.sql import functions as F

    return [
        F.count("*").alias("messages"),
        F.min("publish_time").alias("oldest"),
        F.max("publish_time").alias("newest"),
        *(F.count_if(flag).alias(name) for name, flag in (flags or {}).items()),
    ]


def groups_of(
    frame: "DataFrame", columns: Sequence[str], flags: "Mapping[str, Column] | None" = None
) -> dict[str, Groups]:
    """Returns the largest groups by each column, with their oldest and newest messages and
    flags."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    names = ["messages", "oldest", "newest", *(flags or {})]
    groups = frame.groupingSets(
        [[F.col(name)] for name in columns], *[F.col(name) for name in columns]
    ).agg(F.grouping_id().alias("which"), *figures(flags))
    kind = Window.partitionBy("which")
    ranked = groups.withColumns(
        {
            "rank": F.row_number().over(kind.orderBy(F.desc("messages"), "oldest")),
            "groups": F.count("*").over(kind),
        }
    )
    found = {name: Groups(0, []) for name in columns}
    # The bit of a column is 0 where it is grouped by; the first column has the highest.
    wholes = {((1 << len(columns)) - 1) ^ (1 << i): n for i, n in enumerate(reversed(columns))}
    for row in ranked.where(f"rank <= {_GROUPS_MAX}").orderBy("which", "rank").collect():
        column = wholes[row["which"]]
        found[column].count = row["groups"]
        found[column].rows.append(
            {column: row[column], **{name: _plain(row[name]) for name in names}}
        )
    return found


def sample_rows(frame: "DataFrame", limit: int = SAMPLE) -> list[dict[str, Any]]:
    """Returns the oldest messages of a frame, each as a row for people."""
    return [
        {
            "position": row["position"],
            "topic": row["topic"],
            "published": iso(row["publish_time"]),
            "key": row["key"],
            "producer": row["producer"],
            "value": row["value"] if row["bad_record"] is None else f"({row['bad_record']})",
        }
        for row in frame.orderBy(*ORDER).limit(limit).collect()
    ]


def timeline(rows: Sequence[Mapping[str, Any]], column: str, step: int) -> list[dict[str, Any]]:
    """Groups by number of step, in their order, with the empty ones between."""
    counts = {int(row[column]): int(row["messages"]) for row in rows if row[column] is not None}
    if not counts:
        return []
    bars: Sequence[int] = range(min(counts), max(counts) + 1)
    if len(bars) > 2 * BARS:
        # A span that no step covers: only what there is.
        bars = sorted(counts)
    return [{"from": iso(bar * step), "messages": counts.get(bar, 0)} for bar in bars]


def plot_times(report: Report, title: str, bars: Sequence[Mapping[str, Any]], noun: str) -> None:
    """A timeline in a report."""
    names = bar_names([bar["from"] for bar in bars])
    report.plot(title, kind="bar", x=names, y=[bar["messages"] for bar in bars], labels=("", noun))


def bar_names(moments: Sequence[str]) -> list[str]:
    """Moments with no more than tells them apart.

    >>> bar_names(["2026-01-31T12:00:00Z", "2026-01-31T12:00:10Z"])
    ['12:00:00', '12:00:10']
    >>> bar_names(["2026-01-31T12:00:00Z", "2026-02-01T00:00:00Z"])
    ['01-31 12:00', '02-01 00:00']
    >>> bar_names(["2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"])
    ['2026-01-31', '2026-02-01']
    """
    if len({moment[:10] for moment in moments}) <= 1:
        return [moment[11:19] for moment in moments]
    if {moment[11:19] for moment in moments} == {"00:00:00"}:
        return [moment[:10] for moment in moments]
    return [f"{moment[5:10]} {moment[11:16]}" for moment in moments]


def step_s(span_s: float) -> int:
    """Returns the width of a bar, so that not too many cover a span.

    >>> step_s(0), step_s(300), step_s(3600 * 24)
    (1, 10, 3600)
    """
    return next((one for one in _STEPS_S if span_s / one < BARS), _STEPS_S[-1])


def _plain(value: object) -> object:
    return iso(value) if isinstance(value, datetime) else value


def iso(moment: "datetime | float | None") -> str | None:
    """Returns a moment in UTC, as JSON has it.

    >>> iso(0), iso(None)
    ('1970-01-01T00:00:00Z', None)
    """
    if moment is None:
        return None
    if isinstance(moment, datetime):
        # Spark hands naive ones out, in the time zone of this process.
        moment = moment.timestamp()
    found = datetime.fromtimestamp(moment, UTC)
    kind = "milliseconds" if found.microsecond else "seconds"
    return found.isoformat(timespec=kind).replace("+00:00", "Z")


def age_text(seconds: float) -> str:
    """Returns an age as people say it, with two units at most.

    >>> age_text(0.4), age_text(75), age_text(3 * 86400 + 7200)
    ('0s', '1m 15s', '3d 2h')
    """
    left = max(int(seconds), 0)
    parts: list[str] = []
    for size, unit in _UNITS:
        if left >= size or (unit == "s" and not parts):
            parts.append(f"{left // size}{unit}")
            left %= size
        elif parts:
            break
    return " ".join(parts[:2])
