"""Processes that run cases, one each at a time.

| a process that              | then                                                          |
|-----------------------------|---------------------------------------------------------------|
| hands back a result         | is given the next case                                        |
| dies                        | its case has failed, with how it died; another takes its place |
| says nothing for ENDLESS_S  | is killed, and so is dead                                     |

Only the parent hears a Ctrl-C; its processes end when it does.
"""

import logging
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

T = TypeVar("T")
C = TypeVar("C")

# No case takes so long, not interpreted on a busy machine: one that does would never end.
ENDLESS_S = 300.0

# Others may not share the state of this process: its threads, its handlers, its memory.
CONTEXT = multiprocessing.get_context("spawn")


class Hand(Generic[C, T]):
    """One process, and what it works on."""

    def __init__(self, run: Callable[[C], T]) -> None:
        self.pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_work, args=(theirs, run), daemon=True)
        self.process.start()
        # So that the pipe ends when the process does.
        theirs.close()
        self.case: C | None = None
        self._since = 0.0

    def give(self, case: C) -> None:
        self.case, self._since = case, time.monotonic()
        self.pipe.send(case)

    def patience_s(self) -> float:
        return self._since + ENDLESS_S - time.monotonic()

    def end(self) -> str:
        """Ends it if it lives; says how it ended."""
        endless = self.process.is_alive() and self.patience_s() <= 0
        if endless:
            self.process.kill()
        self.pipe.close()
        self.process.join()
        if endless:
            return f"it did not end within {ENDLESS_S:.0f} s"
        return f"its process died: {_death(self.process.exitcode)}"


class Crew(Generic[C, T]):
    """As many processes as there are jobs; `fail` makes a result of a case whose process died."""

    def __init__(self, jobs: int, run: Callable[[C], T], fail: Callable[[str], T]) -> None:
        self._run = run
        self._fail = fail
        self._hands: list[Hand[C, T]] = [Hand(run) for _ in range(jobs)]

    def results(self, cases: Iterator[C]) -> Iterator[tuple[C, T]]:
        """Runs cases, and yields them with their results, as they come."""
        for hand in self._hands:
            self._feed(hand, cases)
        while busy := [hand for hand in self._hands if hand.case is not None]:
            patience = max(0.0, min(hand.patience_s() for hand in busy))
            heard = wait([hand.pipe for hand in busy], patience)
            for hand in busy:
                if hand.pipe in heard or hand.patience_s() <= 0:
                    yield self._take(hand, cases)

    def _take(self, hand: Hand[C, T], cases: Iterator[C]) -> tuple[C, T]:
        case = hand.case
        assert case is not None
        hand.case = None
        try:
            if not hand.pipe.poll():
                raise EOFError
            result: T = hand.pipe.recv()
        except (EOFError, OSError):
            result = self._fail(hand.end())
            self._hands.remove(hand)
            hand = Hand(self._run)
            self._hands.append(hand)
        self._feed(hand, cases)
        return case, result

    def _feed(self, hand: Hand[C, T], cases: Iterator[C]) -> None:
        case = next(cases, None)
        if case is not None:
            hand.give(case)

    def __enter__(self) -> "Crew[C, T]":
        return self

    def __exit__(self, *_: object) -> None:
        for hand in self._hands:
            hand.process.terminate()
            hand.pipe.close()
        for hand in self._hands:
            hand.process.join()


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def _work(pipe: Connection, run: Callable[[C], T]) -> None:
    """What a process does: a case comes in, a result goes out, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What broker and client log under trouble is in the trace too.
    logging.disable(logging.CRITICAL)
    while True:
        try:
            case: C = pipe.recv()
        except EOFError:
            return
        pipe.send(run(case))
