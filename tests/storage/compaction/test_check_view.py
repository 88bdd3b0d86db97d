"""What `check` says of views that are not right."""

from collections.abc import Callable

import pytest

import magnetar
from magnetar.model import Position
from magnetar.storage import MemoryDisk
from magnetar.storage.check import check
from magnetar.storage.compaction.view_facts import ViewFacts
from magnetar.storage.compaction.view_log import ViewWriter
from magnetar.storage.options import StoreOptions
from magnetar.storage.store import open_store


def facts(through: Position, entries: int) -> ViewFacts:
    return ViewFacts(
        through,
        through,
        last_index=-1,
        entries=entries,
        messages=entries,
        removed=0,
        began_ms=0,
        took_ms=0,
    )


def checked(change: Callable[[ViewWriter, Position], ViewFacts]) -> list[str]:
    """What is said of a view of two entries that was sealed in this way."""
    disk = MemoryDisk()
    store = open_store(disk, lambda: 1_800_000_000_000, StoreOptions(segment_bytes=1 << 16))
    topic_id = store.create_topic("persistent://public/default/t")
    at = [store.append(topic_id, b"entry", batch_size=1, publish_time_ms=0) for _ in range(2)]
    store.flush()
    writer = store.views.begin(topic_id)
    for position in at:
        writer.add(position, b"kept", batch_size=1, publish_time_ms=0)
    writer.seal(change(writer, at[-1]))
    store.flush()
    disk.close()
    return [violation.reason for violation in check(disk)]


def right(writer: ViewWriter, last: Position) -> ViewFacts:
    writer.add_table(0)
    return facts(last, 2)


def without_table(writer: ViewWriter, last: Position) -> ViewFacts:
    return facts(last, 2)


def ends_early(writer: ViewWriter, last: Position) -> ViewFacts:
    writer.add_table(0)
    return facts(Position(last.ledger_id, 0), 2)


def no_table(writer: ViewWriter, last: Position) -> ViewFacts:
    writer._put(b"\xff" * 30, 1, 0)
    return facts(last, 2)


def short_table(writer: ViewWriter, last: Position) -> ViewFacts:
    writer._put(writer.table.encode(0)[:16], 1, 0)
    return facts(last, 2)


def descending(writer: ViewWriter, last: Position) -> ViewFacts:
    table = writer.table.encode(0)
    writer._put(table[:12] + table[16:20] + table[12:16], 1, 0)
    return facts(last, 2)


def one_position(writer: ViewWriter, last: Position) -> ViewFacts:
    table = writer.table.encode(0)
    writer._put(table[:8] + b"\x01\0\0\0" + table[12:16], 1, 0)
    return facts(last, 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (right, ""),
        (without_table, "the view has 2 entries, and the ledger 2"),
        (ends_early, "behind its end"),
        (no_table, "damaged"),
        (short_table, "damaged"),
        (descending, "do not ascend"),
        (one_position, "1 positions for 2 entries"),
    ],
)
def test_a_view_that_is_not_right_is_seen(
    change: Callable[[ViewWriter, Position], ViewFacts], said: str
) -> None:
    found = checked(change)
    assert bool(found) == bool(said)
    assert not said or any(said in reason for reason in found), found


@pytest.mark.skipif(magnetar.COMPILED, reason="compiled code cannot be changed")
def test_facts_that_are_cut_off_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ViewFacts.encode
    monkeypatch.setattr(ViewFacts, "encode", lambda self: whole(self)[:-1])
    assert any("facts" in reason for reason in checked(right))
