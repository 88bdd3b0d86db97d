"""Slots that consumers hold, against a plain count per slot and consumer."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from magnetar.broker.topic.dispatch.draining import HeldSlots

SLOTS = st.integers(1, 5)
CONSUMERS = st.integers(0, 3)


class HeldSlotsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.held = HeldSlots()
        self.model: dict[tuple[int, int], int] = {}

    def holder(self, slot: int) -> int:
        holders = [consumer_id for other, consumer_id in self.model if other == slot]
        assert len(holders) <= 1
        return holders[0] if holders else -1

    @rule(slot=SLOTS, consumer_id=CONSUMERS)
    def hold(self, slot: int, consumer_id: int) -> None:
        blocked = self.holder(slot) not in (-1, consumer_id)
        assert self.held.blocked(slot, consumer_id) == blocked
        if blocked:
            with pytest.raises(AssertionError, match="another consumer holds"):
                self.held.hold(slot, consumer_id)
        else:
            self.held.hold(slot, consumer_id)
            self.model[slot, consumer_id] = self.model.get((slot, consumer_id), 0) + 1

    @rule(slot=SLOTS, consumer_id=CONSUMERS)
    def release(self, slot: int, consumer_id: int) -> None:
        count = self.model.get((slot, consumer_id), 0)
        if count == 0:
            with pytest.raises(AssertionError, match="does not hold"):
                self.held.release(slot, consumer_id)
            return
        assert self.held.release(slot, consumer_id) == (count == 1)
        self.model[slot, consumer_id] = count - 1
        if count == 1:
            del self.model[slot, consumer_id]

    @rule()
    def clear(self) -> None:
        self.held.clear()
        self.model.clear()

    @rule(owners=st.lists(st.integers(-1, 3), min_size=6, max_size=6))
    def look_at_draining(self, owners: list[int]) -> None:
        expected = [
            (slot, consumer_id, count)
            for (slot, consumer_id), count in sorted(self.model.items())
            if owners[slot] != consumer_id
        ]
        assert self.held.draining(lambda slot: owners[slot]) == expected

    @invariant()
    def agrees(self) -> None:
        self.held.check()
        assert len(self.held) == len(self.model)
        for slot in range(1, 6):
            holder = self.holder(slot)
            assert self.held.holder(slot) == holder
            assert self.held.count(slot) == self.model.get((slot, holder), 0)


TestHeldSlots = HeldSlotsMachine.TestCase


def test_a_slot_drains_and_is_free_for_its_new_owner() -> None:
    held = HeldSlots()
    held.hold(7, 1)
    held.hold(7, 1)
    assert held.blocked(7, 2)
    assert held.draining(lambda slot: 2) == [(7, 1, 2)]
    assert not held.release(7, 1)
    assert held.release(7, 1)
    assert not held.blocked(7, 2)
    held.hold(7, 2)
    assert held.draining(lambda slot: 2) == []


def test_a_consumer_that_frees_a_slot_keeps_its_others() -> None:
    held = HeldSlots()
    held.hold(7, 1)
    held.hold(8, 1)
    assert held.release(7, 1)
    assert held.holder(8) == 1
    assert held.release(8, 1)
    assert len(held) == 0
