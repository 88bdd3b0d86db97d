"""Tasks, futures and handles of the simulated loop.

They differ from asyncio's in two things: their hashes count up, so that sets of them are
iterated in the same order in every run, and they know the process that they belong to.
`SimTasks` has the tasks of a loop, and misses none that failed where nobody looked.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, TypeVar

from magnetar.testing.sim.process import ProcessKilled, process_of

if TYPE_CHECKING:
    from magnetar.testing.sim.loop import SimLoop

__all__ = ["SimFuture", "SimHandle", "SimTask", "SimTasks", "SimTimerHandle"]

T = TypeVar("T")

# How many finished tasks may be kept before they are looked through.
TASKS_KEPT: Final = 1024


class SimFuture(asyncio.Future[T]):
    """A future whose hash is the same in every run, and which knows its process."""

    def __init__(self, loop: "SimLoop") -> None:
        self.serial: Final = loop.next_serial()
        self.process: Final = process_of(None, loop.main)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.serial


class SimTask(asyncio.Task[T]):
    """A task whose hash is the same in every run, and which knows its process."""

    def __init__(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        loop: "SimLoop",
        name: str | None,
        context: Context | None,
    ) -> None:
        self.serial: Final = loop.next_serial()
        self.process: Final = process_of(context, loop.main)
        super().__init__(coro, loop=loop, name=name or f"Task-{self.serial}", context=context)

    def __hash__(self) -> int:
        return self.serial


class SimTasks:
    """The tasks of a loop that are not done, or that failed and nobody looked at."""

    def __init__(self) -> None:
        self._tasks: Final[dict[int, SimTask[Any]]] = {}

    def add(self, task: "SimTask[Any]") -> None:
        if len(self._tasks) > TASKS_KEPT:
            self._sweep()
        self._tasks[task.serial] = task

    def alive(self) -> "list[asyncio.Task[Any]]":
        """Returns those that are not done, of processes that live, oldest first."""
        return [t for t in self._tasks.values() if not t.done() and not t.process.dead]

    def unseen(self) -> "SimTask[Any] | None":
        """Returns a task that failed in a process that lives, and that nobody looked at."""
        self._sweep()
        failed = (t for t in self._tasks.values() if t.done() and not t.process.dead)
        return next(failed, None)

    def who_waits(self) -> str:
        lines = []
        for task in self.alive():
            frames = task.get_stack()
            where = f"{frames[-1].f_code.co_qualname}:{frames[-1].f_lineno}" if frames else "?"
            lines.append(f"  {task.get_name()} at {where}")
        return "\n".join(lines)

    def bury(self) -> None:
        """Ends the coroutines that will never be resumed."""
        for task in self._tasks.values():
            coroutine = task.get_coro()
            if task.done() or coroutine is None:
                continue
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            try:
                coroutine.close()
            except (Exception, ProcessKilled, BaseExceptionGroup):
                # Its process is dead or the run is over: what its `finally` met is of no
                # consequence, and there is nobody left to tell.
                continue
        self._tasks.clear()

    def _sweep(self) -> None:
        """Forgets those that are done, unless they failed and nobody looked."""
        for serial, task in list(self._tasks.items()):
            if task.done() and not task._log_traceback:
                del self._tasks[serial]


class SimHandle(asyncio.Handle):
    """A callback that knows its process."""

    __slots__ = ("process",)

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "SimLoop",
        context: Context | None,
    ) -> None:
        self.process: Final = process_of(context, loop.main)
        super().__init__(callback, args, loop, context)

    def is_void(self) -> bool:
        return self.cancelled() or self.process.dead


class SimTimerHandle(asyncio.TimerHandle):
    """The same for a time to come."""

    __slots__ = ("process",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "SimLoop",
        context: Context | None,
    ) -> None:
        self.process: Final = process_of(context, loop.main)
        super().__init__(when, callback, args, loop, context)

    def is_void(self) -> bool:
        return self.cancelled() or self.process.dead
