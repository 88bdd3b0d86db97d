"""Types as users see them, proved by mypy --strict and by pyright: what is right passes, each
mistake is found, and the examples pass both."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BINARIES = Path(sys.executable).parent
RIGHT = HERE / "right.py"
WRONG = HERE / "wrong.py"
EXAMPLES = ROOT / "examples"
MARK = "# wrong"

# Where a checker found something, and what.
Found = dict[tuple[Path, int], str]

pytestmark = pytest.mark.once


def mypy() -> Found:
    ran = subprocess.run(
        [BINARIES / "mypy", "--strict", "--output=json", str(RIGHT), str(WRONG), str(EXAMPLES)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    found: Found = {}
    for line in ran.stdout.splitlines():
        one = json.loads(line)
        if one["severity"] == "error":
            found[ROOT / one["file"], one["line"]] = one["message"]
    assert ran.returncode == 1, f"mypy failed, or found nothing wrong: {ran.stdout}"
    return found


def pyright() -> Found:
    ran = subprocess.run(
        [BINARIES / "pyright", "--outputjson", str(RIGHT), str(WRONG), str(EXAMPLES)],
        env=os.environ | {"PATH": f"{BINARIES}{os.pathsep}{os.environ['PATH']}"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    report = json.loads(ran.stdout)
    assert report["summary"]["filesAnalyzed"] > 2, ran.stdout
    return {
        (Path(one["file"]), one["range"]["start"]["line"] + 1): one["message"]
        for one in report["generalDiagnostics"]
        if one["severity"] == "error"
    }


@pytest.fixture(scope="module", params=[mypy, pyright], ids=["mypy", "pyright"])
def found(request: pytest.FixtureRequest) -> Found:
    """What a checker says of all files; each runs once."""
    checked: Found = request.param()
    return checked


def mistakes() -> Iterator[int]:
    for number, line in enumerate(WRONG.read_text().splitlines(), start=1):
        if line.endswith(f"  {MARK}"):
            yield number


def test_what_is_right_passes(found: Found) -> None:
    assert {where: what for where, what in found.items() if where[0] == RIGHT} == {}


def test_each_mistake_is_found_and_nothing_else(found: Found) -> None:
    lines = WRONG.read_text().splitlines()
    told = {where[1]: what for where, what in found.items() if where[0] == WRONG}
    missed = [lines[number - 1].strip() for number in mistakes() if number not in told]
    assert missed == []
    assert sorted(told) == list(mistakes()), told


def test_the_examples_pass(found: Found) -> None:
    problems = {where: what for where, what in found.items() if where[0] not in (RIGHT, WRONG)}
    assert problems == {}
