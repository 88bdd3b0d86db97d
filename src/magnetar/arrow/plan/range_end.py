"""Places between messages of a topic partition: where a range of messages begins or ends.

A place is (ledger, entry, index): everything before that index of that entry is on its
left. Places are ordered as the topic is, and a range of two is half-open: it has the message
at its start and not the one at its end. An entry begins at index 0, so ranges of whole entries
have index 0 on both sides. BEGINNING is left of everything, whatever there is now.

Places are plain tuples, for they travel between processes.
"""

from typing import Final, TypeAlias

from magnetar.errors import SettingsError

__all__ = [
    "BEGINNING",
    "Place",
    "Range",
    "behind_entry",
    "entry_end",
    "parse_place",
]

Place: TypeAlias = tuple[int, int, int]
# Topic partition, start, end.
Range: TypeAlias = tuple[str, Place, Place]

BEGINNING: Final[Place] = (-1, -1, 0)
_NUMBER_MAX: Final = (1 << 63) - 1


def behind_entry(ledger_id: int, entry_id: int) -> Place:
    """Returns the place right behind an entry; behind no entry at all it is the beginning.

    >>> behind_entry(7, 3)
    (7, 4, 0)
    >>> behind_entry(7, -1)
    (7, 0, 0)
    """
    if ledger_id < 0:
        return BEGINNING
    return (ledger_id, entry_id + 1, 0)


def entry_end(end: Place) -> tuple[int, int]:
    """Returns the first entry that a range up to `end` has nothing of.

    >>> entry_end((7, 4, 0)), entry_end((7, 4, 2))
    ((7, 4), (7, 5))
    """
    return (end[0], end[1] + 1 if end[2] > 0 else end[1])


def parse_place(option: str, text: str) -> Place:
    """Reads `ledger:entry` or `ledger:entry:index`. Raises SettingsError.

    >>> parse_place("startingOffsets", "7:4")
    (7, 4, 0)
    """
    parts = text.split(":")
    numbers: list[int] = []
    for part in parts:
        if not part.isascii() or not part.isdigit() or len(part) > 19 or int(part) > _NUMBER_MAX:
            break
        numbers.append(int(part))
    if len(numbers) != len(parts) or len(numbers) not in (2, 3):
        raise SettingsError(
            option, f"{text!r:.80} is not a message id: write ledger:entry or ledger:entry:index"
        )
    return (numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else 0)
