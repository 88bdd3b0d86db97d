"""Strangers on the ports of TLS: a handshake that does not end is a connection like any other.

| attack                                              | before                                   |
|-----------------------------------------------------|------------------------------------------|
| connections that never begin their handshake        | counted by nobody until it was over      |
| connections that end it, and say nothing            | up to 290 KiB each                       |
"""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.asker import LONG
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess
from support.ports import free_ports
from support.tokens import Issuer

FILES = 1024 if LONG else 512
STRANGERS = 900 if LONG else 400
# What one of them may take beside what a broker takes that nobody attacks.
EACH_BYTES = 100_000


@contextlib.contextmanager
def strangers(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connections that say nothing."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
            for _ in range(count)
        ]


@pytest.fixture
def ports() -> tuple[int, int]:
    """Of the broker, and of REST."""
    one, other = free_ports(2)
    return one, other


@pytest.fixture
def broker(tmp_path: Path, ports: tuple[int, int]) -> Iterator[BrokerProcess]:
    certificate, key = Issuer(tmp_path).issue("broker")
    options = [f"--tls-port={ports[0]}", f"--https-port={ports[1]}"]
    for setting in (f"tls_certificate_file={certificate}", f"tls_key_file={key}"):
        options += ["--set", setting]
    command = limited(files=FILES, memory_bytes=MEMORY_BYTES)
    with BrokerProcess(tmp_path / "data", options=options, command=command) as broker:
        yield broker


def resident(broker: BrokerProcess) -> int:
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) << 10


def test_strangers_that_begin_no_handshake_are_counted(
    broker: BrokerProcess, ports: tuple[int, int]
) -> None:
    with Probe(broker) as probe:
        before = resident(broker)
        with strangers(ports[0], STRANGERS) as wire, strangers(ports[1], STRANGERS) as http:
            for crowd in (wire, http):
                crowd[-1].settimeout(10)
                assert crowd[-1].recv(1) == b"", "one too many is hung up on"
            grown = resident(broker) - before
            open_files = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
    probe.check()
    assert open_files < FILES * 0.6, "the store has its share, whoever is there"
    assert grown < EACH_BYTES * 2 * STRANGERS


def test_strangers_that_say_nothing_after_their_handshake_take_little_memory(
    broker: BrokerProcess, ports: tuple[int, int], tmp_path: Path
) -> None:
    context = ssl.create_default_context(cafile=str(tmp_path / "issuer.pem"))
    with Probe(broker) as probe, contextlib.ExitStack() as stack:
        before = resident(broker)
        crowd = stack.enter_context(strangers(ports[0], FILES // 4))
        for one in crowd:
            stack.enter_context(context.wrap_socket(one, server_hostname="127.0.0.1"))
        grown = resident(broker) - before
    probe.check()
    assert grown < EACH_BYTES * len(crowd)
