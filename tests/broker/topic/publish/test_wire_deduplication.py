"""Deduplication: what was published once is stored once, whatever the disk does."""

import pytest
from support.wire_client import WireProducer
from support.world import BROKEN, ENDS, FULL, World

from magnetar.ack import AckDelta, encode_delta
from magnetar.broker.topic.publish.deduplication import SNAPSHOT_BYTES
from magnetar.model import ServerError, TopicName
from magnetar.model.message_id_data import MessageIdData
from magnetar.protocol import pulsar_pb2 as pb
from magnetar.storage.cursor.cursor_log import DELTAS_MAX

NOWHERE = MessageIdData(-1, -1)


def test_a_duplicate_is_receipted_but_not_stored_again() -> None:
    world = World(deduplication=True)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    assert producer.success.last_sequence_id == -1
    producer.send("a", sequence_id=5)
    for sequence_id in (5, 3):
        assert producer.send("again", sequence_id=sequence_id) == NOWHERE
    assert producer.send("b", sequence_id=6) != NOWHERE
    assert world.topic("t").incoming.messages == 2


def test_without_deduplication_the_same_is_stored_twice(world: World) -> None:
    producer = world.connect().producer("t", producer_name="p")
    assert producer.send("a", sequence_id=5) != producer.send("a", sequence_id=5)


@pytest.mark.parametrize("how", ENDS)
def test_deduplication_is_exact_after(how: str) -> None:
    world = World(deduplication=True, deduplication_snapshot_entries=3)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    other = client.producer("t", producer_name="q")
    for sequence_id in range(7):
        producer.send("a", sequence_id=sequence_id)
    other.send("x", "y", "z", sequence_id=0)
    if how == "crash":
        world.hold_disk()
        producer.publish("lost", sequence_id=7)
    world.end(how)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    assert producer.success.last_sequence_id == 6
    assert producer.send("a", sequence_id=6) == NOWHERE
    assert producer.send("b", sequence_id=7) != NOWHERE
    assert client.producer("t", producer_name="q").success.last_sequence_id == 2


def test_what_is_on_its_way_is_undecided() -> None:
    world = World(deduplication=True)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    world.hold_disk()
    producer.publish("a", sequence_id=0)
    producer.publish("a", sequence_id=0)
    world.release_disk()
    assert client.send_answers() == [(0, None), (0, ServerError.PersistenceError)]
    producer.publish("a", sequence_id=0)
    assert client.send_answers() == [(0, None)]


def test_duplicates_are_answered_in_turn() -> None:
    world = World(deduplication=True)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    producer.send("a", sequence_id=0)
    world.hold_disk()
    producer.publish("b", sequence_id=1)
    producer.publish("a", sequence_id=0)
    producer.publish("c", sequence_id=2)
    world.release_disk()
    assert [sequence_id for sequence_id, _ in client.send_answers()] == [1, 0, 2]


def test_what_failed_may_be_sent_again() -> None:
    world = World(deduplication=True)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    producer.send("a", sequence_id=0)
    world.fail_disk(FULL)
    producer.publish("b", sequence_id=1)
    assert client.send_answers() == [(1, ServerError.PersistenceError)]
    world.fail_disk(None)
    again = client.producer("t", producer_name="p", producer_id=producer.id, epoch=1)
    assert again.success.last_sequence_id == 0
    assert again.send("b", sequence_id=1) != NOWHERE


def test_chunks_are_judged_by_the_last_one() -> None:
    """Until it is stored they are fresh, then all of them are duplicates."""
    world = World(deduplication=True)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    assert producer.send_chunk("u", 0, 2, "x") != NOWHERE
    assert producer.send_chunk("u", 0, 2, "x") != NOWHERE
    assert producer.send_chunk("u", 1, 2, "y") != NOWHERE
    again = [producer.send_chunk("u", i, 2, "xy"[i]) for i in range(2)]
    assert again == [NOWHERE, NOWHERE]
    world.crash()
    assert world.connect().producer("t", producer_name="p").success.last_sequence_id == 0


def test_a_policy_switches_deduplication_on_and_off(world: World) -> None:
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    producer.send("a", sequence_id=0)
    world.set_policy("deduplicationEnabled", True, topic="t")
    producer.send("b", sequence_id=1)
    assert producer.send("b", sequence_id=1) == NOWHERE
    world.set_policy("deduplicationEnabled", False, topic="t")
    assert producer.send("b", sequence_id=1) != NOWHERE
    world.restart()
    assert world.topic("t").deduplication is None


def test_only_so_many_producers_are_remembered() -> None:
    world = World(
        deduplication=True, deduplication_snapshot_entries=4, deduplication_max_producers=2
    )
    client = world.connect()
    for name in "abcd":
        client.producer("t", producer_name=name).send("x", sequence_id=9)
    world.crash()
    client = world.connect()
    known = [client.producer("t", producer_name=n).success.last_sequence_id for n in "abcd"]
    assert known == [-1, -1, 9, 9]


def test_a_snapshot_of_deduplication_that_fails_is_made_again() -> None:
    world = World(deduplication=True, deduplication_snapshot_entries=2)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    producer.send("a", sequence_id=0)
    world.hold_disk()
    producer.publish("b", sequence_id=1)
    world.write_once()  # and the snapshot waits
    world.fail_disk(FULL)
    world.fail_disk(None)
    assert client.send_answers() == [(1, None)]
    for sequence_id in (2, 3):
        producer.send("c", sequence_id=sequence_id)
    world.crash()
    producer = world.connect().producer("t", producer_name="p")
    assert producer.success.last_sequence_id == 3


