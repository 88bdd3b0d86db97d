"""Tasks, futures and handles of the simulated loop.

They differ from asyncio's in two things: their hashes count up, so that sets of them are
iterated in the same order in every run, and they know the process that they belong to.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, TypeVar

from magnetar.testing.sim_process import process_of

if TYPE_CHECKING:
    from magnetar.testing.sim_loop import SimLoop

__all__ = ["SimFuture", "SimHandle", "SimTask", "SimTimerHandle"]

T = TypeVar("T")


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
