"""Compacting a topic, and reading what is left of it, seen from the wire."""

import pytest
from support.compacted import (
    begin,
    compact,
    folded,
    reader,
    received,
    send,
    send_batch,
    taken,
    values,
)
from support.wire_client import (
    EARLIEST_ID,
    LATEST_ID,
    Earliest,
    Exclusive,
    Failover,
    KeyShared,
    Shared,
    refused,
)
from support.world import BROKEN, FULL, World

from magnetar.broker.topic.compaction.topic_compaction import CompactionStatus
from magnetar.model import ServerError
from magnetar.model.enums import CompressionType
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol.metadata import EncryptionKeys


def test_a_reader_gets_the_last_message_of_each_key_and_then_the_topic() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    for i in range(10):
        send(producer, f"k{i % 3}", f"v{i}")
    compact(world)
    send(producer, "k0", "later")
    send(producer, "k1", "later still")
    found = received(reader(client))
    assert values(found) == ["v7", "v8", "v9", "later", "later still"]
    assert [message.key for message in found] == ["k1", "k2", "k0", "k0", "k1"]


def test_messages_keep_their_ids() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    sent = [send(producer, f"k{i % 4}", f"v{i}") for i in range(9)]
    compact(world)
    assert [message.place for message in received(reader(client))] == [
        message.place for message in sent[5:]
    ]


def test_who_does_not_ask_for_the_view_gets_everything() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    consumer = client.subscribe("t", initialPosition=Earliest)
    for i in range(10):
        send(producer, f"k{i % 3}", f"v{i}")
    compact(world)
    expected = [f"v{i}" for i in range(10)]
    assert consumer.receive() == expected
    assert values(received(reader(client, read_compacted=False))) == expected


def test_a_message_without_payload_takes_its_key_away() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    send(producer, "a", "1")
    send(producer, "b", "1")
    send(producer, "a", "")
    send(producer, "c", "")
    compact(world)
    assert values(received(reader(client))) == ["1"]
    send(producer, "a", "2")
    compact(world)
    assert folded(received(reader(client))) == {"a": "2", "b": "1"}


def test_messages_without_a_key_go_unless_a_setting_keeps_them() -> None:
    for keep, expected in ((False, ["2"]), (True, ["x", "2", "y", "z"])):
        world = World(compaction_retain_null_key=keep)
        client = world.connect()
        producer = client.producer("t")
        send(producer, None, "x")
        send(producer, "a", "1")
        send(producer, "a", "2")
        send_batch(producer, (None, "y"), ("a", ""), (None, "z"))
        send(producer, "a", "2")
        compact(world)
        found = values(received(reader(client)))
        assert found == (["2"] if not keep else ["x", "y", "z", "2"]), (keep, expected)


