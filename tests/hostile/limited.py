"""Brokers that may have little of something."""

import sys

from support.broker_process import SERVE

__all__ = ["limited"]


def limited(limit: int) -> tuple[str, ...]:
    """The command of a broker that may have so many files."""
    code = (
        "import os, resource, sys; "
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit})); "
        f"os.execv({sys.executable!r}, {list(SERVE)!r} + sys.argv[1:])"
    )
    return (sys.executable, "-c", code)
