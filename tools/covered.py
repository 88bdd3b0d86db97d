"""Runs a command of Python with coverage, and joins what its processes saw.

    covered.py .build/coverage python -m pytest -n 2 ...    ends as the command ended

Coverage begins in every Python that is started with COVERAGE_PROCESS_START in its environment, so
in the workers of pytest-xdist too; tests/conftest.py takes it away there, from the programs that
tests start.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main(arguments: list[str]) -> int:
    data, *command = arguments
    # Not a name that begins with the data's and a dot: coverage takes that for a part.
    parts = Path(f"{data}-parts").absolute()
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir(parents=True)
    Path(data).unlink(missing_ok=True)
    asked = {
        "COVERAGE_PROCESS_START": str(ROOT / "pyproject.toml"),
        "COVERAGE_FILE": str(parts / Path(data).name),
    }
    code = subprocess.run(command, env=os.environ | asked).returncode
    join = [sys.executable, "-m", "coverage", "combine", "--quiet", f"--data-file={data}"]
    joined = subprocess.run([*join, str(parts)]).returncode
    return code or joined


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
