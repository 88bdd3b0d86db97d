"""The report of a run: the table, the checks, and how it went over time."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from examples.demo.checks import Check, figures, handed, sent
from examples.demo.facts import Acked, Facts
from magnetar.spark.pipelines.report.report import Report

STEP_MS = 500


def write_report(
    facts: Facts,
    checks: list[Check],
    events: list[tuple[float, str, str]],
    build: str,
    path: Path,
) -> Path:
    """Returns the path of the file."""
    report = Report("Magnetar: the demo")
    table = figures(facts)
    report.facts({name: value for name, value, _ in table})
    wrong = [check for check in checks if not check.holds]
    if wrong:
        report.note("Not everything holds: " + "; ".join(check.name for check in wrong))
    report.table(
        "What must hold",
        ["check", "holds", "found"],
        [[check.name, check.holds, check.says] for check in checks],
    )
    happened = [[f"{at:.1f} s", text.strip()] for at, text, _ in events]
    report.table("What happened", ["after", "what"], happened)
    _plot_time(report, facts)
    _plot_workers(report, facts)
    report.table("What the figures are", ["figure", "value", "is"], [list(row) for row in table])
    report.table("Phases", ["phase", "seconds"], [[k, v] for k, v in facts.phases.items()])
    report.facts({"build": build})
    return report.write(path)


def _plot_time(report: Report, facts: Facts) -> None:
    acks = [event for event in facts.events if isinstance(event, Acked)]
    began = min((one.at_ms for one in sent(facts)), default=0)
    done = {
        "sent": [one.at_ms for one in sent(facts)],
        "handled": [event.at_ms for event in handed(facts) if event.handled],
        "acked": [event.at_ms for event in acks],
    }
    last = max((at for times in done.values() for at in times), default=began)
    steps = range((last - began) // STEP_MS + 1)
    seconds = [step * STEP_MS / 1000 for step in steps]
    rates = {name: _per_step(times, began, len(steps)) for name, times in done.items()}
    report.plot(
        "Messages a second: the gap is the broker's kill -9",
        kind="line",
        x=seconds,
        y={name: [count * 1000 / STEP_MS for count in counts] for name, counts in rates.items()},
        labels=("seconds since the first order", "messages a second"),
    )
    report.plot(
        "In sum",
        kind="line",
        x=seconds,
        y={name: _sums(counts) for name, counts in rates.items()},
        labels=("seconds since the first order", "messages"),
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


def _per_step(times: Iterable[int], began: int, steps: int) -> list[int]:
    counts = Counter((at - began) // STEP_MS for at in times)
    return [counts[step] for step in range(steps)]


def _sums(counts: list[int]) -> list[float]:
    total = 0
    sums: list[float] = []
    for count in counts:
        total += count
        sums.append(total)
    return sums
