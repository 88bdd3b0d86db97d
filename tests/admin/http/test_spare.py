"""Whether the broker is well can be asked however many connections there are."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from support.served import Served

from magnetar.admin.http.spare import LINE_BYTES_MAX, SPARE_MAX
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.shell.connection_limits import ConnectionLimits
from magnetar.errors import DiskError

MOST = 5


@pytest.fixture
def crowded(own_broker: Callable[[BrokerSettings], Served]) -> Iterator[Served]:
    """A broker that has all the HTTP connections that it may have."""
    served = own_broker(BrokerSettings())
    served.server.http_limits = ConnectionLimits(MOST, 0)
    with ExitStack() as stack:
        for _ in range(MOST):
            stack.enter_context(connect(served))
        yield served


def connect(served: Served) -> socket.socket:
    host, _, port = served.http_url.partition("://")[2].partition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def ask(served: Served, *said: bytes) -> bytes:
    with connect(served) as peer:
        for piece in said:
            peer.sendall(piece)
        return answer(peer)


def answer(peer: socket.socket) -> bytes:
    got = b""
    while piece := peer.recv(4096):
        got += piece
    return got


@pytest.mark.parametrize("path", ["/healthz", "/admin/v2/brokers/ready", "/status.html?a=b"])
def test_it_says_that_it_is_well(crowded: Served, path: str) -> None:
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    assert ask(crowded, head).startswith(b"HTTP/1.1 200 OK\r\n")
    assert ask(crowded, head[:9], head[9:]).endswith(b"\r\n\r\nok")


@pytest.mark.parametrize(
    "said",
    [b"GET /metrics HTTP/1.1\r\n", b"POST /healthz HTTP/1.1\r\n", b"x" * LINE_BYTES_MAX, b"GET /"],
    ids=["another-path", "another-method", "no-line", "nothing-more"],
)
def test_anything_else_is_turned_away(crowded: Served, said: bytes) -> None:
    got = ask(crowded, said)
    assert got.startswith(b"HTTP/1.1 503 ")
    assert got.endswith(b"the most that it may have")


def test_those_that_say_nothing_make_room_for_those_that_ask(crowded: Served) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(crowded)) for _ in range(SPARE_MAX + 1)]
        assert ask(crowded, b"GET /healthz HTTP/1.1\r\n\r\n").endswith(b"ok")
        assert answer(silent[0]).startswith(b"HTTP/1.1 503 ")


def test_a_broker_that_cannot_write_says_so_here_too(crowded: Served) -> None:
    error = DiskError("write", "log", "the disk is gone")
    crowded.call(lambda: crowded.broker.store.log.journal.failed(error))
    got = ask(crowded, b"GET /admin/v2/brokers/ready HTTP/1.1\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 503 ")
    assert b"the disk is gone" in got
    assert ask(crowded, b"GET /healthz HTTP/1.1\r\n\r\n").endswith(b"ok")
