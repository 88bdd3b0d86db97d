"""WebSockets that are used as no client uses them; a role that may produce or read has them.

| attack                                                           | before                       |
|------------------------------------------------------------------|------------------------------|
| a text in a hundred thousand frames of one byte                  | 520 ms in one event          |
| pings by the ten thousand, pongs unread                          | 8.2 s, and 150 MiB           |
| everything at once, before the broker has said yes               |                              |
| texts as long as they can be, with hundreds of thousands of      | 516 ms, and the end of a     |
| properties, or a key of megabytes                                | broker of 256 MB             |
| halves of texts as long as they can be, by many                  | 10 MiB each                  |
| readers of large messages that do not read                       | 1000 messages each           |
| messages as large as they can be, that are read                  | 871 ms                       |
| sockets by the hundred that come and go at once                  |                              |
"""

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hostile.asker import LONG
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

import magnetar

TOPIC = "persistent/public/default/websockets"
PRODUCER = f"producer/{TOPIC}"
CROWD = 60 if LONG else 10
FRAMES = 200_000 if LONG else 50_000
PINGS = 100_000 if LONG else 20_000
SOCKETS = 1000 if LONG else 200
READERS = 10 if LONG else 4
TEXTS = 20 if LONG else 4
TEXT, CONTINUED, PING = 1, 0, 9
MIB = 1 << 20


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    command = limited(memory_bytes=MEMORY_BYTES)
    options = ("--set", "websocket=true")
    with BrokerProcess(tmp_path, command=command, options=options) as broker:
        yield broker


def asked(broker: BrokerProcess, path: str, behind: bytes = b"") -> socket.socket:
    """A socket that has asked for a WebSocket, and said something behind that."""
    there = urlsplit(broker.http_url)
    peer = socket.create_connection((there.hostname, there.port), timeout=30)
    key = base64.b64encode(b"0123456789abcdef").decode()
    peer.sendall(
        f"GET /ws/v2/{path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n"
        "".encode()
        + behind
    )
    return peer


def let_in(peer: socket.socket) -> bool:
    said = b""
    while b"\r\n\r\n" not in said:
        piece = peer.recv(1 << 12)
        if not piece:
            return False
        said += piece
    return said.startswith(b"HTTP/1.1 101")


@contextlib.contextmanager
def crowd(broker: BrokerProcess, path: str, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(asked(broker, path)) for _ in range(count)]
        assert all(let_in(peer) for peer in peers)
        yield peers


def frame(kind: int, data: bytes, *, last: bool = True, size: int = -1) -> bytes:
    """A frame, of which less than it says may be there. Its mask changes nothing."""
    size = len(data) if size < 0 else size
    head = bytes([kind | (0x80 if last else 0)])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
    return head + bytes(4) + data


def shout(peer: socket.socket, data: bytes, seconds: float = 20) -> None:
    """Says it as far as the broker takes it."""
    peer.settimeout(seconds)
    with contextlib.suppress(TimeoutError, ConnectionError):
        peer.sendall(data)
    peer.settimeout(30)


def read_on(peer: socket.socket) -> threading.Thread:
    """Reads all that comes, and looks at nothing."""

    def read() -> None:
        with contextlib.suppress(OSError):
            while peer.recv(1 << 16):
                pass

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def pong(peer: socket.socket) -> None:
    """Reads until all that was said is handled, as the pong of a ping behind it tells."""
    peer.sendall(frame(PING, b"all of it"))
    said = b""
    while b"all of it" not in said:
        piece = peer.recv(1 << 16)
        assert piece, "the broker hung up"
        said = said[-20:] + piece


def test_a_text_in_very_many_frames(broker: BrokerProcess) -> None:
    with Probe(broker) as probe, crowd(broker, PRODUCER, 2) as peers:
        for peer in peers:
            said = frame(TEXT, b"{", last=False) + frame(CONTINUED, b" ", last=False) * FRAMES
            shout(peer, said + frame(CONTINUED, b"}"))
        for peer in peers:
            pong(peer)
    probe.check()


def test_pings_whose_pongs_nobody_reads(broker: BrokerProcess) -> None:
    with Probe(broker) as probe, crowd(broker, PRODUCER, 5) as peers:
        for _ in range(3):
            for peer in peers:
                shout(peer, frame(PING, b"x" * 125) * PINGS, 0.5)
    probe.check()


def test_nothing_is_read_of_those_who_are_not_let_in_yet(broker: BrokerProcess) -> None:
    said = frame(TEXT, b"x" * 30 * MIB)
    with Probe(broker) as probe, contextlib.ExitStack() as stack:
        peers = [stack.enter_context(asked(broker, f"{PRODUCER}-{n}")) for n in range(CROWD)]
        for peer in peers:
            shout(peer, said, 0.2)
    probe.check()


def test_texts_as_long_as_they_can_be(broker: BrokerProcess) -> None:
    payload = base64.b64encode(bytes(5 * MIB)).decode()
    many = {str(number): "x" for number in range(400_000)}
    texts = (
        json.dumps({"payload": payload, "context": "a payload"}),
        json.dumps({"payload": "", "properties": many}),
        json.dumps({"payload": "", "key": "\u00e4" * (MIB // 2)}),
        '{"payload":' + "[" * 9 * MIB,
        '{"x":' + "[" * 200 + " " * 9 * MIB + "]" * 200 + "}",
    )
    with Probe(broker) as probe, crowd(broker, PRODUCER, 2) as (reads, does_not):
        read_on(reads)
        for _ in range(TEXTS):
            for text in texts:
                shout(reads, frame(TEXT, text.encode()))
                shout(does_not, frame(TEXT, text.encode()))
    probe.check()


def test_halves_of_long_texts_take_what_halves_of_frames_may(broker: BrokerProcess) -> None:
    half = frame(TEXT, b" " * 9 * MIB, size=10 * MIB)
    with Probe(broker) as probe, crowd(broker, PRODUCER, 15) as peers:
        for peer in peers:
            shout(peer, half, 1)
    probe.check()


def test_readers_of_large_messages_that_do_not_read(broker: BrokerProcess) -> None:
    with magnetar.Client(broker.url) as client:
        topic = TOPIC.replace("/", "://", 1)
        producer = client.create_producer(topic, batching_enabled=False)
        for _ in range(60):
            producer.send(bytes(2 * MIB))
        reader = client.create_reader(topic, magnetar.MessageId.earliest)
        with (
            Probe(broker) as probe,
            crowd(broker, f"reader/{TOPIC}?messageId=earliest", READERS),
        ):
            # Who reads is served all the while.
            for _ in range(60):
                assert len(reader.read_next(60_000).data()) == 2 * MIB
        probe.check()


def test_messages_as_large_as_they_can_be(broker: BrokerProcess) -> None:
    with magnetar.Client(broker.url) as client:
        topic = TOPIC.replace("/", "://", 1)
        producer = client.create_producer(topic, batching_enabled=False)
        for _ in range(10):
            producer.send(bytes(5 * MIB))
    path = f"reader/{TOPIC}?messageId=earliest"
    with Probe(broker) as probe, crowd(broker, path, 1) as (peer,):
        left = 10 * 5 * MIB * 4 // 3
        while left > 0:
            left -= len(peer.recv(1 << 20))
    probe.check()


def test_sockets_that_come_and_go_by_the_hundred(broker: BrokerProcess) -> None:
    with Probe(broker) as probe:
        for _ in range(2):
            peers = [asked(broker, f"{PRODUCER}-{number % 100}") for number in range(SOCKETS)]
            for number, peer in enumerate(peers):
                if number % 2:
                    let_in(peer)
                peer.close()
    probe.check()
