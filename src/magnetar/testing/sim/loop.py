"""An asyncio loop on which a seed decides everything that a real machine leaves to chance.

Time is virtual: it moves a little with every callback, and jumps to the next event when
nothing is ready. Sockets, files' threads and other machines are simulated by the siblings
of this file, in the same thread. One seed gives the same run, to the byte.

`schedule.py` says which orders of callbacks there are.

**What fails a run.** An exception that leaves a callback, one that a task ended with and
nobody looked at, a deadlock (nothing is ready or due, and what is waited for is not done),
too many steps or seconds, and a timer that is set for now again and again, which on a real
machine keeps a core busy with nothing. Real loops log the first two and go on; here nothing is
swallowed, whatever exception handler is set.

**Sets.** Tasks and futures made here have hashes that count up, so that asyncio's own sets
of them (`TaskGroup`, `wait`) are iterated in the same order in every process. Sets of other
objects are iterated in an order that depends on addresses and on PYTHONHASHSEED: programs
must let no such order decide anything, and comparing traces of two processes finds it.

Not simulated: subprocesses, datagrams, TLS, task factories, reading and writing of real
descriptors. These methods raise NotImplementedError.
"""

import asyncio
import socket
import sys
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, cast

from magnetar.testing.sim.executor import SimExecutor
from magnetar.testing.sim.network import NetworkConditions, SimNetwork
from magnetar.testing.sim.process import ProcessKilled, SimProcess, process_of
from magnetar.testing.sim.schedule import AnyHandle, SimSchedule
from magnetar.testing.sim.task import SimFuture, SimHandle, SimTask, SimTasks, SimTimerHandle
from magnetar.testing.sim.trace import Trace

if TYPE_CHECKING:
    # Declares every method; those that are not here raise NotImplementedError.
    from asyncio import BaseEventLoop as Loop
else:
    from asyncio import AbstractEventLoop as Loop

