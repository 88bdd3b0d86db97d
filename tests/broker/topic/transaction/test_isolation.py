"""Nobody sees anything of an open transaction, or of one that aborted (I11)."""

from collections.abc import Iterator

import pytest
from support.wire_client import (
    LATEST_ID,
    Earliest,
    Exclusive,
    Failover,
    KeyShared,
    Latest,
    Shared,
    WireConsumer,
)
from support.wire_transaction import ABORT, COMMIT, WireTransaction
from support.world import ENDS, World

from magnetar.model import Position
from magnetar.storage import Retention

TYPES = (Exclusive, Shared, Failover, KeyShared)


@pytest.fixture
def world() -> Iterator[World]:
    world = World(transactions=True)
    yield world
    world.close()


def counts(world: World, name: str = "s") -> tuple[int, int]:
    cursor = world.subscription("t", name).cursor
    cursor.check()
    return cursor.unacked_entries(), cursor.unacked_messages()


def acked_all(consumer: WireConsumer, permits: int = 100) -> list[str]:
    """What a consumer is given, and acknowledges."""
    consumer.flow(permits)
    found = consumer.deliveries()
    for delivery in found:
        consumer.acked(delivery)
    return [text for delivery in found for text in delivery.payloads.values()]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("commit", [True, False])
def test_nothing_at_the_first_open_entry_or_behind_is_seen(
    world: World, type: int, commit: bool
) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", type)
    producer.send("before")
    txn = WireTransaction(client)
    txn.send(producer, "inside 1")
    producer.send("between")
    txn.send(producer, "inside 2", "inside 3")
    producer.send("behind")
    assert consumer.receive() == ["before"]
    assert counts(world) == (1, 1)
    assert consumer.last_message_id().entry_id == 0
    if commit:
        txn.commit()
        assert consumer.payloads() == ["inside 1", "between", "inside 2", "inside 3", "behind"]
        assert counts(world) == (5, 6)
    else:
        txn.abort()
        assert consumer.payloads() == ["between", "behind"]
        assert counts(world) == (3, 3)
    assert consumer.last_message_id().entry_id == 4


