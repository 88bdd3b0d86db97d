"""One read: the entries of a split, decoded into record batches.

Entries come in chunks of a megabyte or so and are gathered until there are rows enough for
a record batch. No message becomes an object on the way. A batch that the split begins or
ends inside of gives only the indexes that are the split's.

An entry that cannot be read (damaged, encrypted, no batch though it says so) fails the task,
or if bad records may be null or have a column becomes one row without a value.
"""

from collections.abc import Iterator

import pyarrow as pa

from magnetar.arrow.batch import batch_of, binary, wanted_of
from magnetar.arrow.chunks import Chunks, Whole, is_chunk
from magnetar.arrow.loss import Losses
from magnetar.arrow.plan.backlog import Run
from magnetar.arrow.plan.range_end import Place, Range, entry_end
from magnetar.arrow.plan.settings import ReadSettings
from magnetar.arrow.values import ValueDecoder
from magnetar.client.consumer.start.entry_range import RawEntry
from magnetar.client.door.bulk import BulkClient
from magnetar.errors import InvalidMessage, RemoteProtocolError
from magnetar.model import TopicName
from magnetar.protocol.metadata import MessageMetadata
from magnetar.protocol.payload.entry_columns import EntryColumns
from magnetar.wire.integer import INT32_MAX

__all__ = ["Picks", "read_split"]

# Beyond this a record batch is closed, however few its rows.
BATCH_BYTES = 16 << 20


class Picks:
    """Which entries of a split are wanted, and of which batches only some indexes."""

    def __init__(self, runs: list[Run], picked: dict[tuple[int, int], int]) -> None:
        self._runs = runs
        self._at = 0
        self.picked = picked

    def has(self, ledger: int, entry: int) -> bool:
        """Entries are asked for in their order."""
        while self._at < len(self._runs):
            run_ledger, first, end = self._runs[self._at]
            if (ledger, entry) < (run_ledger, end):
                return (ledger, entry) >= (run_ledger, first)
            self._at += 1
        return False


def read_split(
    client: BulkClient,
    settings: ReadSettings,
    split: Range,
    schema: "pa.Schema",
    picks: Picks | None = None,
) -> Iterator["pa.RecordBatch"]:
    """Yields the record batches of a split, of exactly this schema."""
    topic, start, end = split
    task = _Task(client, settings, topic, start, end, schema)
    if picks is not None:
        task.picked = picks.picked
    timeout_s = settings.timeout_s
    losses = Losses(client, topic, settings)
    seen: set[int] = set()
    with client.entries(topic, start[:2], entry_end(end), timeout_s=timeout_s) as entries:
        while chunk := entries.next():
            seen.update(int(raw.ledger_id) for raw in chunk)
            losses.check(entries.take_gaps(), seen)
            for raw in chunk:
                if picks is not None and not picks.has(int(raw.ledger_id), int(raw.entry_id)):
                    continue
                task.add(raw)
                if task.full:
                    yield task.take()
        losses.check(entries.take_gaps(), seen)
    if not task.empty:
        yield task.take()


class _Task:
    """What was gathered for the next record batch."""

    def __init__(
        self,
        client: BulkClient,
        settings: ReadSettings,
        topic: str,
        start: Place,
        end: Place,
        schema: "pa.Schema",
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._partition = TopicName.parse(topic).partition
        self._start = start
        self._end = end
        self._schema = schema
        self._wanted = wanted_of(self._schema.names)
        self._decoder = ValueDecoder(client, topic, schema, settings)
        self._chunks = Chunks(client, topic, settings.timeout_s)
        self._lenient = settings.bad_records != "fail"
        self._columns = self._new_columns()
        self._size = 0
        # Kept only where bad entries are passed over: all that is in `_columns`, to begin anew.
        self._kept: list[tuple[RawEntry, Whole | str | None]] = []
        self._bad: dict[int, str] = {}
        # Of which batches only some indexes are wanted.
        self.picked: dict[tuple[int, int], int] = {}

    def _new_columns(self) -> EntryColumns:
        return EntryColumns(self._partition, self._wanted)

    @property
    def full(self) -> bool:
        return len(self._columns) >= self._settings.rows_per_batch or self._size >= BATCH_BYTES

    @property
    def empty(self) -> bool:
        return len(self._columns) == 0

    def add(self, raw: RawEntry) -> None:
        """Adds an entry's messages, or what stands for them."""
        whole: Whole | str | None = None
        try:
            whole = self._payload(raw)
            self._add(raw, whole)
        except (RemoteProtocolError, InvalidMessage) as error:
            reason = f"{self._topic} {raw.ledger_id}:{raw.entry_id} cannot be read: {error}"
            if not self._lenient:
                raise InvalidMessage(
                    f"{reason}; set {self._settings.names.bad_records} to null or column to read on"
                ) from error
            whole = reason
            self._begin_anew()
            self._add(raw, reason)
        if self._lenient:
            self._kept.append((raw, whole))
        self._size += _size_of(raw, whole)

    def _payload(self, raw: RawEntry) -> Whole | None:
        """Returns a message in chunks that is whole now; raises for what is unreadable."""
        metadata, entry = raw.metadata, raw.entry
        if metadata is None or entry is None or not entry.intact():
            raise InvalidMessage("its bytes are damaged")
        if metadata.encryption_keys is not None:
            raise InvalidMessage("it is encrypted, and there are no keys here")
        return self._chunks.add(raw) if is_chunk(metadata) else None

    def _add(self, raw: RawEntry, whole: Whole | str | None) -> None:
        metadata, entry = raw.metadata, raw.entry
        ledger, number, again = raw.ledger_id, raw.entry_id, raw.redelivery_count
        at = (int(ledger), int(number))
        if isinstance(whole, str):
            if at == self._end[:2]:
                return  # the split that has its end says so
            self._bad[len(self._columns)] = whole
            metadata = metadata or MessageMetadata("", 0, 0)
            self._columns.add_whole(ledger, number, again, metadata, None)
        elif metadata is None or entry is None:
            raise InvalidMessage("its bytes are damaged")
        elif whole is not None:
            first = whole.first.serialize()
            self._columns.add_whole(ledger, number, again, metadata, whole.payload, first)
        elif not is_chunk(metadata):
            begin = self._start[2] if at == self._start[:2] else 0
            end = self._end[2] if at == self._end[:2] else INT32_MAX
            only = self.picked.get(at)
            self._columns.add(ledger, number, again, entry, metadata, begin, end, only)

    def _begin_anew(self) -> None:
        """Throws away what a bad entry left half done."""
        self._columns = self._new_columns()
        self._bad = {}
        for raw, whole in self._kept:
            self._add(raw, whole)

    def take(self) -> "pa.RecordBatch":
        columns, bad = self._columns, self._bad
        values, problems = self._decoder.decode(
            binary(columns.messages.values), binary(columns.schema_versions), columns.run_ends
        )
        self._columns, self._bad, self._kept, self._size = self._new_columns(), {}, [], 0
        return batch_of(
            columns, self._schema, self._topic, self._partition, values, {**problems, **bad}
        )


def _size_of(raw: RawEntry, whole: Whole | str | None) -> int:
    """Returns what an entry takes in memory, about."""
    if isinstance(whole, Whole):
        return len(whole.payload)
    unpacked = 0 if raw.metadata is None else int(raw.metadata.uncompressed_size)
    return max(int(raw.size), unpacked)