__all__ = ["DeadlockError", "SimLoop", "SimulationError", "SpinError", "StepLimitError"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SECOND_NS: Final = 1_000_000_000
MS_NS: Final = 1_000_000
# loop.time() begins here, so that nobody takes 0 for "never".
START_NS: Final = 1000 * SECOND_NS
# The wall clock begins here: 15 January 2027.
START_MS: Final = 1_800_000_000_000
# A run of a whole broker with clients takes some 100,000 steps; more is a program in a circle.
STEPS_MAX: Final = 5_000_000
# A virtual day; a program that only waits for timers never ends otherwise.
SECONDS_MAX: Final = 86_400.0
# A callback takes from 1 to 50 us, and one in a thousand up to 20 ms.
CALLBACK_NS_MIN: Final = 1_000
CALLBACK_NS_MAX: Final = 50_000
PAUSE_SHARE: Final = 0.001
PAUSE_NS_MAX: Final = 20 * MS_NS
# How often somebody may set a timer for a moment that has passed, in one virtual second.
SPINS_MAX: Final = 1000

NOTHING_LEFT: Final = "nothing is ready, no timer runs, and these tasks still wait:\n"


class SimulationError(AssertionError):
    """The simulated program did what no program may do."""


class DeadlockError(SimulationError):
    """Something is waited for, and nothing is left that could bring it about."""


class StepLimitError(SimulationError):
    """The run took more steps or more virtual time than it was allowed."""


class SpinError(SimulationError):
    """Somebody asks to be called at once, again and again, and nothing comes of it."""


class SimLoop(Loop):
    """An event loop whose time is simulated and whose order of events follows from a seed.

    >>> import asyncio
    >>> with SimLoop(seed=1) as loop:
    ...     loop.run(asyncio.sleep(3600, "an hour has passed"))
    'an hour has passed'
    """

    def __init__(
        self,
        seed: int,
        *,
        trace: Trace | None = None,
        conditions: NetworkConditions | None = None,
        steps_max: int = STEPS_MAX,
        seconds_max: float = SECONDS_MAX,
        callback_ns_max: int = CALLBACK_NS_MAX,
        pause_share: float = PAUSE_SHARE,
        coarse: bool | None = None,
    ) -> None:
        self.seed: Final = seed
        self.trace: Final = trace if trace is not None else Trace()
        self.now_ns: int = START_NS
        self.steps: int = 0
        self._steps_max = steps_max
        self._end_ns = START_NS + int(seconds_max * SECOND_NS)
        self._callback_ns_max = callback_ns_max
        self._pause_share = pause_share
        self._clock_offset_ms = 0
        self._serial = 0
        self._random = self.random_for("loop")
        self._chance: Final = self._random.random
        drawn = self._random.random() < 0.5
        # Whether the clock is uvloop's.
        self.coarse: Final = drawn if coarse is None else coarse
        self._tick_ms = START_NS // MS_NS
        # Who set a timer for what has passed, and how often, since a moment.
        self._spins: dict[object, int] = {}
        self._spins_since_ns = START_NS
        self._schedule: Final = SimSchedule(self._random)
        self._tasks: Final = SimTasks()
        self._generators: list[weakref.ref[AsyncGenerator[Any, Any]]] = []
        self._failure: BaseException | None = None
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._debug = False
        self._running = False
        self._stopping = False
        self._closed = False
        self._burying = False
        self._ending = False
        self.main: Final = SimProcess(self, "main", self.next_serial())
        self.network: Final = SimNetwork(self, conditions or NetworkConditions())
        self._executors: dict[int, SimExecutor] = {}

    # ---- For the one who simulates -------------------------------------------

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs to the end: what is left over is cancelled, as `asyncio.run` does."""
        try:
            result = self.run_until_complete(main)
        finally:
            if self._failure is None:
                self._cancel_the_rest()
        self.check()
        return result

    def check(self) -> None:
        """Raises what a task ended with and nobody has looked at."""
        task = self._tasks.unseen()
        if task is not None:
            error = task.exception()
            assert error is not None
            error.add_note(f"nobody looked at how the task {task.get_name()!r} ended")
            raise self._with_place(error)

    def random_for(self, purpose: str) -> Random:
        """Returns a source of chance of its own, so that one use does not disturb another."""
        return Random(f"{self.seed}/{purpose}")

    def process(self, name: str) -> SimProcess:
        """Returns a new process; one that died is replaced by a new one of the same name."""
        process = SimProcess(self, name, self.next_serial())
        self.note(f"process {name}", f"started as {process.serial}")
        return process

    def kill(self, process: SimProcess, *, silent: bool = False) -> None:
        """Ends a process between two instructions.

        Its peers see their connections end or reset; nothing at all if `silent`, as when
        the power of its machine goes.
        """
        assert process is not self.main, "the main process is the one who looks on"
        if process.dead:
            return
        process.dead = True
        self.note(f"process {process.name}", "lost power" if silent else "killed")
        self.network.process_died(process, silent=silent)

    def signal(self, process: SimProcess, number: int) -> None:
        """Sends a signal that the process has a handler for."""
        handler = process.signal_handlers[number]
        self.note(f"process {process.name}", f"signal {int(number)}")
        process.call(lambda: self.call_aside(0.0, self.call_soon_threadsafe, handler))

    def clock_ms(self) -> int:
        """Returns the wall clock, which may jump; `time` does not."""
        return self.steady_ms() + self._clock_offset_ms

    def steady_ms(self) -> int:
        """Returns what the wall clock would be if it had never jumped."""
        return START_MS + (self.now_ns - START_NS) // MS_NS

    def jump_clock(self, milliseconds: int) -> None:
        """Sets the wall clock forward, or back."""
        self._clock_offset_ms += milliseconds
        self.note("clock", f"jumps by {milliseconds} ms")

    def note(self, source: str, event: str) -> None:
        """Adds a line to the trace."""
        self.trace.add(self.now_ns, source, event)

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Returns every task that is not done, of processes that live, oldest first."""
        return self._tasks.alive()

    def who_waits(self) -> str:
        """Returns every task and where it waits, for a person to read."""
        return self._tasks.who_waits()

    def call_arrival(
        self, delay_ns: int, callback: Callable[..., object], *args: Any, context: Context
    ) -> asyncio.Handle:
        """Calls back for something that comes from outside and is found between two ticks."""
        handle = SimHandle(callback, args, self, context)
        self._push(self.now_ns + delay_ns, handle)
        return handle

    def call_aside(
        self, delay: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.Handle:
        """Runs a callback as another thread of this process would: between any two others.

        It may touch only what threads may, and get back by `call_soon_threadsafe`.
        """
        handle = SimHandle(callback, args, self, None)
        if not self._is_inert():
            when_ns = self.now_ns + int(delay * SECOND_NS) + 1
            self._schedule.add_aside(when_ns, self.next_serial(), handle)
        return handle

    def next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def __enter__(self) -> "SimLoop":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.check()
        finally:
            self.close()

    # ---- Running -------------------------------------------------------------

    def run_forever(self) -> None:
        self._check_closed()
        if self._running:
            raise RuntimeError("This event loop is already running")
        hooks = sys.get_asyncgen_hooks()
        self._running = True
        try:
            sys.set_asyncgen_hooks(self._generator_begins, self._generator_dropped)
            asyncio._set_running_loop(self)
            while not self._stopping:
                self._tick()
        finally:
            self._stopping = False
            self._running = False
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        self._check_closed()
        ours = not asyncio.isfuture(future)
        waited = asyncio.ensure_future(cast("Awaitable[T]", future), loop=self)
        waited.add_done_callback(self._stop_for)
        try:
            self.run_forever()
        except BaseException:
            if ours and waited.done() and not waited.cancelled():
                waited.exception()  # looked at: what we raise says more
            raise
        finally:
            waited.remove_done_callback(self._stop_for)
        if not waited.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return waited.result()

    def _stop_for(self, future: "asyncio.Future[Any]") -> None:
        self.stop()

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        assert not self._running, "Cannot close a running event loop"
        if self._closed:
            return
        self.note("loop", f"closed after {self.steps} steps")
        self._closed = True
        self._burying = True
        self._tasks.bury()
        self._burying = False
        self._schedule.clear()

    def _tick(self) -> None:
        self._tick_ms = self.now_ns // MS_NS
        self._schedule.admit(self.now_ns)
        if self._schedule.asides:
            self._run_asides()
        ready = self._schedule.ready
        if not ready:
            self._jump()
            return
        asides = self._schedule.asides
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not (handle._cancelled or handle.process.dead):
                self._step(handle)
            if asides and asides[0][0] <= self.now_ns:
                self._run_asides()

    def _step(self, handle: AnyHandle) -> None:
        self.steps += 1
        if self.steps > self._steps_max:
            raise self._with_place(StepLimitError(f"more than {self._steps_max} steps"))
        handle._run()
        # A callback takes a while.
        random = self._chance
        cost_ns = CALLBACK_NS_MIN + int(random() * self._callback_ns_max)
        if self._pause_share and random() < self._pause_share:
            cost_ns += int(random() * PAUSE_NS_MAX)
        self.now_ns += cost_ns
        if self._failure is not None:
            raise self._with_place(self._failure)

    def _run_asides(self) -> None:
        """What other threads did until now."""
        while (handle := self._schedule.take_aside(self.now_ns)) is not None:
            handle._run()
            if self._failure is not None:
                raise self._with_place(self._failure)

    def _jump(self) -> None:
        """Nothing is ready: the next thing that happens happens now."""
        next_ns = self._schedule.next_ns()
        if next_ns is None:
            raise self._with_place(DeadlockError(NOTHING_LEFT + self.who_waits()))
        self.now_ns = max(self.now_ns, next_ns)
        if self.now_ns > self._end_ns:
            seconds = (self._end_ns - START_NS) // SECOND_NS
            raise self._with_place(StepLimitError(f"more than {seconds} s of virtual time"))

    def _with_place(self, error: BaseException) -> BaseException:
        """Says where in the run it was; the run can be repeated up to there."""
        place = f"seed {self.seed}, step {self.steps}, {self.time():.6f} s"
        error.add_note(f"in the simulation: {place}")
        return error

    # ---- Callbacks -----------------------------------------------------------

    def time(self) -> float:
        return self._tick_ms / 1000 if self.coarse else self.now_ns / SECOND_NS

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = SimHandle(callback, args, self, context)
        if not self._is_inert():
            self._schedule.ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = SimTimerHandle(when, callback, args, self, context)
        if self._is_inert():
            return handle
        if when <= self.time():
            self._count_spin(callback)
        if not self.coarse:
            # Not before `when`, however it is rounded.
            self._push(int(when * SECOND_NS) + 1, handle)
        elif (delay_ms := round((when - self.time()) * 1000)) > 0:
            self._push((self._tick_ms + delay_ms) * MS_NS, handle)
        else:
            self._schedule.ready.append(handle)
        return handle

    def _count_spin(self, callback: Callable[..., object]) -> None:
        if self.now_ns - self._spins_since_ns > SECOND_NS:
            self._spins.clear()
            self._spins_since_ns = self.now_ns
        spins = self._spins[callback] = self._spins.get(callback, 0) + 1
        if spins > SPINS_MAX:
            self._failure = SpinError(f"{callback} sets its timer for now all the time")

    def _push(self, when_ns: int, handle: AnyHandle) -> None:
        if self._closed:
            return
        in_order = self.coarse and isinstance(handle, SimTimerHandle)
        self._schedule.add_event(when_ns, self.next_serial(), handle, in_order=in_order)

    def _is_inert(self) -> bool:
        """Returns whether the one who calls is dead; raises if the loop is closed."""
        if self._burying:
            return True
        self._check_closed()
        return process_of(None, self.main).dead

    def _check_closed(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio counts them; here they are skipped when their time comes."""

    # ---- Tasks ---------------------------------------------------------------

    def create_future(self) -> "asyncio.Future[Any]":
        return SimFuture(self)

    def create_task(  # type: ignore[override]  # Python 3.14 passes on whatever it is given
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> "asyncio.Task[T]":
        self._check_closed()
        task = SimTask(coro, loop=self, name=name, context=context)
        self._tasks.add(task)
        return task

    def get_task_factory(self) -> None:
        """None, ever: tasks are those that know their process."""

    def _cancel_the_rest(self) -> None:
        self._ending = True
        left = self.tasks()
        for task in left:
            task.cancel()
        if left:
            self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.run_until_complete(self.shutdown_asyncgens())

    # ---- Asynchronous generators ---------------------------------------------

    def _generator_begins(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators = [known for known in self._generators if known() is not None]
        self._generators.append(weakref.ref(generator))

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            self.call_soon_threadsafe(self.create_task, generator.aclose())

    async def shutdown_asyncgens(self) -> None:
        for known in self._generators:
            if (generator := known()) is not None:
                await generator.aclose()
        self._generators = []

    # ---- Errors --------------------------------------------------------------

    def set_exception_handler(self, handler: Any) -> None:
        self._handler = handler

    def get_exception_handler(self) -> Any:
        return self._handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """What goes wrong is raised by the run, so there is nothing to add."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        future = context.get("future")
        of_the_dead = isinstance(future, (SimFuture, SimTask)) and future.process.dead
        if isinstance(error, ProcessKilled) or of_the_dead or self._closed:
            return
        if isinstance(error, asyncio.CancelledError) and self._ending:
            return  # Python 3.11's streams ask tasks that we cancelled for their exception
        if self._handler is not None:
            self._handler(self, context)
        if self._failure is None:
            self._failure = error or SimulationError(context["message"])

    def get_debug(self) -> bool:
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        self._debug = enabled

    # ---- The world outside ---------------------------------------------------

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        chosen = self._default_executor() if executor is None else executor
        if not isinstance(chosen, SimExecutor):
            raise TypeError(f"{executor!r} has real threads: pass None or a SimExecutor")
        return asyncio.wrap_future(chosen.submit(func, *args), loop=self)

    def _default_executor(self) -> SimExecutor:
        """Threads belong to a process and die with it."""
        process = process_of(None, self.main)
        if process.serial not in self._executors:
            self._executors[process.serial] = SimExecutor(self)
        return self._executors[process.serial]

    def set_default_executor(self, executor: Executor) -> None:
        raise TypeError("the default executor is simulated and stays so")

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """There are no threads to wait for."""

    def add_signal_handler(self, sig: int, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        process_of(None, self.main).signal_handlers[sig] = lambda: callback(*args)

    def remove_signal_handler(self, sig: int) -> bool:
        return process_of(None, self.main).signal_handlers.pop(sig, None) is not None

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[tuple[Any, ...]]:
        where = (str(host or "0.0.0.0"), int(port or 0))
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", where)]

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int = 0,
        *,
        start_serving: bool = True,
        **options: Any,
    ) -> asyncio.AbstractServer:
        if options.get("ssl") is not None:
            raise NotImplementedError("TLS is not simulated")
        server = self.network.listen(protocol_factory, host, port)
        if start_serving:
            await server.start_serving()
        return server

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int = 0,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if options.get("ssl") is not None:
            raise NotImplementedError("TLS is not simulated")
        return await self.network.connect(protocol_factory, host or "127.0.0.1", port)
