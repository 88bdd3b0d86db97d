"""Bytes arrive in order and none is lost, unless the connection is; and what TCP may do it does."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.testing import NetworkConditions, SimLoop, SimTransport

SEEDS = range(25)
SMALL = NetworkConditions(window_bytes_min=16, window_bytes_max=200)


class Recorder(asyncio.Protocol):
    """Notes everything that happens to it."""

    def __init__(self, *, keeps_open: bool = False) -> None:
        self.events: list[str] = []
        self.data = bytearray()
        self.pieces: list[int] = []
        self.error: Exception | None = None
        self.lost = asyncio.get_running_loop().create_future()
        self.ended = asyncio.get_running_loop().create_future()
        self.transport: SimTransport
        self._keeps_open = keeps_open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimTransport)
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        assert data
        self.data += data
        self.pieces.append(len(data))

    def eof_received(self) -> bool:
        self.events.append("eof")
        self.ended.set_result(None)
        return self._keeps_open

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self.events.append("lost")
        self.lost.set_result(None)


class Pair:
    """A client and the server that it is connected to."""

    def __init__(self, client: Recorder, server: Recorder, port: int) -> None:
        self.client = client
        self.server = server
        self.port = port
        self.connection = client.transport.connection


async def connect(loop: SimLoop, *, keeps_open: bool = False) -> Pair:
    accepted: asyncio.Queue[Recorder] = asyncio.Queue()

    def accept() -> Recorder:
        recorder = Recorder(keeps_open=keeps_open)
        accepted.put_nowait(recorder)
        return recorder

    server = await loop.create_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    _, client = await loop.create_connection(
        lambda: Recorder(keeps_open=keeps_open), "localhost", port
    )
    assert isinstance(client, Recorder)
    other = await accepted.get()
    assert other.events == ["made"]
    return Pair(client, other, port)


def on_pair(
    seed: int,
    scene: Callable[[SimLoop, Pair], Awaitable[None]],
    *,
    conditions: NetworkConditions | None = None,
    keeps_open: bool = False,
) -> SimLoop:
    async def main(loop: SimLoop) -> None:
        await scene(loop, await connect(loop, keeps_open=keeps_open))

    with SimLoop(seed, conditions=conditions) as loop:
        loop.run(main(loop))
    return loop


# ---- Programs with streams ---------------------------------------------------


def test_streams_work() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for line in reader:
            writer.write(line.upper())
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main() -> list[bytes]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.writelines([b"one\n", b"two\n"])
        answers = [await reader.readline(), await reader.readline()]
        writer.write(b"three\n")
        writer.write_eof()
        answers.append(await reader.read())
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        return answers

    for seed in SEEDS:
        with SimLoop(seed) as loop:
            assert loop.run(main()) == [b"ONE\n", b"TWO\n", b"THREE\n"]


def test_a_server_that_still_serves_is_cancelled_in_the_end() -> None:
    cancelled = False

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal cancelled
        try:
            await reader.read()
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(1)
        writer.close()

    with SimLoop(1) as loop:
        loop.run(main())
    assert cancelled


def test_a_buffered_protocol_gets_the_same_bytes() -> None:
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.data = bytearray()
            self.room = bytearray(7)

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.room

        def buffer_updated(self, nbytes: int) -> None:
            self.data += self.room[:nbytes]

    async def main(loop: SimLoop) -> None:
        protocol = Buffered()
        server = await loop.create_server(lambda: protocol, port=1234)
        assert server.is_serving()
        transport, _ = await loop.create_connection(asyncio.Protocol, "localhost", 1234)
        transport.write(bytes(range(100)))
        await asyncio.sleep(1)
        assert protocol.data == bytes(range(100))

    with SimLoop(1) as loop:
        loop.run(main(loop))


def test_addresses_and_ports() -> None:
    async def scene(loop: SimLoop, pair: Pair) -> None:
        client, server = pair.client.transport, pair.server.transport
        assert client.get_extra_info("peername") == ("127.0.0.1", pair.port)
        assert client.get_extra_info("sockname") == server.get_extra_info("peername")
        assert client.get_extra_info("peername") == server.get_extra_info("sockname")
        assert client.get_extra_info("socket", "none") == "none"
        with pytest.raises(OSError, match="bind on address"):
            await loop.create_server(asyncio.Protocol, "127.0.0.1", pair.port)
        other = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        assert other.sockets[0].getsockname()[1] != pair.port  # type: ignore[attr-defined]

    on_pair(1, scene)


# ---- Bytes -------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32),
    requests=st.lists(st.binary(max_size=300), max_size=12),
    answers=st.lists(st.binary(max_size=300), max_size=12),
    small=st.booleans(),
)
def test_bytes_arrive_whole_and_in_order(
    seed: int, requests: list[bytes], answers: list[bytes], small: bool
) -> None:
    async def send(writer: SimTransport, pieces: list[bytes], random: Random) -> None:
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(random.random() * 0.005)
        writer.write_eof()

    async def scene(loop: SimLoop, pair: Pair) -> None:
        await asyncio.gather(
            send(pair.client.transport, requests, Random(seed)),
            send(pair.server.transport, answers, Random(seed + 1)),
        )
        await pair.client.ended
        await pair.server.ended
        assert pair.server.data == b"".join(requests)
        assert pair.client.data == b"".join(answers)
        pair.client.transport.close()
        pair.server.transport.close()
        await pair.client.lost
        await pair.server.lost
        assert pair.client.error is None
        assert pair.server.error is None

    on_pair(seed, scene, conditions=SMALL if small else None, keeps_open=True)


@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(1, 400), min_size=1, max_size=10))
def test_what_arrives_before_a_cut_is_a_beginning_of_what_was_sent(
    seed: int, sizes: list[int]
) -> None:
    async def scene(loop: SimLoop, pair: Pair) -> None:
        random = Random(seed)
        sent = bytearray()
        for size in sizes:
            data = random.randbytes(size)
            sent += data
            pair.client.transport.write(data)
            await asyncio.sleep(random.random() * 0.003)
        loop.network.cut(pair.connection)
        pair.client.transport.write(b"into the void")
        await pair.client.lost
        await pair.server.lost
        assert isinstance(pair.client.error, ConnectionResetError)
        assert isinstance(pair.server.error, ConnectionResetError)
        assert sent.startswith(pair.server.data)
        assert pair.client.events == pair.server.events == ["made", "lost"]
        await asyncio.sleep(1)
        assert loop.network.connections == {}

    on_pair(seed, scene, conditions=SMALL)


def test_writes_are_split_and_merged_and_take_their_time() -> None:
    counts = set()
    times = set()
    for seed in SEEDS:

        async def scene(loop: SimLoop, pair: Pair) -> None:
            began_ns = loop.now_ns
            for _ in range(10):
                pair.client.transport.write(bytes(100))
            pair.client.transport.write_eof()
            await pair.server.ended
            counts.add(len(pair.server.pieces))
            times.add(loop.now_ns - began_ns)

        on_pair(seed, scene)
    assert 1 in counts
    assert max(counts) > 3
    assert len(times) == len(SEEDS)


# ---- Flow --------------------------------------------------------------------


def test_a_peer_that_never_reads_pauses_the_writer_and_gets_all_when_it_reads() -> None:
    for seed in SEEDS:

        async def scene(loop: SimLoop, pair: Pair) -> None:
            client, server = pair.client, pair.server
            server.transport.pause_reading()
            assert not server.transport.is_reading()
            client.transport.set_write_buffer_limits(high=1000)
            assert client.transport.get_write_buffer_limits() == (250, 1000)
            sent = 0
            while "pause" not in client.events:
                client.transport.write(bytes(100))
                sent += 100
                await asyncio.sleep(0.01)
            await asyncio.sleep(1000)
            assert client.events == ["made", "pause"]
            assert client.transport.get_write_buffer_size() > 1000
            assert server.data == b""
            server.transport.resume_reading()
            await asyncio.sleep(10)
            assert client.events == ["made", "pause", "resume"]
            assert len(server.data) == sent

        on_pair(seed, scene, conditions=SMALL)


# ---- Ending ------------------------------------------------------------------


def test_close_delivers_what_was_written_and_then_the_end() -> None:
    for seed in SEEDS:

        async def scene(loop: SimLoop, pair: Pair) -> None:
            pair.client.transport.write(bytes(1000))
            pair.client.transport.close()
            pair.client.transport.write(b"too late")
            await pair.client.lost
            await pair.server.lost
            assert len(pair.server.data) == 1000
            assert pair.server.events == ["made", "eof", "lost"]
            assert pair.client.events == ["made", "lost"]
            assert (pair.client.error, pair.server.error) == (None, None)

        on_pair(seed, scene, conditions=SMALL)


def test_half_of_a_connection_may_stay_open() -> None:
    async def scene(loop: SimLoop, pair: Pair) -> None:
        pair.client.transport.write_eof()
        with pytest.raises(RuntimeError, match="after write_eof"):
            pair.client.transport.write(b"more")
        await pair.server.ended
        pair.server.transport.write(b"still here")
        pair.server.transport.close()
        await pair.client.ended
        assert pair.client.data == b"still here"

    for seed in SEEDS:
        on_pair(seed, scene, keeps_open=True)


def test_abort_resets_the_peer() -> None:
    async def scene(loop: SimLoop, pair: Pair) -> None:
        pair.client.transport.write(bytes(5000))
        pair.client.transport.abort()
        await pair.client.lost
        await pair.server.lost
        assert pair.client.error is None
        assert isinstance(pair.server.error, ConnectionResetError)
        assert pair.server.events == ["made", "lost"]

    for seed in SEEDS:
        on_pair(seed, scene)


def test_data_sent_to_a_closed_end_are_answered_with_a_reset() -> None:
    async def scene(loop: SimLoop, pair: Pair) -> None:
        pair.server.transport.close()
        await pair.client.ended
        pair.client.transport.write(b"are you there?")
        await pair.client.lost
        assert isinstance(pair.client.error, ConnectionResetError)

    for seed in SEEDS:
        on_pair(seed, scene, keeps_open=True)


def test_who_neither_reads_nor_writes_does_not_notice_a_reset() -> None:
    async def scene(loop: SimLoop, pair: Pair) -> None:
        pair.server.transport.pause_reading()
        pair.client.transport.abort()
        await asyncio.sleep(1000)
        assert pair.server.events == ["made"]
        if loop.seed % 2:
            pair.server.transport.write(b"?")
        else:
            pair.server.transport.resume_reading()
        await pair.server.lost
        assert isinstance(pair.server.error, ConnectionResetError)

    for seed in SEEDS:
        on_pair(seed, scene)


def test_a_connection_that_nobody_accepts_in_time_is_reset() -> None:
    async def main(loop: SimLoop) -> None:
        server = await loop.create_server(asyncio.Protocol, port=4000)
        _, client = await loop.create_connection(Recorder, "localhost", 4000)
        server.close()
        assert isinstance(client, Recorder)
        await client.lost
        await server.wait_closed()

    for seed in range(3):
        with SimLoop(
            seed, conditions=NetworkConditions(latency_ns_min=10**8, latency_ns_max=10**9)
        ) as loop:
            loop.run(main(loop))


# ---- Partitions and deaths ---------------------------------------------------


def test_a_held_connection_delivers_nothing_until_it_is_healed() -> None:
    async def scene(loop: SimLoop, pair: Pair) -> None:
        pair.connection.hold()
        pair.client.transport.write(b"wait for me")
        await asyncio.sleep(1000)
        assert pair.server.data == b""
        assert pair.client.events == ["made"]
        pair.connection.heal()
        await asyncio.sleep(1)
        assert pair.server.data == b"wait for me"

    for seed in SEEDS:
        on_pair(seed, scene)


def test_a_held_connection_can_be_cut() -> None:
    async def scene(loop: SimLoop, pair: Pair) -> None:
        pair.connection.hold()
        pair.client.transport.write(b"never")
        await asyncio.sleep(1)
        pair.connection.cut()
        await pair.client.lost
        await pair.server.lost
        assert pair.server.data == b""

    for seed in SEEDS:
        on_pair(seed, scene)


async def with_server_process(loop: SimLoop) -> tuple[Recorder, Recorder]:
    """A client here, and a server in a process called `server`."""
    recorders: list[Recorder] = []

    def accept() -> Recorder:
        recorders.append(Recorder())
        return recorders[-1]

    process = loop.process("server")
    await process.start(loop.create_server(accept, port=5000))
    _, client = await loop.create_connection(Recorder, "localhost", 5000)
    await asyncio.sleep(1)
    assert isinstance(client, Recorder)
    return client, recorders[0]


def test_a_killed_process_leaves_its_peers_with_an_end_or_a_reset() -> None:
    endings = set()

    async def main(loop: SimLoop) -> None:
        client, server = await with_server_process(loop)
        if loop.seed % 2:
            client.transport.write(bytes(100))
        server.transport.write(b"last words")
        loop.kill(server.transport.process)
        await client.lost
        assert server.events == ["made"]
        assert bytes(client.data) in (b"", b"last words")
        endings.add(tuple(client.events))
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Recorder, "localhost", 5000)

    for seed in SEEDS:
        with SimLoop(seed) as loop:
            loop.run(main(loop))
    assert endings == {("made", "eof", "lost"), ("made", "lost")}


def test_a_machine_without_power_says_nothing_until_it_is_back() -> None:
    async def main(loop: SimLoop) -> None:
        client, server = await with_server_process(loop)
        loop.kill(server.transport.process, silent=True)
        client.transport.write(b"hello?")
        await asyncio.sleep(10_000)
        assert client.events == ["made"]
        loop.network.reset_silent()
        await client.lost
        assert isinstance(client.error, ConnectionResetError)
        await asyncio.sleep(1)
        assert loop.network.connections == {}

    for seed in SEEDS:
        with SimLoop(seed) as loop:
            loop.run(main(loop))


def test_a_partitioned_process_is_out_of_reach_until_healed() -> None:
    async def main(loop: SimLoop) -> None:
        client, server = await with_server_process(loop)
        process = server.transport.process
        loop.network.partition(process)
        client.transport.write(b"held up")
        with pytest.raises(TimeoutError):
            await loop.create_connection(Recorder, "localhost", 5000)
        late = asyncio.create_task(loop.create_connection(Recorder, "localhost", 5000))
        await asyncio.sleep(10)
        assert not late.done()
        assert server.data == b""
        loop.network.heal(process)
        await late
        assert server.data == b"held up"

    for seed in SEEDS:
        with SimLoop(seed) as loop:
            loop.run(main(loop))


# ---- Orders ------------------------------------------------------------------


def test_who_of_several_clients_is_heard_first_is_chance() -> None:
    async def main(loop: SimLoop) -> str:
        heard: list[str] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(1):
                heard.append(data.decode())
            writer.close()

        async def speak(name: str) -> None:
            _, writer = await asyncio.open_connection("localhost", port)
            for _ in range(3):
                writer.write(name.encode())
                await writer.drain()
                await asyncio.sleep(0.001)
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(serve, "localhost", 0)
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(*(speak(name) for name in "abc"))
        await asyncio.sleep(1)  # one may still wait to be accepted
        server.close()
        await server.wait_closed()
        return "".join(heard)

    orders = set()
    for seed in SEEDS:
        with SimLoop(seed) as loop:
            orders.add(loop.run(main(loop)))
    assert len(orders) > len(SEEDS) // 2
    assert {"".join(sorted(order)) for order in orders} == {"aaabbbccc"}
