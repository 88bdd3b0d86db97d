"""An event loop on a thread of its own, and calls from other threads that wait for it."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from magnetar.errors import AlreadyClosed, OperationNotSupported

__all__ = ["LoopThread", "new_event_loop"]

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LoopThread:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = new_event_loop()
        self._stopping = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="magnetar-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
        finally:
            self._loop.close()

    def refuse_here(self) -> None:
        """Raises if this is the loop's own thread."""
        if threading.current_thread() is self._thread:
            raise OperationNotSupported(
                "a blocking call on the client's own thread would wait for itself: use send_async, "
                "or make the call from another thread"
            )

    def call(self, work: "Coroutine[Any, Any, T]") -> T:
        """Runs a coroutine there and waits for it here."""
        try:
            self.refuse_here()
            with self._lock:
                if self._stopping:
                    raise AlreadyClosed("the client is closed: make another")
                future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except CancelledError:
            raise AlreadyClosed("the client was closed meanwhile") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        with self._lock:
            if not self._stopping:
                self._stopping = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
