"""Finds where a reset (SEEK, reset-cursor) puts the cursor, and makes the delta."""

from typing import Final, final

from mypy_extensions import i64

from magnetar.ack.acks import Acks
from magnetar.ack.delta import ResetDelta
from magnetar.ack.ledgers import Ledgers
from magnetar.ack.plan import known_batch_size
from magnetar.ack.record import is_complete, is_untouched, make_record
from magnetar.model.position import Position


@final
class ResetPlan:
    """One reset delta in the making; `position` is to be read next."""

    def __init__(self, ledgers: Ledgers, acks: Acks, position: Position) -> None:
        self._ledgers: Final = ledgers
        self._acks: Final = acks
        self._asked: Final = position
        self._found: Final = ledgers.at_or_after(position)
        self._record = 0

    def enter_batch(self, batch_index: i64, ack_set: int | None, claimed: i64) -> None:
        """Begins inside the entry, if it is there: at an index, or with the bits of a set."""
        entry = self._found
        if entry is None or entry != self._asked:
            return
        size = known_batch_size(
            self._ledgers.sizes, self._acks, entry.ledger_id, entry.entry_id, claimed
        )
        remaining = ack_set
        if remaining is None or remaining == 0:
            # The shift is one of ints: an i64 would wrap.
            first: int = min(batch_index, size)
            remaining = -1 << first
        self._record = make_record(size, remaining)

    def delta(self, epoch: i64) -> ResetDelta:
        entry = self._found
        if entry is None:
            return ResetDelta(epoch, self._ledgers.last())
        if self._record != 0 and is_complete(self._record):
            return ResetDelta(epoch, entry)
        before = self._ledgers.previous(entry)
        if self._record == 0 or is_untouched(self._record):
            return ResetDelta(epoch, before)
        return ResetDelta(epoch, before, entry, self._record)
