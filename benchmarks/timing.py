"""What the benchmarks share: fair timing on a noisy machine, and tables for people.

Contestants run in turn, round after round, so that whatever else the machine does hits
them alike. Of what runs in this process the fastest round counts (`fastest`), of processes
of their own the median (`Figures`); results are compared as ratios.
"""

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from statistics import median

import magnetar

Work = Callable[[], object]
# What a load took: count, seconds, cpu (in seconds), and more of its own.
Took = dict[str, float]


def fastest(contestants: dict[str, Work], *, rounds: int = 9) -> dict[str, float]:
    """Seconds of each contestant's fastest run."""
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, work in contestants.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def in_child(command: Sequence[str], at_fault: Callable[[], str] = str) -> Took:
    """What a program of its own prints in its last line, as JSON; what else is at fault if not."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{command} failed:\n{ran.stderr}\n{at_fault()}"
    took: Took = json.loads(ran.stdout.splitlines()[-1])
    return took


class Figures:
    """What one contestant took, round by round."""

    def __init__(self) -> None:
        self.rounds: list[Took] = []

    def add(self, took: Took) -> None:
        self.rounds.append(took)

    def median(self, figure: Callable[[Took], float]) -> float:
        return median(figure(took) for took in self.rounds)

    def cells(self) -> tuple[str, str]:
        """Messages a second, and CPU time of each."""
        return f"{self.median(_rate):,.0f}/s", f"{self.median(_cpu_us):.2f} us"

    def against(self, base: "Figures") -> tuple[str, str]:
        """How many times as fast as another, by the clock and by CPU time: medians of rounds."""
        if self is base:
            return "", ""
        pairs = list(zip(self.rounds, base.rounds, strict=True))
        shares = [_cpu_us(other) / _cpu_us(took) for took, other in pairs if took["cpu"]]
        rate = median(_rate(took) / _rate(other) for took, other in pairs)
        return f"{rate:.2f}", f"{median(shares):.2f}" if shares else ""


def _rate(took: Took) -> float:
    return took["count"] / took["seconds"]


def _cpu_us(took: Took) -> float:
    return took["cpu"] / took["count"] * 1e6


def print_build(*more: str) -> None:
    """Which build is measured: the first line of a benchmark."""
    build = "compiled" if magnetar.COMPILED else "interpreted"
    print(", ".join([f"magnetar {magnetar.__version__}", build, *more]))


def print_table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    print(f"\n{title}")
    for row in [header, tuple("-" * w for w in widths), *rows]:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print("  " + "  ".join([first, *rest]))
