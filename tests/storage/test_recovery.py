"""The corners of recovery: each rule that a random life of a store rarely meets."""

from collections.abc import Callable

import pytest
from storage.faulty_disk import FaultyDisk
from storage.test_faults import filled
from storage.workload import START, Workload, small_options

from magnetar.storage import CorruptionError, DiskFullError, check, open_store
from magnetar.storage.ids import BLOCK, encode_ids, read_ids
from magnetar.storage.ledger.ledger_index import HeapIndex, index_path, ledger_id_of
from magnetar.storage.log.heads import encode_heads, heads_length
from magnetar.storage.log.record import HEAD_BYTES, Record, crc_bytes, decode_head
from magnetar.storage.log.record_kind import COPY, SEAL
from magnetar.storage.log.scan import Scan
from magnetar.storage.log.segment import (
    FORMAT_VERSION,
    GROUP_HEADER,
    GROUP_HEADER_TAIL,
    GROUP_MAGIC,
    SEGMENT_HEADER_TAIL,
    SEGMENT_MAGIC,
    GroupHeader,
    decode_group_header,
    decode_segment_header,
)
from magnetar.storage.state_record import cursor_record, ledger_record

SEGMENT_1 = "journal/00000001.log"
HEADS_1 = "journal/00000001.heads"
HEADS_HEADER_BYTES = 24


def closed(steps: int = 60) -> tuple[FaultyDisk, Workload]:
    disk, work = filled(steps)
    work.store.close()
    return disk.kill(), work


def check_refused(disk: FaultyDisk, work: Workload, match: str) -> None:
    before = {path: bytes(content) for path, content in disk.files.items()}
    with pytest.raises(CorruptionError, match=match):
        work.open(disk)
    assert {path: bytes(content) for path, content in disk.files.items()} == before
    assert check(disk) != []


def put(disk: FaultyDisk, path: str, data: bytes) -> None:
    disk.replace(path, data)


def test_a_segment_that_lost_its_end_is_corruption() -> None:
    disk, work = closed()
    disk.truncate(SEGMENT_1, disk.size(SEGMENT_1) - 1)
    check_refused(disk, work, "shorter than it was")


def test_a_damaged_record_of_an_object_is_corruption_even_if_heads_are_whole() -> None:
    disk, work = closed()
    disk.flip(SEGMENT_1, disk.files[SEGMENT_1].index(b"quiet"))
    check_refused(disk, work, "<topic .* is damaged")


def test_a_segment_under_a_wrong_name_is_not_taken_for_another() -> None:
    disk, work = closed(200)
    names = sorted(p for p in disk.files if p.endswith(".log"))
    disk.rename(names[1], "journal/00000099.log")
    check_refused(disk, work, "missing|damaged")


@pytest.mark.parametrize("heads_too", [False, True])
def test_a_listed_segment_that_is_gone_is_corruption(heads_too: bool) -> None:
    disk, work = filled(1)
    for topic in ("b", "b", "b", "a", "a", "b", "b"):
        for _ in range(40):
            work.publish(topic, 400)
        work.flush()
    work.store.seal_topic(work.topics["a"])
    work.flush()
    work.trim("a", keep=0)
    work.flush()
    for _ in range(60):
        work.store.maintain()
        work.flush()
    work.store.close()
    state = work.store.log.state
    assert len(state.listed) > 3
    first = state.listed[0]
    assert first < state.listed_address >> 32
    # Nothing but the list knows of the segment: its ledgers are deleted, with their indexes.
    disk = disk.kill()
    disk.remove(f"journal/{first:08x}.log")
    if heads_too:
        disk.remove(f"journal/{first:08x}.heads")
    check_refused(disk, work, "missing")


def test_a_sealed_ledger_without_all_its_entries_is_corruption() -> None:
    disk, work = filled(3)
    seal = ledger_record(900, work.topics["a"], 1, sealed=True, entries=5, size_bytes=9)
    work.store.log.add(seal)
    work.store.flush()
    check_refused(disk.kill(), work, "entry 900:0 is missing")


@pytest.mark.parametrize(("segment_id", "reason"), [(0, "is missing"), (99, "the log has lost")])
def test_an_index_that_points_to_a_segment_that_is_not_there_is_corruption(
    segment_id: int, reason: str
) -> None:
    disk, work = closed()
    salt = work.store.log.salt
    ledger_id = next(iter(work.store.log.state.ledgers))
    index = work.store.log.state.ledgers[ledger_id].index
    forged = HeapIndex()
    for i in range(index.count()):
        forged.put(i, (segment_id << 32) + i, length=9, batch_size=1, publish_time_ms=1)
    put(disk, index_path(ledger_id), forged.encode(ledger_id, salt))
    check_refused(disk, work, reason)


