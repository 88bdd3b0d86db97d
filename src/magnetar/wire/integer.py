"""The edges of 64 bits, and the fold between the two ways to read them.

Pulsar's schema says uint64 where it means -1, so everything here reads integers as signed
ones. protobuf, which decodes the cold commands, shows them unsigned: `signed` folds.
"""

from typing import Final

INT32_MAX: Final = 0x7FFFFFFF
INT64_MAX: Final = 0x7FFFFFFFFFFFFFFF
INT64_MIN: Final = -0x7FFFFFFFFFFFFFFF - 1


def signed(value: int) -> int:
    """Returns the signed number of the same 64 bits.

    >>> signed(2**64 - 1), signed(5)
    (-1, 5)
    """
    return value - (1 << 64) if value > INT64_MAX else value
