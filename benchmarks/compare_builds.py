"""Two builds of Magnetar in one run: is the newer one slower anywhere?

    git worktree add ../old COMMIT && make -C ../old compiled     the same for ../new
    python benchmarks/compare_builds.py ../old ../new             seven rounds, half an hour
    ... compare_builds.py ../old ../new --rounds 3 --only acks    a glance

OLD and NEW are clones in which `make compiled` ran, on a machine that does nothing else. Each
round runs bench_client, bench_acks and bench_skip of either clone once, in turns, with the clone's
own interpreter and compiled package, so that whatever else the machine does hits both alike. Which
one begins changes from round to round. The figures are read from the tables that the benchmarks
print.

A row has the medians of both, the median of the ratios within a round, NEW by OLD, and between
which ratios half of the rounds lie. "better" and "worse" know whether more or less of a figure
is good. They are said where the median differs by 3 % or more; with a question mark, where half
of the rounds lie on both sides of 1, so that more rounds are needed to tell.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median, quantiles
from typing import Final

from timing import print_table

BENCHES: Final = (
    ("bench_client.py", "--messages", "100000"),
    ("bench_acks.py", "--messages", "100000"),
    ("bench_skip.py", "--ids", "50000"),
)
# Figures of our own: those of the official client, and ratios to them, say nothing here.
LEFT_OUT: Final = ("official",)
FIGURE: Final = re.compile(r"^([\d,.]+)(/s| us| ms| s)$")
# What differs by less is called alike.
ALIKE: Final = 0.03

# What is compared: title of the table, row and column. And the figure with its unit.
Name = tuple[str, str, str]
Reading = dict[Name, tuple[float, str]]


def read_tables(text: str) -> Reading:
    """Every figure with a unit in the tables of one benchmark, except targets."""
    found: Reading = {}
    title = ""
    header: list[str] = []
    for line in text.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if not line.startswith("  "):
            title, header = line, []
        elif not header:
            header = cells
        elif not set(line.strip()) <= {"-", " "}:
            found |= _figures(title, header, cells)
    return found


def _figures(title: str, header: list[str], cells: list[str]) -> Reading:
    row, values = cells[0], cells[1:]
    if row in LEFT_OUT:
        return {}
    found: Reading = {}
    for column, value in zip(header, values, strict=False):
        match = FIGURE.match(value)
        if match and column != "target":
            found[title, row, column] = float(match[1].replace(",", "")), match[2].strip()
    return found


def measure(clone: Path, only: str = "") -> Reading:
    """What one round of the benchmarks of a clone says, of those with `only` in their names."""
    compiled = clone / ".build" / "compiled"
    assert compiled.is_dir(), f"{compiled} is not there: run `make compiled` in {clone}"
    found: Reading = {}
    for program, *options in [bench for bench in BENCHES if only in bench[0]]:
        ran = subprocess.run(
            [clone / ".venv/bin/python", clone / "benchmarks" / program, "--rounds=1", *options],
            env=os.environ | {"PYTHONPATH": str(compiled)},
            capture_output=True,
            text=True,
            check=False,
        )
        figures = read_tables(ran.stdout)
        assert figures, f"{program} of {clone} printed no figures:\n{ran.stdout}\n{ran.stderr}"
        found |= figures
    return found


def verdict(ratios: list[float], unit: str) -> str:
    """What the ratios of all rounds come to; empty if the builds are alike."""
    ratio = median(ratios)
    gain = ratio if unit == "/s" else 1 / ratio
    if abs(gain - 1) < ALIKE:
        return ""
    low, high = half_of(ratios)
    return ("better" if gain > 1 else "worse") + ("?" if low <= 1 <= high else "")


def half_of(ratios: list[float]) -> tuple[float, float]:
    """Between which of them half of them lie."""
    if len(ratios) < 2:
        return ratios[0], ratios[0]
    low, _, high = quantiles(ratios, n=4, method="inclusive")
    return low, high


def compare(old: list[Reading], new: list[Reading]) -> None:
    rows: dict[str, list[tuple[str, ...]]] = {}
    for name, (_, unit) in new[0].items():
        pairs = [
            (before[name][0], after[name][0])
            for before, after in zip(old, new, strict=True)
            if name in before and name in after and before[name][0]
        ]
        if pairs:
            ratios = [after / before for before, after in pairs]
            low, high = half_of(ratios)
            was, is_now = (median(values) for values in zip(*pairs, strict=True))
            title, row, column = name
            told = (f"{row}, {column}", f"{was:,.2f}", f"{is_now:,.2f}", unit)
            spread = (f"{median(ratios):.3f}", f"{low:.3f} to {high:.3f}")
            rows.setdefault(title, []).append((*told, *spread, verdict(ratios, unit)))
    for title, table in rows.items():
        print_table(title, ("", "old", "new", "unit", "ratio", "half of all", ""), table)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, help="a clone in which `make compiled` ran")
    parser.add_argument("new", type=Path, help="another one")
    parser.add_argument("--rounds", type=int, default=7, help="how often each build is measured")
    parser.add_argument("--only", default="", help="benchmarks with this in their names")
    chosen = parser.parse_args()
    if not any(chosen.only in program for program, *_ in BENCHES):
        parser.error(f"no benchmark has {chosen.only!r} in its name")
    builds = {chosen.old.resolve(): list[Reading](), chosen.new.resolve(): list[Reading]()}
    order = list(builds)
    for i in range(chosen.rounds):
        print(f"round {i + 1} of {chosen.rounds}", file=sys.stderr)
        for clone in order:
            builds[clone].append(measure(clone, chosen.only))
        order.reverse()
    old, new = builds.values()
    compare(old, new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
