"""Finds seeds for planted bugs that their own seed no longer finds: to search each time is slow.

PYTHONPATH=src:tests python tests/sim/plant_seeds.py             those of all plants
PYTHONPATH=src:tests python tests/sim/plant_seeds.py 'two tran'  of those whose names begin so
... --count 400                                                  how many seeds to try, 200 without

A change of the broker or the client changes what happens in every seed. Of each plant it prints the
seed that is written down if it still finds the bug, and otherwise the first one that does: write
that down instead.
"""

import argparse
import logging
import sys
import time
from collections.abc import Sequence

from sim.planted import PLANTS
from sim.test_plants import LIVES, find


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if all are found, 1 otherwise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("begin", nargs="?", default="", help="how names of plants begin")
    parser.add_argument("--count", type=int, default=200, help="how many seeds to try")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    lost = 0
    for plant in PLANTS:
        if not plant.name.startswith(options.begin):
            continue
        start = time.perf_counter()
        found = find(plant, [plant.seed])
        stale = found is None
        if stale:
            found = find(plant, range(options.count))
        took = time.perf_counter() - start
        told = f"{took:6.1f} s  {plant.seed:8} "
        if found is None:
            lost += 1
            told += f"is stale, {options.count} seeds do not find"
        elif stale:
            LIVES[plant.life].run_seed(found)  # without the bug it does not fail
            told += f"is stale, write {found} for"
        else:
            told += "finds"
        print(f"{told}: {plant.name}{' (rare)' if plant.rare else ''}", flush=True)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
