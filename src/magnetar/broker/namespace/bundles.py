"""Bundles: the parts of a namespace, by the hash of topics' names.

Apache Pulsar's brokers share bundles out among them. Here one broker has all; they are kept, split
and told for tools that ask, and what is done to a bundle is done to its topics.
"""

from typing import Final, final
from zlib import crc32

from magnetar.errors import SettingsError

__all__ = ["BUNDLES_DEFAULT", "Bundles", "bundles_of"]

# What a new namespace has; Pulsar's default.
BUNDLES_DEFAULT: Final = 4
BUNDLES_MAX: Final = 1 << 16
HASHES: Final = 1 << 32
LAST: Final = HASHES - 1


@final
class Bundles:
    """Boundaries that ascend, from 0 to the last hash; a bundle lies between two of them."""

    def __init__(self, boundaries: list[int]) -> None:
        self.boundaries: Final = boundaries

    @classmethod
    def even(cls, count: int) -> "Bundles":
        """So many of one size. Raises SettingsError."""
        if not 1 <= count <= BUNDLES_MAX:
            raise SettingsError(
                "bundles", f"{count} bundles: give a number from 1 to {BUNDLES_MAX}"
            )
        size = HASHES // count
        return cls([number * size for number in range(count)] + [LAST])

    def names(self) -> list[str]:
        return [_name(low, high) for low, high in self._ranges()]

    def to_json(self) -> dict[str, object]:
        return {
            "boundaries": [f"0x{one:08x}" for one in self.boundaries],
            "numBundles": len(self.boundaries) - 1,
        }

    def position(self, topic: str) -> int:
        """Returns the hash of a topic's name."""
        return crc32(topic.encode())

    def of(self, topic: str) -> str:
        """Returns the bundle that a topic is in."""
        place = self.position(topic)
        return next(
            _name(low, high)
            for low, high in self._ranges()
            if low <= place < high or place == high == LAST
        )

    def split(self, bundle: str) -> "Bundles":
        """Returns the same with one of them halved. Raises SettingsError if it cannot be."""
        for low, high in self._ranges():
            if _name(low, high) == bundle:
                middle = low + (high - low) // 2
                if middle == low or len(self.boundaries) > BUNDLES_MAX:
                    raise SettingsError("bundles", f"{bundle} cannot be split any more")
                return Bundles(sorted([*self.boundaries, middle]))
        raise SettingsError("bundles", f"there is no bundle {bundle}")

    def _ranges(self) -> list[tuple[int, int]]:
        return [
            (self.boundaries[i], self.boundaries[i + 1]) for i in range(len(self.boundaries) - 1)
        ]


def _name(low: int, high: int) -> str:
    return f"0x{low:08x}_0x{high:08x}"


def bundles_of(boundaries: list[int]) -> Bundles:
    """Returns those that a namespace keeps; the default ones if it was told nothing."""
    return Bundles(boundaries) if boundaries else Bundles.even(BUNDLES_DEFAULT)
