"""What dies as one: the tasks, timers, connections and threads of one simulated process.

Every callback of the loop belongs to a process, which is found through the context that
asyncio carries along anyway: what a process starts is its own. `SimLoop.kill` makes a
process dead. From then on nothing of it runs, not even a `finally`, as after kill -9; its
sockets are closed by the kernel, or vanish without a word if the power went.

    alive   callbacks run
    dead    callbacks are thrown away, and what code that is still under way asks of the
            loop and the network has no effect; a disk raises `ProcessKilled`
"""

from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import asyncio

    from magnetar.testing.sim.loop import SimLoop

__all__ = ["ProcessKilled", "SimProcess"]

T = TypeVar("T")


class ProcessKilled(BaseException):
    """Raised in code of a process that is dead; not an error that anybody could handle."""


class SimProcess:
    """A process of the simulation; made by `SimLoop.process`."""

    def __init__(self, loop: "SimLoop", name: str, serial: int) -> None:
        self.name: Final = name
        self.serial: Final = serial
        self.dead: bool = False
        self.signal_handlers: dict[int, Callable[[], object]] = {}
        self._loop: Final = loop
        self._context: Final[Context] = copy_context()
        self._context.run(CURRENT.set, self)

    def start(self, main: Coroutine[Any, Any, T], *, name: str = "") -> "asyncio.Task[T]":
        """Begins a task in this process."""
        context = self._context.copy()
        return self._loop.create_task(main, name=name or f"{self.name} main", context=context)

    def call(self, function: Callable[[], T]) -> T:
        """Calls a function as this process; what it starts belongs to the process."""
        return self._context.copy().run(function)

    def __repr__(self) -> str:
        return f"<process {self.name}.{self.serial}{' dead' if self.dead else ''}>"


CURRENT: Final[ContextVar[SimProcess]] = ContextVar("sim_process")


def process_of(context: Context | None, main: SimProcess) -> SimProcess:
    """Returns the process that a context, or the present one, belongs to."""
    if context is None:
        return CURRENT.get(main)
    return context.get(CURRENT, main)
