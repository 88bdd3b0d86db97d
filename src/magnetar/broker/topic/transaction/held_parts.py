"""What holders of batches have of them, while others' parts are pending in transactions.

Only such entries are here. Of any other a holder has all that is unacked.

| an abort frees a part that the holder | then the entry                                        |
|---------------------------------------|-------------------------------------------------------|
| has: it was sent it before the ack    | stays with it, for it has all of it                   |
| acked itself                          | is taken from it and comes again, as after a negative |
|                                       | ack: clients let go of the whole entry                |
| was never sent                        | is lacked by it: where order does not matter the      |
|                                       | entry is taken from it as well, else it is sent to it |
|                                       | once more (`lacking.py`)                              |

So an abort never takes from a consumer what it is at work on to give it to the key's next one.
"""

from typing import TYPE_CHECKING, Final, final

from magnetar.broker.topic.consumer import Consumer
from magnetar.broker.topic.transaction.lacking import Lacking
from magnetar.model import Position
from magnetar.wire.ack_set import all_unacked

if TYPE_CHECKING:
    from magnetar.broker.topic.subscription import Subscription

__all__ = ["ENOUGH", "LACKED", "LOST", "HeldParts"]

ALL: Final = -1

# What an abort means for who holds an entry.
ENOUGH: Final = 0
LACKED: Final = 1
LOST: Final = 2


@final
class _Part:
    """Of one entry: who has it, which indexes of it are in hand, and which it acked itself."""

    def __init__(self, holder: Consumer, has: int) -> None:
        self.holder: Final = holder
        self.has: int = has
        self.own: int = 0


@final
class HeldParts:
    """See the module. Indexes are bits.

    `owners` says who has an entry.
    """

    def __init__(self, subscription: "Subscription", owners: dict[int, Consumer]) -> None:
        self._subscription: Final = subscription
        self._owners: Final = owners
        self._parts: Final[dict[int, _Part]] = {}
        self.lacking: Final = Lacking()

    def __contains__(self, key: int) -> bool:
        return key in self._parts

    def sent(self, key: int, holder: Consumer, part: int | None) -> None:
        """A holder is sent what of an entry is neither acked nor pending; None is all."""
        if part is None or part == self._subscription.cursor.remaining(self._position(key)):
            self._parts.pop(key, None)
        else:
            self._parts[key] = _Part(holder, part)

    def acked(self, key: int, indexes: int, by: Consumer) -> None:
        """A consumer acked indexes of an entry, which are pending."""
        holder = self._owners.get(key)
        if holder is None:
            return
        part = self._part(key, holder)
        if part is None:
            unacked = self._subscription.cursor.remaining(self._position(key))
            part = self._parts[key] = _Part(holder, ALL if unacked is None else unacked)
        if by is holder:
            part.has &= ~indexes
            part.own |= indexes

    def keep(self, key: int, holder: Consumer, free: int) -> bool:
        """So much of an entry is neither acked nor pending; False if its holder has none of it."""
        part = self._part(key, holder)
        left = free if part is None else free & part.has
        if left != 0:
            holder.keep_unacked(key, left.bit_count())
        if left == free:
            self.lacking.discard(key)
        return left != 0

    def freed(self, key: int, holder: Consumer) -> int:
        """An abort frees a part of an entry: its holder has it, lacks it, or loses the entry."""
        part, free = self._part(key, holder), self._free(key)
        if part is None or free & part.has == 0 or free & part.own & ~part.has != 0:
            return LOST
        holder.have_again(key, (free & part.has).bit_count())
        return LACKED if free & ~part.has != 0 else ENOUGH

    def forget(self, key: int) -> None:
        """Nobody has the entry any more, or its holder has all of it."""
        self._parts.pop(key, None)
        if len(self.lacking) > 0:
            self.lacking.discard(key)

    def clear(self) -> None:
        self._parts.clear()
        self.lacking.clear()

    def _part(self, key: int, holder: Consumer) -> _Part | None:
        part = self._parts.get(key)
        return part if part is not None and part.holder is holder else None

    def _free(self, key: int) -> int:
        """Which indexes of an entry are neither acked nor pending."""
        position = self._position(key)
        free = self._subscription.pending.deliverable(position)
        return all_unacked(self._subscription.batch_size(position)) if free is None else free

    def _position(self, key: int) -> Position:
        return self._subscription.topic.ledgers.position(key)
