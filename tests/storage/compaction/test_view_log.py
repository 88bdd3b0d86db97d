"""Views in the log: what there is at each moment, and after whatever ends the store there."""

import pytest

from magnetar.model import Position
from magnetar.storage import MemoryDisk
from magnetar.storage.check import check
from magnetar.storage.compaction.view_facts import ViewFacts
from magnetar.storage.compaction.view_log import ViewWriter, read_table
from magnetar.storage.ledger.read_plan import ReadPlan
from magnetar.storage.options import StoreOptions
from magnetar.storage.store import Store, open_store

NOW = 1_800_000_000_000


class Stored:
    """A store with one topic of ten entries, that is opened again on the same disk."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.now = NOW
        self.store = self.open()
        self.topic_id = self.store.create_topic("persistent://public/default/t")
        self.at = [
            self.store.append(self.topic_id, b"entry %d" % i, batch_size=1, publish_time_ms=NOW)
            for i in range(10)
        ]
        self.store.flush()

    def open(self) -> Store:
        self.now += 1
        return open_store(self.disk, lambda: self.now, StoreOptions(segment_bytes=1 << 16))

    def crash(self) -> None:
        self.disk.close()
        self.store = self.open()
        self.store.flush()

    def write(self, numbers: list[int]) -> ViewWriter:
        writer = self.store.views.begin(self.topic_id)
        for number in numbers:
            writer.add(self.at[number], b"kept %d" % number, batch_size=1, publish_time_ms=NOW)
        return writer

    def seal(self, writer: ViewWriter) -> None:
        self.store.flush()
        count = len(writer.table)
        if count:
            writer.add_table(0)
        self.store.flush()
        writer.seal(
            ViewFacts(
                self.at[-1],
                Position(-1, -1),
                last_index=-1,
                entries=count,
                messages=count,
                removed=0,
                began_ms=NOW,
                took_ms=1,
            )
        )

    def kept(self) -> list[tuple[Position, bytes]] | None:
        """What a reader of the view has of it; None if there is no view."""
        view = self.store.views.of(self.topic_id)
        if view is None:
            return None
        plan = self.store.plan_entries(view.table_positions())
        self.read(plan)
        table = read_table(view, plan)
        wanted = [Position(view.ledger_id, i) for i in range(len(table))]
        plan = self.store.plan_entries(wanted)
        self.read(plan)
        assert all(entry.data is not None for entry in plan.entries)
        return [(table.position(e.entry_id), e.data or b"") for e in plan.entries]

    def read(self, plan: ReadPlan) -> None:
        plan.run(self.disk)
        self.store.finish_read(plan)

    def expected(self, numbers: list[int]) -> list[tuple[Position, bytes]]:
        return [(self.at[number], b"kept %d" % number) for number in numbers]

    def views(self) -> list[int]:
        return [id for id, ledger in self.store.log.state.ledgers.items() if ledger.is_view]

    def check(self) -> None:
        self.disk.close()
        assert check(self.disk) == []


def test_a_view_counts_from_its_last_record_on() -> None:
    stored = Stored()
    writer = stored.write([1, 4])
    stored.store.flush()
    assert stored.kept() is None
    stored.seal(writer)
    assert stored.kept() is None
    stored.store.flush()
    assert stored.kept() == stored.expected([1, 4])
    assert [ledger.entries for ledger in stored.store.ledgers(stored.topic_id)] == [10]
    stored.crash()
    assert stored.kept() == stored.expected([1, 4])
    stored.check()


def test_the_next_view_takes_the_place_of_the_one_before() -> None:
    stored = Stored()
    stored.seal(stored.write([1, 4, 7]))
    stored.store.flush()
    (before,) = stored.views()
    writer = stored.write([2])
    stored.seal(writer)
    assert stored.kept() == stored.expected([1, 4, 7])
    stored.store.flush()
    assert stored.kept() == stored.expected([2])
    assert before not in stored.views()
    for _ in range(2):
        stored.crash()
        assert stored.kept() == stored.expected([2])
        assert stored.views() == [writer.ledger_id]
    stored.check()


def test_what_was_not_sealed_goes_with_the_crash_and_the_giving_up() -> None:
    for crash in (True, False):
        stored = Stored()
        stored.seal(stored.write([3]))
        stored.store.flush()
        writer = stored.write([5, 6])
        stored.store.flush()
        assert len(stored.views()) == 2
        if crash:
            stored.crash()
        else:
            writer.give_up()
            stored.store.flush()
        assert len(stored.views()) == 1
        assert stored.kept() == stored.expected([3])
        stored.check()


def test_views_go_with_their_topic() -> None:
    stored = Stored()
    stored.seal(stored.write([3]))
    stored.store.flush()
    writer = stored.write([5])
    stored.store.flush()
    stored.store.delete_topic(stored.topic_id)
    with pytest.raises(Exception, match="topic"):
        stored.seal(writer)
    writer.give_up()
    stored.store.flush()
    assert stored.views() == []
    stored.crash()
    assert stored.views() == []
    stored.check()


def test_a_view_that_is_dropped_stays_away() -> None:
    stored = Stored()
    stored.seal(stored.write([3]))
    stored.store.flush()
    stored.store.views.drop(stored.topic_id)
    assert stored.kept() == stored.expected([3])
    stored.store.flush()
    assert stored.kept() is None
    stored.crash()
    assert stored.kept() is None
    assert stored.views() == []
    stored.check()


@pytest.mark.parametrize("queued", [True, False])
def test_the_last_record_and_the_end_of_the_view_before_are_one(queued: bool) -> None:
    """Cut off anywhere before that group, the view before is there; after it, the new one."""
    stored = Stored()
    stored.seal(stored.write([1, 2, 3]))
    stored.store.flush()
    stored.seal(stored.write([4, 5]))
    if not queued:
        stored.store.flush()
    stored.crash()
    assert stored.kept() == stored.expected([1, 2, 3] if queued else [4, 5])
    assert len(stored.views()) == 1
    stored.check()


def test_reclaiming_moves_views_and_keeps_them() -> None:
    stored = Stored()
    stored.seal(stored.write([1, 4, 7]))
    stored.store.flush()
    filler = stored.store.create_topic("persistent://public/default/f")
    for _ in range(3):
        for _ in range(200):
            stored.store.append(filler, b"x" * 1000, batch_size=1, publish_time_ms=NOW)
            stored.store.flush()
        stored.store.delete_topic(filler)
        stored.store.flush()
        filler = stored.store.create_topic("persistent://public/default/f")
        for _ in range(300):
            stored.now += 100
            stored.store.maintain()
            stored.store.flush()
        assert stored.kept() == stored.expected([1, 4, 7])
    assert 1 not in stored.store.log.lengths
    stored.crash()
    assert stored.kept() == stored.expected([1, 4, 7])
    stored.check()
