"""Which ledgers go: acked, whole, oldest first, and not before retention allows it."""

import pytest

from magnetar.model import Position
from magnetar.storage import LedgerInfo, Retention
from magnetar.storage.ledger.retention import ledgers_to_trim

NOW = 1_000_000


def ledger(id: int, *, age_ms: int = 100, size: int = 10, sealed: bool = True) -> LedgerInfo:
    return LedgerInfo(
        id,
        entries=5,
        size_bytes=size,
        created_ms=0,
        sealed=sealed,
        sealed_ms=NOW - age_ms if sealed else 0,
    )


LEDGERS = [
    ledger(1, age_ms=300),
    ledger(2, age_ms=200),
    ledger(3, age_ms=100),
    ledger(4, sealed=False),
]


@pytest.mark.parametrize(
    ("mark_delete", "gone"),
    [
        (Position(-1, -1), []),
        (Position(1, 3), []),
        (Position(1, 4), [1]),
        (Position(3, 3), [1, 2]),
        (Position(4, 4), [1, 2, 3]),
        (None, [1, 2, 3]),
    ],
)
def test_only_ledgers_acked_to_their_end_go(mark_delete: Position | None, gone: list[int]) -> None:
    assert ledgers_to_trim(LEDGERS, mark_delete, Retention(), NOW) == gone


@pytest.mark.parametrize(
    ("time_ms", "size_bytes", "gone"),
    [
        (0, 0, [1, 2, 3]),
        (-1, -1, []),
        (200, -1, [1, 2]),
        (201, -1, [1]),
        (-1, 25, [1, 2]),
        (-1, 30, [1]),
        (-1, 40, []),
        (250, 25, [1, 2]),
        (0, -1, [1, 2, 3]),
        (-1, 0, [1, 2, 3]),
    ],
)
def test_acked_ledgers_go_when_too_old_or_too_many(
    time_ms: int, size_bytes: int, gone: list[int]
) -> None:
    retention = Retention(time_ms=time_ms, size_bytes=size_bytes)
    assert ledgers_to_trim(LEDGERS, None, retention, NOW) == gone


def test_a_young_ledger_keeps_those_behind_it() -> None:
    ledgers = [ledger(1, age_ms=10), ledger(2, age_ms=500)]
    assert ledgers_to_trim(ledgers, None, Retention(time_ms=100, size_bytes=-1), NOW) == []
