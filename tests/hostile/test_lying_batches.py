"""Producers that lie about their batches, and consumers that ack parts of enormous ones.

| attack                                                  | before                               |
|---------------------------------------------------------|--------------------------------------|
| entries of one byte that claim a million messages each, | 5.7 s, 2 GB, 1.25 GB of disk          |
| and one ACK of 52 KB of a part of each                  |                                      |
| the same with honest batches that are well compressed   | the same                             |
| a batch of two that says it has three                   | the official client's process dies   |

The broker has 256 MB.
"""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

from hostile.limited import limited
from hostile.probe import Probe
from hostile.raw_peer import RawPeer
from support.broker_process import BrokerProcess

import magnetar
from magnetar.model import CompressionType, ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    CommandAck,
    CommandAckResponse,
    CommandSend,
    CommandSendReceipt,
    MessageMetadata,
    SingleMessage,
    compress,
    encode_batch,
    encode_entry,
)
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.wire.ack_set import BATCH_SIZE_MAX

MEMORY = 256 << 20
TOPIC = "persistent://public/default/lies"
PEERS = 8
# Parts of enormous batches in one ACK: 3 MiB on the disk.
AT_ONCE = 25
# Acks of parts of enormous batches make much of little. Three things in their wake had others wait
# for up to 216 ms now and then: all that was acked was queued for the disk ahead of everybody, the
# snapshot of the cursor was too, and when its segment was to go, that snapshot was read on the
# loop's thread and queued once more.
#
# What 20 bytes of an ACK can have written is bounded by what a subscription may take of memory:
# 64 MiB, which is 58 MiB on the disk as bitsets. They are written once as they are acked, and once
# more as the snapshot of the cursor that is due then: 116 MiB, which touch up to three segments of
# 64 MiB. Files are made in whole segments, and counted as such here. One more is made ahead, to
# spare, and another takes its place when it is used: 320 MiB. What is dead is given back later.
DISK_GROWTH_MAX = 5 * (64 << 20)
ENTRIES = 4000 if os.environ.get("MAGNETAR_HOSTILE_LONG") else 1000


def entry(payload: bytes, count: int, *, unpacked: int = 0) -> bytes:
    metadata = MessageMetadata("liar", 1, 1000)
    metadata.num_messages_in_batch = count
    if unpacked:
        metadata.compression = int(CompressionType.ZSTD)
        metadata.uncompressed_size = unpacked
    return encode_entry(metadata.encode(), payload)


def disk_bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def test_entries_of_a_byte_that_claim_a_million_messages_are_refused(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY)) as broker:
        with Probe(broker) as probe, RawPeer(broker.url) as peer:
            peer.producer(1, TOPIC)
            lie = entry(b"x", BATCH_SIZE_MAX)
            for i in range(ENTRIES):
                peer.say(CommandSend(1, i, lie))
            errors = [peer.expect(pb.CommandSendError) for _ in range(ENTRIES)]
            assert [error.sequence_id for error in errors] == list(range(ENTRIES))
            assert {error.error for error in errors} == {ServerError.NotAllowedError}
        probe.check()


def test_one_ack_of_parts_of_enormous_batches_costs_what_the_limits_say(tmp_path: Path) -> None:
    """The batches are honest: six bytes for each message, of which compression leaves nothing."""
    payload = b"\x00\x00\x00\x02\x18\x00" * BATCH_SIZE_MAX
    bomb = entry(compress(CompressionType.ZSTD, payload), BATCH_SIZE_MAX, unpacked=len(payload))
    assert len(bomb) < 1000
    with BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY)) as broker:
        with Probe(broker) as probe, RawPeer(broker.url) as peer:
            peer.producer(1, TOPIC)
            for i in range(ENTRIES):
                peer.say(CommandSend(1, i, bomb))
            receipts = [peer.expect(CommandSendReceipt) for _ in range(ENTRIES)]
            peer.subscribe(2, TOPIC, "sub")
            ids = [receipt.message_id for receipt in receipts]
            parts = [MessageIdData(id.ledger_id, id.entry_id, -1, -1, 2) for id in ids if id]
            before = disk_bytes(tmp_path)
            peer.say(CommandAck(2, 0, parts, 7))
            refusal = peer.expect(CommandAckResponse)
            assert refusal.error == ServerError.NotAllowedError
            assert "name fewer at once" in (refusal.message or "")
            # One by one they are taken, until they take all that they may.
            for i, part in enumerate(parts):
                peer.say(CommandAck(2, 0, [part], 100 + i))
            answers = [peer.expect(CommandAckResponse) for _ in parts]
            kept = [answer for answer in answers if answer.error is None]
            assert 100 < len(kept) < ENTRIES
            others = {answer.error for answer in answers if answer.error is not None}
            assert others == {ServerError.TooManyRequests}
            assert disk_bytes(tmp_path) - before < DISK_GROWTH_MAX
            whole = [MessageIdData(part.ledger_id, part.entry_id) for part in parts]
            peer.say(CommandAck(2, 0, whole, 9))
            assert peer.expect(CommandAckResponse).error is None
        probe.check()


