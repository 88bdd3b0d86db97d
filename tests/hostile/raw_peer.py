"""A peer on a real socket that says what it likes, command by command."""

import socket
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

from magnetar.model import ConsumerType, InitialPosition
from magnetar.protocol import PROTOCOL_VERSION, Connection, encode
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["RawPeer"]

C = TypeVar("C")
TIMEOUT_S = 60.0


class RawPeer:
    """See the module. It is connected and greeted."""

    def __init__(self, url: str) -> None:
        there = urlsplit(url)
        assert there.hostname is not None
        assert there.port is not None
        self._socket = socket.create_connection((there.hostname, there.port), timeout=TIMEOUT_S)
        self._connection = Connection(5 << 20)
        self._requests = 0
        self.say(pb.CommandConnect(client_version="raw", protocol_version=PROTOCOL_VERSION))
        self.expect(pb.CommandConnected)

    def __enter__(self) -> "RawPeer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def say(self, command: Any) -> None:
        self._socket.sendall(encode(command))

    def expect(self, kind: type[C]) -> C:
        """The next command that is no PING, which must be of this kind."""
        while True:
            command = self._connection.next_command()
            if command is None:
                data = self._socket.recv(1 << 16)
                assert data, "the broker hung up"
                self._connection.receive_data(data)
            elif isinstance(command, pb.CommandPing):
                self.say(pb.CommandPong())
            else:
                assert isinstance(command, kind), command
                return command

    def producer(self, id: int, topic: str) -> None:
        self._requests += 1
        self.say(pb.CommandProducer(topic=topic, producer_id=id, request_id=self._requests))
        self.expect(pb.CommandProducerSuccess)

    def subscribe(self, id: int, topic: str, name: str) -> None:
        """As Shared, from the earliest message on."""
        self._requests += 1
        self.say(
            pb.CommandSubscribe(
                topic=topic,
                subscription=name,
                subType=ConsumerType.Shared,
                consumer_id=id,
                request_id=self._requests,
                initialPosition=InitialPosition.Earliest,
            )
        )
        self.expect(pb.CommandSuccess)
