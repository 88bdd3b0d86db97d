"""Splits: how ranges of messages become tasks.

A range of one topic partition may be read by several tasks, each of which has some of its
entries. How many entries there are is known of what lies in one ledger, by their numbers;
of ledgers that end inside of a range it is known if somebody tells (`Ledgers`), else such
a piece stays whole. So splits follow from offsets alone: a batch that is run again after a
crash has the same tasks with the same rows.

    range -> pieces, one for each ledger -> splits of at most so many entries

An entry is never divided but by the ends of the range itself.
"""

from typing import Final, final

from magnetar.arrow.plan.range_end import Place, Range, entry_end

__all__ = ["Ledgers", "Piece", "Weights", "pieces_of", "plan_splits"]

# What a plan may have: a task for each costs the driver memory.
SPLITS_MAX: Final = 100_000


@final
class Ledgers:
    """The ledgers of topic partitions: ids and how many entries each has."""

    def __init__(self) -> None:
        self._of: Final[dict[str, list[tuple[int, int]]]] = {}

    def add(self, topic: str, ledgers: list[tuple[int, int]]) -> None:
        self._of[topic] = sorted(ledgers)

    def of(self, topic: str) -> list[tuple[int, int]] | None:
        return self._of.get(topic)


@final
class Weights:
    """What an entry of a topic partition holds on average, as a sample of them showed."""

    def __init__(self, rows: float = 1.0, size_bytes: float = 1.0) -> None:
        self.rows: Final[float] = rows
        self.size_bytes: Final[float] = size_bytes


@final
class Piece:
    """A part of a range that lies in one ledger; `entries` is -1 where nobody knows."""

    def __init__(self, topic: str, start: Place, end: Place, entries: int) -> None:
        self.topic: Final = topic
        self.start: Final[Place] = start
        self.end: Final[Place] = end
        self.entries: Final[int] = entries


def pieces_of(ranges: list[Range], ledgers: Ledgers) -> list[Piece]:
    """Cuts ranges where ledgers begin, as far as they are known."""
    found: list[Piece] = []
    for topic, start, end in ranges:
        known = ledgers.of(topic)
        if known is not None:
            _cut_by(topic, start, end, known, found)
        elif start[0] == end[0]:
            found.append(Piece(topic, start, end, _entries(start, end)))
        else:
            last: Place = (end[0], 0, 0)
            found.append(Piece(topic, start, last, -1))
            if last < end:
                found.append(Piece(topic, last, end, _entries(last, end)))
    return found


def _entries(start: Place, end: Place) -> int:
    return entry_end(end)[1] - max(start[1], 0)


def _cut_by(
    topic: str, start: Place, end: Place, known: list[tuple[int, int]], found: list[Piece]
) -> None:
    at = start
    for ledger, entries in known:
        if ledger < at[0]:
            continue
        stop = min(end, (ledger, entries, 0))
        if ledger == end[0]:
            stop = end
        if at >= stop:
            continue
        # What is missing before this ledger belongs to the piece too, so that it is missed.
        first = at[1] if at[0] == ledger else 0
        found.append(Piece(topic, at, stop, entry_end(stop)[1] - max(first, 0)))
        at = stop
        if at >= end:
            return
    if at < end:
        found.append(Piece(topic, at, end, -1))


def plan_splits(
    pieces: list[Piece],
    *,
    partitions_min: int = 0,
    rows_max: int = 0,
    bytes_max: int = 0,
    weights: dict[str, Weights] | None = None,
) -> list[Range]:
    """Returns the ranges that tasks read, in the order of the topics."""
    total = 0
    for piece in pieces:
        total += max(piece.entries, 1)
    splits: list[Range] = []
    for piece in pieces:
        count = 1
        if piece.entries > 1:
            if partitions_min > 0:
                count = max(count, -(-partitions_min * piece.entries // total))
            weight = None if weights is None else weights.get(piece.topic)
            if weight is not None:
                count = max(count, _needed(piece.entries * weight.rows, rows_max))
                count = max(count, _needed(piece.entries * weight.size_bytes, bytes_max))
            count = min(count, piece.entries, SPLITS_MAX)
        _divide(piece, count, splits)
    return splits


def _needed(amount: float, limit: int) -> int:
    return 1 if limit <= 0 else -(-int(amount) // limit)


def _divide(piece: Piece, count: int, splits: list[Range]) -> None:
    """Cuts a piece into `count` of as many entries each as can be, give or take one."""
    if count <= 1:
        splits.append((piece.topic, piece.start, piece.end))
        return
    ledger = piece.end[0]
    first = entry_end(piece.end)[1] - piece.entries
    start = piece.start
    for i in range(1, count):
        cut: Place = (ledger, first + piece.entries * i // count, 0)
        splits.append((piece.topic, start, cut))
        start = cut
    splits.append((piece.topic, start, piece.end))
