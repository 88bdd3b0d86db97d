"""Cases that take no time, for tests of the search itself; a process that runs them starts soon."""

import os
import signal

from sim.result import Result

DEADLY = 3
SILENT = 4
BROKEN = 12


def square(number: int) -> int:
    if number == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == SILENT:
        signal.pause()
    return number * number


def try_light(seed: int) -> Result:
    return Result(error="Broken: it is") if seed == BROKEN else Result(facts=seed)