def test_foreign_files_are_left_alone_or_swept_and_never_read() -> None:
    disk, work = closed()
    for path in ("journal/README", "index/README", "journal/x.tmp"):
        put(disk, path, b"?")
    work.open(disk)
    assert disk.size("journal/README") == 1
    assert disk.size("index/README") == disk.size("journal/x.tmp") == -1


def test_a_segment_that_a_failed_roll_left_behind_is_removed() -> None:
    disk, work = filled(1)
    limit = work.options.segment_bytes
    while work.store.log.journal.end & 0xFFFFFFFF < limit - 1500:
        work.publish("a", 400)
        work.flush()
    work.publish("a", 2000)
    work.publish("a", 2000)
    job = work.store.next_write()
    assert job is not None
    job.run(disk)
    outcome = work.store.finish_write(job, DiskFullError("write to", "x", "No space left"))
    assert outcome is not None
    work.take(outcome)
    abandoned = "journal/00000002.log"
    assert disk.size(abandoned) > 0
    work.ack("a")
    job = work.store.next_write()
    assert job is not None
    job.run(disk)
    outcome = work.store.finish_write(job, None)
    assert outcome is not None
    work.take(outcome)
    after = disk.kill()  # before any chore could remove the file
    assert check(after) == []
    work.open(after)
    assert after.size(abandoned) == -1
    work.verify()


def test_a_roll_that_finds_no_space_takes_the_reserve() -> None:
    disk, work = filled(30)
    store = work.store
    del store.log.spares[work.options.reserve_segments :]
    disk.capacity = disk.used_bytes()
    outcomes = []
    for _ in range(30):
        work.ack("a")
        if not store.full:
            work.publish("a", 1000)
        job = store.next_write()
        assert job is not None
        error = None
        try:
            job.run(disk)
        except DiskFullError as refusal:
            error = refusal
        outcome = store.finish_write(job, error)
        assert outcome is not None
        work.take(outcome)
        outcomes.append(outcome.error)
    assert outcomes == [None] * 30
    assert store.full
    assert len(store.log.spares) == work.options.reserve_segments - 1
    work.verify()


def test_a_small_store_sets_nothing_aside_before_half_a_segment_is_used() -> None:
    disk, work = filled(3)
    spares = [name for name in disk.names("journal") if name.endswith(".spare")]
    assert spares == []
    while work.store.log.journal.end & 0xFFFFFFFF < work.options.segment_bytes // 2:
        assert work.store.log.spares == []
        work.publish("a", 400)
        work.flush()
    assert len(work.store.log.spares) == work.options.reserve_segments + 1


def test_a_small_store_makes_its_reserve_when_space_gets_short() -> None:
    _, work = filled(3)
    work.store.log.full = True
    work.clock.now_ms += 1000
    work.ack("a")
    work.flush()
    assert len(work.store.log.spares) >= work.options.reserve_segments
    assert not work.store.full


def test_a_full_disk_without_a_spare_cannot_be_opened_and_says_why() -> None:
    disk, work = closed()
    for path in [p for p in disk.files if p.endswith(".spare")]:
        disk.remove(path)
    disk.capacity = disk.used_bytes()
    with pytest.raises(DiskFullError, match="free some space"):
        work.open(disk)
    disk.capacity += 1 << 20
    work.open(disk)
    work.verify()


def test_ids_go_on_beyond_a_block_and_over_restarts() -> None:
    disk = FaultyDisk()
    seen: set[int] = set()
    for _ in range(2):
        store = open_store(disk, lambda: 0, small_options())
        ids = [store.create_topic(str(i)) for i in range(BLOCK + 10)]
        assert not seen & set(ids)
        seen |= set(ids)
        disk = disk.kill()
    assert len(seen) == 2 * (BLOCK + 10)


def test_a_damaged_file_of_ids_is_corruption_wherever_the_damage_is() -> None:
    # A digit that lowers the number would give ids away twice (I9).
    disk, work = closed(3)
    whole = bytes(disk.files["IDS"])
    for offset in range(len(whole)):
        for bit in range(8):
            damaged = disk.kill()
            damaged.flip("IDS", offset, bit)
            check_refused(damaged, work, "next id is missing or damaged")
    for data in (whole[:-1], whole + b"\n", whole.partition(b"\n")[0], b"", b"0" * 99):
        put(disk, "IDS", data)
        check_refused(disk, work, "next id is missing or damaged")
    put(disk, "IDS", encode_ids(4096, work.store.log.salt + 1))
    check_refused(disk, work, "next id is missing or damaged")


