"""Cases that take no time, for tests of the search itself; a process that runs them starts soon."""

import os
import signal
from typing import TYPE_CHECKING

from sim.result import Result

if TYPE_CHECKING:
    from sim.case import Case

DEADLY = 3
SILENT = 4
BROKEN = 12


def square(number: int) -> int:
    if number == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == SILENT:
        signal.pause()
    return number * number


def try_light(case: "Case") -> Result:
    if case.seed == BROKEN:
        return Result(error="Broken: it is")
    return Result(case.seed, states=frozenset({f"odd {case.seed % 2}"}))
