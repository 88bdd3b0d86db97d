"""A damaged segment, made whole again for a copy, without what cannot be read.

Nothing moves: addresses in index files, snapshots and headers stay true. A record that cannot
be read becomes one of the same length that says so:

| damaged is                  | becomes       | then                                            |
|-----------------------------|---------------|-------------------------------------------------|
| an entry, or a copy of one  | a lost entry  | a subscription stops there, as at any damage    |
| a delta of a cursor         | a lost delta  | what it acked is delivered again                |
| a head, and heads know it   | what it was   | nothing is lost                                 |
| anything else               | -             | `CorruptionError`: nothing can do without it    |

Where records begin is known from the heads of the segment, if it has them and they are whole.
Otherwise the segment itself must tell: the header of the group must be whole, the lengths of its
records must add up, and a later group must say that it was durable once.
"""

from typing import Final, final

from magnetar.errors import CorruptionError
from magnetar.storage.log.heads import decode_heads, heads_length
from magnetar.storage.log.record import (
    HEAD_BYTES,
    Record,
    address_of,
    decode_head,
    offset_of,
    record_intact,
)
from magnetar.storage.log.record_kind import KINDS
from magnetar.storage.log.scan import Scan
from magnetar.storage.log.segment import (
    GROUP_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    decode_group_header,
    segment_path,
)

__all__ = ["Mended", "mend"]


@final
class Mended:
    """The bytes of a segment without damage, and the records that were lost for that."""

    def __init__(self, data: bytes, segment_id: int, salt: int) -> None:
        self.lost: Final[list[Record]] = []
        self._data: Final = bytearray(data)
        self._segment_id: Final = segment_id
        self._salt: Final = salt

    def data(self) -> bytes:
        return bytes(self._data)

    def by_heads(self, heads: bytes, length: int) -> None:
        """Mends what the heads know of, which is a segment of `length` bytes."""
        frame = decode_heads(heads, self._segment_id, self._salt)
        del self._data[length:]
        self._data.extend(bytes(length - len(self._data)))
        self._data[:SEGMENT_HEADER_BYTES] = frame.data[:SEGMENT_HEADER_BYTES]
        at = SEGMENT_HEADER_BYTES
        while True:
            begin = int(frame.end)
            records = frame.next_group()
            if records is None:
                return
            header = frame.data[at : at + GROUP_HEADER_BYTES]
            self._data[begin : begin + GROUP_HEADER_BYTES] = header
            at += GROUP_HEADER_BYTES
            for record in records:
                self._mend(record, frame.data[at : at + HEAD_BYTES])
                at += HEAD_BYTES

    def by_itself(self, durable: int) -> None:
        """Mends group after group, as far as their headers are whole and they were durable."""
        begin = -1
        while True:
            scan = Scan(self.data(), self._segment_id, self._salt)
            while scan.next_group() is not None:
                pass
            known = max(durable, int(scan.tail().evidence))
            if (
                scan.header is None
                or scan.end == begin
                or known <= address_of(self._segment_id, scan.end)
            ):
                return
            begin = int(scan.end)
            for record in self._framed(scan.data, begin):
                at = int(offset_of(record.address))
                self._mend(record, scan.data[at : at + HEAD_BYTES])

    def _framed(self, data: bytes, begin: int) -> list[Record]:
        """Returns the records of the group at `begin`, if its header tells where they are."""
        header = decode_group_header(data, begin, self._salt)
        if header is None or header.address != address_of(self._segment_id, begin):
            return []
        out: list[Record] = []
        at = begin + GROUP_HEADER_BYTES
        end = at + int(header.length)
        while len(out) < header.count and at + HEAD_BYTES <= min(end, len(data)):
            record = decode_head(data, at)
            record.address = address_of(self._segment_id, at)
            out.append(record)
            at += int(record.size())
        return out if len(out) == header.count and at == end <= len(data) else []

    def _mend(self, record: Record, head: bytes) -> None:
        at = int(offset_of(record.address))
        end = at + int(record.size())
        self._data[at : at + HEAD_BYTES] = head
        if record_intact(bytes(self._data[at:end]), self._salt):
            return
        kind = KINDS.get(int(record.kind))
        if kind is None or not kind.lost_as:
            path = segment_path(self._segment_id)
            reason = f"{record!r} is damaged: only entries and acks can be left out"
            raise CorruptionError(path, at, reason)
        lost = Record(
            kind.lost_as,
            record.id,
            record.sub_id,
            time_ms=record.time_ms,
            batch_size=record.batch_size,
            body=bytes(record.length),
        )
        lost.address = record.address
        self._data[at:end] = lost.head(self._salt) + lost.body
        self.lost.append(lost)


def mend(data: bytes, heads: bytes, segment_id: int, salt: int, *, durable: int = 0) -> Mended:
    """Mends a segment; `heads` is what the file of its heads has, if anything.

    `durable` is the address up to which others know the log to have been durable.

    Raises CorruptionError if something is damaged that nothing can do without.
    """
    mended = Mended(data, segment_id, salt)
    length = heads_length(heads, salt)
    if length >= 0:
        mended.by_heads(heads, length)
    else:
        mended.by_itself(durable)
    return mended
