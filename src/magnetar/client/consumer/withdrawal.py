"""Messages that the broker takes back (WITHDRAW): an operator skipped them.

Whatever keeps messages that the application was not handed drops those that a withdrawal
`takes`; what was dropped is what the answer says was given back. All else of it was handed
out, or is not here any more.
"""

from typing import Final, final

from magnetar.client.consumer.message import Message
from magnetar.model.position_key import wide_key
from magnetar.wire.ack_set import all_unacked
from magnetar.wire.integer import signed

__all__ = ["Withdrawal", "whole_entries"]


def whole_entries(runs: list[int], count_max: int) -> dict[int, int]:
    """Entries that are taken whole, by key, of runs: ledger, first entry and count of each.

    And no more than so many, whatever a broker says.
    """
    kept: dict[int, int] = {}
    left = count_max
    for i in range(0, len(runs) - 2, 3):
        first = wide_key(signed(runs[i]), signed(runs[i + 1]))
        count = min(signed(runs[i + 2]), left)
        for key in range(first, first + count):
            kept[key] = 0
        left -= max(count, 0)
    return kept


@final
class Withdrawal:
    """See the module. `kept` says of each entry, by key, what of it is not taken; 0 is nothing."""

    def __init__(self, kept: dict[int, int]) -> None:
        self.kept: Final = kept
        # What of each entry was not given back.
        self._left: Final[dict[int, int]] = {}

    def concerns(self, message: Message) -> bool:
        """Returns whether something of its entry is taken, or of the chunks that it came in."""
        delivery = message._delivery
        return delivery.key in self.kept or delivery.chunks is not None

    def takes(self, message: Message) -> bool:
        """Returns whether the message is one of these; then it counts as given back."""
        delivery = message._delivery
        if delivery.chunks is not None:
            return self.takes_chunks(delivery.chunks)
        kept = self.kept.get(delivery.key)
        index = int(max(message._index, 0))
        if kept is None or kept >> index & 1:
            return False
        left = self._left.get(delivery.key)
        if left is None:
            left = all_unacked(int(max(delivery.batch_size, 1)))
        self._left[delivery.key] = left & ~(1 << index)
        return True

    def takes_chunks(self, keys: list[int]) -> bool:
        """Returns whether a message in chunks is one of these; its chunks go together."""
        found = [key for key in keys if key in self.kept]
        for key in found:
            self._left[key] = 0
        return len(found) > 0

    def given_back(self) -> dict[int, int]:
        """For the answer, in the form of the question: what of each entry was not."""
        return self._left

    @property
    def all_given_back(self) -> bool:
        """Whether nothing was handed out, of entries that are all taken whole."""
        if len(self._left) < len(self.kept):
            return False
        for key in self.kept:
            if self.kept[key] != 0 or self._left.get(key, 1) != 0:
                return False
        return True
