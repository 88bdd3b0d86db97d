"""Real cursors of the ack room, through crashes, snapshots, trims and reclaims.

I2: an ack that was receipted is not forgotten, at batch index level; and none comes from
nowhere. The model is a plain set of (ledger, entry, index).
"""

from random import Random

import pytest
from storage.faulty_disk import FaultyDisk
from storage.workload import Clock, small_options

from magnetar.ack import (
    Cursor,
    Delta,
    Ledgers,
    decode_delta,
    encode_delta,
    encode_snapshot,
    snapshot_slices,
)
from magnetar.errors import NoSuchEntryError
from magnetar.model import Position
from magnetar.model.message_id_data import MessageIdData
from magnetar.storage import Retention, Store, check, open_store
from magnetar.storage.cursor.cursor_load import (
    BLOCK_ENTRIES,
    StoredBatchSizes,
    load_cursor,
    load_cursor_steps,
    load_ledgers,
)
from magnetar.storage.ledger.ledger_index import HeapIndex
from magnetar.storage.options import StoreOptions

BATCH_SIZES = (1, 1, 3, 10, 70)


class Subscription:
    """What a broker does with a cursor: plan, write, and apply when it is durable."""

    def __init__(self, disk: FaultyDisk, clock: Clock, cursor_id: int = 0) -> None:
        self.clock = clock
        self.store: Store = open_store(disk, clock, small_options())
        self.cursor_id = cursor_id
        if not cursor_id:
            self.topic_id = self.store.create_topic("t")
            self.store.flush()
            ledgers = Ledgers()
            start = encode_snapshot(Cursor(ledgers, Position(-1, -1)))
            self.cursor_id = self.store.create_cursor(self.topic_id, "sub", start)
            self.store.flush()
        (self.topic_id,) = self.store.topics()
        self.ledgers = load_ledgers(self.store, self.topic_id)
        self.cursor = load_cursor(self.store, self.cursor_id, self.ledgers)
        self.waiting: dict[int, Delta] = {}

    def publish(self, batch_size: int) -> Position:
        data = bytes(30 * batch_size)
        return self.store.append(
            self.topic_id, data, batch_size=batch_size, publish_time_ms=self.clock.now_ms
        )

    def write(self, delta: Delta) -> None:
        ticket = self.store.append_delta(self.cursor_id, delta.epoch, encode_delta(delta))
        self.waiting[ticket] = delta

    def flush(self) -> None:
        for outcome in self.store.flush():
            assert outcome.error is None
            for ticket in range(outcome.first, outcome.end):
                delta = self.waiting.pop(ticket, None)
                if delta is not None:
                    assert self.cursor.apply(delta)
        known = {ledger.id: ledger.entries for ledger in self.store.ledgers(self.topic_id)}
        for ledger_id, entries in known.items():
            if self.ledgers.entry_count(ledger_id) < 0:
                self.ledgers.add(ledger_id)
            self.ledgers.grow(ledger_id, entries)

    def snapshot(self) -> None:
        writer = self.store.begin_snapshot(self.cursor_id)
        slices = list(snapshot_slices(self.cursor, 16))
        for i, data in enumerate(slices):
            writer.add(data, last=i == len(slices) - 1)


