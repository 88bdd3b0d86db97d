"""Clients that ask for metrics and do not read them cost little, and are cut off."""

import socket
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from hostile.asker import LONG
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from hostile.test_watchers import create
from support.broker_process import BrokerProcess

CLIENTS = 300 if LONG else 60
TOPICS = 5000 if LONG else 1000
REQUEST = b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


def test_clients_that_do_not_read_their_metrics(tmp_path: Path) -> None:
    command = limited(memory_bytes=MEMORY_BYTES)
    with BrokerProcess(tmp_path, command=command) as broker:
        create(broker, "there", TOPICS)
        there = urlsplit(broker.http_url)
        assert there.hostname is not None
        assert there.port is not None
        with Probe(broker) as probe, ExitStack() as stack:
            for _ in range(CLIENTS):
                client = socket.socket()
                stack.enter_context(client)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.settimeout(30)
                client.connect((there.hostname, there.port))
                client.sendall(REQUEST)
                assert client.recv(9) == b"HTTP/1.1 "
            for path in ("healthz", "admin/v2/brokers/ready", "metrics"):
                with urllib.request.urlopen(f"{broker.http_url}/{path}", timeout=30) as answer:
                    assert answer.read()
        probe.check()
