"""What an operation changes, as a value: planned, written, and applied once it is durable.

`AckDelta` says what is acked, absolutely and not relative to any state. So ack deltas
commute, may be applied twice, and may be dropped singly when their write failed. Skip,
expire and clear are of this kind too: what they acked is settled when they are planned.

`ResetDelta` moves the cursor to a place and forgets all acks beyond it. That does not
commute, so every reset has a new epoch, and acks carry the epoch of the state they were
planned against: an ack of another epoch is dropped.

Positions stand as *keys*, ledger << 32 | entry, which sort as positions do and take an
eighth of the memory.
"""

from typing import Final, TypeAlias, final

from mypy_extensions import i64

from magnetar.model.position import Position

ENTRY_BITS: Final = 32
ENTRY_MASK: Final = (1 << ENTRY_BITS) - 1


@final
class AckDelta:
    """Entries and batch indexes that are now acked, and how far everything is.

    `mark_delete` covers all up to it, if it is given. `entries` are keys in order, and
    `records` pairs of a key and a record (see `record.py`), in order of keys.
    """

    __slots__ = ("entries", "epoch", "mark_delete", "records")

    def __init__(
        self,
        epoch: i64,
        mark_delete: Position | None,
        entries: tuple[int, ...],
        records: tuple[tuple[int, int], ...],
    ) -> None:
        self.epoch: Final[i64] = epoch
        self.mark_delete: Final = mark_delete
        self.entries: Final = entries
        self.records: Final = records

    @property
    def empty(self) -> bool:
        """Whether it changes nothing: all it was asked for is already durable."""
        return self.mark_delete is None and not self.entries and not self.records

    def _key(
        self,
    ) -> tuple[int, Position | None, tuple[int, ...], tuple[tuple[int, int], ...]]:
        return (self.epoch, self.mark_delete, self.entries, self.records)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AckDelta):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"AckDelta{self._key()}"

    def __reduce__(self) -> tuple[type["AckDelta"], tuple[object, ...]]:
        return (AckDelta, self._key())


@final
class ResetDelta:
    """The cursor stands behind `mark_delete`, and nothing beyond is acked.

    Except, when the reset was into a batch, the indexes that `record` does not leave, of
    the entry with key `entry`; `record` is 0 if there is none.
    """

    __slots__ = ("entry", "epoch", "mark_delete", "record")

    def __init__(self, epoch: i64, mark_delete: Position, entry: int = 0, record: int = 0) -> None:
        self.epoch: Final[i64] = epoch
        self.mark_delete: Final = mark_delete
        self.entry: Final = entry
        self.record: Final = record

    @property
    def empty(self) -> bool:
        """Never: even a reset to where the cursor stands begins an epoch."""
        return False

    def _key(self) -> tuple[int, Position, int, int]:
        return (self.epoch, self.mark_delete, self.entry, self.record)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ResetDelta):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"ResetDelta{self._key()}"

    def __reduce__(self) -> tuple[type["ResetDelta"], tuple[object, ...]]:
        return (ResetDelta, self._key())


Delta: TypeAlias = AckDelta | ResetDelta


def position_key(ledger_id: int, entry_id: int) -> int:
    """The key of a position; that of entry -1 sorts before entry 0, as it should.

    >>> position_key(1, -1) < position_key(1, 0) < position_key(2, -1)
    True
    """
    return (ledger_id << ENTRY_BITS) + entry_id


def key_position(key: int) -> Position:
    """The position of a key, whose entry must not be -1."""
    return Position(key >> ENTRY_BITS, key & ENTRY_MASK)
