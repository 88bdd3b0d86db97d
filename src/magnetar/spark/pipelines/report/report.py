"""A report of a pipeline: one HTML file that needs nothing else, with facts, tables and plots.

    report = Report("Archive of orders")
    report.facts({"messages": 1_200, "backlog": 0})
    report.table("By day", ["day", "messages"], [["2026-01-31", 1_200]])
    report.plot("By day", kind="bar", x=["2026-01-31"], y=[1_200], labels=("day", "messages"))
    report.write(Path("archive.html"))

What is shown comes from messages and peers, so all of it is escaped; plots are SVG in the file,
in colours that serve light and dark. Parts appear in the order in which they were added.
"""

import html
import io
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

__all__ = ["Report", "shown"]

# A page of more rows is for a program and not for people; the rest is counted.
ROWS_MAX = 500
# A plot of more bars than this shows the name of every few.
NAMES_MAX = 12
NAME_MAX = 36
# A cell that is not broken over lines.
SHORT_MAX = 24
# A bar with a longer name lies on its side.
NAME_SHORT = 11

_COLOURS = ("#3d7ff5", "#e0782f", "#2aa876", "#b35bd1", "#d14a61", "#8a8f98")
# What went wrong, or was made to.
_BAD = "#d14a61"
# Texts of plots have this colour until it is replaced by that of the page.
_INK = "#010203"

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1c2128; --dim: #59636e; --page: #fff; --line: #d5dae0;
  --tile: #f5f7f9; --good: #1a7f37; --bad: #c5221f; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e3e8ee; --dim: #9aa5b1; --page: #14181d; --line: #343c46; --tile: #1d232a;
    --good: #56d374; --bad: #ff7b72; }} }}
body {{ margin: 0 auto; max-width: 62rem; padding: 1.5rem; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }}
h1 {{ font-size: 1.6rem; margin: 0; overflow-wrap: anywhere; }}
h2 {{ font-size: 1.1rem; margin: 2rem 0 .5rem; overflow-wrap: anywhere; }}
p.made, p.more {{ color: var(--dim); margin: .25rem 0 1.5rem; }}
p.more {{ margin: .5rem 0 0; }}
p.verdict {{ font-size: 1.15rem; border-left: 4px solid; padding: .4rem .9rem;
  background: var(--tile); overflow-wrap: anywhere; }}
