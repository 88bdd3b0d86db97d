"""What acks may cost: memory of partly acked batches, and work in one go."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from support.holder import again
from support.wire_client import (
    Earliest,
    Exclusive,
    Shared,
    WireConsumer,
    but,
    refused,
)
from support.world import FULL, World

from magnetar.ack.record import record_bytes
from magnetar.broker.session import session as session_states
from magnetar.broker.session.session import ACK_BYTES_ALL_MAX, ACK_BYTES_MAX
from magnetar.broker.topic.ack.ack_budget import FREE_BYTES
from magnetar.broker.topic.ack.long_ack import (
    PIECE_IDS,
    PIECE_RECORD_BYTES,
    WRITTEN_BYTES_MAX,
)
from magnetar.broker.topic.persistent_topic import PersistentTopic
from magnetar.broker.topic.skip.skip import skip_messages
from magnetar.errors import AckSizeError, BrokerError
from magnetar.model import ServerError
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import CommandAckResponse, encode
from magnetar.wire.ack_set import BATCH_SIZE_MAX

LARGE = record_bytes(BATCH_SIZE_MAX)
THOUSAND = record_bytes(1000)
# What it takes on the disk to ack a part of the largest batch, at least.
WRITTEN = BATCH_SIZE_MAX // 8


def store(world: World, entries: int, batch_size: int) -> list[MessageIdData]:
    """Entries that count as batches of so many, without the bytes of their messages."""
    world.connect().producer("t")
    topic = world.topic("t")
    assert isinstance(topic, PersistentTopic)
    ids: list[MessageIdData] = []
    for _ in range(entries):
        position = world.store.append(topic.id, b"entry", batch_size=batch_size, publish_time_ms=1)
        topic.wait_for(world.store.ticket_last).when_done(
            lambda error, position=position: topic.have_stored(position, batch_size, 5),  # type: ignore[misc]
        )
        ids.append(MessageIdData(position.ledger_id, position.entry_id))
    world.host.kick()
    world.settle()
    return ids


def consumer_of(world: World, type: int = Shared, name: str = "sub") -> WireConsumer:
    return world.connect().subscribe("t", name, type, initialPosition=Earliest)


def partly(ids: list[MessageIdData]) -> list[MessageIdData]:
    """Acks of index 0, in as few bytes as it takes: only bit 1 of each is left."""
    return [MessageIdData(id.ledger_id, id.entry_id, -1, -1, 0b10) for id in ids]


def used(world: World) -> int:
    budget = world.broker.ack_budget
    assert budget.coming == 0, "nothing is on its way"
    total = 0
    for topic in world.broker.topics.values():
        for subscription in topic.subscriptions.values():
            subscription.cursor.check()
            assert subscription.share.used == subscription.cursor.record_bytes()
            total += subscription.share.used
    assert budget.used == total
    return total


@contextmanager
def nothing_changes(world: World) -> Iterator[None]:
    before = used(world)
    backlog = world.subscription("t", "sub").cursor.unacked_messages()
    yield
    assert used(world) == before
    assert world.subscription("t", "sub").cursor.unacked_messages() == backlog


# ---- Memory ----------------------------------------------------------------------


def test_what_partly_acked_batches_take_is_counted_until_they_are_acked(world: World) -> None:
    ids = store(world, 10, 1000)
    consumer = consumer_of(world)
    consumer.acked(*partly(ids))
    assert used(world) == 10 * THOUSAND
    consumer.acked(*partly(ids))
    consumer.acked(but(ids[3], 1000, 7))
    assert used(world) == 10 * THOUSAND
    consumer.acked(*ids[:4])
    assert used(world) == 6 * THOUSAND
    world.restart()
    assert used(world) == 0, "no topic is loaded"
    consumer = consumer_of(world)
    assert used(world) == 6 * THOUSAND
    consumer.seek(ids[0])
    assert used(world) == 0


def test_a_subscription_that_goes_gives_back_what_it_took(world: World) -> None:
    ids = store(world, 4, 1000)
    keeper = consumer_of(world, name="keeper")
    keeper.acked(*partly(ids))
    durable = consumer_of(world)
    reader = consumer_of(world, Exclusive, "reader")
    for consumer in (durable, reader):
        consumer.acked(*partly(ids))
    assert used(world) == 12 * THOUSAND
    durable.unsubscribe()
    reader.unsubscribe()
    assert used(world) == 4 * THOUSAND
    world.unload("t")
    assert world.broker.ack_budget.used == 0


def test_one_ack_of_a_few_kilobytes_does_not_make_gigabytes(world: World) -> None:
    ids = store(world, 1000, BATCH_SIZE_MAX)
    consumer = consumer_of(world)
    with nothing_changes(world), refused(ServerError.NotAllowedError, "name fewer at once"):
        consumer.acked(*partly(ids))
    for first in range(0, 100, 25):
        consumer.acked(*partly(ids[first : first + 25]))
    assert used(world) == 100 * LARGE
    consumer.acked(*ids)
    assert again(world) == []


@pytest.mark.once
def test_a_hundred_thousand_partly_acked_batches_of_a_thousand_work() -> None:
    world = World(segment_bytes=64 << 20)
    ids = store(world, 100_000, 1000)
    consumer = consumer_of(world)
    for first in range(0, len(ids), 20_000):
        consumer.acked(*partly(ids[first : first + 20_000]))
    assert used(world) == 100_000 * THOUSAND


def test_the_limit_of_a_subscription_refuses_new_parts_and_nothing_else() -> None:
    world = World(max_ack_state_bytes_per_subscription=10 * THOUSAND)
    ids = store(world, 20, 1000)
    consumer, other = consumer_of(world), consumer_of(world, name="other")
    consumer.acked(*partly(ids[:10]))
    with nothing_changes(world), refused(ServerError.TooManyRequests, "subscription 'sub'"):
        consumer.acked(*partly(ids[9:11]))
    consumer.acked(but(ids[2], 1000, 5))
    consumer.acked(ids[12])
    other.acked(*partly(ids[:10]))
    consumer.acked(ids[0])
    consumer.acked(*partly(ids[10:11]))
    assert world.broker.ack_budget.refused == 1
    (warning,) = world.host.warnings
    assert "acks are refused" in warning


def test_the_limit_of_the_broker_counts_all_subscriptions_and_what_is_on_its_way() -> None:
    world = World(max_ack_state_bytes=10 * THOUSAND)
    ids = store(world, 20, 1000)
    first, second = consumer_of(world), consumer_of(world, name="other")
    world.hold_disk()
    request = first.ask_ack(*partly(ids[:6]))
    with refused(ServerError.TooManyRequests, "of this broker"):
        second.acked(*partly(ids[:6]))
    second.ask_ack(*partly(ids[:4]))
    world.release_disk()
    assert first.receipt(request) is not None
    assert used(world) == 10 * THOUSAND
    with refused(ServerError.TooManyRequests):
        second.acked(*partly(ids[4:5]))
    first.unsubscribe()
    second.acked(*partly(ids[4:10]))


def test_a_write_that_fails_gives_back_what_it_had_reserved(world: World) -> None:
    ids = store(world, 20, 1000)
    consumer = consumer_of(world)
    world.hold_disk()
    request = consumer.ask_ack(*partly(ids))
    assert world.broker.ack_budget.coming == 20 * THOUSAND
    world.fail_disk(FULL)
    receipt = consumer.receipt(request)
    assert receipt is not None
    assert receipt.error == ServerError.PersistenceError
    assert used(world) == 0


def test_limits_of_zero_are_none() -> None:
    world = World(
        max_ack_state_bytes=0,
        max_ack_state_bytes_per_subscription=0,
        max_ack_state_bytes_per_request=0,
        segment_bytes=64 << 20,
    )
    ids = store(world, 250, BATCH_SIZE_MAX)
    consumer_of(world).acked(*partly(ids))
    assert used(world) == 250 * LARGE > 32 << 20


# ---- Skips -----------------------------------------------------------------------


def test_a_skip_beyond_the_limits_is_refused_and_changes_nothing() -> None:
    world = World(
        max_ack_state_bytes_per_request=10 * LARGE, max_ack_state_bytes_per_subscription=15 * LARGE
    )
    ids = store(world, 20, BATCH_SIZE_MAX)
    consumer_of(world)
    indexes = [MessageIdData(id.ledger_id, id.entry_id, -1, 5) for id in ids]
    with nothing_changes(world), pytest.raises(AckSizeError, match="name fewer at once"):
        world.done(skip_messages([world.topic("t")], "sub", indexes))
    world.done(skip_messages([world.topic("t")], "sub", indexes[:10]))
    assert used(world) == 10 * LARGE
    with nothing_changes(world), pytest.raises(BrokerError, match="subscription 'sub'") as error:
        world.done(skip_messages([world.topic("t")], "sub", indexes[10:]))
    assert error.value.code == ServerError.TooManyRequests
    world.done(skip_messages([world.topic("t")], "sub", ids))
    assert used(world) == 0


def test_a_skip_that_is_not_written_gives_back_what_it_had_reserved(world: World) -> None:
    ids = store(world, 2, 1000)
    consumer_of(world)
    world.hold_disk()
    skip = skip_messages([world.topic("t")], "sub", [MessageIdData(ids[0].ledger_id, 0, -1, 5)])
    assert world.broker.ack_budget.coming == THOUSAND
    world.fail_disk(FULL)
    assert skip.error is not None
    assert used(world) == 0


# ---- Work ------------------------------------------------------------------------


@pytest.mark.parametrize("type", [Shared, Exclusive])
def test_a_long_ack_is_written_as_one_and_answered_once(world: World, type: int) -> None:
    ids = store(world, 3 * PIECE_IDS + 1, 1)
    consumer = consumer_of(world, type)
    cursor = world.subscription("t", "sub").cursor
    world.hold_disk()
    request = consumer.ask_ack(*ids)
    assert (consumer.receipt(request), cursor.unacked_entries()) == (None, 3 * PIECE_IDS + 1)
    world.write_once()
    assert cursor.unacked_entries() == 0
    assert consumer.receipt(request) is not None
    world.crash()
    assert again(world, type) == []


def test_a_long_ack_with_one_wrong_id_acks_nothing(world: World) -> None:
    ids = store(world, 2 * PIECE_IDS, 1)
    consumer = consumer_of(world)
    wrong = MessageIdData(ids[0].ledger_id, 10**6)
    with nothing_changes(world), refused(ServerError.NotAllowedError, "no entry"):
        consumer.acked(*ids, wrong)


def test_what_waits_for_acks_waits_for_a_long_one(world: World) -> None:
    world.connect().producer("t").send("a")
    ids = store(world, 2 * PIECE_IDS, 1)
    consumer = consumer_of(world)
    request = consumer.ask_ack(*ids)
    consumer.close()
    assert consumer.receipt(request) is not None
    assert world.subscription("t", "sub").cursor.unacked_entries() == 1


def test_a_long_ack_that_the_disk_does_not_take_acks_nothing(world: World) -> None:
    ids = store(world, 2 * PIECE_IDS, 1)
    consumer = consumer_of(world)
    world.hold_disk()
    request = consumer.ask_ack(*ids)
    world.fail_disk(FULL)
    receipt = consumer.receipt(request)
    assert receipt is not None
    assert receipt.error == ServerError.PersistenceError
    assert world.subscription("t", "sub").cursor.unacked_entries() == 2 * PIECE_IDS
    world.fail_disk(None)
    world.hold_disk()
    request = consumer.ask_ack(*ids)
    world.release_disk()
    assert consumer.receipt(request) is not None
    assert world.subscription("t", "sub").cursor.unacked_entries() == 0


def test_a_long_ack_meets_a_reset_and_an_unload(world: World) -> None:
    ids = store(world, 2 * PIECE_IDS, 1)
    consumer = consumer_of(world)
    world.hold_disk()
    moved = world.subscription("t", "sub").reset(world.topic("t").storage.position_at(0))
    request = consumer.ask_ack(*ids)
    world.release_disk()
    assert moved.done
    receipt = consumer.receipt(request)
    assert receipt is not None
    assert receipt.error == ServerError.ServiceNotReady
    consumer = consumer_of(world)
    world.hold_disk()
    request = consumer.ask_ack(*ids)
    world.broker.unload(world.topic("t").name)
    world.release_disk()
    receipt = consumer.receipt(request)
    assert receipt is not None
    assert receipt.error is None


def test_few_acks_of_large_batches_are_pieces_too(world: World) -> None:
    count = 2 * (PIECE_RECORD_BYTES // LARGE) + 3
    ids = store(world, count, BATCH_SIZE_MAX)
    consumer = consumer_of(world)
    consumer.acked(*partly(ids))
    assert used(world) == count * LARGE
    assert world.subscription("t", "sub").cursor.partial_entries() == count


def input_of(consumer: WireConsumer) -> int:
    return consumer.client.session._input


def test_little_of_one_peers_acks_is_on_its_way_to_the_disk_at_once() -> None:
    """A few kilobytes of acks stand for as many bitsets of 128 KiB, and others wait behind them."""
    world = World(max_ack_state_bytes_per_subscription=0, max_ack_state_bytes=0)
    count = 3 * ACK_BYTES_MAX // WRITTEN
    ids = store(world, count, BATCH_SIZE_MAX)
    consumer = consumer_of(world)
    session = consumer.client.session
    world.hold_disk()
    said = b""
    for number, one in enumerate(partly(ids)):
        said += encode(consumer.ack_command((one,), request_id=number))
    session.receive(said)
    world.settle()
    assert input_of(consumer) == session_states.FULL
    assert session.ack_bytes < ACK_BYTES_MAX + 2 * WRITTEN
    world.release_disk()
    answers = consumer.client.take(CommandAckResponse)
    assert [answer.request_id for answer in answers] == list(range(count))
    assert {answer.error for answer in answers} == {None}
    assert session.ack_bytes == 0
    assert input_of(consumer) == session_states.OPEN
    world.close()


def test_a_long_ack_on_a_reader_is_carried_out_in_memory(world: World) -> None:
    ids = store(world, 2 * PIECE_IDS, 1)
    consumer = world.connect().subscribe(
        "t", "sub", Exclusive, initialPosition=Earliest, durable=False
    )
    consumer.acked(*ids)
    assert world.subscription("t", "sub").cursor.unacked_entries() == 0


def test_a_long_ack_of_what_is_acked_already_is_answered(world: World) -> None:
    ids = store(world, 2 * PIECE_IDS, 1)
    consumer = consumer_of(world)
    consumer.acked(*ids)
    consumer.acked(*ids)


def test_a_long_ack_beyond_the_limit_of_its_subscription_acks_nothing() -> None:
    world = World(max_ack_state_bytes_per_subscription=10 * LARGE)
    ids = store(world, 20, BATCH_SIZE_MAX)
    consumer = consumer_of(world)
    with nothing_changes(world), refused(ServerError.TooManyRequests, "subscription 'sub'"):
        consumer.acked(*partly(ids))
    consumer.acked(*partly(ids[:10]))


def test_a_long_ack_is_told_when_its_topic_is_unloaded_before_it_is_planned(world: World) -> None:
    ids = store(world, 2 * PIECE_IDS, 1)
    consumer = consumer_of(world)
    subscription = world.subscription("t", "sub")
    (holder,) = subscription.consumers
    subscription.ack(holder, consumer.ack_command(tuple(ids), request_id=55))
    world.unload("t")
    receipt = consumer.receipt(55)
    assert receipt is not None
    assert receipt.error == ServerError.ServiceNotReady


# ---- What is given back ------------------------------------------------------------


def test_large_records_that_end_together_are_freed_in_pieces(world: World) -> None:
    ids = store(world, 100, BATCH_SIZE_MAX)
    consumer = consumer_of(world)
    for first in range(0, 100, 25):
        consumer.acked(*partly(ids[first : first + 25]))
    subscription = world.subscription("t", "sub")
    budget = world.broker.ack_budget
    delta = subscription.cursor.plan_acks(ids, 0)
    before = len(world.host.soon)
    assert subscription.apply_acks(delta)
    assert used(world) == 0
    assert len(budget.discarded) == 100, "nothing is freed in the event that ends them"
    left: list[int] = []
    while len(world.host.soon) > before:
        world.host.soon.pop()()
        left.append(len(budget.discarded))
    piece = FREE_BYTES // LARGE + 1
    assert left == [*range(100 - piece, 0, -piece), 0], "a few in each"


@pytest.mark.parametrize("end", ["unsubscribe", "unload", "seek"])
def test_records_of_a_cursor_that_ends_are_freed_in_pieces_too(world: World, end: str) -> None:
    ids = store(world, 40, BATCH_SIZE_MAX)
    consumer = consumer_of(world)
    consumer.acked(*partly(ids[:20]))
    consumer.acked(*partly(ids[20:]))
    budget = world.broker.ack_budget
    most = 0
    call_soon = world.host.call_soon

    def watch(callback: Callable[[], None]) -> None:
        nonlocal most
        most = max(most, len(budget.discarded))
        call_soon(callback)

    world.host.call_soon = watch  # type: ignore[method-assign]
    if end == "unsubscribe":
        consumer.unsubscribe()
    elif end == "unload":
        world.unload("t")
    else:
        consumer.seek(ids[0])
    assert most >= 40
    assert budget.discarded == []


def test_an_ack_that_would_take_much_of_the_disk_at_once_is_refused(world: World) -> None:
    """Others would wait for its one group, whatever it may take of memory."""
    count = WRITTEN_BYTES_MAX // WRITTEN + 1
    ids = store(world, count, BATCH_SIZE_MAX)
    consumer = consumer_of(world)
    with nothing_changes(world), refused(ServerError.NotAllowedError, "name fewer at once"):
        consumer.acked(*partly(ids))
    assert consumer.client.session.ack_bytes == 0
    assert world.broker.ack_budget.writing == 0
    consumer.acked(*partly(ids[:-2]))
    assert used(world) == (count - 2) * LARGE


def test_long_acks_of_one_peer_are_written_one_after_the_other(world: World) -> None:
    ids = store(world, 60, BATCH_SIZE_MAX)
    consumer = consumer_of(world)
    session = consumer.client.session
    world.hold_disk()
    said = b""
    for first in range(0, len(ids), 20):
        some = tuple(partly(ids[first : first + 20]))
        said += encode(consumer.ack_command(some, request_id=first))
    session.receive(said)
    world.settle()
    assert input_of(consumer) == session_states.FULL
    assert session.ack_bytes == world.broker.ack_budget.writing
    assert 20 * WRITTEN < session.ack_bytes < 21 * WRITTEN
    world.release_disk()
    answers = consumer.client.take(CommandAckResponse)
    assert [(answer.request_id, answer.error) for answer in answers] == [
        (0, None),
        (20, None),
        (40, None),
    ]
    assert world.broker.ack_budget.writing == 0
    assert used(world) == 60 * LARGE


def test_of_many_peers_each_has_one_ack_on_its_way_when_there_is_much(world: World) -> None:
    peers = 2 * ACK_BYTES_ALL_MAX // WRITTEN
    ids = store(world, 2 * peers, BATCH_SIZE_MAX)
    consumers = [consumer_of(world) for _ in range(peers)]
    world.hold_disk()
    for number, consumer in enumerate(consumers):
        said = b""
        for one in partly(ids[2 * number : 2 * number + 2]):
            said += encode(consumer.ack_command((one,), request_id=int(one.entry_id)))
        consumer.client.session.receive(said)
        world.settle()
    held = [int(consumer.client.session.ack_bytes) // WRITTEN for consumer in consumers]
    assert held[0] == 2, "while there was little"
    assert held[-1] == 1
    world.release_disk()
    assert used(world) == 2 * peers * LARGE
    assert world.broker.ack_budget.writing == 0
