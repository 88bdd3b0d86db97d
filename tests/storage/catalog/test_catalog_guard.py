"""The catalog against the journal: what is missing, older or damaged is not taken in silence."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from storage.by_hand import BEHIND_ALL, publish
from storage.conftest import House

from magnetar.storage import (
    Catalog,
    CatalogLossError,
    CatalogMark,
    DiskFullError,
    Retention,
)
from magnetar.storage.catalog.catalog_guard import COPY, copy_catalog, open_catalog
from magnetar.storage.catalog.catalog_mark import item_digest

RIGHT = ("permissions", "public/default", '{"guest": ["produce"]}')


def killed(directory: Path, target: Path) -> CatalogMark:
    """A directory as kill -9 leaves it: a right was granted, and taken back; both in the WAL."""
    directory.mkdir()
    catalog = Catalog(directory)
    catalog.put(*RIGHT)
    catalog.delete(*RIGHT[:2])
    shutil.copytree(directory, target)
    catalog.close()
    return catalog.mark


@contextmanager
def opened(
    directory: Path, known: CatalogMark | None, *, accept_loss: bool = False
) -> Iterator[Catalog]:
    catalog = open_catalog(directory, known, accept_loss=accept_loss)
    try:
        yield catalog
    finally:
        catalog.close()


def flip(file: Path, offset: int) -> None:
    data = bytearray(file.read_bytes())
    data[offset] ^= 1
    file.write_bytes(data)


def test_the_catalog_that_the_journal_knows_is_taken(tmp_path: Path) -> None:
    known = killed(tmp_path / "a", tmp_path / "b")
    assert known.generation == 2
    with opened(tmp_path / "b", known) as catalog:
        assert catalog.get(*RIGHT[:2]) is None
        catalog.put(*RIGHT)
        ahead = catalog.mark
    with opened(tmp_path / "b", known) as catalog:  # the journal had not heard of it yet
        assert catalog.mark.generation == ahead.generation == 3


def test_a_bit_that_flips_in_the_wal_does_not_bring_a_right_back(tmp_path: Path) -> None:
    known = killed(tmp_path / "a", tmp_path / "b")
    wal = tmp_path / "b" / "catalog.sqlite-wal"
    refused = 0
    for offset in range(40, wal.stat().st_size, 501):
        shutil.rmtree(tmp_path / "c", ignore_errors=True)
        shutil.copytree(tmp_path / "b", tmp_path / "c")
        flip(tmp_path / "c" / wal.name, offset)
        try:
            with opened(tmp_path / "c", known) as catalog:
                assert catalog.get(*RIGHT[:2]) is None
        except CatalogLossError as error:
            refused += 1
            assert "the journal knows generation 2" in str(error)
            assert "restore the directory from a backup" in str(error)
            assert "--accept-loss" in str(error)
    assert refused > 10


def test_a_bit_that_flips_in_an_entry_is_found(tmp_path: Path) -> None:
    with opened(tmp_path, None) as catalog:
        catalog.put(*RIGHT)
        known = catalog.mark
    file = tmp_path / "catalog.sqlite"
    flip(file, file.read_bytes().index(b"guest"))
    with pytest.raises(CatalogLossError, match="are not what was written"):
        open_catalog(tmp_path, known)


def test_a_catalog_that_is_gone_is_missed_and_none_is_begun(tmp_path: Path) -> None:
    with pytest.raises(CatalogLossError, match="is missing"):
        open_catalog(tmp_path, CatalogMark(3, 5))
    assert list(tmp_path.iterdir()) == []


def test_another_catalog_of_the_same_generation_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, None) as catalog:
        catalog.put(*RIGHT)
        known = CatalogMark(catalog.mark.generation, catalog.mark.digest ^ 1)
    with pytest.raises(CatalogLossError, match="not those of generation 1"):
        open_catalog(tmp_path, known)


def test_a_catalog_of_an_older_version_is_taken_and_marked(tmp_path: Path) -> None:
    with opened(tmp_path, None) as catalog:
        catalog.put(*RIGHT)
        catalog._database.execute("DROP TABLE mark")
        catalog._database.execute("PRAGMA user_version = 1")
    with opened(tmp_path, None) as catalog:
        assert catalog.mark.digest == item_digest(*RIGHT)
        assert catalog.get(*RIGHT[:2]) == RIGHT[2]


def with_copy(directory: Path) -> CatalogMark:
    """A catalog of two entries, and a copy that knows the first."""
    with opened(directory, None) as catalog:
        catalog.put("a", "b", "1")
        copy_catalog(directory / "catalog.sqlite")
        catalog.put("a", "c", "2")
        return catalog.mark


def test_the_last_good_copy_is_told_of_and_can_be_copied_back(tmp_path: Path) -> None:
    known = with_copy(tmp_path)
    (tmp_path / "catalog.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(CatalogLossError, match="loses the last 1 changes"):
        open_catalog(tmp_path, known)
    shutil.copyfile(tmp_path / COPY, tmp_path / "catalog.sqlite")
    with pytest.raises(CatalogLossError, match="it is at generation 1"):
        open_catalog(tmp_path, known)
    with opened(tmp_path, CatalogMark(1, item_digest("a", "b", "1"))) as catalog:
        assert catalog.items("a") == [("b", "1")]


def test_a_damaged_catalog_does_not_take_the_place_of_the_good_copy(tmp_path: Path) -> None:
    with_copy(tmp_path)
    good = (tmp_path / COPY).read_bytes()
    file = tmp_path / "catalog.sqlite"
    data = file.read_bytes()
    file.write_bytes(data.replace(b"c2", b"c3").replace(b"ab1", b"ab7"))
    assert file.read_bytes() != data
    with pytest.raises(CatalogLossError):
        copy_catalog(file)
    assert (tmp_path / COPY).read_bytes() == good


@pytest.mark.parametrize("left", ["older", "copy", "nothing"])
def test_an_operator_who_accepts_a_loss_goes_on_with_what_is_left(
    tmp_path: Path, left: str
) -> None:
    known = with_copy(tmp_path)
    if left == "older":
        known = CatalogMark(known.generation + 5, 1)
    else:
        (tmp_path / "catalog.sqlite").write_bytes(b"no database" * 1000)
    if left == "nothing":
        (tmp_path / COPY).unlink()
    with opened(tmp_path, known, accept_loss=True) as catalog:
        expected = {"older": [("b", "1"), ("c", "2")], "copy": [("b", "1")], "nothing": []}[left]
        assert catalog.items("a") == expected
        assert catalog.mark.generation == known.generation + 1
        now = catalog.mark
    with opened(tmp_path, now) as catalog:
        assert catalog.items("a") == expected


# ---- In the journal ----------------------------------------------------------------


def test_what_the_catalog_was_outlives_restarts_and_reclaim(house: House) -> None:
    store = house.store
    assert store.catalog_mark is None
    busy = store.create_topic("busy")
    mark = CatalogMark(7, 1 << 100)
    assert store.note_catalog(mark)
    assert not store.note_catalog(mark)
    for _ in range(5):
        publish(store, busy, 60, 400)
        store.flush()
        store.seal_topic(busy)
        store.flush()
        store.trim(busy, BEHIND_ALL, Retention())
        house.work_off()
    assert 1 not in store.log.lengths
    for clean in (True, False):
        store = house.reopen(clean=clean)
        assert store.catalog_mark is not None
        assert (store.catalog_mark.generation, store.catalog_mark.digest) == (7, 1 << 100)
        assert not store.note_catalog(mark)


def test_a_change_whose_group_failed_is_noted_again(house: House) -> None:
    store = house.store
    assert store.note_catalog(CatalogMark(1, 1))
    job = store.next_write()
    assert job is not None
    store.finish_write(job, DiskFullError("write to", "x", "No space left"))
    assert store.catalog_mark is None
    assert store.note_catalog(CatalogMark(1, 1))
    store.flush()
    assert store.catalog_mark is not None
