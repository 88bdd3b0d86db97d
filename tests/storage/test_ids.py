"""A (ledger, entry) names one message, in whatever store it is asked about (I9)."""

import shutil
from pathlib import Path

import pytest
from storage.workload import small_options

from magnetar.storage import Disk, FileDisk, MemoryDisk, Store, check, open_store
from magnetar.storage.ids import (
    AGE_MS_MAX,
    EPOCH_MS,
    IDS,
    IDS_PER_MS,
    LEFT_OUT,
    STRIPES,
    encode_ids,
    first_id,
    read_ids,
)

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
SAFE_IN_JSON = 1 << 53


def opened(disk: Disk, now_ms: int) -> Store:
    return open_store(disk, lambda: now_ms, small_options())


def taken(store: Store, count: int) -> set[int]:
    """Ids that the store gives out: here to topics, with which ledgers and cursors count."""
    return {store.create_topic(f"t{i}") for i in range(count)}


def lived(disk: Disk, now_ms: int, count: int = 3000) -> set[int]:
    """The ids of one run of a store, which takes several blocks."""
    store = opened(disk, now_ms)
    ids = taken(store, count)
    store.flush()
    store.close()
    return ids


def test_a_store_that_comes_back_empty_gives_none_of_its_old_ids() -> None:
    before = lived(MemoryDisk(salt=7), NOW_MS)
    after = lived(MemoryDisk(salt=7), NOW_MS + 1000)
    assert max(before) < min(after)


def test_two_stores_opened_in_the_same_millisecond_have_lanes_of_their_own() -> None:
    runs = [lived(MemoryDisk(salt=stripe), NOW_MS) for stripe in range(5)]
    assert len(set.union(*runs)) == sum(len(run) for run in runs)


def test_stores_in_memory_draw_different_lanes() -> None:
    stripes = {min(lived(MemoryDisk(), NOW_MS, 1)) % STRIPES for _ in range(60)}
    assert len(stripes) > 20  # 60 draws of 128 give some 47


@pytest.mark.parametrize("later_ms", [1, HOUR_MS, -HOUR_MS, -NOW_MS])
def test_ids_go_up_in_a_store_whatever_the_clock_does(later_ms: int) -> None:
    disk = MemoryDisk()
    before = lived(disk, NOW_MS)
    assert max(before) < min(lived(disk, NOW_MS + later_ms))


def test_a_copy_and_its_original_both_go_on_with_ids_of_their_own(tmp_path: Path) -> None:
    lived(FileDisk(tmp_path / "one"), NOW_MS)
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    original = lived(FileDisk(tmp_path / "one"), NOW_MS + HOUR_MS)
    copy = lived(FileDisk(tmp_path / "copy"), NOW_MS + HOUR_MS + 100)
    again = lived(FileDisk(tmp_path / "one"), NOW_MS + HOUR_MS + 200)
    assert max(original) < min(copy)
    assert max(copy) < min(again)
    for directory in ("one", "copy"):
        assert check(FileDisk(tmp_path / directory)) == []


def test_copies_opened_by_a_clock_that_is_behind_have_ids_of_their_own() -> None:
    """Two that draw the same stripe, too: seed 51009597 restored one copy twice."""
    reserved = first_id(1, NOW_MS, 0)
    lucks = [stripe + STRIPES * draw for stripe in (0, 5) for draw in range(0, LEFT_OUT, 10_000)]
    firsts = [first_id(reserved, NOW_MS - HOUR_MS, luck) for luck in lucks]
    assert len(set(firsts)) == len(lucks)
    assert min(firsts) >= reserved
    assert [first % STRIPES for first in firsts] == [luck % STRIPES for luck in lucks]


def test_a_store_at_the_end_of_time_leaves_nothing_out() -> None:
    reserved = AGE_MS_MAX * IDS_PER_MS * STRIPES
    assert first_id(reserved, NOW_MS, STRIPES * (LEFT_OUT - 1)) == reserved


def test_a_directory_of_an_earlier_release_opens_and_its_ids_jump_ahead() -> None:
    disk = MemoryDisk(salt=5)
    lived(disk, 0)  # as a store without a clock: ids from 1 on
    assert read_ids(disk, 5, 0) < 1_000_000
    disk.replace(IDS, encode_ids(1_000_000, 5))
    assert min(lived(disk, NOW_MS)) == first_id(1, NOW_MS, 5)


def test_a_store_never_uses_up_the_ids_until_the_next_is_opened() -> None:
    """As long as it creates no more than 32,000 topics, ledgers and cursors a second."""
    ids = taken(opened(MemoryDisk(salt=3), NOW_MS), 10 * IDS_PER_MS)
    assert max(ids) < first_id(1, NOW_MS + 10, 3)


@pytest.mark.parametrize("now_ms", [0, EPOCH_MS, NOW_MS, EPOCH_MS + AGE_MS_MAX, 1 << 62])
def test_json_and_javascript_can_hold_every_id(now_ms: int) -> None:
    ids = lived(MemoryDisk(), now_ms)
    assert min(ids) > 0
    assert max(ids) < SAFE_IN_JSON
