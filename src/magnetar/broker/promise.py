"""A promise: the one way to wait in the broker, without a loop. It is kept or broken once.

Whoever decides is synchronous, but what is decided is answered when it is durable, and what is
looked for may have to be read. Whatever takes a while returns a promise: `Commits.wait_for` for a
ticket of the journal, `Host.read` for the disk, `join`, `skip`, `close` and their like for what
is made of those. Listeners are called at once if the promise is done, else when it is.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

__all__ = ["Promise", "broken", "kept"]

T = TypeVar("T")


class Promise(Generic[T]):
    """One answer or one error, for any number of listeners."""

    def __init__(self) -> None:
        self.done: bool = False
        self.error: Exception | None = None
        self._value: T | None = None
        self._then: Final[list[Callable[[T], None]]] = []
        self._otherwise: Final[list[Callable[[Exception], None]]] = []

    def keep(self, value: T) -> None:
        """Gives the answer; a promise that is done stays as it is."""
        if self.done:
            return
        self.done = True
        self._value = value
        for listener in self._then:
            listener(value)
        self._forget()

    def fail(self, error: Exception) -> None:
        """Says that there will be no answer, and why."""
        if self.done:
            return
        self.done = True
        self.error = error
        for listener in self._otherwise:
            listener(error)
        self._forget()

    def then(self, kept: Callable[[T], None], broken: Callable[[Exception], None]) -> None:
        """Calls one of the two, now or later."""
        if not self.done:
            self._then.append(kept)
            self._otherwise.append(broken)
        elif self.error is not None:
            broken(self.error)
        else:
            kept(self._value)  # type: ignore[arg-type]

    def when_done(self, callback: Callable[[Exception | None], None]) -> None:
        """Calls back either way, now or later: with None if it is kept, else with the error."""
        self.then(lambda value: callback(None), callback)

    def end(self: "Promise[None]", error: Exception | None) -> None:
        """Keeps it if there is no error, else fails with it."""
        if error is None:
            self.keep(None)
        else:
            self.fail(error)

    def _forget(self) -> None:
        self._then.clear()
        self._otherwise.clear()


def kept(value: T) -> Promise[T]:
    """Returns a promise that is kept already."""
    promise: Promise[T] = Promise()
    promise.keep(value)
    return promise


def broken(error: Exception) -> Promise[T]:
    """Returns a promise that will not be kept."""
    promise: Promise[T] = Promise()
    promise.fail(error)
    return promise
