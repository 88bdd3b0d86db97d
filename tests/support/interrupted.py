"""A broker whose connections are interrupted in the middle of what it delivers.

    with Interrupted(broker.url) as proxy:
        proxy.after(20, broker.kill)     # once 20 entries have passed
        ...read by proxy.url...

What is done, is done before the next entry passes, and breaks all connections, whatever is on
its way there.
"""

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType

from magnetar.protocol import pulsar_pb2 as pb
from support.proxy import Proxy


class Interrupted:
    """A `Proxy` in a thread of its own."""

    def __init__(self, url: str) -> None:
        self._target = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._passed = 0
        self._at = 0
        self._action: Callable[[], object] | None = None

    def __enter__(self) -> "Interrupted":
        self._thread.start()
        self._proxy = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(30)
        self._proxy.passes = self._passes
        self.url: str = self._proxy.url
        return self

    async def _open(self) -> Proxy:
        return await Proxy(self._target).__aenter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.__aexit__(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def after(self, messages: int, action: Callable[[], object]) -> None:
        """Once so many more entries were passed on; the next one never is."""
        self._at, self._action = self._passed + messages, action

    def cut(self) -> None:
        self._proxy.cut()

    def refuse(self, refusing: bool = True) -> None:
        """Breaks all connections, and lets nobody in. Any thread."""
        self._proxy.refusing = refusing
        if refusing:
            self._loop.call_soon_threadsafe(self._proxy.cut)

    def _passes(self, command: pb.BaseCommand) -> bool:
        if not command.HasField("message"):
            return True
        if self._action is not None and self._passed >= self._at:
            action, self._action = self._action, None
            action()
            self.cut()  # what the proxy has of it already is not to come
            return False
        self._passed += 1
        return True
