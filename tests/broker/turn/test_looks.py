"""I10: what searches pass without reading it is bounded in each round, for all of them together."""

import pytest
from support.wire_client import Shared, WireConsumer
from support.world import World

from magnetar.broker.topic.last_message import PASSED_MAX
from magnetar.broker.turn.looks import SHARE
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAckResponse, encode
from magnetar.protocol import pulsar_pb2 as pb

LOOKS = 50
ORPHANS = 60


def few_looks(world: World) -> None:
    """From the next round on."""
    world.broker.pieces.looks = SHARE * LOOKS
    world.broker.looks.take()
    world.settle()


def orphans(world: World) -> tuple[WireConsumer, list[MessageIdData]]:
    """Ends of messages in chunks whose beginnings were never sent, and a consumer of them."""
    consumer = world.connect().subscribe("t", "sub", Shared, initialPosition=1)
    producer = world.connect().producer("t")
    first = producer.send("a message")
    ids = [producer.send_chunk(f"u{number}", 1, 2, "x") for number in range(ORPHANS)]
    return consumer, [first, *ids]


def count_rounds(world: World) -> int:
    """How many rounds of the loop it takes until nothing is left to do but to write."""
    count = 0
    while world.host.soon or world.host.reads:
        count += 1
        for line in (world.host.soon, world.host.reads):
            for _ in range(len(line)):
                line.popleft()()
    return count


def test_the_last_message_behind_thousands_of_orphans_is_found_in_rounds(world: World) -> None:
    few_looks(world)
    consumer, ids = orphans(world)
    client = consumer.client
    client.session.receive(encode(pb.CommandGetLastMessageId(consumer_id=1, request_id=99)))
    # For each of them all in front of it are looked at, and that they are not is found out.
    looks = ORPHANS * ORPHANS // 2
    assert client.session.outbox_bytes == 0
    assert count_rounds(world) >= looks // LOOKS - 1
    world.settle()
    answer = client.answer(99)
    assert (answer.last_message_id.ledgerId, answer.last_message_id.entryId) == (
        ids[0].ledger_id,
        ids[0].entry_id,
    )


def test_an_answer_costs_so_many_looks_at_most(world: World) -> None:
    """Then the last entry has to do, as in Apache Pulsar."""
    consumer = world.connect().subscribe("t", "sub", Shared, initialPosition=1)
    producer = world.connect().producer("t")
    producer.send("a message")
    # Of messages whose beginnings are not there each is looked for among all the others.
    for number in range(int((2 * PASSED_MAX) ** 0.5) + 3):
        last = producer.send_chunk(f"u{number}", 1, 2, "x")
    assert consumer.last_message_id().entry_id == last.entry_id


def test_many_searches_share_the_looks_of_a_round_and_all_end(world: World) -> None:
    few_looks(world)
    consumer, _ = orphans(world)
    client, count = consumer.client, 5
    data = [
        encode(pb.CommandGetLastMessageId(consumer_id=1, request_id=100 + number))
        for number in range(count)
    ]
    client.session.receive(b"".join(data))
    looks = count * ORPHANS * ORPHANS // 2
    assert count_rounds(world) >= looks // LOOKS - count
    world.settle()
    answers = [client.answer(100 + number) for number in range(count)]
    assert {answer.last_message_id.entryId for answer in answers} == {0}


def test_an_ack_of_thousands_of_messages_in_chunks_looks_for_them_in_rounds(world: World) -> None:
    few_looks(world)
    consumer, ids = orphans(world)
    named = [MessageIdData(id.ledger_id, id.entry_id, -1, -1, None, 0, ids[0]) for id in ids[1:]]
    client = consumer.client
    client.session.receive(encode(consumer.ack_command(tuple(named), request_id=7)))
    assert count_rounds(world) >= ORPHANS * ORPHANS // 2 // LOOKS - 1
    world.settle()
    (answer,) = client.take(CommandAckResponse)
    assert answer.error is None
    assert world.subscription("t", "sub").cursor.unacked_entries() == 1


@pytest.mark.parametrize("spans", [False, True])
def test_a_seek_passes_thousands_of_batches_in_rounds(world: World, spans: bool) -> None:
    """After a load the index alone says that they are no chunks, one by one."""
    producer, other = world.connect().producer("t"), world.connect().producer("t")
    if spans:
        producer.send_chunk("u", 0, 2, "a")
    for number in range(20 * LOOKS):
        other.send(f"{number}", "b")
    if spans:
        producer.send_chunk("u", 1, 2, "b")
    world.restart()
    few_looks(world)
    consumer = world.connect().subscribe("t", "sub", Shared, initialPosition=1)
    subscription = world.subscription("t", "sub")
    middle = world.topic("t").ledgers.last()
    target = MessageIdData(middle.ledger_id, middle.entry_id - (LOOKS * 10))
    command = consumer.seek_command(target)
    command.request_id = 99
    consumer.client.session.receive(encode(command))
    assert count_rounds(world) >= 9
    world.settle()
    unacked = subscription.cursor.unacked_entries()
    assert unacked == LOOKS * 10 + (2 if spans else 1)
