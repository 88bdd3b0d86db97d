"""Delayed messages, against a plain dict of keys and times."""

import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from magnetar.broker.topic.delayed import DelayedMessages
from magnetar.model.position_key import narrow_key

LEDGERS = st.sampled_from([0, 1, 2**31 - 1, 2**52 + 1])
ENTRIES = st.sampled_from([*range(8), 65535, 65536, 2**32 - 1])
KEYS = st.builds(narrow_key, LEDGERS, ENTRIES)
# Mark-delete may stand before the first entry of a ledger, even of ledger 0.
THROUGH = st.builds(narrow_key, LEDGERS, st.one_of(st.just(-1), ENTRIES))
TIMES = st.one_of(st.integers(0, 9), st.sampled_from([10**12, 2**44, 2**63 - 1]))

NOW_MS = 1_760_000_000_000


class DelayedMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.delayed = DelayedMessages()
        self.model: dict[int, int] = {}

    @rule(key=KEYS, time=TIMES)
    def add(self, key: int, time: int) -> None:
        self.delayed.add(key, time)
        self.model[key] = time

    @rule(ledger_id=LEDGERS, count=st.integers(60, 160), time=TIMES)
    def add_many(self, ledger_id: int, count: int, time: int) -> None:
        for entry_id in range(count):
            self.add(narrow_key(ledger_id, entry_id), abs(time - entry_id // 3))

    @rule(ledger_id=LEDGERS, count=st.integers(60, 160))
    def discard_many(self, ledger_id: int, count: int) -> None:
        for entry_id in range(count):
            self.discard(narrow_key(ledger_id, entry_id))

    @rule(key=KEYS)
    def discard(self, key: int) -> None:
        self.delayed.discard(key)
        self.model.pop(key, None)

    @rule(key=THROUGH)
    def discard_through(self, key: int) -> None:
        self.delayed.discard_through(key)
        self.model = {other: time for other, time in self.model.items() if other > key}

    @rule(now=TIMES, n=st.integers(-1, 200))
    def due(self, now: int, n: int) -> None:
        ready = sorted((time, key) for key, time in self.model.items() if time <= now)
        expected = [key for _, key in ready[: max(n, 0)]]
        assert self.delayed.due(now, n) == expected
        for key in expected:
            del self.model[key]

    @rule()
    def clear(self) -> None:
        self.delayed.clear()
        self.model.clear()

    @rule(key=KEYS)
    def look(self, key: int) -> None:
        assert (key in self.delayed) == (key in self.model)

    @rule()
    def next_ms(self) -> None:
        assert self.delayed.next_ms() == min(self.model.values(), default=None)

    @invariant()
    def agrees(self) -> None:
        self.delayed.check()
        assert len(self.delayed) == len(self.model)


TestDelayed = DelayedMachine.TestCase


@given(st.lists(st.tuples(KEYS, st.integers(0, 50)), max_size=60))
def test_none_is_early_and_none_is_late_by_a_millisecond(added: list[tuple[int, int]]) -> None:
    delayed = DelayedMessages()
    for key, time in added:
        delayed.add(key, time)
    for now in range(51):
        expected = sorted(key for key, time in dict(added).items() if time == now)
        assert delayed.due(now, 1000) == expected
    assert len(delayed) == 0


def test_a_message_read_again_comes_once() -> None:
    delayed = DelayedMessages()
    for _ in range(3):
        delayed.add(5, 100)
    assert len(delayed) == 1
    assert delayed.due(100, 10) == [5]
    assert delayed.due(10**9, 10) == []


def test_the_last_time_given_counts() -> None:
    delayed = DelayedMessages()
    delayed.add(5, 100)
    delayed.add(5, 200)
    delayed.add(6, 200)
    delayed.add(6, 100)
    assert delayed.due(199, 10) == [6]
    assert delayed.next_ms() == 200
    assert delayed.due(200, 10) == [5]


def test_a_message_discarded_and_added_later_is_not_early() -> None:
    delayed = DelayedMessages()
    delayed.add(4, 50)
    delayed.add(5, 100)
    delayed.discard(5)
    delayed.add(5, 200)
    assert delayed.due(199, 10) == [4]
    assert delayed.due(200, 10) == [5]


def test_mark_delete_takes_pages_and_the_beginning_of_one() -> None:
    delayed = DelayedMessages()
    keys = [1, 2, 2**16 + 1, 2**16 + 2, 2**16 + 3]
    for key in keys:
        delayed.add(key, 100)
    delayed.discard_through(2**16 + 2)
    assert [key in delayed for key in keys] == [False, False, False, False, True]
    assert len(delayed) == 1
    delayed.discard_through(2**16 + 3)
    assert len(delayed) == 0
    assert delayed.next_ms() is None


def test_a_time_before_1970_has_come() -> None:
    delayed = DelayedMessages()
    delayed.add(5, -7)
    assert delayed.due(0, 1) == [5]


def test_times_that_fall_and_fall_leave_no_waste() -> None:
    delayed = DelayedMessages()
    for i in range(2000):
        delayed.add(i, NOW_MS - i)
        delayed.add(i + 2**20, NOW_MS - i)
    assert delayed.memory_bytes() < 4000 * 64
    assert delayed.due(NOW_MS, 2) == [1999, 1999 + 2**20]
    delayed.check()


def test_cancelled_messages_leave_no_waste() -> None:
    delayed = DelayedMessages()
    for i in range(20_000):
        delayed.add(i, NOW_MS + i % 977)
    for i in range(20_000):
        if i % 100:
            delayed.discard(i)
    assert len(delayed) == 200
    assert delayed.memory_bytes() < 200 * 2 * 64 + 8192
    assert sorted(delayed.due(NOW_MS + 977, 10**6)) == list(range(0, 20_000, 100))


def test_all_of_them_can_be_looked_at_page_by_page() -> None:
    delayed = DelayedMessages()
    wanted = {i * 777: NOW_MS + i for i in range(100)}
    for key, time in wanted.items():
        delayed.add(key, time)
    delayed.discard(777)
    del wanted[777]
    found: dict[int, int] = {}
    pages = 0
    page = delayed.page_after(-1)
    while page is not None:
        found |= dict(page[1])
        pages += 1
        page = delayed.page_after(page[0])
    assert (found, list(found)) == (wanted, sorted(wanted))
    assert pages > 1


# What an operator may count on: a million delayed messages take less than 64 MB.
@pytest.mark.once
def test_a_delayed_message_takes_at_most_64_bytes() -> None:
    count = 100_000
    rng = random.Random(7)
    times = [NOW_MS + rng.randrange(10**9) for _ in range(count)]
    tracemalloc.start()
    try:
        delayed = DelayedMessages()
        for i, time in enumerate(times):
            # Two ledgers of 50,000 entries.
            delayed.add(narrow_key(1 + i // 50_000, i % 50_000), time)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / count <= 64
    assert 0.8 < delayed.memory_bytes() / size < 1.2
    assert len(delayed) == count
    assert delayed.next_ms() == min(times)
