"""PINGs to thousands of clients: a round of the loop has those of some (I10)."""

import asyncio
import contextlib
import socket

from magnetar.broker.shell.server import SESSIONS_AT_ONCE, BrokerServer
from magnetar.protocol import PROTOCOL_VERSION, encode
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage import Catalog, MemoryDisk

CLIENTS = 5 * SESSIONS_AT_ONCE // 2
HELLO = encode(pb.CommandConnect(client_version="test", protocol_version=PROTOCOL_VERSION))
PING = encode(pb.CommandPing())


def test_clients_are_asked_whether_they_are_there_some_at_a_time() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        server = BrokerServer(MemoryDisk(), Catalog)
        await server.start()
        with contextlib.ExitStack() as stack:
            clients = []
            for _ in range(CLIENTS):
                client = stack.enter_context(socket.socket())
                client.setblocking(False)
                await loop.sock_connect(client, ("127.0.0.1", server.port))
                await loop.sock_sendall(client, HELLO)
                assert await loop.sock_recv(client, 4096)
                clients.append(client)
            asked = []
            server._check_alive()
            for _ in range(3):
                asked.append(sum([link.session._asked_alive for link in server._links]))
                await asyncio.sleep(0)
            for client in clients:
                assert await loop.sock_recv(client, 4096) == PING
        await server.stop()
        return asked

    assert asyncio.run(main()) == [SESSIONS_AT_ONCE, 2 * SESSIONS_AT_ONCE, CLIENTS]
