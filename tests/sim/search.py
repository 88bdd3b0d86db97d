"""Runs seeds on all cores, goes on where it stopped, and says how to repeat one that fails.

python tests/sim/search.py --seed 7             one seed, with the digest of its trace
python tests/sim/search.py --seed 7 --trace     and the whole trace, and the facts
python tests/sim/search.py --seed 7 --minimise  the steps that matter, and a page of them
python tests/sim/search.py --count 1000         seeds 0 to 999; --first begins elsewhere
python tests/sim/search.py --life transactions  that life of each seed, and no other
python tests/sim/search.py --guided             children of the seeds of the corpus
"""

import argparse
import contextlib
import logging
import os
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace

from sim.case import SCENARIOS, Case, brief, run_case, try_case
from sim.corpus import Coverage, children, read_corpus
from sim.crew import Crew
from sim.logbook import FOLDER, Busy, Logbook, logbook_of
from sim.minimise import Failure, Minimiser, attempt, describe
from sim.planted import planted
from sim.result import Result
from sim.timeline import Timeline

from magnetar.testing import ProcessKilled, Simulation
from magnetar.testing.checker.history import text_of

# Somebody looks on: a line at least this often, and more often where it takes no room.
PROGRESS_S = 30.0
PROGRESS_TTY_S = 1.0
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if nothing failed, 1 if something did, 2 if it cannot begin, 130 after a Ctrl-C."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.jobs < 1 or options.count < 1:
        parser.error("--jobs and --count must be at least 1")
    if options.seed is not None:
        with planted(options.plant) if options.plant else contextlib.nullcontext():
            if options.minimise:
                return _minimise(options.seed, options.plant)
            return _one(options.seed, trace=options.trace)
    first, count = options.first, options.count
    cases = [Case(seed, life=options.life) for seed in range(first, first + count)]
    name = "-".join(filter(None, (options.life, f"{first}-{count}")))
    if options.guided:
        cases = children(read_corpus(), first, count)
        name = f"guided-{name}"
    try:
        with logbook_of(name) as logbook:
            if options.again:
                logbook.forget()
            return Search(cases, logbook, options.jobs).run(corpus=options.corpus)
    except Busy as busy:
        print(busy)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=Case.parse, help="7, 7.3, or 7:swarm; see case.py")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--life", choices=SCENARIOS, default="", help="of each seed this life only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes; all cores")
    parser.add_argument("--again", action="store_true", help="forget what was done before")
    parser.add_argument("--guided", action="store_true", help="search around the corpus")
    parser.add_argument("--corpus", action="store_true", help="write the corpus anew")
    parser.add_argument("--trace", action="store_true", help="print the trace of the seed")
    parser.add_argument("--minimise", action="store_true", help="find the steps that matter")
    parser.add_argument("--plant", metavar="NAME", help="run the seed with a planted bug")
    return parser


# ---- One seed ----------------------------------------------------------------


def _one(case: Case, *, trace: bool) -> int:
    begun: list[Simulation] = []
    failed = False
    try:
        run_case(case, watch=begun.append)
    except (Exception, ProcessKilled):
        failed = True
        if trace:
            _print_trace(begun[-1])
        traceback.print_exc()
        print(_how(case))
    for simulation in begun[: -1 if failed else None]:
        if trace and not failed:
            _print_trace(simulation)
        loop = simulation.loop
        print(f"seed {case}: {len(simulation.history)} facts, {loop.steps} steps, ", end="")
        print(f"{loop.time() - 1000:.0f} virtual seconds, trace {loop.trace.digest()}")
    return 1 if failed else 0


def _print_trace(simulation: Simulation) -> None:
    """Everything that happened, then what became known, which is what checkers judge."""
    print(simulation.loop.trace.text())
    print("---- the history")
    for number, fact in enumerate(simulation.history.facts):
        print(number, text_of(fact))
    sys.stdout.flush()


def _minimise(case: Case, plant: str | None) -> int:
    """Prints the few steps that matter, and writes them as a page."""
    failure = _first_failure(case)
    if failure is None:
        print(f"seed {case} does not fail where it could be made smaller")
        return 0
    print(f"{brief(failure.error)}\nlooks for the steps that matter")
    minimiser = Minimiser(case.luck, failure, lambda line: print(f"  {line}", flush=True))
    least = minimiser.run()
    timeline = Timeline(least.simulation, least.error)
    print(timeline.text(color=sys.stdout.isatty()))
    before, after = (len(one.simulation.history) for one in (failure, least))
    notes = [
        f"make sim SEED={case} MINIMISE=1" + (f" PLANT='{plant}'" if plant else ""),
        f"{before} facts became {after} in {minimiser.runs} runs; {len(timeline.steps)} matter",
        *describe(least),
    ]
    path = FOLDER / f"seed-{case}.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(timeline.page(f"Seed {case}", notes), encoding="utf-8")
    print("\n".join(notes[1:]))
    print(f"as a page: {path}")
    return 1


def _first_failure(case: Case) -> Failure | None:
    for scenario in case.scenarios():
        failure = attempt(case.luck, scenario)
        if failure is not None:
            return failure
    return None


def _how(case: Case) -> str:
    return f"  to repeat it:  make sim SEED={case}"


# ---- Many --------------------------------------------------------------------


class Search:
    """Goes over cases."""

    def __init__(self, cases: list[Case], logbook: Logbook, jobs: int) -> None:
        self._cases = cases
        self._logbook = logbook
        self._jobs = jobs
        self._progress = Progress(len(cases), len(logbook.results))
        self._coverage = Coverage()
        for case, result in logbook.results.items():
            self._coverage.add(case, result.states)

    def run(self, *, corpus: bool = False) -> int:
        """Runs what is left, and sums up; with `corpus` writes that too."""
        left = [case for case in self._cases if case not in self._logbook.results]
        if len(left) < len(self._cases):
            print(f"goes on where it stopped, by {self._logbook.path.name}; AGAIN=1 begins anew")
        for case, result in self._logbook.failed().items():
            self._tell(case, result)
        if not left:
            print(f"seeds {self._cases[0]} to {self._cases[-1]} are all done with this build")
        else:
            try:
                self._search(left)
            except KeyboardInterrupt:
                self._progress.end(len(self._logbook.results), len(self._logbook.failed()))
                print("stopped; the same command goes on from here")
                return INTERRUPTED
        if corpus:
            print(f"{self._coverage.write()} seeds are in the corpus")
        return self._sum_up()

    def _search(self, left: list[Case]) -> None:
        jobs = min(self._jobs, len(left))
        with Crew[Case, Result](jobs, try_case, lambda death: Result(error=death)) as crew:
            for case, result in crew.results(iter(left)):
                is_new = self._coverage.add(case, result.states)
                self._logbook.add(case, result if is_new else replace(result, states=frozenset()))
                if result.error:
                    self._tell(case, result)
                self._progress.show(len(self._logbook.results), len(self._logbook.failed()))
        self._progress.end(len(self._logbook.results), len(self._logbook.failed()))

    def _tell(self, case: Case, result: Result) -> None:
        self._progress.clear()
        print(f"seed {case}: {result.error}")
        print(_how(case), flush=True)

    def _sum_up(self) -> int:
        failed = self._logbook.failed()
        facts = sum(result.facts for result in self._logbook.results.values())
        coverage = self._coverage
        print(f"{len(coverage.states)} states, by {len(coverage.reached)} seeds that were first")
        print(f"{len(self._cases)} seeds, {facts} facts, {len(failed)} failed", end="")
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
    # What broker and client log under trouble is in the trace too.
    logging.disable(logging.CRITICAL)
    sys.exit(main())