def test_a_transaction_hides_what_another_one_committed_behind_it(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    first, second = WireTransaction(client), WireTransaction(client)
    first.send(producer, "first")
    second.send(producer, "second")
    second.commit()
    assert consumer.receive() == []
    first.abort()
    assert consumer.payloads() == ["second"]
    assert counts(world) == (1, 1)


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("commit", [True, False])
def test_the_end_of_a_transaction_does_not_show_what_another_one_stores_in_the_same_write(
    world: World, how: str, commit: bool
) -> None:
    client = world.connect()
    client.subscribe("t", "s", Shared)
    producer = client.producer("t")
    first = WireTransaction(client)
    first.send(producer, "a")
    world.end(how)
    client = world.connect()
    consumer, producer = client.subscribe("t", "s", Shared), client.producer("t")
    consumer.flow(100)
    second = WireTransaction(client)
    world.hold_disk()
    client.ask(first.end_command(COMMIT if commit else ABORT))
    with second.within(producer):
        producer.publish("b")
    world.release_disk()
    assert consumer.payloads() == (["a"] if commit else [])
    second.commit()
    assert consumer.payloads() == ["b"]


@pytest.mark.parametrize("how", ENDS)
def test_aborted_entries_stay_void_for_every_cursor(world: World, how: str) -> None:
    client = world.connect()
    producer = client.producer("t")
    old = client.subscribe("t", "old", Shared)
    txn, hidden = WireTransaction(client), WireTransaction(client)
    for i in range(5):
        txn.send(producer, f"void {i}", f"void {i}b")
        producer.send(f"kept {i}")
    hidden.send(producer, "hidden")
    txn.abort()
    wanted = [f"kept {i}" for i in range(5)]
    assert old.receive() == wanted
    world.end(how)
    client = world.connect()
    assert client.subscribe("t", "old", Shared).receive() == wanted
    new = client.subscribe("t", "new", Exclusive, initialPosition=Earliest)
    assert new.receive() == wanted
    assert counts(world, "new") == counts(world, "old") == (5, 5)
    new.seek(LATEST_ID)
    (new,) = [client.subscribe("t", "new", Exclusive)]
    assert new.receive() == []
    new.seek(0)
    new = client.subscribe("t", "new", Exclusive)
    assert new.receive() == wanted
    assert counts(world, "new") == (5, 5)
    hidden.abort(client)
    assert new.last_message_id().entry_id == 9


def test_ledgers_of_which_everything_is_acked_or_void_are_trimmed(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    txn = WireTransaction(client)
    txn.send(producer, "void")
    producer.send("acked")
    txn.send(producer, "void")
    txn.abort()
    assert acked_all(consumer) == ["acked"]
    assert counts(world) == (0, 0)
    world.trim("t")
    world.topic("t").storage.trim(Retention(time_ms=0, size_bytes=0))
    world.settle()
    assert world.topic("t").storage.size_bytes() == 0
    assert not world.topic("t").ledgers.has_voids


def test_a_reader_and_who_asks_for_the_last_message_wait_for_the_end(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    reader = client.subscribe("t", "r", Exclusive, durable=False, initialPosition=Earliest)
    txn = WireTransaction(client)
    txn.send(producer, "a")
    assert reader.last_message_id().entry_id == -1
    assert reader.receive() == []
    txn.commit()
    assert reader.payloads() == ["a"]
    assert reader.last_message_id().entry_id == 0


def test_who_subscribes_at_the_end_sees_what_is_committed_later(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    producer.send("old")
    txn = WireTransaction(client)
    txn.send(producer, "a")
    consumer = client.subscribe("t", "s", Shared, initialPosition=Latest)
    assert consumer.receive() == []
    txn.commit()
    assert consumer.payloads() == ["a"]


@pytest.mark.parametrize("how", ENDS)
def test_entries_over_several_ledgers_are_shown_or_void(how: str) -> None:
    world = World(transactions=True, ledger_entries_max=3)
    client = world.connect()
    producer = client.producer("t")
    client.subscribe("t", "s", Shared)
    good, bad = WireTransaction(client), WireTransaction(client)
    for i in range(10):
        good.send(producer, f"good {i}")
        bad.send(producer, f"bad {i}")
    assert len(world.store.ledgers(world.topic("t").id)) > 5
    bad.abort()
    world.end(how)
    client = world.connect()
    consumer = client.subscribe("t", "s", Shared)
    assert consumer.receive() == []
    good.commit(client)
    assert acked_all(consumer, 0) == [f"good {i}" for i in range(10)]
    assert counts(world) == (0, 0)
    world.close()


def test_chunks_in_a_transaction_are_delivered_whole_or_not_at_all(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    good, bad = WireTransaction(client), WireTransaction(client)
    with bad.within(producer):
        producer.send_chunks("bad", "1", "2", "3")
    with good.within(producer):
        producer.send_chunks("good", "4", "5", "6")
    assert consumer.receive() == []
    good.commit()
    bad.abort()
    assert consumer.payloads() == ["4", "5", "6"]
    assert consumer.last_message_id().entry_id == 5
    assert counts(world)[0] == 3


def test_a_chunked_message_at_the_end_that_aborted_is_not_the_last_message(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    producer.send("a")
    bad = WireTransaction(client)
    with bad.within(producer):
        producer.send_chunks("bad", "1", "2")
    bad.abort()
    assert consumer.last_message_id().entry_id == 0


def test_a_delayed_message_in_a_transaction_waits_for_both(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    txn = WireTransaction(client)
    txn.send(producer, "late", deliver_at_time=world.host.now_ms() + 5000)
    assert consumer.receive() == []
    txn.commit()
    assert consumer.payloads() == []
    world.advance(5001)
    assert consumer.payloads() == ["late"]


@pytest.mark.parametrize("how", ENDS)
def test_deduplication_knows_what_an_open_transaction_hides(how: str) -> None:
    world = World(transactions=True)
    world.set_policy("deduplicationEnabled", True)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    txn = WireTransaction(client)
    txn.send(producer, "a", sequence_id=1)
    producer.send("b", sequence_id=2)
    world.end(how)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    assert producer.success.last_sequence_id == 2
    assert producer.send("b", sequence_id=2).entry_id == -1
    txn.commit(client)
    consumer = client.subscribe("t", "s", Shared, initialPosition=Earliest)
    assert consumer.receive() == ["a", "b"]
    world.close()


def test_deduplication_counts_what_was_aborted(world: World) -> None:
    """As in Apache Pulsar: whoever does it again gives his messages new numbers."""
    world.set_policy("deduplicationEnabled", True)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    txn, again = WireTransaction(client), WireTransaction(client)
    txn.send(producer, "a", sequence_id=1)
    txn.abort()
    assert again.send(producer, "a", sequence_id=1).entry_id == -1  # type: ignore[attr-defined]
    again.send(producer, "a again", sequence_id=2)
    again.commit()
    consumer = client.subscribe("t", "s", Shared, initialPosition=Earliest)
    assert consumer.receive() == ["a again"]


def test_a_topic_that_is_deleted_takes_its_part_of_the_transaction_along(world: World) -> None:
    client = world.connect()
    gone, kept = client.producer("gone"), client.producer("t")
    txn, other = WireTransaction(client), WireTransaction(client)
    for one in (txn, other):
        one.send(gone, "a")
        one.send(kept, "b")
    world.delete("gone", force=True)
    txn.commit()
    other.abort()
    consumer = client.subscribe("t", "s", Shared, initialPosition=Earliest)
    assert consumer.receive() == ["b"]
    world.crash()
    assert world.connect().subscribe("t", "s", Shared).receive() == ["b"]


def test_a_subscription_may_be_reset_beside_an_open_transaction(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    first = producer.send("a")
    txn = WireTransaction(client)
    txn.send(producer, "b")
    consumer = client.subscribe("t", "s", Exclusive, initialPosition=Earliest)
    assert consumer.receive() == ["a"]
    consumer.seek(LATEST_ID)
    assert world.subscription("t", "s").cursor.mark_delete == Position(first.ledger_id, 0)
    consumer = client.subscribe("t", "s", Exclusive)
    txn.commit()
    assert consumer.receive() == ["b"]


def test_a_terminated_topic_still_shows_what_is_committed(world: World) -> None:
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", "s", Shared)
    txn = WireTransaction(client)
    txn.send(producer, "a")
    world.topic("t").terminate()
    world.settle()
    txn.commit()
    assert consumer.receive() == ["a"]
