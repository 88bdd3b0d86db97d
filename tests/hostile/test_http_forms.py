"""Requests over HTTP that a proxy and a broker could read in two ways, and what ends in the middle.

What one of two readers takes for a body the other takes for the next request, and whoever writes
such bytes speaks for somebody else (request smuggling). So what is not clear is refused, and the
connection ends: what came behind it is not looked at.

| attack                                                           | before                        |
|------------------------------------------------------------------|-------------------------------|
| two lengths, a length with chunks, chunks of bad sizes, folds    |                               |
| bad chunks behind a request that is refused already              | a traceback in the log each   |
| a trailer of 9,000 lines behind chunks                           | 22 ms in one event            |
"""

import socket
from collections.abc import Iterator

import pytest
from hostile.asker import LONG
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from hostile.test_sockets import crowd, read_all, say
from support.broker_process import BrokerProcess
from support.tokens import SECRET_SETTING, token

PEERS = 200 if LONG else 20
# What is smuggled: it is never answered.
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
PATH = b"/admin/v2/persistent/public/default/forms/subscription/s/skipByMessageIds"
# As long as what is smuggled.
LENGTH = b"Content-Length: %d\r\n" % len(HIDDEN)
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def post(*lines: bytes, body: bytes = b"") -> bytes:
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % PATH
    return head + b"".join(lines) + b"\r\n" + body


def get(*lines: bytes) -> bytes:
    return b"GET /healthz HTTP/1.1\r\n" + b"".join(lines) + b"\r\n" + HIDDEN


