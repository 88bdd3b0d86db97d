"""What tests use where it is there: names in one line what is missing, or installs it.

Chromium alone takes 300 MB, so a machine that is somebody's gets nothing without a word: Debian's
packages are installed where INSTALL=1 or CI asks for it, and apt-get asks nobody, because we are
root or sudo wants no password. It is never an error: what is missing is left out, unless
MAGNETAR_REQUIRE names it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["PROGRAMS", "main", "missing", "way"]

# Program, Debian's package, and what is not tested without it.
PROGRAMS: Final = (
    ("chromium", "chromium", "the console"),
    ("npm", "npm", "accessibility of the console"),
    ("promtool", "prometheus", "metrics and alerts"),
    ("logrotate", "logrotate", "rotation of logs"),
)
# Packages whose service nobody asked for.
SERVICES: Final = ("prometheus",)
WISHES: Final = ("INSTALL", "CI")
YES: Final = ("1", "yes", "true")


def main() -> int:
    lacking = missing()
    if not lacking:
        return 0
    asked = any(os.environ.get(name, "").lower() in YES for name in WISHES)
    prefix = way() if asked else None
    if prefix is not None:
        install(prefix, [package for _, package, _ in lacking])
        lacking = missing()
    if lacking:
        print(words(lacking, asked=asked), file=sys.stderr)
    return 0


def missing() -> list[tuple[str, str, str]]:
    return [one for one in PROGRAMS if shutil.which(one[0]) is None]


def words(lacking: list[tuple[str, str, str]], *, asked: bool) -> str:
    left_out = ", ".join([f"{program} ({what})" for program, _, what in lacking])
    packages = " ".join([package for _, package, _ in lacking])
    or_here = "" if asked else ", or make test INSTALL=1"
    return f"not here, so left out: {left_out}; apt-get install {packages}{or_here}"


def way() -> list[str] | None:
    """How to run apt-get without being asked anything; None if there is none."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo is None or subprocess.run([sudo, "-n", "true"], capture_output=True).returncode:
        return None
    return [sudo, "-n"]


def install(prefix: list[str], packages: list[str]) -> None:
    """Says what went wrong, if anything did; and stops the services that it starts."""
    print(f"installing {' '.join(packages)}", file=sys.stderr)
    options = ["-y", "-q", "--no-install-recommends"]
    command = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", *options]
    done = subprocess.run([*command, *packages], capture_output=True, text=True)
    if done.returncode:
        print(f"apt-get: {done.stderr.strip() or done.returncode}", file=sys.stderr)
    if Path("/run/systemd/system").is_dir():
        for service in SERVICES:
            if service in packages:
                stop = [*prefix, "systemctl", "disable", "--quiet", "--now", service]
                subprocess.run(stop, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
