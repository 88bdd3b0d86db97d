"""What another thread brings about, and this one waits for.

A future would do the same, but for Ctrl-C. The condition in it stays taken if KeyboardInterrupt
is raised while it is being entered; whoever sets the future, here the loop's thread, would
then wait for ever. A plain lock is taken in one step.
"""

import threading
from typing import Generic, TypeVar

__all__ = ["Outcome"]

T = TypeVar("T")


class Outcome(Generic[T]):
    """Set once, by another thread than the one that waits."""

    __slots__ = ("_error", "_unset", "_value")

    def __init__(self) -> None:
        self._unset = threading.Lock()
        self._unset.acquire()
        self._error: BaseException | None = None
        self._value: T | None = None

    def set(self, error: BaseException | None, value: T | None) -> None:
        self._error = error
        self._value = value
        self._unset.release()

    def wait(self) -> T:
        """Returns the value. Raises the error, if there is one."""
        self._unset.acquire()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]
