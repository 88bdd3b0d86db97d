"""What a promise of the broker's was kept with, for tests."""

from typing import TypeVar

from magnetar.broker.promise import Promise

__all__ = ["promised"]

T = TypeVar("T")


def promised(promise: Promise[T]) -> T:
    """The answer of a promise that is done. Raises what it was broken with."""
    assert promise.done
    found: list[T] = []
    failed: list[Exception] = []
    promise.then(found.append, failed.append)
    if failed:
        raise failed[0]
    return found[0]
