"""How many connections there may be: in all, and from one address.

A connection costs a descriptor before its peer has said a word. The most that there may be is
what the settings say or what the process has descriptors for, whichever is less. One address
never has all of them, or it could shut everybody else out.
"""

from typing import Final, final

__all__ = ["ConnectionLimits"]

# Of this many connections one address may not have the last, unless the settings say how many
# it may have.
SHARE_FOR_OTHERS: Final = 10


@final
class ConnectionLimits:
    """Counts connections, and says which are too many.

    >>> limits = ConnectionLimits(20, 0)
    >>> [limits.admit("10.0.0.1") for _ in range(19)][-1]
    '10.0.0.1 has 18 connections, the most that it may have'
    >>> limits.admit("10.0.0.2"), limits.admit("10.0.0.3")
    ('', '')
    >>> limits.admit("10.0.0.4")
    'the broker has 20 connections, the most that it may have'
    >>> limits.leave("10.0.0.1")
    >>> limits.admit("10.0.0.4"), limits.refused
    ('', 2)
    """

    def __init__(self, count_max: int, per_address_max: int) -> None:
        self._count_max: Final = count_max
        others = count_max // SHARE_FOR_OTHERS
        most = max(1, count_max - others)
        self._per_address_max: Final = min(per_address_max, most) if per_address_max else most
        self._by_address: Final[dict[str, int]] = {}
        self.count: int = 0
        self.refused: int = 0

    def admit(self, address: str) -> str:
        """Returns why a connection may not be; empty if it may, and then it counts."""
        there = self._by_address.get(address, 0)
        if self.count >= self._count_max:
            self.refused += 1
            return f"the broker has {self.count} connections, the most that it may have"
        if there >= self._per_address_max:
            self.refused += 1
            return f"{address} has {there} connections, the most that it may have"
        self._by_address[address] = there + 1
        self.count += 1
        return ""

    def leave(self, address: str) -> None:
        """Counts a connection that was admitted no more: it has ended."""
        self.count -= 1
        left = self._by_address[address] - 1
        if left:
            self._by_address[address] = left
        else:
            del self._by_address[address]
