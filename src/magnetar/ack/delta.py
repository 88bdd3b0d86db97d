"""What an operation changes, as a value: planned, written, and applied once it is durable.

`AckDelta` says what is acked, absolutely and not relative to any state. So ack deltas
commute, may be applied twice, and may be dropped singly when their write failed. Skip,
expire and clear are of this kind too: what they acked is decided when they are planned.

`ResetDelta` moves the cursor to a place and forgets all acks beyond it. That does not
commute, so every reset has a new epoch, and acks carry the epoch of the state they were
planned against: an ack of another epoch is dropped.

Both speak of ledgers and entries as they are named everywhere, and not of a topic's own keys
(see `ledgers.py`): a delta is read again by processes that number ledgers otherwise.
"""

from typing import Final, TypeAlias, final

from mypy_extensions import i64

from magnetar.model.position import Position

# What is acked of one ledger: its id, entries in order, and pairs of an entry and its record
# (see `record.py`), in order of entries.
LedgerDelta: TypeAlias = tuple[int, tuple[int, ...], tuple[tuple[int, int], ...]]


@final
class AckDelta:
    """Entries and batch indexes that are now acked, and how far everything is.

    `mark_delete` covers all up to it, if it is given. `ledgers` has a part for each ledger of
    which something is acked, in order. As it was planned, `record_bytes` is what its records take
    in memory, and `growth` what of that is for batches of which nothing was acked before; both
    are 0 in what was read.
    """

    __slots__ = ("epoch", "growth", "ledgers", "mark_delete", "record_bytes")

    def __init__(
        self,
        epoch: i64,
        mark_delete: Position | None,
        ledgers: tuple[LedgerDelta, ...] = (),
        *,
        record_bytes: i64 = 0,
        growth: i64 = 0,
    ) -> None:
        self.epoch: Final[i64] = epoch
        self.mark_delete: Final = mark_delete
        self.ledgers: Final = ledgers
        self.record_bytes: Final[i64] = record_bytes
        self.growth: Final[i64] = growth

    @property
    def empty(self) -> bool:
        """Whether it changes nothing: all it was asked for is already durable."""
        return self.mark_delete is None and not self.ledgers

    def _key(self) -> tuple[int, Position | None, tuple[LedgerDelta, ...]]:
        return (self.epoch, self.mark_delete, self.ledgers)

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
    `entry`; `entry` is None and `record` 0 if there is none.
    """

    __slots__ = ("entry", "epoch", "mark_delete", "record")

    def __init__(
        self, epoch: i64, mark_delete: Position, entry: Position | None = None, record: int = 0
    ) -> None:
        self.epoch: Final[i64] = epoch
        self.mark_delete: Final = mark_delete
        self.entry: Final = entry
        self.record: Final = record

    @property
    def empty(self) -> bool:
        """Never: even a reset to where the cursor stands begins an epoch."""
        return False

    def _key(self) -> tuple[int, Position, Position | None, int]:
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
