"""`pip install` compiles where it can, and says where it cannot: `make installed` in short form.

The compiled one takes from the objects of `make compiled` what it would else compile for minutes.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.requirement import need

import magnetar

ROOT = Path(__file__).parent.parent
# Shells alone, and minutes on a busy machine.
pytestmark = pytest.mark.once
OBJECTS = ROOT / ".build" / "objects"


def installed(which: str, **variables: str) -> str:
    ours = ("MAGNETAR_", "PYTHON", "VIRTUAL_ENV", "COVERAGE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    ran = subprocess.run(
        [sys.executable, ROOT / "tools" / "installed.py", "--only", which],
        env=kept | variables,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_without_a_compiler_an_sdist_is_installed_pure_and_says_so() -> None:
    said = installed("pure")
    assert said.startswith(f"pip install magnetar-{magnetar.__version__}.tar.gz: ")
    assert "built pure: there is no C compiler" in said


@pytest.mark.skipif(
    "MAGNETAR_INSTALLED" not in os.environ, reason="minutes: make test-long and make newcomer do it"
)
def test_with_a_compiler_it_is_installed_compiled(tmp_path: Path) -> None:
    need("compiled", magnetar.COMPILED and OBJECTS.is_dir(), "`make compiled` builds it")
    # A copy, for a build forgets what it has no use for.
    shutil.copytree(OBJECTS, tmp_path / "objects", copy_function=os.link)
    said = installed("compiled", MAGNETAR_OBJECTS=str(tmp_path / "objects"))
    assert said.startswith(f"pip install .: magnetar {magnetar.__version__} (compiled), ")
