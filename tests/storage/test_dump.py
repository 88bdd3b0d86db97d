"""A data directory for people."""

from storage.test_faults import filled

from magnetar.storage import MemoryDisk
from magnetar.storage.dump import dump


def test_every_record_has_a_line_and_a_torn_end_is_named() -> None:
    disk, work = filled(10)
    disk.create("journal/0001.spare", 10)
    lines = list(dump(disk))
    assert lines[0].startswith("journal/00000001.log: version 1, behind 0:0")
    assert sum(": entry " in line for line in lines) == 10
    assert sum(": delta " in line for line in lines) == 10
    assert any(": topic " in line and "b'quiet'" in line for line in lines)
    assert not any("no group" in line for line in lines)
    end = work.store.log.journal.end & 0xFFFFFFFF
    disk.write("journal/00000001.log", end, b"torn", sync=True)
    disk.create("journal/00000002.log", 10)
    lines = list(dump(disk))
    assert f"  {end}: 4 bytes that are no group" in lines
    assert lines[-1] == "journal/00000002.log: no header"


def test_an_empty_directory_has_nothing_to_show() -> None:
    assert list(dump(MemoryDisk())) == ["no store"]
