"""Peers before CONNECT: they may say little, and the log tells of few of them."""

import asyncio
import logging

import pytest
from support.tokens import by_secret, token
from support.wire_client import WireClient
from support.world import World

from magnetar.broker.rare_warning import EVERY_MS
from magnetar.broker.setting.settings import BrokerSettings
from magnetar.broker.setting.text_limits import STRANGER_FRAME
from magnetar.broker.shell.server import BrokerServer
from magnetar.errors import DiskError
from magnetar.protocol import MESSAGE_SIZE_MAX, encode
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage import Catalog, MemoryDisk


def connect(**fields: object) -> pb.CommandConnect:
    command = pb.CommandConnect(
        client_version="test", protocol_version=21, auth_method_name="token"
    )
    for name, value in fields.items():
        setattr(command, name, value)
    return command


def frame_head(size: int) -> bytes:
    """The first bytes of a frame of so many bytes, its length not counted."""
    return size.to_bytes(4, "big") + (10).to_bytes(4, "big")


# ---- Frames ------------------------------------------------------------------------------


def test_a_stranger_may_not_begin_a_frame_of_a_message_s_size() -> None:
    world = World()
    stranger = world.connect(greet=False)
    stranger.say_bytes(frame_head(STRANGER_FRAME.bytes_max + 1))
    assert stranger.hung_up
    (warning,) = world.host.warnings
    assert "65537 bytes, the limit is 65536" in warning


def test_a_stranger_may_begin_a_frame_of_the_limit() -> None:
    stranger = World().connect(greet=False)
    stranger.say_bytes(frame_head(STRANGER_FRAME.bytes_max))
    assert not stranger.hung_up


def test_who_is_connected_may_send_messages_at_once() -> None:
    client = World().connect()
    client.say_bytes(frame_head(MESSAGE_SIZE_MAX))
    assert not client.hung_up


def test_who_says_connect_and_more_in_one_breath_is_heard() -> None:
    client = World().connect(greet=False)
    client.say_bytes(encode(connect()) + frame_head(MESSAGE_SIZE_MAX))
    assert not client.hung_up


def test_who_could_not_log_in_stays_a_stranger() -> None:
    world = World(authentication=by_secret())
    stranger = world.connect(greet=False)
    stranger.say_bytes(encode(connect(auth_data=b"nonsense")) + frame_head(MESSAGE_SIZE_MAX))
    assert stranger.hung_up
    assert [type(said).__name__ for said in stranger.received] == ["CommandError"]


def test_a_broker_of_small_messages_gives_strangers_no_more() -> None:
    stranger = World(message_size_max=1024).connect(greet=False)
    stranger.say_bytes(frame_head(1024 + 10240 + 1))
    assert stranger.hung_up


def test_a_token_of_many_kilobytes_still_fits() -> None:
    world = World(authentication=by_secret())
    large = token("worker", groups=["g" * 100] * 110)
    assert 12_000 < len(large) < 16_384
    client = world.connect(auth_method_name="token", auth_data=large.encode())
    assert client.connected


# ---- The log -----------------------------------------------------------------------------


def log_in(world: World, auth_data: bytes) -> WireClient:
    client = world.connect(greet=False)
    client.say(connect(auth_data=auth_data))
    return client


def test_refused_log_ins_are_counted_and_one_in_a_while_is_logged() -> None:
    world = World(authentication=by_secret())
    for _ in range(50):
        assert log_in(world, b"nonsense").hung_up
    assert world.broker.refused_log_ins.count == 50
    (warning,) = world.host.warnings
    assert warning.startswith("refusing the log-in of client-1: ")
    world.advance(EVERY_MS)
    log_in(world, b"nonsense")
    assert "(and 49 others before it)" in world.host.warnings[1]
    assert world.broker.refused_log_ins.count == 51


def test_a_renewed_proof_that_is_refused_counts_too() -> None:
    world = World(authentication=by_secret())
    client = world.connect(auth_method_name="token", auth_data=token("worker").encode())
    response = pb.AuthData(auth_method_name="token", auth_data=b"nonsense")
    client.say(pb.CommandAuthResponse(client_version="test", response=response))
    assert client.hung_up
    assert world.broker.refused_log_ins.count == 1


def test_garbage_of_strangers_does_not_fill_the_log() -> None:
    world = World()
    for _ in range(50):
        world.connect(greet=False).say_bytes(b"GET / HTTP/1.1\r\n\r\n")
    assert len(world.host.warnings) == 1
    # Those who are connected are told of, each of them.
    for _ in range(2):
        world.connect().say_bytes(b"GET / HTTP/1.1\r\n\r\n")
    assert len(world.host.warnings) == 3


# ---- The shell ---------------------------------------------------------------------------


def test_a_connection_beyond_the_limit_gets_no_session(caplog: pytest.LogCaptureFixture) -> None:
    made: list[str] = []

    class Counting(BrokerServer):
        def make_session(self, link, address, local_host, role):  # type: ignore[no-untyped-def]
            made.append(address)
            return super().make_session(link, address, local_host, role)

    async def work() -> None:
        server = Counting(MemoryDisk(), Catalog, BrokerSettings(max_connections=1))
        await server.start()
        _, first = await asyncio.open_connection("127.0.0.1", server.port)
        reader, second = await asyncio.open_connection("127.0.0.1", server.port)
        assert b"the most that it may have" in await reader.read()
        first.close()
        second.close()
        await server.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(work())
    assert len(made) == 1
    assert "Traceback" not in caplog.text


def test_a_start_that_fails_closes_the_catalog() -> None:
    opened: list[Catalog] = []

    def open_catalog() -> Catalog:
        opened.append(Catalog())
        return opened[-1]

    async def work() -> None:
        first = BrokerServer(MemoryDisk(), Catalog)
        await first.start()
        with pytest.raises(OSError, match="in use"):
            await BrokerServer(MemoryDisk(), open_catalog, port=first.port).start()
        await first.stop()

    asyncio.run(work())
    (catalog,) = opened
    with pytest.raises(DiskError, match="closed database"):
        catalog.items("tenants")
