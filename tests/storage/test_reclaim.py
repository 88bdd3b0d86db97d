"""Space comes back: dead segments go, and mostly dead ones are emptied."""

import pytest
from storage.by_hand import BEHIND_ALL, every, publish, read_now, texts
from storage.conftest import House
from storage.workload import small_options

from magnetar.storage import (
    DiskShortageError,
    MemoryDisk,
    Retention,
    Store,
    StoredEntry,
    UnknownObjectError,
)
from magnetar.storage.log.job import ReadBodies
from magnetar.storage.log.segment import heads_path, segment_path
from magnetar.storage.object_rewriter import ASKS_MAX, IMAGE_BYTES_MAX


class KeepingDisk(MemoryDisk):
    """A disk that cannot remove some files for now."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: set[str] = set()

    def remove(self, path: str) -> None:
        if path in self.kept:
            raise DiskShortageError("remove", path, "Too many open files")
        super().remove(path)


def segments(house: House) -> list[str]:
    return [name for name in house.disk.names("journal") if name.endswith(".log")]


def test_a_store_whose_entries_are_all_trimmed_shrinks_to_one_segment(house: House) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    publish(store, topic_id, 500, 400)
    store.flush()
    store.seal_topic(topic_id)
    store.flush()
    assert len(segments(house)) > 10
    assert len(store.trim(topic_id, BEHIND_ALL, Retention())) > 10
    store.flush()
    house.work_off()
    assert len(segments(house)) <= 2
    assert house.disk.names("index") == []
    store = house.reopen()
    assert store.topics() == {topic_id: "t"}


@pytest.mark.parametrize("clean", [True, False])
def test_one_old_entry_of_a_quiet_topic_does_not_keep_a_segment_alive(
    house: House, clean: bool
) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    cursor_id = store.create_cursor(quiet, "sub", b"snapshot")
    for _ in range(10):
        publish(store, quiet, 1)
        publish(store, busy, 60, 400)
        store.append_delta(cursor_id, 0, b"ack")
        store.flush()
    before = len(segments(house))
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    house.work_off()
    assert len(segments(house)) <= 3 < before
    store = house.reopen(clean=clean)
    assert texts(store, quiet) == [0] * 10
    image = store.cursor_image(cursor_id)
    assert (image.snapshot, image.deltas) == (b"snapshot", [b"ack"] * 10)
    assert texts(store, busy) == []


@pytest.mark.parametrize("clean", [True, False])
def test_an_open_ledger_in_a_mostly_dead_segment_moves_and_stays_open(
    house: House, clean: bool
) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    (first,) = publish(store, quiet, 1)
    publish(store, busy, 100, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    house.work_off()
    (ledger,) = store.ledgers(quiet)
    assert (ledger.id, ledger.sealed) == (first.ledger_id, False)
    assert 1 not in store.log.lengths
    assert store.log.state.ledgers[ledger.id].index.address(0) >> 32 > 1
    (second,) = publish(store, quiet, 1)
    assert (second.ledger_id, second.entry_id) == (first.ledger_id, 1)
    store.flush()
    store = house.reopen(clean=clean)
    assert texts(store, quiet) == [0, 0]


def test_a_sealed_ledger_is_not_copied_before_it_has_its_index_file(house: House) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    publish(store, quiet, 3)
    publish(store, busy, 100, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    reclaimer = store.reclaimer
    while reclaimer.segment_id != 1 or reclaimer.state != "copying":
        store.maintain()
        store.flush()
    # Sealed between the scan and the copy, on a disk that has no space for the file.
    store.seal_topic(quiet)
    write_groups(store)
    store.log.full = True
    copied = store.ticket_last
    assert not store.maintain()
    assert reclaimer.state == "copying", "what is to be copied is read first"
    read_now(store)
    assert not store.maintain()
    assert reclaimer.state == "idle", "others may free some space"
    store.log.full = False
    while reclaimer.segment_id != 1 or reclaimer.state != "copying":
        store.maintain()
        read_now(store)
    store.maintain()
    read_now(store)
    assert not store.maintain(), "it waits for the file"
    assert (reclaimer.state, store.ticket_last) == ("copying", copied)
    house.work_off()
    assert 1 not in store.log.lengths
    assert texts(store, quiet) == [0, 1, 2]


def write_groups(store: Store) -> None:
    while (job := store.next_write()) is not None:
        job.run(store.log.disk)
        store.finish_write(job, None)


def test_what_was_deleted_does_not_come_back_when_its_deletion_is_reclaimed(house: House) -> None:
    store = house.store
    kept, gone, busy = (store.create_topic(name) for name in ("kept", "gone", "busy"))
    publish(store, gone, 1)
    publish(store, kept, 20, 700)  # keeps the segment with the creations alive
    store.flush()
    publish(store, busy, 40, 400)
    store.delete_topic(gone)
    publish(store, busy, 40, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    house.work_off()
    assert 1 in store.log.lengths
    for clean in (False, True):
        store = house.reopen(clean=clean)
        assert sorted(store.topics()) == [kept, busy]
        assert len(texts(store, kept)) == 20


def test_reclaiming_does_not_overtake_a_seal_or_properties_on_their_way(house: House) -> None:
    store = house.store
    topic_id, busy = store.create_topic("t"), store.create_topic("busy")
    cursor_id = store.create_cursor(topic_id, "sub", b"")
    publish(store, busy, 40, 400)
    store.append(topic_id, b"0", batch_size=1, publish_time_ms=0)
    store.seal_topic(busy)
    store.flush()
    # An open ledger of which the segment to be reclaimed has the record, and no entry.
    ledger = store.log.state.ledgers[store.ledgers(topic_id)[0].id]
    while store.log.journal.end >> 32 < 3:
        publish(store, busy, 1, 400)
        store.flush()
    reclaimer = store.reclaimer
    reclaimer.segment_id = ledger.address >> 32
    reclaimer._begin_copying()
    store.seal_topic(topic_id)
    store.set_cursor_properties(cursor_id, b"new")
    assert not store.maintain()
    assert reclaimer.state == "copying"
    store.flush()
    reclaimer._rewrite_objects()
    store.flush()
    assert ledger.sealed
    assert store.cursor_image(cursor_id).properties == b"new"
    reclaimer.abandon()


def test_the_last_segment_stays_until_there_is_another(house: House) -> None:
    # A clean stop leaves a segment that holds nothing but the seal of the log.
    topic_id = house.store.create_topic("t")
    publish(house.store, topic_id, 30, 400)
    for clean in (True, True, False, True):
        store = house.reopen(clean=clean)
        house.work_off()
        assert len(texts(store, topic_id)) == 30


def test_work_that_was_given_up_leaves_no_address_to_wait_for(house: House) -> None:
    # The next work would take its copies for synced as soon as that older address is.
    store = house.reopen(options=small_options("never"))
    topic_id = store.create_topic("t")
    publish(store, topic_id, 1)
    store.flush()
    reclaimer = store.reclaimer
    reclaimer._ticket = store.ticket_last
    assert not reclaimer._durable()
    reclaimer.abandon()
    reclaimer._ticket = store.ticket_last
    publish(store, topic_id, 1)
    store.flush()
    assert not reclaimer._durable()
    assert reclaimer._address == store.log.journal.end


def test_reclaiming_waits_for_a_cursor_whose_deltas_are_on_their_way(house: House) -> None:
    store = house.store
    topic_id = store.create_topic("t")
    cursor_id = store.create_cursor(topic_id, "sub", b"")
    publish(store, topic_id, 40, 400)
    store.seal_topic(topic_id)
    store.flush()
    store.trim(topic_id, BEHIND_ALL, Retention())
    store.flush()
    store.append_delta(cursor_id, 0, b"1")
    for _ in range(20):
        store.maintain()
        while (job := store.next_chore()) is not None:
            job.run(store.log.disk)
            store.finish_chore(job, None)
    assert store.reclaimer.state == "copying"
    house.work_off()
    assert store.cursor_image(cursor_id).deltas == [b"1"]
    assert house.reopen().cursor_image(cursor_id).deltas == [b"1"]


def with_a_large_image(store: Store) -> tuple[int, list[bytes]]:
    """A cursor whose deltas are large, among entries that are all trimmed."""
    topic_id = store.create_topic("t")
    cursor_id = store.create_cursor(topic_id, "sub", b"")
    publish(store, topic_id, 20, 400)
    deltas = [bytes([number]) * (IMAGE_BYTES_MAX // 2) for number in range(3)]
    for delta in deltas:
        store.append_delta(cursor_id, 0, delta)
        store.flush()
    publish(store, topic_id, 40, 400)
    store.seal_topic(topic_id)
    store.flush()
    store.trim(topic_id, BEHIND_ALL, Retention())
    store.flush()
    return cursor_id, deltas


def test_a_large_image_of_a_cursor_is_not_moved_but_made_anew(house: House) -> None:
    """It would be read and queued in one go, and everybody would wait for that."""
    store = house.store
    cursor_id, _ = with_a_large_image(store)
    for _ in range(ASKS_MAX):
        house.work_off_once()
        if store.cursors_wanted():
            break
    assert store.cursors_wanted() == [cursor_id]
    assert cursor_id in store.cursors_due()
    writer = store.begin_snapshot(cursor_id)
    writer.add(b"all of it", last=True)
    store.flush()
    assert store.cursors_wanted() == []
    house.work_off()
    assert len(segments(house)) <= 3
    for opened in (store, house.reopen()):
        image = opened.cursor_image(cursor_id)
        assert (image.snapshot, image.deltas) == (b"all of it", [])


def test_a_large_image_is_moved_in_the_end_if_nobody_makes_it_anew(house: House) -> None:
    store = house.store
    cursor_id, deltas = with_a_large_image(store)
    for _ in range(10 * ASKS_MAX):
        house.work_off_once()
    assert store.cursors_wanted() == []
    assert len(segments(house)) <= 5
    assert house.reopen().cursor_image(cursor_id).deltas == deltas


def test_what_is_being_deleted_is_not_written_again(house: House) -> None:
    store = house.store
    kept, gone, busy = (store.create_topic(name) for name in ("kept", "gone", "busy"))
    cursor_id = store.create_cursor(gone, "sub", b"")
    for topic_id in (gone, kept):
        publish(store, topic_id, 2)
        store.seal_topic(topic_id)
    other = store.create_cursor(kept, "sub", b"")
    publish(store, busy, 40, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    # The segment with all creations is mostly dead; their deletions are queued, not durable.
    store.delete_topic(gone)
    store.delete_cursor(other)
    store.trim(kept, BEHIND_ALL, Retention())
    with pytest.raises(UnknownObjectError):
        store.append_delta(cursor_id, 0, b"")
    with pytest.raises(UnknownObjectError):
        store.set_cursor_properties(other, b"")
    for _ in range(10):
        store.maintain()
    house.work_off()
    for _ in range(2):
        assert sorted(store.topics()) == [kept, busy]
        assert store.cursor_ids(kept) == []
        assert store.ledgers(kept) == []
        store = house.reopen(clean=False)


def test_copies_are_sorted_by_ledger(house: House) -> None:
    store = house.store
    topics = [store.create_topic(f"t{i}") for i in range(4)]
    dead = store.create_topic("dead")
    for _ in range(10):
        for topic_id in topics:
            publish(store, topic_id, 1, 60)
        publish(store, dead, 2, 600)
    for topic_id in [*topics, dead]:
        store.seal_topic(topic_id)
    store.flush()
    store.trim(dead, BEHIND_ALL, Retention())
    store.flush()

    def entries() -> list[StoredEntry]:
        return [entry for topic_id in topics for entry in every(store, topic_id)]

    moved = {where(entry) for entry in entries() if entry.address >> 32 == 1}
    house.work_off()
    addresses = [entry.address for entry in entries() if where(entry) in moved]
    assert len(addresses) > 20
    assert addresses == sorted(addresses)
    assert addresses[0] >> 32 > 1


def where(entry: StoredEntry) -> tuple[int, int]:
    return (entry.ledger_id, entry.entry_id)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_step_copies_no_more_than_it_may_and_heads_are_not_needed(
    house: House, damaged: bool
) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    publish(store, quiet, 5, 300)
    store.seal_topic(quiet)
    publish(store, busy, 60, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    for name in house.disk.names("journal"):
        if name.endswith(".heads") and damaged:
            house.disk.replace(f"journal/{name}", b"?")
        elif name.endswith(".heads"):
            house.disk.remove(f"journal/{name}")
    readings = 0
    while store.reclaimer.segment_id != 1 or store.reclaimer.state != "settling":
        store.reclaimer.step(1)
        while (job := store.next_chore()) is not None:
            job.run(store.log.disk)
            store.finish_chore(job, None)
            readings += isinstance(job, ReadBodies) and len(job.bodies) == 1
        store.flush()
    assert readings == 5
    house.work_off()
    assert texts(store, quiet) == list(range(5))


def test_without_fsync_nothing_goes_before_what_replaces_it_is_on_the_disk(house: House) -> None:
    store = house.reopen(options=small_options("never"))
    topic_id = store.create_topic("t")
    publish(store, topic_id, 100, 400)
    store.seal_topic(topic_id)
    store.flush()
    store.trim(topic_id, BEHIND_ALL, Retention())
    house.work_off()
    # The deletions are in the last segment, which nothing has synced so far.
    before = segments(house)
    assert store.reclaimer.state != "idle"
    publish(store, topic_id, 100, 400)
    house.work_off()
    assert not set(before[:2]) <= set(segments(house))


def test_a_ledger_that_is_trimmed_while_its_entries_are_being_copied_is_gone(house: House) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    publish(store, quiet, 5, 100)
    store.seal_topic(quiet)
    publish(store, busy, 60, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    while store.reclaimer.segment_id != 1 or store.reclaimer.state != "copying":
        store.reclaimer.step(1)
        store.flush()
    store.reclaimer.step(1)
    store.trim(quiet, BEHIND_ALL, Retention())
    store.flush()
    house.work_off()
    assert texts(store, quiet) == []
    assert house.reopen(clean=False).ledgers(quiet) == []


def test_a_segment_of_many_small_records_is_scanned_in_steps(house: House) -> None:
    options = small_options(segment_bytes=256 * 1024, ledger_entries_max=10_000)
    store = house.reopen(options=options)
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    publish(store, quiet, 1)
    publish(store, busy, 5000, 1)
    store.flush()
    first = store.log.journal.end >> 32
    publish(store, busy, 300, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    house.work_off()
    assert first not in store.log.lengths
    assert texts(store, quiet) == [0]


def test_a_segment_that_cannot_be_read_is_heard_of_and_stays(house: House) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    publish(store, quiet, 5)
    publish(store, busy, 100, 400)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    while store.reclaimer.segment_id != 1 or store.reclaimer.state != "scanning":
        store.maintain()
        write_groups(store)
        if store.reclaimer.state != "scanning":
            store.flush()
    house.disk.remove("journal/00000001.heads")
    house.disk.rename("journal/00000001.log", "journal/away")
    read_now(store)
    assert not store.maintain()
    assert "No such file" in store.setbacks.present["moving entries"]
    house.disk.rename("journal/away", "journal/00000001.log")
    house.work_off()
    assert store.setbacks.present == {}
    assert "00000001.log" not in segments(house)
    assert texts(store, quiet) == list(range(5))


def test_one_damaged_record_keeps_its_segment_and_no_other_one(house: House) -> None:
    store = house.store
    quiet, busy = store.create_topic("quiet"), store.create_topic("busy")
    for _ in range(4):
        publish(store, quiet, 1)
        publish(store, busy, 60, 400)
        store.flush()
    before = segments(house)
    address = store.log.state.ledgers[store.ledgers(quiet)[0].id].index.address(0)
    path, at = f"journal/{address >> 32:08x}.log", (address & 0xFFFFFFFF) + 41
    (byte,) = house.disk.read(path, at, 1)
    house.disk.write(path, at, bytes([byte ^ 1]), sync=True)
    store.seal_topic(busy)
    store.flush()
    store.trim(busy, BEHIND_ALL, Retention())
    store.flush()
    house.work_off()
    assert path.removeprefix("journal/") in segments(house)
    assert len(segments(house)) <= 4 < len(before)
    assert "the record is damaged" in store.setbacks.present["moving entries"]
    house.disk.write(path, at, bytes([byte]), sync=True)


@pytest.mark.parametrize("clean", [True, False])
def test_a_deleted_topic_stays_away_when_its_segment_could_not_be_removed(clean: bool) -> None:
    disk = KeepingDisk()
    house = House(lambda: disk, small_options())
    store = house.store
    gone, busy = store.create_topic("gone"), store.create_topic("busy")
    publish(store, gone, 60, 400)
    store.flush()
    disk.kept = {segment_path(1), heads_path(1)}
    store.delete_topic(gone)
    store.flush()
    told_in = max(store.log.lengths) + 1
    for _ in range(5):
        publish(store, busy, 60, 400)
        store.seal_topic(busy)
        store.flush()
        store.trim(busy, BEHIND_ALL, Retention())
        store.flush()
        house.work_off()
    assert min(store.log.state.listed) > told_in  # What says that the topic is gone, is gone.
    assert segment_path(1).split("/")[-1] in segments(house)
    house.leave(clean=clean)
    disk.kept = set()
    store = house.reopen(clean=clean)
    assert store.topics() == {busy: "busy"}
    assert segment_path(1).split("/")[-1] not in segments(house)
    house.leave()