def test_a_refusal_for_lack_of_space_does_not_let_a_duplicate_in() -> None:
    world = World(deduplication=True)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    world.hold_disk()
    producer.publish("a")
    world.store.log.full = True
    producer.publish("b")
    world.store.log.full = False
    client.drop()
    again = world.connect()
    retry = again.ask(pb.CommandProducer(topic="t", producer_id=1, producer_name="p"))
    second = WireProducer(again, 1, "t")
    second.name = "p"
    second.publish("a", sequence_id=0)
    world.release_disk()
    assert again.answer(retry) is not None
    assert world.topic("t").incoming.messages == 1


def test_deduplication_whose_cursor_was_not_written_is_written_with_the_next_publish(
    world: World,
) -> None:
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    world.hold_disk()
    world.set_policy("deduplicationEnabled", True, topic="t")
    world.fail_disk(FULL)
    world.fail_disk(None)
    for text in "abc":
        producer.send(text)
    world.crash()
    assert world.connect().producer("t", producer_name="p").success.last_sequence_id == 2


def test_deduplication_that_failed_may_be_switched_off(world: World) -> None:
    world.connect().producer("t")
    world.hold_disk()
    world.set_policy("deduplicationEnabled", True, topic="t")
    world.fail_disk(FULL)
    world.fail_disk(None)
    world.set_policy("deduplicationEnabled", False, topic="t")
    assert world.topic("t").deduplication is None


def test_deduplication_that_is_switched_off_and_on_again_is_kept(world: World) -> None:
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    world.set_policy("deduplicationEnabled", True, topic="t")
    world.hold_disk()
    world.set_policy("deduplicationEnabled", False, topic="t")
    world.set_policy("deduplicationEnabled", True, topic="t")
    world.release_disk()
    producer.send("a")
    topic = world.topic("t")
    assert topic.deduplication is not None
    topic.deduplication.snapshot()
    world.settle()
    assert not world.host.warnings
    world.crash()
    assert world.connect().producer("t", producer_name="p").success.last_sequence_id == 0


def test_deduplication_says_when_it_cannot_be_written() -> None:
    world = World(deduplication=True, deduplication_snapshot_entries=1000)
    client = world.connect()
    producer = client.producer("t", producer_name="p")
    producer.send("a")
    world.fail_disk(BROKEN)
    producer.publish("b")
    world.broker.unload(TopicName.parse("t"))
    assert any("deduplication of" in text for text in world.host.warnings)


def test_a_load_never_reads_much_however_large_the_entries_are() -> None:
    """It reads at once what is behind the last snapshot (I10)."""
    world = World(deduplication=True, segment_bytes=1 << 20)
    producer = world.connect().producer("t", producer_name="p")
    for number in range(10):
        producer.send(f"{number}" + "x" * (SNAPSHOT_BYTES // 4))
    topic = world.topic("t")
    assert topic.deduplication is not None
    assert topic.deduplication.position.entry_id >= 6
    world.crash()
    again = world.connect().producer("t", producer_name="p")
    assert again.success.last_sequence_id == 9


def test_what_deduplication_needs_is_not_trimmed() -> None:
    world = World(ledger_entries_max=1, deduplication=True, deduplication_snapshot_entries=1000)
    producer = world.connect().producer("t", producer_name="p")
    for i in range(5):
        producer.send(f"{i}")
    world.advance(5000)
    world.crash()
    assert world.connect().producer("t", producer_name="p").success.last_sequence_id == 4


@pytest.mark.parametrize("stored", [True, False])
def test_a_batch_of_which_some_were_published_is_refused_and_not_taken_for_a_duplicate(
    stored: bool,
) -> None:
    world = World(deduplication=True)
    client = world.connect()
    consumer = client.subscribe("t")
    producer = client.producer("t", producer_name="p")
    if not stored:
        world.hold_disk()
    producer.publish(*"abcd", sequence_id=0)
    producer.publish(*"cdef", sequence_id=2)
    world.release_disk()
    assert client.send_answers() == [(0, None), (2, ServerError.NotAllowedError)]
    producer.send(*"ef", sequence_id=4)
    assert consumer.receive() == list("abcdef")


def test_what_deduplication_wrote_is_gathered_in_a_snapshot() -> None:
    """Else every thousandth publish would leave something for ever."""
    world = World(deduplication=True, deduplication_snapshot_entries=1)
    producer = world.connect().producer("t", producer_name="p")
    producer.send("a")
    own = world.topic("t").deduplication
    assert own is not None
    delta = encode_delta(AckDelta(own.cursor.epoch, own.position))
    for _ in range(DELTAS_MAX):
        world.store.append_delta(own.cursor_id, own.cursor.epoch, delta)
    producer.send("b")
    assert world.store.cursors_due() == [own.cursor_id]
    world.advance(3000)
    assert world.store.cursors_due() == []
    world.crash()
    assert world.connect().producer("t", producer_name="p").success.last_sequence_id == 1


def test_a_policy_passes_over_a_topic_that_is_being_deleted(world: World) -> None:
    client = world.connect()
    client.producer("going")
    client.producer("staying")
    world.hold_disk()
    gone = world.broker.delete_topic(TopicName.parse("going"), force=True, delete_schema=True)
    world.set_policy("deduplicationEnabled", True)
    world.release_disk()
    world.done(gone)
    assert world.topic("staying").deduplication is not None
