"""A data directory as lines for a person to read, in the order of the log."""

from collections.abc import Iterator
from typing import Final

from magnetar.storage.data_format import read_salt
from magnetar.storage.disk.disk import Disk
from magnetar.storage.log.record import Record, offset_of, segment_of
from magnetar.storage.log.record_kind import kind_name
from magnetar.storage.log.scan import Scan
from magnetar.storage.log.segment import segment_id_of, segment_path

__all__ = ["dump"]

TEXT_MAX: Final = 60


def dump(disk: Disk) -> Iterator[str]:
    """Yields every segment, group and record, and where each segment stops being a log."""
    salt = read_salt(disk)
    if salt is None:
        yield "no store"
        return
    for name in disk.names("journal"):
        segment_id = segment_id_of(name)
        if segment_id > 0:
            path = segment_path(segment_id)
            data = disk.read(path, 0, disk.size(path))
            yield from _segment(path, Scan(data, segment_id, salt))


def _segment(path: str, scan: Scan) -> Iterator[str]:
    header = scan.header
    if header is None:
        yield f"{path}: no header"
        return
    before = f"{segment_of(header.previous_end)}:{offset_of(header.previous_end)}"
    yield f"{path}: version {header.version}, behind {before}, created {header.created_ms}"
    while True:
        at = scan.end
        records = scan.next_group(bodies=True)
        if records is None:
            break
        yield f"  {at}: group of {len(records)}"
        for record in records:
            yield f"    {offset_of(record.address)}: {describe(record)}"
    tail = scan.tail()
    if tail.bytes_lost:
        yield f"  {scan.end}: {tail.bytes_lost} bytes that are no group"


def describe(record: Record) -> str:
    """Returns one line about a record."""
    text = repr(record.body[:TEXT_MAX])
    return (
        f"{kind_name(record.kind)} {record.id}:{record.sub_id} time {record.time_ms} "
        f"batch {record.batch_size} {record.length} bytes {text}"
    )
