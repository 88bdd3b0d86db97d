"""Single keys from a terminal, as they are pressed."""

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

__all__ = ["Key", "keys"]

# Waits so many seconds for a key; empty if none was pressed.
Key: TypeAlias = Callable[[float], str]


@contextmanager
def keys() -> Iterator[Key]:
    """Keys without Return and without an echo, until the block ends; Ctrl-C stays what it is."""
    try:
        import termios
        import tty
    except ImportError:  # Windows: Ctrl-C is all there is
        yield _none
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield lambda seconds: _pressed(descriptor, seconds)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _pressed(descriptor: int, seconds: float) -> str:
    ready, _, _ = select.select([descriptor], [], [], seconds)
    if not ready:
        return ""
    read = os.read(descriptor, 1)
    # Whoever hung up will press nothing more.
    return read.decode(errors="replace") if read else "q"


def _none(seconds: float) -> str:
    import time

    time.sleep(seconds)
    return ""
