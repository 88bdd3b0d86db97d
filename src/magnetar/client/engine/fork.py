"""What becomes of clients in a process that was forked off: nothing there may use them.

The child has the parent's sockets, but neither its loop nor its threads: whatever waited for an
answer would wait for ever, and what it wrote would come between the parent's own commands. So
all clients of the parent refuse to work there, and say why. Closing one does nothing: what
there is to close is the parent's.
"""

import os
import threading
from typing import TYPE_CHECKING
from weakref import WeakSet

from magnetar.errors import UsageError

if TYPE_CHECKING:
    from magnetar.client.engine.client import Engine

__all__ = ["fork_error", "watch_forks"]

_engines: "WeakSet[Engine]" = WeakSet()


def watch_forks(engine: "Engine") -> None:
    """Has the engine told, from now on, when this process is forked off another."""
    _engines.add(engine)


def fork_error() -> UsageError:
    return UsageError(
        f"this client was made before process {os.getpid()} was forked off: its connections are "
        "the parent's. Make a client in each process, or start processes by spawn or forkserver"
    )


def _in_child() -> None:
    for engine in list(_engines):
        engine.forked_off()
    _engines.clear()


def release(lock: object) -> None:
    """Lets go of a lock that a thread of the parent may have held as it forked."""
    if isinstance(lock, _RLOCK):
        lock._at_fork_reinit()  # type: ignore[attr-defined]  # as Python's own modules do


_RLOCK: type = type(threading.RLock())

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
