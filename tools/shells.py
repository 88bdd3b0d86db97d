"""Prints the files that coverage leaves out: the shells of pyproject.toml, as patterns."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def patterns() -> list[str]:
    """One pattern for each shell: a file, or all that is in a folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shells: list[str] = project["tool"]["magnetar"]["shells"]
    return [f"*/magnetar/{s}" if s.endswith(".py") else f"*/magnetar/{s}/*" for s in shells]


if __name__ == "__main__":
    print(",".join(patterns()))
