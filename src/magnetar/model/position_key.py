"""Positions as one integer each, which sorts as they do: what dicts, sets and heaps keep.

| key    | is                               | bits | means something                          |
|--------|----------------------------------|------|------------------------------------------|
| wide   | ledger id << 64, plus the entry  | 127  | wherever the ids do                      |
| narrow | a ledger's number << 32, plus    | 62   | in one topic, as long as it is loaded:   |
|        | the entry                        |      | `Ledgers` numbers the ledgers of a topic |

A client keeps wide ones: ids come to it from applications and any broker, and may be any 64-bit
numbers. A broker keeps narrow ones: it knows its ledgers, has a million positions to keep, and
62 bits are what mypyc's integers hold without an object of their own. Everything else, and
whatever is written down or told to another room, is a `Position`.
"""

from typing import Final

__all__ = [
    "NARROW_ENTRY_BITS",
    "NARROW_ENTRY_MASK",
    "narrow_key",
    "wide_key",
    "wide_key_entry",
    "wide_key_ledger",
]

WIDE_ENTRY_BITS: Final = 64
WIDE_ENTRY_MASK: Final = (1 << WIDE_ENTRY_BITS) - 1
NARROW_ENTRY_BITS: Final = 32
NARROW_ENTRY_MASK: Final = (1 << NARROW_ENTRY_BITS) - 1


def wide_key(ledger_id: int, entry_id: int) -> int:
    """
    >>> key = wide_key(2, 5)
    >>> wide_key(1, 9) < key, wide_key_ledger(key), wide_key_entry(key)
    (True, 2, 5)
    """
    return (ledger_id << WIDE_ENTRY_BITS) + entry_id


def wide_key_ledger(key: int) -> int:
    return key >> WIDE_ENTRY_BITS


def wide_key_entry(key: int) -> int:
    return key & WIDE_ENTRY_MASK


def narrow_key(number: int, entry_id: int) -> int:
    """Returns the key of an entry in the ledger with a number; that of entry -1 sorts before entry
    0.

    >>> narrow_key(1, -1) < narrow_key(1, 0) < narrow_key(2, -1)
    True
    """
    return (number << NARROW_ENTRY_BITS) + entry_id
