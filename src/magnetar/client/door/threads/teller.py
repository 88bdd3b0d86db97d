"""What became of messages, told to whoever sent them from other threads.

A caller of `send` waits on a `Sending` and is told at once; callbacks of `send_async` are left
to a thread of their own, which calls them in order and may be kept busy by them.
"""

import sys
import threading
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any

from magnetar.client.door.threads.outcome import Outcome
from magnetar.client.errors import Result, result_of
from magnetar.model import MessageId

__all__ = ["Callbacks", "Sending", "Teller", "complain"]

# Callbacks of the messages of one entry, what became of it, and the id of each.
_Called = tuple[list[Any], Result, Sequence[MessageId | None]]


class Callbacks:
    """A thread that calls back, in order."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Called | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.RLock()
        self._stopped = False

    def put(self, callbacks: list[Any], result: Result, ids: Sequence[MessageId | None]) -> None:
        """Has all of them called, but for None, each with its id."""
        if self._thread is None:
            self._start()
        self._queue.put((callbacks, result, ids))

    def tell(self, callback: Any, result: Result) -> None:
        """Has one called whose message was not taken; here, if the thread has ended."""
        with self._starting:
            if not self._stopped:
                self.put([callback], result, [None])
                return
        _call(callback, result, None)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="magnetar-callbacks", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        get = self._queue.get
        while (item := get()) is not None:
            callbacks, result, ids = item
            for callback, id in zip(callbacks, ids, strict=True):
                if callback is not None:
                    _call(callback, result, id)

    def stop(self) -> None:
        with self._starting:
            self._stopped = True
        if self._thread is not None:
            self._queue.put(None)
            if threading.current_thread() is not self._thread:
                self._thread.join()


def _call(callback: Any, result: Result, id: MessageId | None) -> None:
    try:
        callback(result, id)
    except Exception:
        complain()


def complain() -> None:
    """Tells what a function of the application's raised, as for any thread."""
    threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


class Sending(Outcome[MessageId]):
    """A call of `send` that waits."""

    __slots__ = ()


class Teller:
    """Tells the senders of one producer's messages what became of them, an entry at a time.

    Who waits in `send` is told at once, whatever the callbacks before it do; callbacks are
    left to their thread. Everything here is done with the engine's lock.
    """

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        # How many calls of `send` wait.
        self.sending: int = 0

    def __call__(
        self, senders: list[Any], error: Exception | None, ids: Sequence[MessageId | None]
    ) -> None:
        if error is not None:
            ids = [None] * len(senders)
        if self.sending:
            senders = self._tell_waiting(senders, error, ids)
            if not senders:
                return
        self._callbacks.put(senders, Result.Ok if error is None else result_of(error), ids)

    def _tell_waiting(
        self, senders: list[Any], error: Exception | None, ids: Sequence[MessageId | None]
    ) -> list[Any]:
        """Tells those who wait; the callbacks among the senders, each in its place, if any."""
        left: list[Any] = []
        for sender, id in zip(senders, ids, strict=True):
            if type(sender) is Sending:
                self.sending -= 1
                sender.set(error, id)
                left.append(None)
            else:
                left.append(sender)
        return left if any(sender is not None for sender in left) else []
