"""A connection whose owner does not care: it asks without waiting, and may never read.

with Attacker(broker.url) as attacker:
    attacker.shout(commands)        # all at once, as far as the broker reads them
    attacker.read_answers(len(commands))
"""

import socket
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlsplit

from magnetar.protocol import PROTOCOL_VERSION, Connection, encode
from magnetar.protocol import pulsar_pb2 as pb

__all__ = ["Attacker"]

# An answer is waited for so long; a write that is not taken is given up after this.
PATIENCE_S: Final = 60.0
STUCK_S: Final = 0.5


class Attacker:
    """See the module. It has said CONNECT and was let in."""

    def __init__(self, url: str) -> None:
        there = urlsplit(url)
        assert there.hostname is not None
        assert there.port is not None
        self._socket = socket.create_connection((there.hostname, there.port), timeout=PATIENCE_S)
        self._connection = Connection(64 << 20)
        hello = pb.CommandConnect(client_version="attacker", protocol_version=PROTOCOL_VERSION)
        self.answers: list[Any] = []
        self.shout([hello])
        self.read_answers(1)
        assert isinstance(self.answers.pop(), pb.CommandConnected)

    def __enter__(self) -> "Attacker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def shout(self, commands: Iterable[Any]) -> int:
        """Sends commands until the broker takes no more; returns how many bytes it took."""
        return self.shout_bytes(b"".join([encode(command) for command in commands]))

    def shout_bytes(self, said: bytes) -> int:
        """The same of bytes, which may be no command."""
        data = memoryview(said)
        self._socket.settimeout(STUCK_S)
        taken = 0
        try:
            while taken < len(data):
                taken += self._socket.send(data[taken : taken + 65536])
        except TimeoutError:
            pass  # nobody reads what we say
        self._socket.settimeout(PATIENCE_S)
        return taken

    def read_answers(self, count: int) -> list[Any]:
        """Reads until there are so many answers; PINGs are answered and not counted."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.answers) < count:
            assert time.monotonic() < deadline, f"{len(self.answers)} of {count} answers came"
            data = self._socket.recv(1 << 20)
            assert data, f"the broker hung up after {len(self.answers)} answers"
            self._connection.receive_data(data)
            while (command := self._connection.next_command()) is not None:
                if isinstance(command, pb.CommandPing):
                    self._socket.sendall(encode(pb.CommandPong()))
                else:
                    self.answers.append(command)
        return self.answers
