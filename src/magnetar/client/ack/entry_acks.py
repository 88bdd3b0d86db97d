"""What was acked here of one entry, or through one message, and who waits for it.

An `EntryAcks` says which messages of an entry are unacked; an entry that is no batch has one
of them. `known` is what the broker was last known to hold for unacked, so what is in `known`
and not in `unacked()` was acked here and is not confirmed: by itself (`unconfirmed()`), or by
a cumulative ack through the middle of the entry (`through`). What becomes of an index:

| it is       | in `known` | acked here | in `through` | it becomes                              |
|-------------|------------|------------|--------------|-----------------------------------------|
| unacked     | yes        | no         | no           | unconfirmed, or covered, by an ack      |
| unconfirmed | yes        | yes        | no           | confirmed if the ack is kept; unacked   |
|             |            |            |              | if it failed for good, or was taken     |
|             |            |            |              | back by a negative ack                  |
| covered     | yes        | yes        | yes          | the same, with the cumulative ack; an   |
|             |            |            |              | ack of its own makes it unconfirmed     |
| confirmed   | no         | yes        | no           | unconfirmed by an ack that repeats it   |
| hidden      | no         | no         | no           | unacked if it comes after all;          |
|             |            |            |              | unconfirmed by an ack of its own        |

What the broker left out of a batch that it delivered is `hidden`: it is acked, or a transaction has
acked it that is open and may be aborted. That is not for an ack of the rest to decide, which names
none of it.

An ack that repeats another counts for itself: it may be of a message that came again, to another
consumer, since somebody moved the subscription, and then the first says nothing of it. What is
repeated while the first is in flight (`again`) is not confirmed by that one's answer.

Where the ack of the entry is, as a whole, is its `state`; `entry_state.py` has the table. What a
negative ack does to an index that is unconfirmed:

| state     | a negative ack of an index                                                       |
|-----------|----------------------------------------------------------------------------------|
| pending   | takes it back: it is not sent. If it was the only one, nothing is                |
| in flight | takes it back, and the next ACK does not name it. If the broker keeps the one    |
|           | that is under way it is acked nevertheless: the ack came first                   |
| waiting   | takes it back, and the retry does not name it. If it was the only one, there is  |
|           | no retry any more                                                                |
| idle      | nothing is unconfirmed                                                           |

Whoever waits for an index is told when it is confirmed, by whichever ACK, or unacked again. An
index that is covered is not taken back by a negative ack: there is no cumulative ack of all
but one. Only the ACK of the cumulative ack names what is covered, so that the others, if they
are kept and it is not, do not ack it.

The entries of a message in chunks are acked together or not at all (I6). An ACK that names one of
them names all that are not confirmed, whichever of them it was time for; they fail, wait and are
given up together. Were they tried one by one, some would be kept and others given up: the
application would be told that its ack failed, and the message could never come again whole.

A `Cumulative` is an ack of everything through one message. When acks are sent, and sent again,
the tracker decides.
"""

from collections.abc import Callable
from typing import Final, TypeAlias, final

from mypy_extensions import i64

from magnetar.client.ack.entry_state import EVENTS, IDLE, IN_FLIGHT, NEXT, NO
from magnetar.model.position_key import wide_key

__all__ = ["Cumulative", "Done", "EntryAcks", "Stake", "Waiter"]

Done: TypeAlias = Callable[[Exception | None], object]

_NO_BITS: Final = bytearray()


@final
class Waiter:
    """Who waits for `count` acks; told once, when the last of them has ended."""

    def __init__(self, done: Done, count: i64) -> None:
        self._done: Final = done
        self._left: i64 = count
        self._error: Exception | None = None
        # When he has waited long enough for a connection; None if that is for ever.
        self.due_ms: int | None = None

    def is_late(self, now_ms: int) -> bool:
        return self.due_ms is not None and self.due_ms <= now_ms

    def count_down(self, error: Exception | None) -> bool:
        """Notes that one of them ended; returns whether it was the last."""
        if self._left <= 0:
            return False
        self._left -= 1
        if error is not None and self._error is None:
            self._error = error
        if self._left == 0:
            self._done(self._error)
        return self._left == 0

    def fail(self, error: Exception) -> None:
        """All of them ended with this."""
        if self._left > 0:
            self._left = 0
            self._done(error)


@final
class Stake:
    """Who waits for the ack of one index of an entry; -1 is all of it."""

    def __init__(self, waiter: Waiter, index: i64) -> None:
        self.waiter: Final = waiter
        self.index: Final[i64] = index


