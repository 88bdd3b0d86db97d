"""What producers, transactions and operators may do to a topic that is compacted.

Whoever reads the view and then the topic must know as much as before: no value is lost, and none
comes back that a later one had replaced.
"""

from typing import Any

import pytest
from support.compacted import (
    Keyed,
    begin,
    compact,
    folded,
    reader,
    received,
    send,
    send_batch,
    send_bytes,
    taken,
    values,
)
from support.wire_client import Earliest, Exclusive, WireConsumer, WireProducer, refused
from support.wire_transaction import WireTransaction
from support.world import ENDS, FULL, World

import magnetar
from magnetar.broker.topic.compaction.topic_compaction import CompactionStatus
from magnetar.errors import BrokerError
from magnetar.model import Position, ServerError
from magnetar.model.enums import CompressionType
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import (
    CommandSend,
    CommandSendReceipt,
    SingleMessage,
    encode_batch,
    encode_entry,
    split_entry,
)
from magnetar.protocol.payload.compression import compress
from magnetar.storage import Retention
from magnetar.wire.writer import BytesWriter, put_bytes_field, put_int_field

# Fields of an entry's metadata, as tags: a property, the indexes that a compaction left, and one
# that no Pulsar has yet.
PROPERTIES = 0x22
INDEXES = 0xF8
FROM_TOMORROW = 0x9F2
COMPACTED: dict[str, Any] = {"read_compacted": True, "initialPosition": Earliest}


def whole(world: World) -> list[str]:
    client = world.connect()
    found = values(received(reader(client)))
    client.drop()
    return found


# ---- Transactions ------------------------------------------------------------------


def test_what_is_in_an_open_transaction_is_in_no_view_until_it_ends() -> None:
    world = World(transactions=True)
    client = world.connect()
    producer = client.producer("t")
    send(producer, "a", "1")
    send(producer, "b", "1")
    aborted, committed = WireTransaction(client), WireTransaction(client)
    aborted.send(producer, "2", partition_key="a")
    committed.send(producer, "2", partition_key="b")
    send(producer, "a", "beside")
    compact(world)
    view = world.topic("t").compaction.view
    assert view is not None
    assert view.facts.through.entry_id == 1
    assert whole(world) == ["1", "1"]
    aborted.abort()
    compact(world)
    assert whole(world) == ["1", "1"]
    committed.commit()
    for how in ("", *ENDS):
        if how:
            world.end(how)
        compact(world)
        assert whole(world) == ["2", "beside"]


@pytest.mark.parametrize("how", ["unload", "crash"])
def test_an_abort_brings_back_what_the_view_has_and_nothing_older(how: str) -> None:
    """What was acked in the transaction comes again; of its batch only what is left."""
    world = World(transactions=True)
    client = world.connect()
    producer = client.producer("t")
    send_batch(producer, ("a", "old"), ("b", "1"), ("c", "1"))
    send(producer, "d", "1")
    send(producer, "a", "new")
    compact(world)
    consumer = client.subscribe("t", "s", Exclusive, **COMPACTED)
    first = received(consumer)
    assert values(first) == ["1", "1", "1", "new"]
    txn = WireTransaction(client)
    for message in (first[0], first[2]):
        txn.acked(consumer, MessageIdData(*message.place[:2]))
    if how == "crash":
        txn.abort()
        world.end(how)
        assert whole(world) == ["1", "1", "1", "new"]
        return
    txn.abort()
    assert values(taken(consumer)) == ["1", "1", "1"]


def only_in_view(*keys: str) -> tuple[World, WireConsumer, list[Keyed]]:
    """A durable consumer that has got messages whose ledger is gone; the view has them."""
    world = World(compaction_threshold_bytes=1 << 40)
    client = world.connect()
    producer = client.producer("t")
    send_batch(producer, *[(key, key) for key in keys])
    for key in keys:
        send(producer, key.upper(), key.upper())
    compact(world)
    world.trim("t")
    assert world.topic("t").storage.ledger_ids() == []
    consumer = client.subscribe("t", "s", Exclusive, **COMPACTED)
    return world, consumer, received(consumer)