@pytest.mark.parametrize("seed", range(12))
def test_receipted_acks_are_exactly_what_a_restart_finds(seed: int) -> None:
    random = Random(seed)
    disk, clock = FaultyDisk(), Clock()
    sub = Subscription(disk, clock)
    sizes: dict[tuple[int, int], int] = {}
    acked: set[tuple[int, int, int]] = set()
    for _ in range(8):
        for _ in range(30):
            choice = random.randrange(10)
            if choice < 3:
                size = random.choice(BATCH_SIZES)
                position = sub.publish(size)
                sub.flush()
                sizes[(position.ledger_id, position.entry_id)] = size
            elif choice < 8 and sizes:
                live = [k for k in sizes if sub.ledgers.entry_count(k[0]) >= 0]
                keys = random.sample(sorted(live), min(len(live), 3))
                one = [(*key, random.randrange(sizes[key])) for key in keys]
                ids = [
                    MessageIdData(ledger, entry, -1, index if sizes[(ledger, entry)] > 1 else -1)
                    for ledger, entry, index in one
                ]
                delta = sub.cursor.plan_messages(ids)
                if not delta.empty:
                    sub.write(delta)
                    if random.random() < 0.2:
                        sub.snapshot()  # of what is durable, with this delta on its way
                sub.flush()
                acked.update(one)
            elif choice == 8:
                sub.snapshot()
            else:
                sealed = [x for x in sub.store.ledgers(sub.topic_id) if x.sealed]
                gone = sub.store.trim(sub.topic_id, sub.cursor.mark_delete, Retention())
                sub.flush()
                assert set(gone) <= {x.id for x in sealed}
                for ledger_id in gone:
                    sub.ledgers.remove(ledger_id)
                sub.cursor.trim()
                for _ in range(8):
                    sub.store.maintain()
                    sub.flush()
        # A last ack is queued, and the process is gone before it is written.
        disk = disk.kill() if random.random() < 0.5 else disk.crash(random)
        assert check(disk) == []
        before = sub.cursor
        sub = Subscription(disk, clock, sub.cursor_id)
        sub.cursor.check()
        for key, size in sizes.items():
            if sub.ledgers.entry_count(key[0]) < 0:
                continue
            for index in range(size):
                found = sub.cursor.is_acked(Position(*key), index if size > 1 else -1)
                assert found == ((*key, index) in acked), (key, index)
        assert sub.cursor.unacked_messages() == before.unacked_messages()
        assert sub.cursor.unacked_entries() == before.unacked_entries()
        sub.flush()


def test_a_reset_on_its_way_is_in_the_log_behind_a_snapshot_taken_before_it() -> None:
    disk, clock = FaultyDisk(), Clock()
    sub = Subscription(disk, clock)
    positions = [sub.publish(1) for _ in range(5)]
    sub.flush()
    sub.write(sub.cursor.plan_expire(positions[3]))
    sub.flush()
    sub.write(sub.cursor.plan_reset(positions[1]))
    sub.snapshot()
    sub.flush()
    sub.write(sub.cursor.plan_acks([MessageIdData(positions[2].ledger_id, 2)]))
    sub.flush()
    again = Subscription(disk.kill(), clock, sub.cursor_id)
    assert [again.cursor.is_acked(p) for p in positions] == [True, False, True, False, False]
    assert again.cursor.epoch == sub.cursor.epoch == 1


def test_deltas_in_the_log_are_those_that_were_written() -> None:
    disk, clock = FaultyDisk(), Clock()
    sub = Subscription(disk, clock)
    position = sub.publish(10)
    sub.flush()
    delta = sub.cursor.plan_messages([MessageIdData(position.ledger_id, 0, -1, 4)])
    sub.write(delta)
    sub.flush()
    (stored,) = sub.store.cursor_image(sub.cursor_id).deltas
    assert decode_delta(stored) == delta


def test_batch_sizes_come_from_the_index_and_unknown_ones_count_as_one() -> None:
    disk, clock = FaultyDisk(), Clock()
    sub = Subscription(disk, clock)
    position = sub.publish(10)
    sub.publish(3)
    sub.flush()
    sizes = StoredBatchSizes(sub.store.log.state)
    assert [sizes.batch_size(position.ledger_id, i) for i in range(3)] == [10, 3, 0]
    assert sizes.batch_size(999, 0) == 0
    assert sizes.message_count(position.ledger_id, 0, 2) == 13
    assert sizes.message_count(position.ledger_id, 1, 5) == 6
    assert sizes.message_count(999, 2, 7) == 5
    sub.store.seal_topic(sub.topic_id)
    sub.flush()
    assert sizes.message_count(position.ledger_id, 0, 2) == 13


