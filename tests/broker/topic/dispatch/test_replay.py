"""Entries to be replayed, and their counts, against plain sets and dicts."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from magnetar.broker.topic.dispatch.replay import KeyReplay, Redeliveries, Replay
from magnetar.model.position_key import narrow_key

LEDGERS = st.sampled_from([0, 1, 7, 2**31 - 1, 2**52 + 1, 2**63 - 1])
ENTRIES = st.sampled_from([0, 1, 2, 3, 65535, 65536, 2**32 - 1])
KEYS = st.builds(narrow_key, LEDGERS, ENTRIES)
# Mark-delete may stand before the first entry of a ledger, even of ledger 0.
THROUGH = st.builds(narrow_key, LEDGERS, st.one_of(st.just(-1), ENTRIES))
COUNTS = st.integers(-2, 6)
SLOTS = st.integers(1, 4)


class ReplayMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.replay = Replay()
        self.model: set[int] = set()

    @rule(key=KEYS)
    def add(self, key: int) -> None:
        self.replay.add(key)
        self.model.add(key)

    @rule(key=KEYS)
    def discard(self, key: int) -> None:
        self.replay.discard(key)
        self.model.discard(key)

    @rule(n=COUNTS)
    def take(self, n: int) -> None:
        expected = sorted(self.model)[: max(n, 0)]
        assert self.replay.first(n) == expected
        assert self.replay.take(n) == expected
        self.model -= set(expected)

    @rule(key=THROUGH)
    def discard_through(self, key: int) -> None:
        self.replay.discard_through(key)
        self.model = {other for other in self.model if other > key}

    @rule()
    def clear(self) -> None:
        self.replay.clear()
        self.model.clear()

    @rule(key=KEYS)
    def look(self, key: int) -> None:
        assert (key in self.replay) == (key in self.model)

    @rule(start=THROUGH, n=COUNTS)
    def look_on(self, start: int, n: int) -> None:
        later = sorted(key for key in self.model if key >= start)
        assert self.replay.first(n, start) == later[: max(n, 0)]

    @invariant()
    def agrees(self) -> None:
        assert len(self.replay) == len(self.model)
        assert self.replay.first(1000) == sorted(self.model)


class KeyReplayMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.replay = KeyReplay()
        self.model: dict[int, int] = {}

    def keys_of(self, slot: int) -> list[int]:
        return sorted(key for key, other in self.model.items() if other == slot)

    @rule(key=KEYS, slot=SLOTS)
    def add(self, key: int, slot: int) -> None:
        self.replay.add(key, slot)
        self.model[key] = slot

    @rule(key=KEYS)
    def discard(self, key: int) -> None:
        self.replay.discard(key)
        self.model.pop(key, None)

    @rule(n=COUNTS)
    def take(self, n: int) -> None:
        expected = sorted(self.model)[: max(n, 0)]
        assert self.replay.first(n) == expected
        for key in expected:
            self.replay.discard(key)
            del self.model[key]

    @rule()
    def clear(self) -> None:
        self.replay.clear()
        self.model.clear()

    @rule(slot=SLOTS, n=COUNTS)
    def look_at_a_slot(self, slot: int, n: int) -> None:
        assert self.replay.first_of(slot, n) == self.keys_of(slot)[: max(n, 0)]
        assert self.replay.has_slot(slot) == bool(self.keys_of(slot))

    @rule(key=KEYS)
    def look_at_a_key(self, key: int) -> None:
        assert (key in self.replay) == (key in self.model)
        assert self.replay.slot_of(key) == self.model.get(key, -1)

    @invariant()
    def agrees(self) -> None:
        self.replay.check()
        assert len(self.replay) == len(self.model)
        assert sorted(self.replay.keys()) == sorted(self.model)
        assert set(self.replay.slots()) == set(self.model.values())
        assert len(list(self.replay.slots())) == len(set(self.model.values()))


class RedeliveriesMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.redeliveries = Redeliveries()
        self.model: dict[int, int] = {}

    @rule(key=KEYS)
    def bump(self, key: int) -> None:
        self.model[key] = self.model.get(key, 0) + 1
        assert self.redeliveries.bump(key) == self.model[key]

    @rule(key=KEYS)
    def forget(self, key: int) -> None:
        self.redeliveries.forget(key)
        self.model.pop(key, None)

    @rule()
    def look_at_all(self) -> None:
        assert sorted(self.redeliveries.known()) == sorted(self.model)

    @rule()
    def clear(self) -> None:
        self.redeliveries.clear()
        self.model.clear()

    @rule(key=KEYS)
    def look(self, key: int) -> None:
        assert self.redeliveries.count(key) == self.model.get(key, 0)

    @rule(n=st.integers(0, 4))
    def look_at_the_worst(self, n: int) -> None:
        ordered = sorted(self.model.items(), key=lambda pair: (-pair[1], pair[0]))
        assert self.redeliveries.most(n) == ordered[:n]

    @invariant()
    def agrees(self) -> None:
        assert len(self.redeliveries) == len(self.model)
        assert all(self.redeliveries.count(key) == n for key, n in self.model.items())


TestReplay = ReplayMachine.TestCase
TestKeyReplay = KeyReplayMachine.TestCase
TestRedeliveries = RedeliveriesMachine.TestCase


@given(st.permutations(range(12)))
def test_a_slot_gives_its_entries_in_order_however_they_came(order: list[int]) -> None:
    replay = KeyReplay()
    for entry_id in order:
        replay.add(narrow_key(3, entry_id), 9)
    out: list[int] = []
    while replay.has_slot(9):
        key = replay.first_of(9, 1)[0]
        replay.discard(key)
        out.append(key)
    assert out == [narrow_key(3, entry_id) for entry_id in range(12)]
    replay.check()


def test_a_slot_that_empties_goes_to_the_end() -> None:
    replay = KeyReplay()
    for entry_id, slot in enumerate([5, 3, 5, 8]):
        replay.add(entry_id, slot)
    assert list(replay.slots()) == [5, 3, 8]
    replay.discard(1)
    replay.add(9, 3)
    assert list(replay.slots()) == [5, 8, 3]


# As far as a Key_Shared subscription looks ahead.
ENTRY_COUNT = 40_000


def test_the_whole_look_ahead_in_one_slot_and_in_slots_of_its_own() -> None:
    one = KeyReplay()
    many = KeyReplay()
    for entry_id in range(ENTRY_COUNT):
        one.add(narrow_key(1, entry_id), 1)
        many.add(narrow_key(1, entry_id), entry_id)
    for entry_id in range(ENTRY_COUNT):
        key = narrow_key(1, entry_id)
        assert one.first_of(1, 2)[0] == key
        assert many.first_of(entry_id, 2) == [key]
        one.discard(key)
        many.discard(key)
    assert len(one) == len(many) == 0
    assert not list(one.slots())
    assert not list(many.slots())
