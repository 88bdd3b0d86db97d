"""Two builds of Magnetar in one run: is the newer one slower anywhere?

    python benchmarks/compare_builds.py OLD NEW [--rounds 7]

OLD and NEW are clones in which `make compiled` ran. Each round runs bench_client, bench_acks
and bench_skip of either clone once, in turns, with the clone's own interpreter and compiled
package, so that whatever else the machine does hits both alike. Which one begins changes from
round to round. The figures are read from the tables that the benchmarks print. What is compared
is the median of the ratios within a round, NEW by OLD; "better" and "worse" know whether more
or less of a figure is good.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
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
# What differs by less is noise on a shared machine.
ALIKE: Final = 0.05

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


def measure(clone: Path) -> Reading:
    """What one round of all benchmarks of a clone says."""
    compiled = clone / ".build" / "compiled"
    assert compiled.is_dir(), f"{compiled} is not there: run `make compiled` in {clone}"
    found: Reading = {}
    for program, *options in BENCHES:
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


def verdict(ratio: float, unit: str) -> str:
    gain = ratio if unit == "/s" else 1 / ratio
    if abs(gain - 1) < ALIKE:
        return ""
    return "better" if gain > 1 else "worse"


def compare(old: list[Reading], new: list[Reading]) -> None:
    rows: dict[str, list[tuple[str, ...]]] = {}
    for name, (_, unit) in new[0].items():
        pairs = [
            (before[name][0], after[name][0])
            for before, after in zip(old, new, strict=True)
            if name in before and name in after and before[name][0]
        ]
        if pairs:
            ratio = median(after / before for before, after in pairs)
            was, is_now = (median(values) for values in zip(*pairs, strict=True))
            title, row, column = name
            told = (f"{row}, {column}", f"{was:,.2f}", f"{is_now:,.2f}", unit)
            rows.setdefault(title, []).append((*told, f"{ratio:.2f}", verdict(ratio, unit)))
    for title, table in rows.items():
        print_table(title, ("", "old", "new", "unit", "ratio", ""), table)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path, help="a clone in which `make compiled` ran")
    parser.add_argument("new", type=Path, help="another one")
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    builds = {chosen.old.resolve(): list[Reading](), chosen.new.resolve(): list[Reading]()}
    order = list(builds)
    for i in range(chosen.rounds):
        print(f"round {i + 1} of {chosen.rounds}", file=sys.stderr)
        for clone in order:
            builds[clone].append(measure(clone))
        order.reverse()
    old, new = builds.values()
    compare(old, new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
