"""Whoever builds a wheel of the same sources gets the same bytes: anywhere, at any time.

Two builds: in two directories, with another name, clock zone, umask, seed of hashes and age of
the files. The compiled one takes minutes twice, so it is in the long form: MAGNETAR_REPRODUCIBLE.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.program import load
from support.requirement import need

ROOT = Path(__file__).parent.parent
# What a wheel is made of.
SOURCES = ("src", "tools/hatch_build.py", "pyproject.toml", "README.md", "LICENSE")
LONG = bool(os.environ.get("MAGNETAR_REPRODUCIBLE"))


def copied(place: Path, age_s: int) -> Path:
    """The sources in a directory of their own, as old as that."""
    for name in SOURCES:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, place / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, place / name)
    for path in place.rglob("*"):
        os.utime(path, (1_700_000_000 - age_s,) * 2)
    return place


def built(place: Path, *, compiled: bool, umask: int, **variables: str) -> Path:
    own = ("MAGNETAR_", "SOURCE_DATE_EPOCH", "PYTHONPATH")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(own)}
    environment |= {"MAGNETAR_COMPILE": "yes" if compiled else "no", **variables}
    ran = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place / "dist")],
        cwd=place,
        env=environment,
        umask=umask,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (wheel,) = (place / "dist").iterdir()
    return wheel


def contents(wheel: Path) -> dict[str, tuple[str, int]]:
    """What is in it: of each file a digest and its mode."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            info.filename: (
                hashlib.sha256(archive.read(info)).hexdigest(),
                info.external_attr >> 16,
            )
            for info in archive.infolist()
        }


def compare(place: Path, *, compiled: bool) -> None:
    one = copied(place / "one", 0)
    other = copied(place / "another" / "place", 86_400)
    first = built(one, compiled=compiled, umask=0o022, TZ="UTC", PYTHONHASHSEED="1")
    second = built(other, compiled=compiled, umask=0o077, TZ="Asia/Tokyo", PYTHONHASHSEED="2")
    assert contents(first) == contents(second)
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_two_pure_wheels_are_the_same(tmp_path: Path) -> None:
    compare(tmp_path, compiled=False)


@pytest.mark.skipif(not LONG, reason="compiles twice: in the long form")
def test_two_compiled_wheels_are_the_same(tmp_path: Path) -> None:
    why = load(ROOT / "tools" / "hatch_build.py").obstacle()
    need("compiled", not why, why)
    compare(tmp_path, compiled=True)
