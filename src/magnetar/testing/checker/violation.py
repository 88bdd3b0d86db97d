"""Something that must not be, and how it is told."""

from dataclasses import dataclass
from typing import Final

__all__ = ["Violation", "ViolationError"]

# More are of no use to the one who reads them.
VIOLATIONS_SHOWN: Final = 10


@dataclass(frozen=True)
class Violation:
    """Something that must not be."""

    invariant: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


class ViolationError(AssertionError):
    """A history in which an invariant does not hold."""

    def __init__(self, violations: list[Violation]) -> None:
        shown = "\n".join(f"  {violation}" for violation in violations[:VIOLATIONS_SHOWN])
        super().__init__(f"{len(violations)} violations:\n{shown}")
        self.violations = violations
