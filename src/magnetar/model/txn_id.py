"""The id of a transaction: 128 bits in two halves; the first is the number of its coordinator."""

import re
from typing import Final, final

from mypy_extensions import i64

from magnetar.errors import UsageError

__all__ = ["TxnId"]

_TEXT: Final = re.compile(r"\(?(-?[0-9]{1,19})[,:](-?[0-9]{1,19})\)?")
_HALF_MAX: Final = (1 << 63) - 1


@final
class TxnId:
    """A value. Its text is Pulsar's: `(most,least)`."""

    __slots__ = ("least", "most")

    def __init__(self, most: i64, least: i64) -> None:
        self.most: Final[i64] = most
        self.least: Final[i64] = least

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TxnId) and self.most == other.most and self.least == other.least

    def __hash__(self) -> int:
        return hash((int(self.most), int(self.least)))

    @staticmethod
    def parse(text: str) -> "TxnId":
        """Returns the id that has this text, or the shorter `most:least`. Raises UsageError.

        >>> TxnId.parse("(0,7)"), TxnId.parse("0:7")
        (TxnId(0, 7), TxnId(0, 7))
        """
        match = _TEXT.fullmatch(text.replace(" ", ""))
        if match is not None:
            most, least = int(match[1]), int(match[2])
            if abs(most) <= _HALF_MAX and abs(least) <= _HALF_MAX:
                return TxnId(most, least)
        raise UsageError(f"{text!r:.40} is not the id of a transaction: write it as 0:17 or (0,17)")

    def __str__(self) -> str:
        return f"({self.most},{self.least})"

    def __repr__(self) -> str:
        return f"TxnId({self.most}, {self.least})"

    def __reduce__(self) -> tuple[object, ...]:
        return TxnId, (int(self.most), int(self.least))
