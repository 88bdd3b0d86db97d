"""Connections between the processes of one loop, with everything that TCP leaves open.

A process listens, another one connects; `connection.py` has what lies between them. How
long bytes take, how they are cut and which writes arrive together is drawn from the seed.

What can happen to a connection, besides what its ends do:

    cut        both ends see ConnectionResetError, each in its time, and one that neither reads
               nor writes when it does; what was in flight is lost
    hold       nothing arrives any more, and nobody is told, until `heal` or `cut`
    a process  is killed: the kernel closes its ends. Power goes: its ends are just not there
    dies       any more, and its peers hear nothing (`reset_silent` is the machine's return)

What real networks do and this one does not: bytes are never damaged (TCP has checksums; the
disk and the fuzzers do that), and the urgent pointer is not simulated.
"""

import asyncio
import errno
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from magnetar.testing.sim.connection import SimConnection, SimTransport
from magnetar.testing.sim.process import SimProcess, process_of

if TYPE_CHECKING:
    from magnetar.testing.sim.loop import SimLoop

__all__ = ["NetworkConditions", "SimNetwork", "SimServer", "Tap"]

# Linux repeats its SYN after 1, 2, 4 ... seconds, and gives up after 127.
CONNECT_TRIES: Final = 7
EVERYWHERE: Final = ("", "0.0.0.0", "::")
PORT_FIRST: Final = 20_000
PORT_CLIENT_FIRST: Final = 50_000
# What asyncio reads at most at once.
READ_BYTES_MAX: Final = 256 * 1024


@dataclass(frozen=True)
class NetworkConditions:
    """What the seed draws from, for each direction of each connection."""

    latency_ns_min: int = 20_000
    latency_ns_max: int = 3_000_000
    window_bytes_min: int = 2 * 1024
    window_bytes_max: int = 256 * 1024
    # Shares of deliveries: of a few bytes only, and cut anywhere; the others bring all there is.
    share_tiny: float = 0.05
    share_cut: float = 0.35


class Tap(Protocol):
    """Who listens in on connections, at the ends of those who accepted them."""

    def heard(self, connection: SimConnection, data: bytes) -> None:
        """The server is about to be given these bytes."""

    def said(self, connection: SimConnection, data: bytes) -> None:
        """The server has written these bytes."""

    def ended(self, connection: SimConnection) -> None:
        """The server's end is lost."""


class SimNetwork:
    """All listeners and connections of a loop; made by `SimLoop`."""

    def __init__(self, loop: "SimLoop", conditions: NetworkConditions) -> None:
        self.loop: Final = loop
        self.conditions: Final = conditions
        self.random: Final = loop.random_for("network")
        self.context: Final = copy_context()
        # Connections of which at least one end is not lost yet, by number.
        self.connections: dict[int, SimConnection] = {}
        self.tap: Tap | None = None
        self._servers: dict[int, list[SimServer]] = {}
        self._number = 0
        self._port_next = PORT_FIRST
        self._port_client_next = PORT_CLIENT_FIRST
        self._isolated: dict[int, SimProcess] = {}

    # ---- Faults --------------------------------------------------------------

    def cut(self, connection: SimConnection) -> None:
        """Breaks the connection."""
        connection.cut()

    def partition(self, process: SimProcess) -> None:
        """Cuts a process off until `heal`: nothing reaches it or leaves it, and nobody is told."""
        self._isolated[process.serial] = process
        self.loop.note(f"process {process.name}", "partitioned")
        for connection in self.of_process(process):
            connection.hold()

    def heal(self, process: SimProcess) -> None:
        """Lets what was held up go on its way."""
        self._isolated.pop(process.serial, None)
        self.loop.note(f"process {process.name}", "healed")
        for connection in self.of_process(process):
            if not any(end.process.serial in self._isolated for end in connection.ends()):
                connection.heal()

    def of_process(self, process: SimProcess) -> list[SimConnection]:
        """Returns the connections that have an end in this process, oldest first."""
        return [c for c in self.connections.values() if process in [e.process for e in c.ends()]]

    def process_died(self, process: SimProcess, *, silent: bool) -> None:
        """The kernel cleans up after a process, unless it is gone as well."""
        for port, servers in list(self._servers.items()):
            self._servers[port] = [s for s in servers if s.process is not process]
        for connection in self.of_process(process):
            for end in connection.ends():
                if end.process is process:
                    end.die(silent=silent)

    def reset_silent(self) -> None:
        """Machines that lost power are back, and know nothing of their connections."""
        for connection in list(self.connections.values()):
            if any(end.is_silent for end in connection.ends()):
                connection.cut()

    # ---- Listening and connecting --------------------------------------------

    def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: Any, port: int
    ) -> "SimServer":
        name = host if isinstance(host, str) else next(iter(host or ()), "")
        if port == 0:
            self._port_next += 1
            port = self._port_next
        return SimServer(self, factory, _address(name), port)

    def bind(self, server: "SimServer") -> None:
        others = self._servers.setdefault(server.port, [])
        if any(s.host == server.host or "" in (s.host, server.host) for s in others):
            where = (server.host, server.port)
            raise OSError(errno.EADDRINUSE, f"error while attempting to bind on address {where}")
        others.append(server)

    def unbind(self, server: "SimServer") -> None:
        if server in self._servers.get(server.port, []):
            self._servers[server.port].remove(server)

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        server = await self._find(_address(host) or "127.0.0.1", port)
        context = copy_context()
        self._port_client_next += 1
        self._number += 1
        connection = SimConnection(self, self._number, context, server)
        client = connection.client
        client.sockname = ("127.0.0.1", self._port_client_next)
        client.peername = (server.host or "127.0.0.1", port)
        connection.server.sockname, connection.server.peername = client.peername, client.sockname
        self.connections[connection.number] = connection
        self.loop.note(connection.label, f"connects to {port}")
        protocol = factory()
        self.loop.call_arrival(self.latency_ns(), server.accept, connection, context=server.context)
        began = self.loop.create_future()
        self.loop.call_soon(client.begin, protocol, began)
        await began
        return client, protocol

    async def _find(self, host: str, port: int) -> "SimServer":
        here = process_of(None, self.loop.main)
        for attempt in range(CONNECT_TRIES):
            await self._pass(self.latency_ns())
            server = self._listener(host, port)
            if here.serial in self._isolated or (
                server is not None and server.process.serial in self._isolated
            ):
                await asyncio.sleep(2**attempt)
            elif server is None:
                raise ConnectionRefusedError(
                    errno.ECONNREFUSED, f"Connect call failed {(host, port)!r}"
                )
            else:
                return server
        raise TimeoutError(errno.ETIMEDOUT, f"Connect call failed {(host, port)!r}")

    async def _pass(self, delay_ns: int) -> None:
        passed = self.loop.create_future()

        def end() -> None:
            if not passed.done():
                passed.set_result(None)

        self.loop.call_arrival(delay_ns, end, context=copy_context())
        await passed

    def _listener(self, host: str, port: int) -> "SimServer | None":
        for server in self._servers.get(port, []):
            if server.host in ("", host):
                return server
        return None

    # ---- Chance --------------------------------------------------------------

    def latency_ns(self) -> int:
        low, high = self.conditions.latency_ns_min, self.conditions.latency_ns_max
        return low + int(self.random.random() * (high - low))

    def piece(self, size: int) -> int:
        """Returns how many of the bytes that are there arrive at once."""
        draw = self.random.random()
        if draw < self.conditions.share_tiny:
            size = min(size, 1 + int(self.random.random() * 16))
        elif draw < self.conditions.share_tiny + self.conditions.share_cut:
            size = 1 + int(self.random.random() * size)
        return min(size, READ_BYTES_MAX)


