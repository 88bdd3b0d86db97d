"""The last message of each key, as the first pass of a compaction finds it.

Messages are counted as they are read, and a message is its number: both passes read the same, so
the second one knows a message again. A long key is its digest, so a key takes about 120 bytes.

One dict of millions would hold everybody up whenever it grows, so there are many.
"""

from hashlib import blake2b
from typing import Final, final

from mypy_extensions import i64

__all__ = ["KeyMap"]

# A power of two. With 8 million keys each has 32,000, and grows within a millisecond.
SHARDS: Final = 256
KEY_BYTES_MAX: Final = 64
NONE: Final = -1


@final
class KeyMap:
    """See the module."""

    def __init__(self) -> None:
        self._shards: Final[list[dict[bytes, int]]] = [{} for _ in range(SHARDS)]
        self._count: i64 = 0

    def __len__(self) -> int:
        return self._count

    def put(self, key: bytes, number: int) -> None:
        """This is the last message of the key so far."""
        key = _short(key)
        shard = self._shards[hash(key) & (SHARDS - 1)]
        before = len(shard)
        shard[key] = number
        self._count += len(shard) - before

    def remove(self, key: bytes) -> None:
        """The key has no message any more."""
        key = _short(key)
        shard = self._shards[hash(key) & (SHARDS - 1)]
        if shard.pop(key, NONE) != NONE:
            self._count -= 1

    def is_last(self, key: bytes, number: int) -> bool:
        """Whether this is the last message of its key."""
        key = _short(key)
        return self._shards[hash(key) & (SHARDS - 1)].get(key, NONE) == number

    def drop_some(self) -> bool:
        """Lets go of a part; whether there is more. To free millions at once takes long."""
        if not self._shards:
            return False
        self._count -= len(self._shards.pop())
        return bool(self._shards)


def _short(key: bytes) -> bytes:
    """Returns a long key as its digest, which is longer than any short key."""
    return key if len(key) <= KEY_BYTES_MAX else b"#" + blake2b(key).digest()