UNCLEAR = {
    "two lengths": post(b"Content-Length: 0\r\n", LENGTH, body=HIDDEN),
    "two lengths in one line": post(b"Content-Length: 0, 5\r\n", body=HIDDEN),
    "a length with a sign": post(b"Content-Length: +0\r\n", body=HIDDEN),
    "a length below nothing": post(b"Content-Length: -1\r\n", body=HIDDEN),
    "a length that is no number": post(b"Content-Length: 0x5\r\n", body=HIDDEN),
    "a length in other digits": post("Content-Length: \u0665\r\n".encode(), body=HIDDEN),
    "a length with an underscore": post(b"Content-Length: 1_0\r\n", body=HIDDEN),
    "a length of 10,000 digits": post(b"Content-Length: %s\r\n" % (b"9" * 10000), body=HIDDEN),
    "another coding": post(b"Transfer-Encoding: gzip, chunked\r\n", body=b"0\r\n\r\n" + HIDDEN),
    "a coding twice": post(CHUNKED, CHUNKED, body=b"0\r\n\r\n" + HIDDEN),
    "a coding with a tab": post(b"Transfer-Encoding: \x0bchunked\r\n", body=HIDDEN),
    "a coding with a space before its colon": post(
        b"Transfer-Encoding : chunked\r\n", body=b"0\r\n\r\n" + HIDDEN
    ),
    "a chunk without a size": post(CHUNKED, body=b"\r\n" + HIDDEN),
    "a chunk with a bad size": post(CHUNKED, body=b"G\r\n" + HIDDEN),
    "a chunk with a sign": post(CHUNKED, body=b"+1\r\na\r\n0\r\n\r\n" + HIDDEN),
    "a chunk with a prefix": post(CHUNKED, body=b"0x1\r\na\r\n0\r\n\r\n" + HIDDEN),
    "a chunk below nothing": post(CHUNKED, body=b"-1\r\n" + HIDDEN),
    "a chunk of more than there are atoms": post(CHUNKED, body=b"f" * 1000 + b"\r\n" + HIDDEN),
    "a chunk that is longer than it says": post(CHUNKED, body=b"1\r\n[]\r\n0\r\n\r\n" + HIDDEN),
    "a fold at the beginning": get(b" Host: localhost\r\n"),
    "no host": get(),
    "two hosts": get(b"Host: localhost\r\n", b"Host: evil.com\r\n"),
    "a carriage return in a value": get(b"Host: localhost\r\n", b"A: b\rTransfer-Encoding: c\r\n"),
    "a zero in a value": get(b"Host: localhost\r\n", b"A: b\0\r\n"),
    "a space in a name": get(b"Host: localhost\r\n", b"A b: c\r\n"),
    "a line without a colon": get(b"Host: localhost\r\n", b"Transfer-Encoding\r\n"),
    "a target with a space": b"GET /healthz /x HTTP/1.1\r\nHost: localhost\r\n\r\n" + HIDDEN,
    "no version": b"GET /healthz\r\n\r\n" + HIDDEN,
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n" + HIDDEN,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("forms")
    with BrokerProcess(directory, command=limited(memory_bytes=MEMORY_BYTES)) as broker:
        yield broker


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("guarded")
    options = (
        "--set",
        "authentication=true",
        "--set",
        f"token_secret_key={SECRET_SETTING}",
        "--set",
        "super_user_roles=probe",
    )
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(directory, command=command, options=options) as broker:
        yield broker


def statuses(said: bytes) -> list[bytes]:
    """Those of the answers in what was said."""
    return [answer[2:5] for answer in said.split(b"HTTP/1.")[1:]]


@pytest.mark.parametrize("form", UNCLEAR.values(), ids=UNCLEAR.keys())
def test_what_is_not_clear_is_refused_and_what_follows_is_not_read(
    broker: BrokerProcess, form: bytes
) -> None:
    with crowd(broker.http_url, 1) as (peer,):
        say(peer, form)
        said = read_all(peer)
    (status,) = statuses(said)
    assert status[:1] == b"4", said
    assert b"hidden" not in said
    assert "Traceback" not in broker.stderr, broker.stderr


def test_hundreds_of_them_at_once_hold_up_nobody(broker: BrokerProcess) -> None:
    with Probe(broker) as probe:
        for _ in range(4):
            with crowd(broker.http_url, PEERS) as peers:
                for number, peer in enumerate(peers):
                    say(peer, list(UNCLEAR.values())[number % len(UNCLEAR)])
                for peer in peers:
                    assert b"hidden" not in read_all(peer)
    probe.check()
    # Strangers do not fill the log: what is refused is told of once in a while.
    assert broker.stderr.count("Invalid HTTP") < 10


def read_answer(peer: socket.socket) -> bytes:
    """The first answer, which has a length."""
    said = b""
    while b"\r\n\r\n" not in said or not said.endswith(b"}"):
        piece = peer.recv(1 << 16)
        assert piece, said
        said += piece
    return said


def test_bad_chunks_behind_a_request_that_was_refused_end_the_connection(
    guarded: BrokerProcess,
) -> None:
    with Probe(guarded, token=token("probe")) as probe, crowd(guarded.http_url, PEERS) as peers:
        for peer in peers:
            peer.sendall(post(CHUNKED, body=b"1\r\n[\r\n"))
        for peer in peers:
            assert statuses(read_answer(peer)) == [b"401"]
            peer.sendall(b"no size\r\n" + HIDDEN)
        for peer in peers:
            assert read_all(peer) == b""
    probe.check()
    assert "Traceback" not in guarded.stderr, guarded.stderr


@pytest.mark.parametrize("answered", [False, True])
def test_trailers_of_thousands_of_lines_are_refused(guarded: BrokerProcess, answered: bool) -> None:
    trailer = b"0\r\n" + b"A: b\r\n" * 9000 + b"\r\n"
    proof = b"" if answered else b"Authorization: Bearer %s\r\n" % token("probe").encode()
    with Probe(guarded, token=token("probe")) as probe, crowd(guarded.http_url, PEERS) as peers:
        for peer in peers:
            peer.sendall(post(CHUNKED, proof))
            if answered:
                assert statuses(read_answer(peer)) == [b"401"]
            say(peer, trailer + HIDDEN)
        for peer in peers:
            assert b"hidden" not in read_all(peer)
    probe.check()
    assert "Traceback" not in guarded.stderr, guarded.stderr


def test_a_trailer_is_passed_over(broker: BrokerProcess) -> None:
    trailer = b"0\r\n" + b"A: b\r\n" * 50 + b"\r\n"
    with crowd(broker.http_url, 1) as (peer,):
        peer.sendall(post(CHUNKED, body=b"2\r\n[]\r\n" + trailer) + HIDDEN)
        assert statuses(read_all(peer))[1:] == [b"404"]