def test_an_id_that_only_an_index_file_shows_was_used() -> None:
    disk, work = closed(3)
    salt = work.store.log.salt
    index = HeapIndex()
    index.put(0, (1 << 32) + 64, length=9, batch_size=1, publish_time_ms=1)
    used = read_ids(disk, salt, 0)  # the first that was not reserved
    put(disk, index_path(used), index.encode(used, salt))
    check_refused(disk, work, f"id {used} is in use")
    put(disk, "IDS", encode_ids(used + 1, salt))
    work.open(disk)
    assert work.store.create_topic("t") > used
    assert disk.size(index_path(used)) == -1


# ---- What index files and heads know of the log --------------------------------


def indexed(segments: int) -> tuple[FaultyDisk, Workload, str, int]:
    """A store left by a kill, its last segment, and where a ledger in it was sealed."""
    disk, work = filled(1)
    while work.store.log.journal.end >> 32 < segments:
        work.publish("b", 1400)
        work.flush()
    for _ in range(3):
        work.publish("a", 100)
        work.flush()
    end = work.store.log.journal.end & 0xFFFFFFFF
    work.store.seal_topic(work.topics["a"])
    work.flush()
    path = f"journal/{segments:08x}.log"
    assert work.store.log.journal.end >> 32 == segments
    return disk.kill(), work, path, end


@pytest.mark.parametrize("segments", [1, 3])
def test_a_last_segment_that_is_gone_is_missed_by_the_index_files(segments: int) -> None:
    disk, work, path, _ = indexed(segments)
    disk.remove(path)
    check_refused(disk, work, "an index file knows entries that the log has lost")


@pytest.mark.parametrize("zeroed", [False, True])
def test_a_last_segment_that_lost_its_end_is_missed_by_the_index_files(zeroed: bool) -> None:
    disk, work, path, end = indexed(2)
    # The group in front of the seal holds the last entry: 40 + 40 + 100 bytes.
    cut = end - 180
    size = disk.size(path)
    disk.truncate(path, cut)
    if zeroed:
        disk.truncate(path, size)
    check_refused(disk, work, "an index file knows entries that the log has lost")


def test_a_seal_that_is_gone_is_missed_by_the_index_file() -> None:
    disk, work, path, end = indexed(2)
    disk.truncate(path, end)
    check_refused(disk, work, "record that sealed the ledger is missing")


def test_an_index_file_whose_columns_are_damaged_is_no_witness() -> None:
    disk, work, _, _ = indexed(2)
    for path in [p for p in disk.files if p.endswith(".idx")]:
        disk.flip(path, 64 + 5)  # the segment of the first entry
    assert check(disk) != []
    store = open_store(disk, work.clock, work.options)
    assert store.cuts == []


def test_the_index_file_of_a_deleted_ledger_may_speak_of_segments_that_are_gone() -> None:
    disk, work = closed(3)
    index = HeapIndex()
    index.put(0, 64, length=9, batch_size=1, publish_time_ms=1)
    put(disk, index_path(3), index.encode(3, work.store.log.salt))
    work.open(disk)
    assert disk.size(index_path(3)) == -1


@pytest.mark.parametrize("heads", ["whole", "damaged", "none"])
def test_a_closed_segment_with_a_damaged_header_is_missed_by_its_heads(heads: str) -> None:
    disk, work = closed(3)
    open_store(disk, work.clock, work.options).close()  # one group, which has no successor
    disk = disk.kill()
    path = "journal/00000002.heads"
    assert disk.size(path) > 0
    disk.flip("journal/00000002.log", 20)
    if heads == "whole":
        check_refused(disk, work, "the header of the segment is damaged")
        return
    if heads == "damaged":
        disk.flip(path, 30)
    else:
        disk.remove(path)
    work.open(disk)
    assert len(work.store.cuts) == 1


def test_heads_that_are_not_those_of_their_segment_are_refused() -> None:
    disk, work = closed(200)
    segments = sorted(path for path in disk.files if path.endswith(".log"))
    other = bytes(disk.files[HEADS_1])[HEADS_HEADER_BYTES:]
    forged = encode_heads(other, disk.size(segments[-1]), work.store.log.salt)
    put(disk, segments[-1].replace(".log", ".heads"), forged)
    check_refused(disk, work, "not the heads of the segment")


