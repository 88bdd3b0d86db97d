"""The site has every page, and its pages can be written as Markdown is elsewhere.

That links lead somewhere is shown for the repository (`test_pages`); the site has its layout.
"""

import re
from pathlib import Path

import pytest
import site_pages
from docs.page import PAGES, ROOT, name_of

NAV = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)


def test_the_navigation_names_every_page_once() -> None:
    assert sorted(NAV) == sorted(name_of(page) for page in PAGES)


def test_the_site_is_made_of_the_pages_that_are_tested() -> None:
    assert site_pages.pages() == PAGES


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_list_has_an_empty_line_before_it(page: Path) -> None:
    text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^(?![-#|\s<]|\d+\. )(.+)\n- ", text, re.MULTILINE)
    assert found == [], f"{name_of(page)}: the site would not show a list below {found}"


def test_the_site_loads_nothing_from_the_network() -> None:
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings
    assert re.findall(r"https?://", settings) == []
