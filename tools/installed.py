"""Installs the package as a newcomer does, with a C compiler and without, and looks at both.

    python3 tools/installed.py

1. `pip install .` into a clean environment: it is compiled, where a C compiler and Python.h are.
2. `pip install` of the sdist, where no C compiler is: it is pure, and says why in one line.

pip builds both in isolation, from what it downloads itself. Each installation then serves, sends
and receives (tools/first_steps.py). Ends with how many packages came and how large they are; a
claim that does not hold ends it with 1. Compiling takes minutes: MAGNETAR_OBJECTS, as
tools/hatch_build.py has it, keeps what was compiled for the next time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent
NO_COMPILER = {"CC": "no-such-compiler"}
# They are there before, and are not ours.
NOT_OURS = ("pip", "setuptools")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=["compiled", "pure"], help="one of the two")
    only: str | None = parser.parse_args().only
    with tempfile.TemporaryDirectory(prefix="installed-") as directory:
        place = Path(directory)
        if only != "pure":
            compiled(place)
        if only != "compiled":
            pure(place)
    return 0


def compiled(place: Path) -> None:
    """With a compiler, from the sources."""
    home = environment(place / "compiled")
    run(home / "pip", "install", "--quiet", str(ROOT))
    said = version(home)
    if "(compiled)" not in said and "C compiler" in said:
        print(f"pip install .: {said}; there is nothing to compile with here", flush=True)
        return
    require("(compiled)" in said, said)
    run(home / "python", ROOT / "tools" / "first_steps.py", "--compiled")
    print(f"pip install .: {said}, {weight(home.parent)}", flush=True)


def pure(place: Path) -> None:
    """Without one, from the sdist."""
    home = environment(place / "pure")
    builder = environment(place / "builder")
    run(builder / "pip", "install", "--quiet", "hatchling")
    run(builder / "python", "-m", "hatchling", "build", "-t", "sdist", "-d", place / "sdist")
    (sdist,) = (place / "sdist").iterdir()
    told = run(home / "pip", "install", "--verbose", sdist, **NO_COMPILER)
    lines = [line for line in told.splitlines() if "magnetar is built pure" in line]
    require(len(lines) == 1, f"{len(lines)} lines of pip's say that it is built pure")
    said = version(home)
    require(
        said.endswith("(interpreted, built pure: there is no C compiler (no-such-compiler))"), said
    )
    run(home / "python", ROOT / "tools" / "first_steps.py")
    print(f"pip install {sdist.name}: {said}, {weight(home.parent)}", flush=True)


def environment(place: Path) -> Path:
    """A clean virtual environment; where its commands are."""
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    return place / "bin"


def version(home: Path) -> str:
    return run(home / "magnetar", "--version").strip()


def run(*command: str | Path, **variables: str) -> str:
    """What a command says; one that fails ends everything."""
    ran = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k not in ("CC", "PYTHONPATH")} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    require(ran.returncode == 0, f"{' '.join(map(str, command))} failed:\n{ran.stdout}")
    return ran.stdout


def require(holds: bool, claim: str) -> None:
    if not holds:
        raise SystemExit(f"installed: {claim}")


def weight(venv: Path) -> str:
    """How many packages are there, ours among them, and how large their files are."""
    found = list(packages(venv))
    total = sum(size for _, size in found)
    return f"{len(found)} packages, {total / 1e6:.0f} MB"


def packages(venv: Path) -> Iterator[tuple[str, int]]:
    """The packages of an environment: the name and the bytes of each."""
    paths = [str(path) for path in venv.glob("lib/python*/site-packages")]
    for package in distributions(path=paths):
        if package.name not in NOT_OURS:
            yield package.name, size_of(package)


def size_of(package: Distribution) -> int:
    files = [Path(str(package.locate_file(file))) for file in package.files or []]
    return sum(file.stat().st_size for file in files if file.is_file())


if __name__ == "__main__":
    sys.exit(main())
