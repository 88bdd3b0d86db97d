"""Delayed messages by the hundred thousand, on many subscriptions, which are all due at once.

Each is remembered by each subscription that has a consumer, 50 bytes of it, and so is limited by
nothing but what a producer may publish. Nobody waits for those who look them all up.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.asker import LONG
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from hostile.raw_peer import RawPeer
from support.broker_process import BrokerProcess

from magnetar.protocol import (
    CommandFlow,
    CommandMessage,
    CommandSend,
    CommandSendReceipt,
    MessageMetadata,
    encode_entry,
)

TOPIC = "persistent://public/default/later"
MESSAGES = 200_000 if LONG else 10_000
SUBSCRIPTIONS = 10 if LONG else 3
AT_ONCE = 500
DELAY_MS = 60_000 if LONG else 8000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY_BYTES)) as broker:
        yield broker


def entry(deliver_at_ms: int) -> bytes:
    metadata = MessageMetadata("later", 1, 1000)
    metadata.deliver_at_time = deliver_at_ms
    return encode_entry(metadata.encode(), b"x")


def publish(peer: RawPeer, first: int, data: bytes) -> None:
    for number in range(first, first + AT_ONCE):
        peer.say(CommandSend(1, number, data))
    for _ in range(AT_ONCE):
        peer.expect(CommandSendReceipt)


def test_all_of_them_come_due_in_the_same_moment(broker: BrokerProcess) -> None:
    with RawPeer(broker.url) as owner, RawPeer(broker.url) as reader:
        owner.producer(1, TOPIC)
        for number in range(SUBSCRIPTIONS):
            reader.subscribe(number, TOPIC, f"s{number}")
            reader.say(CommandFlow(number, 1000))
        with Probe(broker) as probe:
            due = entry(int(time.time() * 1000) + DELAY_MS)
            for first in range(0, MESSAGES, AT_ONCE):
                publish(owner, first, due)
            left = SUBSCRIPTIONS * 1000
            while left:
                reader.expect(CommandMessage)
                left -= 1
        probe.check()


def test_times_that_are_shuffled_and_far_away(broker: BrokerProcess) -> None:
    year_ms = 365 * 86_400_000
    with RawPeer(broker.url) as owner, RawPeer(broker.url) as reader:
        owner.producer(1, TOPIC)
        for number in range(SUBSCRIPTIONS):
            reader.subscribe(number, TOPIC, f"s{number}")
            reader.say(CommandFlow(number, 1000))
        with Probe(broker) as probe:
            now_ms = int(time.time() * 1000)
            for first in range(0, MESSAGES, AT_ONCE):
                # Ever earlier ones: each is the next that is due.
                publish(owner, first, entry(now_ms + year_ms - first * 1000))
            owner.say(CommandSend(1, MESSAGES, entry(0)))
            owner.expect(CommandSendReceipt)
            for _ in range(SUBSCRIPTIONS):
                reader.expect(CommandMessage)
        probe.check()
