"""Every code block in the documentation runs and does what the page says; links lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs.page import LANGUAGES, PAGES, SETTING, PageRun, blocks_of, name_of
from support.broker_process import BrokerProcess
from support.java import spark_environment

SPARK = re.compile(r"\bpyspark\b|\bmagnetar.spark\b|\bmagnetar pipeline\b")
PROGRAMS = [page for page in PAGES if any(b.language != "text" for b in blocks_of(page))]


def test_there_are_programs() -> None:
    assert len(PROGRAMS) > 10


@pytest.fixture
def run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageRun]:
    if any(SPARK.search(block.text) for block in blocks_of(page)):
        for name, value in spark_environment(tmp_path).items():
            monkeypatch.setenv(name, value)
    options = [word for setting in SETTING.findall(page.read_text()) for word in ("--set", setting)]
    with BrokerProcess(tmp_path / "broker", options=options) as broker:
        home = tmp_path / "page"
        home.mkdir()
        with PageRun(home, broker.url, broker.http_url) as run:
            yield run


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    fences = re.findall(r"^ *```", page.read_text(), re.MULTILINE)
    blocks = blocks_of(page)
    assert len(fences) == 2 * len(blocks)
    assert [b.place for b in blocks if b.language not in LANGUAGES] == []


@pytest.mark.parametrize("page", PROGRAMS, ids=name_of)
def test_the_page_runs(page: Path, run: PageRun) -> None:
    for block in blocks_of(page):
        run.run(block)
    run.finish()


# ---- Links -----------------------------------------------------------------------------


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives to headings."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(plain.replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{name_of(page)} links to {target}"
        if anchor:
            assert anchor in anchors_of(goal), f"{name_of(page)} links to {target}"
