"""Messages that the broker takes back (WITHDRAW): an operator skipped them.

Whatever keeps messages that the application was not handed drops those that a withdrawal
`takes`; what was dropped is what the answer says was given back. All else of it was handed
out, or is not here any more.
"""

from typing import Final, final

from magnetar.client.consumer.message import Message
from magnetar.wire.ack_set import all_unacked

__all__ = ["Withdrawal"]


@final
class Withdrawal:
    """See the module. `kept` says of each entry, by key, what of it is not taken; 0 is nothing."""

    def __init__(self, kept: dict[int, int]) -> None:
        self.kept: Final = kept
        # What of each entry was not given back.
        self._left: Final[dict[int, int]] = {}

    def concerns(self, message: Message) -> bool:
        """Whether something of its entry is taken, or of the chunks that it came in."""
        delivery = message.delivery
        return delivery.key in self.kept or delivery.chunks is not None

    def takes(self, message: Message) -> bool:
        """Whether the message is one of these; then it counts as given back."""
        delivery = message.delivery
        if delivery.chunks is not None:
            return self.takes_chunks(delivery.chunks)
        kept = self.kept.get(delivery.key)
        index = int(max(message.index, 0))
        if kept is None or kept >> index & 1:
            return False
        left = self._left.get(delivery.key)
        if left is None:
            left = all_unacked(int(max(delivery.batch_size, 1)))
        self._left[delivery.key] = left & ~(1 << index)
        return True

    def takes_chunks(self, keys: list[int]) -> bool:
        """The same for chunks of one message, which go together."""
        found = [key for key in keys if key in self.kept]
        for key in found:
            self._left[key] = 0
        return len(found) > 0

    def given_back(self) -> dict[int, int]:
        """For the answer, in the form of the question: what of each entry was not."""
        return self._left
