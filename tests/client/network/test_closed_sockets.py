"""A client that is closed has no socket left, not even of connections that came to nothing."""

import asyncio
import ssl
from pathlib import Path

import pytest
from support.tokens import Issuer

from magnetar.client.door import aio
from magnetar.errors import MagnetarError
from magnetar.model.enums import ServerError
from magnetar.protocol import encode
from magnetar.protocol import pulsar_pb2 as pb

REFUSAL = encode(
    pb.CommandError(
        request_id=(1 << 64) - 1, error=int(ServerError.AuthenticationError), message="who?"
    )
)
NONSENSE = encode(pb.CommandConnected(server_version="s", protocol_version=21)) + b"\xff" * 8


@pytest.mark.parametrize("answer", [REFUSAL, NONSENSE], ids=["refused", "nonsense"])
async def test_sockets_of_failed_connections_are_closed_with_the_client(
    answer: bytes, tmp_path: Path
) -> None:
    """TLS waits for an answer to its goodbye, so a socket outlives what it was good for."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        await writer.drain()
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()
        await ended.wait()
        writer.transport.abort()

    ended = asyncio.Event()

    issuer = Issuer(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*issuer.issue("broker"))
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    client = aio.Client(
        f"pulsar+ssl://127.0.0.1:{port}",
        tls_trust_certs_file_path=str(issuer.certificate),
        operation_timeout_seconds=1,
    )
    with pytest.raises(MagnetarError):
        await client.create_producer("t")
    await client.close()
    stats = client.stats()
    assert stats.connections_opened > 0
    assert stats.connections_closed == stats.connections_opened
    ended.set()
    server.close()
    await server.wait_closed()
