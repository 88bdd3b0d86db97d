"""Runs a command, unless it passed before and nothing that it could read has changed since.

    unchanged.py tests-compiled command ...     runs it, and ends as it ended

What it could read: every file here but what is built or cached, the Python and its packages, the
programs and the settings below. The digest of all that is kept in .build/passed when the command
passes, and only if nothing changed while it ran. FORCE=1 runs it in any case, and so does CI.
"""

import datetime
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from programs import PROGRAMS as TESTED

ROOT = Path(__file__).parent.parent
PASSED = ROOT / ".build" / "passed"
# What no test reads: what is built, installed or cached here. The compiled package is known by
# its own digest, and Apache Pulsar by the list of its files.
IGNORED = {
    ".build",
    ".coverage",
    ".git",
    ".hypothesis",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".schemathesis",
    ".venv",
    "__pycache__",
    "dist",
}
BUILT = (".build/compiled.digest", ".build/apache/*/*.classpath")
PROGRAMS = (
    *("java", "mvn", "cc", "gcc", "git", "node", "setpriv"),
    *[program for program, _, _ in TESTED],
)
SETTINGS = ("MAGNETAR_", "HYPOTHESIS_", "JAVA_", "SPARK_", "WORKERS")


def main(arguments: list[str]) -> int:
    name, *command = arguments
    stamp = PASSED / name
    before = digest(command)
    if not forced() and stamp.exists() and stamp.read_text().split()[0] == before:
        passed = datetime.datetime.fromtimestamp(stamp.stat().st_mtime)
        print(
            f"== unchanged since it passed at {passed:%Y-%m-%d %H:%M:%S} ({before[:12]}); "
            "FORCE=1 runs it again"
        )
        return 0
    stamp.unlink(missing_ok=True)
    code = subprocess.run(command).returncode
    if code == 0 and digest(command) == before:
        PASSED.mkdir(parents=True, exist_ok=True)
        stamp.write_text(f"{before}\n")
    return code


def forced() -> bool:
    return bool(os.environ.get("FORCE") or os.environ.get("CI"))


def digest(command: list[str]) -> str:
    """One text for all that may decide how the command ends."""
    total = hashlib.sha256(repr([command, *surroundings()]).encode())
    for path in sorted([*files(ROOT), *(p for pattern in BUILT for p in ROOT.glob(pattern))]):
        total.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def surroundings() -> list[object]:
    """Python, its packages, programs and settings."""
    packages = sorted((d.name, d.version) for d in metadata.distributions())
    programs = [(name, os.path.realpath(shutil.which(name) or "")) for name in PROGRAMS]
    settings = sorted(item for item in os.environ.items() if item[0].startswith(SETTINGS))
    return [sys.version, packages, programs, settings]


def files(directory: Path) -> Iterator[Path]:
    """The files in a directory and below, without what is built."""
    for path in directory.iterdir():
        if path.name in IGNORED or path.suffix == ".pyc":
            continue
        if path.is_symlink() or not path.is_dir():
            if path.is_file():
                yield path
        else:
            yield from files(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
