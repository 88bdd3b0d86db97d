"""What goes wrong while a topic is compacted, or in what is compacted; and what is large."""

import pytest
from pyroaring import BitMap
from support.compacted import (
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
from support.wire_client import (
    Earliest,
    Exclusive,
)
from support.world import BROKEN, FULL, World

import magnetar
from magnetar.broker.topic.compaction.key_map import KeyMap
from magnetar.broker.topic.compaction.topic_compaction import CompactionStatus
from magnetar.broker.topic.dispatch import single
from magnetar.errors import BrokerError, StorageError
from magnetar.model import TopicName
from magnetar.model.enums import CompressionType
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import SingleMessage, encode_batch, split_entry
from magnetar.protocol.payload.compression import compress
from magnetar.storage.check import check
from magnetar.storage.log.record import HEAD_BYTES, offset_of, segment_of
from magnetar.storage.log.segment import segment_path


@pytest.mark.parametrize("compression", [CompressionType.LZ4, CompressionType.ZLib])
def test_a_batch_that_cannot_be_unpacked_stays_whole(compression: CompressionType) -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    rubbish = b"\xff" * 40
    for size in (9000, 1 << 30):  # one that is damaged, and one that says what cannot be
        send_bytes(
            producer,
            rubbish,
            num_messages_in_batch=2,
            compression=compression,
            uncompressed_size=size,
        )
    send(producer, "a", "1")
    send(producer, "a", "")
    compact(world)
    consumer = reader(client)
    consumer.flow(100)
    kept = [c for c in client.received if consumer._is_mine(c)]
    # Behind what nobody can read the message without a payload is kept as well.
    assert len(kept) == 3
    assert [split_entry(c.entry).payload() for c in kept] == [rubbish, rubbish, b""]


def test_a_batch_that_is_damaged_in_the_middle_stays_whole() -> None:
    world = World()
    world.broker.pieces.be_small()
    client = world.connect()
    producer = client.producer("t")
    batch = encode_batch([SingleMessage(b"x" * 100, i) for i in range(60)])
    damaged = batch[: len(batch) // 2] + b"\xff" * 4 + batch[len(batch) // 2 + 4 :]
    packed = compress(CompressionType.LZ4, damaged)
    send_bytes(
        producer,
        packed,
        num_messages_in_batch=60,
        compression=CompressionType.LZ4,
        uncompressed_size=len(damaged),
    )
    compact(world)
    view = world.topic("t").compaction.view
    assert view is not None
    assert view.facts.messages == 60


def test_large_batches_are_unpacked_a_few_at_a_time() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    for i in range(4):
        text = f"{i}" * (2 << 20)
        send_batch(producer, ("a", text), (f"b{i}", text), compression=CompressionType.ZSTD)
    compact(world)
    found = received(reader(client))
    assert [message.key for message in found] == ["b0", "b1", "b2", "a", "b3"]


def test_a_topic_of_too_many_keys_is_not_compacted() -> None:
    world = World(max_compaction_keys=3)
    producer = world.connect().producer("t")
    for i in range(5):
        send(producer, f"k{i}", "v")
    begin(world)
    world.settle()
    compaction = world.topic("t").compaction
    assert compaction.status == CompactionStatus.ERROR
    assert "more than 3 keys" in compaction.error
    assert [ledger for ledger in world.store.log.state.ledgers.values() if ledger.is_view] == []


def test_what_aborted_is_in_no_view() -> None:
    world = World(transactions=True)
    client = world.connect()
    producer = client.producer("t")
    send(producer, "a", "1")
    topic = world.topic("t")
    last = topic.ledgers.last()
    send(producer, "a", "2")
    topic.ledgers.void(int(last.ledger_id), BitMap([1]))
    compact(world)
    assert values(received(reader(client))) == ["1"]


@pytest.mark.skipif(magnetar.COMPILED, reason="compiled code cannot be changed")
def test_a_bug_in_it_ends_the_compaction_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: object, *_: object) -> None:
        raise ZeroDivisionError

    world = World()
    producer = world.connect().producer("t")
    send(producer, "a", "1")
    world.host.faults = []
    with monkeypatch.context() as patch:
        patch.setattr(KeyMap, "put", wrong)
        begin(world)
        world.settle()
    assert world.topic("t").compaction.status == CompactionStatus.ERROR
    assert [type(error) for _, error in world.host.faults] == [ZeroDivisionError]
    compact(world)


@pytest.mark.parametrize("error", [FULL, BROKEN])
def test_a_group_that_fails_ends_it_wherever_it_is(error: StorageError) -> None:
    for steps in range(2, 60, 3):
        world = World()
        producer = world.connect().producer("t")
        send(producer, "a", "1")
        compact(world)
        send_batch(producer, ("b", "1"), ("a", "2"))
        begin(world)
        for _ in range(steps):
            world._step()
        world._disk_error = error
        world.settle()
        compaction = world.topic("t").compaction
        world._disk_error = None
        assert compaction.status in (CompactionStatus.SUCCESS, CompactionStatus.ERROR)
        world.crash()
        client = world.connect()
        assert folded(received(reader(client))) == {"a": "2", "b": "1"}
        assert len([x for x in world.store.log.state.ledgers.values() if x.is_view]) == 1


def test_a_topic_that_is_unloaded_before_its_turn_is_passed_over() -> None:
    world = World()
    client = world.connect()
    for topic in ("t", "u", "v"):
        send(client.producer(topic), "a", "1")
    for topic in ("t", "u", "v"):
        begin(world, topic)
    world.broker.unload(TopicName.parse("u"))
    world.settle()
    assert world.topic("v").compaction.status == CompactionStatus.SUCCESS
    assert world.topic("u").compaction.status == CompactionStatus.NOT_RUN
    client.producer("non-persistent://public/default/n")
    with pytest.raises(BrokerError, match="not persistent"):
        begin(world, "non-persistent://public/default/n")


def test_a_table_is_read_when_it_is_asked_for_and_again_if_that_fails() -> None:
    world = World()
    producer = world.connect().producer("t")
    for i in range(5):
        send(producer, f"k{i}", f"v{i}")
    compact(world)
    world.restart(cache_bytes=0)
    client = world.connect()
    send(client.producer("t"), "k0", "w0")
    world.host.read_error = BROKEN
    consumer = reader(client)
    consumer.flow(100)
    assert taken(consumer) == []
    assert any("trying again" in text for text in world.host.warnings)
    begin(world)  # which needs the table, too
    world.settle()
    world.host.read_error = None
    world.advance(3000)
    assert folded(taken(consumer)) == {"k0": "w0"} | {f"k{i}": f"v{i}" for i in range(1, 5)}
    assert world.topic("t").compaction.status == CompactionStatus.SUCCESS
    view = world.topic("t").compaction.view
    assert view is not None
    assert view.facts.entries == 5


def test_a_table_that_comes_too_late_is_dropped() -> None:
    world = World()
    producer = world.connect().producer("t")
    send(producer, "a", "1")
    compact(world)
    for late in ("drop", "unload"):
        world.restart(cache_bytes=0)
        compaction = world.topic("t").compaction
        world.host.reads_held = True
        assert compaction.table() is None
        assert compaction.table() is None
        if late == "drop":
            world.done(compaction.drop())
            world.done(compaction.drop())
        else:
            world.unload("t")
        world.release_reads()
        assert compaction._table is None
        if late == "drop":
            compact(world)


def test_a_view_is_not_dropped_while_one_is_made() -> None:
    world = World()
    send(world.connect().producer("t"), "a", "1")
    begin(world)
    with pytest.raises(BrokerError, match="wait for its end"):
        world.topic("t").compaction.drop()
    world.settle()


def test_acked_entries_of_a_view_are_passed_over_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(single, "PASSED_MAX", 3)
    world = World()
    client = world.connect()
    producer = client.producer("t")
    for i in range(12):
        send(producer, f"k{i}", f"v{i}")
    compact(world)
    consumer = client.subscribe("t", "s", Exclusive, read_compacted=True, initialPosition=Earliest)
    consumer.flow(100)
    for delivery in consumer.deliveries()[1:11]:
        consumer.acked(delivery)
    client.drop()
    again = world.connect().subscribe("t", "s", Exclusive, read_compacted=True)
    assert values(received(again)) == ["v0", "v11"]


def test_a_damaged_entry_of_a_view_is_told_of_by_its_place() -> None:
    world = World()
    producer = world.connect().producer("t")
    for i in range(4):
        sent = send(producer, f"k{i}", f"v{i}" * 50)
    compact(world)
    world.restart(cache_bytes=0)
    damage_view(world, 3)
    consumer = reader(world.connect())
    assert values(received(consumer)) == [f"v{i}" * 50 for i in range(3)]
    (warning,) = [text for text in world.host.warnings if "stops at" in text]
    assert f"stops at {sent.place[0]}:{sent.place[1]}" in warning


def test_what_comes_while_it_runs_waits_for_the_next_one() -> None:
    world = World()
    world.broker.pieces.be_small()
    client = world.connect()
    producer = client.producer("t")
    send_batch(producer, *[(f"k{i}", f"v{i}") for i in range(20)])
    begin(world)
    for _ in range(5):
        world._step()
    assert world.topic("t").compaction.busy
    send(producer, "k0", "new")
    view = world.topic("t").compaction.view
    assert view is not None
    assert view.facts.messages == 20
    assert folded(received(reader(client)))["k0"] == "new"


def test_markers_and_chunks_without_a_key() -> None:
    for retain, expected in ((True, ["c1", "c2", "1"]), (False, ["1"])):
        world = World(compaction_retain_null_key=retain)
        client = world.connect()
        producer = client.producer("t")
        producer.send_chunks("u", "c1", "c2")
        send(producer, "a", "1")
        send(producer, "a", "a marker", marker_type=10)
        compact(world)
        assert values(received(reader(client))) == expected


def test_a_seek_to_what_is_there_is_what_it_always_was() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    sent = [send(producer, f"k{i % 3}", f"v{i}") for i in range(6)]
    compact(world)
    send(producer, "k0", "new")
    consumer = client.subscribe("t", "s", Exclusive, read_compacted=True, initialPosition=Earliest)
    consumer.seek(MessageIdData(*sent[4].place[:2]))
    consumer = client.subscribe("t", "s", Exclusive, read_compacted=True)
    assert values(received(consumer)) == ["v4", "v5", "new"]
    assert world.subscription("t", "s").cursor.unacked_entries() == 3


def damage_view(world: World, number: int) -> None:
    """Changes the last byte of an entry of the view, as it lies on the disk."""
    view = world.topic("t").compaction.view
    assert view is not None
    index = world.store.log.state.ledgers[view.ledger_id].index
    address, length = index.address(number), index.length(number)
    at = offset_of(address) + HEAD_BYTES + length - 1
    world.disk.write(segment_path(segment_of(address)), at, b"\xfe", sync=False)


def test_a_damaged_table_is_told_of_and_a_view_that_is_deleted_is_made_anew() -> None:
    world = World()
    client = world.connect()
    client.subscribe("t", "keeps everything", initialPosition=Earliest)
    producer = client.producer("t")
    for i in range(4):
        send(producer, f"k{i % 2}", f"v{i}")
    compact(world)
    world.restart(cache_bytes=0)
    damage_view(world, 2)
    send(world.connect().producer("t"), "k0", "new")
    begin(world)
    world.advance(3000)
    compaction = world.topic("t").compaction
    assert compaction.status == CompactionStatus.ERROR
    assert "delete it" in compaction.error
    world.done(compaction.drop())
    compact(world)
    assert folded(received(reader(world.connect()))) == {"k0": "new", "k1": "v3"}


def test_a_crash_at_any_step_leaves_the_one_view_or_the_other() -> None:
    """Every step of a second compaction, one after the other: events, reads and writes."""
    for steps in range(1000):
        world = World(cache_bytes=0)
        world.broker.pieces.be_small()
        client = world.connect()
        client.subscribe("t", "ordinary", initialPosition=Earliest)
        producer = client.producer("t")
        sent = send_batch(producer, ("a", "1"), ("b", "1"), ("c", "1"))
        sent.append(send(producer, "a", "2"))
        compact(world)
        sent += send_batch(producer, ("b", "2"), ("c", ""), ("d", "1"))
        before = world.topic("t").compaction.view
        begin(world)
        worked = [world._step() for _ in range(steps)]
        world.crash()
        client = world.connect()
        after = world.topic("t").compaction.view
        assert before is not None
        assert after is not None
        assert folded(received(reader(client))) == {"a": "2", "b": "2", "d": "1"}
        assert values(received(client.subscribe("t", "ordinary"))) == values(sent)
        assert len([x for x in world.store.log.state.ledgers.values() if x.is_view]) == 1
        world.disk.close()
        assert check(world.disk) == []
        if worked and not worked[-1]:
            assert after.ledger_id != before.ledger_id
            return
    raise AssertionError("it did not come to its end")
