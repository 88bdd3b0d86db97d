"""Ack state that is looked at from somewhere in the middle on."""

from magnetar.ack import Cursor, Ledgers
from magnetar.model import Position
from magnetar.model.message_id_data import MessageIdData


def test_partly_acked_batches_are_listed_from_a_position_on() -> None:
    ledgers = Ledgers()
    for ledger_id in (5, 7, 9):
        ledgers.add(ledger_id, 10)
    cursor = Cursor(ledgers, Position(5, -1))
    assert cursor.last_touched() is None
    inside = [(5, 2), (5, 4), (9, 0), (9, 3)]
    ids = [MessageIdData(ledger, entry, -1, 0, None, 2) for ledger, entry in inside]
    ids.append(MessageIdData(7, 1))
    cursor.apply(cursor.plan_messages(ids))

    def from_on(start: Position | None) -> list[tuple[int, int]]:
        return [(p.ledger_id, p.entry_id) for p, left, size in cursor.partly_acked(start)]

    assert from_on(None) == from_on(Position(-1, -1)) == from_on(Position(5, 2)) == inside
    assert from_on(Position(5, 3)) == inside[1:]
    assert from_on(Position(5, 5)) == from_on(Position(7, 0)) == inside[2:]
    assert from_on(Position(9, 1)) == inside[3:]
    assert from_on(Position(9, 4)) == []
    assert cursor.last_touched() == Position(9, 3)
    cursor.apply(cursor.plan_messages([MessageIdData(9, 8)]))
    assert cursor.last_touched() == Position(9, 8)
    cursor.apply(cursor.plan_clear())
    assert cursor.last_touched() is None
