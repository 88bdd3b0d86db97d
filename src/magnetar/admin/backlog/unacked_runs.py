"""What a cursor has not acked, run by run; however long, nothing is read for it."""

from collections.abc import Iterator
from typing import Final

from magnetar.ack import Cursor, Run
from magnetar.model import Position

__all__ = ["unacked_runs"]

RUN_ENTRIES_MAX: Final = 1 << 30


def unacked_runs(cursor: Cursor, start: Position) -> Iterator[Run]:
    """Consecutive unacked entries from a position on, in order, within a ledger each."""
    run = cursor.next_run(start, RUN_ENTRIES_MAX)
    while run is not None:
        yield run
        run = cursor.next_run(Position(run.ledger_id, run.end), RUN_ENTRIES_MAX)
