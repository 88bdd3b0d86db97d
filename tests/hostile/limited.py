"""Brokers that may have little of something."""

import sys

from support.broker_process import SERVE

__all__ = ["limited"]


def limited(*, files: int | None = None, memory_bytes: int | None = None) -> tuple[str, ...]:
    """The command of a broker that may have so many files and so much memory of its own."""
    limits: list[tuple[str, int]] = []
    if files is not None:
        limits.append(("RLIMIT_NOFILE", files))
    if memory_bytes is not None:
        limits.append(("RLIMIT_DATA", memory_bytes))
    set_limits = "".join(
        f"resource.setrlimit(resource.{name}, ({limit}, {limit})); " for name, limit in limits
    )
    code = (
        f"import os, resource, sys; {set_limits}"
        f"os.execv({sys.executable!r}, {list(SERVE)!r} + sys.argv[1:])"
    )
    return (sys.executable, "-c", code)
