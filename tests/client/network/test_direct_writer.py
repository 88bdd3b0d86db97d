"""Writing from the thread that waits: all of it, in order, whatever the loop writes meanwhile."""

import asyncio
import random
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from client.conftest import WAIT_MS, payloads, until

from magnetar.client.door.blocking import Client
from magnetar.client.network.direct_writer import SIZE_MAX, DirectWriter
from magnetar.model import MessageId


class Pair:
    """A transport with a direct writer, and the other end of its socket."""

    def __init__(self, transport: asyncio.Transport, peer: socket.socket) -> None:
        self.transport = transport
        self.peer = peer
        self.writer = DirectWriter(transport)
        self._heard = b""

    async def write(self, data: bytes) -> bool:
        return await asyncio.to_thread(self.writer.write, [data[:3], data[3:]])

    async def hear(self, size: int) -> bytes:
        """All that comes, until it is so much."""
        loop = asyncio.get_running_loop()
        while len(self._heard) < size:
            self._heard += await asyncio.wait_for(loop.sock_recv(self.peer, 1 << 20), 10)
        return self._heard


@asynccontextmanager
async def pair(send_buffer: int = 1 << 16) -> AsyncIterator[Pair]:
    mine, peer = socket.socketpair()
    mine.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    peer.setblocking(False)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=mine)
    made = Pair(transport, peer)
    try:
        yield made
    finally:
        made.writer.close()
        transport.abort()
        peer.close()
        await asyncio.sleep(0)


async def test_what_is_written_arrives() -> None:
    async with pair() as ends:
        assert await ends.write(b"hello")
        assert not ends.writer.has_rest
        ends.writer.write_on_loop([b" ", b"world"])
        assert await ends.hear(11) == b"hello world"


async def test_nothing_overtakes_what_the_transport_has_left() -> None:
    async with pair(1 << 12) as ends:
        large = bytes(1 << 20)
        ends.writer.write_on_loop([large])
        assert ends.transport.get_write_buffer_size() > 0
        assert not await ends.write(b"later")
        assert await ends.hear(len(large)) == large
        await until(lambda: ends.transport.get_write_buffer_size() == 0, lambda: "still full")
        assert await ends.write(b"later")
        assert await ends.hear(len(large) + 5) == large + b"later"


async def test_what_does_not_go_out_at_once_is_left_to_the_loop() -> None:
    rng = random.Random(1)
    async with pair(1 << 12) as ends:
        written = b""
        while not ends.writer.has_rest:
            data = rng.randbytes(SIZE_MAX)
            if not await ends.write(data):
                break  # nothing of it went out
            written += data
        assert not await ends.write(b"not now")
        ends.writer.write_on_loop([b"and then"])
        assert not ends.writer.has_rest
        written += b"and then"
        assert await ends.hear(len(written)) == written


async def test_what_is_too_large_or_too_late_is_not_written_here() -> None:
    async with pair() as ends:
        assert not await ends.write(bytes(SIZE_MAX + 1))
        ends.writer.close()
        assert not await ends.write(b"x")
        ends.writer.write_on_loop([b"y"])
        assert await ends.hear(1) == b"y"
    async with pair() as ends:
        ends.transport.close()
        assert not await ends.write(b"x")


async def test_closing_hangs_up() -> None:
    """The duplicate does not keep the connection open."""
    async with pair() as ends:
        ends.writer.close()
        ends.transport.close()
        assert await asyncio.get_running_loop().sock_recv(ends.peer, 1) == b""


@pytest.mark.parametrize("batching", [False, True])
def test_threads_that_send_at_once_keep_their_order(
    magnetar_client: Client, topic: str, batching: bool
) -> None:
    rounds, threads = 60, 4
    producer = magnetar_client.create_producer(
        topic, batching_enabled=batching, block_if_queue_full=True
    )
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for count in range(rounds):
                content = b"%d %d" % (number, count)
                if (count + number) % 3:
                    producer.send(content)
                else:
                    producer.send_async(content, None)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    producer.flush()
    assert not failures
    reader = magnetar_client.create_reader(topic, MessageId.earliest)
    got = [reader.read_next(WAIT_MS).data().split() for _ in range(rounds * threads)]
    for number in range(threads):
        mine = [int(count) for who, count in got if int(who) == number]
        assert mine == list(range(rounds))


def test_a_send_alone_is_written_by_its_own_thread(
    magnetar_client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()
    write = DirectWriter.write

    def noted(self: DirectWriter, frames: Any) -> bool:
        wrote = write(self, frames)
        if wrote:
            threads.add(threading.current_thread())
        return wrote

    monkeypatch.setattr(DirectWriter, "write", noted)
    producer = magnetar_client.create_producer(topic)
    for content in payloads(20):
        producer.send(content)
    assert threads == {threading.current_thread()}
    threads.clear()
    # Who does not wait leaves it to the loop, which writes much at once.
    for content in payloads(20):
        producer.send_async(content, None)
    producer.flush()
    assert not threads
