"""A connection over TLS that is counted before its handshake. A shell.

asyncio tells a protocol of a connection once the handshake is over. Until then, and some never
begin it, such a connection has a descriptor and buffers, and nobody would know. So this protocol
stands between the socket and asyncio's own protocol for TLS.
"""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Final

from magnetar.broker.shell.connection_limits import ConnectionLimits

__all__ = ["CountedTls"]

# What a client has for its handshake.
HANDSHAKE_SECONDS: Final = 15
# What is read at once, for which each connection keeps a buffer: two records of TLS. asyncio's own
# has room for sixteen.
READ_BYTES: Final = 32 << 10


class CountedTls(SSLProtocol):
    """See the module. `app` hears of the connection when its handshake is over."""

    max_size = READ_BYTES

    def __init__(
        self,
        app: asyncio.Protocol,
        context: ssl.SSLContext,
        limits: ConnectionLimits,
        refused: Callable[[str, str], None],
    ) -> None:
        super().__init__(
            asyncio.get_running_loop(),
            app,
            context,
            None,  # type: ignore[arg-type]  # nobody waits for the handshake
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )
        self._limits: Final = limits
        self._tell_refused: Final = refused
        # Empty if it does not count.
        self._counted_for: str = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername") or ("?", 0)
        reason = self._limits.admit(str(peer[0]))
        if reason:
            self._tell_refused(f"{peer[0]}:{peer[1]}", reason)
            # Words would have to be encrypted, and there is no room for that.
            transport.abort()  # type: ignore[attr-defined]
            return
        self._counted_for = str(peer[0])
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._counted_for:
            self._limits.leave(self._counted_for)
            self._counted_for = ""
            super().connection_lost(exc)
