"""Coming back: what producers and consumers share when their connection ends.

| state      | becomes                                                                       |
|------------|-------------------------------------------------------------------------------|
| connecting | connected; or it waits a while and tries again; or failed, if that is no use  |
| connected  | connecting, when the connection ends or the broker closes it                  |
| failed     | - , and whoever waits is told why                                             |
| closed     | -                                                                             |

One task does it all, so there is never a second attempt beside the first. What a broker
refuses at the first attempt is the caller's to hear. Later nearly everything is tried again:
a broker that has not noticed yet that our last connection is gone says that we are there.
"""

import asyncio
import logging
from collections.abc import Callable

from magnetar.client.network.connection import ClientConnection
from magnetar.client.option.backoff import Backoff
from magnetar.errors import (
    RETRY_CONNECT,
    AlreadyClosed,
    ConnectError,
    MagnetarError,
    ProducerFenced,
    Timeout,
    TopicNotFound,
    TopicTerminated,
)

__all__ = ["Reconnecting"]

# What ends those who were connected before.
FINAL = (AlreadyClosed, ProducerFenced, TopicNotFound, TopicTerminated)

# A connection that ends sooner than this was no good, and the next one waits a while.
BRIEF_SECONDS = 1.0


class Reconnecting:
    """Keeps something connected. Subclasses say how to `attach`, and what to do when it ends."""

    def __init__(self, what: str, backoff: Backoff, timeout_s: float, log: logging.Logger) -> None:
        self.what = what
        self._backoff = backoff
        self._timeout_s = timeout_s
        self._log = log
        self.connection: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._back = asyncio.Event()
        self._first: asyncio.Future[None] | None = None
        self.failure: Exception | None = None
        self.stopped: bool = False
        # Whether the broker closes it because of what was asked of it.
        self.expects_close = False

    # ---- What each does ------------------------------------------------------

    async def attach(self) -> ClientConnection:
        """Finds the broker, says hello there, and returns the connection."""
        raise NotImplementedError

    def detached(self) -> None:
        """Is told that the connection ended."""
        raise NotImplementedError

    def gave_up(self, error: Exception) -> None:
        """Is told that the connection will not come back."""
        raise NotImplementedError

    # ---- The loop ------------------------------------------------------------

    async def start(self) -> None:
        """Connects for the first time; raises if that is no use, or takes too long."""
        loop = asyncio.get_running_loop()
        self._first = loop.create_future()
        self._task = loop.create_task(self._run(), name=self.what)
        try:
            await asyncio.shield(self._first)
        except BaseException:
            await self.stop()
            raise

    async def _run(self) -> None:
        try:
            await self._stay_connected()
        except Exception as error:
            self._fail(error)

    async def _stay_connected(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._first is not None
        deadline = loop.time() + self._timeout_s
        brief = 0
        while not self.stopped:
            self._lost.clear()
            try:
                self.connection = await self.attach()
            except MagnetarError as error:
                left_s = deadline - loop.time()
                if not self._may_help(error, left_s <= 0):
                    raise
                self._log.debug("%s: %s; trying again", self.what, error)
                wait_s = self._backoff.next_ms() / 1000
                # Who waits for the first connection hears of the last attempt in time.
                await asyncio.sleep(wait_s if self._first.done() else min(wait_s, left_s))
                continue
            if not self._first.done():
                self._first.set_result(None)
            since = loop.time()
            self._back.set()
            await self._lost.wait()
            too_soon = loop.time() - since < BRIEF_SECONDS and not self.expects_close
            brief = brief + 1 if too_soon else 0
            if brief > 1:
                await asyncio.sleep(self._backoff.next_ms() / 1000)
            else:
                self._backoff.reset()

    def _may_help(self, error: MagnetarError, late: bool) -> bool:
        """Returns whether another attempt may help."""
        assert self._first is not None
        if not self._first.done():
            permanent = isinstance(error, ConnectError) and error.permanent
            return isinstance(error, RETRY_CONNECT) and not late and not permanent
        return not isinstance(error, FINAL)

    async def when_connected(self) -> ClientConnection:
        """Returns the connection, when there is one. Raises Timeout, and why there will be none."""
        try:
            async with asyncio.timeout(self._timeout_s):
                while self.connection is None:
                    if self.failure is not None:
                        raise self.failure
                    if self.stopped:
                        raise AlreadyClosed(f"the {self.what} is closed")
                    await self._back.wait()
        except Timeout:
            raise  # why there will be none
        except TimeoutError:
            raise Timeout(f"the {self.what} found no broker in {self._timeout_s:g} s") from None
        return self.connection

    def _fail(self, error: Exception) -> None:
        self.failure = error
        if self._first is not None and not self._first.done():
            self._first.set_exception(error)
        elif not isinstance(error, AlreadyClosed):  # that was asked for
            self._log.error("%s: %s", self.what, error)
        self._back.set()
        self.gave_up(error)

    def on_closed(self, connection: ClientConnection) -> None:
        """Is told that the connection ended, or that the broker closed this on it."""
        if connection is self.connection or self.connection is None:
            self.connection = None
            self._back.clear()
            self.detached()
            self._lost.set()

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped since; it may be without a connection now."""
        return self._task is not None

    @property
    def was_closed(self) -> bool:
        """Whether it was closed while it attached."""
        return self._lost.is_set()

    def reconnect(self) -> None:
        """Begins anew on another connection: this one is out of step."""
        connection = self.connection
        if connection is not None:
            connection.fail(f"{self.what} is out of step with the broker")

    async def stop(self) -> None:
        """Ends the task."""
        self.stopped = True
        self._back.set()
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._first is not None and not self._first.done():
            self._first.set_exception(AlreadyClosed(f"{self.what} is closed"))
        if self._first is not None and self._first.done() and not self._first.cancelled():
            self._first.exception()  # asked for here, if nobody did


class Alarm:
    """One timer that is set to the earliest moment something falls due."""

    def __init__(self, now_ms: Callable[[], int], ring: Callable[[], None]) -> None:
        self._now_ms = now_ms
        self._ring = ring
        self._at: int | None = None
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at_ms: int | None) -> None:
        if at_ms is None or self.rings_by(at_ms):
            return
        self.cancel()
        self._at = at_ms
        delay = max(at_ms - self._now_ms(), 0) / 1000
        self._handle = asyncio.get_running_loop().call_later(delay, self._fire)

    def rings_by(self, at_ms: int | None) -> bool:
        """Returns whether it need not be set for this moment."""
        return at_ms is None or (self._at is not None and self._at <= at_ms)

    def _fire(self) -> None:
        self._at = None
        self._handle = None
        self._ring()

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._at = None
        self._handle = None
