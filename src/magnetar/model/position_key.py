"""A position as one number that sorts like it: what entries are known by in dicts and heaps."""

from typing import Final

__all__ = ["entry_key", "key_entry", "key_ledger"]

ENTRY_BITS: Final = 64
ENTRY_MASK: Final = (1 << ENTRY_BITS) - 1


def entry_key(ledger_id: int, entry_id: int) -> int:
    """
    >>> entry_key(1, 9) < entry_key(2, 0), key_ledger(entry_key(2, 5)), key_entry(entry_key(2, 5))
    (True, 2, 5)
    """
    return (ledger_id << ENTRY_BITS) + entry_id


def key_ledger(key: int) -> int:
    return key >> ENTRY_BITS


def key_entry(key: int) -> int:
    return key & ENTRY_MASK
