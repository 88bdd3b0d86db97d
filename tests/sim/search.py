"""Runs seeds one after another, and says how to repeat one that fails.

python tests/sim/search.py --seed 7            one seed, with the digest of its trace
python tests/sim/search.py --seed 7 --trace    and the whole trace
python tests/sim/search.py --count 1000        seeds 0 to 999; --first begins elsewhere
"""

import argparse
import logging
import signal
import sys
import time
import traceback
from collections.abc import Sequence

from sim.life import run_seed

from magnetar.testing import ProcessKilled

# Somebody looks on: a line at least this often.
PROGRESS_S = 5.0
# No seed takes so long, not interpreted on a busy machine: one that does would never end.
ENDLESS_S = 300


class Endless(Exception):
    """A seed goes on and on, while its virtual time stands still."""


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if nothing failed, else 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--trace", action="store_true", help="print the trace of the seed")
    options = parser.parse_args(arguments)
    # What broker and client log under trouble is in the trace too.
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGALRM, _give_up)
    if options.seed is not None:
        return _one(options.seed, trace=options.trace)
    return _many(range(options.first, options.first + options.count))


def _give_up(number: int, frame: object) -> None:
    raise Endless(f"it did not end within {ENDLESS_S} s")


def _one(seed: int, *, trace: bool) -> int:
    try:
        simulation = run_seed(seed)
    except Exception:
        traceback.print_exc()
        print(_how(seed))
        return 1
    loop = simulation.loop
    if trace:
        print(loop.trace.text())
    print(f"seed {seed}: {len(simulation.history)} facts, {loop.steps} steps, ", end="")
    print(f"{loop.time() - 1000:.0f} virtual seconds, trace {loop.trace.digest()}")
    return 0


def _many(seeds: range) -> int:
    failed: list[int] = []
    began = told = time.monotonic()
    facts = 0
    for done, seed in enumerate(seeds, 1):
        try:
            signal.alarm(ENDLESS_S)
            facts += len(run_seed(seed).history)
        except (Exception, ProcessKilled) as error:
            failed.append(seed)
            first = str(error).partition("\n  ")
            print(f"seed {seed}: {type(error).__name__}: {first[0]} {first[2][:300]}")
            print(_how(seed), flush=True)
        signal.alarm(0)
        now = time.monotonic()
        if now - told > PROGRESS_S or done == len(seeds):
            told = now
            rate = done / (now - began)
            left = (len(seeds) - done) / rate
            print(
                f"{done} of {len(seeds)} seeds, {facts} facts, {len(failed)} failed, "
                f"{rate:.1f} a second, {left:.0f} s left",
                flush=True,
            )
    return 1 if failed else 0


def _how(seed: int) -> str:
    return f"  to repeat it:  make sim SEED={seed}"


if __name__ == "__main__":
    sys.exit(main())
