"""The order of a key survives whatever workers refuse, brokers redeliver and operators skip."""

from collections import deque

from hypothesis import example, given
from hypothesis import strategies as st

from examples.demo.facts import Place
from examples.demo.turns import Turns

STEPS = ("dispatch", "dispatch", "work", "work", "due", "skip", "reconnect", "elsewhere")


class Key:
    """One key of a Key_Shared subscription: a broker, a worker, and what lies between."""

    def __init__(self, refusals: list[int]) -> None:
        self.new = deque(range(len(refusals)))
        self.refusals = refusals  # how often each is refused before it can be handled
        self.replay: set[int] = set()
        self.inbox: deque[int] = deque()
        self.refused: deque[int] = deque()  # not asked for again yet
        self.handled: list[int] = []
        self.skipped: set[int] = set()
        self.turns = Turns()

    def dispatch(self) -> None:
        """The broker sends what waits for redelivery, in order, before anything new."""
        if self.replay:
            number = min(self.replay)
            self.replay.remove(number)
            self.inbox.append(number)
        elif self.new:
            self.inbox.append(self.new.popleft())

    def work(self) -> None:
        if not self.inbox:
            return
        number = self.inbox.popleft()
        place = Place(5, number, -1)
        if self.turns.may_handle("k", place):
            if not self.refusals[number]:
                self.turns.handled("k", place)
                self.handled.append(number)
                return
            self.refusals[number] -= 1
        self.turns.refused("k", place)
        self.refused.append(number)

    def due(self) -> None:
        if self.refused:
            self.replay.add(self.refused.popleft())

    def skip(self) -> None:
        """An operator removes the first that is to come again; it comes to nobody."""
        waiting = sorted({*self.refused, *self.replay})
        if waiting:
            number = waiting[0]
            self.replay.discard(number)
            if number in self.refused:
                self.refused.remove(number)
            self.skipped.add(number)

    def reconnect(self) -> None:
        """All that the worker had comes again."""
        self.replay |= {*self.inbox, *self.refused}
        self.inbox.clear()
        self.refused.clear()

    def elsewhere(self) -> None:
        """For a moment another worker has the key."""
        self.reconnect()
        if self.replay:
            number = min(self.replay)
            self.replay.remove(number)
            self.handled.append(number)


@example([0, 0], ["dispatch", "dispatch", "reconnect", "dispatch", "skip"])
@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=8),
    st.lists(st.sampled_from(STEPS), max_size=80),
)
def test_a_key_is_handled_in_order_and_to_its_end(refusals: list[int], steps: list[str]) -> None:
    key = Key(list(refusals))
    for step in steps:
        getattr(key, step)()
    for _ in range(20 * len(refusals) ** 2):
        for step in ("dispatch", "work", "due"):
            getattr(key, step)()
    assert key.handled == [n for n in range(len(refusals)) if n not in key.skipped]


def test_keys_do_not_wait_for_each_other() -> None:
    turns = Turns()
    turns.refused("a", Place(5, 0, -1))
    assert not turns.may_handle("a", Place(5, 1, -1))
    assert turns.may_handle("b", Place(5, 2, -1))
