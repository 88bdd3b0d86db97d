"""The Java that Spark runs on: found where people put it, or a sentence on what to install."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from magnetar.errors import SettingsError

__all__ = ["JAVA_MIN", "find_java"]

JAVA_MIN = 17
_HOMES = (Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines"))


def find_java() -> Path:
    """Returns the home of a Java that is new enough, the oldest of several.

    Raises SettingsError.
    """
    found: list[str] = []
    for home in _candidates():
        version = _version_of(home)
        if version >= JAVA_MIN:
            return home
        if version:
            found.append(f"{home} is {version}")
    raise SettingsError(
        "JAVA_HOME",
        f"Spark needs Java {JAVA_MIN} or newer and there is none"
        f"{' (' + ', '.join(found) + ')' if found else ''}: install it (Debian and Ubuntu: "
        "apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) "
        "or set JAVA_HOME",
    )


def _candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    java = shutil.which("java")
    if java is not None:
        yield Path(java).resolve().parent.parent
    homes = [home for place in _HOMES if place.is_dir() for home in place.iterdir()]
    homes += [home / "Contents" / "Home" for home in homes]
    there = sorted(home for home in homes if (home / "bin" / "java").exists())
    yield from sorted(there, key=_version_of)


def _version_of(home: Path) -> int:
    """Returns the major version of the Java there, 0 if there is none."""
    try:
        said = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else 0