def again(world: World, how: str) -> list[str]:
    """What comes when the consumer comes anew."""
    world.end(how)
    return values(received(world.connect().subscribe("t", "s", Exclusive, **COMPACTED)))


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("cumulative", [True, False])
def test_what_only_the_view_has_stays_acked_once_it_is(how: str, cumulative: bool) -> None:
    """One by one, in order, or cumulatively, though the ledger that it was published to is gone."""
    world, consumer, found = only_in_view("a", "b")
    assert values(found) == ["a", "b", "A", "B"]
    ids = [MessageIdData(*m.place[:2]) for m in found[1:]]
    if cumulative:
        consumer.acked(ids[1], cumulative=True)
    else:
        world.hold_disk()  # nobody waits for one ack before the next
        for id in ids[:2]:
            consumer.ack(id)
        world.release_disk()
    assert again(world, how) == ["B"]
    assert again(world, how) == ["B"]
    send(world.connect().producer("t"), "a", "new")
    assert again(world, how) == ["B", "new"]


def test_an_ack_that_would_be_forgotten_is_refused() -> None:
    world, consumer, found = only_in_view("a", "b")
    batch, first, second = [MessageIdData(*m.place[:2]) for m in found[1:]]
    with refused(ServerError.NotAllowedError, "acknowledge in order"):
        consumer.acked(first)
    with refused(ServerError.NotAllowedError, "acknowledge in order"):
        consumer.acked(second, batch)
    with refused(ServerError.NotAllowedError, "a part of a batch"):
        consumer.acked(MessageIdData(batch.ledger_id, batch.entry_id, -1, 0, 0b10, 2))
    assert again(world, "unload") == ["a", "b", "A", "B"]
    consumer = world.connect().subscribe("t", "s2", Exclusive, **COMPACTED)
    consumer.flow(10)
    consumer.acked(first, batch)
    consumer.acked(batch)  # acked already
    consumer.acked(MessageIdData(batch.ledger_id, batch.entry_id, -1, 0, 0b10, 2), cumulative=True)
    cursor = world.subscription("t", "s2").cursor
    assert cursor.mark_delete == Position(first.ledger_id, first.entry_id)


def test_a_cumulative_ack_within_a_batch_of_the_view_covers_what_is_in_front_of_it() -> None:
    world, consumer, found = only_in_view("a", "b")
    batch = found[0].place
    consumer.acked(MessageIdData(batch[0], batch[1], -1, 0, 0b10, 2), cumulative=True)
    assert again(world, "crash") == ["a", "b", "A", "B"]


def test_an_ack_that_was_not_written_is_not_counted_on() -> None:
    world, consumer, found = only_in_view("a", "b")
    batch, first, _ = [MessageIdData(*m.place[:2]) for m in found[1:]]
    world.fail_disk(FULL)
    with refused(ServerError.PersistenceError):
        consumer.acked(batch)
    world.fail_disk(None)
    with refused(ServerError.NotAllowedError, "acknowledge in order"):
        consumer.acked(first)
    consumer.acked(batch)
    consumer.acked(first)


# ---- Messages in chunks --------------------------------------------------------------


def test_a_message_that_lacks_a_chunk_takes_no_value_away() -> None:
    """Nobody can put it together, so what was there before is still the last word."""
    world = World()
    client = world.connect()
    producer = client.producer("t")
    send(producer, "a", "whole")
    producer.sequence_id += 1
    producer.send_chunk("u", 0, 3, "1", partition_key="a")
    producer.send_chunk("u", 2, 3, "3", partition_key="a")
    producer.sequence_id += 1
    producer.send_chunk("v", 1, 2, "2", partition_key="a")
    for _ in range(2):
        compact(world)
        assert "whole" in whole(world)
        send(producer, "b", "x")


def test_chunks_that_were_sent_twice_make_their_message_all_the_same() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    send(producer, "a", "before")
    producer.sequence_id += 1
    for number in (0, 1, 1, 0, 1, 2):
        producer.send_chunk("u", number, 3, f"c{number}", partition_key="a")
    compact(world)
    assert whole(world) == ["c0", "c1", "c1", "c0", "c1", "c2"]


# ---- Bytes that are not what they should be -------------------------------------------


