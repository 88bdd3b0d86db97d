"""Entries as columns: many entries, batches or not, gathered for one table.

What differs from message to message is in `messages`, a row for each. What all messages of
an entry share is kept once for each entry, as Arrow's run-end encoding has it: run i ends
before row `run_ends[i]`. A message that is not in a batch has the index -1.

Damaged bytes raise RemoteProtocolError, after which everything here is to be thrown away:
who wants to go on takes entries one by one, and adds a row without a value for a bad one.
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.protocol.entry import Entry
from magnetar.protocol.metadata import MessageMetadata
from magnetar.protocol.payload.batch import check_batch_count
from magnetar.protocol.payload.columns import (
    ALL_COLUMNS,
    EVENT_TIMES,
    KEYS,
    ORDERING_KEYS,
    PROPERTIES,
    SEQUENCE_IDS,
    BatchColumns,
    BinaryColumn,
    NumberColumn,
    decode_batch_columns,
)
from magnetar.protocol.payload.compression import decompress
from magnetar.wire.integer import INT32_MAX
from magnetar.wire.writer import BytesWriter, put_bytes_field, put_int_field

# A column beside those of `columns`: ids as clients write them.
MESSAGE_IDS: Final = 64
ALL_ENTRY_COLUMNS: Final = ALL_COLUMNS | MESSAGE_IDS
# What a payload may grow to; brokers bound the compressed size only.
UNCOMPRESSED_SIZE_MAX: Final = 128 << 20


@final
class EntryColumns:
    """See the module."""

    def __init__(self, partition: i64 = -1, wanted: i64 = ALL_ENTRY_COLUMNS) -> None:
        self._partition: Final[i64] = partition
        self._wanted: Final[i64] = wanted
        self.messages: Final = BatchColumns()
        self.message_ids: Final = BinaryColumn()
        self.run_ends: Final = NumberColumn()
        self.ledger_ids: Final = NumberColumn()
        self.entry_ids: Final = NumberColumn()
        self.publish_times: Final = NumberColumn()
        self.sequence_ids: Final = NumberColumn()
        self.redelivery_counts: Final = NumberColumn()
        # In ms since 1970; 0 for what is delivered at once.
        self.deliver_times: Final = NumberColumn()
        self.producers: Final = BinaryColumn()
        self.schema_versions: Final = BinaryColumn()

    def __len__(self) -> int:
        return len(self.messages)

    def add(
        self,
        ledger_id: i64,
        entry_id: i64,
        redelivery_count: i64,
        entry: Entry,
        metadata: MessageMetadata,
        first: i64 = 0,
        end: i64 = INT32_MAX,
        only: int | None = None,
    ) -> i64:
        """Adds the messages of an entry from an index to another, and says how many.

        Of a batch only those whose bits are in `only`. Raises RemoteProtocolError. Markers,
        which hold no message, add none.
        """
        if metadata.marker_type is not None:
            return 0
        payload = entry.payload()
        if metadata.compression != 0:
            payload = decompress(
                metadata.compression, payload, metadata.uncompressed_size, UNCOMPRESSED_SIZE_MAX
            )
        before: i64 = len(self.messages)
        size: i64 = -1
        if metadata.num_messages_in_batch is None:
            if first == 0:
                self._add_single(metadata, payload)
        else:
            size = metadata.num_messages_in_batch
            check_batch_count(size)
            keep = only
            if first > 0 or end < size:
                keep = (1 << int(min(end, size))) - 1 >> int(first) << int(first)
                if only is not None:
                    keep &= only
            decode_batch_columns(payload, size, self.messages, self._wanted, keep)
        return self._end_run(before, size, ledger_id, entry_id, redelivery_count, metadata)

    def add_whole(
        self,
        ledger_id: i64,
        entry_id: i64,
        redelivery_count: i64,
        metadata: MessageMetadata,
        payload: bytes | None,
        first_chunk: bytes = b"",
    ) -> None:
        """Adds one row: a message put together from chunks, or None where it is unreadable.

        `first_chunk` is the id of its first chunk, as clients serialize it.
        """
        before: i64 = len(self.messages)
        self._add_single(metadata, payload)
        self._end_run(before, -1, ledger_id, entry_id, redelivery_count, metadata, first_chunk)

    def _add_single(self, metadata: MessageMetadata, payload: bytes | None) -> None:
        into = self.messages
        wanted = self._wanted
        into.indexes.append(-1)
        if payload is None or metadata.null_value:
            into.values.append_null()
        else:
            into.values.append(payload)
        if wanted & KEYS:
            into.b64_keys.append(metadata.partition_key_b64_encoded)
            if metadata.partition_key is None or metadata.null_partition_key:
                into.keys.append_null()
            else:
                into.keys.append(metadata.partition_key.encode())
        if wanted & ORDERING_KEYS:
            if metadata.ordering_key is None:
                into.ordering_keys.append_null()
            else:
                into.ordering_keys.append(metadata.ordering_key)
        if wanted & EVENT_TIMES:
            into.event_times.append(metadata.event_time)
        if wanted & SEQUENCE_IDS:
            into.sequence_ids.append(metadata.sequence_id)
        if wanted & PROPERTIES:
            if metadata.properties is not None:
                for key, value in metadata.properties:
                    into.property_keys.append(key.encode())
                    into.property_values.append(value.encode())
            into.property_offsets.append(len(into.property_keys))

    def _end_run(
        self,
        before: i64,
        batch_size: i64,
        ledger_id: i64,
        entry_id: i64,
        redelivery_count: i64,
        metadata: MessageMetadata,
        first_chunk: bytes = b"",
    ) -> i64:
        rows: i64 = len(self.messages)
        if rows == before:
            return 0
        self.run_ends.append(rows)
        self.ledger_ids.append(ledger_id)
        self.entry_ids.append(entry_id)
        self.publish_times.append(metadata.publish_time)
        self.sequence_ids.append(metadata.sequence_id)
        self.redelivery_counts.append(redelivery_count)
        deliver_at = metadata.deliver_at_time
        self.deliver_times.append(0 if deliver_at is None else deliver_at)
        self.producers.append(metadata.producer_name.encode())
        if metadata.schema_version is None:
            self.schema_versions.append_null()
        else:
            self.schema_versions.append(metadata.schema_version)
        if self._wanted & MESSAGE_IDS:
            self._add_ids(before, rows, batch_size, ledger_id, entry_id, first_chunk)
        return rows - before

    def _add_ids(
        self,
        before: i64,
        rows: i64,
        batch_size: i64,
        ledger_id: i64,
        entry_id: i64,
        first_chunk: bytes,
    ) -> None:
        head = BytesWriter()
        put_int_field(head, 0x08, ledger_id)
        put_int_field(head, 0x10, entry_id)
        if self._partition != -1:
            put_int_field(head, 0x18, self._partition)
        shared = head.getvalue()
        if batch_size < 0:
            last = BytesWriter()
            last.write(shared)
            put_int_field(last, 0x30, 0)
            if first_chunk:
                put_bytes_field(last, 0x3A, first_chunk)
            self.message_ids.append(last.getvalue())
            return
        for row in range(before, rows):
            id = BytesWriter()
            id.write(shared)
            put_int_field(id, 0x20, self.messages.indexes.at(row))
            put_int_field(id, 0x30, batch_size)
            self.message_ids.append(id.getvalue())
