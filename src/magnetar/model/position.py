"""Where an entry stands: its ledger, and its place in that ledger.

A Pulsar topic is a row of ledgers, each a row of entries. A message id adds to a
position what names one message of it: partition, batch index, chunks.
"""

from typing import Final, final

from mypy_extensions import i64


@final
class Position:
    """(ledger, entry), ordered as the topic is.

    >>> Position(7, 3) < Position(8, 0)
    True
    >>> str(Position(7, 3))
    '7:3'
    """

    __slots__ = ("entry_id", "ledger_id")

    def __init__(self, ledger_id: i64, entry_id: i64) -> None:
        self.ledger_id: Final[i64] = ledger_id
        self.entry_id: Final[i64] = entry_id

    @staticmethod
    def parse(text: str) -> "Position":
        """Reads what `str` writes, as brokers tell positions in REST. Raises ValueError.

        >>> Position.parse("7:3"), Position.parse("-1:-1")
        (Position(7, 3), Position(-1, -1))
        """
        ledger_id, _, entry_id = text.partition(":")
        return Position(int(ledger_id), int(entry_id))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        return self.ledger_id == other.ledger_id and self.entry_id == other.entry_id

    def __hash__(self) -> int:
        return hash((self.ledger_id, self.entry_id))

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        if self.ledger_id != other.ledger_id:
            return self.ledger_id < other.ledger_id
        return self.entry_id < other.entry_id

    def __le__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        return not other < self

    def __gt__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        return other < self

    def __ge__(self, other: object) -> bool:
        if not isinstance(other, Position):
            return NotImplemented
        return not self < other

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"

    def __repr__(self) -> str:
        return f"Position({self.ledger_id}, {self.entry_id})"

    def __reduce__(self) -> tuple[type["Position"], tuple[int, int]]:
        return (Position, (self.ledger_id, self.entry_id))