@final
class EntryAcks:
    """Which messages of one entry are unacked, and where the acks of the others are."""

    def __init__(
        self, ledger_id: i64, entry_id: i64, batch_size: i64, unacked: int, hidden: int = 0
    ) -> None:
        self.ledger_id: Final[i64] = ledger_id
        self.entry_id: Final[i64] = entry_id
        self.key: Final[int] = wide_key(ledger_id, entry_id)
        self.batch_size: Final[i64] = batch_size
        # A byte is cheaper to change than a long int. What is no batch needs none: the one
        # message of it is unacked if one is left.
        self._bits: bytearray = _NO_BITS
        if batch_size > 0:
            self._bits = bytearray(unacked.to_bytes((batch_size >> 3) + 1, "little"))
        self.left: i64 = unacked.bit_count()
        self.known: int = unacked
        # What did not come with the rest.
        self.hidden: int = hidden
        # What a cumulative ack covers, and no ack of its own, and is not confirmed.
        self.through: int = 0
        # Only `move` changes it.
        self.state: i64 = IDLE
        # What was acked once more while it was in flight.
        self.again: int = 0
        # A message of it came again and was dropped: if the ack fails it must come once more.
        self.held_back: bool = False
        # Of the last chunk of a message that was acked by an id from elsewhere: where that
        # begins. The chunks between are known to the broker, if to anybody.
        self.first_key: int = -1
        # The chunks of the message that it is one of: one ACK names all of them, each time.
        self.chunks: list[EntryAcks] | None = None
        # How often in a row it got no answer, where nobody waits for one.
        self.unanswered: i64 = 0
        self.stakes: list[Stake] | None = None
        # The records that it is one of: a message can be acked by another consumer than its
        # own. One that belongs to nobody is only a memory, of an ACK that is still under way.
        self.owner: object = None

    def move(self, event: i64) -> None:
        following: i64 = NEXT[self.state * EVENTS + event]
        assert following != NO, f"an entry in state {self.state} had event {event}"
        self.state = following

    @property
    def live(self) -> bool:
        """Whether this is still the record of its entry."""
        return self.owner is not None

    def clear(self, index: i64) -> None:
        """Index `index` is acked."""
        if self.through:
            self.through &= ~self.bit_of(index)
        at = index >> 3
        bit: i64 = 1 << (index & 7)
        byte: i64 = self._bits[at]
        if byte & bit:
            self._bits[at] = byte ^ bit
            self.left -= 1
        else:
            self.hidden &= ~self.bit_of(index)
            self._repeat(self.bit_of(index))

    def ack_all(self) -> None:
        """All of it is acked."""
        if self.left == 0 or self.batch_size > 0:
            self._repeat(self.bit_of(-1) & ~self.unacked() & ~self.hidden)
        self.clear_all()

    def _repeat(self, bits: int) -> None:
        """These were acked before: that they are confirmed, or will be, says nothing of now."""
        self.known |= bits
        if self.state >= IN_FLIGHT:
            self.again |= bits

    def renew(self) -> None:
        """An ACK was confirmed: what was acked once more meanwhile is not, by that."""
        self.known |= self.again
        self.again = 0

    def clear_all(self) -> None:
        self.through = 0
        if self.left > 0:
            self.left = 0
            if self.batch_size > 0:
                self._bits = bytearray(len(self._bits))

    def keep(self, unacked: int) -> None:
        """What is not in `unacked` is acked."""
        if self.batch_size == 0:
            if unacked & 1 == 0:
                self.left = 0
            return
        self._put(self.unacked() & unacked)

    def _put(self, left: int) -> None:
        self._bits = bytearray(left.to_bytes((self.batch_size >> 3) + 1, "little"))
        self.left = left.bit_count()

    def cover(self, unacked: int) -> None:
        """As `keep`, by a cumulative ack that is not confirmed."""
        before = self.unacked()
        left = before & unacked
        if left != before:
            self.through |= before ^ left
            if self.batch_size == 0:
                self.left = 0
            else:
                self._put(left)

    def confirm(self, unacked: int) -> None:
        """The broker keeps an ACK that left `unacked`, so that is all there can be."""
        if unacked == 0:
            self.known = 0
            self.clear_all()
            return
        self.known &= unacked
        self.through &= unacked
        if self.unacked() & ~self.known:
            self.keep(self.known)  # a negative ack came too late

    def came_again(self, unacked: int) -> int:
        """The broker delivers it again with `unacked`. Returns what was not acked here, too."""
        self._show(self.hidden & unacked)
        self.keep(unacked)
        self.known &= unacked
        self.through &= unacked
        left = self.unacked()
        if left != unacked:
            self.held_back = True
        return left

    def _show(self, bits: int) -> None:
        """These came after all: they are unacked."""
        if bits:
            self.hidden &= ~bits
            self.known |= bits
            self._put(self.unacked() | bits)

    def take_back(self, bits: int) -> int:
        """These are unacked again, as far as they are not confirmed. Returns those that are."""
        bits &= self.known & ~self.unacked()
        if bits:
            self.through &= ~bits
            self.left += bits.bit_count()
            if self.batch_size > 0:
                unacked = int.from_bytes(self._bits, "little") | bits
                self._bits = bytearray(unacked.to_bytes(len(self._bits), "little"))
        return bits

    def bit_of(self, index: i64) -> int:
        """The bit of an index; of -1, those of all."""
        if index >= 0 and self.batch_size > 0:
            return 1 << int(index)  # an i64 would overflow
        return (1 << max(int(self.batch_size), 1)) - 1

    def unconfirmed(self) -> int:
        """What was acked by itself and is not confirmed."""
        return self.known & ~self.unacked() & ~self.through

    def is_acked(self, index: i64) -> bool:
        if index < 0 or self.batch_size == 0:
            return self.left == 0
        byte: i64 = self._bits[index >> 3]
        return byte >> (index & 7) & 1 == 0

    def unacked(self) -> int:
        return self.left if self.batch_size == 0 else int.from_bytes(self._bits, "little")

    def contradicts(self, batch_size: i64) -> bool:
        """Whether this is the record of an id that told a wrong size, seen by the right one.

        A record of the whole entry (size 0) fits any.
        """
        return self.batch_size != batch_size and self.batch_size > 0 and batch_size > 0

    def is_outdone_by(self, batch_size: i64) -> bool:
        """Whether a record that knows this size is to take its place: it tells another, or none
        and nothing is acked by it, so that it cannot tell the messages of the entry apart."""
        unsized = self.batch_size == 0 and batch_size > 0 and self.left > 0
        return unsized or self.contradicts(batch_size)

    def waited_for(self) -> int:
        """The bits of what somebody waits for."""
        bits = 0
        if self.stakes is not None:
            for stake in self.stakes:
                bits |= self.bit_of(stake.index)
        return bits

    def waited_for_until(self, now_ms: int) -> int:
        """The same of who has waited long enough by now."""
        bits = 0
        if self.stakes is not None:
            for stake in self.stakes:
                if stake.waiter.is_late(now_ms):
                    bits |= self.bit_of(stake.index)
        return bits


