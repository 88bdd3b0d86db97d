"""The state of an entry's acks: a table that is code."""

import ast
from pathlib import Path

import pytest
from client.ack_bench import Bench, RetryBench

from magnetar.client.ack import entry_state
from magnetar.client.ack.entry_acks import EntryAcks
from magnetar.client.ack.entry_state import (
    ADDED,
    DROPPED,
    DUE,
    EVENTS,
    FOLLOWED,
    HURRIED,
    HURRY,
    IDLE,
    IN_FLIGHT,
    LANDED,
    NO,
    PENDING,
    PUT_OFF,
    SENT,
    TABLE,
    TWICE,
    WAITING,
    WRITTEN,
)
from magnetar.model import ServerError

STATES = {
    "idle": IDLE,
    "pending": PENDING,
    "waiting": WAITING,
    "in flight": IN_FLIGHT,
    "followed": FOLLOWED,
    "hurried": HURRIED,
    "twice": TWICE,
}
NAMES = {
    "added": ADDED,
    "sent": SENT,
    "written": WRITTEN,
    "landed": LANDED,
    "put off": PUT_OFF,
    "due": DUE,
    "dropped": DROPPED,
    "hurry": HURRY,
}


def test_the_table_has_a_row_for_each_state_and_a_cell_for_each_event() -> None:
    assert [row[0] for row in TABLE] == list(range(len(STATES))) == list(STATES.values())
    assert {len(row) for row in TABLE} == {EVENTS + 1}
    assert list(NAMES.values()) == list(range(EVENTS))


def test_the_docstring_explains_every_state_and_event() -> None:
    # A compiled module has no docstring, so the source is read.
    source = Path(__file__).parents[3] / "src/magnetar/client/ack/entry_state.py"
    document = ast.get_docstring(ast.parse(source.read_text())) or ""
    rows = [line.split("|")[1].strip() for line in document.splitlines() if line[:2] == "| "]
    assert rows == ["state", *STATES, "event", *NAMES]


@pytest.mark.parametrize("state", STATES.values())
@pytest.mark.parametrize("event", NAMES.values())
def test_what_is_not_in_the_table_is_a_mistake(state: int, event: int) -> None:
    record = EntryAcks(7, 1, 3, 0b111)
    record.state = state
    following = TABLE[state][event + 1]
    if following == NO:
        with pytest.raises(AssertionError):
            record.move(event)
    else:
        record.move(event)
        assert record.state == following


def test_every_state_is_reached_and_left() -> None:
    for state in STATES.values():
        following = [cell for cell in TABLE[state][1:] if cell not in (NO, state)]
        before = [row[0] for row in TABLE if row[0] != state and state in row[1:]]
        assert following
        assert before


def test_the_way_of_an_entry_whose_ack_fails_once_and_is_then_kept() -> None:
    bench = RetryBench()
    record = bench.acks.records.find(7, 1, 3, 0b111)
    assert record.state == IDLE
    bench.ack(1, 0, 3)
    assert record.state == PENDING
    bench.acks.flush()
    assert record.state == IN_FLIGHT
    bench.ack(1, 1, 3)
    assert record.state == FOLLOWED
    bench.answer_all(ServerError.PersistenceError)
    assert record.state == WAITING
    bench.pass_time(100)
    assert record.state == IN_FLIGHT
    bench.answer_all()
    assert record.state == IDLE


def test_what_is_acked_while_two_acks_are_in_flight_follows() -> None:
    for bench in (Bench(receipts=True), RetryBench()):
        bench.ack(1, 0, 4)
        bench.acks.flush()
        bench.ack(1, 1, 4)
        bench.acks.flush_all()
        record = bench.acks.records.find(7, 1, 4, 0b1111)
        assert record.state == TWICE
        bench.ack(1, 2, 4)
        bench.answer(1)
        bench.answer(2)
        assert record.state == PENDING
        bench.acks.flush()
        bench.answer(3)
        assert record.state == IDLE
        assert bench.acks.unconfirmed == 0


def test_without_receipts_what_was_written_is_received() -> None:
    bench = Bench()
    bench.ack(1, 0, 3)
    record = bench.acks.records.find(7, 1, 3, 0b111)
    bench.acks.flush()
    assert (record.state, record.unconfirmed(), record.live) == (IDLE, 0, True)
    bench.ack(1, -1, 3)
    bench.acks.flush()
    assert (record.state, record.live) == (IDLE, False)


def test_the_states_from_in_flight_on_have_an_ack_without_an_answer() -> None:
    with_flight = [row[0] for row in TABLE if row[0] == HURRIED or row[LANDED + 1] != NO]
    assert with_flight == [state for state in STATES.values() if state >= entry_state.IN_FLIGHT]
