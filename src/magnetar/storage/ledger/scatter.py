"""Which entries lie scattered over the log, and are worth gathering.

Entries of a thousand topics that are written at once lie a thousand entries apart, and
reading one topic costs a call for each of its entries. Such entries are copied to the end of
the log, those of a ledger together, by the reclaimer. What it copies at once is a *piece*:

    ledger   is looked at                            its piece
    open     when the log has gone on by a segment   from its mark on, if that is long enough
    sealed   once, two segments behind its seal      from its mark on

A ledger's *mark* is where its next piece begins: what lies before it was gathered, or lay
together, or was consumed while the ledger was open. Marks are in memory only. Every open of a
store begins new ledgers, so an open ledger always has its mark; one that an earlier run left
has none, and is gathered as a whole if its beginning is scattered. So no entry is gathered
more than once in a run of the store, and no more than twice: runs that were gathered are long,
and do not look scattered any more.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from magnetar.model import Position
from magnetar.storage.ledger.index_file import MappedIndex
from magnetar.storage.ledger.ledger_index import HeapIndex, LedgerIndex
from magnetar.storage.log.log import Log
from magnetar.storage.log.record import HEAD_BYTES, segment_of
from magnetar.storage.log.segment import GROUP_HEADER_BYTES
from magnetar.storage.state import LedgerState

__all__ = ["Piece", "Scattered", "scattered"]

# The beginning of a piece speaks for all of it.
SAMPLE_ENTRIES: Final = 256
# Fewer runs than this are not worth a copy.
RUNS_MIN: Final = 4
# A piece of an open ledger makes a run that is so many times longer than a scattered one: what
# is gathered later is added to what was, and each of them is a call.
OPEN_RUNS: Final = 2
# How many segments the log must have gone on since a ledger was sealed: what is consumed and
# trimmed soon is never touched.
AGE_SEGMENTS: Final = 2
LEDGERS_PER_STEP: Final = 64


@final
class Piece:
    """The entries `first` to `end` - 1 of a ledger, to be copied together."""

    __slots__ = ("end", "first", "ledger_id")

    def __init__(self, ledger_id: int, first: int, end: int) -> None:
        self.ledger_id: Final = ledger_id
        self.first: Final = first
        self.end: Final = end


@final
class Scattered:
    """The ledgers to look at, the sealed ones by the age of their seals."""

    def __init__(self, log: Log, open_ledgers: Callable[[], list[int]]) -> None:
        self._log: Final = log
        self._open_ledgers: Final = open_ledgers
        # Up to where a topic is consumed by everyone; None if nobody keeps anything of it.
        self.consumed: Callable[[int], Position | None] = _nothing
        self._sealed: Final[deque[int]] = deque()
        self._open: Final[deque[int]] = deque()
        self._marks: dict[int, int] = {}
        # Whether `next` found nothing, but has not looked at all of them.
        self.unfinished: bool = False
        # The segment that was the last one when open ledgers were last looked at.
        self._segment_id: i64 = segment_of(log.journal.end)

    def find_all(self) -> None:
        """A store was opened: nobody knows which ledgers the last run looked at."""
        for ledger_id, ledger in self._log.state.ledgers.items():
            if isinstance(ledger.index, MappedIndex):
                self._sealed.append(ledger_id)

    def forget_marks(self) -> None:
        """A group failed: pieces on their way did not arrive."""
        self._marks.clear()

    def next(self) -> Piece | None:
        """Entries that should be gathered now."""
        log = self._log
        self._sealed.extend(log.take_indexed())
        self.unfinished = False
        if not log.options.gather_run_bytes or log.full or not log.quiet():
            return None
        if not self._open and segment_of(log.journal.end) > self._segment_id:
            self._segment_id = segment_of(log.journal.end)
            self._open.extend(self._open_ledgers())
            ledgers = log.state.ledgers
            self._marks = {id: mark for id, mark in self._marks.items() if id in ledgers}
        return self._next_sealed() or self._next_open()

    def _next_sealed(self) -> Piece | None:
        log = self._log
        for _ in range(min(LEDGERS_PER_STEP, len(self._sealed))):
            ledger = log.state.ledgers.get(self._sealed[0])
            if ledger is not None:
                if segment_of(ledger.address) + AGE_SEGMENTS > segment_of(log.journal.end):
                    return None
                if not self._has_room(ledger.index.size_bytes()):
                    return None
            self._sealed.popleft()
            if ledger is not None:
                first = self._marks.pop(ledger.id, 0)
                if scattered(ledger.index, first, log.options.gather_run_bytes):
                    return Piece(ledger.id, first, ledger.index.count())
        self.unfinished = bool(self._sealed)
        return None

    def _next_open(self) -> Piece | None:
        for _ in range(min(LEDGERS_PER_STEP, len(self._open))):
            ledger = self._log.state.ledgers.get(self._open[0])
            piece: Piece | None = None
            if ledger is not None and not ledger.sealed:
                index = ledger.index
                assert isinstance(index, HeapIndex)
                piece = self._piece_of(ledger, index)
                if piece is not None and not self._has_room(index.log_bytes(piece.first)):
                    return None
            self._open.popleft()
            if piece is not None:
                self._marks[piece.ledger_id] = piece.end
                return piece
        self.unfinished = self.unfinished or bool(self._open)
        return None

    def _piece_of(self, ledger: LedgerState, index: HeapIndex) -> Piece | None:
        first = max(self._marks.get(ledger.id, 0), self._consumed_of(ledger))
        run_bytes = self._log.options.gather_run_bytes
        if index.log_bytes(first) < OPEN_RUNS * run_bytes:
            return None
        if scattered(index, first, run_bytes):
            return Piece(ledger.id, first, index.count())
        self._marks[ledger.id] = index.count()
        return None

    def _consumed_of(self, ledger: LedgerState) -> int:
        """Returns the first entry of an open ledger that someone has not consumed."""
        position = self.consumed(ledger.topic_id)
        if position is None or position.ledger_id > ledger.id:
            return ledger.index.count()
        return position.entry_id + 1 if position.ledger_id == ledger.id else 0

    def _has_room(self, size_bytes: int) -> bool:
        return self._log.free_bytes >= size_bytes + self._log.options.watermark_bytes


def _nothing(topic_id: int) -> Position | None:
    return Position(0, -1)


def scattered(index: LedgerIndex, first: int, run_bytes_min: int) -> bool:
    """Returns whether entries that follow each other from `first` on mostly lie far apart."""
    runs: i64 = 0
    size: i64 = 0
    reach: i64 = -1
    for entry_id in range(first, min(index.count(), first + SAMPLE_ENTRIES)):
        address: i64 = index.address(entry_id)
        if reach < 0 or address < reach or address > reach + GROUP_HEADER_BYTES:
            runs += 1
        length: i64 = HEAD_BYTES + index.length(entry_id)
        size += length
        reach = address + length
    return runs >= RUNS_MIN and size < runs * run_bytes_min
