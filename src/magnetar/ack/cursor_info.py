"""A cursor as Apache Pulsar keeps it, as of PIP-54.

A `CursorInfo` is the mark-delete position, ranges of acked entries above it, and for each
partly acked batch the indexes that are left.

    Cursor  <-- info_to_cursor, cursor_to_info -->  CursorInfo  <-- cursor_info_codec -->  bytes

What Pulsar's format does not hold is the size of a batch. So a cursor can only be made
where the topic's ledgers know it; if they do not, the batch is refused and never taken for
fully acked. Nor does it hold our epoch, which counts resets of a living cursor.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.ack.acks import Acks
from magnetar.ack.cursor import Cursor
from magnetar.ack.ledgers import Ledgers
from magnetar.ack.record import is_complete, is_untouched, make_record
from magnetar.errors import BatchIndexError, NoSuchEntryError
from magnetar.model.position import Position


@final
class CursorInfo:
    """What Pulsar keeps of a cursor.

    `ranges` are pairs of a lower position, which is not acked itself, and an upper one,
    which is; they may span ledgers. `batches` are pairs of a position and the bitset of
    the indexes that are left of that batch. `properties` are numbers that came with the
    last ack; `cursor_properties` belong to the subscription, and only ManagedCursorInfo
    has them and `last_active_ms`.
    """

    __slots__ = (
        "batches",
        "cursor_properties",
        "last_active_ms",
        "mark_delete",
        "properties",
        "ranges",
    )

    def __init__(
        self,
        mark_delete: Position,
        ranges: tuple[tuple[Position, Position], ...] = (),
        batches: tuple[tuple[Position, int], ...] = (),
        properties: tuple[tuple[str, int], ...] = (),
        cursor_properties: tuple[tuple[str, str], ...] = (),
        last_active_ms: i64 = 0,
    ) -> None:
        self.mark_delete: Final = mark_delete
        self.ranges: Final = ranges
        self.batches: Final = batches
        self.properties: Final = properties
        self.cursor_properties: Final = cursor_properties
        self.last_active_ms: Final[i64] = last_active_ms

    def _key(
        self,
    ) -> tuple[
        Position,
        tuple[tuple[Position, Position], ...],
        tuple[tuple[Position, int], ...],
        tuple[tuple[str, int], ...],
        tuple[tuple[str, str], ...],
        int,
    ]:
        return (
            self.mark_delete,
            self.ranges,
            self.batches,
            self.properties,
            self.cursor_properties,
            self.last_active_ms,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CursorInfo):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"CursorInfo{self._key()}"

    def __reduce__(self) -> tuple[type["CursorInfo"], tuple[object, ...]]:
        return (CursorInfo, self._key())


def range_of(ledger_id: i64, first: i64, end: i64) -> tuple[Position, Position]:
    """Entries `first` to `end` - 1 as Pulsar says it."""
    return Position(ledger_id, first - 1), Position(ledger_id, end - 1)


def cursor_to_info(cursor: Cursor) -> CursorInfo:
    """Returns the state of a cursor, all of it: there is no limit on ranges or batches.

    >>> ledgers = Ledgers()
    >>> ledgers.add(5, 10)
    >>> cursor = Cursor(ledgers, Position(5, 1))
    >>> cursor.apply(cursor.plan_expire(Position(5, 3)))
    True
    >>> cursor_to_info(cursor).mark_delete
    Position(5, 3)
    """
    ranges: list[tuple[Position, Position]] = []
    for run in cursor.acked_runs():
        ranges.append(range_of(run.ledger_id, run.first, run.end))
    batches: list[tuple[Position, int]] = []
    for position, remaining, _ in cursor.partly_acked():
        batches.append((position, remaining))
    return CursorInfo(cursor.mark_delete, tuple(ranges), tuple(batches))


def info_to_cursor(info: CursorInfo, ledgers: Ledgers) -> Cursor:
    """Returns the cursor of a topic with these ledgers. What was trimmed since is passed over.

    Raises NoSuchEntryError if the topic never had an entry that is acked, and
    BatchIndexError if nobody here knows the size of a partly acked batch, or it is a
    size that the indexes do not fit.
    """
    acks = Acks(ledgers.sizes)
    floor = info.mark_delete
    for lower, upper in info.ranges:
        if upper > floor and _is_there(ledgers, upper):
            _ack_range(acks, ledgers, lower if lower > floor else floor, upper)
    for position, remaining in info.batches:
        if position > floor and _is_there(ledgers, position):
            _ack_batch(acks, position, remaining)
    for ledger_id in acks.ledger_ids():
        own = acks.own(ledger_id)
        own.entries.run_optimize()
        own.messages = own.count_messages(ledger_id, ledgers.sizes)
    return Cursor(ledgers, floor, 0, acks)


def _is_there(ledgers: Ledgers, position: Position) -> bool:
    """Returns whether the topic has the entry; False if it was trimmed."""
    ledger_id = position.ledger_id
    count = ledgers.entry_count(ledger_id)
    if position.entry_id < count:
        return True
    if count >= 0:
        raise NoSuchEntryError(ledger_id, position.entry_id, f"the ledger has {count} entries")
    if ledgers.was_trimmed(ledger_id) or ledgers.last().ledger_id < 0:
        return False
    raise NoSuchEntryError(ledger_id, position.entry_id, "it never had this ledger")


def _ack_range(acks: Acks, ledgers: Ledgers, lower: Position, upper: Position) -> None:
    found = ledgers.next(lower)
    while found is not None and found <= upper:
        end = ledgers.entry_count(found.ledger_id)
        if found.ledger_id == upper.ledger_id:
            end = min(end, upper.entry_id + 1)
        acks.own(found.ledger_id).entries.add_range(found.entry_id, end)
        found = ledgers.next(Position(found.ledger_id, end - 1))


def _ack_batch(acks: Acks, position: Position, remaining: int) -> None:
    ledger_id = position.ledger_id
    entry_id = position.entry_id
    size: int = acks.sizes.batch_size(ledger_id, entry_id)
    if size == 0:
        raise BatchIndexError(ledger_id, entry_id, "the size of this batch is not known here")
    record = make_record(size, remaining)
    if is_complete(record):
        raise BatchIndexError(ledger_id, entry_id, f"no index below {size} is left")
    if acks.record(ledger_id, entry_id) != 0:
        raise BatchIndexError(ledger_id, entry_id, "this batch is given twice")
    if not is_untouched(record):
        acks.ack_indexes(ledger_id, entry_id, record)
