"""An event loop on a thread of its own, and calls from other threads that wait for it."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from magnetar.client.door.threads.outcome import Outcome
from magnetar.errors import AlreadyClosed, MagnetarError, OperationNotSupported

__all__ = ["LoopThread", "new_event_loop", "run_to_end"]

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Returns a loop of uvloop's, where that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run_to_end(loop: asyncio.AbstractEventLoop) -> None:
    """Runs a loop on this thread until it is stopped, then ends what is left on it."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = new_event_loop()
        self._stopping = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="magnetar-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        run_to_end(self._loop)

    def refuse_here(self) -> None:
        """Raises if this is the loop's own thread."""
        if threading.current_thread() is self._thread:
            raise OperationNotSupported(
                "a blocking call on the client's own thread would wait for itself: use send_async, "
                "or make the call from another thread"
            )

    def call(self, work: "Coroutine[Any, Any, T]") -> T:
        """Runs a coroutine there and waits for it here; whoever is interrupted cancels it."""
        run = _Run(work)
        try:
            self.refuse_here()
            with self._lock:
                if self._stopping:
                    raise AlreadyClosed("the client is closed: make another")
                self._loop.call_soon_threadsafe(run.start)
        except MagnetarError:
            work.close()
            raise
        except BaseException:
            self._drop(run)
            raise
        try:
            return run.outcome.wait()
        except BaseException:
            self._drop(run)
            raise

    def _drop(self, run: "_Run[Any]") -> None:
        try:
            self._loop.call_soon_threadsafe(run.drop)
        except RuntimeError:  # the loop is closed
            run.drop()

    def stop(self) -> None:
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class _Run(Generic[T]):
    """A coroutine on the loop that another thread waits for. Its methods are the loop's."""

    def __init__(self, work: "Coroutine[Any, Any, T]") -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self.outcome: Outcome[T] = Outcome()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._done)

    def drop(self) -> None:
        """Drops a call that nobody waits for any more; it may be done, or not even begun."""
        if self._task is None:
            self._work.close()
        else:
            self._task.cancel()

    def _done(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self.outcome.set(AlreadyClosed("the client was closed meanwhile"), None)
        elif (error := task.exception()) is not None:
            self.outcome.set(error, None)
        else:
            self.outcome.set(None, task.result())
