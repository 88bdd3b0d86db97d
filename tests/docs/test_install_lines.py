"""What the pages say to install can be installed before there is a release."""

import re
from pathlib import Path

import pytest
from docs.page import PAGES, name_of

READ = [page for page in PAGES if page.name != "CHANGELOG.md"]


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_a_page_installs_from_a_clone_and_not_from_an_index(page: Path) -> None:
    assert re.findall(r"pip install [\"']?magnetar\b.*", page.read_text()) == []


@pytest.mark.parametrize("page", READ, ids=name_of)
def test_no_page_ends_processes_by_their_name(page: Path) -> None:
    assert re.findall(r"\b(?:pkill|killall)\b.*", page.read_text()) == []
