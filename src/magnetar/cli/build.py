"""Which build this is, in words: compiled, or interpreted and why.

pip keeps what a build says to itself, so tools/hatch_build.py leaves the reason in the package.
"""

from pathlib import Path
from typing import Final

import magnetar

__all__ = ["build"]

REASON: Final = "build.txt"


def build() -> str:
    """`compiled`, or that it is interpreted and why."""
    if magnetar.COMPILED:
        return "compiled"
    try:
        why = (Path(magnetar.__file__).parent / REASON).read_text().strip()
    except OSError:
        return "interpreted from its sources"
    return f"interpreted, built pure: {why}"
