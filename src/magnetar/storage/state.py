"""What the log says: topics, ledgers and cursors, folded from records in sequence.

There is one fold, and it runs twice: over every group when it became durable, and over
the whole log in recovery. So what the store knows in memory is by construction what a
restart would find, and a group that failed leaves no trace.

Records are upserts: the latest of an object wins, so any of them can be written again at
the end of the log when its segment is to be freed. A deletion must outlive every older
record of its object; `tombstones` keeps where each stands until no older segment is left.
In recovery, records may thus come before the record of the object that they belong to.
They are kept for its sake, and `drop_unclaimed` drops what nobody claimed.

Every record that still matters is counted in the live bytes of its segment.
"""

from array import array
from bisect import bisect_left
from typing import Final, final

from mypy_extensions import i64
from pyroaring import BitMap

from magnetar.model import Position
from magnetar.storage.catalog.catalog_mark import CatalogMark, decode_mark
from magnetar.storage.ledger.index_file import MappedIndex
from magnetar.storage.ledger.ledger_index import HeapIndex, LedgerIndex
from magnetar.storage.log.record import Record, segment_of
from magnetar.storage.log.record_kind import (
    ABORTED_ENTRIES,
    CATALOG,
    COPY,
    CURSOR,
    DELETE,
    DELTA,
    ENTRY,
    LEDGER,
    LOST_ENTRY,
    SEGMENTS,
    SLICE,
    SLICE_LAST,
    TOPIC,
    TXN_ACK,
    TXN_END,
    TXN_OPEN,
    TXN_SENT,
    VIEW,
)
from magnetar.storage.state_record import (
    LEDGER_BODY,
    cursor_record,
    decode_aborted,
    decode_cursor_body,
    decode_segments,
    ledger_record,
    topic_record,
)
from magnetar.storage.transaction.transaction_state import EndedTransaction, Transactions

__all__ = ["CursorState", "LedgerState", "LogState", "ObjectState", "SegmentUse", "TopicState"]

NONE: Final = -1


@final
class SegmentUse:
    """How much of a segment still matters, and to whom."""

    def __init__(self) -> None:
        self.live_bytes: i64 = 0
        # Objects with a record here, other than entries; some may have moved on since.
        self.ids: Final[set[int]] = set()


class ObjectState:
    """What is known of a topic, a ledger or a cursor, and where its latest record stands.

    An object that has records of more kinds overrides `places` and `records_in`: the checker, its
    deletion and the move of what it says to another segment all go by these two.
    """

    def __init__(self, id: i64) -> None:
        self.id: Final[i64] = id
        self.address: i64 = NONE
        self.size: i64 = 0

    def record(self) -> Record:
        """Returns the record that says that it exists, to be written anew."""
        raise NotImplementedError

    def places(self) -> list[tuple[int, int]]:
        """Returns the addresses and sizes of its latest records; entries and images apart."""
        return [] if self.address == NONE else [(self.address, self.size)]

    def records_in(self, segment_id: int) -> list[Record]:
        """Returns those of them that a segment has, to be written anew."""
        return [self.record()] if segment_of(self.address) == segment_id else []


@final
class TopicState(ObjectState):
    def __init__(self, id: i64) -> None:
        super().__init__(id)
        self.name: str = ""
        self.ledger_ids: list[int] = []
        self.cursor_ids: list[int] = []
        # Ledgers of compaction, apart from its own; and the one that is its view, or NONE.
        self.view_ids: list[int] = []
        self.view_id: i64 = NONE

    def record(self) -> Record:
        return topic_record(self.id, self.name)


@final
class LedgerState(ObjectState):
    def __init__(self, id: i64) -> None:
        super().__init__(id)
        self.topic_id: i64 = NONE
        self.created_ms: i64 = 0
        self.sealed: bool = False
        self.sealed_ms: i64 = 0
        # What the seal says; the index says the same once it is complete.
        self.entries_sealed: i64 = 0
        self.bytes_sealed: i64 = 0
        self.index: LedgerIndex = HeapIndex(id)
        # Where it says which entries are of transactions that aborted; and what it says, once
        # somebody has read it.
        self.aborted_address: i64 = NONE
        self.aborted_size: i64 = 0
        self.aborted: BitMap | None = None
        # Whether it is what a compaction wrote; and what that says of it, once it is sealed.
        self.is_view: bool = False
        self.view: bytes = b""

    def places(self) -> list[tuple[int, int]]:
        places = super().places()
        if self.aborted_address != NONE:
            places.append((self.aborted_address, self.aborted_size))
        return places

    def record(self) -> Record:
        return ledger_record(
            self.id,
            self.topic_id,
            self.created_ms,
            sealed=self.sealed,
            entries=self.entries_sealed,
            size_bytes=self.bytes_sealed,
            sealed_ms=self.sealed_ms,
            view=self.view if self.is_view else None,
        )


