"""The HTTP server beside the broker: uvicorn on the same loop, without its signal handlers."""

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from magnetar.broker.server import BrokerServer

__all__ = ["HttpServer"]


class _Server(uvicorn.Server):
    """Signals are the caller's, who can wait until it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


class HttpServer:
    """Serves admin REST. `url` is there after `start`."""

    url: str

    def __init__(self, broker: "BrokerServer", host: str, port: int) -> None:
        self._broker = broker
        self._host = host
        self._port = port

    async def start(self) -> None:
        """Listens. Raises OSError."""
        from magnetar.admin.routes import create_app

        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        # Named, for asyncio switches Nagle's delays off only where it can see that this is TCP.
        self._socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((self._host, self._port))
        except OSError:
            self._socket.close()
            raise
        self._port = self._socket.getsockname()[1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"http://{host}:{self._port}"
        app = create_app(self._broker, self.url)
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            loop="none",
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({listening, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            listening.cancel()
            self._socket.close()
            raise OSError(f"the HTTP server ended at its start: {self._task.exception()}")

    async def stop(self) -> None:
        self._server.should_exit = True
        self._server.force_exit = True
        await self._task
        self._socket.close()
