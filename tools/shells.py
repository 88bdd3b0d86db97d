"""Prints the files that coverage leaves out: the shells of pyproject.toml, one by one."""

import tomllib
from pathlib import Path

from hatch_build import shells_of

ROOT = Path(__file__).parent.parent


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    print(",".join(f"*/{name.removeprefix('src/')}" for name in shells_of(ROOT, project)))
