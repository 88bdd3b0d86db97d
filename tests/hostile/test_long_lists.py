"""Commands as long as frames can be: lists of ids that are given back, acked, or made up.

And what such a list, or one consumer that holds a lot, sets going: entries that change hands.
"""

from pathlib import Path

import pytest
from hostile.asker import LONG
from hostile.attacker import Attacker
from hostile.limited import limited
from hostile.probe import MEMORY_BYTES, Probe
from support.broker_process import BrokerProcess

from magnetar.model import ConsumerType
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAck, CommandFlow, CommandMessage, CommandSend, encode_entry
from magnetar.protocol import pulsar_pb2 as pb

# The most that a consumer may hold by default is 50,000.
HELD = 40_000 if LONG else 4_000
# And the most fields that a command may have are 250,000, three for each id.
LISTED = 80_000
ROUNDS = 5 if LONG else 2
TOPIC = "persistent://public/default/lists"


def subscribe(id: int, type: ConsumerType) -> pb.CommandSubscribe:
    return pb.CommandSubscribe(
        topic=TOPIC,
        subscription="s",
        subType=type.value,
        consumer_id=id,
        request_id=id,
        initialPosition=1,
    )


def fill(attacker: Attacker) -> None:
    """So many messages, each with a key of its own."""
    attacker.shout([pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=99)])
    attacker.read_answers(1)
    attacker.answers.clear()
    for first in range(0, HELD, 1000):
        attacker.shout([send(number) for number in range(first, first + 1000)])
        attacker.read_answers(1000)
        attacker.answers.clear()


def send(number: int) -> CommandSend:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=number, publish_time=1, partition_key=f"key {number}"
    )
    return CommandSend(1, number, encode_entry(metadata.SerializeToString(), b"x"))


def hold(attacker: Attacker, id: int) -> list[MessageIdData]:
    attacker.shout([CommandFlow(id, HELD)])
    answers = attacker.read_answers(HELD)
    ids = [one.message_id for one in answers if isinstance(one, CommandMessage)]
    assert len(ids) == HELD
    attacker.answers.clear()
    return ids


def redeliver(id: int, ids: list[MessageIdData]) -> pb.CommandRedeliverUnacknowledgedMessages:
    named = [pb.MessageIdData(ledgerId=one.ledger_id, entryId=one.entry_id) for one in ids]
    return pb.CommandRedeliverUnacknowledgedMessages(consumer_id=id, message_ids=named)


@pytest.mark.parametrize("type", [ConsumerType.Shared, ConsumerType.KeyShared])
def test_a_consumer_that_holds_much_gives_back_what_it_names(
    tmp_path: Path, type: ConsumerType
) -> None:
    command = limited(memory_bytes=MEMORY_BYTES)
    with (
        BrokerProcess(tmp_path, command=command) as broker,
        Probe(broker) as probe,
        Attacker(broker.url) as attacker,
        Attacker(broker.url) as other,
    ):
        attacker.shout([subscribe(1, type)])
        attacker.read_answers(1)
        attacker.answers.clear()
        fill(attacker)
        for number in range(ROUNDS):
            ids = hold(attacker, 1)
            listed = [*ids[::-1], *ids][:LISTED]
            attacker.shout([redeliver(1, listed)])
            # A consumer comes and goes, and all keys may be another's.
            other.shout([subscribe(number, type)])
            other.shout([pb.CommandCloseConsumer(consumer_id=number, request_id=100 + number)])
            other.read_answers(2)
            other.answers.clear()
        ids = hold(attacker, 1)
        attacker.shout([CommandAck(1, 0, ids[::-1], 7)])
        (answer,) = attacker.read_answers(1)
        assert answer.request_id == 7
        assert answer.error is None
    probe.check()


def test_lists_that_are_made_up(tmp_path: Path) -> None:
    ids = [MessageIdData(10**15, number) for number in range(LISTED)]
    ranges = pb.KeySharedMeta(keySharedMode=1)
    ranges.hashRanges.extend([pb.IntRange(start=1, end=1)] * LISTED)
    sticky = subscribe(3, ConsumerType.KeyShared)
    sticky.keySharedMeta.CopyFrom(ranges)
    told = subscribe(4, ConsumerType.Shared)
    told.metadata.extend([pb.KeyValue(key="", value="")] * LISTED)
    withdrawn = pb.CommandWithdrawn(consumer_id=1, request_id=1)
    withdrawn.given_back.extend(redeliver(1, ids).message_ids)
    command = limited(memory_bytes=MEMORY_BYTES)
    with (
        BrokerProcess(tmp_path, command=command) as broker,
        Probe(broker) as probe,
        Attacker(broker.url) as attacker,
    ):
        attacker.shout([subscribe(1, ConsumerType.Shared)])
        attacker.read_answers(1)
        attacker.answers.clear()
        for _ in range(ROUNDS):
            attacker.shout([redeliver(1, ids), CommandAck(1, 0, ids, 7), withdrawn, sticky, told])
            answers = attacker.read_answers(3)
            assert {one.request_id for one in answers} == {7, 3, 4}
            assert all(one.error for one in answers), answers
            attacker.answers.clear()
    probe.check()