def _address(host: str) -> str:
    """Returns the address that a host stands for; the empty text is every address."""
    if host in EVERYWHERE:
        return ""
    return "127.0.0.1" if host == "localhost" else host


class _Socket:
    """What programs look at to learn which port they got."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address: Final = address

    def getsockname(self) -> tuple[str, int]:
        return self._address


class SimServer(asyncio.AbstractServer):
    """A listener. As in Python 3.12, `wait_closed` waits for its connections too."""

    def __init__(
        self,
        network: SimNetwork,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
    ) -> None:
        self.host: Final = host
        self.port: Final = port
        self.context: Final[Context] = copy_context()
        self.process: Final = process_of(None, network.loop.main)
        self._network: Final = network
        self._factory: Final = factory
        self._is_serving = False
        self._is_closed = False
        self._ends: dict[int, SimTransport] = {}
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def sockets(self) -> tuple[_Socket, ...]:
        return () if self._is_closed else (_Socket((self.host or "0.0.0.0", self.port)),)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    def is_serving(self) -> bool:
        return self._is_serving

    async def start_serving(self) -> None:
        assert not self._is_closed, "the server is closed"
        if not self._is_serving:
            self._network.bind(self)
            self._is_serving = True

    async def serve_forever(self) -> None:
        await self.start_serving()
        try:
            await self._network.loop.create_future()
        finally:
            self.close()
            await self.wait_closed()

    def close(self) -> None:
        self._is_closed = True
        self._is_serving = False
        self._network.unbind(self)
        self._wake()

    def close_clients(self) -> None:
        for end in list(self._ends.values()):
            end.close()

    def abort_clients(self) -> None:
        for end in list(self._ends.values()):
            end.abort()

    async def wait_closed(self) -> None:
        if not self._is_closed or self._ends:
            waiter: asyncio.Future[None] = self._network.loop.create_future()
            self._waiters.append(waiter)
            await waiter

    async def __aenter__(self) -> "SimServer":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await self.wait_closed()

    def accept(self, connection: SimConnection) -> None:
        if connection.server.is_lost:
            return
        if self._is_closed:
            connection.server.refuse()
            return
        self._ends[connection.number] = connection.server
        connection.server.begin(self._factory(), None)

    def forget(self, connection: SimConnection) -> None:
        self._ends.pop(connection.number, None)
        self._wake()

    def _wake(self) -> None:
        if self._is_closed and not self._ends:
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()
