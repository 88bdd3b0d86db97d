"""Reading a segment front to back, and saying where it stops being a log.

A scan hands out the records of one group at a time, and only of groups that are whole:
header, count, length and the checksum of every record. It stops at the first byte that
is not part of a whole group. Whether that is the end of the log, a torn write or
corruption is not for the scan to say: it reports what later groups claim to have been
durable (`evidence`), and recovery compares.

The *heads* of a segment are the same bytes without the bodies, and are scanned by the
same code. They are checked as a whole by their own checksum (see heads.py).
"""

from typing import Final, final

from mypy_extensions import i64

from magnetar.storage.log.record import HEAD_BYTES, Record, address_of, decode_head, record_intact
from magnetar.storage.log.record_kind import is_entry
from magnetar.storage.log.segment import (
    GROUP_HEADER_BYTES,
    GROUP_MAGIC,
    SEGMENT_HEADER_BYTES,
    GroupHeader,
    SegmentHeader,
    decode_group_header,
    decode_segment_header,
)

__all__ = ["Scan", "Tail"]


@final
class Scan:
    """Walks the groups of one segment, given all its bytes or its heads."""

    def __init__(self, data: bytes, segment_id: i64, salt: int, *, heads: bool = False) -> None:
        self.data: Final = data
        self.segment_id: Final[i64] = segment_id
        self.salt: Final = salt
        self.heads: Final = heads
        self.header: SegmentHeader | None = decode_segment_header(data, salt)
        if self.header is not None and self.header.id != segment_id:
            self.header = None
        # Where the next group stands, in the data and in the segment.
        self._pos: i64 = SEGMENT_HEADER_BYTES
        self.end: i64 = SEGMENT_HEADER_BYTES if self.header is not None else 0
        self.synced: i64 = self.header.synced if self.header is not None else 0
        # The heads of what was scanned, to be written where a segment has none.
        self._parts: Final[list[bytes]] = [data[:SEGMENT_HEADER_BYTES]]

    def next_group(self, *, bodies: bool = False) -> list[Record] | None:
        """Returns the records of the next whole group, or None where the log stops.

        Bodies of entries are left out unless asked for, those of other records are given;
        heads have none.
        """
        if self.header is None:
            return None
        header = decode_group_header(self.data, self._pos, self.salt)
        if header is None or header.address != address_of(self.segment_id, self.end):
            return None
        records = self._records(header, bodies)
        if records is not None:
            if header.synced > self.synced:
                self.synced = header.synced
            self._note_heads(records)
            self._pos += GROUP_HEADER_BYTES
            self._pos += HEAD_BYTES * header.count if self.heads else header.length
            self.end += GROUP_HEADER_BYTES + header.length
        return records

    def _records(self, header: GroupHeader, bodies: bool) -> list[Record] | None:
        pos: i64 = self._pos + GROUP_HEADER_BYTES
        limit: i64 = len(self.data)
        address = header.address + GROUP_HEADER_BYTES
        end = address + header.length
        out: list[Record] = []
        for _ in range(header.count):
            if pos + HEAD_BYTES > limit:
                return None
            record = decode_head(self.data, pos)
            size = record.size()
            if address + size > end:
                return None
            if not self.heads and not self._take_body(record, pos, bodies):
                return None
            record.address = address
            out.append(record)
            address += size
            pos += HEAD_BYTES if self.heads else size
        return out if address == end else None

    def _take_body(self, record: Record, pos: i64, bodies: bool) -> bool:
        whole = self.data[pos : pos + record.size()]
        if len(whole) != record.size() or not record_intact(whole, self.salt):
            return False
        if bodies or not is_entry(record.kind):
            record.body = whole[HEAD_BYTES:]
        return True

    def _note_heads(self, records: list[Record]) -> None:
        if self.heads:
            return
        shift = address_of(self.segment_id, 0)
        self._parts.append(self.data[self._pos : self._pos + GROUP_HEADER_BYTES])
        for record in records:
            at = record.address - shift
            self._parts.append(self.data[at : at + HEAD_BYTES])

    def heads_bytes(self) -> bytes:
        """Returns the heads of all groups scanned so far."""
        return b"".join(self._parts)

    def tail(self) -> "Tail":
        """Returns what stands behind the end of the log."""
        return Tail(self.data, self.end, self.segment_id, self.salt)


@final
class Tail:
    """The bytes behind the last whole group: unused space, a torn write, or worse."""

    def __init__(self, data: bytes, end: i64, segment_id: i64, salt: int) -> None:
        rest = data[end:].rstrip(b"\0")
        self.bytes_lost: Final[i64] = len(rest)
        self.records_lost: i64 = 0
        # The highest address that a later group claims to have been durable.
        self.evidence: i64 = 0
        at = rest.find(GROUP_MAGIC)
        while at >= 0:
            header = decode_group_header(data, end + at, salt)
            if header is not None and header.address == address_of(segment_id, end + at):
                self.records_lost += header.count
                if header.synced > self.evidence:
                    self.evidence = header.synced
            at = rest.find(GROUP_MAGIC, at + 1)
