"""Every example runs, in a process of its own; so does the code in the README."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_there_are_examples() -> None:
    assert EXAMPLES
    assert BLOCKS


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda p: p.name)
def test_example_runs(example: Path) -> None:
    ran = subprocess.run([sys.executable, str(example)], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout


@pytest.mark.parametrize("block", BLOCKS)
def test_the_readme_prints_what_it_says(block: str) -> None:
    ran = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    expected = [comment.strip() for comment in re.findall(r"print\(.*#(.*)", block)]
    assert ran.stdout.splitlines() == expected
