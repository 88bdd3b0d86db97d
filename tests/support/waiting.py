"""Waiting for what another thread or process is about to do, and nobody tells of."""

import time
from collections.abc import Callable

# How long anything that must come may take, on a machine with other things to do.
WAIT_S = 30.0


def wait_until(
    condition: Callable[[], bool],
    what: Callable[[], str] = lambda: "it did not come true",
    *,
    seconds: float = WAIT_S,
) -> None:
    """Waits for a condition; fails with `what` if it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.005)
