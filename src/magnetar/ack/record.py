"""A partly acked batch as one int.

The low bits are the *remaining* indexes: bit i is set while index i is unacked. On top
of them stands one more bit, number `batch size`, which is always set. So the size is
part of the number and costs no memory of its own, and two records of one batch merge by
a single `&`, top bit and all.

>>> first = make_record(4, 0b1110)
>>> bin(merge_records(first, make_record(4, 0b0111)))
'0b10110'
>>> record_size(first), remaining_indexes(first) == 0b1110, remaining_count(first)
(4, True, 3)
"""

from typing import Final

# What a record takes beside its bits: the int's head, its place in a dict and in a bitmap.
RECORD_OVERHEAD_BYTES: Final = 128


def record_bytes(batch_size: int) -> int:
    """About how many bytes of memory a record takes; Python's ints have 30 bits in 4 bytes.

    >>> record_bytes(1000) * 100_000 >> 20
    25
    """
    return batch_size // 7 + RECORD_OVERHEAD_BYTES


def make_record(batch_size: int, remaining: int) -> int:
    """Returns the record of a batch; bits beyond the batch are masked."""
    top = 1 << batch_size
    return top | (remaining & (top - 1))


def record_size(record: int) -> int:
    return record.bit_length() - 1


def remaining_indexes(record: int) -> int:
    return record ^ (1 << (record.bit_length() - 1))


def remaining_count(record: int) -> int:
    return record.bit_count() - 1


def is_complete(record: int) -> bool:
    """Returns whether nothing is left: only the top bit is set."""
    return record & (record - 1) == 0


def is_untouched(record: int) -> bool:
    """Returns whether everything is left: all bits are set."""
    return record & (record + 1) == 0


def merge_records(one: int, other: int) -> int:
    """Returns what both leave unacked.

    Two sizes for one batch can only come from peers that contradict each other about an
    entry whose size nobody here knows. Then an index that one of them has never heard of
    counts as unacked by it: redelivering is better than losing.
    """
    one_size = record_size(one)
    other_size = record_size(other)
    if one_size < other_size:
        one = _widen(one, one_size, other_size)
    elif other_size < one_size:
        other = _widen(other, other_size, one_size)
    return one & other


def _widen(record: int, batch_size: int, wider: int) -> int:
    return record | ((1 << (wider + 1)) - (1 << batch_size))
