"""Connections, one for each broker, shared by everything that talks to it."""

import asyncio
import logging

from magnetar.client.network.connection import ClientConnection
from magnetar.client.network.service import Service
from magnetar.client.telemetry.totals import ConnectionCounts
from magnetar.errors import AlreadyClosed, ConnectError

__all__ = ["ConnectionPool"]


class ConnectionPool:
    """Opens a connection when it is first wanted, and again when it was lost."""

    def __init__(
        self,
        service: Service,
        *,
        timeout_s: float,
        connect_timeout_s: float,
        client_version: str,
        keep_alive_s: float,
        counts: ConnectionCounts | None = None,
        threaded: bool = False,
        log: logging.Logger,
    ) -> None:
        self._service = service
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._client_version = client_version
        self._keep_alive_s = keep_alive_s
        self._counts = counts or ConnectionCounts()
        self._threaded = threaded
        self._log = log
        # By broker, the last one; and all whose sockets are open, of use or not.
        self._open: dict[str, ClientConnection] = {}
        # Whether brokers are told that commands of Magnetar's own are understood.
        self.extended: bool = True
        self._sockets: set[ClientConnection] = set()
        # By broker: those that a connection was made to, ever; and those that lost theirs since.
        self._reached: set[str] = set()
        self._lost: set[str] = set()
        self._opening: dict[str, asyncio.Task[ClientConnection]] = {}
        # Begun for a cluster that was left meanwhile.
        self._outdated: set[asyncio.Task[ClientConnection]] = set()
        self._closed = False

    async def get(self, host: str, port: int, *, tls: bool, proxy_to: str = "") -> ClientConnection:
        """Returns the connection to a broker. Raises ConnectError, AuthenticationError."""
        if self._closed:
            raise AlreadyClosed("the client is closed")
        key = f"{host}:{port}/{proxy_to}"
        connection = self._open.get(key)
        if connection is not None and not connection.closed:
            return connection
        task = self._opening.get(key)
        if task is None:
            task = asyncio.ensure_future(self._connect(key, host, port, tls, proxy_to))
            self._opening[key] = task
            task.add_done_callback(lambda done: self._opened(key, done))
        try:
            # Who stops waiting must not take the connection from the others who wait.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._is_closed() and not _is_cancelled():
                # Not we were stopped, but what we waited for.
                raise AlreadyClosed("the client is closed") from None
            raise

    def _is_closed(self) -> bool:
        return self._closed

    async def _connect(
        self, key: str, host: str, port: int, tls: bool, proxy_to: str
    ) -> ClientConnection:
        try:
            return await self._open_connection(host, port, tls, proxy_to)
        except ConnectError as error:
            if key in self._reached:
                error.permanent = False  # it was right once, so this may pass
            raise

    async def _open_connection(
        self, host: str, port: int, tls: bool, proxy_to: str
    ) -> ClientConnection:
        return await ClientConnection.open(
            host,
            port,
            timeout_s=self._timeout_s,
            connect_timeout_s=self._connect_timeout_s,
            tls=self._service.tls_context() if tls else None,
            auth_method=self._service.auth_method,
            auth_data=self._service.auth_data,
            auth_waits=self._service.auth_waits,
            client_version=self._client_version,
            keep_alive_s=self._keep_alive_s,
            proxy_to=proxy_to,
            counts=self._counts,
            threaded=self._threaded,
            log=self._log,
            sockets=self._sockets,
            extended=self.extended,
        )

    def _opened(self, key: str, task: "asyncio.Task[ClientConnection]") -> None:
        self._opening.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        if self._closed or task in self._outdated:
            task.result().close()
        else:
            self._note(key, task.result().address)
            self._open[key] = task.result()

    def _note(self, key: str, address: str) -> None:
        """Says, once, that there is a connection again."""
        self._reached.add(key)
        for other, connection in self._open.items():
            if connection.lost:
                connection.lost = False
                self._lost.add(other)
        if key in self._lost:
            self._lost.discard(key)
            self._log.info("connected to %s again", address)
        elif self._lost:
            self._lost.clear()
            self._log.info("connected to %s, after another connection was lost", address)

    @property
    def has_connected(self) -> bool:
        """Whether there was a connection, ever."""
        return len(self._reached) > 0

    def leave(self) -> None:
        """Closes what is open or about to be: the cluster is another one now."""
        self._outdated = set(self._opening.values())
        for connection in self._open.values():
            connection.close()

    def drop(self) -> None:
        """Closes all connections, without waiting."""
        self._closed = True
        for task in list(self._opening.values()):
            task.cancel()
        for connection in self._open.values():
            connection.close()

    async def close(self) -> None:
        """Closes all connections, and returns when their sockets are closed too."""
        self.drop()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        await asyncio.gather(*(connection.wait_closed() for connection in self._sockets))
        self._open.clear()


def _is_cancelled() -> bool:
    """Returns whether somebody stops the present task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
