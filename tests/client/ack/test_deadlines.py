"""Deadlines against a plain dict."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.ack.deadlines import STALE_MAX, Deadlines

KEYS = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS, st.integers(0, 50)),
        st.tuples(st.just("remove"), KEYS, st.just(0)),
        st.tuples(st.just("through"), KEYS, st.just(0)),
        st.tuples(st.just("due"), st.just(0), st.integers(0, 50)),
        st.tuples(st.just("clear"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_deadlines_are_a_dict_in_order_of_time(steps: list[tuple[str, int, int]]) -> None:
    deadlines = Deadlines()
    model: dict[int, int] = {}
    for verb, key, ms in steps:
        if verb == "add":
            deadlines.add(key, ms)
            model[key] = min(ms, model.get(key, ms))
        elif verb == "remove":
            deadlines.remove(key)
            model.pop(key, None)
        elif verb == "through":
            deadlines.remove_through(key)
            model = {other: due for other, due in model.items() if other > key}
        elif verb == "clear":
            deadlines.clear()
            model.clear()
        else:
            due = sorted((due, other) for other, due in model.items() if due <= ms)
            assert deadlines.take_due(ms) == [other for _, other in due]
            model = {other: due for other, due in model.items() if due > ms}
        assert len(deadlines) == len(model)
        assert deadlines.next_ms() == min(model.values(), default=None)
        assert all(other in deadlines for other in model)


def test_a_cumulative_ack_ends_what_it_covers() -> None:
    deadlines = Deadlines()
    for key in (3, 1, 2):
        deadlines.add(key, 10)
    deadlines.remove_through(2)
    assert deadlines.take_due(10) == [3]


def test_what_was_removed_does_not_pile_up() -> None:
    deadlines = Deadlines()
    for ms in range(1000):
        deadlines.add(1, ms)
        deadlines.remove(1)
    assert len(deadlines._heap) <= STALE_MAX + 2
