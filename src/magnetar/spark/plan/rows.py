"""Rows on their way out: in an order that follows from what they hold, numbered, digested.

A task that is run again may get its rows in another order. If rows were numbered as they
come, deduplication would then drop rows by numbers that others had, silently. So each task
sorts its rows by content before it numbers them, and keeps a digest of all of them: a second
run with the same rows sends the same numbers, and one with other rows is found out before
anything is sent.

A number has the micro-batch in its upper bits and the row in its lower ones, and grows.
"""

import hashlib
from typing import Final, TypeAlias

from magnetar.errors import UsageError

__all__ = ["ROWS_MAX", "Row", "content_key", "digest_of", "digest_of_values", "first_number"]

# Topic, value, key, ordering key, event time and deliver-at in ms, properties.
Row: TypeAlias = tuple[
    str,
    bytes | None,
    str | None,
    bytes | None,
    int | None,
    int | None,
    tuple[tuple[str, str], ...] | None,
]

_ROW_BITS: Final = 32
ROWS_MAX: Final = 1 << _ROW_BITS
_BATCHES_MAX: Final = 1 << (63 - _ROW_BITS)


def first_number(batch_id: int) -> int:
    """Returns the number of the first row of a micro-batch.

    >>> first_number(0), first_number(2)
    (0, 8589934592)
    """
    if not 0 <= batch_id < _BATCHES_MAX:
        raise UsageError(f"micro-batch {batch_id} is beyond what sequence ids can number")
    return batch_id << _ROW_BITS


def content_key(row: Row) -> bytes:
    """Returns bytes that are equal for equal rows, and order the others."""
    topic, value, key, ordering_key, event_time, deliver_at, properties = row
    parts: list[bytes] = [_part(topic.encode()), _part(value)]
    nothing_else = key is None and ordering_key is None and not properties
    if nothing_else and event_time is None and deliver_at is None:
        # Most rows are no more than that, and a million of them should not take long.
        return b"".join(parts)
    parts.append(_part(None if key is None else key.encode()))
    parts.append(_part(ordering_key))
    for time in (event_time, deliver_at):
        parts.append(_part(None if time is None else b"%d" % time))
    if properties is not None:
        for name, text in properties:
            parts.append(_part(name.encode()))
            parts.append(_part(text.encode()))
    return b"".join(parts)


def _part(value: bytes | None) -> bytes:
    """Length and bytes, so that no two rows look alike."""
    return b"-" if value is None else b"%d:%b" % (len(value), value)


def digest_of(keys: list[bytes], targets: list[str]) -> str:
    """Returns a digest of rows in their order, and of the topics that they go to."""
    total = hashlib.sha256(b"%d\n" % len(targets))
    for target in targets:
        total.update(_part(target.encode()))
    for key in keys:
        total.update(_part(key))
    return total.hexdigest()


def digest_of_values(data: bytes, ends: bytes, targets: list[str]) -> str:
    """Returns a digest of rows that are nothing but values: all of them, and where each ends."""
    total = hashlib.sha256(b"values %d\n" % len(targets))
    for target in targets:
        total.update(_part(target.encode()))
    total.update(_part(ends))
    total.update(data)
    return total.hexdigest()
