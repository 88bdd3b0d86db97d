"""Ctrl-C, where Python would lose it.

Python raises KeyboardInterrupt between any two steps of the main thread, and not every place is
a good one:

| it comes                                              | and                                   |
|-------------------------------------------------------|---------------------------------------|
| in a callback of the interpreter's, as imports have   | is printed, and then forgotten        |
| while a lock changes hands                            | another error is raised, or the lock  |
|                                                       | stays taken and others wait for it    |
| in the moment before a wait                           | is seen when that wait is over        |

So what must not be torn apart is done `uninterrupted`; what goes on for long there asks between
its steps, and waits no longer than `TURN_S` at a time.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, TypeAlias

__all__ = ["TURN_S", "Check", "uninterrupted"]

# Raises KeyboardInterrupt if Ctrl-C was pressed.
Check: TypeAlias = Callable[[], None]

# What somebody who pressed Ctrl-C takes for at once.
TURN_S: Final = 0.25


@contextmanager
def uninterrupted() -> Iterator[Check]:
    """Ctrl-C is raised at the end of the block, or where it is asked for; a second one at once.

    A handler and no mask: other threads take a signal that this one has masked. Where Ctrl-C
    is ignored, as in jobs of a shell script, or somebody else's, it stays so.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield lambda: None
        return
    noted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    def check() -> None:
        if noted:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        check()
