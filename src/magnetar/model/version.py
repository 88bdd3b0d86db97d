"""The version of this package, as pyproject.toml has it: what a client tells its broker."""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"
