"""A broker that asks again who we are: while connecting, later, and in vain."""

import asyncio
import struct
from collections.abc import Callable

import pytest
from client.conftest import WAIT_S, until

from magnetar.client.network.connection import ClientConnection
from magnetar.client.option.authentication import AuthenticationToken
from magnetar.errors import AuthenticationError, ConnectError
from magnetar.model.enums import ServerError
from magnetar.protocol import encode
from magnetar.protocol import pulsar_pb2 as pb

AUTHENTICATION_ERROR = int(ServerError.AuthenticationError)


class Asker:
    """A broker that knows nothing but handshakes."""

    def __init__(self, challenges: int) -> None:
        self._challenges = challenges
        self.port = 0
        self.heard: list[pb.BaseCommand] = []
        self.writer: asyncio.StreamWriter | None = None
        self.refuse = False

    async def __aenter__(self) -> "Asker":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        if self.writer is not None:
            self.writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        try:
            for _ in range(self._challenges):
                await self._hear(reader)
                self.ask()
            await self._hear(reader)
            if self.refuse:
                error = pb.CommandError(
                    request_id=(1 << 64) - 1, error=AUTHENTICATION_ERROR, message="who?"
                )
                writer.write(encode(error))
            else:
                writer.write(encode(pb.CommandConnected(server_version="s", protocol_version=21)))
            while True:
                await self._hear(reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        (size,) = struct.unpack(">I", await reader.readexactly(4))
        body = await reader.readexactly(size)
        (length,) = struct.unpack_from(">I", body)
        self.heard.append(pb.BaseCommand.FromString(body[4 : 4 + length]))

    def ask(self) -> None:
        assert self.writer is not None
        challenge = pb.AuthData(auth_method_name="token", auth_data=b"PulsarAuthRefresh")
        command = pb.CommandAuthChallenge(
            server_version="s", protocol_version=21, challenge=challenge
        )
        self.writer.write(encode(command))

    def answers(self) -> list[bytes]:
        """What we said who we are: first in CONNECT, then in each AUTH_RESPONSE."""
        said = [command.connect.auth_data for command in self.heard if command.HasField("connect")]
        for command in self.heard:
            if command.HasField("authResponse"):
                response = command.authResponse
                assert response.response.auth_method_name == "token"
                assert response.client_version == "Magnetar-test"
                said.append(response.response.auth_data)
        return said


async def connect(asker: Asker, tokens: Callable[[], str]) -> ClientConnection:
    return await ClientConnection.open(
        "127.0.0.1",
        asker.port,
        timeout_s=WAIT_S,
        connect_timeout_s=WAIT_S,
        auth_method="token",
        auth_data=AuthenticationToken(tokens).data,
        client_version="Magnetar-test",
    )


async def test_challenges_are_answered_with_what_is_true_now() -> None:
    tokens = iter(["one", "two", "three", "four"])
    async with Asker(challenges=2) as asker:
        connection = await connect(asker, lambda: next(tokens))
        assert asker.answers() == [b"one", b"two", b"three"]
        asker.ask()
        await until(lambda: len(asker.answers()) == 4, lambda: str(asker.heard))
        assert asker.answers()[3] == b"four"
        assert not connection.closed
        connection.close()
        await connection.wait_closed()


async def test_a_broker_that_is_not_satisfied_says_so() -> None:
    async with Asker(challenges=1) as asker:
        asker.refuse = True
        with pytest.raises(AuthenticationError, match=r"who\?"):
            await connect(asker, lambda: "wrong")
        assert asker.answers() == [b"wrong", b"wrong"]


async def test_without_an_answer_the_connection_ends() -> None:
    tokens = iter(["one"])
    async with Asker(challenges=0) as asker:
        connection = await connect(asker, lambda: next(tokens))
        asker.ask()
        await until(lambda: connection.closed, lambda: "still open")
        assert asker.answers() == [b"one"]
        await connection.wait_closed()


async def test_without_an_answer_there_is_no_connection() -> None:
    tokens = iter(["one"])
    async with Asker(challenges=1) as asker:
        with pytest.raises(ConnectError, match="asked again who we are"):
            await connect(asker, lambda: next(tokens))
