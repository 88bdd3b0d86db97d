"""Finds a JDK for Spark, installs Debian's where that may be done, or says what to install.

Spark 4 wants Java 17 or newer. It is looked for where people put it: JAVA_HOME, the PATH and
/usr/lib/jvm. Root on a system with apt-get may install one with `--install`, which `make test`
asks for; everybody else is told the command. Prints JAVA_HOME.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

JAVA_MIN = 17
PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")
ADVICE = (
    f"Spark needs Java {JAVA_MIN} or newer: install it (Debian and Ubuntu: apt-get install "
    f"{PACKAGES[0]}; macOS: brew install openjdk@17) or set JAVA_HOME"
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--install", action="store_true", help="install it if that may be done")
    home = find_java()
    if home is None and parser.parse_args().install:
        home = install_java()
    if home is None:
        print(ADVICE, file=sys.stderr)
        return 1
    print(home)
    return 0


def find_java() -> Path | None:
    """The home of a Java that is new enough, the oldest of several."""
    for home in candidates():
        if version_of(home) >= JAVA_MIN:
            return home
    return None


def candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    java = shutil.which("java")
    if java is not None:
        yield Path(java).resolve().parent.parent
    places = [Path("/usr/lib/jvm"), Path("/Library/Java/JavaVirtualMachines")]
    homes = [home for place in places if place.is_dir() for home in place.iterdir()]
    homes += [home / "Contents" / "Home" for home in homes]
    yield from sorted((home for home in homes if (home / "bin" / "java").exists()), key=version_of)


def version_of(home: Path) -> int:
    """The major version of the Java there, 0 if there is none."""
    try:
        said = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else 0


def install_java() -> Path | None:
    """Debian's, if we are root and there is apt-get."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    for package in PACKAGES:
        print(f"installing {package} for Spark", file=sys.stderr)
        command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", package]
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        ran = subprocess.run(command, env=environment, stdout=sys.stderr, timeout=600)
        if ran.returncode == 0:
            return find_java()
    return None


if __name__ == "__main__":
    sys.exit(main())
