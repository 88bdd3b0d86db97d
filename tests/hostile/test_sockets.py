"""Sockets that are used in ways that no client uses them: shut halfway, or with too much in one go.

| attack                                                            | before                       |
|-------------------------------------------------------------------|------------------------------|
| peers that end their half after they asked, and hold messages     |                              |
| requests over HTTP whose senders end their half, or half a body   |                              |
| thousands of requests in one write over HTTP, answers unread      |                              |
| bodies over HTTP that come in chunks of one byte                  | 370 ms in one event          |
| a head of 9,000 lines, by a stranger                              | 390 ms in one event, 54 KB   |
"""

import contextlib
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from hostile.asker import LONG
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

from magnetar.admin.http.timed_protocol import HEAD_LINES_MAX
from magnetar.model import ConsumerType
from magnetar.protocol import PROTOCOL_VERSION, CommandFlow, encode
from magnetar.protocol import pulsar_pb2 as pb

TOPIC = "persistent://public/default/sockets"
PATH = "/admin/v2/persistent/public/default/sockets"
PEERS = 300 if LONG else 40
REQUESTS = 5000 if LONG else 500
HELLO = encode(pb.CommandConnect(client_version="half", protocol_version=PROTOCOL_VERSION))
GET = f"GET {PATH}/stats HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
LAST = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
POST = (
    f"POST {PATH}/subscription/s/skipByMessageIds HTTP/1.1\r\nHost: localhost\r\n"
    "Content-Type: application/json\r\n"
).encode()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("sockets")
    with BrokerProcess(directory, command=limited(memory_bytes=MEMORY_BYTES)) as broker:
        yield broker


@contextlib.contextmanager
def crowd(url: str, count: int) -> Iterator[list[socket.socket]]:
    """Connections, which end together."""
    there = urlsplit(url)
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection((there.hostname, there.port), timeout=30))
            for _ in range(count)
        ]


def say(peer: socket.socket, data: bytes) -> None:
    """As far as the broker takes it."""
    peer.settimeout(0.3)
    with contextlib.suppress(TimeoutError, ConnectionError):
        peer.sendall(data)
    peer.settimeout(30)


def read_all(peer: socket.socket) -> bytes:
    """What comes until the broker hangs up."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while data := peer.recv(1 << 16):
            said += data
    return said


def test_peers_that_end_their_half_are_gone(broker: BrokerProcess) -> None:
    lookups = b"".join(
        encode(pb.CommandGetTopicsOfNamespace(request_id=number, namespace="public/default"))
        for number in range(50)
    )
    subscribe = pb.CommandSubscribe(
        topic=TOPIC,
        subscription="s",
        subType=ConsumerType.Shared,
        consumer_id=1,
        request_id=1,
        force_topic_creation=True,
    )
    with Probe(broker) as probe, crowd(broker.url, 2 * PEERS) as peers:
        for number, peer in enumerate(peers):
            asks = lookups if number % 2 else encode(subscribe) + encode(CommandFlow(1, 1000))
            peer.sendall(HELLO + asks)
            peer.shutdown(socket.SHUT_WR)
        for peer in peers:
            read_all(peer)
    probe.check()


def test_requests_whose_senders_end_their_half_are_gone(broker: BrokerProcess) -> None:
    half = POST + b"Content-Length: 1000000\r\n\r\n[1,"
    with Probe(broker) as probe, crowd(broker.http_url, 60) as peers:
        for number, peer in enumerate(peers):
            peer.sendall(half if number % 2 else GET)
            peer.shutdown(socket.SHUT_WR)
        for peer in peers:
            read_all(peer)
    probe.check()


def test_requests_in_one_write_are_answered_one_after_the_other(broker: BrokerProcess) -> None:
    with Probe(broker) as probe, crowd(broker.http_url, 21) as (reader, *others):
        for peer in others:
            say(peer, GET * REQUESTS)
        reader.sendall(GET * 100 + LAST)
        assert read_all(reader).count(b"HTTP/1.1 ") == 101
    probe.check()


def test_a_body_in_tiny_chunks_holds_up_nobody(broker: BrokerProcess) -> None:
    chunks = b"1\r\n[\r\n" + b"1\r\n \r\n" * (100_000 if LONG else 30_000)
    with Probe(broker) as probe, crowd(broker.http_url, 10) as (reader, *others):
        for peer in others:
            say(peer, POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        whole = b"1\r\n[\r\n" + b"1\r\n \r\n" * 2000 + b"1\r\n]\r\n0\r\n\r\n"
        reader.sendall(POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + whole)
        assert read_all(reader).startswith(b"HTTP/1.1 ")
    probe.check()


def test_heads_of_thousands_of_lines_are_refused(broker: BrokerProcess) -> None:
    head = GET[:-2]
    with Probe(broker) as probe, crowd(broker.http_url, 40) as peers:
        for peer in peers:
            say(peer, head + b"A: b\r\n" * 9000 + b"\r\n")
        for peer in peers:
            assert read_all(peer)[:12] in (b"HTTP/1.1 400", b"")
    probe.check()


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_as_many_lines_as_a_head_may_have_are_taken(broker: BrokerProcess, end: bytes) -> None:
    head = b"GET /healthz HTTP/1.1" + end + b"Host: localhost" + end + b"Connection: close" + end
    with crowd(broker.http_url, 2) as (one, two):
        one.sendall(head + (b"A: b" + end) * (HEAD_LINES_MAX - 3) + end)
        assert read_all(one).startswith(b"HTTP/1.1 200")
        two.sendall(head + (b"A: b" + end) * (HEAD_LINES_MAX - 2) + end)
        assert b"more than 100 lines" in read_all(two)
