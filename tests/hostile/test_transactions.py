"""Transactions by the thousand, that never end or end at once, and what is put into them.

| attack                                                      | before                           |
|-------------------------------------------------------------|----------------------------------|
| parts of one large batch, acked one by one in a transaction | as many bits each, never counted |
| thousands whose time is over in the same moment             | all ended in one round           |
| lists of a hundred thousand names                           | 70 ms in one event               |
| an end of a transaction about as many topics as it may be   |                                  |
| an end of a transaction with as many acks as it may have    |                                  |
| ids of others' transactions                                 |                                  |
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.asker import LONG, Asker
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from hostile.raw_peer import RawPeer
from support.broker_process import BrokerProcess
from support.tokens import SECRET_SETTING, token
from support.wire_client import but
from support.wire_transaction import ABORT, COMMIT

from magnetar.model import CompressionType, ServerError
from magnetar.protocol import (
    CommandAck,
    CommandAckResponse,
    CommandFlow,
    CommandMessage,
    CommandSend,
    CommandSendReceipt,
    MessageMetadata,
    compress,
    encode_entry,
)
from magnetar.protocol import pulsar_pb2 as pb

TOPIC = "persistent://public/default/transactions"
# Their bits take 18 KiB, and an ACK of one as many on the wire.
MESSAGES = 1 << 17
PARTS = 5000 if LONG else 200
OPEN = 9000 if LONG else 1000
OPEN_MS = 20_000 if LONG else 5000
NAMES = 100_000 if LONG else 30_000
TOPICS = 450 if LONG else 100
ACKS = 9_000 if LONG else 2000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    command = limited(memory_bytes=MEMORY_BYTES)
    options = ("--set", "transactions=true")
    with BrokerProcess(tmp_path, command=command, options=options) as broker:
        yield broker


def entry() -> bytes:
    metadata = MessageMetadata("hostile", 1, 1000)
    return encode_entry(metadata.encode(), b"x" * 10)


def send(sequence_id: int, number: int, producer: int = 1) -> CommandSend:
    command = CommandSend(producer, sequence_id, entry())
    command.txnid_least_bits, command.txnid_most_bits = number, 0
    return command


def begin(asker: Asker, count: int, timeout_ms: int = 600_000) -> list[int]:
    answers = asker.ask(
        [pb.CommandNewTxn(request_id=n, txn_ttl_millis=timeout_ms, tc_id=0) for n in range(count)]
    )
    assert {type(one) for one in answers} == {pb.CommandNewTxnResponse}
    assert all(not one.HasField("error") for one in answers)
    return [int(one.txnid_least_bits) for one in answers]  # type: ignore[attr-defined]


def end(asker: Asker, number: int, action: int) -> pb.CommandEndTxnResponse:
    (answer,) = asker.ask(
        [
            pb.CommandEndTxn(
                request_id=1, txnid_least_bits=number, txnid_most_bits=0, txn_action=action
            )
        ]
    )
    assert isinstance(answer, pb.CommandEndTxnResponse)
    return answer


def test_parts_of_one_large_batch_acked_one_by_one_are_counted(broker: BrokerProcess) -> None:
    payload = b"\x00\x00\x00\x02\x18\x00" * MESSAGES
    metadata = MessageMetadata("hostile", 1, 1000)
    metadata.num_messages_in_batch = MESSAGES
    metadata.compression = int(CompressionType.ZSTD)
    metadata.uncompressed_size = len(payload)
    bomb = encode_entry(metadata.encode(), compress(CompressionType.ZSTD, payload))
    with Asker(broker.url) as asker, RawPeer(broker.url) as peer:
        (number,) = begin(asker, 1)
        peer.producer(1, TOPIC)
        peer.say(CommandSend(1, 0, bomb, num_messages=MESSAGES))
        id = peer.expect(CommandSendReceipt).message_id
        assert id is not None
        peer.subscribe(2, TOPIC, "s")
        peer.say(CommandAck(2, 0, [but(id, MESSAGES, 0)], 1))
        assert peer.expect(CommandAckResponse).error is None
        with Probe(broker) as probe:
            refused = 0
            for index in range(1, PARTS):
                peer.say(
                    in_transaction(CommandAck(2, 0, [but(id, MESSAGES, index)], index), number)
                )
                answer = peer.expect(CommandAckResponse)
                refused += answer.error == ServerError.TooManyRequests
            assert (refused > 0) == LONG
            assert not end(asker, number, COMMIT).HasField("error")
        probe.check()


def test_thousands_whose_time_is_over_in_the_same_moment(broker: BrokerProcess) -> None:
    with Probe(broker) as probe, Asker(broker.url) as asker, RawPeer(broker.url) as peer:
        peer.producer(1, TOPIC)
        numbers = begin(asker, OPEN, timeout_ms=OPEN_MS)
        for sequence_id, number in enumerate(numbers):
            peer.say(send(sequence_id, number))
        for _ in numbers:
            peer.expect(CommandSendReceipt)
        # Behind all of them, so it is seen when all are over.
        peer.say(CommandSend(1, OPEN, entry()))
        peer.expect(CommandSendReceipt)
        peer.subscribe(2, TOPIC, "s")
        peer.say(CommandFlow(2, 10))
        assert peer.expect(CommandMessage).consumer_id == 2
    probe.check()


def test_lists_of_very_many_names_are_refused(broker: BrokerProcess) -> None:
    with Probe(broker) as probe, Asker(broker.url) as asker:
        (number,) = begin(asker, 1)
        for request_id in range(10):
            (answer,) = asker.ask(
                [
                    pb.CommandAddPartitionToTxn(
                        request_id=request_id,
                        txnid_least_bits=number,
                        partitions=[f"{request_id}-{n}" for n in range(NAMES)],
                    )
                ]
            )
            assert answer.error == ServerError.NotAllowedError  # type: ignore[attr-defined]
    probe.check()


@pytest.mark.parametrize("action", [COMMIT, ABORT])
def test_the_end_of_one_with_many_topics(broker: BrokerProcess, action: int) -> None:
    names = [f"{TOPIC}-{number}" for number in range(TOPICS)]
    with Asker(broker.url) as asker, RawPeer(broker.url) as peer:
        (number,) = begin(asker, 1)
        for id, name in enumerate(names):
            peer.producer(id, name)
            peer.subscribe(id, name, "s")
        for id in range(TOPICS):
            peer.say(CommandFlow(id, 10))
            peer.say(CommandSend(id, 0, entry()))
        acks = [
            in_transaction(CommandAck(one.consumer_id, 0, [one.message_id], n), number)
            for n, one in enumerate(messages(peer, TOPICS))
        ]
        for one in (*acks, *[send(1, number, producer=id) for id in range(TOPICS)]):
            peer.say(one)
        answers(peer, CommandSendReceipt, TOPICS, CommandAckResponse, TOPICS)
        with Probe(broker) as probe:
            assert not end(asker, number, action).HasField("error")
            # What was committed comes, or what was acked comes again.
            assert len(messages(peer, TOPICS)) == TOPICS
        probe.check()


@pytest.mark.parametrize("action", [COMMIT, ABORT])
def test_the_end_of_one_with_many_acks(broker: BrokerProcess, action: int) -> None:
    with Asker(broker.url) as asker, RawPeer(broker.url) as peer:
        (number,) = begin(asker, 1)
        peer.producer(1, TOPIC)
        peer.subscribe(2, TOPIC, "s")
        ids = []
        for sequence_id in range(ACKS):
            peer.say(CommandSend(1, sequence_id, entry()))
            ids.append(peer.expect(CommandSendReceipt).message_id)
        with Probe(broker) as probe:
            for n, id in enumerate(ids):
                assert id is not None
                peer.say(in_transaction(CommandAck(2, 0, [id], n), number))
            for _ in ids:
                assert peer.expect(CommandAckResponse).error is None
            assert not end(asker, number, action).HasField("error")
        probe.check()


def test_nobody_ends_or_uses_the_transactions_of_others(tmp_path: Path) -> None:
    options = ["--set", "transactions=true"]
    for setting in (
        "authentication=true",
        f"token_secret_key={SECRET_SETTING}",
        "super_user_roles=admin",
    ):
        options += ["--set", setting]
    command = limited(memory_bytes=MEMORY_BYTES)
    with (
        BrokerProcess(tmp_path, command=command, options=options) as broker,
        Probe(broker, token=token("admin")) as probe,
        Asker(broker.url, token=token("alice")) as alice,
        Asker(broker.url, token=token("mallory")) as mallory,
    ):
        (number,) = begin(alice, 1)
        for id in range(number - 100, number + 100):
            for action in (COMMIT, ABORT):
                wanted = (
                    ServerError.AuthorizationError
                    if id == number
                    else ServerError.TransactionNotFound
                )
                assert end(mallory, id, action).error == wanted
        assert not end(alice, number, COMMIT).HasField("error")
    probe.check()


def in_transaction(ack: CommandAck, number: int) -> CommandAck:
    ack.txnid_least_bits, ack.txnid_most_bits = number, 0
    return ack


def answers(peer: RawPeer, *kinds_and_counts: object) -> None:
    """Reads so many of each kind, in whatever order they come."""
    left = dict(zip(kinds_and_counts[::2], kinds_and_counts[1::2], strict=True))
    while any(left.values()):
        kind = type(peer.expect(object))
        if kind in left:
            left[kind] -= 1  # type: ignore[operator]


def messages(peer: RawPeer, count: int) -> list[CommandMessage]:
    """Reads until so many messages came."""
    found: list[CommandMessage] = []
    while len(found) < count:
        one = peer.expect(object)
        if isinstance(one, CommandMessage):
            found.append(one)
    return found