@final
class CursorState(ObjectState):
    """Where the last durable snapshot of a cursor is, and the deltas behind it."""

    def __init__(self, id: i64) -> None:
        super().__init__(id)
        self.topic_id: i64 = NONE
        self.name: str = ""
        self.properties: bytes = b""
        self.slices: Places = Places()
        self.deltas: Places = Places()
        # A snapshot on its way: its number and its slices.
        self.building: Places = Places()
        self.building_number: i64 = NONE
        self.number_last: i64 = 0

    def record(self) -> Record:
        return cursor_record(self.id, self.topic_id, self.name, self.properties)


@final
class Places:
    """Addresses of records and their sizes: 12 bytes each."""

    def __init__(self) -> None:
        self.addresses: array[int] = array("q")
        self.sizes: array[int] = array("I")
        self.total_bytes: i64 = 0

    def add(self, address: i64, size: i64) -> None:
        self.addresses.append(address)
        self.sizes.append(size)
        self.total_bytes += size

    def count(self) -> int:
        return len(self.addresses)

    def last(self) -> int:
        """The address of the last record, NONE if there is none."""
        return self.addresses[-1] if self.addresses else NONE

    def all(self) -> list[tuple[int, int]]:
        return list(zip(self.addresses, self.sizes, strict=True))

    def count_before(self, address: i64) -> int:
        return bisect_left(self.addresses, address)

    def any_between(self, first: i64, end: i64) -> bool:
        at = bisect_left(self.addresses, first)
        return at < len(self.addresses) and self.addresses[at] < end

    def split(self, count: int) -> "Places":
        """Takes the first `count` away and returns them."""
        first = Places()
        for i in range(count):
            first.add(self.addresses[i], self.sizes[i])
        del self.addresses[:count]
        del self.sizes[:count]
        self.total_bytes -= first.total_bytes
        return first


