"""Does what a newcomer does: clones and installs; clones and runs `make demo`, `make test`.

Each command gets a clone of the last commit, an empty HOME and an environment that knows of no
other: no virtual environment, no caches, no settings. Its output goes through as it comes. At the
first that fails it ends, with its exit code, and leaves that clone to be looked at; what went well
is removed, unless `--keep` says otherwise. Documents are no matter of their own: `make test` runs
their blocks, and looks at the links and commands in them.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMANDS = ("make installed", "make demo", "make test")
# All that is taken along: the terminal, and where this machine has its packages from.
KEPT = re.compile(
    r"LANG|LC_.*|TERM|COLORTERM|TZ|TMPDIR|USER|LOGNAME|SHELL"
    r"|(PIP|UV)_(?!CACHE).*|.*_(PROXY|CERTS?|CERT_FILE|CERT_DIR|CA_BUNDLE|CAINFO)",
    re.IGNORECASE,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="leave the clones where they are")
    keep: bool = parser.parse_args().keep
    told = []
    for command in COMMANDS:
        place = Path(tempfile.mkdtemp(prefix="newcomer-"))
        start = time.monotonic()
        code = run(command, place)
        minutes, seconds = divmod(round(time.monotonic() - start), 60)
        kept = keep or code != 0
        told.append(
            f"{command}: exit code {code}, {minutes} min {seconds:02} s"
            + (f", kept in {place}" if kept else "")
        )
        if not kept:
            shutil.rmtree(place, ignore_errors=True)
        if code != 0:
            break
    print("\n".join(["", "== newcomer", *told]))
    return code


def run(command: str, place: Path) -> int:
    """The exit code of a command in a clone of its own; Ctrl-C counts as one."""
    home, clone = place / "home", place / "magnetar"
    home.mkdir()
    try:
        subprocess.run(["git", "clone", "--quiet", "--no-local", ROOT, clone], check=True)
        return subprocess.run(
            command.split(), cwd=clone, env=environment(home), stdin=subprocess.DEVNULL
        ).returncode
    except subprocess.CalledProcessError as error:
        return error.returncode
    except KeyboardInterrupt:
        return 130


def environment(home: Path) -> dict[str, str]:
    """What a newcomer's shell would have here."""
    kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path = [place for place in places if not (Path(place).parent / "pyvenv.cfg").exists()]
    return kept | {"HOME": str(home), "PATH": os.pathsep.join(path)}


if __name__ == "__main__":
    sys.exit(main())
