"""Several attacks at once: each is bounded by itself, and so is what all of them do together."""

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hostile.attacker import Attacker
from hostile.limited import limited
from hostile.probe import Probe
from support.broker_process import BrokerProcess

from magnetar.model import ConsumerType
from magnetar.protocol import pulsar_pb2 as pb

LONG = bool(os.environ.get("MAGNETAR_HOSTILE_LONG"))
ROUNDS = 10 if LONG else 2
NAMESPACE = "public/default"
TOPICS = 300
CONSUMERS = 300
STRANGERS = 100
UNREAD = 40
LIST_BYTES = 4 << 20


def topic(number: int) -> str:
    return f"persistent://{NAMESPACE}/mixed-{number}"


def look_up_patterns(broker: BrokerProcess) -> None:
    with Attacker(broker.url) as attacker:
        attacker.shout(
            pb.CommandGetTopicsOfNamespace(
                request_id=number, namespace=NAMESPACE, topics_pattern=f"{NAMESPACE}/.*{number}"
            )
            for number in range(100)
        )
        attacker.read_answers(100)


def ask_and_never_read(broker: BrokerProcess) -> None:
    with Attacker(broker.url) as attacker:
        attacker.shout(
            pb.CommandGetTopicsOfNamespace(request_id=number, namespace=NAMESPACE)
            for number in range(20_000)
        )


def say_half_of_a_frame(broker: BrokerProcess) -> None:
    half = (60_000).to_bytes(4, "big") + b"\0\0\0\x10" + bytes(30_000)
    with contextlib.ExitStack() as sockets:
        for _ in range(STRANGERS):
            sockets.enter_context(connected(broker.url)).sendall(half)


def leave_metrics_unread(broker: BrokerProcess) -> None:
    with contextlib.ExitStack() as sockets:
        for _ in range(UNREAD):
            reader = sockets.enter_context(connected(broker.http_url))
            reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")


def send_a_long_list(broker: BrokerProcess) -> None:
    path = f"/admin/v2/persistent/{NAMESPACE}/mixed-0/subscription/none/skipByMessageIds"
    body = b"[" + b'"CAUQAiAD",' * (LIST_BYTES // 11) + b'"CAUQAiAD"]'
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with connected(broker.http_url) as sender:
        sender.sendall(head.encode() + body)
        assert sender.recv(12).startswith(b"HTTP/1.1 4")


def crowd_in_and_leave(broker: BrokerProcess) -> None:
    with Attacker(broker.url) as attacker:
        attacker.shout(
            pb.CommandSubscribe(
                topic=topic(number % TOPICS),
                subscription="crowd",
                subType=ConsumerType.Shared,
                consumer_id=number,
                request_id=number,
            )
            for number in range(CONSUMERS)
        )
        attacker.read_answers(CONSUMERS)


def connected(url: str) -> socket.socket:
    there = urlsplit(url)
    return socket.create_connection((there.hostname, there.port), timeout=60)


ATTACKS: tuple[Callable[[BrokerProcess], None], ...] = (
    look_up_patterns,
    ask_and_never_read,
    say_half_of_a_frame,
    leave_metrics_unread,
    send_a_long_list,
    crowd_in_and_leave,
)


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    return BrokerProcess(tmp_path, command=limited(memory_bytes=256 << 20))


def test_all_attacks_at_once_stall_nobody_and_fit_into_the_limit(broker: BrokerProcess) -> None:
    failed: list[Exception] = []

    def repeat(attack: Callable[[BrokerProcess], None]) -> None:
        try:
            for _ in range(ROUNDS):
                attack(broker)
        except Exception as error:
            failed.append(error)

    with broker:
        crowd_in_and_leave(broker)  # which makes the topics
        with Probe(broker) as probe:
            threads = [threading.Thread(target=repeat, args=(attack,)) for attack in ATTACKS]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert failed == []
        probe.check()