def test_messages_that_were_counted_are_counted_on_while_a_ledger_grows() -> None:
    disk, clock = FaultyDisk(), Clock()
    sub = Subscription(disk, clock)
    sizes = StoredBatchSizes(sub.store.log.state)
    counts: list[int] = []
    ledger_id = -1
    for number in range(6):
        ledger_id = sub.publish(number + 1).ledger_id
        sub.flush()
        counts.append(number + 1)
        for end in (number + 1, 1, number, number + 3):
            wanted = sum(counts[:end]) + max(end - len(counts), 0)
            assert sizes.message_count(ledger_id, 0, end) == wanted
    # One that is gone has entries that nobody knows.
    sub.store.seal_topic(sub.topic_id)
    sub.flush()
    sub.publish(1)
    sub.flush()
    sub.store.trim(sub.topic_id, Position(ledger_id, 5), Retention())
    sub.flush()
    assert sizes.message_count(ledger_id, 0, 6) == 6


@pytest.mark.parametrize("seed", range(3))
def test_messages_of_any_range_are_counted_and_those_of_whole_blocks_once(seed: int) -> None:
    random, clock = Random(seed), Clock()
    store = open_store(FaultyDisk(), clock, StoreOptions())
    topic_id = store.create_topic("t")
    sizes = StoredBatchSizes(store.log.state)
    counts: list[int] = []

    def publish(batch_sizes: list[int]) -> int:
        for size in batch_sizes:
            at = store.append(topic_id, b"x", batch_size=size, publish_time_ms=clock.now_ms)
        store.flush()
        counts.extend([max(size, 1) for size in batch_sizes])
        return int(at.ledger_id)

    for _ in range(3):
        count = random.randrange(1, 2 * BLOCK_ENTRIES)
        ledger_id = publish([random.choice((0, 1, 1, 2, 5)) for _ in range(count)])
        for _ in range(20):
            first, end = sorted(random.randrange(len(counts) + 50) for _ in range(2))
            wanted = sum(counts[first:end]) + max(end - max(first, len(counts)), 0)
            assert sizes.message_count(ledger_id, first, end) == wanted
    # From anywhere: the index says something else now, and only the ends are read again.
    publish([1] * (3 * BLOCK_ENTRIES))
    end = len(counts)
    before = sizes.message_count(ledger_id, 1, end)
    index = store.log.state.ledgers[ledger_id].index
    assert isinstance(index, HeapIndex)
    for entry_id in range(end):
        index.put(entry_id, index.address(entry_id), length=1, batch_size=9, publish_time_ms=0)
    told = sizes.message_count(ledger_id, 1, end)
    assert before < told <= before + 9 * (BLOCK_ENTRIES - 1 + end % BLOCK_ENTRIES)


def test_a_late_ack_of_what_was_trimmed_is_no_mistake_after_a_restart_either() -> None:
    disk, clock = FaultyDisk(), Clock()
    subscription = Subscription(disk, clock)
    first = subscription.publish(3)
    subscription.store.flush()
    subscription.store.close()
    again = Subscription(disk, clock, subscription.cursor_id)
    again.store.trim(again.topic_id, first, Retention())
    again.store.flush()
    again.store.close()
    empty = Subscription(disk, clock, subscription.cursor_id)
    assert empty.store.ledgers(empty.topic_id) == []
    late = MessageIdData(first.ledger_id, first.entry_id, ack_set=0b110)
    assert empty.cursor.plan_acks([late]).empty
    with pytest.raises(NoSuchEntryError):
        empty.cursor.plan_acks([MessageIdData(empty.store.last_id + 1, 0)])


def test_a_cursor_whose_image_is_written_anew_is_loaded_from_the_new_one() -> None:
    """A segment may be freed while a cursor is loaded step by step: what it read may be gone."""
    sub = Subscription(FaultyDisk(), Clock())
    positions = [sub.publish(1) for _ in range(6)]
    sub.flush()
    for position in positions[1::2]:
        sub.write(sub.cursor.plan_acks([MessageIdData(position.ledger_id, position.entry_id)]))
        sub.flush()
    steps = load_cursor_steps(sub.store, sub.cursor_id, sub.ledgers)
    before = [next(steps) for _ in range(3)]
    sub.snapshot()
    sub.flush()
    after: list[int] = []
    while True:
        try:
            after.append(next(steps))
        except StopIteration as end:
            loaded = end.value
            break
    assert len(before) == 3
    assert all(cost > 0 for cost in before + after)
    assert list(loaded.acked_runs()) == list(sub.cursor.acked_runs())
    assert loaded.mark_delete == sub.cursor.mark_delete
