"""Texts that the broker would keep: metadata and properties of megabytes are refused.

300 producers with metadata of 5 MB each took 1.5 GB, 100 subscriptions with properties 1 GB.
"""

import contextlib
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

from magnetar.protocol import Connection, encode
from magnetar.protocol import pulsar_pb2 as pb

LONG = 10 if os.environ.get("MAGNETAR_HOSTILE_LONG") else 1
PRODUCERS = 300 * LONG
SUBSCRIPTIONS = 100 * LONG
LARGE = "x" * 4_000_000
# As large as they may be.
ALLOWED = "x" * 16_000


class Client:
    """A connection that says one thing and hears the answer."""

    def __init__(self, url: str) -> None:
        there = urlsplit(url)
        self._socket = socket.create_connection((there.hostname, there.port), timeout=30)
        self._connection = Connection()
        self.ask(pb.CommandConnect(client_version="test", protocol_version=21))

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def ask(self, command: object) -> object:
        self._socket.sendall(encode(command))  # type: ignore[arg-type]
        while True:
            while (answer := self._connection.next_command()) is None:
                data = self._socket.recv(65536)
                assert data, "the broker hung up"
                self._connection.receive_data(data)
            if not isinstance(answer, pb.CommandPing):
                return answer


def producer(number: int, value: str) -> pb.CommandProducer:
    command = pb.CommandProducer(topic="t", producer_id=number, request_id=number)
    command.metadata.add(key="k", value=value)
    return command


def subscribe(number: int, value: str) -> pb.CommandSubscribe:
    command = pb.CommandSubscribe(
        topic="t", subscription=f"s-{number}", subType=1, consumer_id=number, request_id=number
    )
    command.subscription_properties.add(key="k", value=value)
    command.metadata.add(key="k", value=ALLOWED)
    return command


def test_producers_with_large_metadata_take_little_memory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY_BYTES)) as broker:
        with Probe(broker) as probe, contextlib.ExitStack() as clients:
            for number in range(PRODUCERS):
                if number % 10 == 0:
                    client = clients.enter_context(Client(broker.url))
                    refused = client.ask(producer(number, LARGE))
                    assert isinstance(refused, pb.CommandError)
                    assert "the metadata of the producer has 4000001 bytes" in refused.message
                    assert "16384 are allowed" in refused.message
                taken = client.ask(producer(number, ALLOWED))
                assert isinstance(taken, pb.CommandProducerSuccess)
        probe.check()


def test_subscriptions_with_large_properties_take_little_memory(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY_BYTES)) as broker:
        with Probe(broker) as probe, Client(broker.url) as client:
            for number in range(SUBSCRIPTIONS):
                if number % 10 == 0:
                    refused = client.ask(subscribe(number, LARGE))
                    assert isinstance(refused, pb.CommandError)
                    assert "has 4000001 bytes, and 16384 are allowed" in refused.message
                taken = client.ask(subscribe(number, ALLOWED))
                assert isinstance(taken, pb.CommandSuccess)
        probe.check()
