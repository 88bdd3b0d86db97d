"""A client that says whatever a test wants, on a socket, as an asker would.

with Asker(broker.url) as asker:
    asker.ask([pb.CommandProducer(...), ...])   # a few at a time, each is answered
    asker.send(pb.CommandFlow(...))             # nobody answers
"""

import os
import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Final
from urllib.parse import urlsplit

from google.protobuf.message import Message

from magnetar.protocol import (
    PROTOCOL_VERSION,
    Command,
    CommandSendReceipt,
    Connection,
    encode,
)
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["LONG", "Asker"]

# Whether attacks have the size that they were first seen with.
LONG: Final = bool(os.environ.get("MAGNETAR_HOSTILE_LONG"))

ANSWER_S: Final = 60.0
# So many requests are on their way at once: how the broker takes long pipelines is another test's.
WINDOW: Final = 20


class Asker:
    """One connection; see the module."""

    def __init__(self, url: str, *, token: str = "") -> None:
        self._token = token
        there = urlsplit(url)
        assert there.hostname is not None
        assert there.port is not None
        self._socket = socket.create_connection((there.hostname, there.port), timeout=ANSWER_S)
        self._connection = Connection()

    def __enter__(self) -> "Asker":
        connect = pb.CommandConnect(client_version="asker", protocol_version=PROTOCOL_VERSION)
        if self._token:
            connect.auth_method_name = "token"
            connect.auth_data = self._token.encode()
        try:
            assert isinstance(self._ask([connect])[0], pb.CommandConnected)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, command: Command) -> None:
        self._socket.sendall(encode(command))

    def ask(self, commands: Sequence[Command]) -> list[Message]:
        """The answers to these, a few of which are asked at once."""
        answers: list[Message] = []
        for first in range(0, len(commands), WINDOW):
            answers += self._ask(commands[first : first + WINDOW])
        return answers

    def _ask(self, commands: Sequence[Command]) -> list[Message]:
        self._socket.sendall(b"".join([encode(command) for command in commands]))
        answers: list[Message] = []
        while len(answers) < len(commands):
            answers += self.read()
        return answers

    def read(self) -> list[Message]:
        """What came, as far as somebody asked for it; waits for some bytes."""
        return [
            command
            for command in self._read()
            if isinstance(command, Message)
            and not isinstance(command, pb.CommandActiveConsumerChange)
        ]

    def hear(self) -> list[CommandSendReceipt]:
        """The receipts that came; waits for some bytes."""
        return [command for command in self._read() if isinstance(command, CommandSendReceipt)]

    def _read(self) -> list[object]:
        data = self._socket.recv(1 << 16)
        assert data, "the broker hung up"
        self._connection.receive_data(data)
        found: list[object] = []
        while (command := self._connection.next_command()) is not None:
            if isinstance(command, pb.CommandPing):
                self.send(pb.CommandPong())
            else:
                found.append(command)
        return found