@pytest.mark.parametrize("compression", list(CompressionType))
def test_batches_are_compacted_message_by_message(compression: CompressionType) -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    sent = send_batch(
        producer, ("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), compression=compression
    )
    sent += send_batch(producer, ("b", "2"), ("d", "1"), compression=compression)
    compact(world)
    found = received(reader(client))
    assert [(m.place, m.value) for m in found] == [
        (sent[i].place, sent[i].value) for i in range(2, 6)
    ]


def test_a_batch_says_which_of_its_messages_are_left() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    send_batch(producer, ("a", "1"), ("b", "1"), ("c", "1"))
    send(producer, "b", "2")
    compact(world)
    consumer = reader(client)
    consumer.flow(10)
    first = consumer.deliveries()[0]
    assert first.metadata.num_messages_in_batch == 3
    assert first.metadata.compacted_batch_indexes == [0, 2]


def test_a_second_compaction_goes_on_from_the_first() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    send_batch(producer, ("a", "1"), ("b", "1"), ("c", "1"))
    send(producer, "d", "1")
    compact(world)
    first = world.topic("t").compaction.view
    send_batch(producer, ("b", "2"), ("e", "1"), ("e", "2"))
    compact(world)
    second = world.topic("t").compaction.view
    assert first is not None
    assert second is not None
    assert first.ledger_id not in world.store.log.state.ledgers
    assert second.facts.messages == 5
    assert values(received(reader(client))) == ["1", "1", "1", "2", "2"]
    assert folded(received(reader(client))) == dict(zip("acdbe", "11122", strict=True))


@pytest.mark.parametrize("how", ["unload", "restart", "crash"])
def test_the_view_is_there_after(how: str) -> None:
    world = World()
    producer = world.connect().producer("t")
    for i in range(50):
        send(producer, f"k{i % 7}", f"v{i}")
    compact(world)
    world.end(how)
    client = world.connect()
    assert world.topic("t").compaction.status == CompactionStatus.SUCCESS
    assert values(received(reader(client))) == [f"v{i}" for i in range(43, 50)]


def test_what_was_trimmed_is_still_in_the_view() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    for i in range(10):
        send(producer, f"k{i % 3}", f"v{i}")
    compact(world)
    world.trim("t")
    assert world.topic("t").ledgers.last().entry_id == -1
    for start in (EARLIEST_ID, None):
        fields = {"start": start} if start else {"start": None, "initialPosition": Earliest}
        assert values(received(reader(client, **fields))) == ["v7", "v8", "v9"]
    assert received(reader(client, start=LATEST_ID)) == []
    world.crash()
    client = world.connect()
    send(client.producer("t"), "k0", "new")
    assert folded(received(reader(client))) == {"k0": "new", "k1": "v7", "k2": "v8"}
    compact(world)
    assert values(received(reader(client))) == ["v7", "v8", "new"]


def test_what_is_not_in_the_view_yet_is_not_trimmed() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    send(producer, "a", "1")
    compact(world)
    send(producer, "b", "1")
    world.trim("t")
    assert values(received(reader(client))) == ["1", "1"]
    compact(world)
    world.trim("t")
    assert world.topic("t").storage.ledger_ids() == []
    assert folded(received(reader(client))) == {"a": "1", "b": "1"}


def test_a_seek_to_the_beginning_begins_with_the_view() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    for i in range(6):
        send(producer, f"k{i % 2}", f"v{i}")
    compact(world)
    world.trim("t")
    send(producer, "k9", "v9")
    consumer = client.subscribe("t", "s", Exclusive, read_compacted=True, initialPosition=Earliest)
    assert values(received(consumer)) == ["v4", "v5", "v9"]
    consumer.acked(MessageIdData(*world.topic("t").ledgers.last().__reduce__()[1]), cumulative=True)
    consumer.seek(EARLIEST_ID)
    consumer = client.subscribe("t", "s", Exclusive, read_compacted=True)
    assert values(received(consumer)) == ["v4", "v5", "v9"]


def test_a_cursor_of_the_view_is_an_ordinary_one() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    for i in range(6):
        send(producer, f"k{i}", f"v{i}")
    send(producer, "k0", "v6")
    compact(world)
    consumer = client.subscribe("t", "s", Failover, read_compacted=True, initialPosition=Earliest)
    consumer.flow(100)
    deliveries = consumer.deliveries()
    assert [d.payloads[0] for d in deliveries] == ["v1", "v2", "v3", "v4", "v5", "v6"]
    consumer.acked(deliveries[2], cumulative=True)
    consumer.acked(deliveries[4])
    world.crash()
    client = world.connect()
    again = client.subscribe("t", "s", Failover, read_compacted=True)
    assert values(received(again)) == ["v4", "v6"]
    assert world.subscription("t", "s").cursor.unacked_entries() == 2


@pytest.mark.parametrize("type", [Shared, KeyShared])
def test_only_one_active_consumer_reads_the_view(type: int) -> None:
    client = World().connect()
    with refused(ServerError.NotAllowedError, "failover or exclusive"):
        client.subscribe("t", "s", type, read_compacted=True)
    with refused(ServerError.NotAllowedError, "persistent"):
        client.subscribe("non-persistent://public/default/n", "s", Exclusive, read_compacted=True)


def place(id: MessageIdData) -> tuple[int, int, int]:
    return int(id.ledger_id), int(id.entry_id), int(id.batch_index)


def test_the_last_message_is_the_last_of_the_view() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    send_batch(producer, ("a", "1"), ("b", "1"), ("c", "1"))
    kept = send_batch(producer, ("a", "2"), ("b", "2"), ("c", ""))
    send(producer, "d", "1")
    send(producer, "d", "")
    compact(world)
    assert place(reader(client).last_message_id()) == kept[1].place
    assert reader(client, read_compacted=False).last_message_id().entry_id == 3
    new = send(producer, "e", "1")
    assert place(reader(client).last_message_id()) == new.place
    for key in "abe":
        send(producer, key, "")
    compact(world)
    assert reader(client).last_message_id().entry_id == -1
    assert received(reader(client)) == []


def test_encrypted_messages_are_compacted_by_the_key_in_their_metadata() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t", encrypted=True)
    secret = {"encryption_keys": [EncryptionKeys("k", b"secret", [])], "uncompressed_size": 3}
    for i in range(4):
        send(producer, f"k{i % 2}", f"v{i}", **secret)
    send(producer, "k0", "0123456789abcdef", **(secret | {"uncompressed_size": 0}))
    compact(world)
    assert values(received(reader(client))) == ["v3"]


def test_encrypted_batches_stay_whole_and_nothing_in_them_comes_back_to_life() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t", encrypted=True)
    send(producer, "a", "0")
    send(producer, "a", "")
    sent = send_batch(
        producer,
        ("a", "1"),
        ("b", "1"),
        ("a", "2"),
        encryption_keys=[EncryptionKeys("k", b"secret", [])],
    )
    send(producer, "a", "")
    send(producer, "b", "3")
    for _ in range(2):
        compact(world)
        found = received(reader(client))
        assert [m.place for m in found[:3]] == [m.place for m in sent]
        assert folded(found) == {"b": "3"}
        send(producer, "b", "3")


def test_messages_in_chunks_are_kept_whole_or_not_at_all() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    producer.send_chunks("u1", "a1", "a2", partition_key="a")
    ids = producer.send_chunks("u2", "b1", "b2", "b3", partition_key="b")
    producer.send_chunks("u3", "a3", "a4", partition_key="a")
    producer.send_chunks("u4", "c1", "c2", partition_key="c")
    send(producer, "c", "whole")
    producer.sequence_id += 1
    producer.send_chunk("u5", 0, 2, "d1", partition_key="d")
    compact(world)
    assert values(received(reader(client))) == ["b1", "b2", "b3", "a3", "a4", "whole", "d1"]
    last = reader(client).last_message_id()
    producer.send_chunk("u5", 1, 2, "d2", partition_key="d")
    send(producer, "a", "")
    compact(world)
    assert values(received(reader(client))) == ["b1", "b2", "b3", "whole", "d1", "d2"]
    assert ids[0].entry_id < last.entry_id < reader(client).last_message_id().entry_id


def test_a_consumer_that_reads_goes_on_when_the_view_is_replaced() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    for i in range(8):
        send(producer, f"k{i}", f"v{i}")
    compact(world)
    consumer = reader(client)
    consumer.flow(3)
    assert values(taken(consumer)) == ["v0", "v1", "v2"]
    for i in range(4, 8):
        send(producer, f"k{i}", f"w{i}")
    compact(world)
    assert values(received(consumer)) == ["v3", "w4", "w5", "w6", "w7"]


def test_a_read_that_is_under_way_when_the_view_is_replaced_counts() -> None:
    world = World(cache_bytes=0)
    client = world.connect()
    producer = client.producer("t")
    for i in range(8):
        send(producer, f"k{i}", f"v{i}")
    compact(world)
    consumer = reader(client)
    world.host.reads_held = True
    consumer.flow(3)
    assert taken(consumer) == []
    held = world.host.reads.popleft()
    world.release_reads()
    send(producer, "k0", "w0")
    compact(world)
    held()
    world.settle()
    consumer.flow(100)
    assert folded(taken(consumer)) == {"k0": "w0"} | {f"k{i}": f"v{i}" for i in range(1, 8)}


def test_compaction_waits_for_its_turn_and_is_refused_while_it_runs() -> None:
    world = World()
    client = world.connect()
    for topic in ("t", "u"):
        send(client.producer(topic), "a", "1")
    begin(world, "t")
    begin(world, "u")
    assert world.topic("u").compaction.status == CompactionStatus.RUNNING
    with pytest.raises(Exception, match="being compacted already"):
        begin(world, "u")
    world.settle()
    for topic in ("t", "u"):
        assert world.topic(topic).compaction.status == CompactionStatus.SUCCESS
        assert values(received(reader(client, topic))) == ["1"]


def test_an_empty_topic_is_soon_compacted() -> None:
    world = World()
    client = world.connect()
    client.producer("t")
    assert world.topic("t").compaction.status == CompactionStatus.NOT_RUN
    compact(world)
    assert world.topic("t").compaction.view is None


@pytest.mark.parametrize("at_topic", [True, False])
def test_a_threshold_compacts(at_topic: bool) -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    world.set_policy("compactionThreshold", 500, topic="t" if at_topic else "")
    send(producer, "a", "x" * 100)
    world.trim("t")  # nothing goes before it was compacted
    world.advance(61_000)
    assert world.topic("t").compaction.view is None
    for _ in range(5):
        send(producer, "a", "y" * 100)
    world.advance(61_000)
    view = world.topic("t").compaction.view
    assert view is not None
    assert view.facts.messages == 1
    world.advance(61_000)
    assert world.topic("t").compaction.view is view
    for _ in range(6):
        send(producer, "b", "z" * 100)
    world.advance(61_000)
    assert folded(received(reader(client))) == {"a": "y" * 100, "b": "z" * 100}
    assert world.topic("t").compaction.view is not view


def test_an_unload_gives_a_compaction_up_and_leaves_nothing_behind() -> None:
    world = World()
    world.broker.pieces.be_small()
    client = world.connect()
    producer = client.producer("t")
    send_batch(producer, *[(f"k{i}", f"v{i}") for i in range(20)])
    topic = world.topic("t")
    begin(world)
    for _ in range(12):
        world._step()
    assert topic.compaction.busy
    world.unload("t")
    assert [ledger for ledger in world.store.log.state.ledgers.values() if ledger.is_view] == []
    assert "unloaded" in topic.compaction.error
    assert world.topic("t").compaction.status == CompactionStatus.NOT_RUN
    compact(world)


def test_a_topic_that_is_deleted_takes_its_view_along() -> None:
    world = World()
    world.broker.pieces.be_small()
    client = world.connect()
    producer = client.producer("t")
    send_batch(producer, *[(f"k{i}", f"v{i}") for i in range(20)])
    compact(world)
    send(producer, "k", "v")
    begin(world)
    for _ in range(60):
        world._step()
    world.delete("t", force=True)
    world.settle()
    assert world.store.log.state.ledgers == {}
    world.crash()
    assert world.store.log.state.ledgers == {}


def test_a_full_disk_ends_a_compaction_and_the_next_one_is_well() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    for i in range(5):
        send(producer, f"k{i % 2}", f"v{i}")
    world._disk_error = FULL
    begin(world)
    world.settle()
    compaction = world.topic("t").compaction
    assert compaction.status == CompactionStatus.ERROR
    assert "space" in compaction.error
    world._disk_error = None
    world.advance(2_000)
    world.store.log.full = False
    compact(world)
    assert values(received(reader(world.connect()))) == ["v3", "v4"]


def test_a_read_that_fails_ends_a_compaction_and_says_why() -> None:
    world = World()
    producer = world.connect().producer("t")
    send(producer, "a", "1")
    world.host.read_error = BROKEN
    begin(world)
    world.settle()
    compaction = world.topic("t").compaction
    assert compaction.status == CompactionStatus.ERROR
    assert "Input/output" in compaction.error
    world.host.read_error = None
    compact(world)


def test_a_view_that_is_dropped_lets_go_of_what_it_held() -> None:
    world = World()
    client = world.connect()
    producer = client.producer("t")
    for i in range(6):
        send(producer, f"k{i % 2}", f"v{i}")
    compact(world)
    consumer = reader(client)
    consumer.flow(1)
    assert values(taken(consumer)) == ["v4"]
    world.trim("t")
    send(producer, "k0", "new")
    world.trim("t")
    assert len(world.topic("t").storage.ledger_ids()) == 1
    world.done(world.topic("t").compaction.drop())
    assert values(received(consumer)) == ["new"]
    world.trim("t")
    assert world.topic("t").storage.ledger_ids() == []
    assert world.store.log.state.ledgers == {}
    world.crash()
    assert world.topic("t").compaction.view is None
