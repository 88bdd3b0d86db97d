"""A file that a page or a docstring names is there: files move, and what tells of them stays."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "tools", "benchmarks", "examples", "docs")
NAMED = re.compile(r"`([\w./-]+\.py)`")
THERE = [
    f"/{path.relative_to(ROOT).as_posix()}"
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
]
# What it tells is of its time.
HISTORY = "CHANGELOG.md"
PAGES = [path for path in ROOT.glob("*.md") if path.name != HISTORY]
PAGES += (ROOT / "docs").rglob("*.md")
PAGES += [path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")]


def named_by(path: Path) -> set[str]:
    return set(NAMED.findall(path.read_text()))


NAMING = [path for path in PAGES if named_by(path)]


@pytest.mark.parametrize("path", NAMING, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_file_that_is_named_is_there(path: Path) -> None:
    missing = [name for name in named_by(path) if not any(f.endswith(f"/{name}") for f in THERE)]
    assert missing == []
