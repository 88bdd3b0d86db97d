"""`make demo`: runs the story, shows what came of it, and says so by the exit code.

| code | when                                                  |
|------|-------------------------------------------------------|
| 0    | every check holds                                     |
| 1    | one does not, or the run got stuck: it says which     |
| 2    | there is no Java for Spark: it says what to install   |
| 130  | Ctrl-C                                                |
"""

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
import time
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

import magnetar
from examples.demo.checks import Check, figures, judge
from examples.demo.facts import Facts
from examples.demo.orders import Plan
from examples.demo.report import write_report
from examples.demo.screen import Screen
from examples.demo.story import TOPIC, WORKERS, Story
from magnetar.errors import SettingsError
from magnetar.spark.pipelines.java import find_java

BUILD = "compiled" if magnetar.COMPILED else "interpreted"
BIN = Path(sys.executable).parent
MESSAGES_MIN = 500
REMOVE_S = 5.0
DONE, FAILED, NO_JAVA, INTERRUPTED = 0, 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.messages < MESSAGES_MIN:
        parser.error(f"--messages: {MESSAGES_MIN} or more, for some of each kind")
    console = Console(highlight=False)
    try:
        find_java()
    except SettingsError as error:
        text = f"The demo streams to a lake with Spark. {error}"
        console.print(text, style="red", markup=False, soft_wrap=True)
        return NO_JAVA
    directory = Path(tempfile.mkdtemp(prefix="magnetar-demo-"))
    # A client that loses its broker says so; here that is no news.
    logging.basicConfig(filename=directory / "client.log")
    screen = Screen(f"Magnetar {magnetar.__version__}, {BUILD}: {given.messages:,} orders", console)
    story = Story(Plan.of(given.messages), directory, screen)
    kept = False
    try:
        with screen:
            facts = asyncio.run(story.run())
        checks = judge(facts)
        report = write_report(facts, checks, screen.events, screen.began_ms, BUILD, given.report)
        show(console, facts, checks)
        said = f"\n{screen.seconds:.0f} s, {BUILD}. The report: {report.absolute()}"
        console.print(said, soft_wrap=True)
        code = code_of(checks)
        kept = given.keep
        if kept:
            show_around(console, story)
        else:
            console.print("To look around: make demo KEEP=1 leaves the broker running")
    except (TimeoutError, RuntimeError, httpx.HTTPError, ExceptionGroup) as error:
        code = FAILED
        for one in getattr(error, "exceptions", [error]):
            text = f"The demo came to no end: {one!r}"
            console.print(text, style="bold red", markup=False, soft_wrap=True)
    except KeyboardInterrupt:
        code = INTERRUPTED
    finally:
        if not kept:
            story.broker.stop()
    if code == FAILED:
        console.print(f"Facts, logs and data are in {directory}", soft_wrap=True)
    elif not kept:
        remove(directory)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make demo", description=(__doc__ or "").partition("\n")[0]
    )
    add = parser.add_argument
    add("--messages", type=int, default=100_000, help="how many orders (default: 100,000)")
    add("--keep", action="store_true", help="leave the broker running, with its data")
    add("--report", type=Path, default=Path(".build/demo.html"), help="where the report goes")
    return parser


def remove(directory: Path) -> None:
    """Removes it all, while what was killed a moment ago may still be writing there."""
    deadline = time.monotonic() + REMOVE_S
    while directory.exists() and time.monotonic() < deadline:
        shutil.rmtree(directory, ignore_errors=True)
        time.sleep(0.05)


def code_of(checks: list[Check]) -> int:
    return DONE if all(check.holds for check in checks) else FAILED


def show(console: Console, facts: Facts, checks: list[Check]) -> None:
    """The table, and each check with what it found."""
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right", style="bold")
    table.add_column(style="dim")
    for name, value, note in figures(facts):
        table.add_row(name, f"{value:,}", note)
    console.print(table)
    for check in checks:
        mark = "[green]✓[/]" if check.holds else "[bold red]✗[/]"
        line = f"{check.name}: [dim]{check.says}[/]"
        if console.is_terminal:
            hanging = Table.grid(padding=(0, 1))
            hanging.add_row("", mark, line)
            console.print(hanging)
        else:
            console.print(f" {mark} {line}", soft_wrap=True)


def show_around(console: Console, story: Story) -> None:
    """How to look at what is left running, and how to stop it."""
    broker = story.broker
    lines = [
        f"alias m='{BIN}/magnetar --url {broker.url} --admin-url {broker.http_url}'",
        f"m topics stats {TOPIC}",
        f"m subscriptions ack-state {TOPIC} -s {WORKERS}",
        f"m produce {TOPIC} -m hello -k customer-0001",
        f"m peek {TOPIC} -s {WORKERS}",
        f"m consume {TOPIC} -s {WORKERS} -t Key_Shared",
    ]
    console.print("\nThe broker runs on. Look around:\n")
    for line in lines:
        console.print(f"    {line}", soft_wrap=True, markup=False)
    console.print(f"\nThe lake is {story.lake}, the facts {story.log}", soft_wrap=True)
    console.print(f"Stop it: kill {broker.pid} && rm -r {story.directory}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
