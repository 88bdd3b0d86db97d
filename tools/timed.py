"""Runs a part of `make test`, says when it begins and ends, and keeps how long it took.

    timed.py 'tests, compiled' command ...      runs it, and ends as it ended
    timed.py --table                            all parts since --begin, and the whole
    timed.py --begin                            forgets the parts of earlier runs

CPU time is that of the command and of every process that it waited for.
"""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

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
    code = subprocess.run(command).returncode
    wall, times = time.monotonic() - start, os.times()
    cpu = times.children_user + times.children_system
    if code != 0:
        print(f"== {name}: FAILED, {code} from {shlex.join(command)}", flush=True)
    PARTS.parent.mkdir(exist_ok=True)
    with PARTS.open("a") as parts:
        parts.write(f"{name}\t{wall:.0f}\t{cpu:.0f}\t{'ok' if code == 0 else 'FAILED'}\n")
    return code


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
