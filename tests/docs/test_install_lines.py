"""What the pages say to install can be installed before there is a release."""

import re
from pathlib import Path

import pytest
from docs.page import PAGES, ROOT, name_of

PROGRAMS = sorted([*ROOT.glob("examples/**/*.py"), *ROOT.glob("src/**/*.py")])
READ = [page for page in PAGES if page.name != "CHANGELOG.md"]
INDEX = r"pip install [\"']?magnetar\b.*"


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_a_page_installs_from_a_clone_and_not_from_an_index(page: Path) -> None:
    assert re.findall(INDEX, page.read_text()) == []


def test_no_program_and_no_error_installs_from_an_index() -> None:
    said = [name_of(path) for path in PROGRAMS if re.search(INDEX, path.read_text())]
    assert said == []


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_no_page_ends_processes_by_their_name(page: Path) -> None:
    assert re.findall(r"\b(?:pkill|killall)\b.*", page.read_text()) == []
