"""A topic that is nothing but numbers, and the ack state as a plain set of messages."""

from magnetar.ack import AckDelta, BatchSizes, Cursor, Ledgers
from magnetar.model.message_id_data import MessageIdData
from magnetar.model.position import Position

Message = tuple[int, int, int]


class Sizes(BatchSizes):
    """Batch sizes from a table, which tests fill."""

    def __init__(self) -> None:
        self.ledgers: dict[int, list[int]] = {}

    def batch_size(self, ledger_id: int, entry_id: int) -> int:
        return self.ledgers[ledger_id][entry_id]


class Topic:
    """Ledgers with entries of known batch sizes."""

    def __init__(self) -> None:
        self.sizes = Sizes()
        self.ledgers = Ledgers(self.sizes)

    def open_ledger(self, ledger_id: int, *batch_sizes: int) -> None:
        self.sizes.ledgers[ledger_id] = []
        self.ledgers.add(ledger_id)
        self.publish(ledger_id, *batch_sizes)

    def publish(self, ledger_id: int, *batch_sizes: int) -> None:
        self.sizes.ledgers[ledger_id].extend(batch_sizes)
        self.ledgers.grow(ledger_id, len(self.sizes.ledgers[ledger_id]))

    def trim(self, ledger_id: int) -> None:
        self.ledgers.remove(ledger_id)
        del self.sizes.ledgers[ledger_id]

    def entries(self) -> list[Position]:
        return [
            Position(ledger_id, entry_id)
            for ledger_id in sorted(self.sizes.ledgers)
            for entry_id in range(len(self.sizes.ledgers[ledger_id]))
        ]

    def size(self, position: Position) -> int:
        return self.sizes.ledgers[position.ledger_id][position.entry_id]

    def messages_of(self, position: Position) -> set[Message]:
        return {(position.ledger_id, position.entry_id, i) for i in range(self.size(position))}

    def messages_through(self, position: Position) -> set[Message]:
        return {m for p in self.entries() if p <= position for m in self.messages_of(p)}

    def messages(self) -> set[Message]:
        return {m for p in self.entries() for m in self.messages_of(p)}

    def cursor(self) -> Cursor:
        """A cursor that has everything before it."""
        return Cursor(self.ledgers, self.ledgers.previous(Position(-1, -1)))


def topic_of(*batch_sizes: int) -> Topic:
    """A topic with one ledger, number 5."""
    topic = Topic()
    topic.open_ledger(5, *batch_sizes)
    return topic


def entry(ledger_id: int, entry_id: int) -> MessageIdData:
    return MessageIdData(ledger_id, entry_id)


def partly(ledger_id: int, entry_id: int, *remaining: int, batch_size: int = 0) -> MessageIdData:
    """An id as an ACK carries it: the named indexes stay unacked."""
    bits = sum(1 << index for index in remaining)
    return MessageIdData(ledger_id, entry_id, ack_set=bits, batch_size=batch_size)


def message(ledger_id: int, entry_id: int, batch_index: int, batch_size: int = 0) -> MessageIdData:
    return MessageIdData(ledger_id, entry_id, batch_index=batch_index, batch_size=batch_size)


def ack(cursor: Cursor, *ids: MessageIdData) -> AckDelta:
    """Plans and applies individual acks."""
    delta = cursor.plan_acks(list(ids))
    assert cursor.apply(delta)
    cursor.check()
    return delta


def ack_through(cursor: Cursor, id: MessageIdData) -> AckDelta:
    """Plans and applies a cumulative ack."""
    delta = cursor.plan_cumulative(id)
    assert cursor.apply(delta)
    cursor.check()
    return delta


def unacked(cursor: Cursor, topic: Topic) -> set[Message]:
    """What the cursor says is left, message by message."""
    left: set[Message] = set()
    for position, remaining in cursor.unacked():
        for ledger_id, entry_id, index in topic.messages_of(position):
            if remaining is None or remaining >> index & 1:
                left.add((ledger_id, entry_id, index))
    return left


def assert_left(cursor: Cursor, topic: Topic, expected: set[Message]) -> None:
    """Iteration, counts, questions and the cursor's own check all agree with a plain set."""
    cursor.check()
    entries = {(ledger_id, entry_id) for ledger_id, entry_id, _ in expected}
    assert unacked(cursor, topic) == expected
    assert cursor.unacked_messages() == len(expected)
    assert cursor.unacked_entries() == len(entries)
    partial = 0
    for position in topic.entries():
        all_of_it = topic.messages_of(position)
        left = all_of_it & expected
        assert cursor.is_acked(position) == (not left)
        bits = sum(1 << index for _, _, index in left)
        untouched = left == all_of_it
        assert cursor.remaining(position) == (None if untouched else bits)
        partial += 0 < len(left) < len(all_of_it)
        for one in all_of_it:
            assert cursor.is_acked(position, one[2]) == (one not in left)
    assert cursor.partial_entries() == partial
    following = topic.ledgers.next(cursor.mark_delete)
    first = min(entries, default=None)
    assert first == (None if following is None else (following.ledger_id, following.entry_id))
