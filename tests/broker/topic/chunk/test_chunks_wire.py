"""Messages in chunks as the wire names them: the last of a topic, acks by an id, seeks."""

import pytest
from support.wire_client import (
    EARLIEST_ID,
    Earliest,
    Exclusive,
    Failover,
    KeyShared,
    Shared,
    WireConsumer,
    WireProducer,
    refused,
)
from support.world import FULL, World

from magnetar.model import Position, ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import pulsar_pb2 as pb

TYPES = (Exclusive, Shared, Failover, KeyShared)


def whole(chunks: list[MessageIdData]) -> MessageIdData:
    """The id of a message in chunks, as clients write it."""
    last = chunks[-1]
    return MessageIdData(last.ledger_id, last.entry_id, -1, -1, None, 0, chunks[0])


def backlog(world: World) -> int:
    return world.subscription("t", "sub").cursor.unacked_entries()


# ---- The last message of a topic ---------------------------------------------------------


def test_the_last_message_in_chunks_is_named_by_its_first_chunk_too(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    one, two = client.producer("t"), client.producer("t")
    one.send("before")
    chunks: list[MessageIdData] = []
    for number in range(3):
        two.send_chunk("v", number, 4, "y")
        chunks.append(one.send_chunk("u", number, 3, "x"))
    assert consumer.last_message_id() == whole(chunks)
    end = two.send_chunk("v", 3, 4, "y")
    assert consumer.last_message_id().entry_id == end.entry_id


@pytest.mark.parametrize("count", [1, 2, 30])
def test_chunks_whose_message_is_not_finished_are_not_the_last_message(
    world: World, count: int
) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    producer, late = client.producer("t"), client.producer("t")
    producer.send_chunk("u", 0, count + 1, "x")
    assert consumer.last_message_id() == MessageIdData(-1, -1)
    batch = late.send("a", "b")
    expected = MessageIdData(batch.ledger_id, batch.entry_id, -1, 1)
    for number in range(1, count):
        producer.send_chunk("u", number, count + 1, "x")
        assert consumer.last_message_id() == expected
    end = producer.send_chunk("u", count, count + 1, "x")
    assert consumer.last_message_id().entry_id == end.entry_id


def test_the_end_of_a_message_whose_beginning_is_gone_is_not_the_last_message() -> None:
    world = World(ledger_entries_max=2)
    client = world.connect()
    consumer = client.subscribe("t", "sub", Shared)
    chunks = client.producer("t").send_chunks("u", "a", "b", "c")
    consumer.acked(*chunks[:2])
    world.trim("t")
    assert consumer.last_message_id() == MessageIdData(-1, -1)
    world.close()


def test_a_marker_is_not_the_last_message(world: World) -> None:
    client = world.connect()
    consumer = client.subscribe("t", "sub")
    producer = client.producer("t")
    id = producer.send("a")
    producer.send("", marker_type=22)
    assert consumer.last_message_id() == MessageIdData(id.ledger_id, id.entry_id)


@pytest.mark.parametrize("ledger_entries_max", [2, 1000])
def test_the_last_message_in_chunks_is_found_after_a_restart(ledger_entries_max: int) -> None:
    world = World(cache_bytes=0, ledger_entries_max=ledger_entries_max)
    producer = world.connect().producer("t")
    producer.send("before")
    chunks = producer.send_chunks("u", *"abcde")
    producer.sequence_id += 1
    producer.send_chunk("v", 0, 2, "x")
    world.restart()
    consumer = world.connect().subscribe("t", "sub")
    assert consumer.last_message_id() == whole(chunks)
    world.hold_reads()  # it is known by now
    assert consumer.last_message_id() == whole(chunks)
    world.close()


# ---- Acks by the id of a message in chunks -----------------------------------------------


def filled(world: World) -> tuple[WireProducer, list[MessageIdData]]:
    """A message in four chunks, and a plain one before, between and behind them."""
    producer = world.connect().producer("t")
    producer.send("before")
    chunks = []
    for number in range(4):
        chunks.append(producer.send_chunk("u", number, 4, f"{number}"))
        if number == 1:
            world.connect().producer("t").send("between")
    producer.sequence_id += 1
    producer.send("behind")
    return producer, chunks


@pytest.mark.parametrize("restarts", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize("type", TYPES)
def test_an_ack_that_names_the_first_chunk_acks_all_of_them(type: int, restarts: bool) -> None:
    world = World(cache_bytes=0)
    world.connect().subscribe("t", "sub", type).close()
    _, chunks = filled(world)
    if restarts:
        world.restart()
    consumer = world.connect().subscribe("t", "sub", type)
    consumer.acked(whole(chunks))
    assert backlog(world) == 3
    world.crash()
    again = world.connect().subscribe("t", "sub", type)
    assert sorted(again.receive()) == ["before", "behind", "between"]
    world.close()


def test_who_holds_the_chunks_lets_go_of_them_when_another_acks_the_message(world: World) -> None:
    client = world.connect()
    holder = client.subscribe("t", "sub", Shared)
    holder.flow(100)
    other = world.connect().subscribe("t", "sub", Shared)
    _, chunks = filled(world)
    assert holder.stats().unackedMessages == 7
    other.acked(whole(chunks))
    assert holder.stats().unackedMessages == 3
    holder.redeliver()
    holder.deliveries()
    assert backlog(world) == 3


def test_an_ack_of_one_chunk_is_an_ack_of_that_entry(world: World) -> None:
    consumer = world.connect().subscribe("t", "sub", Shared)
    _, chunks = filled(world)
    consumer.acked(chunks[3])
    assert backlog(world) == 6


def test_a_first_chunk_that_does_not_fit_does_no_harm(world: World) -> None:
    """Brokers have always passed over it."""
    consumer = world.connect().subscribe("t", "sub", Shared)
    producer, chunks = filled(world)
    single = producer.send("single")
    consumer.acked(MessageIdData(single.ledger_id, single.entry_id, -1, -1, None, 0, chunks[0]))
    assert backlog(world) == 7
    with refused(ServerError.NotAllowedError, "9000"):
        consumer.acked(MessageIdData(single.ledger_id, 9000, -1, -1, None, 0, chunks[0]))
    assert backlog(world) == 7


def test_a_redelivery_waits_for_an_ack_whose_chunks_are_looked_for() -> None:
    world, consumer, chunks = searching()
    request_id = consumer.ask_ack(whole(chunks))
    consumer.redeliver()
    close = consumer.client.ask(pb.CommandCloseConsumer(consumer_id=consumer.id))
    assert consumer.receipt(request_id) is None
    assert consumer.client.answer(close) is None
    world.release_reads()
    assert consumer.receipt(request_id) is not None
    assert consumer.client.answer(close) is not None
    assert backlog(world) == 3
    world.close()


def test_an_ack_whose_chunks_are_looked_for_acks_nothing_after_a_reset() -> None:
    """An operator asked for all of it again while the broker read where the chunks are."""
    world, consumer, chunks = searching()
    request_id = consumer.ask_ack(whole(chunks))
    promise = world.subscription("t", "sub").reset(Position(chunks[0].ledger_id, 0))
    world.done(promise)
    world.release_reads()
    receipt = consumer.receipt(request_id)
    assert receipt is not None
    assert receipt.error == ServerError.ServiceNotReady
    assert sorted(back(consumer, Shared)) == ["0", "1", "2", "3", "before", "behind", "between"]
    world.close()


def test_an_ack_whose_chunks_cannot_be_read_is_refused_and_changes_nothing() -> None:
    world, consumer, chunks = searching()
    world.host.read_error = FULL
    request_id = consumer.ask_ack(whole(chunks))
    world.release_reads()
    receipt = consumer.receipt(request_id)
    assert receipt is not None
    assert receipt.error == ServerError.PersistenceError
    assert backlog(world) == 7
    world.close()


def searching() -> tuple[World, WireConsumer, list[MessageIdData]]:
    """A broker that must read to know which entries are chunks, and cannot for now."""
    world = World(cache_bytes=0)
    world.connect().subscribe("t", "sub", Shared).close()
    _, chunks = filled(world)
    world.restart()
    consumer = world.connect().subscribe("t", "sub", Shared)
    world.hold_reads()
    return world, consumer, chunks


# ---- Seeks -------------------------------------------------------------------------------


def back(consumer: WireConsumer, type: int) -> list[str]:
    """What the consumer gets when it has come back, as its client would."""
    assert consumer.closed_by_broker()
    return consumer.client.subscribe("t", "sub", type, consumer_id=consumer.id).receive()


@pytest.mark.parametrize("restarts", [False, True], ids=["", "after a restart"])
@pytest.mark.parametrize("number", [0, 1, 2, 3])
@pytest.mark.parametrize("type", TYPES)
def test_a_seek_to_any_chunk_brings_the_whole_message_and_what_stands_behind_the_place(
    type: int, number: int, restarts: bool
) -> None:
    world = World(cache_bytes=0, ledger_entries_max=3)
    world.connect().subscribe("t", "sub", type).close()
    _, chunks = filled(world)
    if restarts:
        world.restart()
    consumer = world.connect().subscribe("t", "sub", type)
    consumer.seek(chunks[number])
    between = ["between"] if number < 2 else []
    assert back(consumer, type) == ["0", "1", *between, "2", "3", "behind"]
    assert backlog(world) == 5 + len(between)
    world.crash()
    again = world.connect().subscribe("t", "sub", type)
    assert again.receive() == ["0", "1", *between, "2", "3", "behind"]
    world.close()


@pytest.mark.parametrize("type", TYPES)
def test_a_seek_behind_a_message_loses_none_that_ends_later(world: World, type: int) -> None:
    consumer = world.connect().subscribe("t", "sub", type)
    one, two = world.connect().producer("t"), world.connect().producer("t")
    one.send_chunk("u", 0, 2, "u0")
    two.send_chunk("v", 0, 2, "v0")
    plain = world.connect().producer("t").send("plain")
    end = one.send_chunk("u", 1, 2, "u1")
    batch = world.connect().producer("t").send("a", "b", "c")
    two.send_chunk("v", 1, 2, "v1")
    consumer.seek(MessageIdData(end.ledger_id, end.entry_id + 1))
    assert back(consumer, type) == ["v0", "a", "b", "c", "v1"]
    consumer.seek(MessageIdData(batch.ledger_id, batch.entry_id, -1, 2, None, 3))
    assert back(consumer, type) == ["v0", "c", "v1"]
    consumer.seek(MessageIdData(plain.ledger_id, plain.entry_id + 1))
    assert back(consumer, type) == ["u0", "v0", "u1", "a", "b", "c", "v1"]
    consumer.seek(MessageIdData(end.ledger_id, 99))
    assert back(consumer, type) == []
    assert backlog(world) == 0


def test_a_seek_brings_no_message_back_for_a_copy_of_its_end(world: World) -> None:
    """The producer sent its last chunk again: the message had ended in front of the place."""
    consumer = world.connect().subscribe("t", "sub", Shared)
    one = world.connect().producer("t")
    one.send_chunk("u", 0, 2, "u0")
    one.send_chunk("u", 1, 2, "u1")
    place = world.connect().producer("t").send("plain")
    one.send_chunk("u", 1, 2, "u1 again")
    consumer.seek(place)
    assert back(consumer, Shared) == ["plain", "u1 again"]
    assert backlog(world) == 2


def test_a_seek_brings_no_chunks_back_that_come_to_nothing(world: World) -> None:
    consumer = world.connect().subscribe("t", "sub", Shared)
    one = world.connect().producer("t")
    one.send_chunk("u", 0, 2, "orphan")
    one.sequence_id += 1
    place = one.send("plain")
    consumer.seek(place)
    assert back(consumer, Shared) == ["plain"]
    assert backlog(world) == 1


def test_no_ack_is_taken_while_the_place_of_a_seek_is_looked_for() -> None:
    world, consumer, chunks = searching()
    seek = consumer.client.ask(consumer.seek_command(chunks[3]))
    with refused(ServerError.ServiceNotReady, "being reset"):
        consumer.acked(chunks[0])
    with refused(ServerError.ServiceNotReady, "being reset"):
        consumer.acked(whole(chunks))
    with refused(ServerError.ServiceNotReady, "being reset"):
        consumer.seek(EARLIEST_ID)
    world.release_reads()
    assert isinstance(consumer.client.answer(seek), pb.CommandSuccess)
    assert back(consumer, Shared)[:2] == ["0", "1"]
    world.close()


@pytest.mark.parametrize("how", ["unread", "unloaded"])
def test_a_seek_whose_place_is_not_found_is_refused_and_nothing_moves(how: str) -> None:
    world, consumer, chunks = searching()
    seek = consumer.client.ask(consumer.seek_command(chunks[3]))
    if how == "unread":
        world.host.read_error = FULL
    else:
        world.broker.unload(world.topic("t").name)
    world.release_reads()
    answer = consumer.client.answer(seek)
    assert isinstance(answer, pb.CommandError)
    world.host.read_error = None
    client = world.connect()
    assert len(client.subscribe("t", "sub", Shared).receive()) == 7
    world.close()


def test_a_seek_spares_a_message_that_ends_many_chunks_behind_the_place(world: World) -> None:
    """Seed 9100463: its producer was slow, and another one sent hundreds of chunks meanwhile."""
    slow, busy = world.connect().producer("t"), world.connect().producer("t")
    first = slow.send_chunk("slow", 0, 2, "a")
    place = busy.send("place")
    for number in range(200):
        busy.send_chunks(f"busy-{number}", "x", "y")
    slow.send_chunk("slow", 1, 2, "b")
    consumer = world.connect().subscribe("t", "sub", Exclusive, initialPosition=Earliest)
    consumer.seek(place)
    cursor = world.subscription("t", "sub").cursor
    assert not cursor.is_acked(Position(first.ledger_id, first.entry_id))
