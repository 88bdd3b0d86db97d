"""Deadlines of transactions: called once, in order, and not all of them in one event."""

from support.world import ManualHost

from magnetar.broker.transaction.deadlines import COST_AT_ONCE, STALE_MAX, Deadlines
from magnetar.storage.disk.memory_disk import MemoryDisk


class Desk:
    """Deadlines, and what they called."""

    def __init__(self, cost: int = 1) -> None:
        self.host = ManualHost(MemoryDisk(), 1_000_000)
        self.over: list[int] = []
        self.cost = cost
        self.deadlines = Deadlines(self.host, self._over)

    def _over(self, number: int) -> int:
        self.over.append(number)
        return self.cost

    def advance(self, ms: int) -> None:
        """Time passes; all is done that is due, but for what waits for the next round."""
        self.host.now += ms
        while (callback := self.host.due()) is not None:
            callback()


def test_they_are_called_once_and_in_the_order_of_their_times() -> None:
    desk = Desk()
    desk.deadlines.set(1, 3000)
    desk.deadlines.set(2, 1000)
    desk.deadlines.set(3, 2000)
    desk.advance(999)
    assert desk.over == []
    desk.advance(1)
    assert desk.over == [2]
    assert 2 not in desk.deadlines
    desk.advance(10_000)
    desk.advance(10_000)
    assert desk.over == [2, 3, 1]


def test_one_that_was_cancelled_or_set_anew_is_not_called_at_its_first_time() -> None:
    desk = Desk()
    desk.deadlines.set(1, 1000)
    desk.deadlines.set(2, 1000)
    desk.deadlines.cancel(1)
    desk.deadlines.set(2, 5000)
    desk.advance(1000)
    assert desk.over == []
    desk.advance(4000)
    assert desk.over == [2]


def test_thousands_at_one_time_are_called_over_many_rounds() -> None:
    desk = Desk()
    for number in range(1000):
        desk.deadlines.set(number, 1000)
    desk.advance(1000)
    assert len(desk.over) == COST_AT_ONCE
    rounds = 1
    while desk.host.soon:
        before = len(desk.over)
        desk.host.soon.popleft()()
        assert len(desk.over) - before <= COST_AT_ONCE
        rounds += 1
    assert desk.over == list(range(1000))
    assert rounds >= 1000 // COST_AT_ONCE


def test_costly_ones_have_a_round_for_themselves() -> None:
    desk = Desk(cost=10_000)
    for number in range(3):
        desk.deadlines.set(number, 1000)
    desk.advance(1000)
    assert desk.over == [0]


def test_one_that_comes_while_others_are_called_is_not_forgotten() -> None:
    desk = Desk(cost=COST_AT_ONCE)
    desk.deadlines.set(1, 1000)
    desk.deadlines.set(2, 1000)
    desk.advance(1000)
    desk.deadlines.set(3, 0)
    desk.host.soon.popleft()()
    while desk.host.soon:
        desk.host.soon.popleft()()
    desk.advance(0)
    assert sorted(desk.over) == [1, 2, 3]


def test_those_that_ended_long_before_their_time_take_no_memory() -> None:
    desk = Desk()
    for number in range(20 * STALE_MAX):
        desk.deadlines.set(number, 3_600_000)
        desk.deadlines.cancel(number)
    assert len(desk.host.timers) < 10
    assert len(desk.deadlines._heap) <= STALE_MAX + 1


def test_after_a_stop_nobody_is_called() -> None:
    desk = Desk()
    desk.deadlines.set(1, 1000)
    desk.deadlines.stop()
    desk.advance(1000)
    assert desk.over == []
