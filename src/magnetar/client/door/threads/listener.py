"""Listeners: functions of the application that are called with each message.

| state   | becomes                                                                          |
|---------|----------------------------------------------------------------------------------|
| idle    | due, when a message arrives or there was more than one turn's worth              |
| due     | its thread takes messages and calls, until there are none, or its turn is over   |
| paused  | idle, when it is resumed                                                         |
| stopped | -                                                                                |

A client has as many threads for its listeners as it was told, and starts one when a listener
first needs it. A listener stays on its thread, so it is called with one message at a time, in
order; a function that takes long keeps those waiting that share the thread. A message counts
as received once the function has returned: only then does the broker get its permit back.
"""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

from magnetar.client.consumer.message import Message
from magnetar.client.door.threads.teller import complain
from magnetar.errors import AlreadyClosed, MagnetarError

__all__ = ["Listener", "Listeners"]

# After so many messages the other listeners of a thread have their turn.
TURN_MAX = 100


class Source(Protocol):
    """Where a listener gets its messages."""

    def _take_held(self) -> Message | None:
        """Returns the next message, if there is one. Raises if none will ever come."""

    def _give_back(self, message: Message) -> None:
        """Gives back a message that the listener is done with."""


class Listener:
    """See the module."""

    def __init__(
        self,
        source: Source,
        call: Callable[[Message], object],
        thread: "_Thread",
        alone: bool,
        log: logging.Logger,
    ) -> None:
        self._source = source
        self._call = call
        self._thread = thread
        self._alone = alone
        self._log = log
        self._lock = threading.Lock()
        self._due = False
        self._paused = False
        self._stopped = False
        # Held for a turn.
        self._calling = threading.Lock()
        self.wake()

    def wake(self) -> None:
        """Tells the thread that there may be a message. From any thread."""
        with self._lock:
            if self._due or self._paused or self._stopped:
                return
            self._due = True
        self._thread.put(self)

    def take_turn(self) -> None:
        """Calls with what there is, on the listener's thread."""
        with self._lock:
            self._due = False
        with self._calling:
            if not self._take_some():
                return
        self.wake()

    def _take_some(self) -> bool:
        """Returns whether there may be more."""
        for _ in range(TURN_MAX):
            if self._paused or self._stopped:
                return False
            try:
                message = self._source._take_held()
            except MagnetarError as error:
                self._stopped = True
                if not isinstance(error, AlreadyClosed):
                    self._log.error("a listener ends: %s", error)
                return False
            if message is None:
                return False
            try:
                self._call(message)
            except Exception:
                complain()
            self._source._give_back(message)
        return True

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self.wake()

    def stop(self) -> None:
        """Calls no more, and waits until a call that was begun has ended."""
        self._stopped = True
        if not self._thread.is_current:
            with self._calling:
                pass
        if self._alone:
            self._thread.stop()

    def go_on(self) -> None:
        """Goes on after a stop that was for nothing. Not for a listener that is alone."""
        self._stopped = False
        self.wake()


class Listeners:
    """The listeners of a client, shared out among its threads."""

    def __init__(self, threads_max: int, log: logging.Logger) -> None:
        self._threads_max = threads_max
        self._log = log
        self._threads: list[_Thread] = []
        self._count = 0
        self._lock = threading.Lock()
        self._listeners: dict[Listener, None] = {}

    def add(
        self, source: Source, call: Callable[[Message], object], *, alone: bool = False
    ) -> Listener:
        """Adds a listener and returns it; one that is to be alone has a thread of its own."""
        with self._lock:
            thread = _Thread() if alone else self._next_thread()
            listener = Listener(source, call, thread, alone, self._log)
            self._listeners[listener] = None
        return listener

    def _next_thread(self) -> "_Thread":
        self._count += 1
        if len(self._threads) < self._threads_max:
            self._threads.append(_Thread())
            return self._threads[-1]
        return self._threads[self._count % self._threads_max]

    def remove(self, listener: Listener) -> None:
        listener.stop()
        with self._lock:
            self._listeners.pop(listener, None)

    def restore(self, listener: Listener) -> None:
        """Puts a listener back that was removed, and goes on after all."""
        with self._lock:
            self._listeners[listener] = None
        listener.go_on()

    def stop(self) -> None:
        """Stops all of them; their threads end."""
        with self._lock:
            listeners, threads = list(self._listeners), self._threads
            self._listeners, self._threads = {}, []
        for listener in listeners:
            listener.stop()
        for thread in threads:
            thread.stop()


class _Thread:
    """A thread on which listeners take turns."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Listener | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="magnetar-listener", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def put(self, listener: Listener) -> None:
        self._queue.put(listener)

    def _run(self) -> None:
        while (listener := self._queue.get()) is not None:
            listener.take_turn()

    def stop(self) -> None:
        self._queue.put(None)
        if not self.is_current:
            self._thread.join()