.good {{ color: var(--good); }}
.bad {{ color: var(--bad); font-weight: 600; }}
p.note {{ border-left: 3px solid #e0782f; padding-left: .75rem; overflow-wrap: anywhere; }}
dl {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: .75rem; }}
dl div {{ background: var(--tile); border: 1px solid var(--line); border-radius: 6px;
  padding: .6rem .8rem; }}
dt {{ color: var(--dim); font-size: .85rem; }}
dd {{ margin: 0; font-size: 1.15rem; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }}
dd.long {{ font-size: .95rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }}
td {{ overflow-wrap: anywhere; min-width: 4rem; }}
th {{ color: var(--dim); font-weight: 600; white-space: nowrap; }}
.n {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
.s {{ white-space: nowrap; }}
svg {{ width: 100%; min-width: 32rem; height: auto; color: var(--ink); }}
@media (max-width: 40rem) {{
  body {{ padding: 1rem; }}
  dl {{ grid-template-columns: repeat(2, 1fr); }} }}
</style>
</head>
<body>
<h1>{title}</h1>
<p class="made">{made}</p>
{parts}
</body>
</html>
"""


class Report:
    """See the module."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._parts: list[str] = []

    def facts(self, facts: Mapping[str, object]) -> None:
        """Names with their values, as tiles."""
        tiles = "\n".join(_tile(name, shown(value)) for name, value in facts.items())
        self._parts.append(f"<dl>\n{tiles}\n</dl>")

    def verdict(self, text: str, *, holds: bool) -> None:
        """Adds the sentence that tells it all: green if what must hold holds, else red."""
        kind = "good" if holds else "bad"
        self._parts.append(f'<p class="verdict {kind}">{_text(text)}</p>')

    def note(self, text: str) -> None:
        """A sentence that a reader should not miss."""
        self._parts.append(f'<p class="note">{_text(text)}</p>')

    def table(
        self,
        title: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        judged: str = "",
    ) -> None:
        """Rows of values; of very many only the first.

        What is true in the column `judged` is green, and what is false is red.
        """
        numbers = [
            bool(rows) and all(_is_number(row[i]) for row in rows) for i in range(len(columns))
        ]
        kinds = [' class="n"' if number else "" for number in numbers]
        head = _cells("th", columns, kinds)
        at = columns.index(judged) if judged else -1
        body = "\n".join(f"<tr>{_cells('td', row, kinds, at)}</tr>" for row in rows[:ROWS_MAX])
        self._title(title)
        self._parts.append(
            f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}\n</tbody></table></div>"
        )
        if not rows:
            self._parts.append('<p class="more">none</p>')
        elif len(rows) > ROWS_MAX:
            self._parts.append(f'<p class="more">and {len(rows) - ROWS_MAX:,} more</p>')

    def plot(
        self,
        title: str,
        *,
        kind: Literal["bar", "line"],
        x: Sequence[object],
        y: Sequence[float] | Mapping[str, Sequence[float]],
        labels: tuple[str, str] = ("", ""),
        marks: Sequence[tuple[float, str]] = (),
    ) -> None:
        """Values over `x`, or several series with their names; `labels` are those of the axes.

        `marks` are moments on the axis of a line plot, each with what happened then.
        """
        series = y if isinstance(y, Mapping) else {"": y}
        self._title(title)
        if not x:
            self._parts.append('<p class="more">none</p>')
            return
        self._parts.append(f'<div class="wide">{_svg(kind, x, series, labels, title, marks)}</div>')

    def to_html(self) -> str:
        made = datetime.now(UTC).strftime("written %Y-%m-%d %H:%M:%S UTC by magnetar")
        return _PAGE.format(title=_text(self.title), made=made, parts="\n".join(self._parts))

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes the file, whole or not at all."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        draft.write_text(self.to_html(), encoding="utf-8", errors="replace")
        draft.replace(target)
        return target

    def _title(self, text: str) -> None:
        self._parts.append(f"<h2>{_text(text)}</h2>")


def shown(value: object) -> str:
    """Returns a value as people read it.

    >>> shown(1234567), shown(0.5), shown(None), shown(True), shown(b"a\\xff")
    ('1,234,567', '0.5', '-', 'yes', "b'a\\\\xff'")
    """
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case _:
            return str(value)


def _is_number(value: object) -> bool:
    """Returns whether it belongs in a column of numbers; nothing may be there, too."""
    return isinstance(value, int | float | None) and not isinstance(value, bool)


def _plain(text: str) -> str:
    """Returns the text without what no font has."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _text(text: str) -> str:
    """Returns the text for a page, which does not obey it."""
    return html.escape(_plain(text))


def _tile(name: str, value: str) -> str:
    size = ' class="long"' if len(value) > NAME_MAX else ""
    return f"<div><dt>{_text(name)}</dt><dd{size}>{_text(value)}</dd></div>"


def _cells(tag: str, values: Sequence[object], kinds: list[str], judged: int = -1) -> str:
    cells = []
    for number, (value, kind) in enumerate(zip(values, kinds, strict=True)):
        text = shown(value)
        if number == judged:
            mark, verdict = ("\N{CHECK MARK}", "good") if value else ("\N{BALLOT X}", "bad")
            cells.append(f'<{tag} class="s {verdict}">{mark} {_text(text)}</{tag}>')
            continue
        short = ' class="s"' if len(text) <= SHORT_MAX else ""
        cells.append(f"<{tag}{kind or short}>{_text(text)}</{tag}>")
    return "".join(cells)


# ---- Plots -------------------------------------------------------------------


def _svg(
    kind: str,
    x: Sequence[object],
    series: Mapping[str, Sequence[float]],
    labels: tuple[str, str],
    title: str,
    marks: Sequence[tuple[float, str]],
) -> str:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    names = [_name(value) for value in x]
    lying = kind == "bar" and max(map(len, names)) > NAME_SHORT and len(names) <= 3 * NAMES_MAX
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "magnetar",
        # A dollar in a name is a dollar.
        "text.parse_math": False,
        "font.family": "sans-serif",
        "font.size": 9.0,
        "axes.formatter.use_mathtext": False,
        **dict.fromkeys(
            ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), _INK
        ),
    }
    with matplotlib.rc_context(style), warnings.catch_warnings():
        # Which letters there are is up to the font of the browser.
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        height = max(1.2, 0.27 * len(names) * len(series) + 0.7) if lying else 3.0
        figure = Figure(figsize=(9.0, height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        if kind == "line":
            _draw_lines(axes, x, names, series)
            _draw_marks(axes, marks)
        elif lying:
            _draw_lying(axes, names, series)
        else:
            _draw_bars(axes, names, series)
        _dress(axes, labels[::-1] if lying else labels, lying, named="" not in series)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inline(buffer.getvalue(), title)


def _name(value: object) -> str:
    text = _plain(shown(value))
    if len(text) <= NAME_MAX:
        return text
    # Long names often differ at their ends.
    half = NAME_MAX // 2
    return f"{text[: half - 1]}\N{HORIZONTAL ELLIPSIS}{text[-half:]}"


def _draw_lines(
    axes: Any, x: Sequence[object], names: list[str], series: Mapping[str, Sequence[float]]
) -> None:
    numeric = all(isinstance(value, int | float) for value in x)
    places: Sequence[Any] = x if numeric else range(len(x))
    mark = "o" if len(x) <= 60 else ""
    for colour, (name, values) in zip(_cycle(len(series)), series.items(), strict=True):
        axes.plot(places, values, color=colour, label=_name(name), marker=mark, markersize=3)
    axes.set_ylim(bottom=0)
    if not numeric:
        _tick(axes.set_xticks, names)
    elif all(isinstance(value, int) for value in x):
        axes.xaxis.get_major_locator().set_params(integer=True)


def _draw_marks(axes: Any, marks: Sequence[tuple[float, str]]) -> None:
    """Lines from top to bottom; their texts stand above the plot, each a step higher."""
    for number, (at, text) in enumerate(sorted(marks)):
        axes.axvline(at, color=_BAD, linewidth=1, linestyle="--")
        axes.annotate(
            _name(text),
            (at, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(3, 2 + 11 * (len(marks) - 1 - number)),
            textcoords="offset points",
            color=_BAD,
            fontsize=8,
            annotation_clip=False,
        )


def _draw_bars(axes: Any, names: list[str], series: Mapping[str, Sequence[float]]) -> None:
    width = 0.8 / len(series)
    for i, (colour, (name, values)) in enumerate(
        zip(_cycle(len(series)), series.items(), strict=True)
    ):
        places = [j + (i - (len(series) - 1) / 2) * width for j in range(len(names))]
        axes.bar(places, values, width=width, color=colour, label=_name(name))
    # A single bar is a bar and not a wall.
    margin = max(0.6, (8 - len(names)) / 2)
    axes.set_xlim(-margin, len(names) - 1 + margin)
    _tick(axes.set_xticks, names)


def _draw_lying(axes: Any, names: list[str], series: Mapping[str, Sequence[float]]) -> None:
    width = 0.8 / len(series)
    for i, (colour, (name, values)) in enumerate(
        zip(_cycle(len(series)), series.items(), strict=True)
    ):
        places = [j + (i - (len(series) - 1) / 2) * width for j in range(len(names))]
        axes.barh(places, values, height=width, color=colour, label=_name(name))
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def _tick(set_ticks: Any, names: list[str]) -> None:
    """Names below, of many every few."""
    step = -(-len(names) // NAMES_MAX)
    places = range(0, len(names), step)
    long = max(len(names[i]) for i in places) * len(places) > 110
    options = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if long else {}
    set_ticks(places, [names[i] for i in places], **options)


def _dress(axes: Any, labels: tuple[str, ...], lying: bool, *, named: bool) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.set_xlabel(_name(labels[0]))
    axes.set_ylabel(_name(labels[1]))
    axes.spines[["top", "right"]].set_visible(False)
    values = axes.xaxis if lying else axes.yaxis
    values.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    values.grid(True, color="#8a8f98", alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    if named:
        axes.legend(frameon=False)


def _cycle(count: int) -> list[str]:
    return [_COLOURS[i % len(_COLOURS)] for i in range(count)]


def _inline(svg: str, title: str) -> str:
    """Returns the drawing alone, in the colour of the page's text, without ids that others have
    too."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", svg)
    svg = svg.replace(_INK, "currentColor")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{_text(title)}" ', 1).strip()
