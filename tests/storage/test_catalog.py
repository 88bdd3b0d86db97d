"""Names, policies, schemas and tokens."""

import sqlite3
from pathlib import Path

import pytest

from magnetar.storage import Catalog, DiskError, FormatVersionError


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
    with pytest.raises(DiskError, match="unable to open"):
        Catalog(tmp_path / "nowhere")
