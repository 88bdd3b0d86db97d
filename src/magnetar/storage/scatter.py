"""Which ledgers lie scattered over the log, and are worth gathering.

Entries of a thousand topics that are written at once lie a thousand entries apart, and
reading one topic costs a call for each of its entries. A ledger in such a state is copied
to the end of the log once, some time after it was sealed: what is consumed and trimmed soon
is never touched. The reclaimer does the copying.

What was gathered lies in runs as long as a step of the reclaimer and does not look scattered
any more, so nothing is gathered twice; the state of the ledger is where it lies.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from magnetar.storage.ledger_index import LedgerIndex, MappedIndex
from magnetar.storage.log import Log
from magnetar.storage.record import HEAD_BYTES, segment_of
from magnetar.storage.segment import GROUP_HEADER_BYTES

__all__ = ["Scattered", "scattered"]

# The beginning of a ledger speaks for all of it.
SAMPLE_ENTRIES: Final = 256
# Fewer runs than this are not worth a copy.
RUNS_MIN: Final = 4
# How many segments the log must have gone on since a ledger was sealed.
AGE_SEGMENTS: Final = 2
LEDGERS_PER_STEP: Final = 64


@final
class Scattered:
    """The sealed ledgers that nobody has looked at yet, oldest seal first."""

    def __init__(self, log: Log) -> None:
        self._log: Final = log
        self._unseen: Final[deque[int]] = deque()

    def find_all(self) -> None:
        """A store was opened: nobody knows which ledgers the last run looked at."""
        for ledger_id, ledger in self._log.state.ledgers.items():
            if isinstance(ledger.index, MappedIndex):
                self._unseen.append(ledger_id)

    def next(self) -> int:
        """A ledger that should be gathered now, or 0."""
        log = self._log
        self._unseen.extend(log.take_indexed())
        if not log.options.gather_run_bytes or log.full or not log.quiet():
            return 0
        for _ in range(min(LEDGERS_PER_STEP, len(self._unseen))):
            ledger = log.state.ledgers.get(self._unseen[0])
            if ledger is not None:
                if segment_of(ledger.address) + AGE_SEGMENTS > segment_of(log.journal.end):
                    return 0
                if log.free_bytes < ledger.index.size_bytes() + log.options.watermark_bytes:
                    return 0
            self._unseen.popleft()
            if ledger is not None and scattered(ledger.index, log.options.gather_run_bytes):
                return ledger.id
        return 0


def scattered(index: LedgerIndex, run_bytes_min: int) -> bool:
    """Whether entries that follow each other mostly do not lie behind each other."""
    runs: i64 = 0
    size: i64 = 0
    reach: i64 = -1
    for entry_id in range(min(index.count(), SAMPLE_ENTRIES)):
        address: i64 = index.address(entry_id)
        if reach < 0 or address < reach or address > reach + GROUP_HEADER_BYTES:
            runs += 1
        length: i64 = HEAD_BYTES + index.length(entry_id)
        size += length
        reach = address + length
    return runs >= RUNS_MIN and size < runs * run_bytes_min
