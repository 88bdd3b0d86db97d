"""What the benchmarks share: fair timing on a noisy machine, and tables for people.

Contestants run in turn, round after round, so that whatever else the machine does hits
them alike; the fastest round of each counts, and results are compared as ratios.
"""

import time
from collections.abc import Callable, Sequence

Work = Callable[[], object]


def fastest(contestants: dict[str, Work], *, rounds: int = 9) -> dict[str, float]:
    """Seconds of each contestant's fastest run."""
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, work in contestants.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def print_table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    print(f"\n{title}")
    for row in [header, tuple("-" * w for w in widths), *rows]:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print("  " + "  ".join([first, *rest]))
