"""axe-core, which looks for what keeps people from using a page; it is installed by npm for tests.

What was installed is held against a checksum before it is used. Without npm, or without an
index, the tests that need it are skipped.
"""

import hashlib
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from support.requirement import need

__all__ = ["axe_source", "violations"]

VERSION = "4.14.0"
SHA256 = "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"
FOLDER = Path(__file__).parents[2] / ".build" / "axe"
SCRIPT = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
# WCAG 2.2 A and AA, and what experience adds.
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@cache
def installed() -> bool:
    """Whether it is here, or could be had. It is tried once."""
    npm = shutil.which("npm")
    if SCRIPT.exists() or npm is None:
        return SCRIPT.exists()
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]
    command += [str(FOLDER), f"axe-core@{VERSION}"]
    with suppress(subprocess.TimeoutExpired):
        subprocess.run(command, capture_output=True, timeout=120)
    return SCRIPT.exists()


def axe_source() -> str:
    """The script. Skips the test if it cannot be had."""
    need("axe", installed(), f"npm install axe-core@{VERSION} could not be done")
    source = SCRIPT.read_bytes()
    assert hashlib.sha256(source).hexdigest() == SHA256, "axe-core is not what it should be"
    return source.decode()


def violations(page: Any) -> list[str]:
    """What axe finds on a page as it is, one line for each element."""
    page.evaluate(axe_source())
    found = page.evaluate("tags => axe.run(document, {runOnly: {type: 'tag', values: tags}})", TAGS)
    return [
        f"{one['id']}: {one['help']}: {node['html'][:160]} ({node['failureSummary']})"
        for one in found["violations"]
        for node in one["nodes"]
    ]
