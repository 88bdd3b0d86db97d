"""Metrics: one text for all who ask, in small pieces, for as long as they read."""

import asyncio
import socket
from contextlib import suppress

import pytest
from support.served import Served
from support.waiting import wait_until

from magnetar.admin.http.server import HttpServer
from magnetar.admin.http.timed_protocol import TimedProtocol
from magnetar.admin.metric.resting import RestingTopics
from magnetar.admin.route.metrics import make_scrape
from magnetar.admin.route.scrape import AGE_SECONDS_MAX, ALIVE_MAX, ROWS_FREE, Scrape, Scrapes

PIECE_BYTES_MAX = 64 << 10
MANY_ROWS = 10_000


class Source:
    """Makes scrapes, and counts them."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.made = 0
        self.now = 0.0
        self.scrapes = Scrapes(self.make, lambda: self.now)

    async def make(self) -> Scrape:
        self.made += 1
        await asyncio.sleep(0)
        return Scrape([b"%d" % self.made], self.rows)

    def get(self) -> Scrape:
        return asyncio.run(self.scrapes.get())


def test_all_who_ask_at_once_get_the_same_text() -> None:
    source = Source(1)

    async def ask() -> list[Scrape]:
        return await asyncio.gather(*[source.scrapes.get() for _ in range(300)])

    assert len(set(map(id, asyncio.run(ask())))) == 1
    assert source.made == 1


def test_a_small_text_is_made_for_everybody_who_comes_later() -> None:
    source = Source(ROWS_FREE - 1)
    kept = [source.get() for _ in range(2 * ALIVE_MAX)]
    assert source.made == len(kept)


def test_a_large_text_serves_for_some_seconds() -> None:
    source = Source(MANY_ROWS)
    first = source.get()
    source.now = AGE_SECONDS_MAX - 0.1
    assert source.get() is first
    source.now = AGE_SECONDS_MAX
    assert source.get() is not first


def test_of_large_texts_that_are_still_read_there_are_few() -> None:
    source = Source(MANY_ROWS)
    read: list[Scrape] = []
    for number in range(10):
        source.now = number * 2 * AGE_SECONDS_MAX
        read.append(source.get())
    assert source.made == ALIVE_MAX
    newest = read[-1]
    del read
    assert source.get() is newest or source.made == ALIVE_MAX + 1
    del newest
    source.now += 2 * AGE_SECONDS_MAX
    source.get()
    assert source.made > ALIVE_MAX, "when nobody reads the old ones there are new ones again"


def test_a_text_that_cannot_be_made_is_tried_again() -> None:
    failures = [OSError("once")]

    async def make() -> Scrape:
        if failures:
            raise failures.pop()
        return Scrape([], 0)

    scrapes = Scrapes(make, lambda: 0.0)
    with pytest.raises(OSError, match="once"):
        asyncio.run(scrapes.get())
    assert asyncio.run(scrapes.get()).pieces == []


def test_the_text_comes_in_small_pieces(served: Served) -> None:
    namespace = served.namespace()
    made = served.http.put(f"/persistent/{namespace}/many/partitions", json=300)
    assert made.status_code == 204
    scrape = served.run(make_scrape(served.broker, RestingTopics()))
    assert max(map(len, scrape.pieces)) < PIECE_BYTES_MAX
    text = b"".join(scrape.pieces).decode()
    assert text.count("# HELP pulsar_in_messages_total ") == 1
    assert f'pulsar_topics_count{{cluster="standalone",namespace="{namespace}"}} 300' in text


def test_who_does_not_read_its_answer_is_cut_off(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A little is taken by sockets on both sides, so the answer must be large."""
    monkeypatch.setattr(TimedProtocol, "unread_seconds", 0.1)
    namespace = served.namespace()
    made = served.http.put(f"/persistent/{namespace}/many/partitions", json=2000)
    assert made.status_code == 204
    http = HttpServer(served.server, "127.0.0.1", 0)
    served.run(http.start())
    port = int(http.url.rpartition(":")[2])
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.settimeout(20)
        peer.connect(("127.0.0.1", port))
        peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert peer.recv(8) == b"HTTP/1.1"
        limits = served.server.http_limits
        there = limits.count
        wait_until(lambda: limits.count < there)
        got = b""
        with suppress(ConnectionResetError):
            while piece := peer.recv(1 << 20):
                got += piece
        assert not got.endswith(b"\r\n0\r\n\r\n"), "all of it came"
    served.run(http.stop())
