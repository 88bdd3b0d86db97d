"""Names, policies, schemas and tokens."""

import sqlite3
from pathlib import Path

import pytest

from magnetar.storage import Catalog, DiskError, FormatVersionError, StorageError


@pytest.mark.parametrize("where", ["memory", "file"])
def test_values_are_kept_by_space_and_key(tmp_path: Path, where: str) -> None:
    catalog = Catalog(tmp_path if where == "file" else None)
    catalog.put("schemas", "public/default/t", "1")
    catalog.put("policies", "public/default/t", "2")
    catalog.put("policies", "public/default/t", "3")
    catalog.put("policies", "public/other/%", "4")
    assert catalog.get("schemas", "public/default/t") == "1"
    assert catalog.get("policies", "public/default/t") == "3"
    assert catalog.get("tokens", "public/default/t") is None
    assert catalog.items("policies", "public/d") == [("public/default/t", "3")]
    assert catalog.items("policies", "public/other/%") == [("public/other/%", "4")]
    assert [key for key, _ in catalog.items("policies")] == ["public/default/t", "public/other/%"]
    assert catalog.delete("policies", "public/other/%")
    assert not catalog.delete("policies", "public/other/%")
    assert catalog.add("tokens", "a", "null")
    assert not catalog.add("tokens", "a", "1")
    assert catalog.get("tokens", "a") == "null"
    assert catalog.problems() == []
    catalog.close()


def test_the_catalog_is_there_after_a_restart(tmp_path: Path) -> None:
    first = Catalog(tmp_path)
    first.put("topics", "t", "{}")
    # Not closed: what was put is durable without it.
    second = Catalog(tmp_path)
    assert second.items("topics") == [("t", "{}")]
    first.close()
    second.close()


def test_what_is_not_json_is_refused() -> None:
    catalog = Catalog()
    with pytest.raises(DiskError, match="CHECK constraint"):
        catalog.put("policies", "t", "{")
    assert catalog.get("policies", "t") is None
    catalog.close()


def test_a_catalog_of_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    Catalog(tmp_path).close()
    database = sqlite3.connect(tmp_path / "catalog.sqlite")
    database.execute("PRAGMA user_version = 9")
    database.close()
    before = (tmp_path / "catalog.sqlite").read_bytes()
    with pytest.raises(FormatVersionError, match="catalog"):
        Catalog(tmp_path)
    assert (tmp_path / "catalog.sqlite").read_bytes() == before


def test_a_catalog_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match=r"cannot open .*nowhere"):
        Catalog(tmp_path / "nowhere")


def test_a_damaged_catalog_raises_storage_errors_and_nothing_else(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    for i in range(300):
        catalog.put("policies", f"public/default/{i}", '{"ttl": 60}')
    catalog.close()
    path = tmp_path / "catalog.sqlite"
    whole = path.read_bytes()
    texts: set[str] = set()
    for offset in [*range(110), *range(3900, len(whole), 61)]:
        damaged = bytearray(whole)
        damaged[offset : offset + 8] = b"\xff" * 8
        path.write_bytes(damaged)
        try:
            catalog = Catalog(tmp_path)
        except StorageError as error:
            texts.add(str(error))
            continue
        for look in (catalog.problems, lambda c=catalog: c.items("policies")):
            try:
                look()
            except StorageError as error:
                texts.add(str(error))
        catalog.close()
    assert any("malformed" in text for text in texts)
    assert any("cannot open" in text for text in texts)


def test_a_catalog_whose_texts_are_none_says_so(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path)
    catalog.put("policies", "the key", '"v"')
    catalog.close()
    path = tmp_path / "catalog.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"the key", b"\xff\xfe  key"))
    with pytest.raises(DiskError, match=r"cannot open .* decode to UTF-8"):
        Catalog(tmp_path)
    # The name of the table is part of what SQLite says.
    damaged = whole.replace(b"tableitemitem", b"table\xff\xfe\xfd\xfcitem")
    path.write_bytes(damaged.replace(b"CREATE TABLE", b"CREATE BABEL"))
    with pytest.raises(DiskError, match="the catalog is damaged: a text is not UTF-8"):
        Catalog(tmp_path)
