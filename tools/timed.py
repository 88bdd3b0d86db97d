"""Runs a part of `make test`, says when it begins and ends, and keeps how long it took.

    timed.py 'tests, compiled' command ...      runs it, and ends as it ended
    timed.py --table                            all parts since --begin, and the whole
    timed.py --begin                            forgets the parts of earlier runs

CPU time is that of the command and of every process that came of it and has ended, on Linux also of
those that nobody waited for, such as Spark's JVM.
"""

import contextlib
import ctypes
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
# How long a process that was left behind may take to end: a JVM does not do so at once.
ORPHANS_S = 5.0
PARTS = Path(__file__).parent.parent / ".build" / "parts"


def main(arguments: list[str]) -> int:
    if arguments == ["--begin"]:
        PARTS.parent.mkdir(exist_ok=True)
        PARTS.write_text(f"{time.time()}\n")
        return 0
    if arguments == ["--table"]:
        print(table(PARTS.read_text(), time.time()))
        return 0
    name, *command = arguments
    return timed(name, command)


def timed(name: str, command: list[str]) -> int:
    """Runs a command and returns its exit code; what it took is in the file of parts."""
    print(f"== {name}", flush=True)
    start = time.monotonic()
    with orphans_counted():
        code = subprocess.run(command).returncode
    wall, times = time.monotonic() - start, os.times()
    cpu = times.children_user + times.children_system
    if code != 0:
        print(f"== {name}: FAILED, {code} from {shlex.join(command)}", flush=True)
    PARTS.parent.mkdir(exist_ok=True)
    with PARTS.open("a") as parts:
        parts.write(f"{name}\t{wall:.0f}\t{cpu:.0f}\t{'ok' if code == 0 else 'FAILED'}\n")
    return code


@contextlib.contextmanager
def orphans_counted() -> Iterator[None]:
    """On Linux, what the children of the block leave behind comes to this process, and is waited
    for: only then is its time counted. What does not end is left alone."""
    if sys.platform != "linux":
        yield
        return
    others = children()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
        deadline = time.monotonic() + ORPHANS_S
        while (left := children() - others) and time.monotonic() < deadline:
            for pid in left:
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)
    finally:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def children() -> set[int]:
    """The processes whose parent this one is."""
    found = Path("/proc/self/task").glob("*/children")
    return {int(pid) for path in found for pid in path.read_text().split()}


def table(kept: str, now: float) -> str:
    """What every part took, as lines for people."""
    begun, *lines = kept.splitlines()
    rows = [line.split("\t") for line in lines]
    total = sum(int(cpu) for _, _, cpu, _ in rows)
    rows.append(["all", f"{now - float(begun):.0f}", str(total), ""])
    head = f"{'part':<24}{'seconds':>9}{'CPU':>7}"
    return "\n".join(
        [head, *(f"{name:<24}{wall:>9}{cpu:>7}  {end}".rstrip() for name, wall, cpu, end in rows)]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