@final
class LogState:
    """Everything that the durable log says."""

    def __init__(self) -> None:
        self.topics: Final[dict[int, TopicState]] = {}
        self.ledgers: Final[dict[int, LedgerState]] = {}
        self.cursors: Final[dict[int, CursorState]] = {}
        self.segments: Final[dict[int, SegmentUse]] = {}
        # Where the deletion of each deleted object stands.
        self.tombstones: Final[dict[int, int]] = {}
        # The segments that must exist, as of the last record that says so.
        self.listed: list[int] = []
        self.listed_address: i64 = NONE
        # What the catalog was when that was last written, and where that stands.
        self.catalog: CatalogMark | None = None
        self.catalog_address: i64 = NONE
        self.catalog_size: i64 = 0
        self.id_highest: i64 = 0
        self.transactions: Final = Transactions()
        # Entries of any ledger that a backup found damaged, and only their places are left.
        self.lost: Final[list[Position]] = []
        self.recovering: bool = False
        # The ledger of the last entry: most come in runs, and an id is an object of its own each
        # time for a dict.
        self._recent: LedgerState | None = None
        # Ledgers sealed by the fold since `take_sealed` was last called.
        self._sealed: list[int] = []

    # ---- The fold ------------------------------------------------------------

    def apply(self, record: Record) -> None:
        """Folds one record, which is durable and has an address, into the state."""
        kind = record.kind
        if kind in (ENTRY, COPY):
            self._apply_entry(record)
        elif kind == LOST_ENTRY:
            self.lost.append(Position(record.id, record.sub_id))
            self._apply_entry(record)
        elif kind == DELTA:
            self._apply_delta(record)
        elif kind in (SLICE, SLICE_LAST):
            self._apply_slice(record)
        elif kind == TOPIC:
            self._apply_topic(record)
        elif kind in (LEDGER, VIEW):
            self._apply_ledger(record)
        elif kind == CURSOR:
            self._apply_cursor(record)
        elif kind == DELETE:
            self._apply_delete(record)
        elif kind == SEGMENTS:
            self._apply_segments(record)
        elif kind == CATALOG:
            self._apply_catalog(record)
        elif kind == TXN_SENT:
            if self.transactions.send(record):
                self.segment(record.address).live_bytes += record.size()
        elif kind == TXN_ACK:
            if self.transactions.ack(record):
                self.segment(record.address).live_bytes += record.size()
        elif kind == TXN_OPEN:
            self.transactions.begin(record)
            self.segment(record.address).live_bytes += record.size()
        elif kind == TXN_END:
            self._apply_end(record)
        elif kind == ABORTED_ENTRIES:
            self._apply_aborted(record)
        if record.id > self.id_highest:
            self.id_highest = record.id

    def _apply_entry(self, record: Record) -> None:
        ledger = self._recent
        if ledger is None or ledger.id != record.id:
            ledger = self._recent = self.ledgers.get(record.id)
        if ledger is None:
            if not self.recovering:
                return  # a copy that was overtaken by the deletion of its ledger
            ledger = self._new_ledger(record.id)
        index = ledger.index
        if not isinstance(index, HeapIndex):
            return  # the index file knows; a copy is entered when the file is written anew
        size = record.size()
        before = index.put(
            record.sub_id,
            record.address,
            length=record.length,
            batch_size=record.batch_size,
            publish_time_ms=record.time_ms,
        )
        self.segment(record.address).live_bytes += size
        if before != NONE:
            self._count_dead(before, size)

    def _apply_delta(self, record: Record) -> None:
        cursor = self._cursor_of(record)
        if cursor is None:
            return
        cursor.deltas.add(record.address, record.size())
        self._count_live(record)

    def _cursor_of(self, record: Record) -> CursorState | None:
        """The cursor of a delta or slice; None if it was deleted while that was on its way."""
        cursor = self.cursors.get(record.id)
        if cursor is None and self.recovering:
            return self._new_cursor(record.id)
        return cursor

    def _apply_slice(self, record: Record) -> None:
        cursor = self._cursor_of(record)
        if cursor is None:
            return
        if record.batch_size == 0:
            self._count_all_dead(cursor.building)
            cursor.building = Places()
            cursor.building_number = record.time_ms
        elif cursor.building_number != record.time_ms or (
            cursor.building.count() != record.batch_size
        ):
            return  # the rest of a snapshot that was given up
        cursor.building.add(record.address, record.size())
        self._count_live(record)
        if record.time_ms > cursor.number_last:
            cursor.number_last = record.time_ms
        if record.kind == SLICE_LAST:
            self._finish_snapshot(cursor, record.sub_id)

    def _finish_snapshot(self, cursor: CursorState, covers: i64) -> None:
        """A snapshot is complete; deltas from `covers` on are not in it, wherever it stands.

        Deltas that were on their way when the snapshot was taken come before its slices
        in the log and are still not part of it.
        """
        self._count_all_dead(cursor.slices)
        self._count_all_dead(cursor.deltas.split(cursor.deltas.count_before(covers)))
        cursor.slices = cursor.building
        cursor.building = Places()
        cursor.building_number = NONE

    def _apply_topic(self, record: Record) -> None:
        topic = self.topics.get(record.id)
        if topic is None:
            topic = TopicState(record.id)
            self.topics[record.id] = topic
        else:
            self._count_dead(topic.address, topic.size)
        topic.name = record.body.decode()
        topic.address = record.address
        topic.size = record.size()
        self._count_live(record)

    def _apply_ledger(self, record: Record) -> None:
        ledger = self.ledgers.get(record.id)
        if ledger is None:
            ledger = self._new_ledger(record.id)
        is_new = ledger.address == NONE
        if not is_new:
            self._count_dead(ledger.address, ledger.size)
        sealed, entries, size_bytes, sealed_ms = LEDGER_BODY.unpack_from(record.body)
        ledger.topic_id = record.sub_id
        ledger.created_ms = record.time_ms
        ledger.address = record.address
        ledger.size = record.size()
        if sealed and not ledger.sealed:
            self._sealed.append(record.id)
        ledger.sealed = bool(sealed)
        ledger.entries_sealed = entries
        ledger.bytes_sealed = size_bytes
        ledger.sealed_ms = sealed_ms
        ledger.is_view = record.kind == VIEW
        ledger.view = record.body[LEDGER_BODY.size :]
        self._count_live(record)
        if not self.recovering:
            topic = self.topics[record.sub_id]
            if is_new:
                (topic.view_ids if ledger.is_view else topic.ledger_ids).append(record.id)
            if ledger.is_view and sealed:
                topic.view_id = record.id

    def _apply_cursor(self, record: Record) -> None:
        cursor = self.cursors.get(record.id)
        if cursor is None:
            cursor = self._new_cursor(record.id)
        if cursor.address != NONE:
            self._count_dead(cursor.address, cursor.size)
        elif not self.recovering:
            self.topics[record.sub_id].cursor_ids.append(record.id)
        cursor.topic_id = record.sub_id
        cursor.name, cursor.properties = decode_cursor_body(record.body)
        cursor.address = record.address
        cursor.size = record.size()
        self._count_live(record)

    def _apply_delete(self, record: Record) -> None:
        self.tombstones[record.id] = record.address
        topic = self.topics.pop(record.id, None)
        if topic is not None:
            self._count_object_dead(topic)
            for ledger_id in topic.ledger_ids + topic.view_ids:
                self._drop_ledger(ledger_id)
            for cursor_id in topic.cursor_ids:
                self._drop_cursor(cursor_id)
            return
        ledger = self.ledgers.get(record.id)
        if ledger is not None:
            if not self.recovering:
                self._disown(ledger)
            self._drop_ledger(record.id)
            return
        cursor = self.cursors.get(record.id)
        if cursor is not None:
            if not self.recovering:
                self.topics[cursor.topic_id].cursor_ids.remove(record.id)
            self._drop_cursor(record.id)

    def _disown(self, ledger: LedgerState) -> None:
        owner = self.topics[ledger.topic_id]
        (owner.view_ids if ledger.is_view else owner.ledger_ids).remove(ledger.id)
        if ledger.id == owner.view_id:
            owner.view_id = NONE

    def _apply_catalog(self, record: Record) -> None:
        if self.catalog is not None:
            self._count_dead(self.catalog_address, self.catalog_size)
        self.catalog = decode_mark(record.sub_id, record.body)
        self.catalog_address = record.address
        self.catalog_size = record.size()
        self._count_live(record)

    def _apply_segments(self, record: Record) -> None:
        self.listed = decode_segments(record.body)
        self.listed_address = record.address
        # The ends of these may have gone with the segments that are not listed any more.
        for number in [n for n in self.transactions.open if n < record.sub_id]:
            self._close_transaction(number)

    # ---- Transactions --------------------------------------------------------

    def _apply_end(self, record: Record) -> None:
        number = -record.id
        was_open = self._close_transaction(number)
        if not (was_open or self.recovering or number in self.transactions.ended):
            return  # moved here, and forgotten meanwhile
        self.segment(record.address).live_bytes += record.size()
        ended = EndedTransaction(
            number, record.sub_id, record.time_ms, record.address, record.size()
        )
        dead = self.transactions.remember(ended)
        if dead is not None:
            self._count_dead(dead.address, dead.size)

    def _close_transaction(self, number: int) -> bool:
        """What it was made of is dead: entries and deltas speak for themselves now."""
        transaction = self.transactions.close(number)
        if transaction is None:
            return False
        for segment_id, size in transaction.usage.items():
            self.segments[segment_id].live_bytes -= size
        return True

    def _apply_aborted(self, record: Record) -> None:
        ledger = self.ledgers.get(record.id)
        if ledger is None:
            if not self.recovering:
                return  # the ledger was deleted while this was on its way
            ledger = self._new_ledger(record.id)
        if ledger.aborted_address != NONE:
            self._count_dead(ledger.aborted_address, ledger.aborted_size)
        ledger.aborted_address = record.address
        ledger.aborted_size = record.size()
        ledger.aborted = decode_aborted(record.body) if record.body else None
        self._count_live(record)

    # ---- Objects come and go -------------------------------------------------

    def _new_ledger(self, ledger_id: int) -> LedgerState:
        assert self.recovering or ledger_id not in self.tombstones
        ledger = LedgerState(ledger_id)
        self.ledgers[ledger_id] = ledger
        self._recent = None
        return ledger

    def _new_cursor(self, cursor_id: int) -> CursorState:
        assert self.recovering or cursor_id not in self.tombstones
        cursor = CursorState(cursor_id)
        self.cursors[cursor_id] = cursor
        return cursor

    def adopt_index(self, ledger_id: int, index: MappedIndex) -> None:
        """Takes an index file as the truth about a ledger before recovery folds the log."""
        assert self.recovering
        self._new_ledger(ledger_id).index = index
        self.id_highest = max(self.id_highest, ledger_id)
        self._add_usage(index, 1)

    def swap_index(self, ledger_id: int, index: MappedIndex) -> None:
        """A ledger's index file was written, or written anew after copies moved."""
        ledger = self.ledgers[ledger_id]
        self._add_usage(ledger.index, -1)
        ledger.index = index
        self._add_usage(index, 1)

    def _add_usage(self, index: LedgerIndex, sign: int) -> None:
        for segment_id, size in index.usage().items():
            use = self.segments.get(segment_id)
            if use is None:
                use = SegmentUse()
                self.segments[segment_id] = use
            use.live_bytes += sign * size

    def _drop_ledger(self, ledger_id: int) -> None:
        ledger = self.ledgers.pop(ledger_id)
        self._recent = None
        self._count_object_dead(ledger)
        index = ledger.index
        self._add_usage(index, -1)
        if isinstance(index, MappedIndex):
            index.release()

    def _drop_cursor(self, cursor_id: int) -> None:
        cursor = self.cursors.pop(cursor_id)
        self._count_object_dead(cursor)
        self._count_all_dead(cursor.slices)
        self._count_all_dead(cursor.deltas)
        self._count_all_dead(cursor.building)

    def drop_unclaimed(self) -> None:
        """Ends recovery: objects find their topics, and what nobody claims is dropped."""
        for topic in self.topics.values():
            topic.ledger_ids.clear()
            topic.cursor_ids.clear()
            topic.view_ids.clear()
        for ledger_id in sorted(self.ledgers):
            ledger = self.ledgers[ledger_id]
            owner = self.topics.get(ledger.topic_id)
            if owner is None or ledger.address == NONE:
                self._drop_ledger(ledger_id)
            elif ledger.is_view:
                self._claim_view(owner, ledger)
            else:
                owner.ledger_ids.append(ledger_id)
        for cursor_id in sorted(self.cursors):
            cursor = self.cursors[cursor_id]
            owner = self.topics.get(cursor.topic_id)
            if owner is None or cursor.address == NONE:
                self._drop_cursor(cursor_id)
            else:
                owner.cursor_ids.append(cursor_id)
        self.recovering = False

    def _claim_view(self, owner: TopicState, ledger: LedgerState) -> None:
        """The newest that is whole is the view of its topic; what else there is, is nobody's."""
        if not ledger.sealed:
            self._drop_ledger(ledger.id)
            return
        for before in owner.view_ids:
            self._drop_ledger(before)
        owner.view_ids = [ledger.id]
        owner.view_id = ledger.id

    def take_sealed(self) -> list[int]:
        """The ledgers that were sealed since the last call."""
        sealed = self._sealed
        self._sealed = []
        return sealed

    # ---- Live bytes ----------------------------------------------------------

    def segment(self, address: i64) -> SegmentUse:
        segment_id = segment_of(address)
        use = self.segments.get(segment_id)
        if use is None:
            use = SegmentUse()
            self.segments[segment_id] = use
        return use

    def _count_live(self, record: Record) -> None:
        use = self.segment(record.address)
        use.live_bytes += record.size()
        use.ids.add(record.id)

    def _count_dead(self, address: i64, size: i64) -> None:
        self.segments[segment_of(address)].live_bytes -= size

    def _count_object_dead(self, object: ObjectState) -> None:
        for address, size in object.places():
            self._count_dead(address, size)

    def _count_all_dead(self, places: Places) -> None:
        for i in range(places.count()):
            self._count_dead(places.addresses[i], places.sizes[i])
