"""Does what a newcomer does: clones, then `make test` and `make demo`, with nothing set up before.

The clone is of the last commit, in a directory of its own, with an empty HOME and without any
variable that leads back here. Each command's output goes through as it comes. Exit code 0 if
both commands end with 0; everything is removed afterwards, or kept with `--keep`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMANDS = (["make", "test"], ["make", "demo"])
# Where packages come from is the machine's affair; all else of ours is left behind.
OURS = ("MAGNETAR_", "PYTHON", "VIRTUAL_ENV", "XDG_", "JAVA_HOME", "SPARK_", "PYSPARK_", "MAKE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="leave the clone where it is")
    keep: bool = parser.parse_args().keep
    place = Path(tempfile.mkdtemp(prefix="newcomer-"))
    try:
        return walk(place)
    finally:
        if keep:
            print(f"kept in {place}")
        else:
            shutil.rmtree(place, ignore_errors=True)


def walk(place: Path) -> int:
    home, clone = place / "home", place / "magnetar"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", "--no-local", ROOT, clone], check=True)
    told: list[str] = []
    for command in COMMANDS:
        start = time.monotonic()
        code = subprocess.run(command, cwd=clone, env=environment(home)).returncode
        minutes, seconds = divmod(round(time.monotonic() - start), 60)
        told.append(f"{' '.join(command):12} exit code {code}, {minutes} min {seconds:02} s")
        if code != 0:
            break
    print("\n".join(["", "== newcomer", *told]))
    return code


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return kept | {"HOME": str(home)}


if __name__ == "__main__":
    sys.exit(main())
