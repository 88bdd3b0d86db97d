"""Strangers who send half of a large frame each, and wait: the broker keeps little of it.

Before CONNECT nobody has proved anything, so a frame may be as large as a CONNECT needs.
"""

import contextlib
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from hostile.attacker import Attacker
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from hostile.raw_peer import RawPeer
from support.broker_process import BrokerProcess
from support.tokens import SECRET_SETTING

import magnetar
from magnetar.protocol import CommandSend, CommandSendReceipt, MessageMetadata, encode_entry

CLIENTS = 200 if os.environ.get("MAGNETAR_HOSTILE_LONG") else 60
STRANGERS = 2000 if os.environ.get("MAGNETAR_HOSTILE_LONG") else 300
FRAME = 2 * 1024 * 1024
HALF_OF_A_LARGE_FRAME = FRAME.to_bytes(4, "big") + b"\0\0\0\x10" + bytes(FRAME // 2)
# What a stranger may say: the beginning of a frame that is as large as they come.
HALF_OF_A_SMALL_FRAME = (60_000).to_bytes(4, "big") + b"\0\0\0\x10" + bytes(30_000)


def send_and_wait(url: str, data: bytes, open_sockets: contextlib.ExitStack) -> socket.socket:
    """A stranger that stays after it has sent as much as the broker takes."""
    there = urlsplit(url)
    stranger = socket.create_connection((there.hostname, there.port), timeout=10)
    open_sockets.enter_context(stranger)
    # A broker that hung up in the middle has refused it.
    with contextlib.suppress(ConnectionError):
        stranger.sendall(data)
    return stranger


def is_hung_up_on(stranger: socket.socket) -> bool:
    """Whether the broker has closed the connection. Raises TimeoutError if it waits for more."""
    try:
        return stranger.recv(1) == b""
    except ConnectionError:
        return True


def test_strangers_with_half_of_a_large_frame_take_little_memory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY_BYTES)) as broker:
        with Probe(broker) as probe, contextlib.ExitStack() as open_sockets:
            strangers = [
                send_and_wait(broker.url, HALF_OF_A_LARGE_FRAME, open_sockets)
                for _ in range(STRANGERS)
            ]
            for stranger in strangers:
                assert is_hung_up_on(stranger)
        probe.check()
        # One line in a while tells of them.
        told = [line for line in broker.stderr.splitlines() if "the limit is 65536" in line]
        assert 1 <= len(told) < STRANGERS / 2


def test_strangers_with_half_of_a_frame_that_is_allowed_take_little_memory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY_BYTES)) as broker:
        with Probe(broker) as probe, contextlib.ExitStack() as open_sockets:
            for _ in range(STRANGERS):
                send_and_wait(broker.url, HALF_OF_A_SMALL_FRAME, open_sockets)
            # Who comes behind them is served, so the broker has read what they said.
            with magnetar.Client(broker.url) as client:
                client.create_producer("t").send(b"behind them")
        probe.check()


def test_clients_with_most_of_a_large_frame_take_little_memory(tmp_path: Path) -> None:
    """Of those that have connected a frame may be large, and all of them share what there is."""
    most = (5 << 20).to_bytes(4, "big") + b"\0\0\0\x10" + bytes(4_900_000)
    with BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY_BYTES)) as broker:
        with Probe(broker) as probe, contextlib.ExitStack() as clients:
            for _ in range(CLIENTS):
                client = clients.enter_context(Attacker(broker.url))
                client.shout_bytes(most)
            # A message as large as they may be gets through all the same.
            with magnetar.Client(broker.url) as other:
                other.create_producer("t", batching_enabled=False).send(bytes(4_900_000))
        probe.check()


def test_producers_that_have_sent_a_large_message_take_little_memory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY_BYTES)) as broker:
        with Probe(broker) as probe, contextlib.ExitStack() as clients:
            for number in range(CLIENTS):
                client = clients.enter_context(RawPeer(broker.url))
                client.producer(1, "t")
                entry = encode_entry(MessageMetadata(f"p{number}", 1, 1).encode(), bytes(4_900_000))
                client.say(CommandSend(1, 0, entry))
                client.expect(CommandSendReceipt)
        probe.check()


def test_a_broker_with_authentication_hears_strangers_no_longer(tmp_path: Path) -> None:
    options = ("--set", "authentication=true", "--set", f"token_secret_key={SECRET_SETTING}")
    with BrokerProcess(tmp_path, options=options) as broker, contextlib.ExitStack() as sockets:
        assert is_hung_up_on(send_and_wait(broker.url, HALF_OF_A_LARGE_FRAME, sockets))
