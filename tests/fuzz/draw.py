"""Choices made by bytes: what the fuzzer changes in its input changes one choice here.

Where the bytes end every choice is the first one, so that each input means something.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

# Numbers at which code that counts goes wrong.
EDGES: Final = (
    *(0, 1, 2, 3, 5, 63, 64, 127, 128, 255, 1000, 65_535, 1 << 20),
    *((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 53, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
)
TEXTS: Final = ("", "a", "t", "\0", "ä", "😀", "-1", "a/b", "..", "%2F", "x" * 300)


class Draw:
    """Takes an input apart, from the front."""

    def __init__(self, data: bytes) -> None:
        self._data: Final = data
        self._at = 0

    @property
    def left(self) -> int:
        """How many bytes nobody has used."""
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        found = self._data[self._at : self._at + size]
        self._at += len(found)
        return found

    def byte(self) -> int:
        found = self.take(1)
        return found[0] if found else 0

    def below(self, count: int) -> int:
        """A number from 0 to count - 1; small ones take one byte."""
        value = self.byte()
        for _ in range((count - 1).bit_length() // 8):
            value = value << 8 | self.byte()
        return value % count

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def rarely(self, one_in: int = 16) -> bool:
        return self.below(one_in) == one_in - 1

    def integer(self) -> int:
        """A small number, or one at an edge."""
        value = self.byte()
        return value if value < 128 else EDGES[value % len(EDGES)]

    def some(self, size_max: int = 40) -> bytes:
        """A few bytes."""
        return self.take(self.below(size_max + 1))

    def text(self) -> str:
        return self.some().decode("latin-1") if self.rarely(4) else self.pick(TEXTS)