def test_names_of_indexes_are_read_back_and_others_are_not() -> None:
    assert ledger_id_of(index_path(77).removeprefix("index/")) == 77
    for name in ("77.idx", "000000000000000g.idx", "0000000000000001.idx.tmp"):
        assert ledger_id_of(name) == -1


def test_bytes_that_are_no_heads_and_no_group_are_refused() -> None:
    assert heads_length(b"", 0) == -1
    assert heads_length(bytes(100), 0) == -1
    header = GroupHeader(1, 2, 3, 4, 5).encode(7)
    assert decode_group_header(header, 0, 7) is not None
    assert decode_group_header(header, 0, 8) is None
    huge = bytearray(GROUP_HEADER.pack(b"MGRP", 0, 2, 3, 1 << 63, 4, 5))
    huge[4:8] = crc_bytes(bytes(huge[:4] + huge[8:]), 7)
    assert decode_group_header(bytes(huge), 0, 7) is None


def test_a_file_that_ends_in_the_middle_of_a_group_stops_the_scan_there() -> None:
    disk, work = filled(3)
    data = bytes(disk.files[SEGMENT_1])
    salt = work.store.log.salt
    whole = Scan(data, 1, salt)
    while whole.next_group() is not None:
        pass
    for end in range(64, whole.end, 11):
        scan = Scan(data[:end], 1, salt)
        while scan.next_group() is not None:
            pass
        assert scan.end <= end
    assert Scan(data, 2, salt).header is None


def test_a_store_that_could_never_write_closes_and_opens_again() -> None:
    disk = FaultyDisk()
    store = open_store(disk, lambda: 0, small_options())
    disk.full_from, disk.full_until = disk.operations, 1 << 40
    store.close()
    after = disk.kill()
    assert check(after) == []
    open_store(after, lambda: 0, small_options()).close()


def test_a_close_that_fails_leaves_a_directory_that_opens() -> None:
    for failing in range(1, 6):
        disk, work = filled(20)
        disk.sync_error_at = disk.syncs + failing
        work.store.close()
        after = disk.kill()
        assert check(after) == []
        work.open(after)
        work.verify()


# ---- What check finds ----------------------------------------------------------


def violations(disk: FaultyDisk) -> str:
    return "; ".join(violation.reason for violation in check(disk))


def forge_heads(disk: FaultyDisk, work: Workload, change: Callable[[bytearray, int], None]) -> None:
    """Changes each record's head in the heads of the first segment, with a right checksum."""
    salt = work.store.log.salt
    scan = Scan(bytes(disk.files[SEGMENT_1]), 1, salt)
    while scan.next_group() is not None:
        pass
    heads = bytearray(scan.heads_bytes())
    length = scan.end
    pos = 64
    while pos < len(heads):
        header = decode_group_header(bytes(heads), pos, salt)
        assert header is not None
        pos += 40
        for _ in range(header.count):
            change(heads, pos)
            pos += HEAD_BYTES
    put(disk, HEADS_1, encode_heads(bytes(heads), length, salt))


def drop(kind: int) -> Callable[[bytearray, int], None]:
    def change(heads: bytearray, pos: int) -> None:
        if decode_head(bytes(heads), pos).kind == kind:
            heads[pos + 8] = SEAL

    return change


@pytest.mark.parametrize(
    ("kind", "reason"),
    [(6, "different topics"), (7, "different ledgers"), (8, "different cursors")],
)
def test_check_finds_heads_that_differ_from_the_log(kind: int, reason: str) -> None:
    disk, work = closed(3)
    forge_heads(disk, work, drop(kind))
    assert reason in violations(disk)


def test_check_finds_a_deletion_that_heads_do_not_know() -> None:
    disk, work = filled(15)
    work.trim("a", keep=0)
    work.flush()
    work.store.close()
    disk = disk.kill()
    forge_heads(disk, work, drop(9))
    assert "different ledgers" in violations(disk)


def test_check_finds_an_entry_that_heads_do_not_know() -> None:
    disk, work = filled(3)
    ledger_id = work.store.ledgers(work.topics["a"])[0].id

    def change(heads: bytearray, pos: int) -> None:
        record = decode_head(bytes(heads), pos)
        if record.id == ledger_id and record.sub_id == 2:
            heads[pos + 8] = SEAL

    disk = disk.kill()
    forge_heads(disk, work, change)
    assert "2 entries, but 3 in the log" in violations(disk)


