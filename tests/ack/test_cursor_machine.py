"""The cursor against a plain Python set of (ledger, entry, index), whatever happens.

Each operation is planned, and its delta then waits among the pending ones until the write
it is in succeeds, fails, or the process dies. The set only learns of what became durable.
After every step iteration, counts and questions must agree with the set.
"""

import random
from collections.abc import Iterator

import pytest
from ack.topic_model import Message, Topic, assert_left
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.examples import examples

from magnetar.ack import (
    AckDelta,
    Cursor,
    Delta,
    ResetDelta,
    decode_delta,
    decode_snapshot,
    encode_delta,
    encode_snapshot,
    snapshot_slices,
)
from magnetar.errors import NoSuchEntryError
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position import Position

BATCH_SIZES = st.lists(st.sampled_from([1, 1, 2, 3, 7, 70]), min_size=1, max_size=6)
SEED = st.integers(0, 2**32 - 1)


class CursorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.topic = Topic()
        self.ledger_id = 3
        self.acked: set[Message] = set()
        self.pending: list[tuple[Delta, set[Message]]] = []
        self.writes_take_time = False
        # The journal: the last snapshot, and what was applied after it.
        self.base = b""
        self.applied: list[Delta] = []
        # A snapshot on its way, with what was acked when it began.
        self.slices: Iterator[bytes] | None = None
        self.slices_read: list[bytes] = []
        self.acked_at_freeze: set[Message] = set()

    @initialize(ledgers=st.lists(BATCH_SIZES, min_size=1, max_size=4))
    def begin(self, ledgers: list[list[int]]) -> None:
        for batch_sizes in ledgers:
            self.ledger_id += 2
            self.topic.open_ledger(self.ledger_id, *batch_sizes)
        self.cursor = self.topic.cursor()
        self.base = encode_snapshot(self.cursor)

    # ---- the topic -----------------------------------------------------------

    @rule(batch_sizes=BATCH_SIZES)
    def publish(self, batch_sizes: list[int]) -> None:
        self.topic.publish(self.ledger_id, *batch_sizes)

    @rule(gap=st.integers(1, 3))
    def roll_the_ledger_over(self, gap: int) -> None:
        self.ledger_id += gap
        self.topic.open_ledger(self.ledger_id)

    @precondition(lambda self: len(self.topic.sizes.ledgers) > 2)
    @rule()
    def trim_the_oldest_ledger(self) -> None:
        self.topic.trim(min(self.topic.sizes.ledgers))
        self.cursor.trim()

    @rule()
    def remove_empty_ledgers(self) -> None:
        for ledger_id in list(self.topic.sizes.ledgers)[:-1]:
            if not self.topic.sizes.ledgers[ledger_id]:
                self.topic.trim(ledger_id)
        self.cursor.trim()

    # ---- operations, which become pending ------------------------------------

    @rule(data=st.data())
    def ack_a_list(self, data: st.DataObject) -> None:
        ids = [self.draw_ack(data) for _ in range(data.draw(st.integers(1, 10)))]
        wanted = {m for id in ids for m in self.acked_by(id)}
        self.submit(self.cursor.plan_acks(ids), wanted)

    @rule(data=st.data())
    def ack_messages_by_index(self, data: st.DataObject) -> None:
        ids = []
        wanted: set[Message] = set()
        for position in data.draw(st.lists(self.positions(), min_size=1, max_size=8)):
            index = data.draw(st.integers(-1, self.topic.size(position) - 1))
            ids.append(MessageIdData(position.ledger_id, position.entry_id, batch_index=index))
            one = {(position.ledger_id, position.entry_id, index)}
            wanted |= one if index >= 0 else self.topic.messages_of(position)
        self.submit(self.cursor.plan_messages(ids), wanted)

    @rule(data=st.data())
    def ack_cumulatively(self, data: st.DataObject) -> None:
        id = self.draw_ack(data)
        before = self.topic.messages_through(Position(id.ledger_id, id.entry_id - 1))
        self.submit(self.cursor.plan_cumulative(id), before | self.acked_by(id))

    # Moves share one rule, lest they sweep away the holes as soon as there are some.
    @rule(data=st.data(), kind=st.sampled_from(["skip", "expire", "clear", "before a ledger"]))
    def move_on(self, data: st.DataObject, kind: str) -> None:
        if kind == "skip":
            count = data.draw(st.integers(0, 8))
            entries = sorted({message[:2] for message in self.topic.messages() - self.acked})
            last = Position(*(entries[:count][-1] if count and entries else (-1, -1)))
            delta = self.cursor.plan_skip(count)
        elif kind == "expire":
            last = data.draw(self.any_positions())
            delta = self.cursor.plan_expire(last)
        elif kind == "clear":
            last = self.topic.ledgers.last()
            delta = self.cursor.plan_clear()
        else:
            last = Position(data.draw(st.sampled_from(sorted(self.topic.sizes.ledgers))), -1)
            delta = self.cursor.plan_cumulative(MessageIdData(last.ledger_id, -1))
        self.submit(delta, self.topic.messages_through(last))

    @rule(data=st.data(), kind=st.sampled_from(["position", "index", "set"]))
    def reset(self, data: st.DataObject, kind: str) -> None:
        position = data.draw(self.any_positions() if kind == "position" else self.positions())
        acked = self.topic.messages_through(Position(position.ledger_id, position.entry_id - 1))
        if kind == "position":
            self.submit(self.cursor.plan_reset(position), acked)
            return
        size = self.topic.size(position)
        if kind == "index":
            index = data.draw(st.integers(0, size + 1))
            delta = self.cursor.plan_reset(position, batch_index=index)
            left = -1 << index
        else:
            left = data.draw(st.integers(1, (1 << size + 1) - 1))
            delta = self.cursor.plan_reset(position, ack_set=left)
        acked |= {m for m in self.topic.messages_of(position) if not left >> m[2] & 1}
        self.submit(delta, acked)

    @rule(data=st.data())
    def a_list_with_a_bad_id_is_refused(self, data: st.DataObject) -> None:
        ids = [self.draw_ack(data) for _ in range(3)]
        beyond = len(self.topic.sizes.ledgers[self.ledger_id])
        bad = data.draw(st.sampled_from([(self.ledger_id, beyond), (self.ledger_id + 1, 0)]))
        ids.insert(data.draw(st.integers(0, 3)), MessageIdData(*bad))
        with pytest.raises(NoSuchEntryError):
            self.cursor.plan_acks(ids)

    # ---- the journal ---------------------------------------------------------

    @rule()
    def writes_become_slow_or_fast(self) -> None:
        self.the_write_succeeds()
        self.writes_take_time = not self.writes_take_time

    @rule()
    def the_write_succeeds(self) -> None:
        for delta, wanted in self.pending:
            self.settle(delta, wanted)
        self.pending.clear()

    @rule(seed=SEED)
    def acks_become_durable_in_another_order(self, seed: int) -> None:
        """Only up to the first reset: acks commute, resets do not."""
        first = next(
            (i for i, (d, _) in enumerate(self.pending) if isinstance(d, ResetDelta)),
            len(self.pending),
        )
        early, self.pending = self.pending[:first], self.pending[first:]
        random.Random(seed).shuffle(early)
        for delta, wanted in early:
            self.settle(delta, wanted)

    @rule()
    def the_write_fails(self) -> None:
        self.pending.clear()

    @rule()
    def snapshot_and_reopen(self) -> None:
        self.base = encode_snapshot(self.cursor)
        self.applied.clear()
        self.reopen(decode_snapshot(self.base, self.topic.ledgers))

    @rule(seed=SEED, shuffled=st.booleans())
    def restart_and_replay(self, seed: int, shuffled: bool) -> None:
        """The last snapshot and all deltas since, some twice, acks of an epoch in any order."""
        rng = random.Random(seed)
        cursor = decode_snapshot(self.base, self.topic.ledgers)
        for epoch in sorted({delta.epoch for delta in self.applied}):
            deltas = [delta for delta in self.applied if delta.epoch == epoch]
            acks = [delta for delta in deltas if isinstance(delta, AckDelta)]
            acks += rng.sample(acks, len(acks) // 2)
            if shuffled:
                rng.shuffle(acks)
            for delta in [d for d in deltas if isinstance(d, ResetDelta)] + acks:
                cursor.apply(decode_delta(encode_delta(delta)))
        for delta in self.applied:
            if delta.epoch != cursor.epoch:
                assert not cursor.apply(delta), "a delta of a bygone epoch was applied"
        self.reopen(cursor)

    @rule(slice_bytes=st.integers(1, 40))
    def begin_a_snapshot(self, slice_bytes: int) -> None:
        self.slices = snapshot_slices(self.cursor, slice_bytes)
        self.slices_read = []
        self.acked_at_freeze = set(self.acked)

    @precondition(lambda self: self.slices is not None)
    @rule(count=st.sampled_from([1, 1000]))
    def write_slices(self, count: int) -> None:
        assert self.slices is not None
        for _ in range(count):
            piece = next(self.slices, None)
            if piece is None:
                self.slices = None
                cursor = decode_snapshot(b"".join(self.slices_read), self.topic.ledgers)
                left = self.topic.messages() - self.acked_at_freeze
                assert_left(cursor, self.topic, left)
                break
            self.slices_read.append(piece)

    # ---- what must hold ------------------------------------------------------

    @invariant()
    def the_cursor_agrees_with_the_set(self) -> None:
        if hasattr(self, "cursor"):
            assert_left(self.cursor, self.topic, self.topic.messages() - self.acked)

    @invariant()
    def runs_cover_exactly_what_is_unacked(self) -> None:
        if not hasattr(self, "cursor"):
            return
        for start in self.topic.entries()[::5]:
            found = []
            run = self.cursor.next_run(start, 3)
            while run is not None:
                assert 0 < run.end - run.first <= 3
                found += [Position(run.ledger_id, e) for e in range(run.first, run.end)]
                run = self.cursor.next_run(Position(run.ledger_id, run.end), 3)
            entries = self.topic.entries()
            assert found == [p for p in entries if p >= start and not self.cursor.is_acked(p)]

    # ---- pieces --------------------------------------------------------------

    def positions(self) -> st.SearchStrategy[Position]:
        return st.sampled_from(self.topic.entries() or [Position(-2, 0)]).filter(
            lambda position: position.ledger_id >= 0
        )

    def any_positions(self) -> st.SearchStrategy[Position]:
        """Also of ledgers that are gone, never were, or have no such entry."""
        return st.builds(Position, st.integers(-1, self.ledger_id + 2), st.integers(-1, 12))

    def draw_ack(self, data: st.DataObject) -> MessageIdData:
        position = data.draw(self.positions())
        size = self.topic.size(position)
        bits = data.draw(st.none() | st.integers(0, (1 << size + 1) - 1))
        claimed = data.draw(st.sampled_from([0, size]))
        return MessageIdData(
            position.ledger_id, position.entry_id, ack_set=bits, batch_size=claimed
        )

    def acked_by(self, id: MessageIdData) -> set[Message]:
        messages = self.topic.messages_of(Position(id.ledger_id, id.entry_id))
        return {m for m in messages if not (id.ack_set or 0) >> m[2] & 1}

    def submit(self, delta: Delta, wanted: set[Message]) -> None:
        """The delta is on its way to the journal; the state is what it was."""
        assert decode_delta(encode_delta(delta)) == delta
        if delta.empty:
            assert wanted & self.topic.messages() <= self.acked
        self.pending.append((delta, wanted))
        if not self.writes_take_time:
            self.the_write_succeeds()

    def settle(self, delta: Delta, wanted: set[Message]) -> None:
        """The delta is durable."""
        if isinstance(delta, ResetDelta):
            assert self.cursor.apply(delta)
            self.acked = wanted
        elif delta.epoch == self.cursor.epoch:
            assert self.cursor.apply(delta)
            self.acked |= wanted
        else:
            assert not self.cursor.apply(delta)
            return
        self.applied.append(delta)

    def reopen(self, cursor: Cursor) -> None:
        assert cursor.epoch == self.cursor.epoch
        self.cursor = cursor
        self.pending.clear()


CursorMachine.TestCase.settings = settings(
    max_examples=examples(600),
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestCursorMachine = CursorMachine.TestCase