@final
class Cumulative:
    """An ack of everything through one message. Index -1 is the whole entry."""

    def __init__(self, ledger_id: i64, entry_id: i64, index: i64, batch_size: i64) -> None:
        self.ledger_id: Final[i64] = ledger_id
        self.entry_id: Final[i64] = entry_id
        self.key: Final[int] = wide_key(ledger_id, entry_id)
        self.index: Final[i64] = -1 if index == batch_size - 1 else index
        self.batch_size: Final[i64] = batch_size
        self.held_back: bool = False
        self.unanswered: i64 = 0
        self.waiters: list[Waiter] = []

    def is_waited_for_until(self, now_ms: int) -> bool:
        """Whether all who wait for it have waited long enough by now."""
        for waiter in self.waiters:
            if not waiter.is_late(now_ms):
                return False
        return len(self.waiters) > 0

    def reaches(self, other: "Cumulative") -> bool:
        """Whether this one acks all that the other does."""
        if self.key != other.key:
            return self.key > other.key
        return self.index < 0 or 0 <= other.index <= self.index

    def take_over(self, other: "Cumulative") -> None:
        """It stands for the other too."""
        self.held_back = self.held_back or other.held_back
        self.waiters = other.waiters + self.waiters
        other.waiters = []

    def unacked(self, key: int, unacked: int) -> int:
        """What it leaves of the `unacked` messages of an entry."""
        if key != self.key:
            return 0 if key < self.key else unacked
        if self.index < 0:
            return 0
        following = int(self.index) + 1  # an i64 would make one of the long int, too
        return unacked >> following << following

    def hold_back(self, key: int, unacked: int) -> int:
        """Returns what `unacked` does, of an entry that came again."""
        left = self.unacked(key, unacked)
        if left != unacked:
            self.held_back = True
        return left