def test_a_batch_that_is_damaged_takes_no_value_away() -> None:
    world = World()
    world.broker.pieces.be_small()
    client = world.connect()
    producer = client.producer("t")
    send(producer, "a", "readable")
    singles = [SingleMessage(b"x" * 100, number) for number in range(60)]
    singles[0].partition_key = "a"
    payload = encode_batch(singles)
    payload = payload[: len(payload) // 2] + b"\xff" * 4 + payload[len(payload) // 2 + 4 :]
    send_bytes(
        producer,
        compress(CompressionType.LZ4, payload),
        num_messages_in_batch=60,
        compression=CompressionType.LZ4,
        uncompressed_size=len(payload),
    )
    compact(world)
    view = world.topic("t").compaction.view
    assert view is not None
    assert view.facts.entries == 2
    consumer = reader(client)
    consumer.flow(10)
    first = next(c for c in client.received if consumer._is_mine(c))
    assert split_entry(first.entry).payload() == b"readable"


def send_with(producer: WireProducer, extra: BytesWriter, *messages: tuple[str, str]) -> None:
    """A batch whose metadata has something more at its end."""
    singles = []
    for key, value in messages:
        single = SingleMessage(value.encode(), 0)
        single.partition_key = key
        singles.append(single)
    payload = encode_batch(singles)
    producer.sequence_id += 1
    plain = split_entry(
        producer.entry(payload, producer.sequence_id, num_messages_in_batch=len(messages))
    )
    head = plain.data[plain.body_first + 4 : plain.metadata_end] + extra.getvalue()
    entry = encode_entry(head, payload)
    producer.client.say(CommandSend(producer.id, producer.sequence_id, entry, len(messages)))
    assert producer.client.take(CommandSendReceipt)


@pytest.mark.parametrize("index", [-1, 2, 1 << 30])
def test_indexes_that_a_producer_made_up_harm_nobody(index: int) -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    extra = BytesWriter()
    put_int_field(extra, INDEXES, 1)
    put_int_field(extra, INDEXES, index)
    send_with(producer, extra, ("a", "1"), ("b", "1"))
    send(producer, "c", "1")
    compact(world)
    topic = world.topic("t")
    assert [m.value for m in received(reader(client))][-2:] == ["1", "1"]
    assert world.topic("t") is topic  # nothing was given up


def test_metadata_that_is_no_text_is_kept_as_it_is() -> None:
    """Brokers do not read properties, so a batch is compacted whatever they hold."""
    world = World()
    client = world.connect()
    producer = client.producer("t")
    extra = BytesWriter()
    put_bytes_field(extra, PROPERTIES, b"\x0a\x01\xff\x12\x00")
    put_bytes_field(extra, FROM_TOMORROW, b"new")
    send_with(producer, extra, ("a", "1"), ("b", "1"))
    send(producer, "a", "")
    compact(world)
    consumer = reader(client)
    consumer.flow(10)
    (only,) = [c for c in client.received if consumer._is_mine(c)]
    assert only.ack_set == 0b10
    entry = split_entry(only.entry)
    assert entry.intact()
    assert extra.getvalue() in entry.data[: entry.metadata_end]


# ---- What goes meanwhile --------------------------------------------------------------


def test_what_is_trimmed_just_before_does_not_confuse_it() -> None:
    """The deletion of a ledger is on its way when the first pass would begin."""
    world = World()
    client = world.connect()
    producer = client.producer("t")
    send(producer, "gone", "1")
    topic = world.topic("t")
    world.store.seal_topic(topic.id)
    world.host.kick()
    world.settle()
    for i in range(4):
        send(producer, f"k{i}", "v")
    world.hold_disk()
    topic.storage.trim(Retention())
    begin(world)
    world.settle()
    world.release_disk()
    world.settle()
    assert topic.compaction.status == CompactionStatus.SUCCESS
    assert {"k0", "k1", "k2", "k3"} <= set(folded(received(reader(client))))


def test_passes_that_read_different_things_end_without_a_view() -> None:
    """Nothing may go while it runs. If something does, no view is better than a wrong one."""
    world = World()
    world.broker.pieces.be_small()
    client = world.connect()
    producer = client.producer("t")
    send(producer, "a", "1")
    topic = world.topic("t")
    world.store.seal_topic(topic.id)
    world.host.kick()
    world.settle()
    for i in range(4):
        send(producer, f"k{i}", "v")
    begin(world)
    while topic.compaction._run is None or not topic.compaction._run._pending:
        assert world._step()  # until the first pass has read it
    topic.storage.trim(Retention(), uncompacted=True)
    assert world._write()
    world.settle()
    assert topic.compaction.status == CompactionStatus.ERROR
    assert "compact it again" in topic.compaction.error
    compact(world)
    assert set(folded(received(reader(client)))) == {"k0", "k1", "k2", "k3"}


def test_nobody_compacts_what_is_being_emptied() -> None:
    world = World(compaction_threshold_bytes=1)
    client = world.connect()
    producer = client.producer("t")
    send(producer, "a", "1")
    compaction = world.topic("t").compaction
    compaction.hold()
    with pytest.raises(BrokerError, match="is being emptied"):
        compaction.trigger()
    with pytest.raises(BrokerError, match="is being emptied"):
        compaction.hold()
    compaction.check()
    world.settle()
    assert compaction.status == CompactionStatus.NOT_RUN
    compaction.let_go()
    compaction.check()
    world.settle()
    assert compaction.view is not None
    send(producer, "a", "2")
    begin(world)
    with pytest.raises(BrokerError, match="is being compacted"):
        compaction.hold()


@pytest.mark.skipif(magnetar.COMPILED, reason="compiled code cannot be changed")
def test_a_bug_at_the_beginning_of_one_does_not_hold_up_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    client = world.connect()
    for name in ("t", "u"):
        send(client.producer(name), "a", "1")
    world.host.faults = []
    compaction = world.topic("t").compaction
    with monkeypatch.context() as patch:
        patch.setattr(type(compaction), "through", property(lambda self: 1 / 0))
        begin(world)
    assert [type(error) for _, error in world.host.faults] == [ZeroDivisionError]
    assert compaction.status == CompactionStatus.ERROR
    compact(world, "u")
    compact(world)


# ---- Durable cursors of the view --------------------------------------------------------


@pytest.mark.parametrize("how", ENDS)
def test_a_durable_cursor_gets_what_only_the_view_has_after(how: str) -> None:
    world = World(compaction_threshold_bytes=1 << 40)
    client = world.connect()
    producer = client.producer("t")
    for i in range(3):
        send(producer, f"k{i}", "v")
    compact(world)
    world.trim("t")
    assert world.topic("t").storage.ledger_ids() == []
    send(producer, "k0", "new")
    client.subscribe("t", "s", Exclusive, **COMPACTED)
    world.end(how)
    consumer = world.connect().subscribe("t", "s", Exclusive, **COMPACTED)
    assert values(received(consumer)) == ["v", "v", "v", "new"]


def test_holes_in_a_cursor_of_the_view_stay_holes() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    for i in range(6):
        send(producer, f"k{i % 4}", f"v{i}")
    send_batch(producer, ("k0", "b0"), ("k1", "b1"), ("k2", "b2"))
    consumer = client.subscribe("t", "s", Exclusive, **COMPACTED)
    everything = received(consumer)
    consumer.acked(MessageIdData(*everything[1].place[:2]))
    consumer.acked(MessageIdData(*everything[3].place[:2]))
    last = everything[-1].place
    consumer.acked(MessageIdData(last[0], last[1], -1, 0, 0b110, 3))
    for _ in range(2):
        compact(world)
        world.restart()
        consumer = world.connect().subscribe("t", "s", Exclusive, **COMPACTED)
        assert values(received(consumer)) == ["b1", "b2"]
        send(world.connect().producer("u"), "a", "x")


def test_a_cursor_of_the_view_that_was_replaced_hears_nothing_twice() -> None:
    """A reader in the middle of the view goes on in the next one, behind what it had."""
    world = World()
    client = world.connect()
    producer = client.producer("t")
    sent = [send(producer, f"k{i}", f"v{i}") for i in range(6)]
    compact(world)
    consumer = reader(client)
    consumer.flow(3)
    got: list[Keyed] = taken(consumer)
    send(producer, "k1", "new")
    send(producer, "k4", "")
    compact(world)
    got += received(consumer)
    assert values(got) == ["v0", "v1", "v2", "v3", "v5", "new"]
    assert world.topic("t").compaction.through > Position(*sent[-1].place[:2])
