"""Runs tests again and again beside work that keeps the machine busy, and says which failed.

    steady.py --runs 30 tests/client tests/chaos

A test that passes on a quiet machine alone waits for time instead of for what it needs. Every run
is a whole pytest of its own; its output is kept in .build/steady if anything failed. `stress-ng`
makes the load where it is installed, a loop in Python where not. It ends with 1 if any run failed.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOGS = ROOT / ".build" / "steady"
# Computes, and now and then waits for the disk, until whoever started it is gone.
BURNER = """
import os, sys, tempfile
parent = int(sys.argv[1])
with tempfile.TemporaryFile() as file:
    while os.getppid() == parent:
        sum(range(2_000_000))
        os.pwrite(file.fileno(), bytes(65536), 0)
        os.fsync(file.fileno())
"""
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--load", type=int, default=os.cpu_count() or 2, help="busy processes")
    parser.add_argument("--workers", type=int, default=2, help="of pytest-xdist")
    parser.add_argument("tests", nargs="+", help="paths, and options of pytest behind --")
    asked = parser.parse_args(arguments)
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(asked.workers), "-rfE"]
    command += ["--tb=short", *asked.tests]
    with load(asked.load):
        failed = repeated(command, asked.runs)
    print(summary(failed, asked.runs))
    return 1 if failed else 0


@contextlib.contextmanager
def load(processes: int) -> Iterator[None]:
    """Other work on the machine, as long as the block lasts."""
    if shutil.which("stress-ng"):
        commands = [["stress-ng", "--quiet", "--cpu", str(processes), "--hdd", "1"]]
    else:
        commands = [[sys.executable, "-c", BURNER, str(os.getpid())]] * processes
    started = [subprocess.Popen(command) for command in commands if processes]
    try:
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def repeated(command: list[str], runs: int) -> Counter[str]:
    """How often each test failed; a run that ends badly without one counts as `pytest`."""
    failed: Counter[str] = Counter()
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    for number in range(1, runs + 1):
        start = time.monotonic()
        ran = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = ran.stdout.decode(errors="replace")
        names = failures(output, ran.returncode)
        failed.update(names)
        last = output.strip().splitlines()[-1:] or [""]
        print(f"{number:>4}  {time.monotonic() - start:5.0f} s  {last[0]}", flush=True)
        for name in names:
            print(f"      {name}", flush=True)
        if names:
            (LOGS / f"{number}.log").write_text(output)
    return failed


def failures(output: str, code: int) -> list[str]:
    """The tests that a run says have failed."""
    names = FAILED.findall(output)
    return names if names or code == 0 else [f"pytest ended with {code}"]


def summary(failed: Counter[str], runs: int) -> str:
    """What to tell at the end."""
    if not failed:
        return f"{runs} runs, none failed"
    lines = [f"{count:>4} of {runs}  {name}" for name, count in failed.most_common()]
    return "\n".join([*lines, f"output of these runs: {LOGS.relative_to(ROOT)}"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
