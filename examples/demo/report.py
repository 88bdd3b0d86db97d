"""The report of a run: one sentence, the checks, and how it went over time.

Charts and the table of what happened have one clock: seconds since the start of the run. Kills are
marked in the charts.
"""

import os
import platform
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from examples.demo.checks import Check, figures, handed, rows, sent
from examples.demo.facts import Acked, Archived, BrokerKilled, Facts, SparkKilled, WorkerKilled
from magnetar.spark.pipelines.report.report import Report

STEP_MS = 500
CLOCK = "seconds since the start"


def write_report(
    facts: Facts,
    checks: list[Check],
    events: list[tuple[float, str, str]],
    began_ms: int,
    build: str,
    path: Path,
) -> Path:
    """Returns the path of the file. `events` and charts count from `began_ms` on."""
    report = Report("Magnetar: the demo")
    table = figures(facts)
    report.verdict(sentence(facts, checks), holds=all(check.holds for check in checks))
    report.facts({name: value for name, value, _ in table})
    report.facts({"build": build, "machine": machine()})
    report.table(
        "What must hold",
        ["check", "holds", "found"],
        [[check.name, check.holds, check.says] for check in checks],
        judged="holds",
    )
    happened = [[f"{at:.1f} s", text.strip()] for at, text, _ in events]
    report.table("What happened", ["after", "what"], happened)
    _plot_time(report, facts, began_ms)
    _plot_workers(report, facts)
    report.table("What the figures are", ["figure", "value", "is"], [list(row) for row in table])
    report.table("Phases", ["phase", "seconds"], [[k, v] for k, v in facts.phases.items()])
    return report.write(path)


def sentence(facts: Facts, checks: list[Check]) -> str:
    """What came of the run."""
    wrong = [check.name for check in checks if not check.holds]
    if wrong:
        return f"{len(wrong)} of {len(checks)} checks do not hold: {'; '.join(wrong)}."
    kills = [text for _, text in killed(facts)]
    trouble = f"although {_and(kills)} by SIGKILL" if kills else "and nothing was killed"
    return (
        f"All {len(checks)} checks hold: of {len(sent(facts)):,} orders none was lost, none came "
        f"back after its ack and none was out of order, {trouble}."
    )


def _and(texts: list[str]) -> str:
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def machine() -> str:
    """What it ran on."""
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}"
    )


def killed(facts: Facts) -> list[tuple[int, str]]:
    """When something was killed, and what, in the order in which it happened."""
    found: list[tuple[int, str]] = []
    for event in facts.events:
        if isinstance(event, WorkerKilled):
            found.append((event.at_ms, f"{event.worker} was killed"))
        elif isinstance(event, BrokerKilled):
            found.append((event.at_ms, "the broker was killed"))
        elif isinstance(event, SparkKilled):
            found.append((event.at_ms, "Spark was killed"))
    return sorted(found)


def archived(facts: Facts) -> list[Archived]:
    """The micro-batches that Spark committed: one that it ran again counts once."""
    found = {event.batch: event for event in facts.events if isinstance(event, Archived)}
    return list(found.values())


def growth(facts: Facts) -> list[tuple[int, int]]:
    """When the lake grew, and by how many rows.

    Spark tells of a batch after it has committed it: one that it was killed in between is in the
    lake, and nobody told. It had its place when Spark was killed, or else at the end.
    """
    told = archived(facts)
    grown = [(event.at_ms, event.rows) for event in told]
    untold = len(rows(facts)) - sum(event.rows for event in told)
    if untold > 0:
        kills = [event.at_ms for event in facts.events if isinstance(event, SparkKilled)]
        grown.append((kills[0] if kills else facts.ended_ms, untold))
    return grown


def _plot_time(report: Report, facts: Facts, began_ms: int) -> None:
    acks = [event for event in facts.events if isinstance(event, Acked)]
    done: dict[str, list[tuple[int, int]]] = {
        "sent": [(one.at_ms, 1) for one in sent(facts)],
        "handled": [(event.at_ms, 1) for event in handed(facts) if event.handled],
        "acked": [(event.at_ms, 1) for event in acks],
        "in the lake": growth(facts),
    }
    last = max((at for times in done.values() for at, _ in times), default=began_ms)
    steps = range((last - began_ms) // STEP_MS + 1)
    seconds = [step * STEP_MS / 1000 for step in steps]
    counts = {name: _per_step(times, began_ms, len(steps)) for name, times in done.items()}
    rates = {name: of for name, of in counts.items() if name != "in the lake"}
    marks = [((at - began_ms) / 1000, text) for at, text in killed(facts)]
    report.plot(
        "Messages a second",
        kind="line",
        x=seconds,
        y={name: [count * 1000 / STEP_MS for count in of] for name, of in rates.items()},
        labels=(CLOCK, "messages a second"),
        marks=marks,
    )
    report.plot(
        "In sum, and what Spark has committed to the lake",
        kind="line",
        x=seconds,
        y={name: _sums(of) for name, of in counts.items()},
        labels=(CLOCK, "messages"),
        marks=marks,
    )


def _plot_workers(report: Report, facts: Facts) -> None:
    handled = Counter(event.worker for event in handed(facts) if event.handled)
    refused = Counter(event.worker for event in handed(facts) if not event.handled)
    names = sorted(handled | refused)
    report.plot(
        "By worker: one was killed, and another took its place",
        kind="bar",
        x=names,
        y={
            "handled": [handled[name] for name in names],
            "refused": [refused[name] for name in names],
        },
        labels=("", "messages"),
    )


def _per_step(times: Iterable[tuple[int, int]], began_ms: int, steps: int) -> list[int]:
    counts: Counter[int] = Counter()
    for at, count in times:
        counts[(at - began_ms) // STEP_MS] += count
    return [counts[step] for step in range(steps)]


def _sums(counts: list[int]) -> list[float]:
    total = 0
    sums: list[float] = []
    for count in counts:
        total += count
        sums.append(total)
    return sums
