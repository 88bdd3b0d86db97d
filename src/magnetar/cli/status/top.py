"""`magnetar top`: the busiest topics, again and again, until q or Ctrl-C."""

import sys
import time
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from magnetar.cli.console import output, printable, refuse
from magnetar.cli.option import named_namespace
from magnetar.cli.target import current
from magnetar.errors import ConnectError, MagnetarError, Timeout

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from magnetar.cli.status.broker_view import BrokerView
    from magnetar.cli.status.survey import Survey
    from magnetar.cli.status.view import TopicView
    from magnetar.rest.admin_client import AdminClient

__all__ = ["top"]

# Whoever watches wants to hear that nobody answers.
ANSWER_S: Final = 10.0
# What is on the screen beside the rows: heading, totals, headings of columns, notes and keys.
OTHER_LINES: Final = 14
ROWS_MIN: Final = 3


class Sort(StrEnum):
    rate = "rate"
    backlog = "backlog"
    age = "age"
    name = "name"


# By the key that chooses it.
SORTS: Final = {sort.value[0]: sort for sort in Sort}
KEYS: Final = "q quits; sort by: r rate, b backlog, a age, n name"


def top(
    namespace: Annotated[
        str,
        typer.Option(
            "-n",
            "--namespace",
            metavar="NAMESPACE",
            help="Show only this namespace (default: all).",
            callback=named_namespace,
        ),
    ] = "",
    sort: Annotated[Sort, typer.Option("-s", "--sort", help="Column to sort by.")] = Sort.rate,
    interval: Annotated[
        float, typer.Option("-i", "--interval", help="Seconds between refreshes.", min=0.2)
    ] = 2.0,
) -> None:
    """Watch the busiest topics live; q or Ctrl-C ends it.

    Keys sort: r by rate, b by backlog, a by age, n by name.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise refuse("top needs a terminal: `magnetar status` prints the figures once")
    target = current()
    with target.admin(ANSWER_S) as admin:
        watch = _Watch(admin, namespace or target.namespace, target.namespace, not namespace)
        # The first look may fail as any command does; later ones are tried again.
        watch.look()
        try:
            _show(watch, sort, interval)
        except KeyboardInterrupt:
            # It goes on until somebody ends it, and that was how.
            return


class _Watch:
    """What was last seen, and what came of the last look."""

    def __init__(self, admin: "AdminClient", namespace: str, short: str, everywhere: bool) -> None:
        self._admin = admin
        self._namespace = namespace
        self._everywhere = everywhere
        self.short = short
        self.broker: BrokerView
        self.found: Survey
        self.seen = ""
        self.trouble = ""

    def look(self) -> None:
        """Raises MagnetarError."""
        from magnetar.cli.status.broker_view import broker_view
        from magnetar.cli.status.survey import survey

        # On Apache Pulsar a question for its health is a message that is sent and received.
        self.broker = broker_view(self._admin, health=False)
        self.found = survey(self._admin, self._namespace, everywhere=self._everywhere)
        self.seen = time.strftime("%H:%M:%S")
        self.trouble = ""

    def look_again(self) -> None:
        """Keeps what was seen if nobody answers."""
        try:
            self.look()
        except (ConnectError, Timeout) as error:
            self.trouble = f"no answer since {self.seen}: {error}"
        except MagnetarError as error:
            self.trouble = f"nothing new since {self.seen}: {error}"


def _show(watch: _Watch, sort: Sort, interval: float) -> None:
    from rich.live import Live

    from magnetar.cli.status.keys import keys

    console = output()
    first = _screen(watch, sort, console)
    with keys() as pressed, Live(first, console=console, screen=True, auto_refresh=False) as live:
        live.refresh()
        due = time.monotonic() + interval
        while True:
            key = pressed(max(due - time.monotonic(), 0.0))
            if key.lower() == "q":
                return
            sort = SORTS.get(key.lower(), sort)
            if time.monotonic() >= due:
                watch.look_again()
                due = time.monotonic() + interval
            live.update(_screen(watch, sort, console), refresh=True)


def _screen(watch: _Watch, sort: Sort, console: "Console") -> "RenderableType":
    from rich.console import Group
    from rich.text import Text

    from magnetar.cli.console import counted
    from magnetar.cli.status.screen import heading, topic_table, totals, unit_note

    views = sorted(watch.found.topics.values(), key=_ORDERS[sort])
    room = max(console.height - OTHER_LINES, ROWS_MIN)
    parts: list[RenderableType] = [
        heading(watch.broker, watch.seen),
        Text(),
        totals(watch.broker, watch.found),
        Text(),
        topic_table(views[:room], watch.short, console.width, chosen=sort.value, one_line=True),
    ]
    if len(views) > room:
        parts.append(Text(f"and {counted(len(views) - room, 'topic')} more", style="dim"))
    if not views:
        parts.append(Text("there are no topics yet", style="dim"))
    parts += [Text(note, style="dim") for note in unit_note(watch.found)]
    if watch.trouble:
        parts.append(Text(printable(watch.trouble), style="red"))
    parts.append(Text(KEYS, style="dim"))
    return Group(*parts)


def _by_rate(view: "TopicView") -> tuple[float, str]:
    return -(view.rate_in + view.rate_out), view.name


def _by_backlog(view: "TopicView") -> tuple[float, str]:
    return -view.backlog, view.name


def _by_age(view: "TopicView") -> tuple[float, str]:
    return view.oldest_ms or float("inf"), view.name


def _by_name(view: "TopicView") -> tuple[float, str]:
    return 0, view.name


_ORDERS: Final[dict[Sort, "Callable[[TopicView], tuple[float, str]]"]] = {
    Sort.rate: _by_rate,
    Sort.backlog: _by_backlog,
    Sort.age: _by_age,
    Sort.name: _by_name,
}
