"""Strangers take connections until the process has no descriptors: nothing of that may last.

A broker that may have 256 files is asked for 600 connections on both ports, and works on.
"""

import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

import magnetar

LIMIT = 256
STRANGERS = 300
TOPIC = "persistent://public/default/probe"
SETTINGS = ("--set", "segment_bytes=1048576", "--set", "watermark_bytes=0")


@contextmanager
def strangers(url: str, count: int) -> Iterator[list[socket.socket]]:
    """Connections that say nothing."""
    there = urlsplit(url)
    assert there.hostname is not None
    assert there.port is not None
    made: list[socket.socket] = []
    try:
        for _ in range(count):
            made.append(socket.create_connection((there.hostname, there.port), timeout=10))
        yield made
    finally:
        for one in made:
            one.close()


def metric(broker: BrokerProcess, name: str) -> float:
    with urllib.request.urlopen(f"{broker.http_url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name}{{")]
    return float(line.rsplit(" ", 1)[1])


def test_more_connections_than_descriptors_leave_nothing_behind(tmp_path: Path) -> None:
    options = ("--data", str(tmp_path / "data"), *SETTINGS)
    command = limited(files=LIMIT, memory_bytes=MEMORY_BYTES)
    with (
        BrokerProcess(tmp_path / "data", options=options, command=command) as broker,
        Probe(broker) as probe,
        magnetar.Client(broker.url) as client,
    ):
        consumer = client.subscribe(TOPIC, "probe")
        producer = client.create_producer(TOPIC, batching_enabled=False)
        with strangers(broker.url, STRANGERS) as idle, strangers(broker.http_url, STRANGERS):
            # Half a dozen segments: each wants descriptors of its own.
            for i in range(100):
                producer.send(str(i).encode().ljust(65536, b"."))
                message = consumer.receive(timeout_millis=20_000)
                assert message.data().split(b".")[0] == str(i).encode()
                consumer.acknowledge(message)
            idle[-1].settimeout(10)
            assert b"the most that it may have" in idle[-1].recv(4096)
        assert metric(broker, "pulsar_storage_read_only") == 0
        assert metric(broker, "pulsar_connections_refused_total") >= STRANGERS - LIMIT
        with urllib.request.urlopen(f"{broker.http_url}/admin/v2/brokers/ready", timeout=10) as ok:
            assert ok.read() == b"ok"
        producer.send(b"after")
        assert consumer.receive(timeout_millis=20_000).data() == b"after"
    probe.check()
