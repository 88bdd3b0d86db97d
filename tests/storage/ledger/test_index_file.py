"""Index files: as many at hand as there may be, and the others when they are asked for."""

import pytest
from storage.by_hand import publish, texts
from storage.conftest import House
from storage.workload import Clock, small_options

from magnetar.model import Position
from magnetar.storage import (
    CorruptionError,
    DiskError,
    MemoryDisk,
    StoreOptions,
    check,
    open_store,
)
from magnetar.storage.ledger.index_file import IndexFiles, MappedIndex
from magnetar.storage.ledger.ledger_index import HeapIndex, index_path
from magnetar.storage.store import attempt

SALT = 7
LARGE = 200


class CountingDisk(MemoryDisk):
    """A disk that lets few files be mapped, and counts how often one is."""

    def __init__(self, maps_max: int) -> None:
        super().__init__()
        self._maps_max = maps_max
        self.mapped: list[str] = []

    def maps_max(self) -> int:
        return self._maps_max

    def map(self, path: str) -> memoryview:
        self.mapped.append(path)
        return super().map(path)


def written(disk: MemoryDisk, ledger_id: int, entries: int) -> None:
    index = HeapIndex(ledger_id)
    for i in range(entries):
        index.put(i, (1 << 32) + 100 * i, length=50, batch_size=1, publish_time_ms=1000 + i)
    disk.replace(index_path(ledger_id), index.encode(ledger_id, SALT))


def found(files: IndexFiles, ledger_id: int) -> MappedIndex:
    index = files.find(ledger_id)
    assert index is not None
    return index


def make(
    maps_max: int, ledgers: int, entries: int = LARGE
) -> tuple[CountingDisk, list[MappedIndex]]:
    disk = CountingDisk(maps_max)
    for ledger_id in range(ledgers):
        written(disk, ledger_id, entries)
    files = IndexFiles(disk, SALT)
    indexes = [found(files, ledger_id) for ledger_id in range(ledgers)]
    disk.mapped.clear()
    return disk, indexes


def test_what_a_restart_wants_to_know_needs_no_file_at_hand() -> None:
    disk, indexes = make(2, 5)
    assert [index.count() for index in indexes] == [LARGE] * 5
    assert [index.size_bytes() for index in indexes] == [50 * LARGE] * 5
    assert [index.usage() for index in indexes] == [{1: 90 * LARGE}] * 5
    assert [index.held for index in indexes] == [None] * 5
    assert disk.mapped == []


def test_no_more_files_are_at_hand_than_may_be_mapped() -> None:
    _, indexes = make(3, 20)
    for _ in range(2):
        for index in indexes:
            assert index.address(5) == (1 << 32) + 500
            assert index.publish_time_ms(7) == 1007
            assert sum(other.held is not None for other in indexes) <= 3


def test_a_file_that_is_used_all_the_time_stays_at_hand() -> None:
    disk, indexes = make(3, 20)
    for index in indexes:
        assert indexes[0].length(1) == index.length(1) == 50
    assert disk.mapped.count(index_path(0)) == 1


def test_small_files_are_read_once_and_take_the_room_of_none_that_is_mapped() -> None:
    disk, indexes = make(1, 100, entries=3)
    assert [index.batch_size(2) for index in indexes] == [1] * 100
    assert disk.mapped == []


def test_a_ledger_that_is_gone_keeps_nothing_at_hand() -> None:
    _, indexes = make(3, 2)
    columns = indexes[0].columns()
    assert indexes[0].release() is columns
    assert indexes[0].release() is None
    assert indexes[0].held is None


def test_a_file_that_became_another_is_damage() -> None:
    disk, indexes = make(3, 1)
    written(disk, 0, LARGE - 1)
    with pytest.raises(CorruptionError, match="remove it, it is made anew"):
        indexes[0].address(0)
    disk.files[index_path(0)][20] ^= 1
    with pytest.raises(CorruptionError, match="the index file is damaged"):
        indexes[0].address(0)


def test_entries_in_front_of_an_index_that_is_gone_are_read(house: House) -> None:
    topic_id = house.store.create_topic("t")
    publish(house.store, topic_id, 30)
    house.store.flush()
    (_, second, _) = [ledger.id for ledger in house.store.ledgers(topic_id)]
    path = index_path(second)
    data = house.disk.read(path, 0, house.disk.size(path))
    house.disk.remove(path)
    assert texts(house.store, topic_id) == list(range(12))
    with pytest.raises(DiskError, match="No such file"):
        house.store.read(topic_id, Position(second, 0), entries_max=1, bytes_max=1 << 20)
    house.disk.replace(path, data)
    assert texts(house.store, topic_id) == list(range(30))


@pytest.mark.parametrize("clean", [True, False])
def test_a_store_opens_before_the_index_files_that_are_missing_are_written(
    house: House, clean: bool
) -> None:
    topics = [house.store.create_topic(str(i)) for i in range(30)]
    for topic_id in topics:
        publish(house.store, topic_id, 3)
    house.store.flush()
    store = house.reopen(clean=clean)
    assert house.disk.names("index") == []
    assert [texts(store, topic_id) for topic_id in topics] == [[0, 1, 2]] * 30
    store.flush()
    assert len(house.disk.names("index")) == 30
    assert [texts(store, topic_id) for topic_id in topics] == [[0, 1, 2]] * 30


def test_the_free_space_is_looked_at_while_many_index_files_are_written() -> None:
    disk, clock = MemoryDisk(), Clock()
    store = open_store(disk, clock, small_options())
    for i in range(300):
        publish(store, store.create_topic(str(i)), 1)
    store.flush()
    store.close()
    store = open_store(disk, clock, small_options(watermark_bytes=1000))
    chores: list[str] = []
    while not store.full:
        chore = store.next_chore()
        assert chore is not None
        chores.append(chore.kind)
        store.finish_chore(chore, attempt(chore, disk))
        if len(chores) == 100:
            disk.capacity = 0
        clock.now_ms += 100
    assert chores.count("writing the index of a ledger") > 50
    assert len(chores) < 115


@pytest.mark.parametrize("entries", [5, 500])
@pytest.mark.parametrize("column", ["batch size", "publish time"])
def test_damaged_columns_are_never_believed(entries: int, column: str) -> None:
    """No record tells that a batch size or a time is wrong: only the checksum does."""
    disk = MemoryDisk()
    options = StoreOptions(ledger_entries_max=entries)
    store = open_store(disk, lambda: 1, options)
    topic_id = store.create_topic("t")
    for _ in range(entries):
        store.append(topic_id, b"entry", batch_size=3, publish_time_ms=7)
    store.close()
    store = open_store(disk, lambda: 1, options)
    store.flush()  # index files are written when what they speak of is durable
    store.close()
    (path,) = [f"index/{name}" for name in disk.names("index")]
    at = len(disk.files[path]) - 2 if column == "batch size" else 64 + 8 * entries + 4
    disk.files[path][at] ^= 1
    assert [one.reason for one in check(disk)] == ["the columns are damaged"]
    store = open_store(disk, lambda: 1, options)
    (ledger,) = store.log.state.ledgers.values()
    if entries == 5:  # made anew from the log
        assert (ledger.index.batch_size(4), ledger.index.publish_time_ms(0)) == (3, 7)
    else:
        with pytest.raises(CorruptionError, match="the index file is damaged"):
            ledger.index.batch_size(4)
