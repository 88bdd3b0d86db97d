"""How long a program waits for its client: our imports against the official client's.

    make bench                                              compiled
    .venv/bin/python benchmarks/bench_import.py             interpreted

Each import is a process of its own, which tells what the import took and not what Python took to
start; CPU time beside it, for a machine that does other work. Contestants take turns, round after
round; figures are medians, and ratios medians of ratios within a round. One round before is not
counted: it brings the files into memory.
"""

import argparse
import sys
from statistics import median
from typing import Final

from timing import Took, in_child, print_build, print_table

TARGET_MS: Final = 150.0
OFFICIAL: Final = "import pulsar"
CONTESTANTS: Final = (
    OFFICIAL,
    "import magnetar",
    "from magnetar import aio",
    "from magnetar import Client",
    "import asyncio",
)
PROGRAM: Final = """
import time
begin, cpu = time.perf_counter(), time.process_time()
{statement}
took = (time.perf_counter() - begin) * 1000, (time.process_time() - cpu) * 1000
print('{{"ms": %f, "cpu_ms": %f}}' % took)
"""


def taken_by(statement: str) -> Took:
    return in_child([sys.executable, "-c", PROGRAM.format(statement=statement)])


def cells(taken: dict[str, list[Took]], name: str, figure: str) -> tuple[str, str]:
    """What an import takes, and how many times what the official client's does."""
    pairs = zip(taken[name], taken[OFFICIAL], strict=True)
    ratio = median(ours[figure] / theirs[figure] for ours, theirs in pairs)
    return f"{median(took[figure] for took in taken[name]):.0f} ms", f"{ratio:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds: int = parser.parse_args().rounds
    taken: dict[str, list[Took]] = {name: [] for name in CONTESTANTS}
    for number in range(rounds + 1):
        for name in CONTESTANTS:
            took = taken_by(name)
            if number:
                taken[name].append(took)
    print_build()
    rows = []
    for name in CONTESTANTS:
        target = f"under {TARGET_MS:.0f} ms" if "magnetar" in name else ""
        rows.append((name, *cells(taken, name, "ms"), *cells(taken, name, "cpu_ms"), target))
    print_table("imports", ("", "takes", "of official", "CPU", "of official", "target"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