def test_acks_of_parts_by_many_peers_hold_up_nobody(tmp_path: Path) -> None:
    """As many in each ACK as one may have, all at once, by peers that do not wait for answers."""
    payload = b"\x00\x00\x00\x02\x18\x00" * BATCH_SIZE_MAX
    bomb = entry(compress(CompressionType.ZSTD, payload), BATCH_SIZE_MAX, unpacked=len(payload))
    count = 500
    with (
        BrokerProcess(tmp_path, command=limited(memory_bytes=MEMORY)) as broker,
        contextlib.ExitStack() as stack,
    ):
        peers = [stack.enter_context(RawPeer(broker.url)) for _ in range(PEERS)]
        peers[0].producer(1, TOPIC)
        for i in range(count):
            peers[0].say(CommandSend(1, i, bomb))
        receipts = [peers[0].expect(CommandSendReceipt) for _ in range(count)]
        ids = [receipt.message_id for receipt in receipts]
        parts = [MessageIdData(id.ledger_id, id.entry_id, -1, -1, 2) for id in ids if id]
        for number, peer in enumerate(peers):
            peer.subscribe(2, TOPIC, f"sub-{number}")
        with Probe(broker) as probe:
            for peer in peers:
                for first in range(0, count, AT_ONCE):
                    peer.say(CommandAck(2, 0, parts[first : first + AT_ONCE], first))
            answers = [
                peer.expect(CommandAckResponse) for peer in peers for _ in range(count // AT_ONCE)
            ]
        assert {answer.error for answer in answers} == {None, ServerError.TooManyRequests}
        probe.check()


CONSUME = """
import pulsar, sys
client = pulsar.Client(sys.argv[1], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
consumer = client.subscribe(sys.argv[2], "official", pulsar.ConsumerType.Shared)
print("began", flush=True)
for _ in range(int(sys.argv[3])):
    message = consumer.receive(timeout_millis=20_000)
    print(message.data().decode(), flush=True)
    consumer.acknowledge(message)
client.close()
"""


def test_the_official_client_of_every_consumer_survives(tmp_path: Path) -> None:
    """apache/pulsar#6806: a batch that has fewer messages than it says ends its process."""
    with BrokerProcess(tmp_path) as broker, RawPeer(broker.url) as peer:
        command = [sys.executable, "-c", CONSUME, broker.url, TOPIC, "3"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as official:
            assert official.stdout is not None
            assert official.stdout.readline() == "began\n"
            peer.producer(1, TOPIC)
            two = encode_batch([SingleMessage(b"a"), SingleMessage(b"b")])
            peer.say(CommandSend(1, 0, entry(two, 2)))
            peer.expect(CommandSendReceipt)
            packed = compress(CompressionType.ZSTD, two)
            for lie in (
                entry(two, 3),
                entry(two, 100_000),
                entry(packed, 3, unpacked=len(two)),
                entry(b"x", 2**31 - 1),
            ):
                peer.say(CommandSend(1, 1, lie))
                assert peer.expect(pb.CommandSendError).error == ServerError.NotAllowedError
            with magnetar.Client(broker.url) as client:
                client.create_producer(TOPIC).send(b"c")
            assert official.communicate(timeout=60)[0].split() == ["a", "b", "c"]
            assert official.returncode == 0
