"""Consecutive entries of one ledger, as a reader fetches them."""

from typing import Final, final

from mypy_extensions import i64


@final
class Run:
    """Entries `first` to `end` - 1 of a ledger; never empty."""

    __slots__ = ("end", "first", "ledger_id")

    def __init__(self, ledger_id: i64, first: i64, end: i64) -> None:
        self.ledger_id: Final[i64] = ledger_id
        self.first: Final[i64] = first
        self.end: Final[i64] = end

    def _key(self) -> tuple[int, int, int]:
        return (self.ledger_id, self.first, self.end)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Run{self._key()}"

    def __reduce__(self) -> tuple[type["Run"], tuple[object, ...]]:
        return (Run, self._key())