def test_check_finds_heads_that_end_too_early() -> None:
    disk, work = filled(9)
    disk = disk.kill()
    salt = work.store.log.salt
    scan = Scan(bytes(disk.files[SEGMENT_1]), 1, salt)
    for _ in range(4):
        scan.next_group()
    put(disk, HEADS_1, encode_heads(scan.heads_bytes(), scan.end, salt))
    assert "end at different places" in violations(disk)


def test_check_finds_deltas_that_heads_do_not_know() -> None:
    disk, work = closed(3)
    forge_heads(disk, work, drop(3))
    assert "different deltas" in violations(disk)


def test_check_finds_an_id_that_names_two_messages() -> None:
    disk, work = filled(3)
    ledger_id = work.store.ledgers(work.topics["a"])[0].id
    work.store.log.add(Record(COPY, ledger_id, 0, body=b"another"))
    work.store.flush()
    assert f"{ledger_id}:0 names two messages" in violations(disk.kill())


def test_an_id_that_was_never_reserved_is_corruption_and_found_by_check() -> None:
    disk, work = closed(3)
    put(disk, "IDS", encode_ids(2, work.store.log.salt))
    check_refused(disk, work, "never reserved")
    assert "never reserved" in violations(disk)
    assert repr(check(disk)[0]).startswith("Violation(IDS: IDS at byte 0: id ")


def test_check_finds_a_cursor_without_a_snapshot() -> None:
    disk, work = filled(3)
    work.store.log.add(cursor_record(950, work.topics["a"], "bare", b""))
    work.store.flush()
    assert "it has no snapshot" in violations(disk.kill())


def test_check_finds_a_seal_that_lies_about_the_size() -> None:
    disk, work = filled(3)
    ledger = work.store.log.state.ledgers[work.store.ledgers(work.topics["a"])[0].id]
    seal = ledger_record(
        ledger.id, ledger.topic_id, 1, sealed=True, entries=ledger.index.count(), size_bytes=1
    )
    work.store.log.add(seal)
    work.store.flush()
    assert "disagree about the ledger's size" in violations(disk.kill())


def test_check_finds_columns_that_are_damaged_or_differ_from_the_log() -> None:
    disk, work = closed()
    ledger_id = next(iter(work.store.log.state.ledgers))
    path = index_path(ledger_id)
    damaged = disk.kill()
    damaged.flip(path, 70)
    assert "columns are damaged" in violations(damaged)
    index = work.store.log.state.ledgers[ledger_id].index
    forged = HeapIndex()
    for i in range(index.count()):
        forged.put(i, index.address(i), length=index.length(i), batch_size=77, publish_time_ms=1)
    put(disk, path, forged.encode(ledger_id, work.store.log.salt))
    assert "differs from the log" in violations(disk)
    first = index.address(0)
    forged.put(0, index.address(1), length=index.length(0), batch_size=1, publish_time_ms=1)
    assert forged.address(0) != first
    put(disk, path, forged.encode(ledger_id, work.store.log.salt))
    assert "is not where the index says" in violations(disk)


def test_an_empty_directory_has_no_violations() -> None:
    assert check(FaultyDisk()) == []
    disk, work = closed(1)
    assert check(disk) == []
    assert work.store.read(work.topics["a"], START, entries_max=1, bytes_max=1)


@pytest.mark.parametrize("field", range(3))
def test_a_group_header_with_numbers_that_nothing_can_hold_is_none(field: int) -> None:
    numbers = [1, 2, 3]
    numbers[field] = 1 << 63
    tail = GROUP_HEADER_TAIL.pack(10, 1, *numbers)
    header = GROUP_MAGIC + crc_bytes(GROUP_MAGIC + tail, 7) + tail
    assert decode_group_header(header, 0, 7) is None


@pytest.mark.parametrize("field", range(5))
def test_a_segment_header_with_numbers_that_nothing_can_hold_is_none(field: int) -> None:
    numbers = [1, 2, 3, 4, 5]
    whole = SEGMENT_HEADER_TAIL.pack(FORMAT_VERSION, *numbers)
    numbers[field] = 1 << 63
    forged = SEGMENT_HEADER_TAIL.pack(FORMAT_VERSION, *numbers)
    for tail, read in ((whole, True), (forged, False)):
        header = SEGMENT_MAGIC + crc_bytes(SEGMENT_MAGIC + tail, 7) + tail
        assert (decode_segment_header(header, 7) is not None) is read
