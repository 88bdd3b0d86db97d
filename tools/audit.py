"""Asks the package index what is known to be wrong with the versions that requirements/ pins.

    .venv/bin/python tools/audit.py        as `make check` does

pip-audit asks, from an environment of its own (`.venv/supply`, pinned by requirements/supply.lock).
A known vulnerability ends this with 1, and a line for each. An index that gives no advisories, or
a machine without one, is no fault of what is checked: that is said in one line, and all goes on.
What was asked well is not asked again on the same day for the same pins.
"""

import datetime
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SUPPLY = ROOT / ".venv" / "supply" / "bin"
# The pins that were found to be well, and when.
DONE = ROOT / ".build" / "audit.done"
LOCKS = ("bootstrap", "runtime", "dev", "fuzz", "supply")
ASK_S = 120


def main() -> int:
    files = [ROOT / "requirements" / f"{name}.lock" for name in LOCKS]
    pins = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    today = f"{datetime.datetime.now(datetime.UTC).date()} {pins}\n"
    if DONE.exists() and DONE.read_text() == today:
        return 0
    packages: dict[tuple[str, str], dict[str, Any]] = {}
    # The first file is short: an index that has no word on it is not asked for the others.
    for file in files:
        report = ask(file)
        if isinstance(report, str):
            print(f"audit: not done, {report}")
            return 0
        packages |= named(report)
        if not heard_of(packages):
            print("audit: not done, the index has no advisories")
            return 0
    flaws = flaws_of(packages)
    for line in flaws:
        print(f"audit: {line}")
    if flaws:
        return 1
    missed = len(packages) - heard_of(packages)
    if missed:
        print(f"audit: the index has no advisories for {missed} of {len(packages)} packages")
        return 0
    DONE.parent.mkdir(exist_ok=True)
    DONE.write_text(today)
    return 0


def ask(lock: Path) -> dict[str, Any] | str:
    """What pip-audit found, or why it could not ask."""
    tool = SUPPLY / "pip-audit"
    if not tool.exists():
        return "pip-audit cannot be installed here"
    command = [str(tool), "--requirement", str(lock), "--disable-pip", "--require-hashes"]
    command += ["--format", "json", "--progress-spinner", "off"]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=ASK_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"the index did not answer in {ASK_S} s"
    try:
        report = json.loads(ran.stdout)
    except ValueError:
        return f"pip-audit could not ask (it ended with {ran.returncode})"
    assert isinstance(report, dict)
    return report


def named(report: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """The packages of a report; one that was skipped has no version there."""
    return {(one["name"], one.get("version", "")): one for one in report["dependencies"]}


def heard_of(packages: dict[tuple[str, str], dict[str, Any]]) -> int:
    """Of how many packages the index had something to say, if only that nothing is known."""
    return sum("skip_reason" not in package for package in packages.values())


def flaws_of(packages: dict[tuple[str, str], dict[str, Any]]) -> list[str]:
    """A line for each known vulnerability."""
    return [
        f"{name} {version} has {flaw['id']}, mended in "
        f"{', '.join(flaw['fix_versions']) or 'no version yet'}: edit pyproject.toml, make lock"
        for (name, version), package in sorted(packages.items())
        for flaw in package.get("vulns", [])
    ]


if __name__ == "__main__":
    sys.exit(main())
