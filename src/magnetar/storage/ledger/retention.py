"""Which ledgers may go: those that are acked, unless retention keeps them.

As in Pulsar: retention applies to whole, fully acked ledgers, oldest first. With 0 for
time and size a ledger goes as soon as it is acked; -1 means without limit; otherwise it
goes when it is older than the time *or* the topic holds more than the size. The ledger
that is being written to never goes, nor anything behind the slowest cursor.
"""

from typing import Final, final

from magnetar.model import Position

__all__ = ["LedgerInfo", "Retention", "ledgers_to_trim"]

UNLIMITED: Final = -1


@final
class Retention:
    def __init__(self, *, time_ms: int = 0, size_bytes: int = 0) -> None:
        self.time_ms: Final = time_ms
        self.size_bytes: Final = size_bytes


@final
class LedgerInfo:
    """What a topic knows of one of its ledgers."""

    def __init__(
        self,
        id: int,
        *,
        entries: int,
        size_bytes: int,
        created_ms: int,
        sealed: bool,
        sealed_ms: int,
    ) -> None:
        self.id: Final = id
        self.entries: Final = entries
        self.size_bytes: Final = size_bytes
        self.created_ms: Final = created_ms
        self.sealed: Final = sealed
        self.sealed_ms: Final = sealed_ms

    def __repr__(self) -> str:
        return f"<ledger {self.id} of {self.entries} entries>"


def ledgers_to_trim(
    ledgers: list[LedgerInfo], mark_delete: Position | None, retention: Retention, now_ms: int
) -> list[int]:
    """Returns the ids of the ledgers that may go, oldest first.

    `mark_delete` is the mark-delete position of the slowest durable cursor, None if the
    topic has no cursor: then nothing holds a ledger but retention.
    """
    total = sum([ledger.size_bytes for ledger in ledgers])
    out: list[int] = []
    for ledger in ledgers:
        if not ledger.sealed or not _acked(ledger, mark_delete):
            break
        if not _expired(ledger, retention, total, now_ms):
            break
        total -= ledger.size_bytes
        out.append(ledger.id)
    return out


def _acked(ledger: LedgerInfo, mark_delete: Position | None) -> bool:
    return mark_delete is None or Position(ledger.id, ledger.entries - 1) <= mark_delete


def _expired(ledger: LedgerInfo, retention: Retention, total: int, now_ms: int) -> bool:
    too_old = retention.time_ms != UNLIMITED and now_ms - ledger.sealed_ms >= retention.time_ms
    too_big = retention.size_bytes != UNLIMITED and total > retention.size_bytes
    return too_old or too_big
