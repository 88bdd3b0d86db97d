"""Threads of a pool, simulated: a function runs at one moment, its result arrives at another.

Between the two moments anything may happen, even the death of the process, and then the
result is lost although the function has run. At most `workers` functions are under way;
the others wait in the order in which they came.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from magnetar.testing.sim.loop import SimLoop

__all__ = ["SimExecutor"]

T = TypeVar("T")

WORKERS: Final = 8
# Finding a thread and doing the work; then getting back to the loop.
START_S_MAX: Final = 0.000_2
WORK_S_MAX: Final = 0.002


class SimExecutor(Executor):
    """An executor of `concurrent.futures` without threads."""

    def __init__(self, loop: "SimLoop", *, workers: int = WORKERS) -> None:
        self._loop = loop
        self._random = loop.random_for("executor")
        self._idle = workers
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_shut_down = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        if self._is_shut_down:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[T] = Future()

        def work() -> None:
            self._work(future, lambda: fn(*args, **kwargs))

        def start() -> None:
            self._loop.call_aside(self._random.random() * START_S_MAX, work)

        if self._idle:
            self._idle -= 1
            start()
        else:
            self._waiting.append(start)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes nothing more; what was taken still runs, without being waited for."""
        self._is_shut_down = True
        if cancel_futures:
            self._waiting.clear()

    def _work(self, future: "Future[T]", function: Callable[[], T]) -> None:
        delay = self._random.random() * WORK_S_MAX
        if not future.set_running_or_notify_cancel():
            self._loop.call_aside(0.0, self._free)
            return
        try:
            result = function()
        except Exception as error:
            self._loop.call_aside(delay, self._end, future.set_exception, error)
        else:
            self._loop.call_aside(delay, self._end, future.set_result, result)

    def _end(self, settle: Callable[[Any], None], value: Any) -> None:
        settle(value)
        self._free()

    def _free(self) -> None:
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._idle += 1
