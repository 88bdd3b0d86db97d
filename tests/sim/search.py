"""Runs seeds on all cores, goes on where it stopped, and says how to repeat one that fails.

python tests/sim/search.py --seed 7            one seed, with the digest of its trace
python tests/sim/search.py --seed 7 --trace    and the whole trace, and the facts
python tests/sim/search.py --count 1000        seeds 0 to 999; --first begins elsewhere
"""

import argparse
import logging
import os
import sys
import time
import traceback
from collections.abc import Sequence

from sim.case import run_case, try_case
from sim.crew import Crew
from sim.logbook import Busy, Logbook, logbook_of
from sim.result import Result

from magnetar.testing import ProcessKilled, Simulation
from magnetar.testing.checker.history import text_of

# Somebody looks on: a line at least this often, and more often where it takes no room.
PROGRESS_S = 30.0
PROGRESS_TTY_S = 1.0
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if nothing failed, 1 if something did, 2 if it cannot begin, 130 after a Ctrl-C."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes; all cores")
    parser.add_argument("--again", action="store_true", help="forget what was done before")
    parser.add_argument("--trace", action="store_true", help="print the trace of the seed")
    options = parser.parse_args(arguments)
    if options.jobs < 1 or options.count < 1:
        parser.error("--jobs and --count must be at least 1")
    # What broker and client log under trouble is in the trace too.
    logging.disable(logging.CRITICAL)
    if options.seed is not None:
        return _one(options.seed, trace=options.trace)
    seeds = range(options.first, options.first + options.count)
    try:
        with logbook_of(seeds) as logbook:
            if options.again:
                logbook.forget()
            return Search(seeds, logbook, options.jobs).run()
    except Busy as busy:
        print(busy)
        return 2


# ---- One seed ----------------------------------------------------------------


def _one(seed: int, *, trace: bool) -> int:
    begun: list[Simulation] = []
    try:
        run_case(seed, watch=begun.append)
    except (Exception, ProcessKilled):
        if trace:
            _print_trace(begun[0])
        traceback.print_exc()
        print(_how(seed))
        return 1
    if trace:
        _print_trace(begun[0])
    loop = begun[0].loop
    print(f"seed {seed}: {len(begun[0].history)} facts, {loop.steps} steps, ", end="")
    print(f"{loop.time() - 1000:.0f} virtual seconds, trace {loop.trace.digest()}")
    return 0


def _print_trace(simulation: Simulation) -> None:
    """Everything that happened, then what became known, which is what checkers judge."""
    print(simulation.loop.trace.text())
    print("---- the history")
    for number, fact in enumerate(simulation.history.facts):
        print(number, text_of(fact))
    sys.stdout.flush()


def _how(seed: int) -> str:
    return f"  to repeat it:  make sim SEED={seed}"


# ---- Many --------------------------------------------------------------------


class Search:
    """Goes over a range of seeds."""

    def __init__(self, seeds: range, logbook: Logbook, jobs: int) -> None:
        self._seeds = seeds
        self._logbook = logbook
        self._jobs = jobs
        self._progress = Progress(len(seeds), len(logbook.results))

    def run(self) -> int:
        left = [seed for seed in self._seeds if seed not in self._logbook.results]
        if len(left) < len(self._seeds):
            print(f"goes on where it stopped, by {self._logbook.path.name}; AGAIN=1 begins anew")
        for seed, result in self._logbook.failed().items():
            self._tell(seed, result)
        if not left:
            print(f"seeds {self._seeds[0]} to {self._seeds[-1]} are all done with this build")
        else:
            try:
                self._search(left)
            except KeyboardInterrupt:
                self._progress.end(len(self._logbook.results), len(self._logbook.failed()))
                print("stopped; the same command goes on from here")
                return INTERRUPTED
        return self._sum_up()

    def _search(self, left: list[int]) -> None:
        jobs = min(self._jobs, len(left))
        with Crew[int, Result](jobs, try_case, lambda death: Result(error=death)) as crew:
            for seed, result in crew.results(iter(left)):
                self._logbook.add(seed, result)
                if result.error:
                    self._tell(seed, result)
                self._progress.show(len(self._logbook.results), len(self._logbook.failed()))
        self._progress.end(len(self._logbook.results), len(self._logbook.failed()))

    def _tell(self, seed: int, result: Result) -> None:
        self._progress.clear()
        print(f"seed {seed}: {result.error}")
        print(_how(seed), flush=True)

    def _sum_up(self) -> int:
        failed = self._logbook.failed()
        facts = sum(result.facts for result in self._logbook.results.values())
        print(f"{len(self._seeds)} seeds, {facts} facts, {len(failed)} failed", end="")
        print(f": {', '.join(map(str, failed))}" if failed else "")
        return 1 if failed else 0


class Progress:
    """One line that says how far it is; on a terminal it is written over."""

    def __init__(self, total: int, before: int) -> None:
        self._total = total
        self._before = before
        self._began = self._told = time.monotonic()
        self._is_tty = sys.stdout.isatty()

    def show(self, done: int, failed: int) -> None:
        now = time.monotonic()
        if now - self._told >= (PROGRESS_TTY_S if self._is_tty else PROGRESS_S):
            self._told = now
            print(self._line(done, failed), end="" if self._is_tty else "\n", flush=True)

    def end(self, done: int, failed: int) -> None:
        print(self._line(done, failed), flush=True)

    def clear(self) -> None:
        if self._is_tty:
            print("\r\033[K", end="")

    def _line(self, done: int, failed: int) -> str:
        rate = (done - self._before) / max(time.monotonic() - self._began, 0.001)
        left = _clock((self._total - done) / rate) if rate else "?"
        line = f"{done} of {self._total} seeds, {failed} failed, {rate:.1f} a second, {left} left"
        return f"\r\033[K{line}" if self._is_tty else line


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


if __name__ == "__main__":
    sys.exit(main())
