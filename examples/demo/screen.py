"""What one sees of a run: a live picture on a terminal, lines with the time elsewhere."""

import time
from dataclasses import dataclass, field
from types import TracebackType

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

# On a terminal so many of the last events are seen, if it has room for them.
EVENTS = 12
# Columns in front of an event, and lines that a panel has besides those of its workers.
MARGIN = 9
PANEL = 12
# A terminal with fewer lines has none to spare.
TALL = 32
# Elsewhere figures come this often, and if they did not change, this often.
LINE_S = 5.0
SILENCE_S = 30.0


@dataclass
class Now:
    """How far a run is."""

    planned: int = 0
    stored: int = 0
    handled: int = 0
    acked: int = 0
    refused: int = 0
    archived: int = 0
    # By worker: whether it is alive, handled, refused and confirmed.
    workers: dict[str, tuple[str, int, int, int]] = field(default_factory=dict)
    broker: str = "starting"
    spark: str = "starting"


class Screen:
    """See the module."""

    def __init__(self, title: str, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self._title = title
        self._began = time.monotonic()
        # The same moment, on the clock that facts have.
        self.began_ms = time.time_ns() // 1_000_000
        # Seconds from the start, what happened, and the colour of it.
        self.events: list[tuple[float, str, str]] = []
        self._phases: dict[str, float | None] = {}
        self._now = Now()
        self._said_at = self._began
        self._said = ""
        self._spinner = Spinner("dots", style="cyan")
        self._live: Live | None = None

    def __enter__(self) -> "Screen":
        self._began = time.monotonic()
        if self.console.is_terminal:
            self._live = Live(
                console=self.console, get_renderable=self._picture, refresh_per_second=5
            )
            self._live.start()
        else:
            self.console.print(self._title)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._began

    # ---- What is told --------------------------------------------------------

    def say(self, text: str, style: str = "") -> None:
        """Something happened."""
        self.events.append((self.seconds, text, style))
        if self._live is None:
            self._print(text, style)

    def _print(self, text: str, style: str = "") -> None:
        line = Text(f"{self.seconds:6.1f} s  {text}", style)
        self.console.print(line, soft_wrap=True)

    def phase(self, name: str) -> None:
        self._phases[name] = None

    def phase_done(self, name: str, seconds: float) -> None:
        self._phases[name] = seconds

    def update(self, now: Now) -> None:
        self._now = now
        silent_s = time.monotonic() - self._said_at
        if self._live is not None or silent_s < LINE_S:
            return
        line = (
            f"sent {now.stored:,} of {now.planned:,}, handled {now.handled:,}, "
            f"confirmed {now.acked:,}, refused {now.refused:,}, in the lake {now.archived:,}"
        )
        if line != self._said or silent_s >= SILENCE_S:
            self._said, self._said_at = line, time.monotonic()
            self._print(line)

    # ---- The picture ---------------------------------------------------------

    def _picture(self) -> RenderableType:
        space = 1 if self.console.height >= TALL else 0
        panel = Panel(
            Group(self._phase_line(), Text(), self._bars(), Text(), self._processes()),
            title=self._title,
            title_align="left",
            border_style="cyan",
            padding=(space, 2),
        )
        lines = PANEL + 2 * space + len(self._now.workers)
        return Group(panel, self._event_lines(self.console.height - lines - 1))

    def _phase_line(self) -> RenderableType:
        line = Table.grid(padding=(0, 2))
        cells: list[RenderableType] = []
        for name, seconds in self._phases.items():
            if seconds is None:
                self._spinner.update(text=Text(name, "bold cyan"))
                cells.append(self._spinner)
            else:
                cells.append(Text(f"✓ {name} {seconds:.1f} s", "green"))
        cells.append(Text(f"{self.seconds:.0f} s", "dim"))
        line.add_row(*cells)
        return line

    def _bars(self) -> RenderableType:
        now = self._now
        bars = Table.grid(padding=(0, 2))
        for name, count, colour in (
            ("sent", now.stored, "blue"),
            ("handled", now.handled, "cyan"),
            ("ack confirmed", now.acked, "green"),
            ("in the lake", now.archived, "magenta"),
        ):
            bar = ProgressBar(
                total=max(1, now.planned),
                completed=min(count, now.planned),
                width=40,
                complete_style=colour,
                finished_style=colour,
            )
            bars.add_row(name, bar, Text(f"{count:,}", justify="right"))
        return bars

    def _processes(self) -> RenderableType:
        table = Table.grid(padding=(0, 3))
        counted = (Text(name, "dim", justify="right") for name in ("handled", "refused", "acked"))
        table.add_row(Text("process", "dim"), "", *counted)
        table.add_row("broker", _state(self._now.broker))
        for name, (state, *counts) in self._now.workers.items():
            cells = [Text(f"{count:,}", justify="right") for count in counts]
            table.add_row(name, _state(state), *cells)
        table.add_row("spark", _state(self._now.spark))
        return table

    def _event_lines(self, room: int) -> RenderableType:
        """The last events, as far as there are lines for them."""
        shown: list[tuple[Text, Text]] = []
        for at, text, style in reversed(self.events[-EVENTS:]):
            room -= -(-cell_len(text) // max(1, self.console.width - MARGIN))
            if room < 0:
                break
            shown.append((Text(f"{at:5.1f} s", "dim", justify="right"), Text(text, style)))
        lines = Table.grid(padding=(0, 2))
        for row in reversed(shown):
            lines.add_row(*row)
        return lines


def _state(text: str) -> Text:
    colour = {"killed": "bold red", "starting": "yellow"}.get(text, "green")
    return Text(text, colour)
